"""Trial 0 against the naive default: compared where they were timed side by side, and nowhere else."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from agent.campaign.decision.desk import Desk
from agent.campaign.known.measured import read_measured, scaled
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn_baseline import learn_baseline
from agent.campaign.learning.outcome import campaign_outcome
from agent.ground.legal import legal_here
from agent.surrogate.feasibility import FAILED_BEFORE, Tried
from agent.surrogate.physics import SWEEP_SD_LOG, THREADS_SD_LOG
from cli.running.telling import naive_words
from configs.settings import Settings
from dashboard.app import create_app
from dashboard.report.markdown import as_markdown
from db import events
from db.event_kinds import EventKind
from db.models import Experiment, Finding
from db.session import Database
from db.states import FindingStatus
from experiments.job.baseline import FAILED, NAIVE_FAILED
from experiments.job.result import StageRecord
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Stage
from experiments.space.configuration import Configuration
from experiments.space.space import Space
from knowledge.findings.staleness import statement_of
from knowledge.queries.found.findings import list_findings
from knowledge.report.gathering import report
from knowledge.sweep_failures import RULE, update_sweep_failures
from tests.simulated.by_hand import BEGAN, launch, measure_sweep
from tests.simulated.campaign import drive, start

NAIVE_MS, BEST_MS = 5.0, 4.5
SLOWER_LATER_MS = 6.0
"""The baseline's launches after the sweep, on a machine that has slowed down meanwhile."""


NOT_RUN = "the engine's own default did not run here, and this is the best of the sweep's others"

FAILING_DEFAULT = """
name: simulated
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0], default: 10.0, help: The answer.}
  - {name: simulated.fails, lever: luck, values: [generate, never], default: generate, help: Where it dies.}
"""


BLAMED = """\
  - {name: simulated.blames, lever: words, values: [simulated.fails], default: simulated.fails, help: Of it.}
"""


def both(space: Space) -> Mapping[Configuration, float]:
    return {
        space.configuration({}): NAIVE_MS,
        space.configuration({"simulated.threads": 2}): BEST_MS,
    }


def best_alone(space: Space) -> Mapping[Configuration, float]:
    """The naive default died while it was swept."""
    return {space.configuration({"simulated.threads": 2}): BEST_MS}


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    database, campaign_id = start(tmp_path)
    yield database, campaign_id
    database.close()


def test_the_best_of_the_sweep_is_never_reported_slower_than_what_it_beat(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    measure_sweep(database, campaign_id, both, SLOWER_LATER_MS)
    with database.read() as session:
        outcome = campaign_outcome(session, campaign_id)
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_BASELINE])
    baseline, naive = outcome["baseline"], outcome["naive"]
    assert baseline["tpot_ms"] <= naive["tpot_ms"]
    assert baseline["tpot_ms"] == pytest.approx(SLOWER_LATER_MS, rel=2e-3)
    assert naive["tpot_ms"] / baseline["tpot_ms"] == pytest.approx(NAIVE_MS / BEST_MS, rel=1e-3)
    assert naive["sweep_tpot_ms"] == pytest.approx(NAIVE_MS, rel=2e-3)
    assert "took 1.11× as long (5.00 against 4.50 ms a token)" in told.text


def test_the_prior_takes_from_the_sweep_what_the_sweep_compared(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    measure_sweep(database, campaign_id, both, SLOWER_LATER_MS)
    with database.read() as session:
        facts = read_facts(session, campaign_id)
        legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
        desk = Desk(facts, legal, read_measured(session, facts), ())
    assert desk.view.tpot_ms == pytest.approx(SLOWER_LATER_MS, rel=2e-3)
    assert facts.baseline is not None
    back = legal.space.with_change(facts.baseline, {"simulated.threads": 1})
    predicted = desk.beliefs.predict(facts.baseline, back)
    compared = math.log(NAIVE_MS / BEST_MS)
    drawn_back = THREADS_SD_LOG**2 / (THREADS_SD_LOG**2 + SWEEP_SD_LOG**2)  # by a guess of nothing
    assert predicted.log_ratio_mean == pytest.approx(drawn_back * compared, abs=2e-3)
    assert 0.95 < drawn_back < 1


def test_a_naive_default_that_dies_in_the_sweep_leaves_a_campaign_with_a_baseline(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    measure_sweep(database, campaign_id, best_alone, SLOWER_LATER_MS)
    with database.read() as session:
        outcome = campaign_outcome(session, campaign_id)
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_BASELINE])
    assert outcome["naive"]["tpot_ms"] is None
    assert told.text.endswith(NOT_RUN)


