"""What a verdict on another target says of the first."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.states import EvidenceRelation, VerdictOutcome
from knowledge.findings.ties import OPEN, Side, tie_between

HERE = Side("E-0002", "cpu:here", VerdictOutcome.SUPPORTED, "tpot_ms", -0.30, -0.35, -0.25)
THERE = replace(HERE, experiment="E-0003", target="there:X")


@pytest.mark.parametrize(
    ("second", "relation"),
    [
        (THERE, EvidenceRelation.REPLICATES),
        (replace(THERE, effect_log=-0.26, low_log=-0.30, high_log=-0.20), EvidenceRelation.REPLICATES),
        (replace(THERE, effect_log=-0.10, low_log=-0.12, high_log=-0.08), EvidenceRelation.INFORMS),
        (
            replace(THERE, outcome=VerdictOutcome.REFUTED, effect_log=0.0, low_log=-0.01, high_log=0.01),
            EvidenceRelation.CONTRADICTS,
        ),
        (
            replace(THERE, outcome=VerdictOutcome.INFEASIBLE, effect_log=None, low_log=None, high_log=None),
            EvidenceRelation.CONTRADICTS,
        ),
        (replace(THERE, outcome=VerdictOutcome.REFUTED, lost_quality=True), EvidenceRelation.CONTRADICTS),
        (replace(THERE, outcome=VerdictOutcome.INCONCLUSIVE), None),
        (replace(THERE, outcome=VerdictOutcome.CONFOUNDED), None),
    ],
)
def test_the_second_verdict_is_held_against_the_first(
    second: Side, relation: EvidenceRelation | None
) -> None:
    assert tie_between(HERE, second).relation is relation


def test_two_refuted_for_other_reasons_replicate_nothing() -> None:
    slow = replace(HERE, outcome=VerdictOutcome.REFUTED, effect_log=0.0, low_log=-0.01, high_log=0.01)
    worse = replace(THERE, outcome=VerdictOutcome.REFUTED, effect_log=None, low_log=None, high_log=None)
    told = tie_between(slow, replace(worse, lost_quality=True))
    assert told.relation is EvidenceRelation.INFORMS
    assert "both refuted, for another reason" in told.reason
    both = tie_between(replace(slow, lost_quality=True), replace(worse, lost_quality=True))
    assert both.relation is EvidenceRelation.REPLICATES


def test_the_sentence_names_both_experiments_targets_and_effects() -> None:
    told = tie_between(HERE, replace(THERE, effect_log=-0.26, low_log=-0.30, high_log=-0.20)).reason
    assert told.startswith("E-0003 on there:X replicates E-0002 on cpu:here: both supported (")
    assert "−22.9 %" in told
    assert "−25.9 %" in told


effects = st.floats(-0.5, 0.5)
widths = st.floats(0.0, 0.2)
sides = st.builds(
    lambda outcome, effect, width: Side(
        "E-1", "t", outcome, "tpot_ms", effect, effect - width, effect + width
    ),
    st.sampled_from(list(VerdictOutcome)),
    effects,
    widths,
)


@given(sides, sides)
def test_who_came_first_changes_nothing_of_the_relation(one: Side, other: Side) -> None:
    assert tie_between(one, other).relation is tie_between(other, one).relation


@given(sides, sides)
def test_only_the_same_decided_outcome_replicates_and_only_with_intervals_that_meet(
    one: Side, other: Side
) -> None:
    relation = tie_between(one, other).relation
    if relation is EvidenceRelation.REPLICATES:
        assert one.outcome is other.outcome
        assert one.outcome not in OPEN
        assert one.low_log is not None
        assert one.high_log is not None
        assert other.low_log is not None
        assert other.high_log is not None
        assert one.low_log <= other.high_log
        assert other.low_log <= one.high_log
    if one.outcome in OPEN or other.outcome in OPEN:
        assert relation is None
