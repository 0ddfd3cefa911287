"""What is to be confirmed elsewhere: what becomes a row, what it gains and costs there, what goes next."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent.campaign.decision.choosing import choose
from agent.campaign.decision.desk import Desk
from agent.campaign.decision.expected_there import best_there
from agent.campaign.known.facts import Queued
from agent.campaign.known.other_targets import OtherTarget, Terms
from agent.campaign.rerun.confirming import PROPOSER, choose_there, drafts, left_over
from agent.proposers.port import Trial
from agent.ranking.values import Place
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from tests.unit.agent.test_desk import BASELINE, COMPILED, PRUNED, SPACE, desk, queued, trial

TARGET = "modal:L4"
BOTH = SPACE.with_change(COMPILED, {"serving.threads": 2})
PRICED = Terms(usd_per_s=0.001, bound_usd=0.6)


def confirms(number: int, tested: Trial, target: str = TARGET) -> Queued:
    return replace(
        queued(number, tested.candidate),
        control=tested.control,
        proposer=PROPOSER,
        target=target,
        confirms=tested.experiment_id,
    )


def supported(number: int, control: Configuration, candidate: Configuration, effect: float = -0.5) -> Trial:
    return trial(number, control, candidate, Outcome.SUPPORTED, effect)


def at(
    *queue: Queued, trials: tuple[Trial, ...], targets: tuple[OtherTarget, ...], load_s: float | None = None
) -> Desk:
    found = desk(*queue, trials=trials)
    facts = replace(found.facts, targets=targets)
    baseline = replace(found.baseline, load_s=load_s)
    return replace(found, facts=facts, baseline=baseline)


def place_of(found: Desk, number: int) -> Place:
    return next(each for each in found.ranking.places if each.hypothesis_id == number)


def test_what_is_supported_on_time_is_put_down_once_for_each_target() -> None:
    first, bits = supported(1, BASELINE, COMPILED), supported(2, BASELINE, PRUNED)
    refuted = trial(3, BASELINE, BOTH, Outcome.REFUTED, 0.1)
    targets = (OtherTarget(TARGET), OtherTarget("cuda:1"))
    found = at(trials=(first, replace(bits, metric=Metric.NLL_BITS), refuted), targets=targets).facts
    assert [(each.experiment_id, target) for _, each, target in drafts(found)] == [
        (1, TARGET),
        (1, "cuda:1"),
    ]
    (draft, *_), *_ = drafts(found)
    assert (draft.control, draft.candidate, draft.parents) == (BASELINE, COMPILED, (1,))
    assert draft.prediction.log_ratio_mean == first.effect_log
    known = replace(found, confirmed=frozenset({(1, TARGET)}))
    assert [target for *_, target in drafts(known)] == ["cuda:1"]


def test_a_verdict_of_another_target_is_no_step_here_and_one_there() -> None:
    first = supported(1, BASELINE, COMPILED)
    there = OtherTarget(TARGET, ran=(replace(first, experiment_id=9, effect_log=-0.3),))
    found = at(trials=(), targets=(there,))
    assert found.incumbent.configuration == BASELINE
    assert best_there(found.facts, there).configuration == COMPILED
    assert best_there(found.facts, OtherTarget("cuda:1")).configuration == BASELINE


def test_single_steps_gain_little_there_once_the_best_of_all_was_confirmed() -> None:
    first, whole = supported(1, BASELINE, COMPILED), supported(2, BASELINE, BOTH, -0.7)
    row = confirms(5, first)
    before = at(row, trials=(first, whole), targets=(OtherTarget(TARGET),))
    after = at(
        row, trials=(first, whole), targets=(OtherTarget(TARGET, ran=(replace(whole, experiment_id=9),)),)
    )
    assert place_of(before, 5).gain > 0.3
    assert place_of(after, 5).gain < 0.1


def test_what_was_built_there_costs_nothing_again_and_what_is_only_here_is_built() -> None:
    first = supported(1, BASELINE, PRUNED)
    row = confirms(5, first)
    nothing = place_of(at(row, trials=(first,), targets=(OtherTarget(TARGET, PRICED),)), 5)
    same_place = OtherTarget(TARGET, PRICED, built=(first,))
    built = place_of(at(row, trials=(first,), targets=(same_place,)), 5)
    device = replace(row, target="cuda:1")
    here = place_of(at(device, trials=(first,), targets=(OtherTarget("cuda:1"),)), 5)
    assert nothing.build_s > 0
    assert nothing.cost_s == pytest.approx(built.cost_s + nothing.build_s)
    assert (built.build_s, here.build_s) == (0.0, 0.0)
    assert nothing.usd == pytest.approx(0.001 * nothing.cost_s)
    assert here.usd is None


def test_its_pace_is_by_what_ran_on_both_else_by_bandwidth_where_that_is_what_takes_time() -> None:
    first = supported(1, BASELINE, COMPILED)
    row = confirms(5, first)

    def cost_s(target: OtherTarget, load_s: float | None = None) -> float:
        return place_of(at(row, trials=(first,), targets=(target,), load_s=load_s), 5).cost_s

    plain = cost_s(OtherTarget(TARGET))
    assert cost_s(OtherTarget(TARGET, pace=(4.0, 2.0, 3.0))) - _build_s(row, first) == pytest.approx(
        (plain - _build_s(row, first)) / 3
    )
    wide = OtherTarget(TARGET, Terms(bandwidth_bytes_per_s=1e11))  # ten times the measured one here
    assert cost_s(wide) == pytest.approx(plain), "nothing is known of loads, so all may be loads"
    assert cost_s(wide, load_s=0.001) < cost_s(OtherTarget(TARGET), load_s=0.001)


def _build_s(row: Queued, first: Trial) -> float:
    return place_of(at(row, trials=(first,), targets=(OtherTarget(TARGET),)), 5).build_s


def test_what_did_not_run_there_makes_it_less_likely_to() -> None:
    first = supported(1, BASELINE, COMPILED)
    failed = replace(first, experiment_id=9, outcome=Outcome.INFEASIBLE, effect_log=None)
    row = confirms(5, first)
    fine = place_of(at(row, trials=(first,), targets=(OtherTarget(TARGET),)), 5)
    worse = place_of(at(row, trials=(first,), targets=(OtherTarget(TARGET, ran=(failed,)),)), 5)
    assert worse.p_feasible < fine.p_feasible < 1


def test_each_target_takes_its_own_first_and_nothing_for_another_one() -> None:
    first = supported(1, BASELINE, COMPILED)
    target = OtherTarget(TARGET, PRICED, wait_s=600.0, is_wait_known=False)
    found = at(queued(2, BOTH), confirms(5, first), trials=(first,), targets=(target,))
    sent = choose_there(found, TARGET, 300.0)
    assert sent is not None
    assert sent.hypothesis_id == 5
    assert choose_there(found, "cuda:1", 300.0) is None
    here = choose(found, 300.0)
    assert here.hypothesis is None or here.hypothesis.id != 5


def test_a_wait_that_is_known_must_fit_into_the_time_and_a_guess_need_not() -> None:
    first = supported(1, BASELINE, COMPILED)
    guess = OtherTarget(TARGET, PRICED, wait_s=600.0, is_wait_known=False)
    row = confirms(5, first)
    assert choose_there(at(row, trials=(first,), targets=(guess,)), TARGET, 300.0) is not None
    known = replace(guess, is_wait_known=True)
    found = at(row, trials=(first,), targets=(known,))
    assert choose_there(found, TARGET, 300.0) is None
    told = left_over(found.ranking.places, found.facts, 300.0)
    assert told.startswith("; not confirmed on modal:L4: H-005 (it needs ")
    assert told.endswith("and 5 min are left)")


def test_without_room_in_a_budget_nothing_is_sent_and_the_reason_says_so() -> None:
    first = supported(1, BASELINE, COMPILED)
    held = OtherTarget(TARGET, PRICED, held="It costs $0.60 at most, and the budget of C-1 has $0.10 left.")
    found = at(confirms(5, first), trials=(first,), targets=(held,))
    assert choose_there(found, TARGET, math.inf) is None
    assert "not submitted: it costs $0.60 at most" in place_of(found, 5).reason
    assert "(It costs $0.60 at most" in left_over(found.ranking.places, found.facts, math.inf)


def test_a_campaign_that_ends_leaves_its_own_queue_alone_with_what_is_for_others() -> None:
    """What is for another target neither keeps this one going nor is tested here."""
    first = supported(1, BASELINE, COMPILED)
    found = at(confirms(5, first), trials=(first,), targets=(OtherTarget(TARGET, PRICED),))
    choice = choose(found, 300.0)
    assert choice.hypothesis is None
    assert "nothing is left in the queue" in choice.reason
