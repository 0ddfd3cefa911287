"""Verifying a campaign: every supported verdict once more in fresh processes, and what is made of it.

The database, the queue, the sealing, the judge and the findings are the real ones; launches are given.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from sqlalchemy import func, select, update

from agent.campaign.allowance import more_dollars
from agent.campaign.fresh_price import NoRoom, price_watch
from agent.campaign.learn import learn_test
from agent.campaign.outcome import note_best
from agent.campaign.reproduce import allow_reproduction, enqueue_reproduction, reproduce
from agent.campaign.verify import Limits, Runner, verify
from cli.main import call
from configs.errors import UsageError
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, parse_label_of
from db.models import Artifact, Campaign, Experiment, Finding, Job, JobQuote, Launch, RemoteRun, Verdict
from db.money import budgets, microusd
from db.noise import SERIES_NAME
from db.session import Database
from db.states import ExperimentKind, FindingStatus, JobState, RemoteRunState, VerdictOutcome
from experiments.job.result import Failure
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord, Stage
from experiments.recording import load_test_spec
from experiments.space.configuration import Configuration as Point
from knowledge.queries.verification import (
    Standing,
    VerificationView,
    VerifiedRow,
    fresh_runs,
    verification,
)
from tests.history.model_elsewhere import FOLDER, move_model_away
from tests.integration.campaign.sealed import dispatch, propose
from tests.integration.campaign.test_promoting import (
    FRESH,
    KEY,
    ORIGINAL,
    THERE,
    Judged,
    measured,
    run,
)
from tests.integration.cli.command import Autoinfer
from tests.new_database import database_url
from tests.simulated.by_hand import launch, measure_baseline, run_by_hand
from tests.simulated.campaign import SPACE, made_up_target, registered_here, start

HERE = Limits()

TIMES_ALONE = "; latency only, quality is not known"


def pairs(candidate_ms: float) -> Callable[[TestJob], list[LaunchRecord]]:
    """Launches enough for a verdict: full pairs and those of the validation, all of them quiet."""

    def launches(spec: TestJob) -> list[LaunchRecord]:
        random = Random(spec.experiment_id)
        stages = [Stage.QUICK, *[Stage.FULL] * 3, *[Stage.VALIDATION] * 2]
        return [
            launch(arm, Point.of(knobs), ms * (1 + 0.004 * random.gauss(0.0, 1.0)), index, stage)
            for index, stage in enumerate(stages)
            for arm, knobs, ms in (
                (Arm.CONTROL, spec.control, 10.0),
                (Arm.CANDIDATE, spec.candidate, candidate_ms),
            )
        ]

    return launches


@dataclass
class Campaigned:
    """A campaign with two supported verdicts, E-0002 and E-0003, the second of which is the best."""

    database: Database
    campaign_id: int
    runs: list[int]

    def run(self, candidate_ms: float | None = None, failure: Failure | None = None) -> Callable[[str], None]:
        """A worker's turn: the newest experiment is measured as its first run was, or as is given."""

        def wait(device: str) -> None:
            with self.database.read() as session:
                newest = session.scalars(select(func.max(Experiment.id))).one()
                first = session.get_one(Experiment, newest).reproduces_experiment_id
            self.runs.append(newest)
            as_before = {2: 9.0, 3: 7.0}[first or 0]
            run_by_hand(self.database, newest, pairs(candidate_ms or as_before), failure)

        return wait

    def verify(self, wait: Callable[[str], None] | None = None, limits: Limits = HERE) -> VerificationView:
        return verify(self.database, self.campaign_id, Runner(wait or self.run()), limits)

    def standings(self) -> list[Standing]:
        with self.database.read() as session:
            return [row.standing for row in verification(session, self.campaign_id).verdicts]

    def told(self) -> list[str]:
        kinds = [EventKind.CAMPAIGN_VERIFYING, EventKind.CAMPAIGN_VERIFIED]
        with self.database.read() as session:
            return [each.text for each in events.read(session, kinds=kinds)]


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Campaigned]:
    database, campaign_id = start(tmp_path, weights="dummy")  # so that times alone decide
    measure_baseline(database, campaign_id)
    for tpot_ms in (9.9, 7.0):
        experiment_id = dispatch(database, campaign_id, propose(database, campaign_id, tpot_ms))
        run_by_hand(database, experiment_id, pairs(9.0 if tpot_ms > 9 else tpot_ms))
        with database.write() as session:
            assert learn_test(session, experiment_id) == VerdictOutcome.SUPPORTED
            note_best(session, campaign_id)
    yield Campaigned(database, campaign_id, [])
    database.close()


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


@pytest.fixture
def promoted(tmp_path: Path) -> Iterator[Judged]:
    """A supported test of the processor that a second device, which nobody has, supports too: E-0003."""
    judged = measured(tmp_path)
    assert judged.promote() == FRESH
    run(judged.database, judged.folder, THERE)
    judged.conclude()
    yield judged
    judged.database.close()


