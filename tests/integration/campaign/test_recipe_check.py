"""Whether a recipe still holds: the real judge, real processes of the simulated engine."""

import json
from math import log
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from agent.campaign.rerun.confirm import ended
from agent.recipe.checking import Holding, begin_check, check, conclude_check
from agent.recipe.folder import RECIPE, files_of
from agent.recipe.promising import promise_of
from cli.main import call
from configs.errors import UsageError
from configs.quantities import format_duration, parse_duration_s
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import (
    Event,
    Experiment,
    Finding,
    FindingEvidence,
    Verdict,
)
from db.session import Database
from db.states import ExperimentKind, FindingStatus, VerdictOutcome
from experiments.own_processes import begun_beside, children
from experiments.recording import load_test_spec
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.keeping import update_findings
from knowledge.findings.staleness import StaleCause
from knowledge.queries.found.finding_detail import finding_detail
from knowledge.queries.found.verification import verification
from tests.integration.campaign.deployed import GAIN, Deployed, deployed, first, promising, remembering
from tests.integration.campaign.test_promoting import ORIGINAL, run
from tests.new_database import database_url

__all__ = ["deployed", "first"]


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
    assert done.reason.startswith("Whether the recipe of E-0002 holds was not settled in 0.01 s: nothing was")
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
    assert (
        f"It ends {format_duration(parse_duration_s(within))} after its checkpoints are there at the latest"
        in told
    )


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


def test_nothing_is_promised_of_a_test_that_was_changed_after_it_was_sealed(deployed: Deployed) -> None:
    with deployed.database.write() as session:
        tested = session.get_one(Experiment, ORIGINAL)
        tested.plan = {**tested.plan, "min_effect": 0.5}
    with (
        pytest.raises(
            UsageError, match=r"E-0002 was changed after it was preregistered: min_effect"
        ) as refused,
        deployed.database.write() as session,
    ):
        begin_check(session, deployed.recipe)
    assert "Put back what was changed" in str(refused.value.hint)
    with (
        pytest.raises(UsageError, match="A recipe can't promise what it found"),
        deployed.database.read() as session,
    ):
        promise_of(session, session.get_one(Experiment, ORIGINAL))


def test_a_rented_target_is_refused_with_what_to_do_instead(deployed: Deployed) -> None:
    with pytest.raises(UsageError, match="rented machine") as caught:
        check(deployed.database, deployed.recipe, lambda: None, target="modal:L4")
    assert "autoinfer promote E-0002 --target modal:L4" in caught.value.hint
