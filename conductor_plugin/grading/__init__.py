"""Grading: answers to verdicts, in worker processes, bounded in time and memory."""