def test_log_and_outcome_tell_the_baseline_s_time_that_its_experiment_s_page_tells(tmp_path: Path) -> None:
    """One block of one launch was disturbed, which would move a mean."""

    def disturbed(quiet: LaunchRecord) -> LaunchRecord:
        slow = [
            replace(each, value=1.5 * each.value) if (quiet.index, each.block) == (0, 1) else each
            for each in quiet.samples
        ]
        return replace(quiet, samples=tuple(slow))

    database, campaign_id = start(tmp_path)
    measure_sweep(database, campaign_id, lambda space: {space.configuration({}): 6.0}, 6.0, fresh=disturbed)
    with database.read() as session:
        baseline = campaign_outcome(session, campaign_id)["baseline"]
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_BASELINE])
    app = create_app(Settings(data_dir=tmp_path), database)
    page = TestClient(app, base_url="http://127.0.0.1").get("/experiments/E-0001.json").json()
    (shown,) = (each for each in page["distributions"] if each["arm"] == "control")
    database.close()
    assert shown["median"] == pytest.approx(6.0, rel=2e-3)
    assert baseline["tpot_ms"] == pytest.approx(shown["median"], rel=2e-3)
    assert f"Trial 0 is {shown['median']:.2f} ms a token" in told.text


def test_what_was_timed_for_a_part_of_the_sweep_is_compared_with_nothing() -> None:
    whole = launch(Arm.CONTROL, Configuration.of({"a": 1}), 10.0, stage=Stage.SWEEP)
    cut = launch(Arm.CONTROL, Configuration.of({"a": 2}), 9.0, stage=Stage.SWEEP)
    short = tuple(sample for sample in cut.samples if sample.block == 0)
    partly = type(cut)(
        cut.arm, 1, cut.stage, cut.configuration_digest, cut.resolved, cut.environment, cut.load_s, short
    )
    assert list(scaled((whole, partly), Metric.TPOT_MS)) == [whole.configuration_digest]


def test_a_default_that_dies_at_its_first_request_leaves_the_baseline_to_what_runs_and_says_so(
    tmp_path: Path,
) -> None:
    """As where the kernel of the engine's own choice is not to be had: it is known at the first request."""
    sweep = {"baseline.sweep": {"simulated.fails": ["generate", "never"]}, "proposers": ["rules"]}
    database, campaign_id = start(tmp_path, space_text=FAILING_DEFAULT, **sweep)
    drive(database, tmp_path, campaign_id)
    with database.read() as session:
        outcome = campaign_outcome(session, campaign_id)
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_BASELINE])
    database.close()
    assert outcome["baseline"]["configuration"]["simulated.fails"] == "never"
    assert outcome["naive"]["tpot_ms"] is None
    cause = outcome["naive"]["failed"]
    assert "The simulated process ended" in cause
    assert told.text.endswith(f"; {NOT_RUN}: {cause.rstrip('.')}")
    assert naive_words(outcome["naive"], outcome["baseline"]) == f"did not run: {cause}"


def test_what_failed_in_the_sweep_is_known_with_what_it_was_put_down_to(tmp_path: Path) -> None:
    space_text = FAILING_DEFAULT + BLAMED
    sweep = {"baseline.sweep": {"simulated.fails": ["generate", "never"]}, "proposers": ["rules"]}
    database, campaign_id = start(tmp_path, space_text=space_text, **sweep)
    drive(database, tmp_path, campaign_id)
    with database.read() as session:
        outcome = campaign_outcome(session, campaign_id)
        facts = read_facts(session, campaign_id)
        legal = legal_here(facts.spec, facts.checkpoint, facts.cores)
        desk = Desk(facts, legal, read_measured(session, facts), ())
    database.close()
    naive = legal.space.configuration({})
    assert facts.failed_in_sweep == (Tried(naive, ran=False, blames={"simulated.fails": None}),)
    assert outcome["naive"]["failed"].endswith("; put down to simulated.fails=generate.")
    assert desk.beliefs.p_feasible(naive) == FAILED_BEFORE
    assert facts.baseline is not None
    assert desk.beliefs.p_feasible(facts.baseline) > 0.9


def test_a_sweep_from_before_failures_were_told_one_by_one_tells_of_the_naive_default(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    measure_sweep(
        database,
        campaign_id,
        best_alone,
        SLOWER_LATER_MS,
        [StageRecord(Stage.SWEEP, BEGAN, 1.0, "done", {"dropped": ["It died."], NAIVE_FAILED: "It died."})],
    )
    with database.read() as session:
        facts = read_facts(session, campaign_id)
    assert facts.naive is not None
    assert facts.failed_in_sweep == (Tried(facts.naive, ran=False),)


def test_a_campaign_that_begins_elsewhere_measures_that_and_says_why_not_the_default(tmp_path: Path) -> None:
    named = {"baseline.start": {"simulated.fails": "never"}, "baseline.sweep": [], "proposers": ["rules"]}
    database, campaign_id = start(tmp_path, space_text=FAILING_DEFAULT, **named)
    drive(database, tmp_path, campaign_id)
    with database.read() as session:
        outcome = campaign_outcome(session, campaign_id)
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_BASELINE])
        (began,) = events.read(session, kinds=[EventKind.CAMPAIGN_STARTED])
    database.close()
    assert outcome["baseline"]["configuration"]["simulated.fails"] == "never"
    assert outcome["naive"]["configuration"]["simulated.fails"] == "generate"
    assert outcome["naive"]["failed"] == "the campaign was asked to begin from another"
    assert told.text.endswith(
        "the engine's own default was not measured: the campaign was asked to begin from another"
    )
    assert "The campaign begins from simulated.fails=never, as it was asked to, so every claim" in began.text


