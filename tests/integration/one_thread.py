"""The fixture of folders whose tests run models in this process; their conftest.py imports it."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Beside other tests, threads that wait for each other make small operators ten times slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
