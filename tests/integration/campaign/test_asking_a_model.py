"""When a campaign asks its language model, when it waits, and when it stops asking: on a real database, with
questions that are answered when the test says so."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import select

from agent.campaign.asked_model.kept_questions import NEVER_SEEN, tell_of_unseen
from agent.campaign.asked_model.language_model import NO_ENDPOINT, NO_TIME, NOT_AWAITED, LanguageModel
from agent.campaign.decision.desk import Desk
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.loop import CampaignLoop
from agent.campaign.queue.accept import accept
from agent.language_model.asking import ATTEMPTS, Question, Reply
from agent.language_model.beside import Asked
from agent.language_model.usage import UNTOLD, Usage
from agent.proposers.draft import draft_of
from agent.proposers.port import Trial
from configs.language_model import PROPOSER, Endpoint
from configs.quantities import format_duration, format_usd
from db import events
from db.event_kinds import EventKind
from db.models import Experiment, ModelAnswer
from db.session import Database
from db.states import ExperimentKind
from experiments.measurement.judging import Outcome
from knowledge.queries.claims.model_answers import model_answers, spent_on_model
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import start
from tests.simulated.chat_server import chat_server
from tests.waiting import wait_for

HERE = Endpoint("http://127.0.0.1:9/v1", "a-model", "sk-key")
AWAY = Endpoint("https://models.example/v1", "a-model")
SOUND = (
    '{"hypotheses": [{"change": {"simulated.tpot_ms": 7.0}, "gain_percent": 20, '
    '"give_or_take_percent": 10, "min_effect_percent": 3, "refuted_if": "No change.", '
    '"rationale": "Dispatch dominates.", "builds_on": []}]}'
)


@dataclass
class Held:
    """A question under way that is answered when the test says so."""

    question: Question
    reply: Reply | None = None
    wall_s: float = 0.0
    given_up: bool = False

    def answer(self) -> Reply | None:
        return self.reply

    def give_up(self, wait_s: float = 0.0) -> None:
        self.given_up = True
        self.reply = self.reply or Reply(failure="The question was given up.")


@dataclass
class Ground:
    """A campaign with its baseline, and the questions that were put."""

    database: Database
    campaign_id: int
    put: list[Held] = field(default_factory=list)

    def desk(self, trials: int = 0) -> Desk:
        with self.database.read() as session:
            facts = read_facts(session, self.campaign_id)
            measured = read_measured(session, facts)
        legal = legal_of(facts)
        baseline = facts.baseline
        assert baseline is not None
        slow = legal.space.with_change(baseline, {"simulated.tpot_ms": 9.9})
        trial = Trial(1, 1, baseline, slow, "kernel", Outcome.REFUTED, 0.0, 0.01, 0.0, 0.0, 60.0)
        return Desk(replace(facts, trials=(trial,) * trials), legal, measured, ())

    def model(self, endpoint: Endpoint | None = AWAY) -> LanguageModel:
        def begin(_: Endpoint, question: Question) -> Asked:
            self.put.append(Held(question))
            return cast(Asked, self.put[-1])

        return LanguageModel(self.database, self.campaign_id, endpoint, self.database.write, begin)

    def told(self, kind: EventKind) -> list[str]:
        with self.database.read() as session:
            return [event.text for event in events.read(session, kinds=[kind])]


@pytest.fixture
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ground]:
    asked: dict[str, Any] = {"share": 0.9, **getattr(request, "param", {})}
    database, campaign_id = start(tmp_path, proposers=["rules", PROPOSER], language_model=asked)
    measure_baseline(database, campaign_id)
    yield Ground(database, campaign_id)
    database.close()


def refused_of(ground: Ground) -> list[tuple[str, str]]:
    """What the first answer counts as refused, and why."""
    with ground.database.read() as session:
        (row,) = model_answers(session, ground.campaign_id, 1)
        return [(each.what, each.reason) for each in row.refused]


def test_without_an_endpoint_it_says_so_once_and_has_nothing_to_say(ground: Ground) -> None:
    model = ground.model(None)
    for _ in range(3):
        model.ask(ground.desk(), idle=True)
        assert model.proposer(ground.desk()).propose(ground.desk().view, 5) == []
    assert not model.has_answer
    assert not model.holds
    assert ground.told(EventKind.MODEL_NOT_ASKED) == [NO_ENDPOINT]


def test_it_is_asked_once_between_two_verdicts(ground: Ground) -> None:
    model = ground.model()
    model.ask(ground.desk(), idle=False)
    model.ask(ground.desk(1), idle=False)
    assert len(ground.put) == 1  # the first is still under way
    ground.put[0].reply = Reply(text="{}", used=Usage(5, 2))
    assert model.has_answer
    model.proposer(ground.desk())
    model.ask(ground.desk(), idle=False)
    assert len(ground.put) == 1
    model.ask(ground.desk(1), idle=False)
    assert len(ground.put) == 2


def test_an_answer_waits_until_the_share_has_room_and_is_not_asked_over_again(ground: Ground) -> None:
    model = ground.model()
    model.ask(ground.desk(), idle=False)
    ground.put[0].reply = Reply(text=SOUND, used=Usage(5, 2), attempts=1)
    desk = ground.desk()
    assert model.proposer(desk).propose(desk.view, 5) == []  # nothing of others was tested yet
    model.ask(ground.desk(3), idle=False)
    assert len(ground.put) == 1
    assert ground.told(EventKind.MODEL_ANSWERED) == [
        "The language model proposed 1 hypothesis, and 0 were refused (7 tokens, 0 s); autoinfer model 1"
    ]


def test_what_was_proposed_before_is_refused_with_the_earlier_one_and_does_not_stand_in_the_way(
    ground: Ground,
) -> None:
    desk = ground.desk()
    fast = desk.space.with_change(desk.view.incumbent, {"simulated.tpot_ms": 7.0})
    with ground.database.write() as session:
        draft = draft_of(desk.view, fast, proposer="rules", rationale="It is fast.")
        accept(session, ground.campaign_id, draft, "tpot_ms", desk.space)
    model = ground.model()
    model.ask(ground.desk(), idle=False)
    ground.put[0].reply = Reply(text=SOUND)
    assert model.proposer(ground.desk()).propose(ground.desk().view, 5) == []
    (text,) = ground.told(EventKind.HYPOTHESIS_REFUSED)
    assert text.startswith("simulated.tpot_ms=7.0, by language-model: H-001 claims the same change")
    assert "proposed 0 hypotheses, and 1 was refused" in ground.told(EventKind.MODEL_ANSWERED)[0]
    assert refused_of(ground) == [("simulated.tpot_ms=7.0", text.partition("by language-model: ")[2])]
    model.ask(ground.desk(1), idle=False)
    assert len(ground.put) == 2


def test_what_waited_for_room_and_was_proposed_by_another_meanwhile_counts_as_refused(ground: Ground) -> None:
    model, desk = ground.model(), ground.desk()
    model.ask(desk, idle=False)
    ground.put[0].reply = Reply(text=SOUND)
    assert model.proposer(desk).propose(desk.view, 5) == []  # the share has no room yet
    assert refused_of(ground) == []
    with ground.database.write() as session:
        fast = desk.space.with_change(desk.view.incumbent, {"simulated.tpot_ms": 7.0})
        draft = draft_of(desk.view, fast, proposer="rules", rationale="It is fast.")
        accept(session, ground.campaign_id, draft, "tpot_ms", desk.space)
    assert model.proposer(ground.desk(3)).propose(ground.desk(3).view, 5) == []
    ((what, why),) = refused_of(ground)
    assert (what, why[:5]) == ("simulated.tpot_ms=7.0", "H-001")
    assert len(ground.told(EventKind.HYPOTHESIS_REFUSED)) == 1


def test_after_failures_in_a_row_it_is_asked_less_and_less_often(ground: Ground) -> None:
    model = ground.model()
    asked_at = []
    for trials in range(24):
        model.proposer(ground.desk(trials))
        model.ask(ground.desk(trials), idle=False)
        if ground.put and ground.put[-1].reply is None:
            asked_at.append(trials)
            ground.put[-1].reply = Reply(failure="The endpoint answered 500.", attempts=4)
    assert asked_at == [0, 2, 6, 14]
    assert ground.told(EventKind.MODEL_FAILED)[0].endswith("The endpoint answered 500.")


def test_a_model_on_this_machine_is_silent_while_something_is_measured(ground: Ground) -> None:
    model = ground.model(HERE)
    model.ask(ground.desk(), idle=False)
    assert ground.put == []
    model.ask(ground.desk(), idle=True)
    (put,) = ground.put
    assert model.holds
    put.wall_s = 19.0
    assert model.holds
    put.wall_s = 21.0
    assert not model.holds
    assert put.given_up
    model.proposer(ground.desk())
    (text,) = ground.told(EventKind.MODEL_FAILED)
    assert text.endswith(NOT_AWAITED.format(wait="20 s"))


def test_an_answer_that_comes_as_the_campaign_ends_is_told_to_be_unread(ground: Ground) -> None:
    model = ground.model()
    model.ask(ground.desk(), idle=False)
    ground.put[0].reply = Reply(text=SOUND, used=Usage(5, 2))
    model.close()
    (told,) = ground.told(EventKind.MODEL_ANSWERED)
    assert told.startswith("The language model proposed 0 hypotheses, and 1 was refused (7 tokens")
    assert refused_of(ground) == [("the answer", "The campaign ended before it was read.")]


def test_without_time_left_to_test_what_comes_of_it_nothing_is_asked(ground: Ground) -> None:
    model = ground.model()
    desk = ground.desk()
    least_s = min(desk.beliefs.cost_s(each) for each in desk.space.neighbours(desk.incumbent.configuration))
    model.ask(desk, idle=True, left_s=0.0)
    assert ground.told(EventKind.MODEL_NOT_ASKED) == [], "the campaign's end says it"
    for left_s in (least_s - 0.5, 0.5):
        model.ask(desk, idle=True, left_s=left_s)
    assert ground.put == []
    assert ground.told(EventKind.MODEL_NOT_ASKED) == [NO_TIME.format(left=format_duration(least_s - 0.5))]
    model.ask(desk, idle=True, left_s=least_s)
    assert len(ground.put) == 1


def test_time_that_is_kept_to_confirm_the_best_is_not_for_what_a_model_would_propose(ground: Ground) -> None:
    model, desk = ground.model(), ground.desk()
    space, first = desk.space, desk.baseline_configuration
    second = space.with_change(first, {"simulated.tpot_ms": 9.9})
    third = space.with_change(second, {"simulated.threads": 2})
    steps = tuple(
        Trial(n, n, control, candidate, lever, Outcome.SUPPORTED, -0.1, 0.01, 0.0, 0.0, 60.0)
        for n, control, candidate, lever in ((1, first, second, "kernel"), (2, second, third, "threads"))
    )
    chained = replace(desk, facts=replace(desk.facts, trials=steps))
    confirming_s = chained.beliefs.cost_s(third)
    model.ask(chained, idle=True, left_s=confirming_s + 0.5)
    assert ground.put == []
    model.ask(chained, idle=True, left_s=3 * confirming_s)
    assert len(ground.put) == 1


def test_nobody_waits_for_a_model_elsewhere_and_the_end_gives_it_up(ground: Ground) -> None:
    model = ground.model()
    model.ask(ground.desk(), idle=False)
    assert not model.holds
    model.close()
    assert ground.put[0].given_up
    assert not model.has_answer
    assert ground.told(EventKind.MODEL_FAILED)[0].endswith("The question was given up.")


@pytest.mark.parametrize(
    ("ground", "why"),
    [
        ({"budget_tokens": 3000}, "The language model is asked no more: 0 of 3000 tokens are used"),
        (
            {
                "budget_usd": 0.001,
                "usd_per_million_prompt_tokens": 1.0,
                "usd_per_million_answer_tokens": 1.0,
            },
            "The language model is asked no more: 0.0000 of 0.001 USD are used",
        ),
        (
            {"prompt_tokens": 500},
            "The language model is asked no more: the knobs and the best so far alone take",
        ),
    ],
    indirect=["ground"],
)
def test_what_might_go_beyond_a_budget_is_not_asked_and_says_so_once(ground: Ground, why: str) -> None:
    model = ground.model()
    model.ask(ground.desk(), idle=True)
    model.ask(ground.desk(1), idle=True)
    assert ground.put == []
    (text,) = ground.told(EventKind.MODEL_NOT_ASKED)
    assert text.startswith(why)


PRICED = {"usd_per_million_prompt_tokens": 1.0, "usd_per_million_answer_tokens": 10.0}


@pytest.mark.parametrize("ground", [PRICED], indirect=True)
def test_what_failed_attempts_may_have_used_is_bounded_and_told_beside_what_is_known(ground: Ground) -> None:
    model = ground.model()
    model.ask(ground.desk(), idle=True)
    used = Usage(7, 3) + UNTOLD + UNTOLD
    ground.put[0].reply = Reply(failure="No answer came in time.", used=used, attempts=3)
    model.proposer(ground.desk())
    with ground.database.read() as session:
        row = session.scalars(select(ModelAnswer)).one()
        spent = spent_on_model(session, ground.campaign_id)
    most, most_usd = 2 * (row.counted_tokens + 2000), 2 * (row.counted_tokens + 20_000) / 1e6
    assert (row.prompt_tokens, row.answer_tokens, row.untold_tokens) == (7, 3, most)
    assert row.usd == pytest.approx(37e-6)
    assert row.untold_usd == pytest.approx(most_usd)
    assert spent == (10 + most, pytest.approx(37e-6 + most_usd))
    told = ground.told(EventKind.MODEL_FAILED)[0]
    figures = f"10 tokens, {format_usd(37e-6)}, and at most {most:,} more tokens ({format_usd(most_usd)})"
    assert f"({figures} that" in told


@pytest.mark.parametrize("ground", [{"budget_tokens": 12_000, "answer_tokens": 5000}], indirect=True)
def test_attempts_that_tell_no_count_use_the_budget_up(ground: Ground) -> None:
    model = ground.model()
    model.ask(ground.desk(), idle=True)
    (first,) = ground.put
    assert first.question.most_untold == 1, "a second attempt might go beyond the budget"
    first.reply = Reply(failure="No answer came in time.", used=UNTOLD, attempts=1)
    model.proposer(ground.desk())
    model.ask(ground.desk(2), idle=True)
    assert len(ground.put) == 1
    assert "asked no more" in ground.told(EventKind.MODEL_NOT_ASKED)[0]


ASKS = """
import signal, sys
from pathlib import Path
from agent.campaign.asked_model.language_model import LanguageModel
from configs.language_model import Endpoint
from db.session import open_database
from tests.integration.campaign.test_asking_a_model import Ground
from tests.new_database import database_url

