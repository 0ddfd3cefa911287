"""`autoinfer run --target cloud:L4`: a campaign on machines that are rented, from the quote to the last cent.

The provider keeps its state in files and its machines are processes with the simulated engine; the command,
the worker beside it, the database and the money are the real ones.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import func, select

from db.agreed_prices import agreed_usd_per_s
from db.models import Experiment, Hypothesis, Job, NoiseLaunch, RemoteRun, Verdict
from db.states import HypothesisState, JobState, RemoteRunState
from experiments.executors.port import RunState
from experiments.job.seal import broken_seal
from experiments.job.spec import TestJob, parse_job
from tests.integration.cli.rented_place import TARGET, RentedPlace
from tests.integration.worker.processes import events_of
from tests.simulated.remote_executor import RATE_USD_PER_S
from tests.simulated.rented_cloud import BOUND_USD
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.timeout(600)

ON_IT = f"--target {TARGET}"


@pytest.fixture
def rented(tmp_path: Path) -> Iterator[RentedPlace]:
    made = RentedPlace(tmp_path, ON_IT)
    yield made
    made.end()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RentedPlace]:
    """A whole campaign, its worker killed with everything else while its first test runs, and then gone on
    with."""
    made = RentedPlace(tmp_path_factory.mktemp("rented"), ON_IT)
    try:
        made.killed_and_gone_on_with(submits=2)
        yield made
    finally:
        made.end()


def test_a_whole_campaign_on_a_rented_target_supports_and_refutes(finished: RentedPlace) -> None:
    database = finished.database()
    with database.read() as session:
        states = set(session.scalars(select(Hypothesis.state)))
        assert session.scalar(select(func.count()).select_from(Verdict))
        target = "cuda:NVIDIA L4:24 GB:cloud"
        assert set(session.scalars(select(Experiment.target))) == {target}
        assert set(session.scalars(select(NoiseLaunch.target_key))) == {target}
    database.close()
    assert {HypothesisState.SUPPORTED, HypothesisState.REFUTED} <= states
    outcome = finished.outcome
    assert outcome["best"]["configuration"]["simulated.tpot_ms"] == 7.0


def test_what_was_killed_is_gone_on_with_and_paid_once(finished: RentedPlace) -> None:
    database = finished.database()
    with database.read() as session:
        runs = list(session.scalars(select(RemoteRun).order_by(RemoteRun.id)))
    assert sorted(finished.cloud.submits()) == sorted(run.key for run in runs)
    assert len({run.job_id for run in runs}) == len(runs), "no job ran twice"
    assert len(events_of(database, "job.taken_over")) == 1
    database.close()


def test_its_budget_is_spent_settled_and_told(finished: RentedPlace) -> None:
    database = finished.database()
    with database.read() as session:
        runs = list(session.scalars(select(RemoteRun)))
        assert {run.state for run in runs} == {RemoteRunState.ENDED}
        assert not session.scalars(select(Job).where(Job.state == JobState.RUNNING)).all()
        actual = sum(run.actual_microusd or 0 for run in runs) / 1e6
        told = agreed_usd_per_s(session, 1, TARGET)
    database.close()
    assert told == pytest.approx(RATE_USD_PER_S), "what rises above it is asked about"
    [budget] = finished.autoinfer("budget list --json").json()["budgets"]
    assert (budget["scope"], budget["limit_usd"], budget["reserved_usd"]) == ("campaign", 5.0, 0.0)
    assert budget["spent_usd"] == pytest.approx(actual)
    assert 0 < actual < 5
    outcome = finished.outcome
    assert outcome["spent"]["usd"] == pytest.approx(actual, abs=1e-4)
    assert finished.cloud.reconcile() == []


def test_a_sealed_test_names_the_device_that_it_has_there(finished: RentedPlace) -> None:
    database = finished.database()
    with database.read() as session:
        for job in session.scalars(select(Job)):
            spec = parse_job(job.spec)
            assert (job.device_class, spec.device) == (TARGET, "cuda:0")
            if isinstance(spec, TestJob):
                assert broken_seal(spec) is None
    database.close()


def test_the_reason_of_a_place_tells_its_price(finished: RentedPlace) -> None:
    database = finished.database()
    with database.read() as session:
        reasons = [
            row.score["reason"]
            for row in session.scalars(select(Hypothesis).where(Hypothesis.score.is_not(None)))
        ]
    database.close()
    assert reasons
    assert all("$" in each for each in reasons)


def test_prices_and_the_budget_they_need_are_told_before_anything_is_submitted(rented: RentedPlace) -> None:
    refused = rented.autoinfer(rented.line, PYTHONPATH=rented.path)
    assert refused.code == 2
    assert f"No budget in dollars covers {TARGET}" in refused.err
    assert (
        "the baseline costs $0.600 at most, expected $0.0100; a test $0.600 at most"
        in refused.err.replace("\n", " ").replace("The baseline", "the baseline")
    )
    assert "--budget-usd 0.61" in refused.err
    small = rented.autoinfer(f"{rented.line} --budget-usd 0.5", PYTHONPATH=rented.path)
    assert small.code == 2
    assert "costs $0.600 at most" in small.err
    assert rented.cloud.submits() == []
    assert "C-1" not in rented.autoinfer("campaign list").out


@pytest.mark.parametrize(
    "end",
    [
        # in the suite these end a campaign in test_every_command.py and a worker in test_remote.py
        pytest.param(signal.SIGINT, marks=pytest.mark.bench_only),
        pytest.param(signal.SIGTERM, marks=pytest.mark.bench_only),
        pytest.param(signal.SIGHUP, marks=pytest.mark.bench_only),
        signal.SIGKILL,
    ],
    ids=lambda each: each.name,
)
def test_a_campaign_that_is_ended_leaves_nothing_paid_running(
    rented: RentedPlace, end: signal.Signals
) -> None:
    """By Ctrl C, by whoever ends processes, by its terminal, and killed: its worker sees to that."""
    line = f"{rented.line} --budget-usd 5 --no-dashboard"
    running = rented.autoinfer.start(line, PYTHONPATH=rented.path)
    rented.started.append(running)
    rented.run_is_there()
    running.send_signal(end)
    out, _ = running.communicate(timeout=PATIENCE_S)
    said = end in (signal.SIGINT, signal.SIGTERM)
    assert ("Continue with: autoinfer run --resume C-1\n" in out) is said, (
        "as given alone it would begin one on this machine"
    )
    wait_for(lambda: rented.cloud.reconcile() == [] and rented.reserved_usd() == 0)
    [ended] = rented.cloud.cloud.glob("*/ended.json")
    assert json.loads(ended.read_text())["state"] == RunState.CANCELLED


@pytest.mark.bench_only  # in the suite one is killed beside another, in test_several_devices_killed.py
def test_a_worker_that_is_killed_alone_is_started_again_and_goes_on_with_the_same_run(
    rented: RentedPlace,
) -> None:
    running = rented.run(f"{rented.line} --budget-usd 5")
    rented.run_is_there()
    [worker] = [each for each in psutil.Process(running.pid).children() if "--target" in each.cmdline()]
    worker.kill()
    database = rented.database()
    wait_for(lambda: bool(events_of(database, "job.taken_over")))
    database.close()
    assert len(rented.cloud.submits()) == 1
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_S)
    assert rented.cloud.reconcile() == []


def test_what_is_to_be_left_running_is_left_and_found_again(rented: RentedPlace) -> None:
    running = rented.run(f"{rented.line} --budget-usd 5 --leave-running")
    rented.run_is_there()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=PATIENCE_S)
    assert len(rented.cloud.reconcile()) == 1
    stopped = rented.autoinfer("stop --remote", PYTHONPATH=rented.path)
    assert stopped.code == 0
    assert rented.cloud.reconcile() == []


def test_a_budget_without_room_for_another_job_ends_the_campaign_with_what_to_do(rented: RentedPlace) -> None:
    """Sixty-one cents bear the baseline; what it cost leaves no room for a test's bound."""
    ended = rented.run(f"{rented.line} --budget-usd {BOUND_USD + 0.0001:.4f}")
    out, err = ended.communicate(timeout=120)
    assert ended.returncode == 0, err
    outcome = json.loads(out.splitlines()[-1])
    assert "no budget has room for the next job" in outcome["stopped_because"]
    assert "--resume C-1 --budget-usd" in outcome["stopped_because"]
    assert len(rented.cloud.submits()) == 1
    again = rented.autoinfer("run --resume C-1", PYTHONPATH=rented.path)
    assert again.code == 2
    assert "so nothing could be submitted" in again.err


