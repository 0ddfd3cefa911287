"""What tests of the questions share: answers in pieces, and a campaign with a best on top of another."""

from __future__ import annotations

import pytest

from db.models import Campaign
from db.states import VerdictOutcome
from knowledge.asking.answer import Answer, Row
from knowledge.graph.building import build_graph
from knowledge.graph.typed_graph import Graph
from tests.history.campaign_history import BASE, SPACE, History

KNOBS = [*(knob.name for knob in SPACE.knobs), "quantization.bits"]
FASTER = SPACE.with_change(BASE, {"serving.threads": 1})
BOTH_BUT_THREADS = SPACE.with_change(BASE, {"serving.dtype": "bfloat16"})
BOTH = SPACE.with_change(FASTER, {"serving.dtype": "bfloat16"})


def graph_of(history: History) -> Graph:
    with history.database.read() as session:
        return build_graph(session)


def rows(answer: Answer, title: str) -> tuple[Row, ...]:
    return next(each.rows for each in answer.sections if each.title == title)


def ids(found: tuple[Row, ...]) -> list[str | None]:
    return [each.id for each in found]


def on_the_baseline(history: History, configuration_id: int) -> None:
    with history.database.write() as session:
        session.get_one(Campaign, 1).baseline_configuration_id = configuration_id


@pytest.fixture
def chain(history: History) -> History:
    """H-1 is supported, H-2 on top of it too and the best, H-3 waits on top of that, H-4 beside them."""
    one = history.propose({"serving.threads": 1}, claim="One thread is faster.")
    first = history.judge(one, VerdictOutcome.SUPPORTED)
    two = history.propose({"serving.dtype": "bfloat16"}, control=FASTER, parents=[one])
    second = history.judge(two, VerdictOutcome.SUPPORTED)
    history.propose({"serving.compile": "default"}, control=BOTH, parents=[two])
    history.propose({"serving.threads": 4}, claim="Four threads are faster.")
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.best_experiment_id = second.experiment_id
    graph = graph_of(history)
    on_the_baseline(history, graph.nodes["H-001"]["control"])
    assert first.experiment_id == 1
    return history
