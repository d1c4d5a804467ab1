"""Faster hooks for a small Llama, tested equal to the plain ones: sampling, and log-probabilities in training.

Both compute what is shared by a group, the prompt, once.
"""
