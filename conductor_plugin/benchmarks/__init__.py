"""Benchmarks: one small reader a set, each yields `Question`s."""