database = open_database(database_url(Path(sys.argv[1])))
endpoint = Endpoint(sys.argv[2], "a-model", "sk-key")
LanguageModel(database, 1, endpoint, database.write).ask(Ground(database, 1).desk(), idle=True)
signal.pause()
"""
"""A process that asks, and waits."""


@pytest.mark.parametrize("ground", [PRICED], indirect=True)
def test_a_question_of_a_process_that_is_killed_counts_at_its_most_and_is_told(
    ground: Ground, tmp_path: Path
) -> None:
    with (
        chat_server(tmp_path / "chat", [{"does": "hang"}]) as server,
        subprocess.Popen([sys.executable, "-c", ASKS, str(tmp_path), server.base_url]) as asking,
    ):
        wait_for(lambda: bool(server.requests) or asking.poll() is not None)
        asking.kill()
    assert len(server.requests) == 1
    with ground.database.read() as session:
        (row,) = model_answers(session, ground.campaign_id, 10)
        spent = spent_on_model(session, ground.campaign_id)
    most = ATTEMPTS * (row.counted_tokens + 2000)
    most_usd = ATTEMPTS * (row.counted_tokens + 20_000) / 1e6
    assert row.under_way
    assert spent == (most, pytest.approx(most_usd)), "it counts before anybody looked at it"
    for _ in range(2):  # the second finds nothing left to tell
        with pytest.raises(KeyboardInterrupt):
            CampaignLoop(ground.database, ground.campaign_id, wait=interrupted).run()
    (told,) = ground.told(EventKind.MODEL_FAILED)
    assert f"at most {most:,} more tokens ({format_usd(most_usd)}) that were not told" in told
    assert told.endswith(NEVER_SEEN)
    with ground.database.read() as session:
        (row,) = model_answers(session, ground.campaign_id, 10)
        assert spent_on_model(session, ground.campaign_id) == spent
    assert (row.under_way, row.failure) == (False, NEVER_SEEN)
    assert "simulated.tpot_ms" in row_prompt(ground)
    assert "sk-key" not in row_prompt(ground)


def interrupted(_: float) -> None:
    raise KeyboardInterrupt


def row_prompt(ground: Ground) -> str:
    with ground.database.read() as session:
        return session.scalars(select(ModelAnswer.prompt)).one()


def test_a_question_that_was_answered_or_given_up_is_no_more_under_way(ground: Ground) -> None:
    model = ground.model()
    model.ask(ground.desk(), idle=True)
    ground.put[0].reply = Reply(text='{"hypotheses": []}', used=Usage(7, 3))
    model.proposer(ground.desk())
    model.ask(ground.desk(1), idle=True)
    model.close()
    with ground.database.write() as session:
        tell_of_unseen(session, ground.campaign_id)
        rows = model_answers(session, ground.campaign_id, 10)
    assert [each.under_way for each in rows] == [False, False]
    assert [each.untold_tokens for each in rows] == [0, 0], "Held used nothing when it was given up"
    assert not any(NEVER_SEEN in each for each in ground.told(EventKind.MODEL_FAILED))


def test_a_campaign_that_is_continued_does_not_ask_the_same_again(ground: Ground) -> None:
    first = ground.model()
    first.ask(ground.desk(), idle=True)
    ground.put[0].reply = Reply(text='{"hypotheses": [{"change": {"knob.of_nobody": 1}}]}')
    first.proposer(ground.desk())
    again = ground.model()
    again.ask(ground.desk(), idle=True)
    assert len(ground.put) == 1, "an answer that was refused is no reason to ask again"
    again.ask(ground.desk(1), idle=True)
    assert len(ground.put) == 2


class Dispatched(Exception):
    """The test of the loop has seen what it waited for."""


@pytest.mark.parametrize("endpoint", [HERE, AWAY])
def test_an_answer_that_is_there_at_once_is_written_down_before_the_next_test(
    ground: Ground, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(_: Endpoint, question: Question) -> Asked:
        return cast(Asked, Held(question, Reply(text=SOUND, used=Usage(5, 2))))

    def wait(_: float) -> None:
        with ground.database.read() as session:
            if session.scalars(select(Experiment).where(Experiment.kind == ExperimentKind.TEST)).first():
                raise Dispatched

    monkeypatch.setattr("agent.campaign.loop.LanguageModel", partial(LanguageModel, put=begin))
    with pytest.raises(Dispatched):
        CampaignLoop(ground.database, ground.campaign_id, endpoint=endpoint, wait=wait).run()
    with ground.database.read() as session:
        first = session.scalars(select(Experiment).where(Experiment.kind == ExperimentKind.TEST)).one()
        kinds = [EventKind.MODEL_ANSWERED, EventKind.HYPOTHESIS_PREREGISTERED]
        told = [each.kind for each in events.read(session, kinds=kinds)]
    assert told[:2] == kinds, f"E-{first.id} was sealed before the answer was read"
