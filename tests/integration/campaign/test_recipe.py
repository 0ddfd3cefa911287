"""A recipe of a campaign's best, and its check: the real judge, real processes of the simulated engine."""

import json
import os
import shutil
import subprocess
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import delete, select, update

from agent.campaign.confirm import ended
from agent.campaign.outcome import note_best
from agent.campaign.reading_facts import read_facts
from agent.recipe.checking import Checked, Holding, begin_check, check, conclude_check
from agent.recipe.folder import BUILD, CHECK, README, RECIPE, REQUIREMENTS, SERVE, files_of
from agent.recipe.making import recipe_of
from agent.recipe.planning import CHECK_S, ENOUGH, LEAST_PAIRS, short_plan
from agent.recipe.recipe import Build, Recipe, read_recipe
from cli.main import call
from configs.errors import EXIT_FAILURE, EXIT_OPEN, EXIT_USAGE, UsageError
from configs.quantities import format_duration
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import (
    Campaign,
    Event,
    Experiment,
    Finding,
    FindingEvidence,
    NoiseLaunch,
    StageRun,
    Verdict,
)
from db.session import Database, open_database
from db.states import ExperimentKind, FindingStatus, VerdictOutcome
from experiments.engines.serve_command import ServeCommand
from experiments.measurement.evidence import Stage
from experiments.measurement.plan import StoppingPlan
from experiments.own_processes import begun_beside, children
from experiments.recording import load_test_spec
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.keeping import update_findings
from knowledge.findings.staleness import StaleCause
from knowledge.queries.finding_detail import finding_detail
from knowledge.queries.verification import verification
from knowledge.report.view import MachineView
from tests.integration.campaign.test_promoting import ORIGINAL, measured, run
from tests.new_database import FILE_NAME, database_url
from tests.simulated.campaign import registered_here

GAIN = log(0.7)
"""What the simulated engine's answer gains: 7 ms a token in place of 10."""


@dataclass(frozen=True)
class Deployed:
    """A campaign whose best was tested against the baseline, and its recipe."""

    database: Database
    folder: Path
    recipe: Recipe

    def check(self, recipe: Recipe, within_s: float = CHECK_S) -> Checked:
        return check(self.database, recipe, lambda: run(self.database, self.folder, "cpu"), within_s=within_s)

    def findings(self) -> list[tuple[FindingStatus, str | None]]:
        with self.database.read() as session:
            rows = session.execute(select(Finding.status, Finding.stale_cause).order_by(Finding.id))
            return [(status, cause) for status, cause in rows]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recipe]:
    """Measured once; tests that write work on copies of its database."""
    folder = tmp_path_factory.mktemp("first")
    made = measured(folder)
    with made.database.write() as session:
        note_best(session, 1)
    with registered_here(folder), made.database.read() as session:
        recipe = recipe_of(session, 1, folder / "cache")
    made.database.close()
    return folder, recipe


@pytest.fixture
def deployed(first: tuple[Path, Recipe], tmp_path: Path) -> Iterator[Deployed]:
    folder, recipe = first
    shutil.copy(folder / FILE_NAME, tmp_path / FILE_NAME)
    database = open_database(database_url(tmp_path))
    yield Deployed(database, folder, recipe)
    database.close()


def promising(recipe: Recipe, effect: float) -> Recipe:
    """The recipe as if its file promised another effect, within a hundredth."""
    promise = recipe.promise.model_copy(
        update={"effect_log": effect, "low_log": effect - 0.01, "high_log": effect + 0.01}
    )
    return recipe.model_copy(update={"promise": promise})


def remembering(database: Database, effect: float) -> None:
    """Let the database say that the first test had found another effect, within a hundredth."""
    with database.write() as session:
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        verdict.effect_log = effect
        verdict.interval_low_log, verdict.interval_high_log = effect - 0.01, effect + 0.01


def test_a_recipe_promises_what_its_own_test_measured_and_says_how_it_is_served(
    first: tuple[Path, Recipe],
) -> None:
    _, recipe = first
    assert (recipe.campaign, recipe.experiment, recipe.rests_on) == ("C-1", "E-0002", ("E-0002",))
    assert recipe.changed == {"simulated.tpot_ms": 7.0}
    assert recipe.promise.effect_log == pytest.approx(GAIN, abs=0.02)
    assert not recipe.promise.chained
    files = files_of(recipe)
    assert json.loads(files[RECIPE])["seal"] == recipe.seal
    model = recipe.serve.words[1]
    shell = recipe.serve.shell.replace(model, '"$RECIPE_MODEL"')
    assert files[SERVE].endswith(f"{shell}\n")
    assert f"The model is taken from `{model}`; from elsewhere" in files[README]
    assert BUILD not in files, "nothing is built for it"
    assert read_recipe(files[RECIPE], "recipe.json") == recipe


