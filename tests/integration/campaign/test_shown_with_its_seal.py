"""A verdict is shown with its seal, and says what was altered since or does not follow from the samples."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from agent.campaign.rerun.promote import ask
from configs.errors import UsageError
from db.labels import Noun, format_label
from db.models import (
    Experiment,
    Finding,
    Job,
    Launch,
    Measurement,
    Verdict,
)
from db.states import Arm as StoredArm
from db.states import VerdictOutcome
from experiments.rejudging import ALIKE
from knowledge.findings.keeping import update_findings
from knowledge.findings.rules import Rule
from knowledge.findings.verdict_fact import SAYING, Saying
from knowledge.queries.found.finding_detail import finding_detail
from knowledge.queries.measured.belief import CheckState, checks_of
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.report.gathering import report
from tests.integration.campaign.sealed import Dispatched, change_plan, dispatched, one_pair
from tests.simulated.by_hand import run_by_hand

__all__ = ["dispatched"]  # the fixture


def test_what_was_left_alone_is_judged_and_shows_its_seal(dispatched: Dispatched) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    with dispatched.database.read() as session:
        detail = experiment_detail(session, dispatched.experiment_id)
        assert detail.verdict is not None
        assert detail.verdict.judge["name"] == "launch-interval"
        assert detail.verdict.preregistration_digest == detail.preregistration_digest
        assert len(str(detail.preregistration_digest)) == 64
        assert detail.changed_since_sealed is None
        assert detail.verdict.effect is not None


def test_an_experiment_that_is_altered_after_its_verdict_says_so_when_it_is_shown(
    dispatched: Dispatched,
) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    with dispatched.database.write() as session:
        change_plan(session, dispatched, min_effect=0.5)
    with dispatched.database.read() as session:
        detail = experiment_detail(session, dispatched.experiment_id)
    assert "min_effect of its plan is 0.5" in str(detail.changed_since_sealed)


def test_no_fresh_run_is_proposed_of_a_test_whose_seal_is_broken(dispatched: Dispatched) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    label = format_label(Noun.EXPERIMENT, dispatched.experiment_id)
    command = f"autoinfer reproduce {label}"
    with dispatched.database.write() as session:  # a report names what is supported alone
        session.execute(update(Verdict).values(outcome=VerdictOutcome.SUPPORTED))
        session.execute(update(Experiment).values(started_at=datetime.now(UTC)))
    with dispatched.database.read() as session:
        assert experiment_detail(session, dispatched.experiment_id).reproduce_command == command
        assert command in commands_of_report(session)
    with dispatched.database.write() as session:
        change_plan(session, dispatched, min_effect=0.5)
    with dispatched.database.read() as session:
        assert experiment_detail(session, dispatched.experiment_id).reproduce_command is None
        assert command not in commands_of_report(session)
        with pytest.raises(UsageError, match=r"min_effect of its plan is 0\.5.* was sealed") as refused:
            ask(session, dispatched.experiment_id, "cpu")
    assert "Put back what was changed" in str(refused.value.hint)


def test_a_dispute_is_not_answered_by_a_fresh_run_of_a_test_whose_seal_is_broken(
    dispatched: Dispatched,
) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    with dispatched.database.write() as session:
        verdict = session.scalars(select(Verdict)).one()
        verdict.outcome = VerdictOutcome.SUPPORTED
        update_findings(session, verdict.id)
        helps = session.get_one(Finding, 1)
        no_help = {**helps.scope, SAYING: Saying.DOES_NOT_HELP.value}
        session.add(
            Finding(
                key="told",
                claim="It is no faster.",
                scope=no_help,
                strength="told",
                rule=Rule.TOLD,
                status=helps.status,
            )
        )
        session.flush()
        (dispute,) = finding_detail(session, 1).disputes
        assert (
            dispute.command == f"autoinfer reproduce {format_label(Noun.EXPERIMENT, verdict.experiment_id)}"
        )
        change_plan(session, dispatched, min_effect=0.5)
        (dispute,) = finding_detail(session, 1).disputes
        assert str(dispute.command).startswith("autoinfer enqueue ")


def commands_of_report(session: Session) -> list[str]:
    return [each.command for each in report(session, 1, datetime.now(UTC)).commands]


def test_a_verdict_under_another_seal_says_so_when_it_is_shown(dispatched: Dispatched) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    with dispatched.database.write() as session:
        session.execute(update(Verdict).values(preregistration_digest="e" * 64))
    with dispatched.database.read() as session:
        detail = experiment_detail(session, dispatched.experiment_id)
    assert "the seal of its verdict is eeeeeeeeeeee" in str(detail.changed_since_sealed)


def forget_the_last_time(session: Session) -> None:
    last = session.scalar(select(func.max(Measurement.id)).where(Measurement.metric == "tpot_ms"))
    session.execute(delete(Measurement).where(Measurement.id == last))


REWRITTEN: dict[str, tuple[Callable[[Session], object], str]] = {
    "nothing": (lambda s: None, ALIKE),
    "every sample alike": (
        lambda s: s.execute(update(Measurement).values(value=Measurement.value * 1.001)),
        ALIKE,  # the ratio is what it was
    ),
    "samples of one arm": (
        lambda s: s.execute(
            update(Measurement)
            .where(Measurement.launch_id.in_(select(Launch.id).where(Launch.arm == StoredArm.CANDIDATE)))
            .values(value=Measurement.value * 0.9)
        ),
        "another verdict: its effect_log is -0.356675, and comes to -0.462035",
    ),
    "a sample that is gone": (lambda s: forget_the_last_time(s), "its samples is 16, and comes to 15"),
    "the outcome": (
        lambda s: s.execute(update(Verdict).values(outcome=VerdictOutcome.SUPPORTED)),
        "its outcome is supported, and comes to inconclusive",
    ),
    "the quality": (
        lambda s: s.execute(update(Verdict).values(quality={"state": "held"})),
        "quality.state is held, and comes to not measured",
    ),
    "a sample of no known metric": (
        lambda s: s.execute(update(Measurement).values(metric="speed")),
        "not possible: a stored sample can't be read",
    ),
    "the job": (lambda s: s.execute(delete(Job)), "not possible: E-0002 has no job"),
}


@pytest.mark.parametrize("what", REWRITTEN)
def test_a_verdict_that_the_stored_samples_do_not_give_says_so_when_it_is_shown(
    dispatched: Dispatched, what: str
) -> None:
    rewrite, words = REWRITTEN[what]
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    with dispatched.database.write() as session:
        rewrite(session)
    with dispatched.database.read() as session:
        detail = experiment_detail(session, dispatched.experiment_id, judge=True)
    assert words in str(detail.judged_again)


def test_a_verdict_of_another_version_of_the_judge_is_not_held_against_this_one(
    dispatched: Dispatched, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    monkeypatch.setattr("agent.judge.launch_interval.LaunchIntervalJudge.version", "999")
    with dispatched.database.read() as session:
        detail = experiment_detail(session, dispatched.experiment_id)
    assert str(detail.judged_again).endswith(f", and version 999 is installed; by that, {ALIKE}"), (
        detail.judged_again
    )
    agrees = next(each for each in checks_of(detail, (), ()) if each.claim == "The installed judge agrees")
    assert (agrees.state, agrees.because) == (CheckState.HOLDS, detail.judged_again)


def test_a_verdict_that_the_installed_judge_would_not_give_may_not_be_believed(
    dispatched: Dispatched, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_by_hand(dispatched.database, dispatched.experiment_id, one_pair)
    dispatched.learn()
    with dispatched.database.read() as session:
        assert experiment_detail(session, dispatched.experiment_id).judged_again is None, "the same version"
    monkeypatch.setattr("agent.judge.launch_interval.LaunchIntervalJudge.version", "999")
    with dispatched.database.write() as session:
        session.execute(update(Verdict).values(effect_log=-9.0))
    with dispatched.database.read() as session:
        detail = experiment_detail(session, dispatched.experiment_id)
    agrees = next(each for each in checks_of(detail, (), ()) if each.claim == "The installed judge agrees")
    assert agrees.state is CheckState.FAILS
    assert "its effect_log is -9, and comes to" in agrees.because
