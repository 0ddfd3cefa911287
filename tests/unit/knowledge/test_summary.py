from dataclasses import replace
from math import log1p

import pytest

from db.states import CampaignState, VerdictOutcome
from knowledge.queries.facts import campaign_facts
from knowledge.telling.facts import CampaignFacts, JudgedFact
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History

EMPTY = CampaignFacts(
    campaign="C-1",
    name="default",
    model="reference",
    target="cpu",
    state=CampaignState.RUNNING,
    stopped_because=None,
    started_at=None,
    spent_s=None,
    budget_s=480.0,
    experiments=0,
    experiment_s=0.0,
    hypotheses={},
    testing=(),
    next=(),
    judged=(),
)


def judged(
    number: int, outcome: VerdictOutcome, effect: float | None, predicted: float = -0.10
) -> JudgedFact:
    log = None if effect is None else log1p(effect)
    mean = log1p(predicted)
    return JudgedFact(
        id=f"H-{number:03d}",
        experiment=f"E-{number:04d}",
        claim=f"Claim {number}.",
        metric="tpot_ms",
        outcome=outcome,
        reason=f"Reason {number}.",
        effect_log=log,
        low_log=None if log is None else log - 0.01,
        high_log=None if log is None else log + 0.01,
        predicted_log=(mean, mean - 0.05, mean + 0.05),
    )


def test_how_many_wait_for_approval_is_said_where_the_campaign_asks_for_any() -> None:
    assert summarize(EMPTY).waiting is None
    asking = replace(EMPTY, approve_above_s=600.0)
    assert summarize(asking).parts()[2].sentence == "Nothing waits for your approval."
    waiting = summarize(replace(asking, awaiting=2)).parts()[2]
    assert waiting.sentence == (
        "2 hypotheses wait for your approval, which is asked for above 10 min of expected time."
    )
    assert waiting.lines == ("See them with their quotes: autoinfer queue --awaiting",)


def test_a_campaign_that_ended_without_a_baseline_does_not_say_that_one_will_come() -> None:
    ended = replace(EMPTY, state=CampaignState.STOPPED, stopped_because="the budget of 20 min is spent")
    assert summarize(ended).parts()[0].sentence == "The baseline was not measured."


def test_an_empty_campaign_says_so_in_every_part() -> None:
    found = summarize(EMPTY)
    assert [part.sentence for part in found.parts()] == [
        "The baseline is not measured yet.",
        "Nothing is under test; the queue is empty.",
        "Nothing is supported yet.",
        "Nothing is ruled out yet.",
        "No test was inconclusive.",
        "No test was confounded.",
        "Nothing predicted was measured yet.",
        "Nothing that anyone proposed is judged yet.",
        "0 experiments in 0 s; the campaign has not started.",
    ]


def test_supported_hypotheses_stand_with_the_largest_effect_first() -> None:
    facts = replace(
        EMPTY, judged=(judged(1, VerdictOutcome.SUPPORTED, -0.05), judged(2, VerdictOutcome.SUPPORTED, -0.20))
    )
    part = summarize(facts).supported
    assert part.sentence == "2 hypotheses are supported."
    assert part.lines[0].startswith("H-002  Claim 2: TPOT −20.0 % [")


def test_effects_on_other_metrics_stand_after_those_on_time_and_in_their_own_unit() -> None:
    tasks = replace(
        judged(1, VerdictOutcome.SUPPORTED, -0.5),
        metric="task_correct",
        effect_log=-0.08,
        low_log=-0.1,
        high_log=-0.06,
        predicted_log=(-0.02, -0.04, 0.0),
    )
    facts = replace(EMPTY, judged=(tasks, judged(2, VerdictOutcome.SUPPORTED, -0.05, -0.05)))
    found = summarize(facts)
    assert found.supported.lines[0].startswith("H-002  Claim 2: TPOT −5.0 % [")
    assert found.supported.lines[1] == "H-001  Claim 1: tasks solved +8.0 points [+6.0, +10.0] (E-0001)"
    assert found.surprised.lines == (
        "H-001  Claim 1: measured +8.0 points, predicted +2.0 points within [0.0, +4.0] points",
    )


def test_what_is_ruled_out_is_told_with_its_reason_and_apart_from_what_is_open() -> None:
    facts = replace(
        EMPTY,
        judged=(
            judged(1, VerdictOutcome.INFEASIBLE, None),
            judged(2, VerdictOutcome.REFUTED, 0.1),
            judged(3, VerdictOutcome.INCONCLUSIVE, -0.02),
        ),
    )
    found = summarize(facts)
    assert found.ruled_out.sentence == "1 refuted and 1 infeasible."
    assert found.ruled_out.lines == ("H-002  Claim 2: Reason 2", "H-001  Claim 1: Reason 1")
    assert found.inconclusive.lines == ("H-003  Claim 3: Reason 3",)


