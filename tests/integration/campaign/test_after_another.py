"""A campaign after another in the same database: it proposes and first tests the best of the first one.

The loop, the database, the queue and the judge are the real ones; jobs are recorded by hand.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.known import store
from agent.campaign.known.reading_facts import read_facts
from db.models import Experiment, Hypothesis
from db.session import Database
from db.states import ExperimentKind
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord
from knowledge.stored import builds_on
from tests.integration.campaign.campaigned import pairs
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import Bench

SPACE = """
name: simulated
knobs:
  - {name: simulated.graphs, lever: graphs, values: [eager, full], default: eager, help: Saves a third.}
  - {name: simulated.drafts, lever: drafting, values: [0, 1, 2], default: 0, help: One saves a quarter.}
  - {name: simulated.chunks, lever: chunking, values: [64, 128], default: 64, help: Saves a fifth.}
  - {name: simulated.threads, lever: threads, values: [1, 2], default: 1, help: Changes nothing.}
"""

FACTORS = {
    ("simulated.graphs", "full"): 0.67,
    ("simulated.drafts", 1): 0.75,
    ("simulated.drafts", 2): 0.95,
    ("simulated.chunks", 128): 0.8,
}
BEST = {"simulated.graphs": "full", "simulated.drafts": 1, "simulated.chunks": 128, "simulated.threads": 1}
TESTS = 12
"""More than the first campaign needs to find the best of its 24 configurations, one lever at a time."""

TURNS_TO_STOP = 10
"""More than a loop needs on any machine, and few enough that one that goes on is told: how many it needs is
not asked here."""


def by_factors(spec: TestJob) -> list[LaunchRecord]:
    """Each setting saves its share of the time, whatever the others are."""
    share = {
        arm: math.prod(FACTORS.get(setting, 1.0) for setting in knobs.items())
        for arm, knobs in ((Arm.CONTROL, spec.control), (Arm.CANDIDATE, spec.candidate))
    }
    return pairs(10.0 * share[Arm.CANDIDATE] / share[Arm.CONTROL])(spec)


class ByFactors(Bench):
    def turns_to_stop(self) -> int:
        return TURNS_TO_STOP

    def finish(self) -> None:
        """What is under test comes to its end, if anything still is."""
        for job in self.jobs():
            assert job.experiment_id is not None
            run_by_hand(self.database, job.experiment_id, by_factors)


def begun(folder: Path, opened: Database | None = None) -> ByFactors:
    """A campaign on this space with its trial 0."""
    folder.mkdir(exist_ok=True)
    database, campaign_id = start(
        folder,
        opened,
        space_text=SPACE,
        **{"baseline.sweep": [], "proposers": ["rules"], "budget": "10h", "weights": "dummy"},
    )
    measure_baseline(database, campaign_id)
    return ByFactors(database, campaign_id)


@pytest.fixture
def first(tmp_path: Path) -> Iterator[ByFactors]:
    """A campaign that found the best, lever by lever."""
    bench = begun(tmp_path)
    bench.drive(*[bench.finish] * TESTS)
    yield bench
    bench.database.close()


def test_the_best_of_the_first_is_the_second_s_first_test(tmp_path: Path, first: ByFactors) -> None:
    with first.database.read() as session:
        facts = read_facts(session, first.campaign_id)
        assert not facts.worked_before
    assert facts.incumbent is not None
    assert dict(facts.incumbent.configuration) == BEST
    assert dict(facts.trials[0].candidate) != BEST, "it had to walk there"

    second = begun(tmp_path, first.database)
    second.drive(second.one_runs)
    with second.database.read() as session:
        tests = select(Experiment).where(
            Experiment.campaign_id == second.campaign_id, Experiment.kind == ExperimentKind.TEST
        )
        (experiment,) = session.scalars(tests)
        hypothesis = session.get_one(Hypothesis, experiment.hypothesis_id)
        tested = store.configurations(session, [experiment.candidate_configuration_id])
        assert read_facts(session, second.campaign_id).worked_before
    assert [dict(each) for each in tested.values()] == [BEST]
    assert hypothesis.proposer == "carried"
    assert "as in C-1 (E-" in hypothesis.claim
    assert hypothesis.rationale.startswith("The best of C-1 (E-")
    (finding,) = builds_on(hypothesis.change)
    assert f", {finding})" in hypothesis.rationale
