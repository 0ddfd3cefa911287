"""Starting a campaign: what is looked at before a row is written, and what is written."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import typer
from sqlalchemy import delete, func, select
from typer.testing import CliRunner

from agent.campaign.beginning.create import budget_of_interrupted, create_campaign, interrupted
from agent.campaign.beginning.survey import survey
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.loop import CampaignLoop
from agent.campaign.queue.dispatch import dispatch_baseline
from agent.campaign.resources.allowance import extend
from agent.campaign.resources.waiting import nobody_takes
from agent.ground.legal import legal_here
from agent.plan.ground import Ground
from cli.executors.worker_command import worker_command
from cli.main import app
from configs.campaign import load_campaign
from configs.errors import AutoinferError, UsageError
from configs.settings import Settings
from db import events, queue, workers
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Job, Worker
from db.session import Database, open_database
from db.states import CampaignState, ExperimentState, JobState, WorkerState
from knowledge.acts.steering import stop_campaign
from tests.new_database import database_url
from tests.unit.agent.test_questions import database, plain_checkpoint

__all__ = ["database"]  # the fixture


def job_of_the_baseline(database: Database, campaign_id: int) -> dict[str, object]:
    with database.write() as session:
        facts = read_facts(session, campaign_id)
        dispatch_baseline(session, facts, legal_here(facts.spec, facts.checkpoint, facts.cores).space)
        return dict(session.scalars(select(Job.spec)).one())


@pytest.mark.parametrize("typed", ["own", "~/own", "../{name}/own"])
def test_a_model_named_from_here_is_dispatched_by_its_absolute_folder(
    typed: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_checkpoint(tmp_path / "own")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    spec = load_campaign("default", {"model": typed.format(name=tmp_path.name)})
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
    monkeypatch.chdir("/")
    assert job_of_the_baseline(database, campaign_id)["model"] == str((tmp_path / "own").resolve())


def test_the_packaged_model_is_dispatched_by_its_name(database: Database) -> None:
    spec = load_campaign("default")
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
    assert job_of_the_baseline(database, campaign_id)["model"] == "reference"


def test_an_interrupted_campaign_is_found_from_another_folder(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_checkpoint(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    spec = load_campaign("default", {"model": "own"})
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
    monkeypatch.chdir("/")
    again = load_campaign("default", {"model": str(tmp_path / "own")})
    with database.write() as session:
        assert interrupted(session, again, survey(again)) == campaign_id


def test_a_campaign_that_got_more_time_is_found_by_the_command_that_started_it(database: Database) -> None:
    spec = load_campaign("default", {"budget": "10m"})
    ground = survey(spec)
    with database.write() as session:
        campaign_id = create_campaign(session, spec, ground)
        session.get_one(Campaign, campaign_id).budget = {"wall_s": 600.0, "spent_s": 500.0}
        extend(session, campaign_id, 1800.0)
        assert interrupted(session, spec, ground) == campaign_id
        assert read_facts(session, campaign_id).spec.budget.wall_s == 2300.0


def test_the_checkpoint_is_not_read_while_others_wait_for_the_database(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_campaign("default")
    with database.write() as session:
        create_campaign(session, spec, survey(spec))
    other = open_database(database_url(tmp_path), busy_timeout_s=0.01)

    def look(*_: object, **__: object) -> Ground:
        with other.write():
            raise UsageError("The checkpoint is gone.")

    monkeypatch.setattr("agent.campaign.beginning.survey.survey", look)
    resume = [
        "--db",
        database_url(tmp_path),
        "--data-dir",
        str(tmp_path),
        "run",
        "--resume",
        "C-1",
        "--no-worker",
    ]
    result = CliRunner().invoke(app, resume)
    other.close()
    assert isinstance(result.exception, UsageError)
    assert result.exception.message == "The checkpoint is gone."


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--min-effect", "1%"], "--min-effect"),
        (["--seed", "3"], "--seed"),
        (["--target", "cpu"], "--target"),
        (["--new"], "--new"),
        (["levers"], "CAMPAIGN"),
    ],
)
def test_a_campaign_that_goes_on_is_not_given_other_terms(
    database: Database, tmp_path: Path, given: list[str], named: str
) -> None:
    with database.write() as session:
        create_campaign(session, load_campaign("default"), survey(load_campaign("default")))
    words = ["--db", database_url(tmp_path), "run", *given, "--resume", "C-1", "--no-worker"]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, UsageError)
    assert (
        result.exception.message == f"C-1 goes on as it was begun, so {named} has no meaning beside --resume."
    )


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("engine", "vllm-next", r"mine\.yaml: engine: There is no engine 'vllm-next'"),
        ("executor", "moon", r"mine\.yaml: executor: There is no executor 'moon'"),
        ("judge", "oracle", r"mine\.yaml: judge: There is no judge 'oracle'"),
        ("proposers", ["rules", "luck"], r"mine\.yaml: proposers\.1: There is no proposer 'luck'"),
        (
            "baseline.sweep",
            ["serving.dytpe"],
            r"mine\.yaml: baseline\.sweep: There is no knob 'serving.dytpe'",
        ),
        (
            "baseline.sweep",
            ["pruning.layers_removed"],
            r"baseline\.sweep: pruning\.layers_removed is set, but it only means something when",
        ),
        (
            "plan.workload.concurrency",
            8,
            r"mine\.yaml: plan\.workload\.concurrency is 8, and the engine reference serves at most 1",
        ),
    ],
)
def test_what_a_campaign_names_is_looked_up_before_it_begins(field: str, value: object, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        survey(load_campaign("default", {field: value}), "mine.yaml")
    assert caught.value.hint


def test_the_worker_of_a_campaign_runs_jobs_by_its_executor(tmp_path: Path) -> None:
    context = typer.Context(typer.main.get_command(app))
    command = worker_command(context, Settings(data_dir=tmp_path), "cpu", "mine")
    assert command[command.index("--executor") + 1] == "mine"


def cut_short(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_short, "is cut short or damaged"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"nothing"), "no readable safetensors"),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"has no tokenizer\.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "can't be read as a tokenizer"),
        (
            lambda folder: (folder / "config.json").write_text("[]"),
            r"config\.json does not hold a JSON object",
        ),
    ],
)
def test_a_broken_checkpoint_is_refused_before_the_campaign_begins(
    damage: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    damage(Path(plain_checkpoint(tmp_path / "own")))
    with pytest.raises(UsageError, match=said):
        survey(load_campaign("default", {"model": str(tmp_path / "own")}))


@pytest.mark.parametrize(
    ("kind", "again"), [("error", True), ("lost", True), ("checkpoint", False), ("out_of_memory", False)]
)
def test_a_baseline_is_tried_again_only_where_its_job_broke(
    kind: str, again: bool, database: Database
) -> None:
    spec = load_campaign("default", {"budget": "1h"})
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))

    def fail_the_job() -> None:
        with database.write() as session:
            for job in session.scalars(select(Job).where(Job.state == JobState.QUEUED)):
                experiment = session.get_one(Experiment, job.experiment_id)
                experiment.state, experiment.failure_kind = ExperimentState.FAILED, kind
                experiment.failure = "It did not come up."
                session.execute(delete(Job).where(Job.id == job.id))

    loop = CampaignLoop(database, campaign_id, wait=lambda _: None, announce=fail_the_job)
    with pytest.raises(AutoinferError, match="could not be measured: It did not come up"):
        loop.run()
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Experiment)) == 1 + again


def test_without_a_worker_a_campaign_says_so_and_ends_with_its_budget(database: Database) -> None:
    spec = load_campaign("default", {"budget": "100s"})
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
    moments = count(0.0, 10.0)
    loop = CampaignLoop(database, campaign_id, wait=lambda _: None, clock=lambda: next(moments))
    reason = loop.run()
    assert reason == "the budget of 1 min 40 s is spent and the baseline not measured"
    with database.read() as session:
        assert session.scalars(select(Job.state)).all() == [JobState.CANCELLED]
        assert session.scalars(select(Experiment.state)).all() == [ExperimentState.CANCELLED]
        why = session.scalars(select(Job.error)).one()
        told = events.read(session, kinds=[EventKind.WORKER_MISSING])
    assert why == "The campaign had spent its budget before a worker took it."
    assert [each.text for each in told] == [
        "No worker takes jobs for cpu; start one: autoinfer worker --device cpu"
    ]


def test_a_baseline_that_ran_is_not_called_one_that_no_worker_took(database: Database) -> None:
    spec = load_campaign("default", {"budget": "100s"})
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
    moments, claimed = count(0.0, 10.0), []

    def work() -> None:
        with database.write() as session:
            if not claimed:
                claimed.append(queue.claim(session, "w", "here/cpu", ("cpu",), 3600.0))
            elif (why := queue.cancel_reason(session, claimed[0])) is not None:
                session.get_one(Experiment, 1).state = ExperimentState.CANCELLED
                queue.finish(session, claimed[0], JobState.CANCELLED, why)

    CampaignLoop(database, campaign_id, wait=lambda _: None, announce=work, clock=lambda: next(moments)).run()
    with database.read() as session:
        assert session.scalars(select(Job.error)).all() == [
            "The campaign had spent its budget before it was done."
        ]


def test_a_campaign_without_a_worker_ends_when_it_is_asked_to(database: Database) -> None:
    spec = load_campaign("default", {"budget": "1h"})
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
    turns = count()

    def stop_once() -> None:
        assert next(turns) < 100, "it never ends"
        with database.write() as session:
            if session.get_one(Campaign, campaign_id).state is CampaignState.RUNNING:
                stop_campaign(session, campaign_id)

    loop = CampaignLoop(database, campaign_id, wait=lambda _: None, announce=stop_once)
    assert loop.run() == "stopped by the user"
    with database.read() as session:
        assert session.scalars(select(Job.state)).all() == [JobState.CANCELLED]


@pytest.mark.parametrize(("device", "missing"), [("cpu", None), ("cuda:0", "cpu")])
def test_only_a_live_worker_for_the_device_is_one(
    device: str, missing: str | None, database: Database
) -> None:
    spec = load_campaign("default")
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
        assert nobody_takes(session, campaign_id) is None, "nothing waits yet"
        workers.register(session, "someone", "desk", 1, device)
    job_of_the_baseline(database, campaign_id)
    with database.read() as session:
        assert nobody_takes(session, campaign_id) == missing
    with database.write() as session:
        session.scalars(select(Worker)).one().state = WorkerState.STOPPED
    with database.read() as session:
        assert nobody_takes(session, campaign_id) == "cpu"


def test_what_was_begun_with_a_budget_of_its_plan_is_found_without_it(database: Database) -> None:
    begun = load_campaign("default", {"budget": "4h"})
    again = load_campaign("default")
    ground = survey(again)
    with database.write() as session:
        assert budget_of_interrupted(session, again, ground) is None
        campaign_id = create_campaign(session, begun, ground)
        assert interrupted(session, again, ground) is None
        assert interrupted(session, again, ground, of_any_budget=True) == campaign_id
        assert budget_of_interrupted(session, again, ground) == begun.budget
        other_seed = load_campaign("default", {"seed": 99})
        assert budget_of_interrupted(session, other_seed, ground) is None
