"""Every way to draft says, on all held-out prompts, what decoding without a draft says, but for near-ties.

Two methods at a time, each in a process of its own with one thread. `--drafting-page FILE` writes what is
printed to a page.
"""

from __future__ import annotations

import multiprocessing
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from experiments.measurement.content_prompts import CONTENT_CLASSES
from experiments.measurement.environment import package_version
from tests.benchmarks.losslessness import METHODS, NEW_TOKENS, check_method, held_out_prompts
from tests.benchmarks.losslessness_page import page, tables

pytestmark = pytest.mark.bench_only

PROCESSES = 2

PROMPTS_MIN = 240
"""Held-out prompts that there are at least, whatever Python's library says in this version."""


@pytest.mark.timeout(7200)
def test_no_way_to_draft_changes_a_text(request: pytest.FixtureRequest) -> None:
    prompts = held_out_prompts()
    assert len(prompts) >= PROMPTS_MIN
    assert {each.item.partition(":")[0] for each in prompts} == set(CONTENT_CLASSES)
    started_s = time.monotonic()
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        found = []
        for each in pool.map(partial(check_method, requests=prompts), METHODS):
            found.append(each)
            print(f"\n{each.method.name}: {each.divergences} divergences", end="", flush=True)
    took_s = time.monotonic() - started_s
    print(f"\n{len(prompts)} prompts, {took_s:.0f} s\n{tables(found)}")
    written = request.config.getoption("--drafting-page", default=None)
    if written:
        Path(written).write_text(
            page(
                found,
                path=written,
                date=datetime.now(UTC).strftime("%d %B %Y"),
                machine=f"CPU ({platform.machine()}), {multiprocessing.cpu_count()} cores",
                versions=f"torch {package_version('torch')}, transformers "
                f"{package_version('transformers')}, Python {platform.python_version()}",
                took_s=took_s,
            ),
            encoding="utf-8",
        )
    for each in found:
        assert sum(check.positions for check in each.checks) == len(prompts) * (NEW_TOKENS - 1)
        assert each.divergences == 0, each.method.name
