"""A test confirmed on another target: what is asked before it is queued, what its verdict says of the first.

The database, the queue, the judge and the findings are the real ones, and tests run in real processes of the
simulated engine. The second device is a name that nobody has.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import func, select

from agent.campaign import glance
from agent.campaign.learning.learn import learn_test
from agent.campaign.rerun.confirm import OTHER_TARGET, Confirmation, conclude, conclude_ended, ended
from agent.campaign.rerun.elsewhere import find_elsewhere, ran_elsewhere
from agent.campaign.rerun.promote import Asked, ask, promotable, promote
from agent.campaign.rerun.reproduce import enqueue_reproduction, unfinished_reproduction
from agent.campaign.resources.waiting import nobody_takes, overdue
from agent.ground.target import Target
from agent.plan.card import card_of_rented
from configs.cpu import probe_cpu
from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun
from db.models import Experiment, Finding, Job, NoiseLaunch, Verdict
from db.session import Database, open_database
from db.states import EvidenceRelation, ExperimentState, FindingStatus, VerdictOutcome
from experiments.job.result import Failure
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord
from experiments.recording import load_test_spec
from experiments.space.configuration import Configuration
from experiments.space.gpu import Gpu
from experiments.telemetry.identity import DeviceIdentity
from experiments.worker.settings import WorkerTimes
from experiments.worker.worker import run_worker
from knowledge.asking.led_to import led_to
from knowledge.graph.building import build_graph
from knowledge.graph.typed_graph import Relation
from knowledge.machines import machine
from knowledge.queries.around import around
from knowledge.queries.claims.hypothesis_detail import hypothesis_detail
from knowledge.queries.found.findings import list_findings
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.things import Things, list_things
from tests.integration.campaign.sealed import dispatch, one_pair, propose
from tests.new_database import FILE_NAME, database_url
from tests.simulated.by_hand import LEASE_S, launch, measure_baseline, run_by_hand
from tests.simulated.campaign import made_up_target, registered_here, start
from tests.simulated.places import simulated_executor

ORIGINAL, FRESH = 2, 3
THERE = "cuda:3"
KEY = "cuda:Made-up device:24 GB"
NO_KERNEL = Failure("unsupported", "This device has no such kernel.")


def nothing(spec: TestJob) -> list[LaunchRecord]:
    return []


@dataclass(frozen=True)
class Judged:
    """A campaign whose first hypothesis was tested on the processor and is supported."""

    database: Database
    campaign_id: int
    hypothesis_id: int
    folder: Path

    def ask(self, target: str = THERE) -> Asked:
        with (
            self.database.read() as session,
            registered_here(self.folder),
            patch("agent.campaign.rerun.elsewhere.find_target", made_up_target),
        ):
            return ask(session, ORIGINAL, target)

    def promote(self, target: str = THERE) -> int:
        asked = self.ask(target)
        with self.database.write() as session:
            return promote(session, asked, None, agreed=True).experiment_id

    def conclude(self, fresh_id: int = FRESH) -> Confirmation | str:
        with self.database.write() as session:
            return conclude(session, fresh_id)


def run(database: Database, folder: Path, device: str) -> None:
    """A worker of the device takes what waits for it: real processes of the simulated engine."""
    times = WorkerTimes(lease_s=LEASE_S, busy_poll_s=0.05, idle_poll_s=0.02)
    run_worker(database, simulated_executor(folder), device, times=times, once=True)


def measured(folder: Path, **changes: object) -> Judged:
    database, campaign_id = start(folder, **changes)
    measure_baseline(database, campaign_id)
    hypothesis_id = propose(database, campaign_id, 7.0)
    assert dispatch(database, campaign_id, hypothesis_id) == ORIGINAL
    run(database, folder, "cpu")
    with database.write() as session:
        learn_test(session, ORIGINAL)
    return Judged(database, campaign_id, hypothesis_id, folder)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Measured once; tests that write work on copies of its database."""
    made = measured(tmp_path_factory.mktemp("first"))
    made.database.close()
    return made


@pytest.fixture
def judged(first: Judged, tmp_path: Path) -> Iterator[Judged]:
    shutil.copy(first.folder / FILE_NAME, tmp_path / FILE_NAME)
    database = open_database(database_url(tmp_path))
    yield replace(first, database=database)
    database.close()