def test_the_readme_names_the_limit_of_a_check_and_every_exit_code_of_it(first: tuple[Path, Recipe]) -> None:
    told = " ".join(files_of(first[1])[README].split())
    assert f"It measures for {format_duration(CHECK_S)} at most (`--within 15m` gives it longer)" in told
    for code, means in (
        (0, "the gain still holds"),
        (EXIT_FAILURE, "it does not, or the judge leaves it open"),
        (EXIT_USAGE, "there was nothing to check"),
        (EXIT_OPEN, "its time was up before that was settled"),
    ):
        assert f"- `{code}` where {means}" in told


def test_a_name_with_the_end_of_a_line_in_it_runs_nothing(first: tuple[Path, Recipe], tmp_path: Path) -> None:
    recipe = first[1]
    words = ("true", "--model", "a 'b'\ntouch it; $(touch it)")
    named = recipe.model_copy(
        update={
            "model": words[2],
            "serve": recipe.serve.model_copy(update={"words": words, "shell": ServeCommand(words, "").shell}),
        }
    )
    (tmp_path / SERVE).write_text(files_of(named)[SERVE], encoding="utf-8")
    subprocess.run(["sh", SERVE], cwd=tmp_path, check=True)
    assert [each.name for each in tmp_path.iterdir()] == [SERVE]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search path with a Python that has no packages, and nothing of autoinfer."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return f"{folder / 'bin'}:/usr/bin:/bin"