@contextmanager
def devices_that_are_there(folder: Path) -> Iterator[None]:
    with (
        registered_here(folder),
        patch("agent.campaign.elsewhere.find_target", made_up_target),
        patch("agent.campaign.verify.find_target", made_up_target),
    ):
        yield


def test_what_another_target_confirmed_is_reproduced_on_that_target(promoted: Judged) -> None:
    ran_on: list[str] = []

    def wait(device: str) -> None:
        ran_on.append(device)
        run(promoted.database, promoted.folder, device)

    with devices_that_are_there(promoted.folder):
        found = verify(promoted.database, promoted.campaign_id, Runner(wait), HERE)
    assert [row.standing for row in found.verdicts] == [Standing.AGREES] * 2, found.verdicts
    assert found.all_agree
    assert sorted(ran_on) == ["cpu", THERE]
    fresh = {row.experiment: row.fresh.experiment for row in found.verdicts if row.fresh}
    with promoted.database.read() as session:
        again = session.get_one(Experiment, parse_label_of(Noun.EXPERIMENT, fresh["E-0003"]))
        assert (again.kind, again.target) == (ExperimentKind.REPRODUCE, KEY)
        assert again.reproduces_experiment_id == FRESH
        assert load_test_spec(session, again.id).target == KEY
        told = {each.scope["target"]: each.strength for each in session.scalars(select(Finding))}
    assert set(told.values()) == {"reproduced"}
    assert KEY in told


def test_a_target_that_is_not_here_is_told_apart_from_a_verdict_that_differs(promoted: Judged) -> None:
    runner = Runner(lambda device: run(promoted.database, promoted.folder, device))
    found = verify(promoted.database, promoted.campaign_id, runner, HERE)
    assert {row.experiment: row.standing for row in found.verdicts} == {
        "E-0002": Standing.AGREES,
        "E-0003": Standing.NOT_HERE,
    }
    assert (found.all_here_agree, found.all_agree, found.whole) == (True, False, False)
    assert found.sentence == (
        "Of 2 supported verdicts 1 agreed in a fresh run and 1 could not be reproduced here"
    )
    (left,) = [row.why for row in found.verdicts if row.standing is Standing.NOT_HERE]
    assert left
    assert not left.endswith(".")
    with devices_that_are_there(promoted.folder):
        assert verify(promoted.database, promoted.campaign_id, runner, HERE).all_agree


def test_a_rented_target_of_a_promotion_without_a_budget_keeps_nothing_else_from_being_verified(
    promoted: Judged,
) -> None:
    with promoted.database.write() as session:
        session.get_one(Experiment, FRESH).target = RENTED
        session.execute(update(Job).where(Job.experiment_id == FRESH).values(device_class=RENTED))
    asked: list[str] = []

    def wait(device: str) -> None:
        asked.append(device)
        run(promoted.database, promoted.folder, device)

    found = verify(promoted.database, promoted.campaign_id, Runner(wait), HERE)
    why = {row.experiment: row.why for row in found.verdicts}["E-0003"]
    assert found.all_here_agree
    assert why.startswith(f"No budget in dollars covers {RENTED}")
    assert "autoinfer verify C-1 --budget-usd" in why
    unreachable = Runner(wait, unreachable=lambda device: "The provider knows no such account.")
    found = verify(promoted.database, promoted.campaign_id, unreachable, Limits(more_usd=5.0))
    why = {row.experiment: row.why for row in found.verdicts}["E-0003"]
    assert why == "The provider knows no such account"
    assert asked == ["cpu"]


