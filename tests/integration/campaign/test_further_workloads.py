"""A campaign that asks for further workloads: its tests are sealed and judged as without, and measure them.

The database, the queue, the worker and the judge are the real ones; launches are processes of the simulated
engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.queue.dispatch import enqueue_test
from db.models import Experiment
from db.states import ExperimentKind, VerdictOutcome
from experiments.job.seal import seal_of
from experiments.recording import load_launches, load_test_spec
from knowledge.queries.measured.experiment_detail import ExperimentDetail, experiment_detail
from tests.integration.campaign.sealed import dispatch, propose
from tests.integration.campaign.test_promoting import ORIGINAL, Judged, measured
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import start

ASKED: Mapping[str, object] = {
    "further_workloads": [{"concurrency": 4, "prompt_tokens": 64}, {"new_tokens": 12, "blocks": 2}]
}


def detail(judged: Judged) -> ExperimentDetail:
    with judged.database.read() as session:
        return experiment_detail(session, ORIGINAL)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return measured(tmp_path_factory.mktemp("further"), **ASKED)


def test_a_test_is_judged_and_tells_them_beside(judged: Judged) -> None:
    found = detail(judged)
    assert found.outcome is VerdictOutcome.SUPPORTED
    assert [each.workload for each in found.further_workloads] == ["4x64+8", "1x128+12"]
    pairs = len({each.index for each in found.launches if each.stage in ("quick", "full", "validation")})
    for each in found.further_workloads:
        assert each.failures == ()
        told = {metric.metric: metric for metric in each.metrics}
        assert told["tpot_ms"].control == pytest.approx(10.0, rel=0.05)
        assert told["tpot_ms"].change == pytest.approx(-0.3, abs=0.02)
        assert told["output_tokens_per_s"].change == pytest.approx(1 / 0.7 - 1, abs=0.05)
        assert {metric.pairs for metric in each.metrics} == {pairs}
    assert {each.stage for each in found.stages} >= {"quick", "further"}
    assert found.changed_since_sealed is None
    assert "further" not in {each.stage for each in found.launches}


def test_a_verdict_is_made_again_from_its_stored_samples_alone(judged: Judged) -> None:
    with judged.database.read() as session:
        told = experiment_detail(session, ORIGINAL, judge=True).judged_again
        launches = load_launches(session, ORIGINAL)
    assert told is not None
    assert "the same" in told
    assert not any(s.item.startswith("4x64+8") for each in launches for s in each.samples)


def test_the_plan_and_the_seal_are_those_of_a_campaign_without(tmp_path: Path) -> None:
    sealed = []
    for name, changes in (("with", ASKED), ("without", {})):
        folder = tmp_path / name
        folder.mkdir()
        database, campaign_id = start(folder, **changes)
        measure_baseline(database, campaign_id)
        number = dispatch(database, campaign_id, propose(database, campaign_id, 7.0))
        with database.read() as session:
            spec = load_test_spec(session, number)
            plan = session.get_one(Experiment, number).plan
        sealed.append((plan, spec.plan, spec.preregistration_digest, seal_of(spec)))
        assert len(spec.further) == (2 if changes else 0)
        database.close()
    assert sealed[0] == sealed[1]


def test_a_check_with_minutes_of_its_own_has_none(tmp_path: Path) -> None:
    database, campaign_id = start(tmp_path, **ASKED)
    measure_baseline(database, campaign_id)
    number = dispatch(database, campaign_id, propose(database, campaign_id, 7.0))
    with database.write() as session:
        facts, spec = read_facts(session, campaign_id), load_test_spec(session, number)
        assert facts.baseline is not None
        fresh = enqueue_test(
            session,
            facts,
            facts.baseline,
            facts.baseline,
            spec.plan,
            kind=ExperimentKind.REPRODUCE,
            hypothesis_id=None,
            reproduces_experiment_id=number,
            within_s=300.0,
        )
        assert load_test_spec(session, fresh).further == ()
    database.close()
