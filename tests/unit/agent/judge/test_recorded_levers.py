"""No lever of vLLM confounds a test of itself: what ran on an H200 with each turned alone, compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.judge.confounding import differences
from experiments.measurement.evidence import Arm, LaunchRecord, Stage
from experiments.space.configuration import KnobValue
from experiments.space.loading import load_space

SPACE = load_space("vllm")
TABLES = Path(__file__).parents[4] / "docs" / "results" / "tables"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TABLES / name).read_text(encoding="utf-8").splitlines()]


ONCE = {each["case"]: each for each in lines("h200-levers-once.jsonl") if each.get("resolved")}
QUANTIZED: Mapping[str, dict[str, KnobValue]] = {
    "g128": {"quantization.method": "awq", "quantization.group_size": 128},
    "g32": {"quantization.method": "awq", "quantization.group_size": 32},
    "head": {
        "quantization.method": "awq",
        "quantization.group_size": 32,
        "quantization.lm_head": "quantized",
    },
}
"""How the checkpoints of the cases were quantized, which no knob of theirs says."""

EVERYWHERE: Mapping[str, KnobValue] = {"serving.gdn_prefill_backend": "triton"}

OFFERED = sorted(ONCE.keys() - {"bf16", "float32"})
"""The space of vLLM has no float32, of which vLLM's kernels are others."""


def record(arm: Arm, resolved: Mapping[str, Any]) -> LaunchRecord:
    return LaunchRecord(arm, 0, Stage.QUICK, "", dict(resolved), {}, 0.0, ())


def told(
    control: Mapping[str, Any], candidate: Mapping[str, Any], *knobs: Mapping[str, KnobValue]
) -> set[str]:
    """The keys that the guard names, for arms that differ by these knobs."""
    before, after = (SPACE.with_change(SPACE.configuration({}), dict(each)) for each in knobs)
    changes = before.changes_to(after)
    pins = [key for change in changes for key in SPACE.knob(change.knob).pins]
    found = differences([record(Arm.CONTROL, control)], [record(Arm.CANDIDATE, candidate)], changes, pins)
    return {each.key for each in found}


def knobs_of(case: str) -> dict[str, KnobValue]:
    return {**EVERYWHERE, **QUANTIZED.get(case.partition("-")[0], {}), **ONCE[case]["knobs"]}


@pytest.mark.parametrize("case", OFFERED)
def test_a_lever_that_is_turned_alone_explains_all_that_ran_otherwise(case: str) -> None:
    checkpoint = case.partition("-")[0]
    base = checkpoint if checkpoint in QUANTIZED and case != checkpoint else "bf16"
    found = told(ONCE[base]["resolved"], ONCE[case]["resolved"], knobs_of(base), knobs_of(case))
    # Steps were not scheduled ahead with any drafting when this was recorded, by our own choice; with n-grams
    # it is vLLM's, and the knob means nothing there.
    chosen = knobs_of(case).get("drafting.method", "ngram") != "ngram"
    assert found == ({"async_scheduling"} if chosen else set())


def test_more_drafts_explain_the_larger_pages_of_the_cache() -> None:
    loads = {
        each["configuration"].get("drafting.draft_tokens", 0): each["resolved"]
        for each in lines("h200-9b.jsonl")
        if each["kind"] == "load" and each["configuration"].get("drafting.method") == "mtp"
    }
    assert [loads[count]["cache_block_tokens"] for count in (1, 2)] == [528, 544]
    one, two = ({"drafting.method": "mtp", "drafting.draft_tokens": count} for count in (1, 2))
    assert told(loads[1], loads[2], one, two) == set()


def test_a_kernel_that_differs_beside_another_group_size_is_still_named() -> None:
    arms = (ONCE["g128-machete"]["resolved"], ONCE["g32"]["resolved"])
    assert "linear_kernel" in told(*arms, QUANTIZED["g128"], QUANTIZED["g32"])
