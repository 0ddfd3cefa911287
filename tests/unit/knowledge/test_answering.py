"""By which command a dispute is answered where no campaign took it apart."""

from dataclasses import replace
from typing import Any

import pytest

from knowledge.findings.answering import OwnTest, Way, way_to_answer
from knowledge.findings.disputes import Claim, disputes_of
from knowledge.findings.verdict_fact import Saying
from tests.unit.knowledge.test_disputes import SCOPE, claim

L4 = {"target": "gpu:NVIDIA L4:24 GB"}
HERE = {"F-001": OwnTest("E-0007", "E-0004")}
ENQUEUE = 'autoinfer enqueue "It helps here too" --set quantization.group_size=32'


def way(tested: dict[str, OwnTest], *, told: bool = False, **there: Any) -> Way | None:
    """What answers that it helps here and does not with what is other `there`."""
    other = replace(claim("F-002", Saying.DOES_NOT_HELP, **there), is_told=told)
    (found,) = disputes_of(claim("F-001"), [other])
    return way_to_answer(found, tested)


def test_hardware_alone_is_answered_by_confirming_the_test_of_here_there() -> None:
    asked = Way("autoinfer promote E-0004 --target DEVICE", "DEVICE is one with NVIDIA L4")
    assert way(HERE, **L4) == asked
    assert way(HERE, told=True, **L4, versions={}, workload={}, control={}) == asked


def test_what_no_other_target_can_confirm_is_tested_by_a_campaign_there() -> None:
    did_not_run = {"F-001": OwnTest("E-0007", None)}
    asked = Way(ENQUEUE, "in a campaign of qwen3.5-9b on NVIDIA L4")
    assert way(did_not_run, **L4) == asked


@pytest.mark.parametrize(
    ("there", "where"),
    [
        ({"model": "qwen3.5-4b"}, "in a campaign of qwen3.5-4b on NVIDIA H200"),
        ({"model": "qwen3.5-4b", **L4}, "in a campaign of qwen3.5-4b on NVIDIA L4"),
        ({"engine": "other"}, "in a campaign of qwen3.5-9b on NVIDIA H200, engine other"),
        (
            {"workload": {"prompt_tokens": 8192, "new_tokens": 257}},
            "in a campaign of qwen3.5-9b on NVIDIA H200, 8192 tokens in, 257 tokens out",
        ),
    ],
)
def test_another_model_engine_or_workload_is_for_a_campaign_there(there: dict[str, Any], where: str) -> None:
    assert way(HERE, **there) == Way(ENQUEUE, where)


def test_what_nobody_tested_here_is_tested_in_a_campaign_of_either_side() -> None:
    assert way({}, **L4) == Way(ENQUEUE, "in a campaign of qwen3.5-9b on NVIDIA H200 or NVIDIA L4")


def test_one_scope_is_answered_by_the_same_test_once_more() -> None:
    assert way(HERE, told=True) == Way("autoinfer reproduce E-0007")
    (divided,) = disputes_of(Claim("F-001", None, SCOPE, is_divided=True), [])
    assert way_to_answer(divided, HERE) == Way("autoinfer reproduce E-0007")
    assert way_to_answer(divided, {}) == Way(ENQUEUE, "in a campaign of qwen3.5-9b on NVIDIA H200")


def test_versions_are_answered_by_the_test_of_here_with_those_of_there() -> None:
    older = {"vllm": "0.26.0", "nvidia driver": "580.10"}
    assert way(HERE, versions=older) == Way("autoinfer reproduce E-0007", "with vllm 0.26.0 installed")
    mine = {"F-002": OwnTest("E-0009", "E-0009")}
    assert way(mine, versions=older) == Way("autoinfer reproduce E-0009", "with vllm 0.32.0 installed")


def test_one_knob_is_the_answer_itself_and_of_several_a_campaign_tries_each() -> None:
    knobs = {"quantization.method": "awq", "serving.linear_backend": "marlin"}
    assert way(HERE, control=knobs) is None
    more = Way("autoinfer run --new", "a campaign of qwen3.5-9b on NVIDIA H200 takes it apart")
    assert way(HERE, control=knobs | {"serving.threads": 2}) == more


def over_there(*changes: tuple[str, Any, Any]) -> Way | None:
    """What answers that a change helps here and not on an L4, where nobody tested it here."""
    change = [{"knob": knob, "before": before, "after": after} for knob, before, after in changes]
    other = claim("F-002", Saying.DOES_NOT_HELP, change=change, **L4)
    (found,) = disputes_of(claim("F-001", change=change), [other])
    return way_to_answer(found, {})


def test_a_change_that_only_takes_knobs_away_is_no_command() -> None:
    assert over_there(("drafting.method", "mtp", None)) is None


def test_knobs_that_go_with_what_is_set_are_named_and_not_set() -> None:
    set_, gone = ("quantization.method", "awq", "none"), ("quantization.group_size", 128, None)
    command = 'autoinfer enqueue "It helps here too" --set quantization.method=none'
    at = "in a campaign of qwen3.5-9b on NVIDIA H200 or NVIDIA L4"
    assert over_there(set_, gone) == Way(command, f"{at}, where quantization.group_size is not set")
    assert over_there(set_, gone, ("quantization.bits", 4, None)) == Way(
        command, f"{at}, where quantization.group_size and quantization.bits are not set"
    )
