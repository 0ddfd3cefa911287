"""Verifying a campaign: every supported verdict once more in fresh processes, and what is made of it.

The database, the queue, the sealing, the judge and the findings are the real ones; launches are given.
"""

import re
import shutil
import signal
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from agent.asking.why_not import what_rules_out
from agent.campaign.known.stored_ground import read_legal
from agent.campaign.learning.outcome import campaign_outcome
from agent.campaign.life import end
from agent.campaign.rerun.reproduce import enqueue_reproduction
from agent.campaign.rerun.verify import Limits, Runner, verify
from agent.recipe.promising import denied
from configs.errors import UsageError
from configs.settings import Settings
from dashboard.app import create_app
from db import events, queue, workers
from db.event_kinds import EventKind
from db.models import Artifact, Campaign, Configuration, Experiment, Finding, Job, Launch, Verdict, Worker
from db.noise import SERIES_NAME
from db.states import ExperimentKind, ExperimentState, FindingStatus, VerdictOutcome, WorkerState
from experiments.job.result import Failure
from experiments.worker.reaping import reap
from knowledge.graph.building import build_graph
from knowledge.queries.facts import campaign_facts
from knowledge.queries.found.findings import list_findings
from knowledge.queries.found.fresh_runs import fresh_runs
from knowledge.queries.found.verification import Standing, VerifiedRow, verification
from knowledge.telling.summary import summarize
from tests.history.model_elsewhere import FOLDER, move_model_away
from tests.integration.campaign.campaigned import HERE, TIMES_ALONE, Campaigned, campaign, interrupt, pairs
from tests.integration.campaign.test_promoting import (
    measured,
    run,
)
from tests.integration.cli.command import Autoinfer
from tests.simulated.by_hand import run_by_hand
from tests.simulated.campaign import SPACE
from tests.waiting import PATIENCE_S

__all__ = ["campaign"]


LAYERS = "  - {name: simulated.layers, lever: depth, values: [3, 2], default: 3, help: What stays.}\n"
"""A knob for which a stage builds a checkpoint."""


def test_real_processes_score_quality_anew_and_build_what_is_gone_and_say_the_same(tmp_path: Path) -> None:
    judged = measured(tmp_path, space_text=SPACE + LAYERS)

    def verified() -> VerifiedRow:
        runner = Runner(lambda device: run(judged.database, judged.folder, device))
        (row,) = verify(judged.database, judged.campaign_id, runner, HERE).verdicts
        assert row.standing is Standing.AGREES, row.why
        return row

    first = verified()
    with judged.database.read() as session:
        assert fresh_runs(session, 2) == (first.fresh,)
        verdicts = session.scalars(select(Verdict).order_by(Verdict.id)).all()
        path = Path(session.scalars(select(Artifact.path).where(Artifact.kind == "checkpoint")).one())
    assert [(each.quality or {})["state"] for each in verdicts] == ["held", "held"]
    shutil.rmtree(path.parent)
    second = verified()
    assert path.is_dir()
    assert [each.fresh and each.fresh.built for each in (first, second)] == [(), ("prune",)]
    judged.database.close()


def test_what_is_said_again_agrees_and_what_the_best_rests_on_comes_first(campaign: Campaigned) -> None:
    found = campaign.verify()
    assert [(row.experiment, row.recommended) for row in found.verdicts] == [
        ("E-0003", True),
        ("E-0002", False),
    ]
    assert found.all_agree
    assert found.whole
    for row in found.verdicts:
        assert row.fresh is not None
        assert row.fresh.difference is not None
        assert row.fresh.difference.low is not None
        assert row.fresh.difference.low < 0 < (row.fresh.difference.high or 0)
    with campaign.database.read() as session:
        launches = set(session.scalars(select(Launch.id).where(Launch.experiment_id.in_((2, 3)))))
        again = set(session.scalars(select(Launch.id).where(Launch.experiment_id.in_((4, 5)))))
        assert launches.isdisjoint(again)
        assert len(launches) == len(again)
    assert campaign.told() == [
        "2 supported verdicts of C-1 are to be reproduced in fresh processes",
        "Of 2 supported verdicts 2 agreed in a fresh run" + TIMES_ALONE,
    ]


