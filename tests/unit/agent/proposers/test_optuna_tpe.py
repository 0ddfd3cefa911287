"""Optuna's TPE behind the port."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

import optuna
import pytest

from agent.proposers.optuna_tpe import (
    ASKS_A_DRAFT,
    LISTED_POINTS,
    PENALTY_LOG,
    OptunaProposer,
    values_told,
)
from agent.proposers.port import Proposer, Trial
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Condition, Knob
from experiments.space.space import Space
from tests.unit.agent.campaigns import BASELINE, COMPILED, HALF, SPACE, pruned, trial, view
from tests.unit.agent.proposers.conformance import ProposerConformance


class TestOptuna(ProposerConformance):
    def proposer(self) -> Proposer:
        return OptunaProposer()


def test_the_baseline_is_trial_0() -> None:
    assert values_told(view()) == [(BASELINE, 0.0)]


def test_effects_are_told_along_the_chain_of_controls() -> None:
    both = pruned(1, control=COMPILED)
    trials = [
        trial(COMPILED, Outcome.SUPPORTED, -0.5, hypothesis_id=1),
        trial(both, Outcome.INCONCLUSIVE, -0.1, control=COMPILED, hypothesis_id=2),
    ]
    told = dict(values_told(view(trials)))
    assert told[COMPILED] == pytest.approx(math.log(0.5))
    assert told[both] == pytest.approx(math.log(0.5 * 0.9))


def test_what_did_not_run_or_lost_its_quality_is_told_as_worse_than_everything() -> None:
    trials = [
        trial(COMPILED, Outcome.INFEASIBLE, None, hypothesis_id=1),
        trial(HALF, Outcome.REFUTED, 0.2, hypothesis_id=2),
        trial(pruned(4), Outcome.REFUTED, -0.3, hypothesis_id=3),
    ]
    told = dict(values_told(view(trials)))
    worst = math.log(1.2)
    assert told[HALF] == pytest.approx(worst)
    assert told[COMPILED] == pytest.approx(worst + PENALTY_LOG)
    assert told[pruned(4)] == pytest.approx(worst + PENALTY_LOG)


def test_a_confounded_effect_is_not_told() -> None:
    assert len(values_told(view([trial(COMPILED, Outcome.CONFOUNDED, -0.5)]))) == 1


def test_another_seed_may_propose_something_else() -> None:
    orders = {
        tuple(draft.candidate.digest for draft in OptunaProposer().propose(view(seed=seed), 3))
        for seed in range(5)
    }
    assert len(orders) > 1


def measured(point: Configuration, number: int) -> Trial:
    """A world in which compilation helps, everything else hurts a little, and pruning loses its quality."""
    if point["pruning.method"] != "none":
        return trial(point, Outcome.REFUTED, -0.1, hypothesis_id=number)
    change = 0.1 if point["serving.compile"] == "off" else -0.5
    change += 0.05 * (point["serving.threads"] == 1) + 0.1 * (point["serving.dtype"] == "bfloat16")
    return trial(point, Outcome.INCONCLUSIVE, change, hypothesis_id=number)


@pytest.mark.parametrize(
    "offset", [0, *(pytest.param(each, marks=pytest.mark.bench_only) for each in range(1, 4))]
)
def test_it_learns_to_avoid_what_failed_and_proposes_better_than_chance(offset: int) -> None:
    points = [point for point in SPACE.points() if point != BASELINE]
    seen = [measured(point, number) for number, point in enumerate(points[offset::4], start=1)]
    tried = {each.candidate for each in seen}
    left = [point for point in points if point not in tried]
    worst = math.log(1.25) + PENALTY_LOG

    def value(point: Configuration) -> float:
        effect = measured(point, 0).effect_log
        assert effect is not None
        return worst if point["pruning.method"] != "none" else effect

    drafts = [draft for seed in range(6) for draft in OptunaProposer().propose(view(seen, seed=seed), 3)]
    assert len(drafts) == 18
    assert fmean(point["pruning.method"] != "none" for point in left) > 0.8
    assert fmean(draft.candidate["pruning.method"] != "none" for draft in drafts) < 0.2
    assert fmean(value(draft.candidate) for draft in drafts) < fmean(value(point) for point in left) - 0.3


def test_a_space_whose_best_points_are_all_taken_still_gives_drafts() -> None:
    best = [point for point in SPACE.points() if point["pruning.method"] == "none" and point != BASELINE]
    seen = [measured(point, number) for number, point in enumerate(best, start=1)]
    assert len(OptunaProposer().propose(view(seen), 3)) == 3


def test_nothing_is_asked_for_where_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    small = SPACE.restrict({"pruning.method": ["none"]})
    points = [point for point in small.points() if point != BASELINE]
    kept, asked = points[0].digest, []
    ask = optuna.Study.ask

    def counted(study: optuna.Study) -> optuna.Trial:
        asked.append(study)
        return ask(study)

    monkeypatch.setattr(optuna.Study, "ask", counted)
    taken = frozenset(point.digest for point in points)
    assert OptunaProposer().propose(replace(view(), space=small, taken=taken), 3) == []
    assert asked == []
    (draft,) = OptunaProposer().propose(replace(view(), space=small, taken=taken - {kept}), 3)
    assert draft.candidate.digest == kept
    assert 0 < len(asked) < 3 * ASKS_A_DRAFT


@pytest.mark.parametrize("seed", range(3))
def test_what_is_drawn_does_not_depend_on_whether_what_is_left_is_listed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SPACE.restrict({"pruning.method": ["none"]})
    points = [point for point in small.points() if point != BASELINE]
    shown = replace(view(seed=seed), space=small, taken=frozenset(each.digest for each in points[seed::2]))
    listed = OptunaProposer().propose(shown, 40)
    assert 1 < len(points) <= LISTED_POINTS
    monkeypatch.setattr("agent.proposers.optuna_tpe.LISTED_POINTS", 0)
    assert OptunaProposer().propose(shown, 40) == listed
    assert listed


def test_a_value_that_must_be_given_is_not_looked_for_in_all_that_comes_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = tuple(Knob(f"many.{place}", (1, 2, 3), 1, "many") for place in range(9))
    given = Knob("given.path", (), None, "given", also=".+", also_like="PATH")
    looked, unmet = [], Knob.unmet

    def counted(knob: Knob, chosen: Mapping[str, KnobValue]) -> Condition | None:
        looked.append(knob.name)
        return unmet(knob, chosen)

    monkeypatch.setattr(Knob, "unmet", counted)
    start = Configuration.of({**dict.fromkeys((each.name for each in many), 1), given.name: "here"})
    shown = replace(view(), space=Space((*many, given)), incumbent=start, baseline=start)
    assert OptunaProposer().propose(shown, 1) == []
    assert len(looked) < (len(many) + 1) * (LISTED_POINTS + ASKS_A_DRAFT + 2)