def test_what_waits_for_its_price_is_approved_and_gone_on_with(rented: RentedPlace) -> None:
    line = f"{rented.line} --budget-usd 5 --approve-above-usd 0.10"
    out, err = rented.run(line).communicate(timeout=120)
    outcome = json.loads(out.splitlines()[-1])
    assert "Approve with: autoinfer approve J-1" in outcome["stopped_because"], err
    assert rented.cloud.submits() == []
    assert rented.autoinfer("approve J-1").code == 0
    going_on = rented.run("run --resume C-1")
    wait_for(lambda: len(rented.cloud.submits()) == 1)
    going_on.send_signal(signal.SIGINT)
    going_on.communicate(timeout=PATIENCE_S)
    assert rented.cloud.reconcile() == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run --budget-usd 5", "costs no dollars"),
        ("run --leave-running", "--leave-running is about rented machines"),
        (f"run {{}} --target {TARGET} --approve-above-usd 1", "approve_above_usd"),
        ("run --target nobody:H100 --budget-usd 5", "There is no executor 'nobody'."),
        ("run --target cloud:GTX1 --budget-usd 5", "gtx1"),
        (f"aa --target {TARGET}", f"{TARGET} is a rented one"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(rented: RentedPlace, line: str, says: str) -> None:
    refused = rented.autoinfer(line.format(rented.file), PYTHONPATH=rented.path)
    assert refused.code == 2, refused.err
    assert says in refused.err


def test_a_plan_for_a_rented_target_is_made_from_its_hardware_profile(rented: RentedPlace) -> None:
    planned = rented.autoinfer(f"plan --target {TARGET} --json", PYTHONPATH=rented.path)
    assert planned.code == 0, planned.err
    target = planned.json()["target"]
    assert (target["listed_as"], target["here"], target["compute_capability"]) == ("l4", False, "8.9")
    rented_jobs = planned.json()["cost"]["rented"]
    assert [each["what"] for each in rented_jobs["jobs"]][:3] == [
        "baseline",
        "test",
        "test that builds for pruning",
    ]
    assert all(each["bound_usd"] == pytest.approx(BOUND_USD) for each in rented_jobs["jobs"])
    assert planned.json()["cost"]["usd"] == rented_jobs["campaign"]["expected_usd"]
    cut = rented.cloud.cloud / "cut"
    cut.touch()
    silent = rented.autoinfer(f"plan --target {TARGET}", PYTHONPATH=rented.path)
    cut.unlink()
    assert silent.code == 0, silent.err
    assert "dollars: not known. The provider does not answer. It is asked again." in silent.out
    assert rented.cloud.submits() == []