OWN = ("python", "-m", "experiments.engines.reference.server")
"""What serves with the reference engine."""


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        (SERVE, OWN, "autoinfer is not installed for the command python: README.md says how it is."),
        (SERVE, ("vllm", "serve"), "vllm is not installed here: README.md says how it is."),
        (CHECK, OWN, "autoinfer is not installed here: README.md says how it is."),
        (BUILD, OWN, "autoinfer is not installed here: README.md says how it is."),
    ],
)
def test_a_script_whose_environment_lacks_what_it_needs_says_so_in_a_sentence(
    first: tuple[Path, Recipe], tmp_path: Path, bare: str, script: str, words: tuple[str, ...], said: str
) -> None:
    built = Build(digest="a" * 64, kind="checkpoint", inputs={}, tool_versions={}, bytes=1)
    serve = first[1].serve.model_copy(update={"words": words, "shell": ServeCommand(words, "").shell})
    recipe = first[1].model_copy(update={"serve": serve, "builds": (built,)})
    (tmp_path / script).write_text(files_of(recipe)[script], encoding="utf-8")
    line = ["/bin/sh", script]
    ran = subprocess.run(line, cwd=tmp_path, env={"PATH": bare}, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (EXIT_USAGE, "", f"{said}\n")


def test_a_server_whose_checkpoint_is_not_built_says_how_it_is(
    first: tuple[Path, Recipe], tmp_path: Path
) -> None:
    built = Build(digest="a" * 64, kind="checkpoint", inputs={}, tool_versions={}, bytes=1)
    serve = first[1].serve.model_copy(update={"words": ("true",), "shell": "true"})
    recipe = first[1].model_copy(update={"serve": serve, "builds": (built,)})
    (tmp_path / SERVE).write_text(files_of(recipe)[SERVE], encoding="utf-8")
    line = ["/bin/sh", SERVE]
    ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (
        EXIT_USAGE,
        "The checkpoint is not here yet: build it with ./build.sh\n",
    )
    (tmp_path / "checkpoint").mkdir()
    assert subprocess.run(line, cwd=tmp_path, check=False).returncode == 0


@pytest.mark.parametrize("on_its_line", [False, True], ids=["as a word", "in its first line"])
def test_a_server_says_that_a_model_of_the_machine_that_measured_is_not_on_this_one(
    first: tuple[Path, Recipe], tmp_path: Path, on_its_line: bool
) -> None:
    model = tmp_path / "a 'model'"
    words = ("true",) if on_its_line else ("true", str(model))
    line = json.dumps({"checkpoint": str(model), "threads": 2}) if on_its_line else None
    told = {"words": words, "first_line": line, "shell": ServeCommand(words, "", line).shell}
    recipe = first[1].model_copy(update={"serve": first[1].serve.model_copy(update=told)})
    (tmp_path / SERVE).write_text(files_of(recipe)[SERVE], encoding="utf-8")
    script = ["/bin/sh", SERVE]
    ran = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    copy = (
        "the place of your copy in serve.sh." if on_its_line else "your copy: RECIPE_MODEL=FOLDER ./serve.sh"
    )
    said = f"{model} is not here: copy it there from where this was measured, or name {copy}\n"
    assert (ran.returncode, ran.stderr) == (EXIT_USAGE, said)
    model.mkdir()
    assert subprocess.run(script, cwd=tmp_path, check=False).returncode == 0


def test_a_server_takes_the_model_from_where_a_variable_says(
    first: tuple[Path, Recipe], tmp_path: Path
) -> None:
    copy = tmp_path / "my 'copy'"
    words = ("printf", r"%s\n", "/nowhere/a 'model'", "--served-model-name", "a model")
    told = {"words": words, "first_line": None, "environment": {}, "shell": ServeCommand(words, "").shell}
    recipe = first[1].model_copy(update={"serve": first[1].serve.model_copy(update=told)})
    (tmp_path / SERVE).write_text(files_of(recipe)[SERVE], encoding="utf-8")
    script, told_of = ["/bin/sh", SERVE], {**os.environ, "RECIPE_MODEL": str(copy)}
    ran = subprocess.run(script, cwd=tmp_path, env=told_of, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (EXIT_USAGE, f"{copy} is not here")
    copy.mkdir()
    ran = subprocess.run(script, cwd=tmp_path, env=told_of, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, [str(copy), *words[3:]])


@pytest.mark.parametrize("revision", ["c" * 40, None])
def test_autoinfer_is_named_with_its_version_and_revision_and_the_one_command_that_installs_it(
    first: tuple[Path, Recipe], revision: str | None
) -> None:
    recipe = first[1].model_copy(
        update={
            "machine": {"git_revision": revision},
            "versions": {"autoinfer": "0.7", "torch": "2.13.0+cpu"},
        }
    )
    files = files_of(recipe)
    at = "" if revision is None else f"@{revision}"
    assert f"    pip install 'git+file:///PATH/TO/autoinfer{at}'\n" in files[README]
    which = "version 0.7" if revision is None else f"version 0.7, revision {revision}"
    assert f"What measured was {which}." in files[README]
    comments = ["# autoinfer itself comes from its repository: see README.md", f"# {which}"]
    assert files[REQUIREMENTS].splitlines() == [*comments, "torch==2.13.0"]


def test_versions_are_those_of_the_test_that_made_the_best_and_not_of_what_ran_last(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(torch: str, *experiments: str) -> MachineView:
        told = dict.fromkeys(MachineView.model_fields) | {"launches": 2, "packages": {"torch": torch}}
        return MachineView.model_validate(told | {"experiments": experiments})

    both = (ran("2.13.0", "E-0001", "E-0002"), ran("2.14.0", "E-0001", "E-0003"))
    monkeypatch.setattr("agent.recipe.making.machines", lambda *_: both)
    with registered_here(deployed.folder), deployed.database.read() as session:
        assert recipe_of(session, 1, deployed.folder / "cache").versions == {"torch": "2.13.0"}


def test_a_check_that_holds_is_judged_at_what_was_promised_and_confirms_its_findings(
    deployed: Deployed,
) -> None:
    done = deployed.check(deployed.recipe)
    assert (done.holding, done.outcome) == (Holding.HOLDS, VerdictOutcome.SUPPORTED)
    assert done.reason.startswith("The recipe of E-0002 holds: ")
    assert (done.confirmed, done.stale) == (("F-001",), ())
    with deployed.database.read() as session:
        fresh = session.get_one(Experiment, ORIGINAL + 1)
        assert (fresh.kind, fresh.reproduces_experiment_id) == (ExperimentKind.REPRODUCE, ORIGINAL)
        assert fresh.plan["min_effect"] == pytest.approx(deployed.recipe.promise.least_effect, abs=1e-3)
        told = session.scalars(select(Event).where(Event.kind == EventKind.RECIPE_CHECKED.value)).one()
    assert told.data is not None
    assert told.data["holding"] == "holds"
    assert deployed.findings() == [(FindingStatus.HOLDS, None)]


def test_a_recipe_whose_gain_is_not_there_any_more_fails_and_its_findings_are_stale_until_one_passes(
    deployed: Deployed,
) -> None:
    remembering(deployed.database, log(0.4))
    done = deployed.check(deployed.recipe)
    assert (done.holding, done.outcome) == (Holding.FAILS, VerdictOutcome.REFUTED)
    assert (done.confirmed, done.stale) == ((), ("F-001",))
    assert deployed.findings() == [(FindingStatus.STALE, StaleCause.CHECK.value)]
    with deployed.database.read() as session:
        reason = session.get_one(Finding, 1).status_reason
    assert reason is not None
    assert "does not hold any more" in reason

    remembering(deployed.database, GAIN)
    again = deployed.check(deployed.recipe)
    assert again.holding is Holding.HOLDS
    assert FindingStatus.STALE not in [status for status, _ in deployed.findings()[-1:]]
    assert again.confirmed


def test_what_its_verdicts_disagree_about_is_tested_once_more_by_the_test_and_not_by_a_recipe_s_check(
    deployed: Deployed,
) -> None:
    assert deployed.check(deployed.recipe).experiment == "E-0003"
    with deployed.database.write() as session:
        told = json.loads(export_verdicts(session, "lab").model_dump_json())
        del told["verdicts"][1:]
        told["verdicts"][0] |= {"outcome": "refuted", "effect_log": 0.0, "low_log": -0.01, "high_log": 0.01}
        import_verdicts(session, read_file(json.dumps(told), "lab.json"))
        finding = finding_detail(session, 1)
    assert [each.named for each in finding.evidence] == ["E-0002", "E-0003", "E-0002 of lab"]
    assert [(each.other, each.command) for each in finding.disputes] == [(None, "autoinfer reproduce E-0002")]


@pytest.mark.parametrize("gain", [log(0.4), GAIN], ids=["fails", "holds"])
def test_after_an_upgrade_what_the_recipe_rests_on_no_longer_holds_where_the_check_fails(
    deployed: Deployed, gain: float
) -> None:
    """The simulated engine tells no versions, so they are written where a launch's would stand."""

    def upgraded() -> None:
        run(deployed.database, deployed.folder, "cpu")
        with deployed.database.write() as session:
            session.get_one(Experiment, ORIGINAL + 1).versions = {"engine": "2.0"}

    with deployed.database.write() as session:
        session.get_one(Experiment, ORIGINAL).versions = {"engine": "1.0"}
        session.execute(delete(FindingEvidence))
        session.execute(delete(Finding))
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        (made,) = update_findings(session, verdict.id)
        before = format_label(Noun.FINDING, made.finding_id)
    remembering(deployed.database, gain)
    done = check(deployed.database, deployed.recipe, upgraded)
    with deployed.database.read() as session:
        finding = session.get_one(Finding, made.finding_id)
        assert finding.status is FindingStatus.SUPERSEDED
        newer = format_label(Noun.FINDING, finding.superseded_by_id or 0)
    if gain == GAIN:
        assert (done.holding, done.stale, done.confirmed) == (Holding.HOLDS, (), (newer,))
        assert finding.status_reason == f"{newer} says it on newer versions."
    else:
        assert (done.holding, done.stale, done.confirmed) == (Holding.FAILS, (before,), ())
        assert finding.status_reason == f"{newer} says otherwise on newer versions."


def test_a_check_whose_time_is_up_says_so_and_marks_nothing_by_other_versions_neither(
    deployed: Deployed,
) -> None:
    def upgraded() -> None:
        run(deployed.database, deployed.folder, "cpu")
        with deployed.database.write() as session:
            session.get_one(Experiment, ORIGINAL + 1).versions = {"engine": "2.0"}

    with deployed.database.write() as session:
        session.get_one(Experiment, ORIGINAL).versions = {"engine": "1.0"}
        session.execute(delete(FindingEvidence))
        session.execute(delete(Finding))
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        update_findings(session, verdict.id)
    before, others = deployed.findings(), children()
    done = check(deployed.database, deployed.recipe, upgraded, within_s=0.01)
    assert not begun_beside(others)
    assert (done.holding, done.outcome) == (Holding.UNSETTLED, VerdictOutcome.INCONCLUSIVE)
    assert done.reason.startswith("Whether the recipe of E-0002 holds was not settled in 0.01s: nothing was")
    assert (done.confirmed, done.stale, done.within_s) == ((), (), 0.01)
    assert deployed.findings() == before
    with deployed.database.read() as session:
        told = session.scalars(select(Event).where(Event.kind == EventKind.RECIPE_CHECKED.value)).one()
        fresh = session.get_one(Experiment, ORIGINAL + 1)
        assert fresh.failure is None
        assert load_test_spec(session, fresh.id).within_s == 0.01
    assert told.data is not None
    assert told.data["holding"] == "unsettled"
    with deployed.database.write() as session:
        session.get_one(Experiment, ORIGINAL + 1).versions = {"engine": "1.0"}
    assert deployed.check(deployed.recipe).holding is Holding.HOLDS


@pytest.mark.parametrize(
    ("within", "code", "said"),
    [
        ("0.01s", 3, "Nothing is marked as stale. Give it longer: autoinfer check"),
        ("5m", 0, "Confirmed: F-001"),
    ],
)
def test_the_command_tells_what_was_not_settled_in_its_time_from_what_failed_by_its_exit_code(
    deployed: Deployed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    within: str,
    code: int,
    said: str,
) -> None:
    """With a worker in this process in place of one of its own."""

    def by_a_worker_here(database: Database, *_: object) -> None:
        run(database, deployed.folder, "cpu")

    monkeypatch.setattr("agent.recipe.checking.until_ended", by_a_worker_here)
    (tmp_path / RECIPE).write_text(files_of(deployed.recipe)[RECIPE])
    line = ["--db", database_url(tmp_path), "check", str(tmp_path), "--no-worker", "--within", within]
    assert call(line) == code
    told = " ".join(capsys.readouterr().out.split())
    assert said in told
    assert f"It ends {within} after its checkpoints are there at the latest" in told


def test_what_a_file_says_that_it_promises_and_rests_on_is_not_believed(deployed: Deployed) -> None:
    remembering(deployed.database, log(0.4))
    modest = promising(deployed.recipe, log(0.99)).model_copy(update={"rests_on": ()})
    done = deployed.check(modest)
    assert done.holding is Holding.FAILS, "the database promised more than the file admits"
    assert done.stale == ("F-001",)
    assert done.otherwise is not None
    assert "the file promises −1.0 %" in done.otherwise
    assert "the database −60.0 %" in done.otherwise
    assert "it rests on nothing, and by the database on E-0002" in done.otherwise
    with deployed.database.read() as session:
        told = session.scalars(select(Event).where(Event.kind == EventKind.RECIPE_CHECKED.value)).one()
    assert told.data is not None
    assert told.data["promised_log"] == pytest.approx(log(0.4))
    assert told.data["otherwise"] == done.otherwise


def test_the_plan_of_a_check_is_as_short_as_shows_the_gain_and_says_how_sure_it_is(
    deployed: Deployed,
) -> None:
    with deployed.database.write() as session:
        original = session.get_one(Experiment, ORIGINAL)
        facts = read_facts(session, 1)
        whole = StoppingPlan.model_validate(original.plan)
        short = short_plan(session, facts, original, deployed.recipe.promise)
        assert short.pairs == LEAST_PAIRS
        assert short.plan.validation_pairs == 1
        assert short.plan.full_blocks <= whole.full_blocks
        assert short.most_pairs == whole.full_pairs + whole.validation_pairs, "they are only run if need be"
        assert short.power is not None
        assert short.power > ENOUGH
        assert "a gain that is wholly there is found again with a chance of more than 99 %" in short.words
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        details = {"metric": "tpot_ms", "pair_sd_log": 0.2, "degrees_of_freedom": 4}
        verdict.judge = {**verdict.judge, "details": details}
        rough = short_plan(session, facts, original, deployed.recipe.promise)
        assert rough.pairs > short.pairs
        assert rough.power is not None
        assert rough.power < short.power


def test_the_plan_of_a_check_is_cut_to_the_time_by_what_the_first_test_took(deployed: Deployed) -> None:
    with deployed.database.write() as session:
        original = session.get_one(Experiment, ORIGINAL)
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        whole = StoppingPlan.model_validate(original.plan)
        pairs, facts = verdict.launches // 2, read_facts(session, 1)
        session.execute(update(StageRun).where(StageRun.experiment_id == ORIGINAL).values(wall_s=0.0))
        quick = select(StageRun).where(
            StageRun.experiment_id == ORIGINAL, StageRun.stage == Stage.QUICK.value
        )
        for pair_s, most in ((1.0, whole.full_pairs + whole.validation_pairs), (90.0, 3), (1000.0, 2)):
            session.scalars(quick).one().wall_s = pair_s * pairs
            original.wall_s = pair_s * pairs + 20.0
            session.flush()
            short = short_plan(session, facts, original, deployed.recipe.promise)
            assert short.most_pairs == most
            assert ("which is longer than it has" in short.words) == (pair_s == 1000.0)
            assert short.most_s == pytest.approx(20.0 + pair_s * most)
            assert short.expected_s == pytest.approx(20.0 + pair_s * short.pairs)
            assert short.plan.validation_pairs >= 1
        twice = short_plan(session, facts, original, deployed.recipe.promise, within_s=3600.0)
        assert (twice.most_pairs, twice.within_s) == (3, 3600.0)
        attempt = session.scalars(quick).one().attempt
        session.add(StageRun(experiment_id=ORIGINAL, stage="further", attempt=attempt, wall_s=500.0))
        original.wall_s += 500.0
        session.flush()
        again = short_plan(session, facts, original, deployed.recipe.promise, within_s=3050.0)
        assert again.most_pairs == 3, "what no check measures takes none of its time"


def test_the_plan_of_a_check_is_not_cut_to_what_a_short_campaign_could_pay_for_of_its_first_test(
    deployed: Deployed,
) -> None:
    """A campaign of five minutes gives a test 4 pairs of its plan's 16, beside the validation's 2."""
    with deployed.database.write() as session:
        original = session.get_one(Experiment, ORIGINAL)
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        campaign = session.get_one(Campaign, original.campaign_id)
        campaign.spec = {
            **campaign.spec,
            "plan": {**campaign.spec["plan"], "full_pairs": 16, "validation_pairs": 2},
        }
        original.plan = {**original.plan, "full_pairs": 4, "validation_pairs": 2}
        session.execute(update(StageRun).where(StageRun.experiment_id == ORIGINAL).values(wall_s=0.0))
        quick = select(StageRun).where(
            StageRun.experiment_id == ORIGINAL, StageRun.stage == Stage.QUICK.value
        )
        session.scalars(quick).one().wall_s = 20.0 * (verdict.launches // 2)
        original.wall_s = 20.0 * (verdict.launches // 2) + 8.0
        session.flush()
        facts, promise = read_facts(session, 1), deployed.recipe.promise
        by_time = short_plan(session, facts, original, promise)
        assert by_time.most_pairs == 14, "(300 − 8) / 20 of them fit"
        by_plan = short_plan(session, facts, original, promise, within_s=3600.0)
        assert by_plan.most_pairs == 18, "the campaign's own plan allows no more"


def test_a_check_on_another_device_is_concluded_by_who_asked_for_it_alone(deployed: Deployed) -> None:
    with deployed.database.write() as session:
        begun = begin_check(session, deployed.recipe)
        session.get_one(Experiment, begun.experiment_id).kind = ExperimentKind.PROMOTE
    run(deployed.database, deployed.folder, "cpu")
    with deployed.database.write() as session:
        assert (
            session.scalars(select(Verdict).where(Verdict.experiment_id == begun.experiment_id)).all() == []
        )
        assert ended(session) == []
        assert conclude_check(session, begun).holding is Holding.HOLDS
        assert [each.experiment for each in verification(session, 1).verdicts] == ["E-0002"]


def test_without_anything_known_of_how_pairs_vary_the_power_is_said_not_to_be_known(
    deployed: Deployed,
) -> None:
    with deployed.database.write() as session:
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        verdict.judge = {**verdict.judge, "details": {"metric": "tpot_ms"}}
        session.execute(delete(NoiseLaunch))
        original = session.get_one(Experiment, ORIGINAL)
        short = short_plan(session, read_facts(session, 1), original, deployed.recipe.promise)
    assert short.power is None
    assert short.pairs == short.most_pairs
    assert short.words.endswith("how sure it is to find the gain again is not known")


def test_what_must_be_found_again_is_less_than_the_least_that_was_promised(
    first: tuple[Path, Recipe],
) -> None:
    promise = first[1].promise
    assert promise.low_log < promise.effect_log < promise.high_log < promise.bound_log < 0
    assert exp(promise.bound_log) == pytest.approx(1 - promise.least_effect)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{}", "format: field required"),
        ("nonsense", "invalid JSON"),
        ("[]", "object"),
    ],
)
def test_what_is_no_recipe_is_refused_with_the_place(broken: str, said: str) -> None:
    with pytest.raises(UsageError, match="is no recipe") as caught:
        read_recipe(broken, "x.json")
    assert said.lower() in caught.value.message.lower()


def test_a_value_that_may_be_one_of_several_kinds_is_refused_with_all_of_them(
    first: tuple[Path, Recipe],
) -> None:
    told = {**json.loads(first[1].model_dump_json()), "baseline": {"simulated.threads": [1]}}
    with pytest.raises(UsageError) as caught:
        read_recipe(json.dumps(told), "x.json")
    wanted = "baseline.simulated.threads: it should be true or false, a whole number, a number or text."
    assert caught.value.message == f"x.json is no recipe: {wanted}"


def test_a_gain_that_is_none_can_t_be_promised(first: tuple[Path, Recipe]) -> None:
    text = first[1].model_dump_json().replace(f'"high_log":{first[1].promise.high_log}', '"high_log":0.1')
    with pytest.raises(UsageError, match=r"promise\.high_log"):
        read_recipe(text, "x.json")


def test_a_gain_beyond_all_belief_is_refused_before_anything_is_made_of_it(
    first: tuple[Path, Recipe],
) -> None:
    told = json.loads(first[1].model_dump_json())
    for name in ("effect_log", "low_log"):
        wrong = {**told, "promise": {**told["promise"], name: 1e308}}
        with pytest.raises(UsageError, match=f"promise.{name}"):
            read_recipe(json.dumps(wrong), "x.json")


def test_another_database_than_the_campaign_s_is_refused(deployed: Deployed) -> None:
    other = deployed.recipe.model_copy(update={"seal": "0" * 64})
    with pytest.raises(UsageError, match="does not hold what the recipe rests on"):
        deployed.check(other)
    gone = deployed.recipe.model_copy(update={"experiment": "E-0099"})
    with pytest.raises(UsageError, match="E-0099"):
        deployed.check(gone)


@pytest.mark.parametrize(
    "changed",
    [
        {"configuration": {"simulated.tpot_ms": 1.0}},
        {"baseline": {"simulated.tpot_ms": 1.0}},
    ],
)
def test_a_file_that_says_otherwise_than_what_was_measured_runs_and_blames_nothing(
    deployed: Deployed, changed: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="changed after it was written") as caught:
        deployed.check(deployed.recipe.model_copy(update=changed))
    assert "autoinfer export C-1 --recipe" in caught.value.hint
    assert deployed.findings() == [(FindingStatus.HOLDS, None)]


def test_a_rented_target_is_refused_with_what_to_do_instead(deployed: Deployed) -> None:
    with pytest.raises(UsageError, match="rented machine") as caught:
        check(deployed.database, deployed.recipe, lambda: None, target="modal:L4")
    assert "autoinfer promote E-0002 --target modal:L4" in caught.value.hint


def test_a_best_without_a_baseline_is_not_deployed_nor_checked(deployed: Deployed, tmp_path: Path) -> None:
    with deployed.database.write() as session:
        session.get_one(Campaign, 1).baseline_configuration_id = None
    with deployed.database.read() as session, pytest.raises(UsageError, match="C-1 has no baseline"):
        recipe_of(session, 1, tmp_path)
    with pytest.raises(UsageError, match="C-1 has no baseline"):
        deployed.check(deployed.recipe)


def test_nothing_is_deployed_of_made_up_weights_or_where_nothing_beats_the_baseline(
    deployed: Deployed, tmp_path: Path
) -> None:
    with deployed.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.best_experiment_id = None
    with deployed.database.read() as session, pytest.raises(UsageError, match="beats its baseline"):
        recipe_of(session, 1, tmp_path)
    with deployed.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
    with deployed.database.read() as session, pytest.raises(UsageError, match="made-up weights"):
        recipe_of(session, 1, tmp_path)


def test_an_engine_that_names_no_command_is_refused(deployed: Deployed, tmp_path: Path) -> None:
    with (
        patch("agent.recipe.making.load_engine", lambda name: object()),
        deployed.database.read() as session,
        pytest.raises(UsageError, match="names no command"),
    ):
        recipe_of(session, 1, tmp_path)