@pytest.fixture(scope="module")
def confirmed(
    first: Judged, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Judged, Confirmation]]:
    """The same test on a second device, run and compared; only looked at by the tests that take it."""
    folder = tmp_path_factory.mktemp("confirmed")
    shutil.copy(first.folder / FILE_NAME, folder / FILE_NAME)
    judged = replace(first, database=open_database(database_url(folder)))
    assert judged.promote() == FRESH
    run(judged.database, judged.folder, THERE)
    told = judged.conclude()
    assert isinstance(told, Confirmation)
    yield judged, told
    judged.database.close()


def test_the_same_outcome_on_another_target_replicates_the_first(
    confirmed: tuple[Judged, Confirmation],
) -> None:
    _, told = confirmed
    assert (told.original_outcome, told.fresh_outcome) == (VerdictOutcome.SUPPORTED,) * 2
    assert told.relation is EvidenceRelation.REPLICATES
    assert told.reason.startswith(f"E-0003 on {machine(KEY)} replicates E-0002 on ")


def test_each_target_keeps_a_finding_of_its_own_and_both_are_tied(
    confirmed: tuple[Judged, Confirmation],
) -> None:
    judged, told = confirmed
    with judged.database.read() as session:
        found = {each.id: each for each in list_findings(session, limit=10).items}
    assert told.findings == ("F-002",)
    assert found["F-002"].scope["target"] == KEY
    assert found["F-001"].scope["target"].startswith("cpu:")
    assert [len(found[each].evidence) for each in ("F-001", "F-002")] == [1, 1]
    assert [each.status for each in found.values()] == [FindingStatus.HOLDS] * 2
    ((here,), (there,)) = (found[each].elsewhere for each in ("F-001", "F-002"))
    assert (here.id, here.is_second, here.relation) == ("F-002", False, EvidenceRelation.REPLICATES)
    assert (there.id, there.is_second, there.relation) == ("F-001", True, EvidenceRelation.REPLICATES)


def test_the_other_target_has_a_noise_profile_and_a_quality_reference_of_its_own(
    confirmed: tuple[Judged, Confirmation],
) -> None:
    judged, _ = confirmed
    with judged.database.read() as session:
        spec = load_test_spec(session, FRESH)
        assert (spec.noise.target_key, spec.noise.launches) == (KEY, 0)
        assert spec.target == KEY
        of_target = select(NoiseLaunch.experiment_id).where(NoiseLaunch.target_key == KEY)
        assert set(session.scalars(of_target)) == {FRESH}
        here, there = (experiment_detail(session, each).artifacts for each in (ORIGINAL, FRESH))
    references = [{each.digest for each in found if each.kind == "evaluation"} for found in (here, there)]
    assert all(references)
    assert not references[0] & references[1]


def test_pages_and_graph_tell_what_the_other_target_said(confirmed: tuple[Judged, Confirmation]) -> None:
    judged, told = confirmed
    with judged.database.read() as session:
        (here,) = experiment_detail(session, ORIGINAL).elsewhere
        (there,) = experiment_detail(session, FRESH).elsewhere
        (of_hypothesis,) = hypothesis_detail(session, judged.hypothesis_id).elsewhere
        graph = build_graph(session)
        near = around(session, "F-002", 1).graph
        assert experiment_detail(session, ORIGINAL).reproduced_by == ()
        things = list_things(session, Things(relation=Relation.REPLICATES), 50).items
    assert [each.id for each in things] == ["E-0003"]
    comes_from = next(each.rows for each in led_to(graph, "E-0003").sections)
    assert [(each.relation, each.id) for each in comes_from] == [
        ("tests", "H-001"),
        ("says the same on another target as", "E-0002"),
    ]
    assert (here.other, here.target, here.asked, here.is_second) == ("E-0003", KEY, THERE, False)
    assert (there.other, there.is_second, there.reason) == ("E-0002", True, told.reason)
    assert of_hypothesis == here
    for source, target in (("E-0003", "E-0002"), ("F-002", "F-001")):
        assert graph.has_edge(source, target, "replicates")
    assert near.has_edge("F-002", "F-001", "replicates")


