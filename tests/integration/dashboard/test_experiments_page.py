"""Experiments of an app on a campaign's history: the list, one with its log and samples, several at once."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from html import unescape
from math import log1p
from pathlib import Path

import pytest
from sqlalchemy import event, select
from starlette.testclient import TestClient

from cli.sheets.experiment import print_experiment
from configs.settings import Settings
from dashboard.app import create_app
from db.models import Experiment, Job, StageRun, Verdict
from db.states import ExperimentState, JobState, VerdictOutcome
from experiments.measurement.evidence import NOT_UP, UNCHECKED
from experiments.worker.claiming import run_key
from knowledge.queries.measured.experiment_detail import experiment_detail
from tests.history.campaign_history import History, a_full_history
from tests.new_database import new_database

BASE = "http://127.0.0.1"
UNSEEN = "Whether it fits into the memory of cuda:0 was not checked: no driver answers."
AGAIN = "candidate 1 did not come up beside others (crashed), and its pair is loaded again: it ended."
HOSTILE = '<script>alert(1)</script> & "it\'s"'

QUALITY = {
    "state": "held",
    "bits_per_byte_relative": {"difference": 0.002, "low": 0.001, "high": 0.004, "margin": 0.01, "count": 32},
}
PAIRS = [
    {"index": n, "validation": n > 0, "effect_log": log1p(e), "within_se_log": 0.01, "blocks": 6}
    for n, e in enumerate((-0.10, -0.11, -0.09))
]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experiments")


@pytest.fixture(scope="module")
def history(data_dir: Path) -> Iterator[History]:
    found = a_full_history(data_dir)
    hostile = found.propose({"serving.threads": 16}, claim=HOSTILE)
    found.judge(hostile, VerdictOutcome.SUPPORTED, reason=HOSTILE)
    with found.database.write() as session:
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == 1)).one()
        verdict.quality = QUALITY
        verdict.judge = {**verdict.judge, "details": {"pairs": PAIRS, "alpha": 0.05, "metric": "tpot_ms"}}
        stage = session.scalars(select(StageRun).where(StageRun.experiment_id == 1)).one()
        stage.detail = {UNCHECKED: [UNSEEN, 7], NOT_UP: [AGAIN]}
        job = Job(
            kind="test",
            experiment_id=6,
            spec={},
            seq=1,
            device_class="cpu",
            state=JobState.DONE,
            attempt=1,
            max_attempts=2,
            device="elsewhere/cpu",
            created_at=now_at(),
        )
        session.add(job)
        session.flush()
        key = run_key(found.database, job.id, job.created_at, 1)
    launches = data_dir / "jobs" / key / "launches"
    launches.mkdir(parents=True)
    (launches.parent / "log.txt").write_text(f"quick: {HOSTILE}\n\x1b[31mred\x1b[0m\n")
    (launches / "full-control-0.log").write_text("loaded\n" * 20_000)
    yield found
    found.close()


def now_at() -> datetime:
    return datetime.fromisoformat("2026-11-22T01:00:00+00:00")


@pytest.fixture(scope="module")
def client(history: History, data_dir: Path) -> TestClient:
    app = create_app(Settings(data_dir=data_dir), history.database)
    return TestClient(app, base_url=BASE, follow_redirects=False)


@contextmanager
def counted(history: History) -> Iterator[list[str]]:
    statements: list[str] = []

    def heard(_c: object, _k: object, statement: str, *_: object) -> None:
        statements.append(statement)

    engine = history.database._reader
    event.listen(engine, "before_cursor_execute", heard)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", heard)


def test_the_list_and_its_twins_say_the_same(client: TestClient) -> None:
    html = client.get("/experiments").text
    found = client.get("/experiments.json").json()
    assert [each["id"] for each in found["items"]] == [f"E-000{number}" for number in range(6, 0, -1)]
    assert all(f'href="/experiments/{each["id"]}"' in html for each in found["items"])
    rows = list(csv.DictReader(io.StringIO(client.get("/experiments.csv").text)))
    assert [row["id"] for row in rows] == [each["id"] for each in found["items"]]
    assert float(rows[-1]["effect"]) == pytest.approx(-0.10)
    assert "6 experiments, 1 runs now." in html
    assert "block 3 of 8" in html


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("?state=running", ["E-0005"]),
        ("?outcome=supported&outcome=refuted", ["E-0006", "E-0002", "E-0001"]),
        ("?lever=threads&sort=effect&order=asc&outcome=supported", ["E-0001", "E-0006"]),
        ("?q=slower", ["E-0002"]),
        ("?q=&state=&kind=&limit=2&offset=2", ["E-0004", "E-0003"]),
        ("?kind=noise", []),
        ("?offset=50", []),
    ],
)
def test_filters_search_sort_and_pages_are_in_the_address(
    client: TestClient, query: str, ids: list[str]
) -> None:
    found = client.get(f"/experiments.json{query}").json()
    assert [each["id"] for each in found["items"]] == ids
    page = client.get(f"/experiments{query}")
    assert page.status_code == 200
    assert ids or "Show all" in page.text or "Go to its beginning" in page.text


@pytest.mark.parametrize("number", range(1, 7))
def test_every_experiment_has_its_page(client: TestClient, number: int) -> None:
    page = client.get(f"/experiments/E-{number:04d}")
    assert page.status_code == 200
    found = client.get(f"/experiments/E-{number:04d}.json").json()
    assert found["id"] == f"E-{number:04d}"
    assert f"autoinfer show E-{number:04d}" in page.text
    is_judged = found["verdict"] is not None
    is_altered = found["changed_since_sealed"] is not None  # of E-0006, whose job can't be read
    assert is_altered == (number == 6)
    is_offered = is_judged and not is_altered
    assert found["reproduce_command"] == (f"autoinfer reproduce E-{number:04d}" if is_offered else None)
    instead = "which no fresh run can mend" if is_altered else "It has no verdict that could be confirmed."
    assert (found["reproduce_command"] or instead) in page.text


def test_a_verdict_leads_down_to_its_samples(client: TestClient) -> None:
    html = unescape(client.get("/experiments/E-0001").text)
    assert "Supported." in html
    assert "10.0\u202f% lower" in html
    assert "plot-cdf" in html
    assert "plot-seq" in html
    assert "Bits per byte" in html
    assert "3fa9" in html
    assert "/experiments/E-0001/samples?arm=candidate&launch=0&stage=full&metric=tpot_ms" in html
    found = client.get("/experiments/E-0001.json").json()
    assert [each["arm"] for each in found["distributions"]] == ["control", "candidate"]
    assert [each["number"] for each in found["pairs"]] == [1, 2, 3]
    assert found["pairs"][-1]["low"] == pytest.approx(-0.12)  # that of the verdict: no profile was kept
    assert found["pairs"][1]["low"] is None
    samples = client.get("/experiments/E-0001/samples.json?arm=candidate&metric=tpot_ms").json()
    assert samples["total"] == 4
    assert [each["value"] for each in samples["samples"]] == pytest.approx([9.0, 9.1, 9.2, 9.3])


def test_samples_are_streamed_as_csv_with_the_same_filters(client: TestClient) -> None:
    answer = client.get("/experiments/e-1/samples.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="E-0001-samples.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 10
    assert rows[0]["arm"] == "control"
    few = client.get("/experiments/E-0001/samples.csv?arm=control&metric=itl_ms").text
    assert len(few.splitlines()) == 2
    assert client.get("/experiments/E-0099/samples.csv").status_code == 404


def test_hostile_text_is_only_text(client: TestClient) -> None:
    paths = ("/experiments", "/experiments/E-0006", "/experiments/E-0006/log", "/compare?ids=E-0006,E-0001")
    for path in paths:
        html = client.get(path).text
        assert "<script>alert" not in html
        assert HOSTILE in unescape(html)


@pytest.mark.parametrize("sentence", [UNSEEN, AGAIN])
def test_what_a_check_could_not_look_at_and_what_was_loaded_again_is_told(
    client: TestClient, history: History, capsys: pytest.CaptureFixture[str], sentence: str
) -> None:
    assert f"Full: {sentence}" in unescape(client.get("/experiments/E-0001").text)
    assert sentence not in unescape(client.get("/experiments/E-0002").text)
    with history.database.read() as session:
        print_experiment(experiment_detail(session, 1))
    assert f"full: {sentence}" in " ".join(capsys.readouterr().out.split())


def test_the_log_is_shown_by_its_end(client: TestClient) -> None:
    html = client.get("/experiments/E-0006/log").text
    assert "\x1b" not in html
    found = client.get("/experiments/E-0006/log.json?stage=full").json()
    assert found["kept"]
    (log,) = found["logs"]
    assert log["cut"]
    assert log["bytes"] == 140_000
    assert len(log["text"]) <= found["tail_bytes"]
    assert "No worker has run it yet" in client.get("/experiments/E-0001/log").text
    assert client.get("/experiments/E-0006/log?stage=../x").status_code == 422


def test_experiments_stand_side_by_side(client: TestClient) -> None:
    found = client.get("/compare.json?ids=E-0001,E-0002&differences=1").json()
    assert [each["id"] for each in found["experiments"]] == ["E-0001", "E-0002"]
    rows = {row["name"]: row["values"] for group in found["groups"] for row in group["rows"]}
    assert rows["serving.threads"] != rows["serving.dtype"]
    assert all(row["differs"] for group in found["groups"] for row in group["rows"])
    whole = client.get("/compare.json?ids=E-0001,E-0002").json()
    lines = sum(len(group["rows"]) for group in whole["groups"])
    assert lines == len(rows) + found["left_out"]
    every = ",".join(f"E-{number:04d}" for number in range(1, 7))
    assert "6 experiments side by side" in client.get(f"/compare?ids={every}").text
    assert "Nothing to compare yet" in client.get("/compare").text
    assert client.get("/compare?id=E-0001&id=E-0002").text.count("leave out") == 2


def test_latest_leads_to_the_newest(client: TestClient) -> None:
    for path in ("/latest", "/experiments/latest"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (307, "/experiments/E-0006")
    assert client.get("/experiments/latest.json").json()["id"] == "E-0006"


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/experiments/E-0099", 404, "E-0099 does not exist; the last is E-0006."),
        ("/experiments/H-001", 404, "names a hypothesis"),
        ("/experiments/%3Cb%3E", 404, "is not a label"),
        ("/experiments?state=nonsense", 422, "state"),
        ("/experiments?limit=100000", 422, "limit"),
        ("/experiments?sort=nonsense", 422, "sort"),
        ("/experiments?campaign=C-9", 404, "C-9 does not exist"),
        ("/experiments/E-0099/log", 404, "does not exist"),
        ("/experiments/E-0001/samples?arm=x", 422, "arm"),
        ("/compare?ids=E-0001,E-0099", 404, "E-0099 does not exist"),
        ("/compare?ids=nonsense", 404, "is not a label"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_sentence(
    client: TestClient, path: str, status: int, words: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert words in unescape(answer.text)
    assert "<b>" not in answer.text.replace("<b></b>", "")


def test_an_empty_database_says_what_to_do(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    try:
        client = TestClient(create_app(Settings(data_dir=tmp_path), database), base_url=BASE)
        assert "Start a campaign" in client.get("/experiments").text
        assert client.get("/experiments/latest").status_code == 404
        assert "Nothing to compare yet" in client.get("/compare").text
    finally:
        database.close()


def test_one_pair_that_was_timed_is_not_said_to_be_untimed(tmp_path: Path) -> None:
    history = History(tmp_path)
    timed, untimed = (
        history.judge(history.propose({"serving.threads": threads}), VerdictOutcome.REFUTED, effect=effect)
        for threads, effect in ((1, (-0.1, -0.1, -0.1)), (16, None))
    )
    with history.database.write() as session:
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == timed.experiment_id)).one()
        verdict.interval_low_log = verdict.interval_high_log = None
    app = create_app(Settings(data_dir=tmp_path), history.database)
    with TestClient(app, base_url=BASE) as client:
        pages = [client.get(f"/experiments/E-{each.experiment_id:04}").text for each in (timed, untimed)]
    history.close()
    said = ("too few pairs for an interval", "nothing was timed")
    assert [[words in page for words in said] for page in pages] == [[True, False], [False, True]]


def test_more_experiments_take_no_more_statements(tmp_path: Path) -> None:
    found = []
    for count in (3, 30):
        history = History(tmp_path / str(count))
        number = history.propose({"serving.threads": 1})
        for _ in range(count):
            history.judge(number, VerdictOutcome.SUPPORTED, learn=False, reproduces=1 if _ else None)
        with history.database.write() as session:
            session.get_one(Experiment, count).state = ExperimentState.FAILED
        client = TestClient(
            create_app(Settings(data_dir=tmp_path / str(count)), history.database), base_url=BASE
        )
        ids = ",".join(f"E-{each:04d}" for each in range(1, count + 1))
        told = []
        for path in (
            "/experiments",
            "/experiments/E-0001",
            "/experiments/E-0001/samples",
            f"/compare?ids={ids}",
        ):
            with counted(history) as statements:
                assert client.get(path).status_code == 200
            told.append(len(statements))
        found.append(told)
        history.close()
    few, many = found
    assert many[1:] == few[1:]
    assert many[0] <= few[0], "few fit a page with the run that is held against the first"
    assert all(found[0])
