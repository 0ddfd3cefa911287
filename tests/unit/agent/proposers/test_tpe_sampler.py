"""The sampler is made without a warning, also by several campaigns in threads of one process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent.proposers.tpe_sampler import tpe_sampler

THREADS, EACH = 4, 150


@pytest.fixture
def often_in_turn() -> Iterator[None]:
    """Threads take turns far more often than Python lets them, so that what can be interrupted is."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("often_in_turn")
def test_samplers_are_made_in_several_threads_without_a_warning() -> None:
    def make(first: int) -> int:
        return len([tpe_sampler(first + number, 4, constant_liar=True) for number in range(EACH)])

    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(make, range(0, THREADS * EACH, EACH))) == THREADS * EACH