@pytest.mark.parametrize(
    ("effect", "surprising"), [(-0.10, False), (-0.13, False), (-0.16, True), (0.0, True)]
)
def test_a_surprise_lies_outside_the_80_percent_prediction(effect: float, surprising: bool) -> None:
    part = summarize(replace(EMPTY, judged=(judged(1, VerdictOutcome.REFUTED, effect),))).surprised
    assert bool(part.lines) == surprising


def test_the_furthest_surprise_stands_first() -> None:
    facts = replace(
        EMPTY, judged=(judged(1, VerdictOutcome.REFUTED, 0.0), judged(2, VerdictOutcome.REFUTED, 0.3))
    )
    part = summarize(facts).surprised
    assert part.sentence == (
        "0 of 2 outcomes came out inside the 80 % interval that was predicted: 0 % [0, 66]. "
        "So few outcomes do not tell whether the predictions are surer than they should be."
    )
    assert part.lines[0] == "H-002  Claim 2: measured +30.0 %, predicted −10.0 % within [−14.4, −5.4] %"


def test_a_long_part_names_five_and_counts_the_rest() -> None:
    facts = replace(EMPTY, judged=tuple(judged(n, VerdictOutcome.REFUTED, 0.1) for n in range(1, 9)))
    part = summarize(facts).ruled_out
    assert len(part.lines) == 6
    assert part.lines[-1] == "and 3 more"


def test_the_best_is_told_with_its_interval_and_the_naive_default_beside_the_baseline() -> None:
    outcome = {
        "baseline": {"tpot_ms": 12.5},
        "naive": {"tpot_ms": 20.0},
        "best": {
            "experiment": "E-0007",
            "speedup": 1.5,
            "speedup_interval": [1.45, 1.55],
            "speedup_basis": "E-0007",
            "tpot_ms": 8.33,
            "control_tpot_ms": 12.4,
            "configuration": {"serving.threads": 1},
        },
    }
    part = summarize(replace(EMPTY, outcome=outcome)).best
    assert part.sentence == (
        "1.500× [1.450, 1.550] as fast as the baseline, 8.33 ms a token against 12.4 ms (E-0007)."
    )
    assert part.lines == (
        "The baseline takes 12.5 ms a token; the engine's own default took 1.60× as long.",
        "serving.threads=1",
        "What to deploy is written by: autoinfer export C-1 --recipe",
    )


def test_a_baseline_that_is_the_engine_s_own_default_is_not_compared_with_itself() -> None:
    same = {"tpot_ms": 12.5, "configuration": {"serving.threads": 2}}
    part = summarize(replace(EMPTY, outcome={"baseline": same, "naive": same})).best
    assert part.lines == ("The baseline, the engine's own default, takes 12.5 ms a token.",)


def test_a_stopped_campaign_leads_with_the_reason() -> None:
    facts = replace(EMPTY, state=CampaignState.STOPPED, stopped_because="the budget is spent")
    assert summarize(facts).headline == (
        "C-1 looks for what makes reference faster on cpu: it ended because the budget is spent."
    )


def test_the_numbers_are_those_of_the_database(full_history: History) -> None:
    with full_history.database.read() as session:
        found = summarize(campaign_facts(session, full_history.campaign_id))
    assert found.validating.sentence == "1 hypothesis is under test; 2 hypotheses in the queue."
    assert found.validating.lines[0] == "H-005  Compiling is faster (quick)"
    assert found.supported.lines == ("H-001  One thread is faster: TPOT −10.0 % [−12.0, −8.0] (E-0001)",)
    assert found.ruled_out.sentence == "1 refuted and 1 infeasible."
    assert found.spent.sentence.startswith("4 experiments in 2 min 48 s, beside 1 that has not ended;")


def test_what_was_run_once_more_on_request_is_told_apart_from_what_the_campaign_ran_for() -> None:
    facts = replace(EMPTY, experiments=8, experiment_s=586.0, again=2, again_s=299.0, spent_s=291.0)
    begin = "8 experiments in 9 min 46 s, 4 min 59 s of that for 2 run once more on request"
    ran = "; the campaign itself ran for 4 min 51 s of its budget of 8 min."
    assert summarize(facts).spent.sentence == begin + ran
    two = replace(facts, experiments=10, unfinished=2)
    assert summarize(two).spent.sentence == f"{begin}, beside 2 that have not ended{ran}"
    alone = replace(facts, experiments=6, experiment_s=287.0, again=0, again_s=0.0)
    assert summarize(alone).spent.sentence.startswith(
        "6 experiments in 4 min 47 s; the campaign itself ran for"
    )


def test_a_reproduction_is_not_counted_as_another_hypothesis(history: History) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis, VerdictOutcome.SUPPORTED)
    history.judge(hypothesis, VerdictOutcome.SUPPORTED, reproduces=first.experiment_id)
    with history.database.read() as session:
        found = summarize(campaign_facts(session, history.campaign_id))
    assert found.supported.sentence == (
        "1 hypothesis is supported; at most 0.05 of the 1 supported is expected to be false in its claim "
        "(each at a level of its own, without online control) and 0.05 in its quality (1 checked at 5 %), "
        "on average over campaigns like this if chosen without regard to earlier scores."
    )