def test_it_is_compared_once_however_often_it_is_asked(confirmed: tuple[Judged, Confirmation]) -> None:
    judged, told = confirmed
    conclude_ended(judged.database)
    assert judged.conclude() == told
    with judged.database.read() as session:
        told_of = events.read(session, kinds=[EventKind.EXPERIMENT_COMPARED])
        assert [event.text for event in told_of] == [told.reason]
        assert session.scalar(select(func.count()).select_from(Verdict)) == 2


def test_what_does_not_run_there_contradicts(judged: Judged) -> None:
    run_by_hand(judged.database, judged.promote(), nothing, NO_KERNEL)
    told = judged.conclude()
    assert isinstance(told, Confirmation)
    assert told.relation is EvidenceRelation.CONTRADICTS
    with judged.database.read() as session:
        here, there = session.scalars(select(Finding).order_by(Finding.id)).all()
        assert here.status is FindingStatus.HOLDS, "a finding speaks of its own target alone"
        assert there.scope["target"] == KEY
        assert there.rule == "R4-infeasible"


def test_too_little_there_leaves_the_claim_open(judged: Judged) -> None:
    run_by_hand(judged.database, judged.promote(), one_pair)
    told = judged.conclude()
    assert isinstance(told, Confirmation)
    assert told.fresh_outcome is VerdictOutcome.INCONCLUSIVE
    assert told.relation is None
    assert told.findings == ()


def test_what_ran_on_another_target_than_asked_is_not_compared(judged: Judged) -> None:
    other = {"gpu": {"name": "Another made-up device", "memory_bytes": 24 * 10**9}}

    def launched(spec: TestJob) -> list[LaunchRecord]:
        return [
            replace(launch(arm, Configuration.of(knobs), 10.0), environment={"machine": other})
            for arm, knobs in ((Arm.CONTROL, spec.control), (Arm.CANDIDATE, spec.candidate))
        ]

    fresh_id = judged.promote()
    run_by_hand(judged.database, fresh_id, launched)
    assert judged.conclude(fresh_id) == (
        f"E-0003 was asked for on {machine(KEY)} and ran on Another made-up device (24 GB), "
        "so it is not compared."
    )
    with judged.database.read() as session:
        fresh = session.get_one(Experiment, fresh_id)
        assert (fresh.state, fresh.failure_kind) == (ExperimentState.FAILED, OTHER_TARGET)
        assert session.scalars(select(Verdict.experiment_id)).all() == [ORIGINAL]
        assert session.scalars(select(NoiseLaunch).where(NoiseLaunch.target_key == KEY)).all() == []
        assert ended(session) == []


def test_a_worker_concludes_what_nobody_waits_for(judged: Judged) -> None:
    run_by_hand(judged.database, judged.promote(), nothing, NO_KERNEL)
    conclude_ended(judged.database)
    with judged.database.read() as session:
        told_of = events.read(session, kinds=[EventKind.EXPERIMENT_COMPARED])
        assert [event.subject for event in told_of] == ["E-0003"]


def test_one_that_is_under_way_is_gone_on_with_and_is_no_reproduction(judged: Judged) -> None:
    fresh_id = judged.promote()
    assert judged.ask().unfinished == fresh_id
    assert judged.ask("cuda:4").unfinished is None
    with judged.database.read() as session:
        assert unfinished_reproduction(session, ORIGINAL) is None
    run_by_hand(judged.database, fresh_id, nothing, NO_KERNEL)
    judged.conclude(fresh_id)
    assert judged.ask().unfinished is None
    with judged.database.write() as session:
        with (
            registered_here(judged.folder),
            patch("agent.campaign.rerun.elsewhere.find_target", made_up_target),
        ):
            again = enqueue_reproduction(session, fresh_id)
        spec, row = load_test_spec(session, again), session.get_one(Experiment, again)
        assert (spec.target, row.target, row.reproduces_experiment_id) == (KEY, KEY, fresh_id)
        assert not glance.look(session, judged.campaign_id).flying
        with (
            patch("agent.campaign.rerun.elsewhere.find_target", lambda target: made_up_target("cpu")),
            pytest.raises(
                UsageError, match=re.escape(f"E-0003 was measured on {machine(KEY)}, and cpu here is ")
            ),
        ):
            enqueue_reproduction(session, fresh_id)


