"""`autoinfer --help` answers at once: nothing heavy is imported for it."""

import subprocess
import time

from pytest_benchmark.fixture import BenchmarkFixture

from tests.benchmarks.slowness import Promise
from tests.integration.cli.command import command_words

HELP_LIMIT_S = 0.4
"""The target of the architecture for `autoinfer --help`, in seconds."""


def test_help_answers_within_its_limit(benchmark: BenchmarkFixture) -> None:
    took_s: list[float] = []

    def ask() -> None:
        began = time.perf_counter()
        subprocess.run([*command_words(), "--help"], check=True, capture_output=True)
        took_s.append(time.perf_counter() - began)

    benchmark.pedantic(ask, rounds=7, warmup_rounds=1)
    # the least: what other processes of the machine do says nothing here
    Promise("autoinfer --help", HELP_LIMIT_S).hold(min(took_s))
