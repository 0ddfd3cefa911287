"""Checkpoints that free devices build while the baseline is measured: begun, ended, found by their tests.

The loop, the database, the queue and the judge are the real ones; devices are names that nobody has, and jobs
are recorded by hand.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agent.asking.preview import read_ground
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.held import hold
from agent.proposers.user import Enqueued
from configs.errors import AutoinferError
from db import queue
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Hypothesis, Job
from db.states import CampaignState, ExperimentKind, ExperimentState, HypothesisState
from experiments.job.result import Failure, JobProgress, JobResult, StageRecord
from experiments.job.spec import BUILD, BuildJob, parse_job
from experiments.measurement.evidence import Arm, Metric, Stage
from experiments.space.configuration import Configuration
from experiments.worker.claiming import Taken
from experiments.worker.reporting import Reporter
from experiments.worker.settings import WorkerTimes
from tests.simulated.by_hand import LEASE_S, launch
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import Bench

pytestmark = pytest.mark.timeout(600)

SPACE = """
name: simulated
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 7.0], default: 10.0, help: The answer.}
  - {name: quantization.method, lever: quantization, values: [none, rtn], default: none, help: Weights.}
  - name: quantization.group_size
    lever: quantization
    values: [32, 64, 128]
    default: 32
    when: {quantization.method: [rtn]}
    help: Groups.
"""


def groups(size: int) -> dict[str, object]:
    return {"quantization.method": "rtn", "quantization.group_size": size}


def question(name: str, candidate: dict[str, object], control: dict[str, object]) -> dict[str, object]:
    return {
        "id": name,
        "asks": "What makes it fast?",
        "claim": f"{name} makes a token at least 3 % faster.",
        "control": control,
        "candidate": candidate,
        "metric": "tpot_ms",
        "min_effect": "3%",
        "why": "It is simulated.",
    }


QUESTIONS = [
    question("kernel", {"simulated.tpot_ms": 7.0}, {}),
    question("finer", groups(32), groups(128)),
    question("finer_and_fast", {**groups(32), "simulated.tpot_ms": 7.0}, groups(64)),
]
"""The checkpoints that they load: 128, 32, 64, in this order, two of them in more than one arm."""


@dataclass
class ThreeBench(Bench):
    """A campaign without a baseline on three devices."""

    ahead: bool = True

    def given(self) -> dict[str, Any]:
        return {"builds_ahead": self.ahead}

    def turns_to_stop(self) -> int:
        return 4

    def builds(self) -> dict[str, int]:
        """The size of the groups that each device builds now."""
        specs = {job.device_class: parse_job(job.spec) for job in self.jobs() if job.kind == "build"}
        return {
            device: int(spec.configuration["quantization.group_size"])
            for device, spec in specs.items()
            if isinstance(spec, BuildJob)
        }

    @property
    def purposes(self) -> list[str]:
        """What every checkpoint was built for, in the order in which they were begun."""
        with self.database.read() as session:
            specs = session.scalars(select(Job.spec).where(Job.kind == BUILD).order_by(Job.id)).all()
        return [str(each.get("purpose")) for each in specs]

    def expect(self, **builds: int) -> Callable[[], None]:
        def look() -> None:
            assert self.builds() == {each.replace("_", ":"): size for each, size in builds.items()}

        return look

    def take(self, device: str) -> Reporter:
        with self.database.write() as session:
            job = queue.claim(session, "by hand", f"here/{device}", (device,), LEASE_S)
        assert job is not None
        return Reporter(self.database, Taken(job, f"job{job.id}"), WorkerTimes(lease_s=LEASE_S), 0)

    def build(self, device: str, failure: Failure | None = None) -> Callable[[], None]:
        """The device's build comes to its end."""

        def finish() -> None:
            (job,) = [each for each in self.jobs() if each.device_class == device]
            self.take(device).record(parse_job(job.spec), JobResult(launches=(), failure=failure))

        return finish

    def baseline_comes_to(self, progress: JobProgress) -> Callable[[], None]:
        def tell() -> None:
            with self.database.write() as session:
                row = session.scalars(
                    select(Experiment).where(Experiment.kind == ExperimentKind.BASELINE)
                ).one()
                row.state, row.stage = ExperimentState.RUNNING, progress.stage.value
                row.progress = {"timing": True} if progress.timing else {"done": 0}

        return tell

    def end_baseline(self, failure: Failure | None = None) -> Callable[[], None]:
        def finish() -> None:
            (job,) = [each for each in self.jobs() if each.kind == "baseline"]
            spec = parse_job(job.spec)
            reporter = self.take(job.device_class)
            if failure is not None:
                reporter.record(spec, JobResult(launches=(), failure=failure))
                return
            with self.database.read() as session:
                facts = read_facts(session, self.campaign_id)
            first = facts.begins_from(legal_of(facts).space)
            swept = [launch(Arm.CONTROL, first, 10.0, 0, Stage.SWEEP)]
            done = StageRecord(Stage.SWEEP, "2026-11-21T12:00:00+00:00", 1.0, "done")
            reporter.record(spec, JobResult(launches=tuple(swept), stages=(done,), chosen=dict(first)))

        return finish

    def tests_fly(self) -> None:
        kinds = {job.device_class: job.kind for job in self.jobs()}
        assert kinds == {"cuda:0": "test", "cuda:1": "test", "cuda:2": "test"}


