"""One thread: beside other tests, threads that wait for each other take ten times as long."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)
