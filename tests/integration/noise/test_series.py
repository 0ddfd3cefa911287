"""A/A series through the real queue, worker and executor, with the simulated engine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from agent.campaign.beginning.create import create_campaign, interrupted
from agent.campaign.beginning.survey import survey
from agent.campaign.known.facts import Queued
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.queue.dispatch import enqueue_test, stopping_plan
from agent.campaign.queue.enqueue import enqueue as enqueue_hypothesis
from agent.campaign.resources.allowance import extend
from agent.campaign.resources.worker_process import WorkerProcess
from agent.noise.measure import Progress, SeriesLoop
from agent.noise.report import as_document, load_pairs, series_report
from agent.noise.series import (
    AaAsked,
    configuration_of,
    create_series,
    dispatch_pair,
    interrupted_series,
    next_pair,
    pairs_of,
    read_series,
    resize,
)
from configs.errors import AutoinferError, LeaseLost, UsageError
from db import queue
from db.clock import after
from db.models import Campaign, Experiment, Job, Launch, NoiseLaunch
from db.noise import SERIES_NAME, stored_profiles
from db.session import Database, open_database
from db.states import CampaignState, ExperimentKind, ExperimentState, JobState
from experiments.job.spec import TestJob, parse_job
from experiments.measurement.evidence import ALL_REQUESTS, Arm, Metric
from experiments.measurement.plan import Prediction
from experiments.recording import load_noise
from experiments.worker.settings import WorkerName
from knowledge.queries.lookup import campaign_of
from tests.new_database import database_url, new_database
from tests.simulated.campaign import LEASE_S, registered_here, simulated_spec, worker_process

pytestmark = pytest.mark.timeout(600)

BLOCKS = 2
BESIDE = (sys.executable, "-c", "import time; time.sleep(600)")


class Bench:
    """A database, the ground of a simulated campaign, and series on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = simulated_spec(folder)
        self.database: Database = new_database(folder)
        with registered_here(folder):
            self.ground = survey(self.spec)
        self.told: list[Progress] = []
        self.beside: tuple[str, ...] = ()

    def asked(self, launches: int, **more: object) -> AaAsked:
        configuration = configuration_of(self.spec, self.ground, [])
        return replace(AaAsked(configuration, BLOCKS, launches), **more)  # type: ignore[arg-type]

    def begin(self, asked: AaAsked) -> int:
        self.beside = tuple(asked.beside or ())
        with self.database.write() as session:
            return create_series(session, self.spec, self.ground, asked)

    def loop(self, series_id: int, worker: WorkerProcess | None) -> SeriesLoop:
        return SeriesLoop(
            self.database, series_id, worker=worker, tell=self.told.append, lease_s=LEASE_S, poll_s=0.05
        )

    def measure(self, series_id: int) -> None:
        self.loop(series_id, worker_process(self.folder, beside=self.beside)).run()

    def profile_launches(self) -> int:
        with self.database.read() as session:
            found = load_noise(session, self.ground.target_key, self.ground.fingerprint, Metric.TPOT_MS)
        return found.launches


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.database.close()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, int]]:
    made = Bench(tmp_path_factory.mktemp("series"))
    series_id = made.begin(made.asked(6))
    made.measure(series_id)
    yield made, series_id
    made.database.close()


def test_every_launch_is_stored_with_its_samples_and_counted_once_in_the_profile(
    finished: tuple[Bench, int],
) -> None:
    bench, series_id = finished
    with bench.database.read() as session:
        pairs = load_pairs(session, series_id)
        windows = session.scalar(select(func.count(NoiseLaunch.window.distinct())))
        kinds = set(session.scalars(select(Experiment.kind)))
        profile = load_noise(session, bench.ground.target_key, bench.ground.fingerprint, Metric.TPOT_MS)
    assert [pair.number for pair in pairs] == [0, 1, 2]
    assert kinds == {ExperimentKind.NOISE}
    assert (profile.launches, profile.degrees_of_freedom, windows) == (6, 3, 3)
    assert profile.launch_sd_log is not None
    for pair in pairs:
        for launch in pair.launches:
            assert len(launch.values(Metric.TPOT_MS)) == BLOCKS * bench.spec.plan.workload.prompts_per_block
    assert [pair.first.arm is Arm.CONTROL for pair in pairs] == [True, False, True]
    items = {sample.item for pair in pairs for sample in pair.first.samples} - {ALL_REQUESTS}
    assert len(items) == 3 * BLOCKS * 2
    assert pairs[0].at_s == 0 < pairs[1].at_s < pairs[2].at_s


def test_it_tells_each_pair_and_ends_its_series(finished: tuple[Bench, int]) -> None:
    bench, series_id = finished
    assert [(each.done, each.planned) for each in bench.told if each.experiment_id] == [
        (1, 3),
        (2, 3),
        (3, 3),
    ]
    with bench.database.read() as session:
        row = session.get_one(Campaign, series_id)
        assert (row.state, row.stopped_because) == (CampaignState.STOPPED, "6 launches were measured")
        assert row.owner is None


