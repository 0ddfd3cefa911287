from collections.abc import Sequence
from dataclasses import replace
from math import log1p
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.states import AGREEING, EvidenceRelation, FindingStatus, VerdictOutcome
from experiments.space.configuration import Change, Configuration, KnobValue
from knowledge.findings.rules import FindingDraft, Rule, Strength, derive
from knowledge.findings.verdict_fact import VerdictFact
from knowledge.scope import Scope

SCOPE = Scope.of(
    model="reference",
    model_fingerprint="abc",
    target="cpu:Example CPU:2 cores",
    engine="reference",
    versions={"torch": "2.13.0", "autoinfer": "0.1.0"},
    workload={"prompt_tokens": 128, "new_tokens": 48, "concurrency": 1},
    control=Configuration.of({"serving.threads": 2}),
)


def fact(
    verdict_id: int,
    outcome: VerdictOutcome,
    effect: tuple[float, float, float] | None = (-0.10, -0.12, -0.08),
    *,
    min_effect: float = 0.03,
    quality_held: bool | None = True,
    metric: str = "tpot_ms",
    scope: Scope = SCOPE,
    cause: str = "It ran out of memory.",
    campaign: str = "C-1",
) -> VerdictFact:
    logs = (None, None, None) if effect is None else tuple(log1p(each) for each in effect)
    return VerdictFact(
        verdict_id=verdict_id,
        outcome=outcome,
        metric=metric,
        changes=(Change("serving.threads", 2, 1),),
        lever="threads",
        min_effect=min_effect,
        scope=scope,
        effect_log=logs[0],
        low_log=logs[1],
        high_log=logs[2],
        quality_held=quality_held,
        cause=cause,
        campaign=campaign,
    )


def supported(number: int = 1, **more: object) -> VerdictFact:
    return fact(number, VerdictOutcome.SUPPORTED, **more)  # type: ignore[arg-type]


def refuted(
    number: int = 1, effect: tuple[float, float, float] = (0.0, -0.01, 0.01), **more: object
) -> VerdictFact:
    return fact(number, VerdictOutcome.REFUTED, effect, **more)  # type: ignore[arg-type]


def infeasible(number: int = 1) -> VerdictFact:
    return fact(number, VerdictOutcome.INFEASIBLE, None, quality_held=None)


def inconclusive(
    number: int = 1, effect: tuple[float, float, float] = (0.0, -0.02, 0.02), **more: object
) -> VerdictFact:
    return fact(number, VerdictOutcome.INCONCLUSIVE, effect, **more)  # type: ignore[arg-type]


def derived(*facts: VerdictFact) -> FindingDraft:
    found = derive(facts)
    assert found is not None
    return found


def relations(draft: FindingDraft) -> list[EvidenceRelation]:
    return [relation for _, relation in draft.evidence]


def test_r1_a_supported_verdict_says_how_much_better_and_where() -> None:
    draft = derived(supported())
    assert draft.rule is Rule.EFFECT
    assert draft.strength is Strength.SINGLE
    assert draft.status is FindingStatus.HOLDS
    assert draft.claim == (
        "Running on 1 thread instead of 2 lowers TPOT by 10.0 % [8.0, 12.0] on model reference, target "
        "Example CPU (2 cores), engine reference (torch 2.13.0), 128 tokens in, 48 tokens out, "
        "concurrency 1."
    )


def test_r1_a_metric_that_is_better_when_higher_is_raised() -> None:
    # a negative log ratio is faster for every metric
    assert "raises tokens per second by 11.1 % [8.7, 13.6]" in derived(supported(metric="tokens_per_s")).claim


def test_r1_tasks_are_told_in_points_and_bits_are_no_tpot() -> None:
    tasks = replace(supported(metric="task_correct"), effect_log=-0.05, low_log=-0.07, high_log=-0.03)
    draft = derived(replace(tasks, min_effect=0.02))
    assert "raises tasks solved by 5.0 points [3.0, 7.0]" in draft.claim
    assert draft.scope["metric"] == "task_correct"
    assert draft.strength is Strength.SINGLE
    assert "lowers bits per byte by 10.0 % [8.0, 12.0]" in derived(supported(metric="nll_bits")).claim


CALIBRATED = Configuration.of({"quantization.corpus": "raw", "quantization.seed": 0})
OF_ONE_DRAW = ", with the calibration samples that were drawn."


