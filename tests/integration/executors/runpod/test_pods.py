"""What may become of a pod, by HTTP to the fake of RunPod; the job, the board and the pod are real."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from configs.errors import AutoinferError
from experiments.executors.port import RunState, Status
from experiments.executors.runpod import body
from experiments.executors.runpod.api import NoCapacity, Refused, RunPodUnreachable
from experiments.executors.runpod.board import BoardUnreachable
from experiments.executors.runpod.executor import RunPodExecutor
from experiments.kill_points import KILL_VARIABLE, KillPoint
from tests import postgresql
from tests.integration.executors.conformance import SLOW
from tests.integration.executors.runpod.conftest import BOARD
from tests.simulated.runpod.places import QUICK, RunPodPlace
from tests.simulated.runpod.server import ACCOUNT_KEY, SECRET
from tests.simulated.specs import a_test_job

MOST_CUTS = 6

OPEN = (RunState.PENDING, RunState.RUNNING)


def ended(place: RunPodPlace, executor: RunPodExecutor, ref: str) -> Status:
    place.wait_for(lambda: executor.poll(ref).state not in OPEN)
    return executor.poll(ref)


def begun(place: RunPodPlace, executor: RunPodExecutor, ref: str) -> None:
    def measures() -> bool:
        progress = executor.poll(ref).progress
        return progress is not None and progress.stage == "quick"

    place.wait_for(measures)


def made(place: RunPodPlace) -> int:
    return len(place.fake.ever)


def log(place: RunPodPlace, number: int = 0) -> str:
    return place.fake.ever[number].log.read_text()


def test_a_pod_that_is_provisioned_is_pending_and_known_elsewhere_and_what_it_costs_is_counted(
    place: RunPodPlace, tmp_path: Path
):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("job7-1a2b3c4d-2", a_test_job())
    assert ref == "autoinfer-job7-1a2b3c4d-2", "a pod is named by job and attempt"
    assert executor.poll(ref).state is RunState.PENDING
    place.folder = tmp_path / "elsewhere"
    elsewhere = place.executor()
    assert elsewhere.reconcile() == [ref]
    assert elsewhere.find("job7-1a2b3c4d-2") == ref
    elsewhere.cancel(ref)
    cost = executor.cost(ref)
    assert cost.usd > 0
    assert executor.cost(ref) == cost
    assert executor.poll(ref).state is RunState.CANCELLED


def test_the_pod_ends_itself_where_nobody_looks(place: RunPodPlace):
    executor = place.executor()
    ref = executor.submit("alone", a_test_job())
    place.wait_for(lambda: not place.fake.pods)
    ends = [key for method, path, key in place.fake.requests if method == "DELETE"]
    assert ends == [place.fake.ever[0].key], "by its own key, which is no other's"
    status = executor.poll(ref)
    assert status.state is RunState.DONE
    assert status.result is not None


def test_a_pod_whose_key_is_not_for_rest_ends_itself_as_runpods_own_command_does(place: RunPodPlace):
    place.fake.rest_refuses_pods = True
    executor = place.executor()
    ref = executor.submit("as-its-command", a_test_job())
    place.wait_for(lambda: not place.fake.pods)
    asked = [path for _, path, key in place.fake.requests if key == place.fake.ever[0].key]
    assert asked == [f"/v2/pods/{place.fake.ever[0].id}", "/graphql"]
    assert executor.poll(ref).state is RunState.DONE


def test_no_capacity_is_asked_for_again_and_starts_nothing_meanwhile(place: RunPodPlace):
    place.fake.capacity = False
    place.fake.hold = True
    executor = place.executor("runpod:L4")
    with pytest.raises(NoCapacity, match="RunPod has no NVIDIA L4 free now"):
        executor.submit("later", a_test_job())
    assert executor.find("later") is None
    place.fake.capacity = True
    ref = executor.submit("later", a_test_job())
    assert made(place) == 1
    executor.cancel(ref)


@pytest.mark.parametrize(
    ("status", "says"), [(402, "Add money"), (403, "right to read and write"), (422, "RunPod refused")]
)
def test_what_runpod_refuses_is_told_in_a_sentence_and_starts_nothing(
    place: RunPodPlace, status: int, says: str
):
    place.fake.status_after_create = status
    with pytest.raises(Refused, match=says):
        place.executor().submit("refused", a_test_job())
    assert place.executor().reconcile() == []


def test_a_create_whose_answer_was_lost_makes_one_pod(place: RunPodPlace):
    place.fake.hold = True
    place.fake.lose_answers = 1
    executor = place.executor()
    with pytest.raises(RunPodUnreachable):
        executor.submit("lost", a_test_job())
    ref = executor.submit("lost", a_test_job())
    assert executor.find("lost") == ref
    assert made(place) == 1
    assert executor.cost(ref).usd > 0
    executor.cancel(ref)


def test_of_two_pods_of_one_name_the_second_ends_itself_before_it_does_anything(place: RunPodPlace):
    """The list is behind, so that the first pod is not found."""
    place.fake.lose_answers = 1
    place.fake.behind = True
    executor = place.executor()
    with pytest.raises(RunPodUnreachable):
        executor.submit("twice", a_test_job())
    place.wait_for(lambda: executor._board.row("twice").owner is not None)  # type: ignore[union-attr]
    place.fake.hold = True
    second = place.fake.create({"name": "autoinfer-twice", "env": place.fake.ever[0].env})
    place.fake.behind = False
    place.fake.start(second)
    assert ended(place, executor, "autoinfer-twice").state is RunState.DONE
    place.wait_for(lambda: not place.fake.pods)
    assert "does nothing" in log(place, 1)


def test_a_pod_that_comes_after_its_run_was_cancelled_does_nothing(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("late", a_test_job())
    (pod,) = place.fake.ever
    executor.cancel(ref)
    place.fake.start(place.fake.create({"name": ref, "env": pod.env}))
    place.wait_for(lambda: not place.fake.pods)
    assert "was cancelled: this pod does nothing" in log(place, 1)


def test_a_container_that_is_started_again_is_a_lost_run(place: RunPodPlace):
    executor = place.executor()
    ref = executor.submit("again", a_test_job(SLOW))
    begun(place, executor, ref)
    (pod,) = place.fake.ever
    place.fake.halt(pod)
    place.fake.start(pod)
    status = ended(place, executor, ref)
    assert status.state is RunState.LOST
    assert status.failure == "RunPod started the pod's container again."
    place.wait_for(lambda: not place.fake.pods)


@pytest.mark.parametrize("status", ["EXITED", "ERROR"])
def test_a_pod_that_runpod_stops_or_gives_up_is_lost_and_given_back(place: RunPodPlace, status: str):
    executor = place.executor()
    ref = executor.submit("exited", a_test_job(SLOW))
    begun(place, executor, ref)
    place.fake.stop(place.fake.ever[0], status)
    told = ended(place, executor, ref)
    assert (told.state, told.failure) == (RunState.LOST, f"RunPod says of the pod: {status}.")
    assert place.fake.pods == {}


def test_a_job_beyond_its_limit_is_ended_by_its_own_pod(place: RunPodPlace):
    executor = place.executor()
    bound_s = executor.quote(a_test_job(SLOW), 2.0).upper_bound_s
    assert bound_s == 2.0 + 2 * QUICK.startup_s + QUICK.end_s < executor.quote(a_test_job()).upper_bound_s
    ref = executor.submit("limit", a_test_job(SLOW), 2.0)
    place.wait_for(lambda: not place.fake.pods)
    place.wait_for(lambda: place.living(ref) == 0)
    assert "The limit of 2 s is over" in log(place)
    status = executor.poll(ref)
    assert status.state is RunState.TIMED_OUT
    assert "ended at its limit of 2s, which bounds what it may cost" in str(status.failure)


def test_a_builtin_timeout_error_in_the_job_is_an_end_and_not_a_wait(
    place: RunPodPlace, monkeypatch: pytest.MonkeyPatch
):
    def times_out(*_: object) -> None:
        raise TimeoutError("the device did not answer")

    monkeypatch.setattr(body, "_work", times_out)
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("times-out", a_test_job())
    body.run_body(executor._board, "times-out", place.fake.ever[0].id, body.Container(place.folder))
    status = executor.poll(ref)
    assert (status.state, status.failure) == (
        RunState.LOST,
        "The pod failed: TimeoutError: the device did not answer",
    )
    assert place.fake.pods == {}


def test_a_run_that_was_deleted_from_the_board_is_lost_and_its_pod_ends_itself(
    place: RunPodPlace, pods_server: postgresql.Server
):
    """What a result that has expired is elsewhere: here nothing expires, and its owner may delete it."""
    executor = place.executor()
    ref = executor.submit("deleted", a_test_job(SLOW))
    begun(place, executor, ref)
    for table in ("autoinfer_pod_piece", "autoinfer_pod_run"):
        pods_server.execute(f"DELETE FROM {table}", BOARD)
    status = executor.poll(ref)
    assert (status.state, status.failure) == (RunState.LOST, f"The board knows no run {ref}.")
    place.wait_for(lambda: not place.fake.pods)


def test_a_pod_that_never_begins_is_ended_from_here(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor(patience=replace(QUICK, startup_s=0.3))
    ref = executor.submit("stuck", a_test_job())
    status = ended(place, executor, ref)
    assert status.state is RunState.FAILED
    assert place.fake.pods == {}


def test_a_pod_that_does_not_reach_the_board_gives_itself_back(place: RunPodPlace):
    place.board_from_pod = re.sub(r":\d+/", ":1/", place.board_from_pod)
    place.fake.environment = {"FAKE_REACH_S": "0.5"}
    executor = place.executor()
    ref = executor.submit("cut-off", a_test_job())
    place.wait_for(lambda: not place.fake.pods)
    assert ended(place, executor, ref).state is RunState.LOST
    assert "The board can't be reached" in log(place)


def test_a_pod_that_is_not_known_is_lost_and_one_of_nobody_is_found_and_ended(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    assert executor.poll("autoinfer-nobodys").state is RunState.LOST
    place.fake.create({"name": "autoinfer-nobodys"})
    place.fake.create({"name": "of-another-use"})
    assert executor.reconcile() == ["autoinfer-nobodys"]
    executor.cancel("autoinfer-nobodys")
    assert [pod.name for pod in place.fake.pods.values()] == ["of-another-use"]
    place.fake.reset()


def test_a_rate_limit_is_obeyed_for_as_long_as_runpod_says(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("limited", a_test_job())
    place.fake.limited = [60]
    with pytest.raises(RunPodUnreachable, match="fewer requests"):
        executor.poll(ref)
    asked = len(place.fake.requests)
    with pytest.raises(RunPodUnreachable, match="for another 60 s"):
        executor.poll(ref)
    assert len(place.fake.requests) == asked, "nothing is asked meanwhile"
    other = place.executor()
    assert other.poll(ref).state is RunState.PENDING
    other.cancel(ref)


def test_a_cut_network_changes_no_run(place: RunPodPlace):
    executor = place.executor()
    ref = executor.submit("cut", a_test_job(SLOW))
    begun(place, executor, ref)
    place.fake.cut = True
    with pytest.raises(RunPodUnreachable):
        executor.poll(ref)
    with pytest.raises(RunPodUnreachable):
        executor.cancel(ref)
    place.fake.cut = False
    executor.cancel(ref)
    assert executor.poll(ref).state is RunState.CANCELLED


def test_an_answer_of_something_else_changes_no_run(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    ref = executor.submit("garbled", a_test_job())
    place.fake.garbled = True
    for ask in (executor.poll, executor.cancel):
        with pytest.raises(RunPodUnreachable):
            ask(ref)
    with pytest.raises(RunPodUnreachable):
        executor.submit("another", a_test_job())
    place.fake.garbled = False
    executor.cancel(ref)
    assert made(place) == 1


def test_a_pod_whose_connections_to_the_board_are_cut_again_and_again_tells_everything_once(
    place: RunPodPlace, pods_server: postgresql.Server
):
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'autoinfer_pod'"
    executor = place.executor()
    ref = executor.submit("cuts", a_test_job())
    cuts = 0
    while executor.poll(ref).state in OPEN:
        if cuts < MOST_CUTS:
            cuts += len(pods_server.execute(cut))
    status = executor.poll(ref)
    assert cuts > 0
    assert status.state is RunState.DONE
    assert status.result is not None
    assert len(status.result.launches) == 4


def test_a_board_that_does_not_answer_is_asked_again(place: RunPodPlace):
    place.board = re.sub(r":\d+/", ":1/", place.board)
    with pytest.raises(BoardUnreachable, match="can't be reached"):
        place.executor().submit("nowhere", a_test_job())
    assert made(place) == 0


def test_a_pod_that_runpod_does_not_end_is_told_and_stays_open(place: RunPodPlace):
    place.fake.hold, place.fake.fails_to_end = True, True
    executor = place.executor(patience=replace(QUICK, gone_s=0.1))
    ref = executor.submit("stays", a_test_job())
    with pytest.raises(AutoinferError, match="it may still cost money"):
        executor.cancel(ref)
    assert executor.reconcile() == [ref]
    place.fake.fails_to_end = False
    executor.cancel(ref)


def test_a_price_that_rose_after_the_quote_is_not_paid(place: RunPodPlace):
    executor = place.executor("runpod:L4")
    quote = executor.quote(a_test_job())
    assert "0.52 USD an hour for L4 by RunPod's catalog" in quote.basis
    place.fake.hold = True
    place.fake.prices["NVIDIA L4"] = 0.8
    with pytest.raises(
        AutoinferError, match=r"asks 0\.80 USD an hour for the pod, which was quoted at 0\.52"
    ):
        executor.submit("dearer", a_test_job())
    assert place.fake.pods == {}
    del place.fake.prices["NVIDIA L4"]
    assert "RunPod's prices of 2026-" in executor.quote(a_test_job()).basis, (
        "no price is told: the packaged one"
    )


def test_another_gpu_than_was_asked_for_is_measured_by_nobody(place: RunPodPlace):
    place.fake.environment = {"FAKE_GPU": "NVIDIA L40S", "FAKE_GPU_GB": "48"}
    executor = place.executor("runpod:L4")
    ref = executor.submit("other", a_test_job(device="runpod:L4"))
    status = ended(place, executor, ref)
    assert status.state is RunState.DONE
    assert status.result is not None
    assert status.result.failure is not None
    assert "RunPod gave NVIDIA L40S with 48 GB where L4 was asked for" in status.result.failure.cause


def test_no_secret_goes_into_a_name_a_request_a_log_or_a_file(
    place: RunPodPlace, caplog: pytest.LogCaptureFixture
):
    executor = place.executor()
    ref = executor.submit("secret", a_test_job())
    assert ended(place, executor, ref).state is RunState.DONE
    (pod,) = place.fake.ever
    secrets = (ACCOUNT_KEY, SECRET, pod.key)
    assert pod.env["PGPASSWORD"] == "{{ RUNPOD_SECRET_autoinfer_board }}"
    written = [str(pod.env), pod.name, log(place), caplog.text, repr(executor._account)]
    written += [path.read_text() for path in place.folder.rglob("*") if path.is_file()]
    assert not [secret for secret in secrets for text in written if secret in text]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM autoinfer_pod_run",
        "INSERT INTO autoinfer_pod_run (key, asked) VALUES ('mine', '{}')",
        "UPDATE autoinfer_pod_run SET asked = '{}'",
        "SELECT * FROM autoinfer_pod_piece",
        "DELETE FROM autoinfer_pod_piece",
        "INSERT INTO autoinfer_pod VALUES ('a', 'b', 0)",
        "SELECT * FROM autoinfer_pod",
        "SELECT * FROM job",
        "CREATE TABLE mine (a int)",
    ],
)
def test_a_pod_may_do_no_more_than_take_a_run_and_tell_of_it(place: RunPodPlace, statement: str):
    executor = place.executor()
    executor._board.prepare()
    with executor._board._engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE job (a int)")
    with (
        psycopg.connect(place.board_from_pod, password=SECRET, autocommit=True) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)


def test_what_a_pod_told_and_makes_no_sense_is_a_lost_run_and_no_fault_of_ours(place: RunPodPlace):
    place.fake.hold = True
    executor = place.executor()
    for key, records, end in (
        ("torn", "{not json\n", None),
        ("other", '{"kind": "of its own"}\n', None),
        ("list", "[1, 2]\n", None),
        ("end", "", "nonsense"),
    ):
        ref = executor.submit(key, a_test_job())
        with psycopg.connect(place.board_from_pod, password=SECRET, autocommit=True) as connection:
            values = {"key": key, "data": records, "end": end}
            told = "INSERT INTO autoinfer_pod_piece VALUES (%(key)s, 'records.jsonl', 0, %(data)s)"
            connection.execute(told, values)
            connection.execute(
                "UPDATE autoinfer_pod_run SET owner = 'pod', ended = %(end)s WHERE key = %(key)s", values
            )
        status = executor.poll(ref)
        assert status.state is RunState.LOST, key
        assert "no" in str(status.failure)
        assert place.fake.pods == {}


def submitting(place: RunPodPlace, key: str, kill_at: KillPoint | None) -> subprocess.Popen[str]:
    words = [str(place.folder), place.fake.url, place.board, place.board_from_pod, key]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulated.runpod.submitting", *words],
        env={**os.environ, **({} if kill_at is None else {KILL_VARIABLE: kill_at.value})},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("kill_at", [KillPoint.BEFORE_REMOTE_SUBMIT, KillPoint.BEFORE_REF_STORED])
def test_a_process_killed_at_a_named_point_leaves_one_paid_run_and_its_result(
    place: RunPodPlace, kill_at: KillPoint
):
    process = submitting(place, "killed", kill_at)
    assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == -signal.SIGKILL
    executor = place.executor()
    ref = executor.find("killed") or executor.submit("killed", a_test_job())
    status = ended(place, executor, ref)
    assert status.state is RunState.DONE
    assert status.result is not None
    assert made(place) == 1
    assert executor.cost(ref).usd > 0


def test_a_process_killed_while_its_job_runs_is_followed_by_another(place: RunPodPlace):
    process = submitting(place, "killed", None)
    assert process.stdout is not None
    ref = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    executor = place.executor()
    assert executor.find("killed") == ref
    assert ended(place, executor, ref).state is RunState.DONE
    assert made(place) == 1
