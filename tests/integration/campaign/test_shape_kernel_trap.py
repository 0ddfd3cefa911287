"""The kernel trap on a shape, with what an H200 was recorded to run: the group size is not the kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test
from agent.campaign.queue.accept import accept
from agent.campaign.queue.dispatch import dispatch_test
from agent.campaign.separation.separating import follow_up
from agent.ground.legal import legal_here
from agent.proposers.port import Draft
from configs.campaign import load_campaign
from db.models import Finding, Hypothesis, Verdict
from db.session import Database
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from knowledge.latency_only import LATENCY_ONLY
from tests.new_database import new_database
from tests.recorded.h200_shape import LOADS, launch
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import registered_here

GROUP, KERNEL = "quantization.group_size", "serving.linear_backend"
AWQ = {"quantization.method": "awq", "quantization.symmetric": False}


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    """The packaged campaign on the 9B shape, whose engine does not run here."""
    database = new_database(tmp_path)
    with registered_here(tmp_path):
        # from the default, however much of this machine's memory others have taken: nothing is loaded here
        here = {"engine": "simulated", "target": "cpu", "baseline.sweep": [], "baseline.start": "default"}
        spec = load_campaign("shape", here)
        ground = survey(spec, shapes=tmp_path / "shapes")
        with database.write() as session:
            campaign_id = create_campaign(session, spec, ground)
    measure_baseline(database, campaign_id, 5.24)
    yield database, campaign_id
    database.close()


def run_recorded(
    database: Database, campaign_id: int, hypothesis_id: int, control: str, candidate: str
) -> Outcome | None:
    """Dispatch the hypothesis, record these loads as its arms, learn and follow up, as the loop does."""
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        queued = next(each for each in facts.queue if each.id == hypothesis_id)
        experiment_id = dispatch_test(session, facts, queued)

    def arms(spec: TestJob) -> list[LaunchRecord]:
        assert spec.plan.latency_only
        return [
            launch(Arm.CONTROL, control, Configuration.of(spec.control)),
            launch(Arm.CANDIDATE, candidate, Configuration.of(spec.candidate)),
        ]

    run_by_hand(database, experiment_id, arms)
    with database.write() as session:
        outcome = learn_test(session, experiment_id)
        follow_up(session, experiment_id)
    return outcome


def ask(database: Database, campaign_id: int, before: dict[str, object], after: dict[str, object]) -> int:
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
        control, candidate = (
            space.with_change(space.configuration({}), {**AWQ, **knobs})  # type: ignore[dict-item]
            for knobs in (before, after)
        )
        draft = Draft(
            claim="The candidate makes a token at least 3 % faster.",
            control=control,
            candidate=candidate,
            lever="quantization",
            prediction=Prediction(log_ratio_mean=-0.05, log_ratio_sd=0.05),
            min_effect=0.03,
            refuted_if="It does not.",
            rationale="Fewer scales are read.",
            proposer="user",
        )
        return accept(session, campaign_id, draft, "tpot_ms", space).hypothesis_id


def test_groups_of_128_with_the_kernel_free_are_confounded_by_it_and_separated(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    trap = ask(database, campaign_id, {GROUP: 32}, {GROUP: 128})
    assert run_recorded(database, campaign_id, trap, "g32-marlin", "g128-free") is Outcome.CONFOUNDED
    with database.read() as session:
        verdict = session.scalars(select(Verdict)).one()
        assert verdict.judge["confounders"] == [
            {"key": "linear_kernel", "control": "MarlinLinearKernel", "candidate": "MacheteLinearKernel"}
        ]
        assert LATENCY_ONLY in verdict.reason
        assert session.scalars(select(Finding)).all() == []
        facts = read_facts(session, campaign_id)
        changes = [
            [(change.knob, change.before, change.after) for change in each.control.changes_to(each.candidate)]
            for each in facts.queue
            if each.separates == "E-0002"
        ]
    assert changes == [[(GROUP, 32, 128)], [(KERNEL, "machete", "marlin")]]


def test_each_cause_alone_is_not_confounded(campaign: tuple[Database, int]) -> None:
    """Marlin lays the weights out in fewer bytes than Machete, which is the kernel's own doing."""
    database, campaign_id = campaign
    assert (
        LOADS["g128-free"]["resolved"]["weights"]["loaded_bytes"]
        != LOADS["g128-marlin"]["resolved"]["weights"]["loaded_bytes"]
    )
    trap = ask(database, campaign_id, {GROUP: 32}, {GROUP: 128})
    run_recorded(database, campaign_id, trap, "g32-marlin", "g128-free")
    groups = run_recorded(database, campaign_id, trap + 1, "g32-marlin", "g128-marlin")
    kernel = run_recorded(database, campaign_id, trap + 2, "g128-free", "g128-marlin")
    assert Outcome.CONFOUNDED not in (groups, kernel)
    with database.read() as session:
        effects = {
            each.hypothesis_id: each.effect_log
            for each in session.scalars(select(Verdict).join(Hypothesis).where(Hypothesis.id != trap))
        }
    assert effects[trap + 1] is not None
    assert effects[trap + 2] is not None
    assert abs(effects[trap + 1]) < 0.05 < abs(effects[trap + 2])