@pytest.mark.parametrize(
    ("metric", "knob", "of_one_draw"),
    [
        ("task_correct", "quantization.corpus", True),
        ("nll_bits", "quantization.corpus", True),
        ("tpot_ms", "quantization.corpus", False),
        ("task_correct", "serving.threads", False),
    ],
)
def test_a_finding_that_rests_on_a_draw_of_calibration_text_says_so(
    metric: str, knob: str, of_one_draw: bool
) -> None:
    change = Change(knob, "raw", "blend:0.5")
    told = supported(metric=metric, scope=replace(SCOPE, control=CALIBRATED))
    for each in (told, replace(told, outcome=VerdictOutcome.REFUTED)):
        assert derived(replace(each, changes=(change,))).claim.endswith(OF_ONE_DRAW) is of_one_draw


def test_a_claim_on_one_knob_of_a_lever_names_what_the_control_held_beside_it() -> None:
    knobs: dict[str, KnobValue] = {
        "quantization.method": "awq",
        "quantization.bits": 4,
        "quantization.group_size": 128,
        "quantization.corpus": "raw",
        "quantization.symmetric": True,
        "serving.threads": 2,
    }
    groups = replace(
        supported(metric="task_correct", scope=replace(SCOPE, control=Configuration.of(knobs))),
        changes=(Change("quantization.group_size", 128, 32),),
        effect_log=-0.17,
        low_log=-0.20,
        high_log=-0.14,
    )
    assert derived(groups).claim.startswith(
        "Quantizing in groups of 32 instead of 128 (beside quantization.bits 4, quantization.corpus raw, "
        "quantization.method awq, quantization.symmetric on) raises tasks solved by 17.0 points"
    )
    against = replace(
        groups,
        verdict_id=2,
        outcome=VerdictOutcome.REFUTED,
        effect_log=0.0,
        low_log=-0.001,
        high_log=0.001,
        min_effect=0.02,
    )
    assert "(beside quantization.bits 4" in derived(replace(groups, min_effect=0.02), against).claim
    threads = replace(groups, changes=(Change("serving.threads", 2, 1),))
    assert "beside" not in derived(threads).claim


def test_r2_missing_a_gain_in_tasks_is_told_in_points() -> None:
    tasks = replace(refuted(metric="task_correct"), effect_log=0.01, low_log=-0.01, high_log=0.03)
    claim = derived(replace(tasks, min_effect=0.02)).claim
    assert "does not make tasks solved better by 2 points (measured −1.0 points [−3.0, +1.0])" in claim


def test_a_claim_on_tasks_that_is_pulled_back_over_its_margin_in_points_is_weakened() -> None:
    def tasks(number: int, outcome: VerdictOutcome, middle: float) -> VerdictFact:
        found = fact(number, outcome, metric="task_correct", min_effect=0.05)
        return replace(found, effect_log=middle, low_log=middle - 0.02, high_log=middle + 0.02)

    first = tasks(1, VerdictOutcome.SUPPORTED, -0.08)
    assert derived(first).strength is Strength.SINGLE
    assert derived(first, tasks(2, VerdictOutcome.INCONCLUSIVE, -0.04)).strength is Strength.WEAKENED


def test_r2_a_refuted_verdict_says_what_was_not_reached() -> None:
    draft = derived(refuted())
    assert draft.rule is Rule.NO_EFFECT
    assert "does not make TPOT better by 3 % (measured 0.0 % [−1.0, +1.0])" in draft.claim


def test_r3_a_verdict_refuted_for_its_quality_says_nothing_about_speed_alone() -> None:
    draft = derived(refuted(effect=(-0.3, -0.31, -0.29), quality_held=False, cause="Bits per byte +2 %."))
    assert draft.rule is Rule.QUALITY
    assert "does not hold the quality limit: Bits per byte +2 %" in draft.claim
    assert "lowers" not in draft.claim


def test_r4_an_infeasible_verdict_names_the_cause() -> None:
    draft = derived(infeasible())
    assert draft.rule is Rule.INFEASIBLE
    assert "does not run: It ran out of memory;" in draft.claim
    assert draft.estimate is None