def test_its_report_is_json_of_the_stored_samples(finished: tuple[Bench, int]) -> None:
    bench, series_id = finished
    with bench.database.read() as session, registered_here(bench.folder):
        document = as_document(series_report(session, series_id))
        again = as_document(series_report(session, series_id))
    assert document == again
    assert (document["launches"], document["launches_asked"], document["blocks"]) == (6, 6, BLOCKS)
    assert document["launch_sd_log"]["n"] == 3
    assert document["launch_sd_log"]["value"] == pytest.approx(document["profile"]["launch_sd_log"])
    assert document["judged"]["first_looks"]["n"] == 3
    assert {each["status"] for each in document["assumptions"]} <= {
        "holds",
        "does not hold",
        "too few launches to say",
    }
    assert document["contrast"] is None


def test_the_first_test_of_a_later_campaign_has_its_degrees_of_freedom(finished: tuple[Bench, int]) -> None:
    bench, _ = finished
    with bench.database.write() as session:
        campaign_id = create_campaign(session, bench.spec, bench.ground)
        facts = read_facts(session, campaign_id)
        control = configuration_of(bench.spec, bench.ground, [])
        candidate = configuration_of(bench.spec, bench.ground, ["simulated.tpot_ms=7.0"])
        prediction = Prediction(log_ratio_mean=-0.3, log_ratio_sd=0.1)
        hypothesis = Queued(
            0, "", control, candidate, "kernel", prediction, 0.03, "user", False, None, "tpot_ms"
        )
        experiment_id = enqueue_test(
            session,
            facts,
            control,
            candidate,
            stopping_plan(facts, hypothesis),
            kind=ExperimentKind.TEST,
            hypothesis_id=None,
        )
        spec = parse_job(session.scalars(select(Job.spec).where(Job.experiment_id == experiment_id)).one())
    assert isinstance(spec, TestJob)
    assert (spec.noise.launches, spec.noise.degrees_of_freedom) == (6, 3)
    assert spec.noise.launch_sd_log is not None


def test_a_series_is_no_campaign_for_those_who_name_none(bench: Bench) -> None:
    with bench.database.write() as session:
        campaign_id = create_campaign(session, bench.spec, bench.ground)
    series_id = bench.begin(bench.asked(2))
    with bench.database.write() as session:
        assert campaign_of(session, None) == campaign_id
        assert interrupted(session, bench.spec, bench.ground) == campaign_id
        with pytest.raises(UsageError, match="is an A/A series and tests nothing"):
            extend(session, series_id, 60)
        with pytest.raises(UsageError, match="is no A/A series"):
            read_series(session, campaign_id)
    with pytest.raises(UsageError, match="is an A/A series and tests nothing"):
        enqueue_hypothesis(bench.database, series_id, claim="x", assignments=["simulated.tpot_ms=7.0"])


def test_what_was_interrupted_goes_on_where_it_was_and_counts_nothing_twice(bench: Bench) -> None:
    asked = bench.asked(6)
    series_id = bench.begin(asked)
    worker = worker_process(bench.folder)

    def stop_after_one(progress: Progress) -> None:
        if progress.experiment_id is not None:
            raise KeyboardInterrupt

    loop = SeriesLoop(
        bench.database, series_id, worker=worker, tell=stop_after_one, lease_s=LEASE_S, poll_s=0.05
    )
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    with bench.database.write() as session:
        assert sum(row.measured for row in pairs_of(session, series_id)) == 1
        assert not session.scalar(select(func.count(Job.id)).where(Job.state == JobState.QUEUED))
        assert interrupted_series(session, bench.spec, bench.ground, asked) == series_id
        other = replace(asked, blocks=3)
        assert interrupted_series(session, bench.spec, bench.ground, other) is None
        resize(session, series_id, 4)
    bench.measure(series_id)
    with bench.database.write() as session:
        assert sorted(row.pair for row in pairs_of(session, series_id) if row.measured) == [0, 1]
        assert interrupted_series(session, bench.spec, bench.ground, asked) is None
    assert bench.profile_launches() == 4


def test_a_series_whose_command_and_worker_are_killed_loses_one_pair_at_most(bench: Bench) -> None:
    asked = bench.asked(8)
    series_id = bench.begin(asked)
    command = [sys.executable, "-P", "-m", "tests.integration.noise.test_series", str(bench.folder)]
    running = subprocess.Popen([*command, str(series_id)], start_new_session=True)
    deadline = time.monotonic() + 120
    while bench.profile_launches() < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    kept = bench.profile_launches()
    assert kept >= 2
    with bench.database.write() as session:
        assert interrupted_series(session, bench.spec, bench.ground, asked) == series_id
    bench.measure(series_id)
    assert bench.profile_launches() == 8
    with bench.database.read() as session:
        launches = session.scalar(select(func.count(Launch.id)))
        measured = [row.pair for row in pairs_of(session, series_id) if row.measured]
    assert (launches, sorted(measured)) == (8, [0, 1, 2, 3])