def progress(stage: Stage, *, timing: bool = False) -> JobProgress:
    return JobProgress(stage, 0, 2, "", timing=timing)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ThreeBench]:
    database, campaign_id = start(
        tmp_path,
        space_text=SPACE,
        target="cuda:0,cuda:1,cuda:2",
        questions=QUESTIONS,
        **{"baseline.sweep": []},
    )
    yield ThreeBench(database, campaign_id)
    database.close()


def test_free_devices_build_what_the_questions_load_each_checkpoint_once(bench: ThreeBench) -> None:
    bench.drive(
        bench.nothing,
        bench.expect(cuda_1=128, cuda_2=32),
        bench.build("cuda:2"),
        bench.baseline_comes_to(progress(Stage.KERNELS)),
        bench.expect(cuda_1=128, cuda_2=64),
        bench.build("cuda:1"),
        bench.baseline_comes_to(progress(Stage.SWEEP)),
        bench.expect(cuda_2=64),
    )
    told = bench.told(EventKind.ARTIFACT_AHEAD)
    assert told[0] == (
        "J-2 builds a checkpoint for the question finer on cuda:1 while the baseline is measured"
    )
    assert len(told) == 3


def test_nothing_is_built_where_the_devices_share_the_processor(bench: ThreeBench) -> None:
    bench.ahead = False
    bench.drive(bench.nothing, bench.expect(), bench.expect())
    assert not bench.told(EventKind.ARTIFACT_AHEAD)


def test_what_the_user_asked_for_before_the_baseline_is_built_first(bench: ThreeBench) -> None:
    with bench.database.write() as session:
        facts = read_facts(session, bench.campaign_id)
        asked = Enqueued(
            "Groups of 64 are faster.", ("quantization.method=rtn", "quantization.group_size=64")
        )
        hold(session, facts, asked, Metric.TPOT_MS, legal_of(facts))
    bench.drive(bench.nothing, bench.expect(cuda_1=64, cuda_2=128))
    assert "for H-001 on cuda:1" in bench.told(EventKind.ARTIFACT_AHEAD)[0]
    assert bench.purposes == ["H-001", "the question finer"]


def test_builds_end_when_the_baseline_is_timed_and_none_begins_any_more(bench: ThreeBench) -> None:
    taken: list[Reporter] = []

    def only_what_runs_is_left() -> None:
        assert bench.builds() == {"cuda:1": 128}
        (job,) = [each for each in bench.jobs() if each.kind == "build"]
        assert job.cancel_requested
        assert "The baseline is timed now" in (job.error or "")

    bench.drive(
        bench.nothing,
        lambda: taken.append(bench.take("cuda:1")),
        bench.baseline_comes_to(progress(Stage.SWEEP, timing=True)),
        only_what_runs_is_left,
        lambda: taken[0].cancelled(),
        bench.baseline_comes_to(progress(Stage.NOISE)),
        bench.expect(),
        bench.baseline_comes_to(progress(Stage.EVALUATE)),
        bench.expect(),
    )
    (told,) = bench.told(EventKind.JOB_CANCELLED)[:1]
    assert "J-3 is cancelled: The baseline is timed now" in told


