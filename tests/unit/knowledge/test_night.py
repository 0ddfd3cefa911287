"""The question of the night: asked, taken back, and told whether it is settled and how."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from agent.campaign.night import tell_of_question
from configs.errors import UsageError
from db.models import Campaign, Directive, Event, Experiment, Hypothesis
from db.states import CampaignState, DirectiveKind, HypothesisState, VerdictOutcome
from knowledge.acts import night, steering
from knowledge.queries.facts import campaign_facts
from knowledge.queries.order.night import Answer, QuestionView, question_now
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History

THREADS, DTYPE = {"serving.threads": 1}, {"serving.dtype": "bfloat16"}


def ask(history: History, number: int) -> Directive:
    with history.database.write() as session:
        return night.ask(session, number)


def now(history: History) -> QuestionView:
    with history.database.read() as session:
        found = question_now(session, 1)
    assert found is not None
    return found


def placed(history: History, number: int, rank: int, asked: Directive, **score: object) -> None:
    with history.database.write() as session:
        row = session.get_one(Hypothesis, number)
        row.state, row.rank = HypothesisState.QUEUED, rank
        row.score = {"cost_s": 60.0, "question_of": asked.event_id, **score}


def tell(history: History) -> list[tuple[str, str | None]]:
    with history.database.write() as session:
        tell_of_question(session, 1)
        tell_of_question(session, 1)
        rows = session.scalars(select(Event).where(Event.kind == "question.settled").order_by(Event.id))
        return [(each.text, each.subject) for each in rows]


def test_a_campaign_without_a_question_has_none_and_its_summary_says_nothing_of_it(history: History) -> None:
    with history.database.read() as session:
        assert question_now(session, 1) is None
        assert summarize(campaign_facts(session, 1)).question is None
    assert tell(history) == []


def test_a_question_is_a_directive_and_asking_it_again_gives_the_same(history: History) -> None:
    number = history.propose(THREADS)
    given = ask(history, number)
    assert (given.kind, given.text) == (DirectiveKind.QUESTION, "Settle H-001 before all else.")
    assert ask(history, number).id == given.id
    assert now(history).sentence == "Not settled yet: it is put first at the next ranking."


def test_a_later_question_takes_the_place_of_the_earlier(history: History) -> None:
    first, second = history.propose(THREADS), history.propose(DTYPE)
    ask(history, first)
    assert ask(history, second).text == "Settle H-002 before all else. It takes the place of H-001."
    with history.database.read() as session:
        held = session.scalars(select(Directive.hypothesis_id).where(Directive.active)).all()
    assert held == [second]


def test_it_is_taken_back_with_an_event_and_not_twice(history: History) -> None:
    ask(history, history.propose(THREADS))
    with history.database.write() as session:
        night.take_back(session, 1)
    with history.database.write() as session:
        lifted = session.scalars(select(Event.text).where(Event.kind == "directive.lifted")).all()
        with pytest.raises(UsageError, match="C-1 has no question of the night"):
            night.take_back(session, 1)
    assert lifted == ["Lifted: Settle H-001 before all else."]


def test_what_is_withdrawn_is_no_question_any_more(history: History) -> None:
    number = history.propose(THREADS)
    ask(history, number)
    with history.database.write() as session:
        steering.withdraw(session, number, "by the user")
        assert question_now(session, 1) is None


@pytest.mark.parametrize("outcome", [VerdictOutcome.SUPPORTED, VerdictOutcome.INCONCLUSIVE])
def test_what_nothing_in_the_queue_could_settle_is_refused(history: History, outcome: VerdictOutcome) -> None:
    number = history.propose(THREADS)
    history.judge(number, outcome)
    with history.database.write() as session, pytest.raises(UsageError) as refused:
        night.ask(session, number)
    assert refused.value.message.startswith(f"H-001 is {outcome.value}, so there is nothing left")
    assert refused.value.hint == "See what was found: autoinfer show H-001"


def test_a_campaign_that_has_ended_is_asked_nothing(history: History) -> None:
    number = history.propose(THREADS)
    with history.database.write() as session:
        steering.stop_campaign(session, 1)
    with history.database.write() as session, pytest.raises(UsageError, match="C-1 has ended"):
        night.ask(session, number)


@pytest.mark.parametrize(
    ("rank", "score", "words"),
    [
        (1, {}, "it is tested next"),
        (2, {}, "it has place 2 in the queue"),
        (1, {"awaits_approval": True}, "it waits for your approval (autoinfer approve H-001)"),
        (1, {"paused": True, "capped_by": 9}, "a cap holds it back"),
        (1, {"paused": True}, "a ban holds it back"),
        (1, {"early": True}, "a cap of a share lets it run only after tests of other levers"),
        (1, {"cost_s": 7200.0}, "it is expected to take 2 h, and 5 min of the budget are left"),
    ],
)
def test_what_a_waiting_question_waits_for_is_said(
    history: History, rank: int, score: dict[str, object], words: str
) -> None:
    number = history.propose(THREADS)
    with history.database.write() as session:
        session.get_one(Campaign, 1).budget = {"wall_s": 600.0, "spent_s": 300.0}
    placed(history, number, rank, ask(history, number), **score)
    found = now(history)
    assert (found.answer, found.sentence) == (Answer.WAITING, f"Not settled yet: {words}.")
    assert tell(history) == []


def test_a_question_under_test_says_so(history: History) -> None:
    number = history.propose(THREADS)
    ask(history, number)
    history.start_testing(number)
    assert now(history).answer is Answer.TESTING


@pytest.mark.parametrize(
    ("outcome", "effect", "sentence"),
    [
        (
            VerdictOutcome.SUPPORTED,
            (-0.10, -0.12, -0.08),
            "Settled: supported, TPOT −10.0 % [−12.0, −8.0] (E-0001).",
        ),
        (VerdictOutcome.REFUTED, (0.0, -0.01, 0.01), "Settled: refuted, TPOT 0.0 % [−1.0, +1.0] (E-0001)."),
        (VerdictOutcome.INFEASIBLE, None, "Settled: infeasible, it did not load (E-0001)."),
    ],
)
def test_a_decided_question_is_settled_and_told_once_with_how(
    history: History,
    outcome: VerdictOutcome,
    effect: tuple[float, float, float] | None,
    sentence: str,
) -> None:
    number = history.propose(THREADS, claim="One thread is faster.")
    ask(history, number)
    history.judge(number, outcome, effect=effect, reason="It did not load.")
    found = now(history)
    assert (found.answer, found.sentence, found.outcome) == (Answer.SETTLED, sentence, outcome)
    assert found.is_over
    assert tell(history) == [(f"The question of the night: One thread is faster. {sentence}", "H-001")]
    with history.database.read() as session:
        part = summarize(campaign_facts(session, 1)).parts()[0]
    assert (part.title, part.sentence) == ("The question of the night", sentence)
    assert part.lines == ("H-001  One thread is faster",)


def test_an_inconclusive_question_is_left_open_and_says_what_was_seen(history: History) -> None:
    number = history.propose(THREADS)
    ask(history, number)
    history.judge(number, VerdictOutcome.INCONCLUSIVE, effect=(-0.02, -0.06, 0.02))
    found = now(history)
    assert found.answer is Answer.LEFT_OPEN
    assert found.sentence == "Not settled: inconclusive, TPOT −2.0 % [−6.0, +2.0] (E-0001)."
    assert len(tell(history)) == 1


def separate(history: History, number: int, experiment_id: int) -> None:
    with history.database.write() as session:
        row = session.get_one(Hypothesis, number)
        row.change = {**row.change, "separates": {"experiment": f"E-{experiment_id:04d}", "corner": "first"}}


def test_a_confounded_question_is_open_until_its_causes_are_apart(history: History) -> None:
    number = history.propose(THREADS)
    ask(history, number)
    judged = history.judge(number, VerdictOutcome.CONFOUNDED, effect=(-0.3, -0.4, -0.2))
    assert now(history).sentence == (
        "Not settled: confounded, TPOT −30.0 % [−40.0, −20.0] (E-0001); nothing separates its causes."
    )
    parts = history.propose(DTYPE), history.propose({"serving.compile": "default"})
    for part in parts:
        separate(history, part, judged.experiment_id)
    found = now(history)
    assert found.answer is Answer.WAITING
    assert found.sentence.endswith("(E-0001); H-002 and H-003 separate its causes.")
    with history.database.write() as session:
        night.take_back(session, 1)
        night.ask(session, number)  # it is open, so it may be asked again
    history.judge(parts[0], VerdictOutcome.SUPPORTED)
    assert now(history).answer is Answer.WAITING
    history.judge(parts[1], VerdictOutcome.REFUTED, effect=(0.0, -0.01, 0.01))
    found = now(history)
    assert found.answer is Answer.SETTLED
    assert found.sentence == (
        "Settled by its parts: confounded, TPOT −30.0 % [−40.0, −20.0] (E-0001), and apart H-002 was "
        "supported, TPOT −10.0 % [−12.0, −8.0] and H-003 was refuted, TPOT 0.0 % [−1.0, +1.0]."
    )


def test_a_campaign_that_ends_before_its_question_leaves_it_open_and_a_resumed_one_may_still_settle_it(
    history: History,
) -> None:
    number = history.propose(THREADS)
    ask(history, number)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.state, campaign.stopped_because = CampaignState.STOPPED, "the budget is spent"
    assert now(history).sentence == "Not settled: C-1 ended before it was tested."
    assert len(tell(history)) == 1
    with history.database.write() as session:
        session.get_one(Campaign, 1).state = CampaignState.RUNNING
    history.judge(number, VerdictOutcome.SUPPORTED)
    assert [text.rpartition("faster. ")[2][:8] for text, _ in tell(history)] == ["Not sett", "Settled:"]


def test_the_verdict_on_a_rerun_is_not_the_questions(history: History) -> None:
    number = history.propose(THREADS)
    ask(history, number)
    judged = history.judge(number, VerdictOutcome.SUPPORTED)
    history.judge(number, VerdictOutcome.REFUTED, reproduces=judged.experiment_id)
    assert now(history).experiment == "E-0001"
    with history.database.read() as session:
        assert len(session.scalars(select(Experiment.id)).all()) == 2
