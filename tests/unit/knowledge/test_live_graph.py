"""The graph that is kept up to date is the one that would be built anew, whatever is written in whatever
order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import UsageError
from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.models import Campaign, Hypothesis
from db.session import open_database
from db.states import HypothesisState, VerdictOutcome
from knowledge.acts.notes import add_note
from knowledge.acts.steering import withdraw
from knowledge.graph import live_graph
from knowledge.graph.building import build_graph
from knowledge.graph.live_graph import LiveGraph
from tests.history.campaign_history import History
from tests.new_database import database_url

CHANGES = [
    {"serving.threads": 1},
    {"serving.threads": 4},
    {"serving.dtype": "bfloat16"},
    {"serving.threads": 1, "serving.dtype": "bfloat16"},
    {"pruning.method": "depth", "pruning.layers_removed": 1},
]
EFFECTS = {
    VerdictOutcome.SUPPORTED: (-0.10, -0.12, -0.08),
    VerdictOutcome.REFUTED: (0.2, 0.15, 0.25),
    VerdictOutcome.INCONCLUSIVE: (-0.02, -0.06, 0.02),
    VerdictOutcome.CONFOUNDED: (-0.1, -0.12, -0.08),
    VerdictOutcome.INFEASIBLE: None,
}


@dataclass
class Written:
    """What was written so far, by which the next step chooses."""

    history: History
    campaigns: list[int] = field(default_factory=lambda: [1])
    waiting: list[int] = field(default_factory=list)
    testing: list[int] = field(default_factory=list)
    judged: list[tuple[int, int]] = field(default_factory=list)

    def propose(self, drawn: int) -> None:
        change = CHANGES[drawn % len(CHANGES)]
        campaign = self.campaigns[drawn % len(self.campaigns)]
        parents = [each for each, _ in self.judged[-1:]] if campaign == 1 else []
        number = self.history.propose(change, parents=parents, campaign_id=campaign)
        self.waiting.append(number)

    def judge(self, drawn: int) -> None:
        outcome = list(EFFECTS)[drawn % len(EFFECTS)]
        hypothesis = self.waiting.pop(drawn % len(self.waiting))
        done = self.history.judge(hypothesis, outcome, effect=EFFECTS[outcome])
        self.judged.append((hypothesis, done.experiment_id))

    def again(self, drawn: int) -> None:
        hypothesis, experiment = self.judged[drawn % len(self.judged)]
        outcome = list(EFFECTS)[drawn % 2]
        versions = {"torch": "3.0"} if drawn % 3 == 0 else {"torch": "2.13.0"}
        self.history.judge(
            hypothesis, outcome, effect=EFFECTS[outcome], reproduces=experiment, versions=versions
        )

    def start(self, drawn: int) -> None:
        self.testing.append(self.history.start_testing(self.waiting.pop(drawn % len(self.waiting))))
        with self.history.database.write() as session:  # as the worker tells it
            events.append(session, EventKind.EXPERIMENT_STARTED, "It began.")

    def withdraw(self, drawn: int) -> None:
        with self.history.database.write() as session:
            withdraw(session, self.waiting.pop(drawn % len(self.waiting)), "not worth it", by="you")

    def note(self, drawn: int) -> None:
        with self.history.database.write() as session:
            add_note(session, "A new driver", stale="threads" if drawn % 2 else None)

    def campaign(self, drawn: int) -> None:
        self.campaigns.append(self.history.start(f"another {drawn}"))

    def best(self, drawn: int) -> None:
        with self.history.database.write() as session:
            _, experiment = self.judged[drawn % len(self.judged)]
            session.get_one(Campaign, 1).best_experiment_id = experiment
            events.append(session, EventKind.CAMPAIGN_BEST, "Another is the best.", "C-1", 1)

    def carry(self, drawn: int) -> None:
        """As a campaign tells what it began with of others, and again when that weighs less."""
        data = {"weight": drawn / 60, "outcomes": 1, "campaigns": {}, "findings": ["F-001"], "judged": 0}
        with self.history.database.write() as session:
            number = self.campaigns[drawn % len(self.campaigns)]
            events.append(session, EventKind.CAMPAIGN_CARRIED, "It began.", campaign_id=number, data=data)

    def rebase(self, drawn: int) -> None:
        """As what is held comes onto the baseline: its change is another one, and it is queued."""
        with self.history.database.write() as session:
            row = session.get_one(Hypothesis, self.waiting[drawn % len(self.waiting)])
            row.state = (
                HypothesisState.PROPOSED if row.state is HypothesisState.QUEUED else HypothesisState.QUEUED
            )
            row.state_changed_at = now()
            row.change = {"changes": [{"knob": "drafting.method", "before": "none", "after": "ngram"}]}
            events.append(session, EventKind.HYPOTHESIS_PROPOSED, "It was put on the baseline.")

    def chatter(self, drawn: int) -> None:
        with self.history.database.write() as session:
            events.append(session, EventKind.STAGE_STARTED, "A stage began.")


STEPS = [name for name, each in vars(Written).items() if callable(each) and not name.startswith("_")]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a campaign, copied for each example."""
    folder = tmp_path_factory.mktemp("empty")
    History(folder).close()
    return folder


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 60), st.booleans()), max_size=14))
def test_what_is_kept_up_to_date_is_what_would_be_built_anew(
    empty: Path, steps: list[tuple[str, int, bool]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(shutil.copytree(empty, Path(name) / "data"))
        with closing(History(folder, open_database(database_url(folder)))) as history:
            written, live = Written(history), LiveGraph()
            for step, drawn, looks in [("propose", 0, True), ("judge", 0, True), *steps, ("note", 0, True)]:
                act: Callable[[int], None] = getattr(written, step)
                try:
                    act(drawn)
                except (UsageError, IndexError, ZeroDivisionError):
                    continue  # nothing waits, or the same was proposed before
                if looks:
                    with history.database.read() as session:
                        live.refresh(session)
                        assert nx.utils.graphs_equal(live.graph, build_graph(session))


def test_a_graph_is_built_once_and_then_only_what_changed_is_read(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LiveGraph()
    with history.database.read() as session:
        assert live.refresh(session)
    monkeypatch.setattr(live_graph, "build_graph", lambda session: pytest.fail("it was built anew"))
    with history.database.read() as session:
        assert not live.refresh(session)
    first = history.propose({"serving.threads": 1})
    history.judge(first, VerdictOutcome.SUPPORTED)
    with history.database.read() as session:
        assert live.refresh(session)
    assert live.graph.has_edge("E-0001", "F-001", key="supports")
    with history.database.write() as session:
        events.append(session, EventKind.STAGE_STARTED, "A stage began.")
    with history.database.read() as session:
        assert not live.refresh(session)


def test_another_database_in_its_place_is_read_anew(history: History, tmp_path: Path) -> None:
    live = LiveGraph()
    history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    with history.database.read() as session:
        live.refresh(session)
    (tmp_path / "other").mkdir()
    with closing(History(tmp_path / "other")) as other, other.database.read() as session:
        assert live.refresh(session)
        assert nx.utils.graphs_equal(live.graph, build_graph(session))
