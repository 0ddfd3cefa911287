"""vLLM's bench runs as often as it is asked in one process; what fails is no figure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from tests.benchmarks.vllm_bench import VllmBench

SERVE = """
import json, os, time
time.sleep(0.5)
here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
open(os.path.join(here, "imported"), "w").close()
runs = 0

def add_cli_args(parser):
    for name in ("--num-prompts", "--result-dir", "--result-filename"):
        parser.add_argument(name)
    parser.add_argument("--save-result", action="store_true")
    parser.add_argument("--save-detailed", action="store_true")

def main(args):
    global runs
    runs += 1
    print("Starting initial single prompt test run...")
    if args.num_prompts == "none":
        raise ValueError("Initial test run failed")
    done = int(args.num_prompts)
    told = {"failed": 0, "completed": done, "total_output_tokens": 4 * done, "generated_texts": ["a"] * done,
            "pid": os.getpid(), "runs": runs}
    with open(os.path.join(args.result_dir, args.result_filename), "w") as file:
        json.dump(told, file)
"""
"""In place of vLLM's own module: it asks nobody."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[VllmBench]:
    for name, text in (
        ("vllm/__init__.py", ""),
        ("vllm/benchmarks/__init__.py", ""),
        ("vllm/benchmarks/serve.py", SERVE),
        ("vllm/utils/__init__.py", ""),
        ("vllm/utils/argparse_utils.py", "from argparse import ArgumentParser as FlexibleArgumentParser"),
    ):
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "packages"} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    folder = tmp_path / "runs"
    folder.mkdir()
    process = VllmBench(python, folder)
    yield process
    process.close()


def test_it_has_imported_before_anything_is_timed(bench: VllmBench, tmp_path: Path) -> None:
    assert (tmp_path / "imported").is_file()


def test_one_process_runs_as_often_as_it_is_asked(bench: VllmBench) -> None:
    first, second = (bench.saved(["--num-prompts", str(asked)], asked, 4) for asked in (2, 3))
    assert (first["completed"], second["completed"]) == (2, 3)
    assert (first["runs"], second["runs"]) == (1, 2)
    assert first["pid"] == second["pid"]
    assert "generated_texts" not in second


def test_a_run_that_completed_fewer_is_no_figure(bench: VllmBench) -> None:
    with pytest.raises(RuntimeError, match="completed 2 of 3 requests"):
        bench.saved(["--num-prompts", "2"], 3, 4)


def test_a_run_that_fails_says_why(bench: VllmBench) -> None:
    with pytest.raises(Infeasible, match="Initial test run failed"):
        bench.saved(["--num-prompts", "none"], 3, 4)
