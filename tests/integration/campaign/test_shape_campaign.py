"""A whole campaign on a shape, with real processes and the simulated engine: latency only, everywhere."""

import asyncio
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from sqlalchemy import select
from starlette.testclient import TestClient

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.desk_reading import DeskReader
from agent.campaign.learning.outcome import campaign_outcome
from agent.campaign.queue.enqueue import enqueue
from agent.campaign.queue.held_to_today import NOT_ADMITTED, hold_to_today
from agent.campaign.queue.questions import pose_questions
from cli.main import call
from cli.sheets.finding import print_finding
from configs.errors import UsageError
from configs.settings import Settings
from dashboard.app import create_app
from dashboard.mcp.server import make_server
from dashboard.mcp.source import Source
from dashboard.page import Ground
from db.models import Artifact, Campaign, Event, Experiment, Finding, Hypothesis, Launch, Measurement, Verdict
from db.session import Database, open_database
from db.states import HypothesisState
from experiments.measurement.evidence import QUALITY_METRICS
from experiments.shapes.folder import shape_in
from experiments.shapes.marker import drafter_of_shape
from knowledge.latency_only import FASTEST, LATENCY_ONLY, UNKNOWN_QUALITY
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.claims.discovery import discovery_sentence
from knowledge.queries.facts import campaign_facts
from knowledge.queries.found.finding_detail import finding_detail
from knowledge.queries.present.now import now_view
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History
from tests.integration.campaign.sealed import propose_change
from tests.integration.mcp.calling import INFO, caller
from tests.new_database import database_url, new_database
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import drive, registered_here, simulated_spec

pytestmark = pytest.mark.timeout(600)

SPACE = """
name: simulated
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 7.0], default: 10.0, help: The answer.}
  - {name: simulated.fails, lever: luck, values: [never, load], default: never, help: Where it dies.}
  - {name: quantization.method, lever: quantization, values: [none, rtn], default: none, help: Weights.}
  - name: quantization.group_size
    lever: quantization
    values: [32, 64]
    default: 32
    when: {quantization.method: [rtn]}
    help: Groups.
  - {name: pruning.method, lever: pruning, values: [none, depth], default: none, help: Layers.}
  - name: pruning.layers_removed
    lever: pruning
    values: {from: 1, to: 4}
    default: 1
    when: {pruning.method: [depth]}
    help: How many.
  - {name: drafting.method, lever: drafting, values: [none, mtp, dflash], default: none, help: Drafts.}
  - name: drafting.draft_tokens
    lever: drafting
    values: {from: 1, to: 15}
    default: 1
    when: {drafting.method: [mtp, dflash]}
    help: How many drafts.
  - name: drafting.drafter
    lever: drafting
    values: [packaged]
    default: packaged
    when: {drafting.method: [dflash]}
    help: Which drafter.
"""


