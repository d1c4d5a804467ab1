"""Threads of torch in the small networks of routers."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: on matrices this small, several spend their time waiting for one another.

    The setting is the process's, so that nothing may be awaited inside.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
