"""Evaluation: every system on the same questions, with the same samples of the same workers, by one executor."""