def test_r5_a_rerun_that_agrees_is_pooled_and_reproduces_what_no_other_campaign_replicated() -> None:
    draft = derived(supported(1), supported(2, effect=(-0.12, -0.14, -0.10)))
    assert draft.rule is Rule.AGREED
    assert draft.strength is Strength.REPRODUCED
    assert relations(draft) == [EvidenceRelation.SUPPORTS, EvidenceRelation.REPRODUCES]
    assert draft.estimate is not None
    assert log1p(-0.12) < draft.estimate.effect_log < log1p(-0.10)


@pytest.mark.parametrize("other", ["C-2", "C-1 of lab"])
def test_r5_a_second_campaign_that_agrees_replicates_it(other: str) -> None:
    draft = derived(supported(1), supported(2), *(supported(number, campaign=other) for number in (3, 4)))
    assert (draft.rule, draft.strength) == (Rule.AGREED, Strength.REPLICATED)
    assert relations(draft) == [
        EvidenceRelation.SUPPORTS,
        EvidenceRelation.REPRODUCES,
        EvidenceRelation.REPLICATES,
        EvidenceRelation.REPRODUCES,
    ]


def test_a_campaign_that_disagreed_first_replicates_by_its_first_verdict_that_agrees() -> None:
    draft = derived(supported(1), refuted(2, campaign="C-2"), supported(3, campaign="C-2"))
    assert relations(draft) == [
        EvidenceRelation.SUPPORTS,
        EvidenceRelation.CONTRADICTS,
        EvidenceRelation.REPLICATES,
    ]


def test_another_campaign_that_leaves_it_open_or_missed_a_larger_margin_replicates_nothing() -> None:
    left_open = inconclusive(2, effect=(-0.10, -0.12, -0.08), campaign="C-2")
    assert derived(supported(1), left_open).strength is Strength.SINGLE
    missed = refuted(2, effect=(-0.1, -0.12, -0.08), min_effect=0.2, campaign="C-2")
    assert derived(supported(1), missed).strength is Strength.SINGLE


def test_r6_verdicts_that_disagree_are_told_on_both_sides() -> None:
    draft = derived(supported(1), refuted(2))
    assert draft.status is FindingStatus.CONTRADICTED
    assert draft.strength is Strength.MIXED
    assert draft.status_reason == (
        "There is 1 verdict that it makes it better by 3 % or more, "
        "and 1 verdict that it does not make it better by 3 %."
    )
    assert relations(draft) == [EvidenceRelation.SUPPORTS, EvidenceRelation.CONTRADICTS]
    told = derived(supported(1), supported(2), refuted(3)).status_reason
    assert told is not None
    assert told.startswith("There are 2 verdicts that it makes it better")


def test_running_contradicts_not_running() -> None:
    assert derived(infeasible(1), supported(2)).status is FindingStatus.CONTRADICTED


def test_reaching_a_small_margin_and_missing_a_large_one_agree() -> None:
    draft = derived(supported(1, min_effect=0.03), refuted(2, effect=(-0.1, -0.12, -0.08), min_effect=0.2))
    assert draft.status is FindingStatus.HOLDS
    assert relations(draft) == [EvidenceRelation.SUPPORTS, EvidenceRelation.INFORMS]


def test_reaching_a_large_margin_and_missing_a_small_one_disagree() -> None:
    draft = derived(supported(1, min_effect=0.05), refuted(2, min_effect=0.03))
    assert draft.status is FindingStatus.CONTRADICTED


def test_an_inconclusive_verdict_makes_no_finding_but_is_evidence() -> None:
    assert derive([inconclusive()]) is None
    draft = derived(supported(1), inconclusive(2, effect=(-0.08, -0.12, -0.04)))
    assert relations(draft) == [EvidenceRelation.SUPPORTS, EvidenceRelation.INFORMS]
    assert draft.strength is Strength.SINGLE
    assert draft.estimate is not None
    assert draft.estimate.effect_log > log1p(-0.10)  # it was pulled towards the inconclusive one


def test_an_inconclusive_verdict_that_pulls_the_effect_below_the_margin_weakens_it() -> None:
    draft = derived(supported(1, effect=(-0.06, -0.085, -0.035)), inconclusive(2, effect=(0.0, -0.02, 0.02)))
    assert draft.strength is Strength.WEAKENED