def test_builds_end_with_a_baseline_that_does_not_run_and_their_cost_is_told(bench: ThreeBench) -> None:
    taken: list[Reporter] = []
    ended: list[str] = []

    def obey() -> None:
        assert [job.cancel_requested for job in bench.jobs()] == [True], "the campaign waits for its end"
        with bench.database.read() as session:
            assert session.get_one(Campaign, bench.campaign_id).state is CampaignState.RUNNING
        taken[0].cancelled()
        ended.append("obeyed")

    with pytest.raises(AutoinferError, match="could not be measured: No kernel for it"):
        bench.drive(
            bench.nothing,
            lambda: taken.append(bench.take("cuda:1")),
            bench.end_baseline(Failure("unsupported", "No kernel for it")),
            bench.nothing,
            obey,
            *[bench.nothing] * 3,
        )
    assert ended == ["obeyed"]
    assert not bench.jobs()
    (told,) = bench.told(EventKind.CAMPAIGN_BUILT_AHEAD)
    assert "0 checkpoints that tests need were built" in told
    assert "1 more was begun and not finished" in told
    with bench.database.read() as session:
        assert session.get_one(Campaign, bench.campaign_id).state is CampaignState.STOPPED


def test_after_the_baseline_every_device_tests_and_nothing_is_built(bench: ThreeBench) -> None:
    bench.drive(
        bench.nothing,
        bench.build("cuda:1"),
        bench.end_baseline(),
        *[bench.nothing] * 4,
        bench.tests_fly,
    )
    (told,) = bench.told(EventKind.CAMPAIGN_BUILT_AHEAD)
    assert "1 checkpoint that tests need was built on the other devices:" in told
    assert (
        "J-3 is cancelled: The measurement of the baseline is over" in bench.told(EventKind.JOB_CANCELLED)[0]
    )


def test_a_build_that_fails_concludes_nothing_and_its_device_gets_no_other(bench: ThreeBench) -> None:
    bench.drive(
        bench.nothing,
        bench.build("cuda:1", Failure("build_failed", "A tensor is not finite.")),
        bench.expect(cuda_2=32),
        bench.build("cuda:2"),
        bench.nothing,
        bench.expect(cuda_2=64),
        bench.end_baseline(),
        *[bench.nothing] * 4,
        bench.tests_fly,
    )
    assert bench.told(EventKind.JOB_FAILED) == ["J-2 failed: A tensor is not finite."]
    with bench.database.read() as session:
        states = session.scalars(select(Hypothesis.state).where(Hypothesis.question.is_not(None))).all()
    assert HypothesisState.INFEASIBLE not in states


def test_a_pause_ends_what_is_built(bench: ThreeBench) -> None:
    bench.drive(bench.nothing, bench.pause, bench.expect())
    assert "J-2 is cancelled: The campaign was stopped or paused" in bench.told(EventKind.JOB_CANCELLED)[0]


def test_what_was_built_ahead_costs_its_test_nothing(bench: ThreeBench) -> None:
    """Of the questions with a checkpoint one is expected to build none, the other one of its two."""
    expected: list[float] = []

    def expect() -> None:
        with bench.database.read() as session:
            ground = read_ground(session, bench.campaign_id)
            assert ground.desk is not None
            arms = [Configuration.of({**ground.control, **groups(size)}) for size in (128, 32)]
            missing = ground.desk.beliefs.cost.builds_s(arms, [1.0, 1.0])
            expected.extend(sum(each.values()) for each in missing)

    bench.drive(
        bench.nothing,
        bench.build("cuda:1"),
        bench.end_baseline(),
        *[bench.nothing] * 2,
        expect,
        bench.nothing,
    )
    there, not_there = expected
    assert there == 0
    assert not_there > 0
