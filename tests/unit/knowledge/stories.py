"""Campaigns of every kind, and their stories."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.known import store
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis, ModelAnswer
from db.states import (
    CampaignState,
    DirectiveKind,
    ExperimentKind,
    ExperimentState,
    VerdictOutcome,
)
from knowledge.acts.lever_steering import give_directive, lift_directives
from knowledge.acts.notes import add_note
from knowledge.queries.story import campaign_story
from knowledge.stored import FROM_MODEL
from knowledge.telling.story_parts import StoryView
from tests.history.campaign_history import BASE, History, a_full_history


def baseline(history: History) -> None:
    with history.database.write() as session:
        session.add(
            Experiment(
                campaign_id=1,
                kind=ExperimentKind.BASELINE,
                target="cpu",
                control_configuration_id=store.configuration_id(session, BASE),
                state=ExperimentState.DONE,
                plan={},
                wall_s=7.0,
            )
        )
        events.append(
            session,
            EventKind.CAMPAIGN_BASELINE,
            "It was measured.",
            campaign_id=1,
            data={"baseline": {"tpot_ms": 12.5}, "naive": {"tpot_ms": 31.3}},
        )


def best(history: History, experiment: str, speedup: float) -> None:
    with history.database.write() as session:
        events.append(
            session,
            EventKind.CAMPAIGN_BEST,
            "It is better.",
            experiment,
            1,
            {
                "experiment": experiment,
                "speedup": speedup,
                "speedup_interval": [speedup - 0.012, speedup + 0.034],
                "speedup_basis": experiment,
                "tpot_ms": 11.3,
                "control_tpot_ms": 12.4,
                "configuration": {"serving.threads": 1},
            },
        )


def running(folder: Path) -> History:
    history = a_full_history(folder)
    baseline(history)
    best(history, "E-0001", 1.111)
    return history


def empty(folder: Path) -> History:
    return History(folder)


def finished(folder: Path) -> History:
    history = running(folder)
    history.judge(6, VerdictOutcome.SUPPORTED, effect=(-0.31, -0.35, -0.27))
    first = history.judge(7, VerdictOutcome.SUPPORTED, effect=(-0.05, -0.06, -0.04))
    best(history, "E-0007", 1.449)
    with history.database.write() as session:
        events.append(
            session,
            EventKind.CAMPAIGN_VERIFYING,
            "It begins.",
            campaign_id=1,
            data={"after_experiment": first.experiment_id},
        )
    history.judge(7, VerdictOutcome.REFUTED, effect=(0.02, 0.01, 0.03), reproduces=first.experiment_id)
    stop(history, "the budget of 8 min is spent")
    return history


def failed(folder: Path) -> History:
    history = History(folder)
    with history.database.write() as session:
        session.add(
            Experiment(
                campaign_id=1,
                kind=ExperimentKind.BASELINE,
                target="cpu",
                control_configuration_id=store.configuration_id(session, BASE),
                state=ExperimentState.FAILED,
                failure_kind="out_of_memory",
                failure="12.5 GB were asked for and 8 GB are there.",
                plan={},
            )
        )
    stop(history, "the baseline could not be measured")
    return history


def out_of_time(folder: Path) -> History:
    history = failed(folder)
    with history.database.write() as session:
        baseline = session.scalars(select(Experiment)).one()
        baseline.state, baseline.failure_kind = ExperimentState.CANCELLED, "cancelled"
        baseline.failure = "Cancelled on request."
        session.get_one(
            Campaign, 1
        ).stopped_because = "the budget of 20 min is spent and the baseline not measured"
    return history


def interrupted(folder: Path) -> History:
    history = running(folder)
    with history.database.write() as session:
        for place in range(4):
            events.append(
                session, EventKind.WORKER_LOST, f"desk/cpu#{place} stopped answering.", campaign_id=1
            )
            events.append(session, EventKind.CAMPAIGN_RESUMED, "The campaign goes on.", "C-1", 1)
    return history


def latency_only(folder: Path) -> History:
    history = finished(folder)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
    return history


def spoken_to(folder: Path) -> History:
    """Somebody steered it and wrote down what was done outside, and a language model was asked."""
    history = running(folder)
    with history.database.write() as session:
        give_directive(session, 1, DirectiveKind.FOCUS, "threads", ["threads"])
        lift_directives(session, 1, DirectiveKind.FOCUS, "threads")
        add_note(session, "A new driver was installed.", stale="F-001")
        session.add(
            ModelAnswer(
                campaign_id=1,
                base_url="http://127.0.0.1:8000/v1",
                model="a-model",
                form="json_schema",
                prompt="What next?",
                prompt_digest="0" * 64,
                answer="",
                attempts=1,
                counted_tokens=900,
                prompt_tokens=900,
                answer_tokens=50,
                usd=None,
                wall_s=1.5,
                outcome={"proposed": ["a=1"], "refused": [{"what": "b=2", "reason": "No knob."}] * 4},
            )
        )
        session.flush()
        first = session.get_one(Hypothesis, 1)
        first.change = {**first.change, FROM_MODEL: {"answer": 1, "place": 0, "builds_on": []}}
    return history


def stop(history: History, why: str) -> None:
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.state, campaign.stopped_because, campaign.ended_at = CampaignState.STOPPED, why, now()
        events.append(session, EventKind.CAMPAIGN_STOPPED, f"It ended: {why}.", "C-1", 1)


KINDS: dict[str, Callable[[Path], History]] = {
    each.__name__: each for each in (running, empty, finished, failed, interrupted, latency_only, spoken_to)
}


@pytest.fixture(params=KINDS)
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[History]:
    history = KINDS[request.param](tmp_path)
    yield history
    history.close()


def story(history: History, *, whole: bool = True) -> StoryView:
    with history.database.read() as session:
        return campaign_story(session, 1, whole=whole)