def test_the_campaign_waits_for_nothing_that_is_confirmed_elsewhere(judged: Judged) -> None:
    judged.promote()
    with judged.database.read() as session:
        assert not glance.look(session, judged.campaign_id).flying
        assert overdue(session, judged.campaign_id, running_too=True) == []
        assert nobody_takes(session, judged.campaign_id) is None
        assert session.scalars(select(Job.device_class).order_by(Job.id.desc())).first() == THERE


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("cpu", "E-0002 was measured on cpu itself"),
        ("cuda:1,cuda:2", "A test measures on one device"),
        ("moon", "There is no target 'moon'"),
    ],
)
def test_a_target_that_can_confirm_nothing_is_refused(judged: Judged, target: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        judged.ask(target)


def test_what_was_left_open_is_nothing_to_confirm(judged: Judged) -> None:
    with judged.database.write() as session:
        session.scalars(select(Verdict)).one().outcome = VerdictOutcome.INCONCLUSIVE
    with judged.database.read() as session:
        for noun, number in ((Noun.EXPERIMENT, ORIGINAL), (Noun.HYPOTHESIS, judged.hypothesis_id)):
            with pytest.raises(UsageError, match="E-0002 is inconclusive: there is nothing that"):
                promotable(session, noun, number)
        with pytest.raises(UsageError, match="E-0001 has no verdict"):
            promotable(session, Noun.EXPERIMENT, 1)


def test_a_hypothesis_stands_for_its_newest_judged_test(judged: Judged) -> None:
    with judged.database.read() as session:
        assert promotable(session, Noun.HYPOTHESIS, judged.hypothesis_id) == ORIGINAL


def test_a_device_without_memory_for_an_arm_is_refused_before_anything_is_queued(judged: Judged) -> None:
    def small(target: str) -> Target:
        return Target(target, probe_cpu(), DeviceIdentity("Small made-up device", 5 * 10**8))

    with (
        judged.database.read() as session,
        registered_here(judged.folder),
        patch("agent.campaign.rerun.elsewhere.find_target", small),
        pytest.raises(UsageError, match=r"The control does not fit: .* MB missing"),
    ):
        ask(session, ORIGINAL, THERE)


def test_a_kernel_that_the_device_lacks_is_refused_before_anything_is_queued(judged: Judged) -> None:
    def without(space: object, profile: object, gpu: Gpu) -> dict[tuple[str, float], str]:
        assert gpu.capability == "8.9"
        return {("simulated.tpot_ms", 7.0): "It is built for compute capability 9.0."}

    def other(target: str) -> Target:
        gpu = DeviceIdentity("Made-up device", 24 * 10**9, compute_capability="8.9")
        return Target(target, probe_cpu(), gpu)

    with (
        judged.database.read() as session,
        registered_here(judged.folder),
        patch("agent.campaign.rerun.elsewhere.find_target", other),
        patch("agent.ground.legal.not_served_by", without),
        pytest.raises(UsageError, match=r"The candidate can't run on cuda:3: .*capability 9\.0"),
    ):
        ask(session, ORIGINAL, THERE)


def test_a_rented_gpu_is_known_by_its_packaged_profile_and_kept_by_what_was_asked_for() -> None:
    found = find_elsewhere("modal:H100!")
    assert (found.device, found.key, found.kind, found.rented) == ("modal:H100!", "modal:H100!", "cuda", True)
    assert found.card is not None
    assert found.card.compute_capability == "9.0"
    assert find_elsewhere("modal:cpu").kind == "cpu"
    assert find_elsewhere("files:T").card is None


def test_where_a_launch_ran_is_told_by_its_own_machine() -> None:
    card = card_of_rented("modal:H100!")
    assert ran_elsewhere("modal:H100!", {"gpu": {"name": "NVIDIA H100 80GB HBM3"}}, card) is None
    assert ran_elsewhere("modal:H100!", {"gpu": {"name": "NVIDIA H200"}}, card) == "NVIDIA H200"
    cpu = probe_cpu()
    told = {"cpu": {"name": cpu.name, "cores": cpu.cores}}
    assert ran_elsewhere(cpu.target_key, told, None) is None
    assert ran_elsewhere("cpu:Another:2 cores", told, None) == cpu.target_key
