"""What the desk chooses next: the order, the budget, the first verdict, and when to stop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.campaign.decision import choosing
from agent.campaign.decision.choosing import NEARLY_AS_GOOD, ROOM, choose, none_of
from agent.campaign.decision.desk import Desk
from agent.campaign.decision.leaving import QUESTIONS
from agent.campaign.decision.stated import combined
from agent.campaign.known.facts import Facts, Queued
from agent.campaign.known.incumbent import find_incumbent
from agent.campaign.known.measured import Baseline
from agent.ground.legal import Legal
from agent.proposers.port import CarriedBest, Trial
from agent.proposers.user import PROPOSER as USER
from agent.ranking.stopping import WORTH
from agent.ranking.values import Candidate, Ranking
from configs.campaign import load_campaign
from db.states import CampaignState, HypothesisState
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space

SPACE = load_space("reference").restrict({"serving.threads": (1, 2)})
BASELINE = SPACE.configuration({"serving.dtype": "float32", "serving.threads": 1})
COMPILED = SPACE.with_change(BASELINE, {"serving.compile": "cpp_wrapper"})
NARROWER = SPACE.with_change(BASELINE, {"serving.dtype": "bfloat16"})
PRUNED = SPACE.with_change(BASELINE, {"pruning.method": "depth"})
LAYERS = ("linear_attention", "linear_attention", "linear_attention", "full_attention") * 3


def queued(number: int, candidate: Configuration, *, pinned: bool = False) -> Queued:
    return Queued(
        id=number,
        claim="It is faster.",
        control=BASELINE,
        candidate=candidate,
        lever="+".join(SPACE.levers_between(BASELINE, candidate)),
        prediction=Prediction(log_ratio_mean=-0.1, log_ratio_sd=0.1),
        min_effect=0.03,
        proposer="rules",
        pinned=pinned,
        rank=None,
        metric="tpot_ms",
    )


def trial(
    number: int, control: Configuration, candidate: Configuration, outcome: Outcome, effect_log: float = -0.5
) -> Trial:
    return Trial(number, number, control, candidate, "any", outcome, effect_log, 0.01, 0.0, 0.0, 60.0)


def desk(*queue: Queued, trials: tuple[Trial, ...] = ()) -> Desk:
    facts = Facts(
        id=1,
        spec=load_campaign("default"),
        state=CampaignState.RUNNING,
        model_fingerprint="f",
        target_key="cpu",
        model_layers=LAYERS,
        cores=2,
        spent_s=0.0,
        baseline=BASELINE,
        naive=BASELINE,
        baseline_experiment_id=1,
        trials=trials,
        queue=queue,
        under_test=(),
        proposed=(),
    )
    measured = Baseline({BASELINE.digest: 8.0}, {BASELINE.digest: 40.0}, (), 1.0, 1e10)
    return Desk(facts, Legal(SPACE), measured, ())


def test_before_the_first_verdict_the_cheapest_worthwhile_test_goes_first() -> None:
    found = desk(queued(1, COMPILED), queued(2, NARROWER))
    assert found.ranking.places[0].hypothesis_id == 1
    choice = choose(found, 400)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 2
    assert "soonest" in choice.reason


def test_the_cheapest_does_not_go_first_where_the_first_in_order_might_not_fit_after_it() -> None:
    found = desk(queued(1, COMPILED), queued(2, NARROWER))
    first, second = found.ranking.places
    room_s = ROOM * (first.cost_s + second.cost_s)
    for left_s, chosen in ((room_s + 1, 2), (room_s - 1, 1)):
        choice = choose(found, left_s)
        assert choice.hypothesis is not None
        assert choice.hypothesis.id == chosen


def test_none_goes_first_that_hardly_comes_sooner_than_the_first_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = desk(queued(1, COMPILED), queued(2, NARROWER))
    first, second = found.ranking.places
    share = second.cost_s / first.cost_s
    for sooner, chosen in ((share + 0.01, 2), (share - 0.01, 1)):
        monkeypatch.setattr(choosing, "SOONER", sooner)
        choice = choose(found, 400)
        assert choice.hypothesis is not None
        assert choice.hypothesis.id == chosen


def test_where_another_campaign_came_to_a_verdict_before_the_first_in_order_goes_first() -> None:
    found = desk(queued(1, COMPILED), queued(2, NARROWER))
    assert choose(found, 400).reason == "taken first because its verdict comes soonest"
    shown = replace(found, facts=replace(found.facts, worked_before=True))
    choice = choose(shown, 400)
    assert choice.hypothesis is not None
    assert (choice.hypothesis.id, choice.reason) == (1, "")


def test_what_does_not_fit_is_passed_over_where_another_campaign_came_to_a_verdict_before_too() -> None:
    found = desk(queued(1, COMPILED), queued(2, NARROWER))
    shown = replace(found, facts=replace(found.facts, worked_before=True))
    first, second = found.ranking.places
    choice = choose(shown, (first.cost_s + second.cost_s) / 2)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 2
    assert choice.reason.startswith("taken before H-001, which does not fit into the ")


def test_what_promises_little_does_not_go_first_for_being_cheap() -> None:
    found = desk(queued(1, COMPILED), queued(2, PRUNED))
    first, cheaper = found.ranking.places
    assert cheaper.cost_s < first.cost_s
    assert cheaper.score < NEARLY_AS_GOOD * first.score
    choice = choose(found, 400)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 1


def test_after_the_first_verdict_the_order_decides() -> None:
    refuted = trial(3, BASELINE, SPACE.with_change(BASELINE, {"serving.threads": 2}), Outcome.REFUTED, 0.0)
    choice = choose(desk(queued(1, COMPILED), queued(2, PRUNED), trials=(refuted,)), 400)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 1


def test_what_the_user_pinned_goes_first_even_before_the_first_verdict() -> None:
    choice = choose(desk(queued(1, COMPILED, pinned=True), queued(2, PRUNED)), 400)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 1


@pytest.mark.parametrize(("left_s", "words"), [(0, "is spent"), (5, "nearly spent")])
def test_the_budget_ends_a_campaign_with_its_reason(left_s: float, words: str) -> None:
    choice = choose(desk(queued(1, COMPILED)), left_s)
    assert choice.hypothesis is None
    assert words in choice.reason


def test_that_nothing_fits_is_told_in_the_singular_of_one_hypothesis() -> None:
    one, two = (desk(*queue) for queue in ((queued(1, COMPILED),), (queued(1, COMPILED), queued(2, PRUNED))))
    assert choose(one, 5).reason.endswith(
        "5 s are left, and the only queued hypothesis does not fit into them"
    )
    assert choose(two, 5).reason.endswith("5 s are left, and none of 2 queued hypotheses fits into them")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "the only queued hypothesis fits into them but is not worth its price"),
        (3, "none of 3 queued hypotheses that fits into them is worth its price"),
    ],
)
def test_that_nothing_which_fits_is_worth_its_price_is_told_so(count: int, words: str) -> None:
    assert none_of(count, fits=True) == words


def test_an_empty_queue_ends_a_campaign() -> None:
    choice = choose(desk(), 400)
    assert choice.hypothesis is None
    assert "nothing is left" in choice.reason.lower()


def test_a_chain_of_supported_changes_is_confirmed_against_the_baseline() -> None:
    both = SPACE.with_change(COMPILED, {"serving.threads": 2})
    chain = (
        trial(1, BASELINE, COMPILED, Outcome.SUPPORTED, -0.5),
        trial(2, COMPILED, both, Outcome.SUPPORTED, -0.1),
    )
    choice = choose(desk(trials=chain), 400)
    assert choice.draft is not None
    assert (choice.draft.control, choice.draft.candidate) == (BASELINE, both)
    confirmed = (*chain, trial(3, BASELINE, both, Outcome.SUPPORTED, -0.6))
    assert choose(desk(trials=confirmed), 400).draft is None


def test_nothing_is_saved_for_a_confirmation_that_the_budget_can_not_bear_any_more() -> None:
    both = SPACE.with_change(COMPILED, {"serving.threads": 2})
    chain = (
        replace(trial(1, BASELINE, COMPILED, Outcome.SUPPORTED, -0.5), cost_s=200.0),
        replace(trial(2, COMPILED, both, Outcome.SUPPORTED, -0.1), cost_s=200.0),
    )
    found = desk(queued(3, PRUNED), trials=chain)
    (place,) = found.ranking.places
    assert place.cost_s < found.beliefs.cost_s(both) - 1, "the scene needs a test that is cheaper"
    choice = choose(found, found.beliefs.cost_s(both) - 1)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 3


def test_what_is_taken_before_others_says_why() -> None:
    refuted = trial(3, BASELINE, SPACE.with_change(BASELINE, {"serving.threads": 2}), Outcome.REFUTED, 0.0)
    found = desk(queued(1, COMPILED), queued(2, PRUNED), trials=(replace(refuted, cost_s=300.0),))
    first, second = found.ranking.places
    assert (first.hypothesis_id, second.hypothesis_id) == (1, 2)
    assert choose(found, first.cost_s + 1).reason == ""
    choice = choose(found, (first.cost_s + second.cost_s) / 2)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 2
    assert choice.reason.startswith("taken before H-001, which does not fit into the ")


def test_what_is_believed_worthless_is_tested_only_until_beliefs_are_trusted() -> None:
    hopeless = queued(1, SPACE.with_change(BASELINE, {"serving.threads": 2}))
    refuted = [
        trial(2 + n, BASELINE, SPACE.with_change(BASELINE, {"serving.threads": 2}), Outcome.REFUTED, 0.5)
        for n in range(6)
    ]
    few, enough = desk(hopeless, trials=tuple(refuted[:3])), desk(hopeless, trials=tuple(refuted))
    assert few.ranking.places[0].worth < WORTH
    assert few.facts.spec.least_verdicts == len(refuted)
    assert choose(few, 1000).hypothesis is not None
    assert choose(enough, 1000).hypothesis is None
    pinned = desk(replace(hopeless, pinned=True), trials=tuple(refuted))
    assert choose(pinned, 1000).hypothesis is not None
    users = desk(replace(hopeless, proposer=USER), trials=tuple(refuted))
    assert choose(users, 1000).hypothesis is not None, "also where nothing else is worth it"
    for proposer, tested in ((hopeless.proposer, False), (USER, True)):
        both = desk(replace(hopeless, proposer=proposer), queued(2, COMPILED), trials=tuple(refuted))
        costs = {place.hypothesis_id: place.cost_s for place in both.ranking.places}
        assert (choose(both, (costs[1] + costs[2]) / 2).hypothesis is not None) == tested


def test_what_a_verdict_speaks_against_leaves_the_queue_unless_a_person_wants_it() -> None:
    one, two = (SPACE.with_change(PRUNED, {"pruning.layers_removed": n}) for n in (1, 2))
    lost = replace(trial(5, BASELINE, one, Outcome.REFUTED), effect_log=None)
    queue = (
        queued(1, two),
        queued(2, COMPILED),
        replace(queued(3, two), proposer=USER),
        queued(4, two, pinned=True),
    )
    assert desk(*queue, trials=(lost,)).leaving == {1: "H-005 lost the quality with layers that it takes too"}
    assert desk(*queue, trials=(replace(lost, outcome=Outcome.INCONCLUSIVE),)).leaving == {}


def test_what_leaves_the_queue_for_a_new_best_may_be_proposed_on_top_of_it() -> None:
    waiting = (queued(2, NARROWER), queued(3, PRUNED, pinned=True))
    supported = trial(1, BASELINE, COMPILED, Outcome.SUPPORTED)
    refuted = trial(4, BASELINE, SPACE.with_change(BASELINE, {"serving.threads": 2}), Outcome.REFUTED, 0.0)
    found = desk(*waiting, trials=(supported, refuted))
    proposed = (
        (BASELINE.digest, NARROWER.digest, HypothesisState.QUEUED),
        (BASELINE.digest, PRUNED.digest, HypothesisState.QUEUED),
        (BASELINE.digest, refuted.candidate.digest, HypothesisState.REFUTED),
    )
    after = replace(found, facts=replace(found.facts, proposed=proposed))
    assert set(after.leaving) == {2}
    assert after.view.taken == {PRUNED.digest, refuted.candidate.digest}
    before = replace(after, facts=replace(after.facts, trials=(refuted,)))
    assert before.view.taken == {NARROWER.digest, PRUNED.digest, refuted.candidate.digest}


def test_what_is_part_of_another_campaign_s_best_on_the_same_control_is_known_as_such() -> None:
    both = SPACE.with_change(COMPILED, {"pruning.method": "depth"})
    whole, part, other = queued(1, both), queued(2, COMPILED), queued(3, NARROWER)
    elsewhere = replace(
        queued(4, both),
        control=NARROWER,
        candidate=SPACE.with_change(NARROWER, {"serving.compile": "default"}),
    )
    best = CarriedBest("C-9", "E-0099", "", BASELINE, both, -0.5, 2)
    ranked: list[Candidate] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "agent.campaign.decision.desk.rank", lambda given, *_, **__: ranked.extend(given) or Ranking()
        )
        found = desk(whole, part, other)
        known = replace(found, facts=replace(found.facts, carried_bests=(best,)))
        known.ranking_of((whole, part, other, elsewhere))
        found.ranking_of((replace(whole, proposer="carried"), part))  # a finding, not a best
    assert [each.part_of for each in ranked] == [(), (1,), (), (), (), ()]


def test_only_what_is_reached_from_the_baseline_by_supported_changes_can_be_the_best() -> None:
    both = SPACE.with_change(COMPILED, {"serving.threads": 2})
    stranded = trial(2, COMPILED, both, Outcome.SUPPORTED, -0.9)
    refuted = trial(1, BASELINE, COMPILED, Outcome.REFUTED, -0.5)
    assert find_incumbent(BASELINE, (stranded, refuted)).configuration == BASELINE
    supported = replace(refuted, outcome=Outcome.SUPPORTED)
    best = find_incumbent(BASELINE, (stranded, supported))
    assert (best.configuration, best.steps) == (both, 2)
    assert best.log_ratio == pytest.approx(-1.4)


def test_two_beliefs_combine_to_a_closer_one_between_them() -> None:
    one, other = (
        Prediction(log_ratio_mean=-0.2, log_ratio_sd=0.1),
        Prediction(log_ratio_mean=0, log_ratio_sd=0.2),
    )
    both = combined(one, other)
    assert -0.2 < both.log_ratio_mean < -0.1
    assert both.log_ratio_sd < 0.1


def asked(number: int, candidate: Configuration, metric: str = "tpot_ms") -> Queued:
    return replace(queued(number, candidate), metric=metric, question=f"q{number}", proposer=QUESTIONS)


def test_a_question_goes_first_even_before_the_first_verdict() -> None:
    choice = choose(desk(queued(1, PRUNED), asked(2, COMPILED)), 400)
    assert choice.hypothesis is not None
    assert choice.hypothesis.id == 2


def test_questions_keep_a_campaign_going_that_nothing_else_would() -> None:
    threads = SPACE.with_change(BASELINE, {"serving.threads": 2})
    judged = tuple(trial(n, BASELINE, threads, Outcome.REFUTED, 0.4) for n in range(10, 20))
    assert choose(desk(queued(1, threads), trials=judged), 4000).hypothesis is None
    choice = choose(desk(asked(1, threads), trials=judged), 4000)
    assert choice.hypothesis is not None


def test_questions_are_never_withdrawn_because_another_configuration_is_the_best() -> None:
    supported = trial(3, BASELINE, COMPILED, Outcome.SUPPORTED)
    found = desk(queued(1, PRUNED), asked(2, PRUNED), trials=(supported,))
    assert list(found.leaving) == [1]


def test_a_claim_on_another_metric_is_no_step_to_the_best() -> None:
    bits = replace(trial(1, BASELINE, COMPILED, Outcome.SUPPORTED), metric=Metric.NLL_BITS)
    assert find_incumbent(BASELINE, (bits,)).configuration == BASELINE
    assert desk(trials=(bits,)).incumbent.configuration == BASELINE
    other = replace(bits, metric=Metric.TTFT_MS)
    assert find_incumbent(BASELINE, (other,)).configuration == BASELINE
    assert find_incumbent(BASELINE, (other,), Metric.TTFT_MS).configuration == COMPILED


def test_a_claim_on_another_metric_is_predicted_and_ranked_on_it() -> None:
    found = desk(asked(2, PRUNED, "nll_bits"), asked(3, PRUNED))
    bits, time = found.facts.queue
    assert found.prediction_of(bits) == found.beliefs.predict(BASELINE, PRUNED, Metric.NLL_BITS)
    assert found.prediction_of(time) == found.beliefs.predict(BASELINE, PRUNED)
    reasons = [place.reason for place in found.ranking.places]
    assert "of bits per byte" in reasons[0]
    assert "of bits per byte" not in reasons[1]
