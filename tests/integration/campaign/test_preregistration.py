"""What was sealed before the first sample can't be changed after it: no verdict, and the campaign goes on."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test, unlearnt
from agent.campaign.queue.accept import Duplicate
from agent.campaign.queue.dispatch import dispatch_test
from agent.campaign.rerun.reproduce import conclude, enqueue_reproduction
from agent.proposers.user import PROPOSER as USER
from db import events
from db.event_kinds import EventKind
from db.models import (
    Configuration,
    Environment,
    Event,
    Experiment,
    Hypothesis,
    Job,
    Launch,
    Verdict,
)
from db.session import open_database
from db.states import ExperimentState, HypothesisState, JobState
from experiments.engines.port import DEVICE_BUSY
from experiments.job.result import Failure
from experiments.job.seal import TAMPERED, broken_seal, seal_of
from experiments.job.spec import TestJob, parse_job
from experiments.measurement.evidence import Arm
from experiments.measurement.judging import Outcome
from experiments.recording import load_test_spec
from experiments.sealing import tampered
from experiments.space.configuration import Configuration as Point
from knowledge.report.evidence import seals
from tests.integration.campaign.sealed import Dispatched, change_plan, dispatch, dispatched, one_pair, propose
from tests.simulated.by_hand import launch, measure_baseline, run_by_hand
from tests.simulated.campaign import start
from tests.simulated.places import simulated_executor
from tests.simulated.queueing import database_url

__all__ = ["dispatched"]  # the fixture


def change_job(session: Session, it: Dispatched, **fields: Any) -> None:
    job = session.scalars(select(Job).where(Job.experiment_id == it.experiment_id)).one()
    job.spec = {**job.spec, **fields}


def change_job_plan(session: Session, it: Dispatched, **fields: Any) -> None:
    job = session.scalars(select(Job).where(Job.experiment_id == it.experiment_id)).one()
    change_job(session, it, plan={**job.spec["plan"], **fields})


def change_both_plans(session: Session, it: Dispatched) -> None:
    """The plan is altered everywhere alike, so that only the hash can tell."""
    change_plan(session, it, min_effect=0.001)
    change_job_plan(session, it, min_effect=0.001)
    session.get_one(Hypothesis, it.hypothesis_id).min_effect = 0.001


def change_arm(session: Session, it: Dispatched, arm: str) -> None:
    """The arm of the experiment becomes another stored configuration."""
    experiment = session.get_one(Experiment, it.experiment_id)
    other = experiment.candidate_configuration_id if arm == "control" else experiment.control_configuration_id
    setattr(experiment, f"{arm}_configuration_id", other)


def change_knobs(session: Session, it: Dispatched) -> None:
    """The stored candidate itself gets other knobs under its old digest."""
    experiment = session.get_one(Experiment, it.experiment_id)
    row = session.get_one(Configuration, experiment.candidate_configuration_id)
    row.knobs = {**row.knobs, "simulated.tpot_ms": 9.9}


def change_hypothesis(session: Session, it: Dispatched, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(session.get_one(Hypothesis, it.hypothesis_id), name, value)


def change_log(session: Session, it: Dispatched, seal: str = "e" * 64) -> None:
    kind = EventKind.HYPOTHESIS_PREREGISTERED.value
    event = session.scalars(select(Event).where(Event.kind == kind)).one()
    session.execute(
        update(Event)
        .where(Event.id == event.id)
        .values(data={**(event.data or {}), "preregistration_digest": seal})
    )


def forget_log(session: Session) -> None:
    session.execute(delete(Event).where(Event.kind == EventKind.HYPOTHESIS_PREREGISTERED.value))


MARGINS = {"bits_per_byte": 0.5, "task_points": 50.0}
SURER = {"log_ratio_mean": -0.35, "log_ratio_sd": 0.01}

TAMPERINGS: dict[str, tuple[Callable[[Session, Dispatched], None], str]] = {
    "min_effect of the plan": (
        lambda s, it: change_plan(s, it, min_effect=0.01),
        "min_effect of its plan is 0.01, and was sealed 0.03",
    ),
    "margins of the plan": (
        lambda s, it: change_plan(s, it, margins=MARGINS),
        "margins.bits_per_byte of its plan is 0.5, and was sealed 0.01",
    ),
    "prediction of the plan": (
        lambda s, it: change_plan(s, it, prediction=SURER),
        "prediction.log_ratio_mean of its plan is -0.35, and was sealed -0.3",
    ),
    "stopping plan": (lambda s, it: change_plan(s, it, full_pairs=40), "full_pairs of its plan is 40"),
    "level of support": (
        lambda s, it: change_plan(s, it, support_alpha=0.05),
        "support_alpha of its plan is 0.05",
    ),
    "metric of the plan": (
        lambda s, it: change_plan(s, it, metric="ttft_ms"),
        "metric of its plan is ttft_ms",
    ),
    "an empty plan": (
        lambda s, it: setattr(s.get_one(Experiment, it.experiment_id), "plan", {}),
        "is nothing",
    ),
    "plan of the job": (
        lambda s, it: change_job_plan(s, it, alpha=0.4),
        "alpha of its plan is 0.05, and its job has 0.4",
    ),
    "both plans alike": (lambda s, it: change_both_plans(s, it), "was sealed as"),
    "control of the job": (
        lambda s, it: change_job(s, it, control={"simulated.tpot_ms": 50.0}),
        "was sealed as",
    ),
    "judge of the job": (lambda s, it: change_job(s, it, judge="another"), "was sealed as"),
    "noise of the job": (
        lambda s, it: change_job(
            s, it, noise={"target_key": "x", "launches": 90, "degrees_of_freedom": 89, "launch_sd_log": 1e-9}
        ),
        "was sealed as",
    ),
    "a malformed job": (
        lambda s, it: change_job_plan(s, it, alpha="much"),
        "is malformed at test.plan.alpha",
    ),
    "control": (
        lambda s, it: change_arm(s, it, "control"),
        "its control was sealed otherwise (simulated.tpot_ms",
    ),
    "candidate": (lambda s, it: change_arm(s, it, "candidate"), "its candidate was sealed otherwise"),
    "knobs of the candidate": (
        lambda s, it: change_knobs(s, it),
        "knobs of its candidate are no longer those of",
    ),
    "prediction": (
        lambda s, it: change_hypothesis(s, it, prediction=SURER),
        "prediction.log_ratio_mean of H-001 is -0.35, and was sealed -0.3",
    ),
    "min_effect": (lambda s, it: change_hypothesis(s, it, min_effect=0.5), "min_effect of H-001 is 0.5"),
    "metric": (lambda s, it: change_hypothesis(s, it, metric="nll_bits"), "metric of H-001 is nll_bits"),
    "seal of the hypothesis": (
        lambda s, it: change_hypothesis(s, it, preregistration_digest="e" * 64),
        "the seal of H-001 is eeeeeeeeeeee",
    ),
    "seal of the experiment": (
        lambda s, it: setattr(s.get_one(Experiment, it.experiment_id), "preregistration_digest", None),
        "its seal is missing",
    ),
    "log": (lambda s, it: change_log(s, it), "the log tells the seal eeeeeeeeeeee"),
    "no log": (lambda s, it: forget_log(s), "the log no longer tells its seal"),
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_what_was_changed_after_the_fact_is_not_judged(dispatched: Dispatched, what: str) -> None:
    tamper, words = TAMPERINGS[what]
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    with dispatched.database.write() as session:
        tamper(session, dispatched)
    assert dispatched.learn() is Outcome.INCONCLUSIVE
    with dispatched.database.read() as session:
        experiment = session.get_one(Experiment, dispatched.experiment_id)
        assert (experiment.state, experiment.failure_kind) == (ExperimentState.FAILED, TAMPERED)
        assert words in str(experiment.failure)
        verdict = session.scalars(select(Verdict)).one()
        assert (verdict.effect_log, verdict.launches, verdict.judge["name"]) == (None, 0, "campaign loop")
        assert words in verdict.reason
        hypothesis = session.get_one(Hypothesis, dispatched.hypothesis_id)
        assert hypothesis.state is HypothesisState.INCONCLUSIVE
        told = events.read(session, kinds=[EventKind.EXPERIMENT_FAILED])
        assert [each.subject for each in told] == ["E-0002"]
    goes_on(dispatched)


def test_a_plan_from_before_a_field_was_not_altered(dispatched: Dispatched) -> None:
    """As a database has it in which a version without the field sealed and stored the test."""
    with dispatched.database.write() as session:
        experiment = session.get_one(Experiment, dispatched.experiment_id)
        job = session.scalars(select(Job).where(Job.experiment_id == experiment.id)).one()
        plan = {name: value for name, value in experiment.plan.items() if name != "latency_only"}
        spec = parse_job({**job.spec, "plan": plan})
        assert isinstance(spec, TestJob)
        seal = seal_of(spec)
        assert seal != experiment.preregistration_digest
        experiment.plan, experiment.preregistration_digest = plan, seal
        job.spec = {**job.spec, "plan": plan, "preregistration_digest": seal}
        session.get_one(Hypothesis, dispatched.hypothesis_id).preregistration_digest = seal
        change_log(session, dispatched, seal)
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    with dispatched.database.write() as session:
        experiment = session.get_one(Experiment, dispatched.experiment_id)
        assert (experiment.failure, tampered(session, experiment)) == (None, None)
        assert session.scalars(select(Verdict)).one().judge["name"] == "launch-interval"
        change_plan(session, dispatched, latency_only=True)
        assert "latency_only of its plan is True, and was sealed nothing" in str(
            tampered(session, experiment)
        )


def goes_on(it: Dispatched) -> None:
    """Another hypothesis of the same campaign is dispatched, run and judged."""
    further = dispatch(it.database, it.campaign_id, propose(it.database, it.campaign_id, 9.9))
    with it.database.read() as session:
        assert unlearnt(session, it.campaign_id) == []
    run_by_hand(
        it.database,
        further,
        lambda spec: [
            launch(Arm.CONTROL, Point.of(spec.control), 10.0),
            launch(Arm.CANDIDATE, Point.of(spec.candidate), 9.9),
        ],
    )
    with it.database.write() as session:
        assert unlearnt(session, it.campaign_id) == [further]
        learn_test(session, further)
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == further)).one()
        assert verdict.judge["name"] == "launch-interval"


def test_a_hypothesis_whose_test_broke_can_be_tested_again_by_its_user(dispatched: Dispatched) -> None:
    it = dispatched
    run_by_hand(it.database, it.experiment_id, one_pair, Failure("error", "No space left on device"))
    assert it.learn() is Outcome.INCONCLUSIVE
    with pytest.raises(Duplicate, match="H-001 claims the same change"):
        propose(it.database, it.campaign_id, 7.0)
    again = propose(it.database, it.campaign_id, 7.0, USER)
    experiment_id = dispatch(it.database, it.campaign_id, again)
    run_by_hand(it.database, experiment_id, one_pair)
    with it.database.write() as session:
        learn_test(session, experiment_id)
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == experiment_id)).one()
        assert verdict.launches == 2
    with pytest.raises(Duplicate, match="H-002 claims the same change"):
        propose(it.database, it.campaign_id, 7.0, USER)


def test_what_is_sealed_anew_after_its_device_failed_leaves_the_first_test_s_seal_in_order(
    dispatched: Dispatched,
) -> None:
    it = dispatched
    run_by_hand(it.database, it.experiment_id, one_pair, Failure(DEVICE_BUSY, "Somebody else is there."))
    with it.database.write() as session:
        learn_test(session, it.experiment_id)
        change_hypothesis(session, it, prediction=SURER)  # as outcomes of others move it
    again = dispatch(it.database, it.campaign_id, it.hypothesis_id)
    with it.database.read() as session:
        first, second = (session.get_one(Experiment, each) for each in (it.experiment_id, again))
        assert first.preregistration_digest != second.preregistration_digest
        assert (tampered(session, first), tampered(session, second)) == (None, None)
    with it.database.write() as session:
        change_hypothesis(session, it, preregistration_digest="e" * 64)
    with it.database.read() as session:
        for each in (it.experiment_id, again):
            assert "of H-001 is" in str(tampered(session, session.get_one(Experiment, each)))


def test_a_line_in_the_log_that_no_test_stands_behind_hides_nothing(dispatched: Dispatched) -> None:
    it = dispatched
    run_by_hand(it.database, it.experiment_id, one_pair)
    with it.database.write() as session:
        change_hypothesis(session, it, min_effect=0.001, preregistration_digest="e" * 64)
        kind = EventKind.HYPOTHESIS_PREREGISTERED.value
        told = session.scalars(select(Event).where(Event.kind == kind)).one()
        line = {**(told.data or {}), "experiment_id": 10**9, "preregistration_digest": "e" * 64}
        session.execute(
            insert(Event).values(
                campaign_id=told.campaign_id, at=told.at, kind=kind, subject=told.subject, text="", data=line
            )
        )
    with it.database.read() as session:
        changed = tampered(session, session.get_one(Experiment, it.experiment_id))
    assert "min_effect of H-001 is 0.001" in str(changed)


def test_a_reproduction_that_is_altered_is_not_concluded(dispatched: Dispatched) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    with dispatched.database.write() as session:
        fresh = enqueue_reproduction(session, dispatched.experiment_id)
    run_by_hand(dispatched.database, fresh, one_pair)
    with dispatched.database.write() as session:
        session.get_one(Experiment, fresh).preregistration_digest = "e" * 64
    with dispatched.database.write() as session:
        told = conclude(session, fresh)
    assert isinstance(told, str)
    assert "E-0003 was changed after it was preregistered: its seal is eeee" in told
    with dispatched.database.read() as session:
        assert session.scalars(select(Verdict.experiment_id)).all() == [dispatched.experiment_id]


def test_another_version_of_the_judge_than_the_sealed_one_gives_no_verdict(
    dispatched: Dispatched, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    monkeypatch.setattr("agent.judge.launch_interval.LaunchIntervalJudge.version", "999")
    assert dispatched.learn() is Outcome.INCONCLUSIVE
    with dispatched.database.read() as session:
        reason = session.scalars(select(Verdict.reason)).one()
    assert "and version 999 is installed" in reason


def test_a_worker_refuses_a_job_that_is_not_the_one_that_was_sealed(dispatched: Dispatched) -> None:
    from experiments.worker.worker import run_worker

    with dispatched.database.write() as session:
        change_job_plan(session, dispatched, min_effect=0.001)
    run_worker(dispatched.database, simulated_executor(dispatched.folder), "cpu", once=True)
    with dispatched.database.read() as session:
        job = session.scalars(select(Job).where(Job.experiment_id == dispatched.experiment_id)).one()
        assert job.state is JobState.FAILED
        assert "E-0002 was changed after it was preregistered" in str(job.error)
        assert session.scalar(select(func.count()).select_from(Launch)) == 1  # that of the baseline
    assert dispatched.learn() is Outcome.INCONCLUSIVE
    with dispatched.database.read() as session:
        assert session.get_one(Experiment, dispatched.experiment_id).failure_kind == TAMPERED


def test_nobody_sees_a_job_before_its_seal(dispatched: Dispatched) -> None:
    """The seal, the experiment and the job become visible in one commit, so no sample can be older."""
    further = propose(dispatched.database, dispatched.campaign_id, 9.9)
    other = open_database(database_url(dispatched.folder))

    def seen() -> list[tuple[int, str | None]]:
        with other.read() as session:
            rows = session.execute(
                select(Experiment.id, Experiment.preregistration_digest)
                .join(Job, Job.experiment_id == Experiment.id)
                .where(Experiment.hypothesis_id == further)
            )
            return [(row[0], row[1]) for row in rows]

    with dispatched.database.write() as session:
        facts = read_facts(session, dispatched.campaign_id)
        queued = next(each for each in facts.queue if each.id == further)
        experiment_id = dispatch_test(session, facts, queued)
        session.flush()
        assert seen() == []
    [(number, seal)] = seen()
    assert number == experiment_id
    with other.read() as session:
        experiment = session.get_one(Experiment, experiment_id)
        assert tampered(session, experiment) is None
        told = events.read(session, kinds=[EventKind.HYPOTHESIS_PREREGISTERED])[-1]
        assert (told.data or {})["preregistration_digest"] == seal
    other.close()


def test_the_seal_is_told_before_a_worker_takes_the_run_up_and_the_report_has_both(
    dispatched: Dispatched,
) -> None:
    """Launches are written down after the run's end: their time would hold of a seal made in between too."""
    from experiments.worker.worker import run_worker

    run_worker(dispatched.database, simulated_executor(dispatched.folder), "cpu", once=True)
    with dispatched.database.write() as session:
        for each in session.scalars(select(Launch)):
            each.started_at += timedelta(hours=1)
    with dispatched.database.read() as session:
        told = events.read(session, kinds=[EventKind.HYPOTHESIS_PREREGISTERED])[-1]
        experiment = session.get_one(Experiment, dispatched.experiment_id)
        assert experiment.started_at is not None
        assert experiment.created_at <= told.at <= experiment.started_at
        [sealed] = [
            each
            for each in seals(session, dispatched.campaign_id)
            if each.experiment == f"E-{experiment.id:04d}"
        ]
        assert (sealed.sealed_at, sealed.began_at) == (told.at, experiment.started_at)


@pytest.mark.parametrize("told", [None, "those of this Python"])
def test_the_texts_that_the_baseline_was_measured_with_are_sealed(tmp_path: Path, told: str | None) -> None:
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    with database.write() as session:
        session.execute(update(Environment).values(data={"machine": {} if told is None else {"texts": told}}))
    hypothesis_id = propose(database, campaign_id, 7.0)
    experiment_id = dispatch(database, campaign_id, hypothesis_id)
    with database.read() as session:
        spec = load_test_spec(session, experiment_id)
        assert spec.texts == told
        assert broken_seal(spec) is None
        assert broken_seal(spec.model_copy(update={"texts": "others"})) is not None
        assert tampered(session, session.get_one(Experiment, experiment_id)) is None
    database.close()