def test_a_planted_verdict_is_found_to_differ_and_its_finding_is_contradicted(
    campaign: Campaigned, tmp_path: Path
) -> None:
    def wait(device: str) -> None:
        with campaign.database.read() as session:
            newest = session.scalars(select(func.max(Experiment.id))).one()
            planted = session.get_one(Experiment, newest).reproduces_experiment_id == 3
        run_by_hand(campaign.database, newest, pairs(10.0 if planted else 9.0))

    with campaign.database.write() as session:
        end(session, 1, "nothing left is worth its price")
    assert "confirms it in fresh processes first." in page_of(campaign, tmp_path)
    found = campaign.verify(wait)
    assert [row.standing for row in found.verdicts] == [Standing.DIFFERS, Standing.AGREES]
    assert not found.all_agree
    assert found.whole
    assert found.verdicts[0].why.startswith("refuted now, supported then, by another amount: ")
    assert found.sentence == "Of 2 supported verdicts 1 agreed in a fresh run and 1 differed" + TIMES_ALONE
    with campaign.database.read() as session:
        status = dict(session.execute(select(Finding.effect_log < -0.2, Finding.status)).all())
        (fresh,) = fresh_runs(session, 3)
        against = denied(session, 1, ("E-0002", "E-0003"))
        summary = summarize(replace(campaign_facts(session, 1), outcome=campaign_outcome(session, 1)))
    assert against == (f"A fresh run of E-0003, E-0004, does not agree: {fresh.why.rstrip('.')}.",)
    assert summary.supported.sentence.startswith(
        "2 hypotheses are supported; a fresh run differs on 1 of them"
    )
    assert summary.supported.lines[0].endswith("(E-0003; E-0004, a fresh run, differs)")
    assert summary.supported.lines[1].endswith("(E-0002)")
    assert f"A fresh run, E-0004, does not agree: {fresh.why.rstrip('.')}." in summary.best.lines
    page = page_of(campaign, tmp_path)
    assert "E-0004</a>, does not agree: refuted now, supported then" in page
    assert "confirms it" not in page
    assert FindingStatus.CONTRADICTED in status.values()
    assert fresh.agreement.value == "differs"


def page_of(campaign: Campaigned, folder: Path, path: str = "/") -> str:
    app = create_app(Settings(data_dir=folder), campaign.database)
    return unescape(TestClient(app, base_url="http://127.0.0.1").get(path).text)


def test_an_effect_that_is_supported_again_by_another_amount_differs_and_its_finding_says_so(
    campaign: Campaigned, tmp_path: Path
) -> None:
    found = campaign.verify(campaign.run(8.0))
    assert [row.standing for row in found.verdicts] == [Standing.DIFFERS, Standing.DIFFERS]
    assert {row.fresh.outcome for row in found.verdicts if row.fresh} == {VerdictOutcome.SUPPORTED}
    assert all("both supported, but by another amount" in row.why for row in found.verdicts)
    with campaign.database.read() as session:
        views = list_findings(session, limit=9).items
        graph = build_graph(session)
        answers = [what_rules_out(session, graph, [each.id], None, read_legal) for each in views]
    assert {each.doubt for each in views} == {"E-0004, a fresh run, differs", "E-0005, a fresh run, differs"}
    for view, answer in zip(views, answers, strict=True):
        fresh = (view.doubt or "").partition(",")[0]
        assert answer.sentence == (
            f"{view.id} is believed: it holds, {view.strength}, but {view.doubt}. {fresh} is latency only."
        )
        (row,) = answer.sections[0].rows
        assert (row.id, row.relation) == (view.differing[0], "a fresh run differs")
    page = page_of(campaign, tmp_path, "/knowledge")
    told = re.sub(r"<[^>]+>", "", page)
    assert all(f"But {each.doubt}." in told for each in views)


def test_an_interrupted_verification_is_gone_on_with_and_then_begins_anew(campaign: Campaigned) -> None:
    turns = iter([campaign.run(), interrupt])

    def wait(device: str) -> None:
        next(turns)(device)

    with pytest.raises(KeyboardInterrupt):
        campaign.verify(wait)
    assert campaign.standings() == [Standing.AGREES, Standing.WAITS]
    said = "Of 2 supported verdicts 1 agreed in a fresh run and 1 is not run yet"
    assert campaign.told()[-1] == said + TIMES_ALONE
    assert campaign.verify().all_agree
    assert campaign.runs == [4, 6], "what had its answer was not run again"
    assert len(campaign.told()) == 3
    assert campaign.verify().all_agree
    assert campaign.runs == [4, 6, 7, 8]


