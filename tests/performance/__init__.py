"""Scripts that measure; each prints its figures and its ratio. Run one as `python -m tests.performance.NAME`."""
