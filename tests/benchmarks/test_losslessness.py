"""Every way to draft says, on all held-out prompts, what decoding without a draft says, but for near-ties.

With a compiled step, where there is a C++ compiler, and on a pruned target: on one prompt in four. Two
methods at a time, each in a process of its own with one thread. `--drafting-page FILE` writes what is printed
to a page.
"""

import multiprocessing
import os
import platform
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from experiments.engines.port import GenerationRequest
from experiments.measurement.content_prompts import CONTENT_CLASSES
from experiments.measurement.environment import package_version
from tests.benchmarks.losslessness import (
    FEWER,
    METHODS,
    NEW_TOKENS,
    Method,
    Setting,
    check_method,
    every,
    held_out_prompts,
    plain_texts,
    prepare_targets,
)
from tests.benchmarks.losslessness_page import page, tables

pytestmark = pytest.mark.bench_only

ROOT = Path(__file__).parents[2]

PROCESSES = 2

PROMPTS_MIN = 240
"""Held-out prompts that there are at least, whatever Python's library says in this version."""


def asked_of(
    prompts: Sequence[GenerationRequest], setting: Setting, methods: Sequence[Method]
) -> Sequence[GenerationRequest]:
    """The prompts that any method in this setting is checked on."""
    return every(prompts, min(each.every for each in methods if each.setting == setting))


def shown(path: Path) -> str:
    """The path as a command run in the repository has it; what lies elsewhere, by its name alone."""
    whole = path.resolve()
    return str(whole.relative_to(ROOT)) if whole.is_relative_to(ROOT) else whole.name


@pytest.mark.timeout(7200)
def test_no_way_to_draft_changes_a_text(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    prompts = held_out_prompts()
    assert len(prompts) >= PROMPTS_MIN
    for some in (prompts, every(prompts, FEWER)):
        assert {each.item.partition(":")[0] for each in some} == set(CONTENT_CLASSES)
    methods = [each for each in METHODS if each.setting.mode == "off" or shutil.which("g++")]
    if len(methods) < len(METHODS):
        print("\nThere is no C++ compiler: what has a compiled step is left out.")
    started_s, busy = time.monotonic(), os.getloadavg()[0]
    prepare_targets(tmp_path)
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        texts = {
            setting: pool.submit(plain_texts, setting, asked_of(prompts, setting, methods), tmp_path)
            for setting in dict.fromkeys(each.setting for each in methods)
        }
        checking = [
            pool.submit(
                check_method, each, every(prompts, each.every), texts[each.setting].result(), tmp_path
            )
            for each in methods
        ]
        found = []
        for each in checking:
            found.append(each.result())
            told = found[-1]
            print(f"\n{told.method.name}: {told.divergences} divergences", end="", flush=True)
    took_s = time.monotonic() - started_s
    print(f"\n{len(prompts)} prompts, {took_s:.0f} s\n{tables(found)}")
    written = request.config.getoption("--drafting-page", default=None)
    if written:
        Path(written).write_text(
            page(
                found,
                path=shown(Path(written)),
                date=datetime.now(UTC).strftime("%d %B %Y"),
                machine=f"CPU ({platform.machine()}), {multiprocessing.cpu_count()} cores",
                versions=f"torch {package_version('torch')}, transformers "
                f"{package_version('transformers')}, Python {platform.python_version()}",
                took_s=took_s,
                busy=busy,
            ),
            encoding="utf-8",
        )
    for each in found:
        texts_of = every(prompts, each.method.every)
        assert sum(check.positions for check in each.checks) == len(texts_of) * (NEW_TOKENS - 1)
        assert each.divergences == 0, each.method.name