def test_what_was_found_with_other_versions_is_stale_from_the_baseline_on_and_holds_when_they_come_back(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    measure_sweep(database, campaign_id, both)
    with database.write() as session:
        target = session.get_one(Experiment, 1).target
        scope = {"target": target, "engine": "simulated", "versions": {"engine": "1.0"}}
        told = {"scope": scope, "rule": "verdicts", "claim": "It helps", "strength": "single"}
        session.add(Finding(campaign_id=campaign_id, key="a", **told))
    for versions, status in (
        ({"engine": "2.0"}, FindingStatus.STALE),
        ({"engine": "1.0"}, FindingStatus.HOLDS),
    ):
        with database.write() as session:
            session.get_one(Experiment, 1).versions = versions
            learn_baseline(session, 1)
            assert session.get_one(Finding, 1).status is status


NO_KERNEL = "The engine has no kernel for this here: NotImplementedError."


def swept(database: Database, campaign_id: int, sweep: object, failed: str | None = None) -> None:
    """Measure a baseline; `failed` is the kind by which the engine's own default did not run."""
    with database.read() as session:
        facts = read_facts(session, campaign_id)
    naive = dict(legal_here(facts.spec, facts.checkpoint, facts.cores).space.configuration({}))
    why = {"configuration": naive, "kind": failed, "cause": NO_KERNEL, "blames": {}}
    told = [] if failed is None else [why]
    stage = StageRecord(Stage.SWEEP, BEGAN, 1.0, "done", {FAILED: told})
    measure_sweep(database, campaign_id, sweep, stages=[stage])  # type: ignore[arg-type]


def of_sweeps(database: Database) -> list[Finding]:
    with database.read() as session:
        return list(session.scalars(select(Finding).where(Finding.rule == RULE)))


def test_what_the_sweep_could_not_run_is_a_finding_with_its_cause_and_scope(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    swept(database, campaign_id, best_alone, "unsupported")
    (found,) = of_sweeps(database)
    assert found.claim.startswith(
        "Changing simulated.threads 2 → 1 does not run: "
        "The engine has no kernel for this here: NotImplementedError; on model "
    )
    assert (found.status, found.scope["engine"]) == (FindingStatus.HOLDS, "simulated")
    assert found.claim.endswith(", engine simulated, in the sweep of E-0001.")
    assert found.scope["lever"] == "threads"
    assert statement_of(found) not in ("", found.key), "its key names the versions"
    assert [each["knob"] for each in found.scope["change"]] == ["simulated.threads"]
    with database.write() as session:
        assert update_sweep_failures(session, 1, Configuration.of({"a": 1}), (), str) == ()  # once
        assert list_findings(session, campaign_id=campaign_id, limit=9, offset=0).total == 1


@pytest.mark.parametrize("kind", ["timed_out", "out_of_memory", "crashed", "build_failed"])
def test_what_may_have_come_of_that_launch_alone_is_no_finding(
    campaign: tuple[Database, int], kind: str
) -> None:
    database, campaign_id = campaign
    swept(database, campaign_id, best_alone, kind)
    assert of_sweeps(database) == []


def test_a_sweep_in_which_it_runs_contradicts_what_was_found(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    swept(database, campaign_id, best_alone, "illegal")
    swept(database, campaign_id, both)
    (found,) = of_sweeps(database)
    assert (found.status, found.status_reason) == (FindingStatus.CONTRADICTED, "It ran in E-0002.")


def test_where_a_finding_of_a_sweep_is_told_it_rests_on_that_sweep(
    campaign: tuple[Database, int], tmp_path: Path
) -> None:
    database, campaign_id = campaign
    swept(database, campaign_id, best_alone, "unsupported")
    (found,) = of_sweeps(database)
    app = create_app(Settings(data_dir=tmp_path), database)
    page = TestClient(app, base_url="http://127.0.0.1").get(f"/knowledge/F-{found.id:03}").text
    assert "wrote down" not in page
    assert re.search(r"No verdict: .{0,60}sweep of <a [^>]*>.*E-0001", page, re.DOTALL)
    with database.read() as session:
        text = as_markdown(report(session, campaign_id, datetime.now(UTC)))
    assert "verdicts of this campaign" not in text
    assert "| the sweep of E-0001 |" in text
