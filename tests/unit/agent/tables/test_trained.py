"""What a trial of trained weights costs is told by what it does once and what it does each time."""

from typing import Any

import pytest

from agent.tables.prepared import Prepared
from agent.tables.trained import trained_columns

BUILDS = [{"kind": "build", "artifact": name, "processor_s": 4.0} for name in ("pruned", "quantized")]
QUALITY = {
    "kind": "quality",
    "key": "q",
    "bits_per_byte": 1.0,
    "kl_nats": 0.1,
    "tasks_solved": None,
    "load_processor_s": 3.0,
    "processor_s": 9.0,
}
DRAFTING = {"kind": "drafting", "key": "d", "processor_s": 4.5}
COMPILE = {"kind": "compile", "key": "c", "processor_s": 40.0}


def columns(drafting: str | None, code: str | None, builds: list[str]) -> dict[str, Any]:
    ready = {
        "kind": "ready",
        "load": "L",
        "builds": builds,
        "checkpoint": builds[-1] if builds else "original",
        "quality": "q",
        "drafting": drafting,
        "compile": code,
    }
    request = {"start_us": 0, "ttft_us": 10_000, "gaps_us": [1_000]}
    cell = {"control": "other", "batch": "b", "run_s": 2.0, "requests": [request]}
    return trained_columns([cell], {}, Prepared([*BUILDS, QUALITY, DRAFTING, COMPILE, ready]), "L")


@pytest.mark.parametrize(
    ("drafting", "code", "builds", "costs"),
    [
        (None, None, [], (0, None, 12.0, 14.0)),
        ("d", None, [], (0, None, 16.5, 18.5)),
        ("d", "c", ["pruned", "quantized"], (8.0, 40.0, 16.5, 18.5)),
    ],
)
def test_costs_are_those_of_all_stages_of_the_first_launch_and_of_each_evaluation(
    drafting: str | None, code: str | None, builds: list[str], costs: tuple[object, ...]
) -> None:
    told = columns(drafting, code, builds)
    assert tuple(told[name] for name in ("build_s", "compile_s", "evaluate_s", "run_s")) == costs
    assert (told["build"], told["compile_build"]) == (builds[-1] if builds else None, code)
