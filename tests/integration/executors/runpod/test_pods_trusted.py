"""What a pod is trusted with: no secret, no more than its own run, no higher price, and no word unread."""

import psycopg
import pytest

from configs.errors import AutoinferError
from experiments.executors.port import RunState
from tests.integration.executors.runpod.pods import ended, log
from tests.simulated.runpod.places import RunPodPlace
from tests.simulated.runpod.server import ACCOUNT_KEY, SECRET
from tests.simulated.specs import a_test_job


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