def test_two_commands_do_not_measure_one_series(bench: Bench) -> None:
    series_id = bench.begin(bench.asked(2))
    with bench.database.write() as session:
        session.execute(
            update(Campaign)
            .where(Campaign.id == series_id)
            .values(owner="elsewhere#1#x", owner_lease_expires_at=after(60))
        )
    with pytest.raises(LeaseLost, match="Another command measures C-1 now"):
        bench.loop(series_id, None).run()


def test_a_configuration_that_dies_ends_the_series_with_its_cause_and_counts_nothing(bench: Bench) -> None:
    configuration = configuration_of(bench.spec, bench.ground, ["simulated.fails=load"])
    series_id = bench.begin(replace(bench.asked(2), configuration=configuration))
    with pytest.raises(AutoinferError, match=r"Pair 1 could not be measured: .*no memory for the weights"):
        bench.measure(series_id)
    assert bench.profile_launches() == 0
    with bench.database.read() as session:
        assert session.get_one(Campaign, series_id).state is CampaignState.RUNNING


def test_a_command_that_dies_beside_ends_the_series_and_pairs_before_it_are_kept(bench: Bench) -> None:
    dies = (sys.executable, "-c", "import sys; sys.exit('no such page')")
    series_id = bench.begin(bench.asked(8, beside=dies))
    with pytest.raises(AutoinferError, match=r"ended with exit code 1 .* it said last: no such page"):
        bench.measure(series_id)
    with bench.database.read() as session:
        kept = [row.pair for row in pairs_of(session, series_id) if row.measured]
    assert kept == [*range(len(kept))]
    assert 1 <= len(kept) < 4, "where the machine is busy a pair may be measured before its command has died"


def test_half_of_the_pairs_have_the_command_beside_them_and_stay_out_of_the_profile(bench: Bench) -> None:
    series_id = bench.begin(bench.asked(8, beside=BESIDE))
    bench.measure(series_id)
    with bench.database.read() as session, registered_here(bench.folder):
        pairs = load_pairs(session, series_id)
        document = as_document(series_report(session, series_id))
    assert [pair.differs for pair in pairs] == [False, True, True, False]
    texts = [{sample.item for sample in pair.first.samples} for pair in pairs]
    assert texts[0] == texts[1] != texts[2] == texts[3]
    assert bench.profile_launches() == 4
    assert document["condition"] == "beside"
    assert document["contrast"]["level_log"]["n"] == 2
    assert document["judged"]["first_looks"]["n"] == 2


def test_it_says_whose_job_keeps_the_device_and_then_goes_on(bench: Bench) -> None:
    other = bench.begin(bench.asked(2))
    with bench.database.write() as session:
        dispatch_pair(session, other, bench.spec, bench.asked(2), 0)
        name = WorkerName.here("cpu")
        claimed = queue.claim(session, "somebody", name.device_key, name.device_classes, 60)
        assert claimed is not None
    series_id = bench.begin(bench.asked(2))
    clock = iter(range(0, 100_000, 10))
    loop = SeriesLoop(
        bench.database,
        series_id,
        worker=worker_process(bench.folder),
        tell=bench.told.append,
        lease_s=LEASE_S,
        wait=lambda seconds: _release_once_told(bench, claimed),
        clock=lambda: float(next(clock)),
    )
    loop.run()
    waits = [each.waits for each in bench.told if each.waits is not None]
    assert waits
    assert "E-0001 of C-1 runs on" in waits[0]
    assert "one job at a time" in waits[0]
    with bench.database.read() as session:
        assert [row.measured for row in pairs_of(session, series_id)] == [True]


def _release_once_told(bench: Bench, claimed: queue.ClaimedJob) -> None:
    if any(each.waits for each in bench.told):
        with bench.database.write() as session:
            if session.get_one(Job, claimed.id).state is JobState.RUNNING:
                session.execute(update(Job).where(Job.id == claimed.id).values(state=JobState.CANCELLED))
                values = {"state": ExperimentState.CANCELLED}
                session.execute(
                    update(Experiment).where(Experiment.id == claimed.experiment_id).values(values)
                )
    time.sleep(0.02)


def test_profiles_are_listed_with_their_size_and_age(finished: tuple[Bench, int]) -> None:
    bench, _ = finished
    with bench.database.read() as session:
        [profile] = stored_profiles(session, bench.ground.target_key)
        assert stored_profiles(session, "another target") == []
    assert (profile.launches, profile.degrees_of_freedom, profile.metric) == (6, 3, "tpot_ms")
    assert 0 <= profile.age_s < 3600


def test_pairs_that_failed_are_measured_again_first(finished: tuple[Bench, int]) -> None:
    bench, series_id = finished
    with bench.database.read() as session:
        rows = pairs_of(session, series_id)
    assert next_pair(rows, bench.asked(6)) is None
    assert next_pair(rows, bench.asked(8)) == 3
    broken = [replace(rows[0], failure="it died"), *rows[1:]]
    assert next_pair(broken, bench.asked(6)) == 0
    assert SERIES_NAME == "A/A"


if __name__ == "__main__":
    where = Path(sys.argv[1])
    SeriesLoop(
        open_database(database_url(where)),
        int(sys.argv[2]),
        worker=worker_process(where),
        lease_s=LEASE_S,
        poll_s=0.05,
    ).run()