def test_what_a_killed_process_left_is_gone_on_with(campaign: Campaigned, tmp_path: Path) -> None:
    with campaign.database.write() as session:
        events.append(
            session,
            EventKind.CAMPAIGN_VERIFYING,
            "It begins.",
            campaign_id=campaign.campaign_id,
            data={"after_experiment": 3},
        )
        left = enqueue_reproduction(session, 3)
    assert campaign.standings() == [Standing.RUNS, Standing.WAITS]
    with campaign.database.write() as session:  # a worker took it, and is heard of no more
        job = session.scalars(select(Job).where(Job.experiment_id == left)).one()
        assert queue.claim_one(session, job.id, "gone/cpu#7", "gone/cpu", lease_s=-1.0) is not None
        session.get_one(Experiment, left).state = ExperimentState.RUNNING
    with campaign.database.write() as session:
        reap(session)
    with campaign.database.read() as session:
        found = verification(session, campaign.campaign_id)
    assert found.verdicts[0].why == "E-0004 was interrupted: autoinfer verify C-1 goes on with it"
    assert found.sentence == (
        "Of 2 supported verdicts 0 agreed in a fresh run, 1 is interrupted and 1 is not run yet" + TIMES_ALONE
    )
    assert "E-0004</a> was interrupted: autoinfer verify" in page_of(campaign, tmp_path, "/campaigns/C-1")
    assert campaign.verify().all_agree
    assert campaign.runs == [left, 5]


def test_afresh_takes_nothing_of_an_unfinished_one(campaign: Campaigned) -> None:
    turns = iter([campaign.run(), interrupt])
    with pytest.raises(KeyboardInterrupt):
        campaign.verify(lambda device: next(turns)(device))
    campaign.verify(limits=Limits(afresh=True))
    assert campaign.runs == [4, 6, 7]


def test_a_budget_begins_nothing_that_it_does_not_cover(campaign: Campaigned) -> None:
    with campaign.database.write() as session:
        for each in (2, 3):
            session.get_one(Experiment, each).wall_s = 60.0
    now = iter([0.0, 10.0, 50.0])
    found = verify(
        campaign.database,
        campaign.campaign_id,
        Runner(campaign.run()),
        Limits(budget_s=100.0),
        seconds=lambda: next(now),
    )
    assert [row.standing for row in found.verdicts] == [Standing.AGREES, Standing.WAITS]
    assert found.verdicts[1].why == "50 s of the budget is left, and the first run took 1 min"
    assert not found.whole
    assert campaign.verify().all_agree


def test_where_the_rest_can_not_run_what_an_earlier_call_found_stands(campaign: Campaigned) -> None:
    turns = iter([campaign.run(), interrupt])
    with pytest.raises(KeyboardInterrupt):
        campaign.verify(lambda device: next(turns)(device))
    before, stood = campaign.told(), campaign.standings()
    move_model_away(campaign.database)
    found = campaign.verify()
    assert [row.standing for row in found.verdicts] == [Standing.AGREES, Standing.NOT_HERE]
    assert (campaign.told(), campaign.standings()) == (before, stood)


def test_a_fresh_run_that_waits_for_another_s_worker_says_so_and_when_one_is_there(
    campaign: Campaigned, tmp_path: Path
) -> None:
    for words in ("reproduce E-0002", "verify C-1"):
        process = Autoinfer(tmp_path).start(f"{words} --no-worker", COLUMNS="400")
        assert process.stdout is not None
        try:
            line = next(each for each in process.stdout if "waits: " in each)
            assert line.strip().removeprefix("E-0002 ") == (
                "waits: no worker takes jobs for cpu. Start one where that is, with the same database: "
                "autoinfer worker --device cpu"
            )
            with campaign.database.write() as session:
                worker = workers.register(session, "desk/cpu#7", "desk", 7, "cpu")
            assert "runs again on cpu" in process.stdout.readline()
            with campaign.database.write() as session:
                session.get_one(Worker, worker).state = WorkerState.STOPPED
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE_S)


def test_a_fresh_run_that_broke_says_nothing_and_is_tried_again_by_the_next_call(
    campaign: Campaigned,
) -> None:
    found = campaign.verify(campaign.run(failure=Failure("error", "No space left on device")))
    assert {row.standing for row in found.verdicts} == {Standing.BROKE}
    assert "No space left on device" in found.verdicts[0].why
    broke = "had a fresh run that broke, which says nothing of the claim"
    assert found.sentence == f"Of 2 supported verdicts 0 agreed in a fresh run and 2 {broke}{TIMES_ALONE}"
    assert not found.whole
    assert not found.all_here_agree
    assert campaign.standings() == [Standing.BROKE, Standing.BROKE], "a page says the same"
    assert campaign.verify().all_agree


