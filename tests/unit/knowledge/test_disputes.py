from math import log1p
from typing import Any

import pytest

from knowledge.findings.disputes import Claim, Part, claim_of, disputes_of
from knowledge.findings.rules import Rule
from knowledge.findings.verdict_fact import Saying

SCOPE: dict[str, Any] = {
    "model": "qwen3.5-9b",
    "model_fingerprint": "a" * 64,
    "target": "gpu:NVIDIA H200:141 GB",
    "engine": "vllm",
    "versions": {"vllm": "0.32.0", "nvidia driver": "580.10"},
    "workload": {"prompt_tokens": 512, "new_tokens": 257},
    "control": {"quantization.method": "awq", "serving.linear_backend": "auto"},
    "metric": "tpot_ms",
    "min_effect": 0.03,
    "change": [{"knob": "quantization.group_size", "before": 128, "after": 32}],
}


def claim(label: str, saying: Saying = Saying.HELPS, **other: object) -> Claim:
    return Claim(label, saying, {**SCOPE, **other})


def test_it_holds_on_one_card_and_not_on_another_which_asks_for_what_the_cards_differ_in() -> None:
    helps = claim("F-001")
    not_there = claim("F-002", Saying.DOES_NOT_HELP, target="gpu:NVIDIA L4:24 GB")
    (found,) = disputes_of(not_there, [helps])
    assert [each.part for each in found.differences] == [Part.TARGET]
    assert found.question() == (
        "F-001 says that it helps, F-002 that it does not help: it holds on NVIDIA H200, not on NVIDIA L4: "
        "is it the bandwidth, the clocks or the kernels that run there?"
    )


@pytest.mark.parametrize(
    ("says", "metric", "asks"),
    [
        (Saying.DOES_NOT_HELP, "nll_bits", "is it the kernels that run there, or how they round?"),
        (Saying.DOES_NOT_HELP, "task_correct", "is it the kernels that run there, or how they round?"),
        (Saying.BREAKS_QUALITY, "tpot_ms", "is it the kernels that run there, or how they round?"),
        (Saying.DOES_NOT_RUN, "tpot_ms", "is it the memory, or a kernel that is not there?"),
        (Saying.DOES_NOT_RUN, "nll_bits", "is it the memory, or a kernel that is not there?"),
        (Saying.DOES_NOT_HELP, "ttft_ms", "is it the bandwidth, the clocks or the kernels that run there?"),
        (
            Saying.DOES_NOT_HELP,
            "output_tokens_per_s",
            "is it the bandwidth, the clocks or the kernels that run there?",
        ),
    ],
)
def test_what_of_another_card_is_asked_for_is_what_bears_on_what_was_denied(
    says: Saying, metric: str, asks: str
) -> None:
    there = claim("F-002", says, target="gpu:NVIDIA L4:24 GB", metric=metric)
    (found,) = disputes_of(there, [claim("F-001", metric=metric)])
    assert found.question().endswith(f"on NVIDIA L4: {asks}")


def test_no_clock_is_asked_for_where_the_verdicts_of_one_scope_disagree_about_a_text() -> None:
    divided = Claim("F-001", None, {**SCOPE, "metric": "task_correct"}, is_divided=True)
    (found,) = disputes_of(divided, [])
    assert found.question().endswith("that no scope records, such as how a machine rounds?")


def test_a_dispute_is_the_same_from_either_side() -> None:
    one, other = claim("F-001"), claim("F-002", Saying.BREAKS_QUALITY, model="qwen3.5-4b")
    assert disputes_of(one, [other]) == disputes_of(other, [one])


def test_all_that_differs_is_a_suspect_with_both_values() -> None:
    other = claim(
        "F-002",
        Saying.DOES_NOT_HELP,
        versions={"vllm": "0.26.0", "nvidia driver": "580.10"},
        control={"quantization.method": "awq", "serving.linear_backend": "marlin"},
    )
    (found,) = disputes_of(claim("F-001"), [other])
    assert [(each.part, each.name, each.here, each.there) for each in found.differences] == [
        (Part.VERSION, "vllm", "0.32.0", "0.26.0"),
        (Part.CONTROL, "serving.linear_backend", "auto", "marlin"),
    ]
    assert "is it vllm (0.32.0 against 0.26.0) or serving.linear_backend (auto against marlin)?" in (
        found.question()
    )


