"""No lever of vLLM confounds a test of itself: what ran on a GPU with each turned alone, compared.

On an H200 with vLLM 0.26 and its first model runner, on an H100 with 0.33 and its second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.judge.confounding import Difference, differences
from agent.proposers.separation import Confounded, separate
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Stage
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Change, KnobValue
from experiments.space.loading import load_space

SPACE = load_space("vllm")
TABLES = Path(__file__).parents[4] / "docs" / "results" / "tables"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TABLES / name).read_text(encoding="utf-8").splitlines()]


FIRST_RUNNER, SECOND_RUNNER = "h200-levers-once.jsonl", "h100-levers-once.jsonl"
LACKED_THERE = "h200-levers-once-vllm-0.33.jsonl"
ONCE = {
    recording: {each["case"]: each for each in lines(recording) if each.get("resolved")}
    for recording in (FIRST_RUNNER, SECOND_RUNNER, LACKED_THERE)
}
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

OFFERED = [
    (recording, case)
    for recording, once in ONCE.items()
    for case in sorted(once.keys() - {"bf16", "float32"})
]
"""The space of vLLM has no float32, of which vLLM's kernels are others."""


def record(arm: Arm, resolved: Mapping[str, Any]) -> LaunchRecord:
    return LaunchRecord(arm, 0, Stage.QUICK, "", dict(resolved), {}, 0.0, ())


def told(
    control: Mapping[str, Any], candidate: Mapping[str, Any], *knobs: Mapping[str, KnobValue]
) -> set[str]:
    """The keys that the guard names, for arms that differ by these knobs."""
    before, after = (SPACE.with_change(SPACE.configuration({}), dict(each)) for each in knobs)
    return {each.key for each in named(control, candidate, before.changes_to(after))}


def named(
    control: Mapping[str, Any], candidate: Mapping[str, Any], changes: Sequence[Change]
) -> Sequence[Difference]:
    """What the guard names between what ran in two arms that differ by these changes."""
    pins = [key for change in changes for key in SPACE.knob(change.knob).pins]
    return differences([record(Arm.CONTROL, control)], [record(Arm.CANDIDATE, candidate)], changes, pins)


def knobs_of(recording: str, case: str) -> dict[str, KnobValue]:
    return {**EVERYWHERE, **QUANTIZED.get(case.partition("-")[0], {}), **ONCE[recording][case]["knobs"]}


@pytest.mark.parametrize(("recording", "case"), OFFERED)
def test_a_lever_that_is_turned_alone_explains_all_that_ran_otherwise(recording: str, case: str) -> None:
    once, checkpoint = ONCE[recording], case.partition("-")[0]
    base = checkpoint if checkpoint in QUANTIZED and case != checkpoint else "bf16"
    after = knobs_of(recording, case)
    found = told(once[base]["resolved"], once[case]["resolved"], knobs_of(recording, base), after)
    # Steps were not scheduled ahead with any drafting when the first was recorded, by our own choice; with
    # n-grams it was vLLM's, which that change explains.
    chosen = recording == FIRST_RUNNER and after.get("drafting.method", "ngram") != "ngram"
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


@pytest.mark.parametrize("recording", [FIRST_RUNNER, SECOND_RUNNER])
def test_a_kernel_that_differs_beside_another_group_size_is_still_named(recording: str) -> None:
    arms = (ONCE[recording]["g128-machete"]["resolved"], ONCE[recording]["g32"]["resolved"])
    assert "linear_kernel" in told(*arms, QUANTIZED["g128"], QUANTIZED["g32"])


def test_groups_of_another_size_on_another_kernel_are_taken_apart() -> None:
    """With vLLM 0.33 the types of the weights differ with the kernel too: Humming keeps no int64."""
    arms = [ONCE[SECOND_RUNNER][case]["resolved"] for case in ("g32", "g128")]
    control, candidate = (
        SPACE.with_change(SPACE.configuration({}), dict(QUANTIZED[case])) for case in ("g32", "g128")
    )
    found = separate(
        SPACE,
        Confounded(
            experiment="E-0001",
            hypothesis_id=1,
            claim="Groups of 128 make a token at least 3 % faster than groups of 32.",
            control=control,
            candidate=candidate,
            metric=Metric.TPOT_MS,
            min_effect=0.03,
            prediction=Prediction(log_ratio_mean=0.0, log_ratio_sd=0.1),
            effect_log=0.1,
            differences=tuple(named(arms[0], arms[1], control.changes_to(candidate))),
        ),
        lambda *_: Prediction(log_ratio_mean=0.0, log_ratio_sd=0.1),
    )
    assert found.why_not == ""
    steps = [[str(each) for each in draft.control.changes_to(draft.candidate)] for draft in found.drafts]
    assert steps[0] == ["quantization.group_size 32 → 128"]
    assert [step[0].partition(" ")[0] for step in steps[1:]] == ["serving.linear_backend"]