def question(name: str, **candidate: object) -> dict[str, object]:
    knobs = {key.replace("__", "."): value for key, value in candidate.items()}
    return {
        "id": name,
        "asks": f"Is {name} faster?",
        "claim": f"{name} is at least 3 % faster.",
        "candidate": knobs,
        "metric": "tpot_ms",
        "min_effect": "3%",
        "why": "To know.",
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder = tmp_path_factory.mktemp("shape-campaign")
    spec = simulated_spec(
        folder,
        SPACE,
        model="reference",
        weights="dummy",
        questions=[
            question("drafts", drafting__method="mtp"),
            question("block", drafting__method="dflash", drafting__draft_tokens=15),
            question("groups", quantization__method="rtn"),
            question("fewer", pruning__method="depth", pruning__layers_removed=2),
        ],
        **{"baseline.sweep": {"simulated.fails": ["never", "load"]}},
    )
    database = new_database(folder)
    with registered_here(folder):
        ground = survey(spec, shapes=folder / "shapes")
    with database.write() as session:
        campaign_id = create_campaign(session, spec, ground)
    drive(database, folder, campaign_id)
    yield database
    database.close()


@pytest.fixture
def waiting(tmp_path: Path) -> str:
    """The address of a database whose campaign has made-up weights and one hypothesis that waits."""
    history = History(tmp_path)
    history.propose({"serving.threads": 1}, claim="One thread is faster.", rank=1, rank_reason="first")
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
    history.close()
    return database_url(tmp_path)


def test_the_best_is_the_fastest_by_time_alone_and_says_so(finished: Database) -> None:
    with finished.read() as session:
        outcome = campaign_outcome(session, 1)
        told = session.scalars(select(Event.text).where(Event.kind == "campaign.best")).all()
        view = now_view(session, "C-1", None, datetime(2026, 1, 1, tzinfo=UTC))
        summary = summarize(replace(campaign_facts(session, 1), outcome=outcome))
        campaign = campaign_detail(session, 1)
    assert outcome["latency_only"] is True
    assert outcome["best"]["configuration"]["simulated.tpot_ms"] == 7.0
    assert outcome["best"]["note"] == FASTEST
    assert outcome["best"]["bits_per_byte"] is None
    assert told
    assert all(FASTEST in each for each in told)
    assert view.campaign is not None
    assert view.campaign.latency_only
    assert view.campaign.bits_per_byte_limit is None
    assert any(LATENCY_ONLY in line.lower() for line in summary.best.lines)
    assert campaign.latency_only
    assert campaign.limits["quality"] == UNKNOWN_QUALITY
    assert LATENCY_ONLY in campaign.model


def test_nothing_of_quality_was_measured_and_no_verdict_passes_it(finished: Database) -> None:
    with finished.read() as session:
        metrics = set(session.scalars(select(Measurement.metric).distinct()))
        stages = set(session.scalars(select(Launch.stage).distinct()))
        verdicts = session.scalars(select(Verdict).where(Verdict.launches > 0)).all()
        plans = session.scalars(select(Experiment.plan)).all()
    assert not metrics & {each.value for each in QUALITY_METRICS}
    assert not stages & {"screen", "evaluate"}
    assert verdicts
    for each in verdicts:
        assert each.quality is not None
        assert each.quality["state"] == "not known"
        assert LATENCY_ONLY in each.reason
        assert "quality held" not in each.reason
    assert all(plan["latency_only"] is True for plan in plans)


def test_what_stopping_early_saved_goes_by_the_clock_that_the_experiments_took(finished: Database) -> None:
    """Its launches load side by side, and those of the validation with the quick pair."""
    told: dict[str, tuple[float, float]] = {}
    with finished.read() as session:
        for verdict, took_s in session.execute(
            select(Verdict, Experiment.wall_s).join(Experiment, Experiment.id == Verdict.experiment_id)
        ):
            details = verdict.judge["details"]
            if details.get("spent_s") is not None:
                assert details["by_clock"] is True
                told[verdict.reason] = (details["spent_s"], took_s or 0.0)
        saved = campaign_outcome(session, 1)["stopped_early"]
        events = session.scalars(select(Event).where(Event.kind == "experiment.stopped_early")).all()
    assert told
    assert all(0 < spent_s <= took_s for spent_s, took_s in told.values())
    assert any("of measuring by the clock, of an estimated" in reason for reason in told)
    assert not any("launch time" in reason for reason in told)
    assert saved["by_clock"] is True
    assert saved["spent_s"] <= round(sum(took_s for _, took_s in told.values()), 1)
    assert events
    assert all("of measuring by the clock" in each.text for each in events)


def test_nothing_speaks_of_a_quality_that_nobody_judges(finished: Database) -> None:
    with finished.read() as session:
        refutes = session.scalars(select(Hypothesis.refuted_if)).all()
        found = campaign_detail(session, 1).discovery
    assert refutes
    assert not [each for each in refutes if "quality" in each]
    assert found is not None
    assert found.supported
    assert found.quality.checked == 0
    assert "no quality was checked" in str(discovery_sentence(found))


def test_findings_speak_of_latency_alone(finished: Database) -> None:
    with finished.read() as session:
        found = session.scalars(select(Finding)).all()
        assert found
        for each in found:
            assert each.scope["latency_only"] is True
            assert LATENCY_ONLY in each.claim
            assert UNKNOWN_QUALITY in each.claim


@pytest.mark.parametrize("asked_as", ["drafts", "block"])
def test_drafting_tells_times_of_steps_and_no_effect(finished: Database, asked_as: str) -> None:
    with finished.read() as session:
        asked = session.scalars(select(Hypothesis).where(Hypothesis.question == asked_as)).one()
        verdict = session.scalars(select(Verdict).where(Verdict.hypothesis_id == asked.id)).one()
    assert asked.state is HypothesisState.INCONCLUSIVE
    assert verdict.launches == 2
    assert verdict.effect_log is verdict.interval_low_log is verdict.interval_high_log is None
    assert "drafting breaks even at" in verdict.reason
    assert "set, not measured" in verdict.reason
    assert verdict.judge["acceptance_length"] is None
    assert verdict.quality is not None
    assert "acceptance_length" not in verdict.quality["drafting"]
    assert verdict.quality["drafting"]["step_ms"] > 0


def test_checkpoints_are_made_up_at_once(finished: Database) -> None:
    with finished.read() as session:
        stored = session.scalars(select(Artifact).where(Artifact.kind == "checkpoint")).all()
        campaign = session.scalars(select(Campaign)).one()
        model_layers = campaign.spec["found"]["model_layers"]
    by_stage = {each.inputs["stage"]: each for each in stored}
    assert set(by_stage) == {"quantize", "prune"}
    assert all("made up" in each.inputs["made_up"] for each in stored)
    assert all(each.build_s < 1 for each in stored)
    quantized = shape_in(Path(by_stage["quantize"].path))
    assert quantized is not None
    assert all(drafter_of_shape(Path(each.path)) is not None for each in stored)
    assert "W4 g32" in quantized.stored
    pruned = (Path(by_stage["prune"].path) / "config.json").read_text()
    assert f'"num_hidden_layers": {len(model_layers) - 2}' in pruned


TWO_METHODS = SPACE.replace("[none, rtn]", "[none, awq, rtn]").replace("[rtn]", "[awq, rtn]")
TAKE_THE_OTHER = (
    "Nothing is calibrated where the weights are made up: every value gives the same shape. Take "
)


def begun(folder: Path, **changes: object) -> tuple[Database, int]:
    """A campaign on a shape whose space has two methods of quantization, and that nobody drives yet."""
    spec = simulated_spec(
        folder, TWO_METHODS, model="reference", weights="dummy", **{"baseline.sweep": []}, **changes
    )
    database = new_database(folder)
    with registered_here(folder):
        ground = survey(spec, shapes=folder / "shapes")
    with database.write() as session:
        return database, create_campaign(session, spec, ground)


def test_a_user_who_asks_for_the_other_name_of_a_shape_is_told_which_to_ask_for(tmp_path: Path) -> None:
    database, campaign_id = begun(tmp_path)

    def ask(method: str) -> int:
        assigned = (f"quantization.method={method}",)
        return enqueue(database, campaign_id, claim="Fewer bits are faster.", assignments=assigned)

    with registered_here(tmp_path):
        with pytest.raises(UsageError, match=f"{TAKE_THE_OTHER}quantization.method=awq"):
            ask("rtn")
        measure_baseline(database, campaign_id)
        with pytest.raises(UsageError, match=f"{TAKE_THE_OTHER}quantization.method=awq"):
            ask("rtn")
        assert ask("awq")
    database.close()


def test_a_question_that_asks_for_the_other_name_is_infeasible_with_the_reason(tmp_path: Path) -> None:
    asked = [question("rounded", quantization__method="rtn"), question("scaled", quantization__method="awq")]
    database, campaign_id = begun(tmp_path, questions=asked)
    with registered_here(tmp_path):
        measure_baseline(database, campaign_id)
        reader = DeskReader(database, campaign_id)
        desk = reader.desk(reader.facts())
    with database.write() as session:
        pose_questions(session, desk)
    with database.read() as session:
        found = {each.question: each for each in session.scalars(select(Hypothesis))}
    assert found["rounded"].state is HypothesisState.INFEASIBLE
    assert str(found["rounded"].state_reason).startswith(TAKE_THE_OTHER)
    assert found["scaled"].state is HypothesisState.QUEUED
    database.close()


def test_what_an_older_campaign_queued_under_the_other_name_is_withdrawn_with_the_reason(
    tmp_path: Path,
) -> None:
    database, campaign_id = begun(tmp_path)
    with registered_here(tmp_path):
        measure_baseline(database, campaign_id)
        numbers = [
            propose_change(database, campaign_id, {"quantization.method": each}) for each in ("rtn", "awq")
        ]
        reader = DeskReader(database, campaign_id)
        desk = reader.desk(reader.facts())
    with database.write() as session:
        assert hold_to_today(session, desk) == 1
    with database.read() as session:
        rounded, scaled = (session.get_one(Hypothesis, each) for each in numbers)
        assert rounded.state is HypothesisState.WITHDRAWN
        assert rounded.state_reason == (
            f"{NOT_ADMITTED}: quantization.method=rtn: {TAKE_THE_OTHER}quantization.method=awq."
        )
        assert scaled.state is HypothesisState.QUEUED
    database.close()


def test_the_agent_proposes_neither_drafts_nor_fewer_layers(finished: Database) -> None:
    with finished.read() as session:
        proposed = session.scalars(select(Hypothesis).where(Hypothesis.question.is_(None))).all()
    assert proposed
    assert not [each.lever for each in proposed if "drafting" in each.lever or "pruning" in each.lever]


def test_a_finding_is_printed_with_what_it_speaks_of(
    finished: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    with finished.read() as session:
        print_finding(finding_detail(session, 1))
    assert "speaks of" in capsys.readouterr().out


def test_lists_on_the_terminal_say_it_in_every_row(
    finished: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    with finished.read() as session:
        address = session.get_bind().engine.url.render_as_string(hide_password=False)
    for command in ("experiments", "hypotheses"):
        assert call([command, "--db", address]) == 0
        told = capsys.readouterr().out
        rows = re.findall(r"^(?:id)? *[EH]-\d+(?: |$)", told, re.MULTILINE)
        assert len(rows) >= 7, told
        assert told.count("latency only") == len(rows), told


def test_one_hypothesis_and_the_queue_on_the_terminal_say_it(
    waiting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, shown in (("show H-001", "H-001  queued, latency only"), ("queue", "latency only  H-001")):
        assert call([*command.split(), "--db", waiting]) == 0
        assert shown in capsys.readouterr().out


def test_answers_of_the_graph_say_it_of_each_test_that_they_name(
    finished: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    with finished.read() as session:
        address = session.get_bind().engine.url.render_as_string(hide_password=False)
    assert call(["graph", "known", "simulated.tpot_ms", "--db", address]) == 0
    told = re.findall(r"^ +(E-\d+.*)", capsys.readouterr().out, re.MULTILINE)
    assert told
    assert not [each for each in told if "latency only" not in each]
    assert call(["graph", "led-to", "E-0002", "--db", address]) == 0
    sentence = capsys.readouterr().out.replace("\n", " ")
    assert re.search(r"E-0002 (is|are) latency only|E-0002 and .* are latency only", sentence), sentence


def test_an_answer_of_the_graph_says_it_on_its_page(waiting: str, tmp_path: Path) -> None:
    database = open_database(waiting)
    client = TestClient(create_app(Settings(data_dir=tmp_path), database), base_url="http://127.0.0.1")
    asked = client.get("/knowledge/ask?question=known&about=serving.threads").text
    database.close()
    assert '<span class="why nb">latency only</span>' in asked


def test_the_queue_says_it_on_its_page_and_of_each_row(waiting: str, tmp_path: Path) -> None:
    database = open_database(waiting)
    client = TestClient(create_app(Settings(data_dir=tmp_path), database), base_url="http://127.0.0.1")
    page = client.get("/queue").text
    assert "Latency only: the weights are made up" in page[page.index("<main") :]
    assert [each["latency_only"] for each in client.get("/queue.json").json()["board"]["rows"]["items"]] == [
        True
    ]
    rows = list(csv.DictReader(io.StringIO(client.get("/queue.csv").text)))
    assert [row["latency_only"] for row in rows] == ["True"]
    database.close()


def test_each_tool_of_a_coding_agent_that_tells_a_time_says_it(
    finished: Database, waiting: str, tmp_path: Path
) -> None:
    def asked(address: str, **tools: dict[str, str]) -> dict[str, Any]:
        async def answers() -> dict[str, Any]:
            source = Source(address, 15.0)
            server = make_server(source, Ground(Settings(data_dir=tmp_path)), ())
            async with Client(server, client_info=INFO) as client:
                call_tool = caller(client)
                found = {name: await call_tool(name, **arguments) for name, arguments in tools.items()}
            source.close()
            return {name: each.structured for name, each in found.items()}

        return asyncio.run(answers())

    with finished.read() as session:
        address = session.get_bind().engine.url.render_as_string(hide_password=False)
    told = asked(
        address,
        hypotheses={},
        experiments={},
        why={"hypothesis": "H-004"},
        experiment={"experiment": "E-0006"},
        samples={"experiment": "E-0006"},
        pareto={},
    )
    told |= asked(waiting, queue={})
    for name, answer in told.items():
        rows = answer["items"] if name in ("hypotheses", "experiments", "queue") else [answer]
        assert rows, name
        assert {row["latency_only"] for row in rows} == {True}, name
    assert told["pareto"]["front"] == []


def test_pages_their_json_and_csv_say_latency_only(finished: Database, tmp_path: Path) -> None:
    client = TestClient(create_app(Settings(data_dir=tmp_path), finished), base_url="http://127.0.0.1")
    now = client.get("/?campaign=C-1").text
    assert "The one thing to deploy" not in now
    assert "The fastest by time alone" in now
    assert "there is nothing to deploy yet" in now
    assert client.get("/campaigns/C-1.json").json()["campaign"]["latency_only"] is True
    for address in ("/campaigns/C-1", "/campaigns", "/experiments/E-0006", "/knowledge/F-001"):
        assert LATENCY_ONLY in client.get(address).text.lower(), address
    listed = ("/experiments", "/hypotheses", "/predictions", "/compare?id=E-0002&id=E-0006")
    for address in (*listed, "/experiments/E-0006/samples"):
        text = client.get(address).text
        assert "latency only" in text[text.index("<main") :], f"{address}, beside what it shows"
    assert "speed-up by time alone, latency only" in now
    assert "times as fast as the baseline by time alone (latency only)" in now
    assert "Latency only: the weights are made up" in client.get("/hypotheses/H-004").text
    assert {each["latency_only"] for each in client.get("/hypotheses.json").json()["items"]} == {True}
    rows = list(csv.DictReader(io.StringIO(client.get("/experiments.csv").text)))
    assert {row["latency_only"] for row in rows} == {"True"}
    pareto = client.get("/pareto.json?campaign=C-1").json()
    assert (pareto["latency_only"], pareto["front"], pareto["points"]) == (True, [], [])
    pareto_page = client.get("/pareto?campaign=C-1").text
    assert "so there is no front" in pareto_page[pareto_page.index("<main") :]
    samples = client.get("/experiments/E-0006/samples.csv").headers["content-disposition"]
    assert "latency-only" in samples