def test_a_broken_seal_is_said_with_what_mends_it_and_no_fresh_run_is_begun(
    campaign: Campaigned, tmp_path: Path
) -> None:
    with campaign.database.write() as session:
        candidate = session.get_one(Configuration, session.get_one(Experiment, 3).candidate_configuration_id)
        kept, candidate.knobs = candidate.knobs, {**candidate.knobs, "simulated.tpot_ms": 6.9}
    found = campaign.verify()
    assert [row.standing for row in found.verdicts] == [Standing.ALTERED, Standing.AGREES]
    assert campaign.runs == [4]
    assert found.verdicts[0].why.startswith("E-0003 was changed after it was preregistered: the stored knobs")
    assert not found.all_here_agree
    assert "1 had a seal that is broken, which no fresh run can mend" in found.sentence
    with campaign.database.write() as session:
        session.get_one(Experiment, 2).kind = ExperimentKind.NOISE  # so that one verdict is left
    told = Autoinfer(tmp_path)("verify C-1")
    assert told.code == 1
    said = " ".join(told.out.split())
    assert "E-0003 was not checked: E-0003 was changed after it was preregistered: " in said
    assert "Running it again can't mend that. Put back what was changed" in said
    assert "gone on with" not in said
    refused = Autoinfer(tmp_path)("reproduce E-0003")
    assert (refused.code, "Put back what was changed" in refused.err) == (2, True)
    with campaign.database.write() as session:
        session.get_one(Configuration, candidate.id).knobs = kept
    assert campaign.verify().all_agree


def test_a_model_that_is_not_on_this_machine_is_said_and_nothing_is_queued(campaign: Campaigned) -> None:
    move_model_away(campaign.database)
    found = campaign.verify()
    assert {row.standing for row in found.verdicts} == {Standing.NOT_HERE}
    assert found.verdicts[0].why == f"the campaign's model {FOLDER} is not on this machine"
    assert campaign.runs == []
    assert campaign.told() == [], "where nothing ran nothing is kept"
    assert campaign.standings() == [Standing.WAITS, Standing.WAITS]
    elsewhere = Runner(campaign.run(), here=False)
    assert verify(campaign.database, campaign.campaign_id, elsewhere, HERE).all_agree, "a worker has it"


def test_a_model_that_is_not_on_this_machine_ends_a_reproduction_before_anything_is_queued(
    campaign: Campaigned, tmp_path: Path
) -> None:
    move_model_away(campaign.database)
    refused = Autoinfer(tmp_path)("reproduce E-0002")
    assert refused.code == 1
    assert (
        f"E-0002 can't run again here: the campaign's model {FOLDER} is not on this machine." in refused.err
    )
    assert "--no-worker" in refused.err
    with campaign.database.read() as session:
        assert session.scalars(select(func.max(Experiment.id))).one() == 3


def test_other_hardware_is_said_and_nothing_is_queued(campaign: Campaigned, tmp_path: Path) -> None:
    with campaign.database.write() as session:
        for each in (2, 3):
            session.get_one(Experiment, each).target = "cpu:Another:64 cores"
    found = campaign.verify()
    assert {row.standing for row in found.verdicts} == {Standing.NOT_HERE}
    assert found.verdicts[0].why.startswith("it was measured on Another (64 cores), and cpu here is ")
    assert campaign.runs == []
    told = Autoinfer(tmp_path)("verify")
    assert told.code == 3
    assert "to be had, with the same database: autoinfer verify C-1" in " ".join(told.out.split())
    assert "E-0003 was not checked: it was measured on Another (64 cores)" in " ".join(told.out.split())
    assert campaign.told() == [], "where nothing ran nothing is kept"
    assert "could not be reproduced" not in Autoinfer(tmp_path)("story").out
    assert "gone on with by" not in told.out
    with campaign.database.read() as session:
        kinds = session.scalars(select(Experiment.kind)).all()
    assert ExperimentKind.REPRODUCE not in kinds


def test_other_hardware_ends_a_reproduction_before_anything_is_queued(
    campaign: Campaigned, tmp_path: Path
) -> None:
    with campaign.database.write() as session:
        session.get_one(Experiment, 2).target = "cpu:Another:64 cores"
    refused = Autoinfer(tmp_path)("reproduce E-0002")
    assert refused.code == 1
    assert "E-0002 can't run again here: it was measured on Another (64 cores), and cpu" in refused.err
    assert "--no-worker" in refused.err
    assert "autoinfer promote E-0002 --target " in refused.err
    with campaign.database.read() as session:
        assert session.scalars(select(func.max(Experiment.id))).one() == 3


def test_a_campaign_without_support_writes_nothing_and_a_series_is_refused(campaign: Campaigned) -> None:
    with campaign.database.write() as session:
        for each in (2, 3):
            session.get_one(Experiment, each).kind = ExperimentKind.NOISE
    found = campaign.verify(interrupt)
    assert found.sentence == "Nothing is supported in C-1: there is nothing to verify"
    assert found.all_agree
    assert campaign.told() == []
    with campaign.database.write() as session:
        session.get_one(Campaign, campaign.campaign_id).name = SERIES_NAME
    with pytest.raises(UsageError, match="C-1 is an A/A series"):
        campaign.verify(interrupt)