def test_the_command_tells_what_can_not_be_reproduced_here_from_what_differs_by_its_exit_code(
    promoted: Judged, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a worker in this process in place of one of its own."""

    def by_a_worker_here(database: Database, *_: object) -> None:
        run(database, promoted.folder, "cpu")

    monkeypatch.setattr("agent.campaign.reproduce.until_ended", by_a_worker_here)
    line = ["--db", database_url(promoted.folder), "verify", "C-1", "--no-worker"]
    assert call(line) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "E-0003 was not checked: " in told
    assert call([*line, "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["all_here_agree"] is True
    with promoted.database.write() as session:
        fresh = session.scalars(select(Experiment.id).where(Experiment.reproduces_experiment_id == ORIGINAL))
        session.execute(
            update(Verdict)
            .where(Verdict.experiment_id.in_(set(fresh) - {FRESH}))
            .values(outcome=VerdictOutcome.REFUTED)
        )
    assert call(line) == 1


def interrupt(device: str) -> None:
    raise KeyboardInterrupt


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


def test_a_planted_verdict_is_found_to_differ_and_its_finding_is_contradicted(campaign: Campaigned) -> None:
    def wait(device: str) -> None:
        with campaign.database.read() as session:
            newest = session.scalars(select(func.max(Experiment.id))).one()
            planted = session.get_one(Experiment, newest).reproduces_experiment_id == 3
        run_by_hand(campaign.database, newest, pairs(10.0 if planted else 9.0))

    found = campaign.verify(wait)
    assert [row.standing for row in found.verdicts] == [Standing.DIFFERS, Standing.AGREES]
    assert not found.all_agree
    assert found.whole
    assert found.verdicts[0].why.startswith("refuted now, supported then, by another amount: ")
    assert found.sentence == "Of 2 supported verdicts 1 agreed in a fresh run and 1 differed" + TIMES_ALONE
    with campaign.database.read() as session:
        status = dict(session.execute(select(Finding.effect_log < -0.2, Finding.status)).all())
        (fresh,) = fresh_runs(session, 3)
    assert FindingStatus.CONTRADICTED in status.values()
    assert fresh.agreement.value == "differs"


def test_an_effect_that_is_supported_again_by_another_amount_differs(campaign: Campaigned) -> None:
    found = campaign.verify(campaign.run(8.0))
    assert [row.standing for row in found.verdicts] == [Standing.DIFFERS, Standing.DIFFERS]
    assert {row.fresh.outcome for row in found.verdicts if row.fresh} == {VerdictOutcome.SUPPORTED}
    assert all("both supported, but by another amount" in row.why for row in found.verdicts)


def test_an_interrupted_verification_is_gone_on_with_and_then_begins_anew(campaign: Campaigned) -> None:
    turns = iter([campaign.run(), interrupt])

    def wait(device: str) -> None:
        next(turns)(device)

    with pytest.raises(KeyboardInterrupt):
        campaign.verify(wait)
    assert campaign.standings() == [Standing.AGREES, Standing.WAITS]
    said = "Of 2 supported verdicts 1 agreed in a fresh run and 1 not run yet"
    assert campaign.told()[-1] == said + TIMES_ALONE
    assert campaign.verify().all_agree
    assert campaign.runs == [4, 6], "what had its answer was not run again"
    assert len(campaign.told()) == 3
    assert campaign.verify().all_agree
    assert campaign.runs == [4, 6, 7, 8]


def test_what_a_killed_process_left_is_gone_on_with(campaign: Campaigned) -> None:
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
    assert found.verdicts[1].why == "50s of the budget is left, and the first run took 1m"
    assert not found.whole
    assert campaign.verify().all_agree


def test_a_fresh_run_that_broke_says_nothing_and_is_tried_again_by_the_next_call(
    campaign: Campaigned,
) -> None:
    found = campaign.verify(campaign.run(failure=Failure("error", "No space left on device")))
    assert {row.standing for row in found.verdicts} == {Standing.BROKE}
    assert "No space left on device" in found.verdicts[0].why
    assert not found.whole
    assert not found.all_here_agree
    assert campaign.standings() == [Standing.BROKE, Standing.BROKE], "a page says the same"
    assert campaign.verify().all_agree


def test_a_model_that_is_not_on_this_machine_is_said_and_nothing_is_queued(campaign: Campaigned) -> None:
    move_model_away(campaign.database)
    found = campaign.verify()
    assert {row.standing for row in found.verdicts} == {Standing.NOT_HERE}
    assert found.verdicts[0].why == f"the campaign's model {FOLDER} is not on this machine"
    assert campaign.runs == []
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


def test_other_hardware_is_said_and_nothing_is_queued(campaign: Campaigned) -> None:
    with campaign.database.write() as session:
        for each in (2, 3):
            session.get_one(Experiment, each).target = "cpu:Another:64 cores"
    found = campaign.verify()
    assert {row.standing for row in found.verdicts} == {Standing.NOT_HERE}
    assert found.verdicts[0].why.startswith("it was measured on cpu:Another:64 cores, and cpu here is cpu:")
    assert campaign.runs == []
    with campaign.database.read() as session:
        kinds = session.scalars(select(Experiment.kind)).all()
    assert ExperimentKind.REPRODUCE not in kinds


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


RENTED = "modal:L4"


def rented(campaign: Campaigned, bound_usd: float) -> None:
    """As if both verdicts had been measured on a rented machine, each quoted so much at most."""
    with campaign.database.write() as session:
        session.execute(update(Job).where(Job.experiment_id.in_((2, 3))).values(device_class=RENTED))
        row = session.get_one(Campaign, campaign.campaign_id)
        row.spec = {**row.spec, "target": RENTED}
        for each in session.scalars(select(Job).where(Job.experiment_id.in_((2, 3)))):
            session.add(
                RemoteRun(
                    job_id=each.id,
                    campaign_id=campaign.campaign_id,
                    experiment_id=each.experiment_id,
                    executor="modal",
                    target=RENTED,
                    kind="test",
                    key=f"key-{each.id}",
                    state=RemoteRunState.ENDED,
                    day=0,
                    expected_s=60.0,
                    expected_microusd=microusd(bound_usd / 2),
                    reserved_microusd=microusd(bound_usd),
                    actual_microusd=microusd(bound_usd / 4),
                    basis="as it was",
                )
            )


def test_a_rented_machine_without_a_budget_or_room_in_it_is_refused_before_anything_is_queued(
    campaign: Campaigned,
) -> None:
    rented(campaign, 2.0)
    with pytest.raises(UsageError, match=f"No budget in dollars covers {RENTED}") as none:
        campaign.verify(interrupt)
    assert "the first runs there were quoted $4.00 at most in all" in none.value.message
    assert none.value.hint == "Give it one: autoinfer verify C-1 --budget-usd 4.00"
    with pytest.raises(UsageError, match="No fresh run could be submitted") as small:
        campaign.verify(interrupt, Limits(more_usd=1.0))
    assert "It costs $2.00 at most, and the budget of C-1 has $1.00 left" in small.value.message
    assert campaign.told() == []
    with campaign.database.read() as session:
        assert session.scalars(select(func.max(Experiment.id))).one() == 3
        assert budgets(session) == [], "what was refused left nothing behind"


def quote_dearer(campaign: Campaigned) -> None:
    """As if a worker had asked for the price of the newest job, which is beyond what is left."""
    with campaign.database.write() as session:
        job = session.scalars(select(Job).order_by(Job.id.desc())).first()
        assert job is not None
        session.add(
            JobQuote(
                job_id=job.id,
                target=RENTED,
                expected_s=60.0,
                bound_s=120.0,
                expected_microusd=microusd(4.0),
                bound_microusd=microusd(90.0),
                basis="dearer now",
                waits_because="It costs $90.00 at most, and the budget of C-1 has $5.00 left.",
            )
        )


def test_a_fresh_run_that_no_budget_will_have_room_for_is_taken_back_and_left_to_the_next_call(
    campaign: Campaigned,
) -> None:
    rented(campaign, 2.0)

    def wait(device: str) -> None:
        assert device == RENTED
        quote_dearer(campaign)

    found = campaign.verify(wait, Limits(more_usd=5.0))
    assert {row.standing for row in found.verdicts} == {Standing.WAITS}
    assert found.verdicts[0].why.startswith("no budget has room for it: It costs $90.00 at most")
    with campaign.database.read() as session:
        states = session.scalars(select(Job.state).where(Job.experiment_id > 3)).all()
        assert set(states) == {JobState.CANCELLED}


def test_one_reproduction_on_a_rented_machine_is_bounded_by_the_same_budgets(
    campaign: Campaigned, tmp_path: Path
) -> None:
    rented(campaign, 2.0)
    autoinfer = Autoinfer(tmp_path)
    for words, says in (
        ("", f"No budget in dollars covers {RENTED}"),
        (" --budget-usd 1", "It costs $2.00 at most, and the budget of C-1 has $1.00 left"),
    ):
        refused = autoinfer(f"reproduce E-0002{words}")
        assert (refused.code, says in refused.err) == (2, True), refused.err
        assert "autoinfer reproduce E-0002 --budget-usd 2.00" in refused.err
    with campaign.database.write() as session:
        assert session.scalars(select(func.max(Experiment.id))).one() == 3
        assert budgets(session) == [], "what was refused left nothing behind"
        allow_reproduction(session, 2, RENTED, more_usd=5.0)
    look = price_watch(campaign.database, 2, RENTED, pytest.fail)

    def wait() -> None:
        look()
        quote_dearer(campaign)

    with pytest.raises(NoRoom, match=r"costs \$90.00 at most"):
        reproduce(campaign.database, 2, wait, device=RENTED)
    with campaign.database.write() as session:
        assert session.scalars(select(Job.state).where(Job.experiment_id > 3)).all() == [JobState.CANCELLED]
        more_dollars(session, campaign.campaign_id, -4.5, None)
        with pytest.raises(UsageError, match=r"has \$0.500 left"):
            allow_reproduction(session, 2, RENTED)
        enqueue_reproduction(session, 2, RENTED)
        allow_reproduction(session, 2, RENTED)  # that one is gone on with, and watched


@pytest.mark.parametrize(
    ("target", "why"), [("modal:H100!", "confirmed and not reproduced"), ("cuda:0,cuda:1", "one device")]
)
def test_a_target_that_can_t_reproduce_is_refused_before_anything_is_written(
    campaign: Campaigned, target: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        campaign.verify(interrupt, Limits(target=target))
    assert campaign.told() == []
    with campaign.database.read() as session:
        assert session.scalars(select(func.max(Experiment.id))).one() == 3