def test_the_closest_scope_is_disputed_first() -> None:
    far = claim("F-001", target="gpu:NVIDIA L4:24 GB", workload={"prompt_tokens": 8192, "new_tokens": 257})
    near = claim("F-002", target="gpu:NVIDIA L4:24 GB")
    found = disputes_of(claim("F-003", Saying.DOES_NOT_HELP), [far, near])
    assert [each.one.label for each in found] == ["F-002", "F-001"]


def test_a_small_margin_reached_and_a_large_one_missed_do_not_disagree() -> None:
    small = claim("F-001", min_effect=0.03)
    assert disputes_of(small, [claim("F-002", Saying.DOES_NOT_HELP, min_effect=0.10)]) == ()
    assert len(disputes_of(small, [claim("F-002", Saying.DOES_NOT_HELP, min_effect=0.03)])) == 1


def test_other_changes_and_other_metrics_and_what_neither_says_helps_are_no_dispute() -> None:
    refuted = claim("F-001", Saying.DOES_NOT_HELP)
    elsewhere = [{"knob": "quantization.group_size", "before": 128, "after": 64}]
    assert disputes_of(refuted, [claim("F-002", change=elsewhere)]) == ()
    assert disputes_of(refuted, [claim("F-003", metric="ttft_ms")]) == ()
    assert disputes_of(refuted, [claim("F-004", Saying.DOES_NOT_RUN)]) == ()


def test_verdicts_that_disagree_within_one_scope_ask_for_what_no_scope_records() -> None:
    scope = {name: value for name, value in SCOPE.items() if name != "saying"}
    (found,) = disputes_of(claim_of("F-001", Rule.CONTRADICTED, scope), [])
    assert found.labels == ("F-001",)
    assert "something that no scope records" in found.question()


def test_what_the_user_told_disputes_by_its_value_and_leaves_open_what_it_does_not_name() -> None:
    told = claim_of(
        "F-002",
        Rule.TOLD,
        {
            "model": "qwen3.5-9b",
            "target": "gpu:NVIDIA H200:141 GB",
            "saying": "does not help",
            "change": [{"knob": "quantization.group_size", "before": None, "after": 32}],
        },
    )
    (found,) = disputes_of(told, [claim("F-001")])
    assert found.differences == ()
    assert "in the same scope" in found.question()


@pytest.mark.parametrize(
    ("change", "disputed"),
    [
        ([("quantization.method", "none", "awq"), ("quantization.group_size", None, 128)], True),
        ([("quantization.method", "none", "awq"), ("quantization.bits", 8, 4)], False),
        ([("quantization.method", "none", "gptq"), ("quantization.group_size", None, 128)], False),
        ([("quantization.group_size", None, 128)], False),
    ],
)
def test_what_the_user_told_is_about_a_change_that_brings_no_more_than_what_goes_with_it(
    change: list[tuple[str, object, object]], disputed: bool
) -> None:
    told = claim_of(
        "F-002",
        Rule.TOLD,
        {
            "saying": "does not help",
            "change": [{"knob": "quantization.method", "before": None, "after": "awq"}],
        },
    )
    measured = claim("F-001", change=[{"knob": k, "before": b, "after": a} for k, b, a in change])
    assert [each.labels for each in disputes_of(told, [measured])] == [("F-001", "F-002")] * disputed
    assert [each.labels for each in disputes_of(measured, [told])] == [("F-001", "F-002")] * disputed


@pytest.mark.parametrize(
    ("effect_log", "disputed"), [(None, True), (log1p(-0.05), True), (log1p(-0.01), False)]
)
def test_what_the_user_says_helps_is_denied_by_a_miss_of_no_more_than_they_said(
    effect_log: float | None, disputed: bool
) -> None:
    scope = {"saying": "helps", "metric": "tpot_ms", "change": SCOPE["change"]}
    told = claim_of("F-002", Rule.TOLD, scope, effect_log)
    assert bool(disputes_of(told, [claim("F-001", Saying.DOES_NOT_HELP)])) is disputed