def test_a_confounded_verdict_is_no_evidence_at_all() -> None:
    confounded = fact(2, VerdictOutcome.CONFOUNDED)
    assert derive([confounded]) is None
    assert derived(supported(1), confounded).evidence == (((False, 1), EvidenceRelation.SUPPORTS),)


def test_verdicts_in_different_scopes_make_no_finding_together() -> None:
    elsewhere = replace(SCOPE, target="cuda:H200")
    with pytest.raises(ValueError, match="different statements"):
        derive([supported(1), supported(2, scope=elsewhere)])


def test_our_own_version_is_no_part_of_the_scope_and_torchs_is() -> None:
    def with_versions(versions: dict[str, str]) -> str:
        scope = Scope.of(
            model="m",
            model_fingerprint="f",
            target="t",
            engine="e",
            versions=versions,
            workload={},
            control=Configuration.of({}),
        )
        return supported(scope=scope).key

    assert with_versions({"torch": "1", "autoinfer": "1"}) == with_versions({"torch": "1", "autoinfer": "2"})
    assert with_versions({"torch": "1"}) != with_versions({"torch": "2"})


conclusive = st.sampled_from([VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED, VerdictOutcome.INFEASIBLE])
any_outcome = st.sampled_from([*[VerdictOutcome.SUPPORTED] * 4, *VerdictOutcome])
"""Most often one, so that several agree."""


@st.composite
def verdict_sets(draw: st.DrawFn) -> list[VerdictFact]:
    outcomes = draw(st.lists(any_outcome, min_size=1, max_size=7))
    facts = []
    for number, outcome in enumerate(outcomes, 1):
        middle, half = draw(st.floats(-0.4, 0.4)), draw(st.floats(0.005, 0.2))
        effect = None if outcome is VerdictOutcome.INFEASIBLE else (middle, middle - half, middle + half)
        margin = draw(st.sampled_from([0.01, 0.03, 0.1]))
        held = draw(st.sampled_from([True, False, None]))
        campaign = draw(st.sampled_from(["C-1", "C-2", "C-1 of lab"]))
        facts.append(fact(number, outcome, effect, min_effect=margin, quality_held=held, campaign=campaign))
    return facts


@given(verdict_sets(), st.integers(0, 1000))
def test_the_finding_does_not_depend_on_the_order_of_verdicts(
    facts: Sequence[VerdictFact], seed: int
) -> None:
    shuffled = list(facts)
    Random(seed).shuffle(shuffled)
    assert derive(facts) == derive(shuffled)


@given(verdict_sets())
def test_every_verdict_but_the_confounded_has_one_relation_and_the_first_conclusive_supports(
    facts: Sequence[VerdictFact],
) -> None:
    draft = derive(facts)
    settled = [each for each in facts if each.saying is not None]
    assert (draft is None) == (not settled)
    if draft is not None:
        told = [number for (_, number), _ in draft.evidence]
        assert told == [f.verdict_id for f in facts if f.outcome is not VerdictOutcome.CONFOUNDED]
        assert (EvidenceRelation.CONTRADICTS in relations(draft)) == (
            draft.status is FindingStatus.CONTRADICTED
        )
        assert relations(draft).count(EvidenceRelation.SUPPORTS) == 1


@given(verdict_sets())
def test_each_campaign_but_the_first_that_agrees_is_one_replication_and_strength_is_of_these(
    facts: Sequence[VerdictFact],
) -> None:
    draft = derive(facts)
    if draft is not None:
        of = {each.source: each.campaign for each in facts}
        agreeing = [(of[source], relation) for source, relation in draft.evidence if relation in AGREEING]
        campaigns = {campaign for campaign, _ in agreeing}
        first = [campaign for campaign, relation in agreeing if relation is not EvidenceRelation.REPRODUCES]
        assert sorted(first) == sorted(campaigns)
        if draft.strength not in (Strength.WEAKENED, Strength.MIXED):
            many = len(campaigns) > 1
            again = Strength.REPRODUCED if len(agreeing) > 1 else Strength.SINGLE
            assert draft.strength is (Strength.REPLICATED if many else again)


@given(verdict_sets())
def test_a_finding_always_names_its_whole_scope(facts: Sequence[VerdictFact]) -> None:
    draft = derive(facts)
    if draft is not None:
        assert SCOPE.sentence() in draft.claim
        assert draft.scope["model_fingerprint"] == "abc"
        assert draft.scope["knobs"] == ["serving.threads"]
