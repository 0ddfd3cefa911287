"""A question that another campaign answered in the same scope is told as answered there, not tested again.

The loop, the database and the judge are the real ones; jobs are recorded by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.outcome import campaign_outcome
from agent.campaign.queue.accept import accept
from agent.ground.legal import legal_here
from agent.proposers.port import Draft
from db import events
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Finding, FindingEvidence, Hypothesis, Job, Verdict
from db.session import Database
from db.states import ExperimentKind, FindingStatus, HypothesisState, VerdictOutcome
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord, Stage
from experiments.measurement.plan import Prediction
from experiments.recording import load_test_spec
from experiments.space.configuration import Configuration
from knowledge.queries.answered.answers import campaign_answers
from knowledge.telling.answers import answers_markdown
from knowledge.telling.answers_sentence import instead_of
from tests.simulated.by_hand import launch, measure_baseline, run_by_hand
from tests.simulated.campaign import SPACE, start
from tests.simulated.turn_by_turn import Bench

QUESTION = {
    "id": "two_threads",
    "asks": "Are two threads faster?",
    "claim": "Two threads make a token at least 3 % faster.",
    "control": {"simulated.bits": 1100.0},
    "candidate": {"simulated.bits": 1100.0, "simulated.threads": 2},
    "metric": "tpot_ms",
    "min_effect": "3%",
    "why": "It is simulated.",
}


def slower(spec: TestJob) -> list[LaunchRecord]:
    """Four launch pairs in which the candidate takes a fifth longer, more or less."""
    arms = ((Arm.CONTROL, spec.control, 10.0), (Arm.CANDIDATE, spec.candidate, 12.0))
    return [
        launch(
            arm, Configuration.of(knobs), tpot_ms + 0.03 * index, index, Stage.FULL if index else Stage.QUICK
        )
        for index in range(4)
        for arm, knobs, tpot_ms in arms
    ]


@pytest.fixture
def answered(tmp_path: Path) -> Iterator[Database]:
    """A database with C-1, which answered the question by E-0002: refuted."""
    database = answering(tmp_path, questions=[QUESTION])
    yield database
    database.close()


def answering(folder: Path, **changes: object) -> Database:
    database, campaign_id = start(folder, **changes)
    measure_baseline(database, campaign_id)
    bench = Bench(database, campaign_id)
    bench.drive(lambda: run_by_hand(database, 2, slower))
    with database.read() as session:
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == 2)).one()
        assert verdict.outcome is VerdictOutcome.REFUTED, verdict.reason
    return database


def asked(database: Database, folder: Path, **changes: object) -> Hypothesis:
    """The hypothesis of the question in one more campaign, after its first turns."""
    _, campaign_id = start(folder, database, **{"questions": [QUESTION], **changes})
    measure_baseline(database, campaign_id)
    Bench(database, campaign_id).drive()
    with database.read() as session:
        row = session.scalars(
            select(Hypothesis).where(Hypothesis.campaign_id == campaign_id, Hypothesis.question.is_not(None))
        ).one()
        session.expunge(row)
    return row


def experiments_of(session: Session, hypothesis: Hypothesis) -> list[Experiment]:
    return list(session.scalars(select(Experiment).where(Experiment.hypothesis_id == hypothesis.id)))


def test_it_is_told_as_answered_there_and_not_tested_again(answered: Database, tmp_path: Path) -> None:
    row = asked(answered, tmp_path)
    why = "E-0002 of C-1 answered it with the same arms, plan and versions: refuted"
    assert (row.state, row.state_reason) == (HypothesisState.WITHDRAWN, why)
    with answered.read() as session:
        assert experiments_of(session, row) == []
        assert campaign_outcome(session, 2)["open_questions"] == []
        told = [each.text for each in events.read(session, kinds=[EventKind.HYPOTHESIS_PROPOSED])]
        assert f"{QUESTION['claim'].rstrip('.')}, by questions; not tested again: {why}" in told  # type: ignore[attr-defined]
        (contrast,) = campaign_answers(session, 2).contrasts
        (there,) = campaign_answers(session, 1).contrasts
        page = answers_markdown(campaign_answers(session, 2))
    assert (contrast.experiment, contrast.answered_in) == ("E-0002", "C-1")
    assert (contrast.outcome, contrast.effect, contrast.launches) == (
        there.outcome,
        there.effect,
        there.launches,
    )
    assert (there.answered_in, contrast.why_open) == (None, None)
    assert instead_of(contrast) == "of C-1, which asked the same"
    assert "| E-0002 of C-1 |" in page
    assert "it was not tested again (`autoinfer run --ask-again` does)" in page
    assert "Nothing: every contrast was supported or refuted." in page


def test_what_was_answered_there_keeps_nobody_from_proposing_the_same(
    answered: Database, tmp_path: Path
) -> None:
    """A campaign's best rests on its own tests alone."""
    row = asked(answered, tmp_path)
    with answered.write() as session:
        facts = read_facts(session, row.campaign_id)
        space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
        control = space.with_change(space.configuration({}), QUESTION["control"])  # type: ignore[arg-type]
        candidate = space.with_change(control, {"simulated.threads": 2})
        assert candidate.digest not in facts.taken(control)
        draft = Draft(
            claim="It is faster.",
            control=control,
            candidate=candidate,
            lever="threads",
            prediction=Prediction(log_ratio_mean=-0.1, log_ratio_sd=0.1),
            min_effect=0.03,
            refuted_if="It is not.",
            rationale="It may.",
            proposer="rules",
        )
        accepted = accept(session, row.campaign_id, draft, "tpot_ms", space)
        assert session.get_one(Hypothesis, accepted.hypothesis_id).state is HypothesisState.QUEUED


def test_it_is_tested_where_the_campaign_asks_again(answered: Database, tmp_path: Path) -> None:
    row = asked(answered, tmp_path, ask_again=True)
    with answered.read() as session:
        assert len(experiments_of(session, row)) == 1
        (contrast,) = campaign_answers(session, 2).contrasts
    assert contrast.answered_in is None


@pytest.mark.parametrize(
    "changes",
    [
        {"questions": [{**QUESTION, "claim": "Two threads are faster."}]},
        {"questions": [{**QUESTION, "min_effect": "2%"}]},
        {"questions": [{**QUESTION, "control": {}, "candidate": {"simulated.threads": 2}}]},
        {"plan.alpha": 0.04},
        {"plan.margins.bits_per_byte": "2%"},
        {"plan.workload.new_tokens": 9},
        {"launches": "in_turn"},
    ],
    ids=["claim", "min_effect", "arms", "level", "margins", "workload", "launches"],
)
def test_another_contrast_or_plan_is_tested(
    answered: Database, tmp_path: Path, changes: dict[str, object]
) -> None:
    row = asked(answered, tmp_path, **changes)
    with answered.read() as session:
        assert len(experiments_of(session, row)) == 1


def test_one_whose_arms_would_be_up_in_turn_here_is_tested_where_they_were_side_by_side_there(
    answered: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "agent.campaign.queue.answered_there.with_room",
        lambda facts, control, candidate: replace(facts, at_once=1 if control != candidate else None),
    )
    row = asked(answered, tmp_path)
    with answered.read() as session:
        assert len(experiments_of(session, row)) == 1


def test_what_does_not_make_it_another_contrast_is_not(answered: Database, tmp_path: Path) -> None:
    """The words around the claim, the seed, how long a test may take, and the numbers in the space."""
    changes = {
        "questions": [{**QUESTION, "id": "t2", "asks": "Which are?", "why": "To know."}],
        "seed": 11,
        "budget": "9m",
        "plan.full_pairs": 12,
        "space_text": SPACE.replace("[10.0, 9.9, 7.0]", "[10.0, 9.9, 9.8, 7.0]"),
    }
    assert asked(answered, tmp_path, **changes).state is HypothesisState.WITHDRAWN


def test_what_was_calibrated_on_a_file_of_the_user_s_is_tested_again(tmp_path: Path) -> None:
    """It may hold other texts by now."""
    of = "{name: simulated.corpus, lever: text, values: [own, 'user:/t.jsonl'], default: own, help: Texts.}"
    space = f"{SPACE}  - {of}\n"
    on_a_file = {**QUESTION, "candidate": {"simulated.bits": 1100.0, "simulated.corpus": "user:/t.jsonl"}}
    database = answering(tmp_path, questions=[on_a_file], space_text=space)
    row = asked(database, tmp_path, questions=[on_a_file], space_text=space)
    with database.read() as session:
        assert len(experiments_of(session, row)) == 1
    database.close()


def test_what_a_cache_of_prefixes_does_is_tested_again(tmp_path: Path) -> None:
    """Answers of before prompts had names may be of prompts that were read before."""
    knob = (
        "{name: serving.prefix_caching, lever: caching, values: ['off', 'on'], default: 'off', help: Cache.}"
    )
    cached = {**QUESTION, "candidate": {"simulated.bits": 1100.0, "serving.prefix_caching": "on"}}
    database = answering(tmp_path, space_text=f"{SPACE}  - {knob}\n", questions=[cached])
    row = asked(database, tmp_path, space_text=f"{SPACE}  - {knob}\n", questions=[cached])
    with database.read() as session:
        assert row.state is not HypothesisState.WITHDRAWN
        assert len(experiments_of(session, row)) == 1
    database.close()


def other_versions(session: Session) -> None:
    session.execute(update(Experiment).where(Experiment.id == 2).values(versions={"engine": "1.0"}))
    later = {"engine": "1.1"}
    session.execute(
        update(Experiment).where(Experiment.kind == ExperimentKind.BASELINE).values(versions=later)
    )


def same_versions(session: Session) -> None:
    session.execute(update(Experiment).values(versions={"engine": "1.0"}))


def a_fresh_run_that_says_the_opposite(session: Session) -> None:
    first = session.get_one(Experiment, 2)
    judged = session.scalars(select(Verdict).where(Verdict.experiment_id == first.id)).one()
    fresh = Experiment(
        campaign_id=1,
        hypothesis_id=first.hypothesis_id,
        kind=ExperimentKind.REPRODUCE,
        target=first.target,
        control_configuration_id=first.control_configuration_id,
        candidate_configuration_id=first.candidate_configuration_id,
        plan=first.plan,
        reproduces_experiment_id=first.id,
    )
    session.add(fresh)
    session.flush()
    columns = {
        each.name: getattr(judged, each.name)
        for each in Verdict.__table__.columns
        if each.name not in ("id", "experiment_id", "outcome")
    }
    session.add(Verdict(**columns, experiment_id=fresh.id, outcome=VerdictOutcome.SUPPORTED))


def a_finding_that_is_stale(session: Session) -> None:
    verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == 2)).one()
    rests = select(FindingEvidence.finding_id).where(FindingEvidence.verdict_id == verdict.id)
    found = session.execute(
        update(Finding).where(Finding.id.in_(rests)).values(status=FindingStatus.STALE)
    ).rowcount  # type: ignore[attr-defined]
    assert found, "the scene needs a finding"


def another_judge(session: Session) -> None:
    resealed(session, judge_version="0")


def other_texts(session: Session) -> None:
    resealed(session, texts="of another Python")


def another_reference_of_quality(session: Session) -> None:
    resealed(session, reference={"simulated.tpot_ms": 9.9})


def another_model(session: Session) -> None:
    session.execute(update(Campaign).where(Campaign.id == 1).values(model_fingerprint="0" * 64))


def another_target(session: Session) -> None:
    session.execute(update(Experiment).where(Experiment.id == 2).values(target="elsewhere/cpu"))


def resealed(session: Session, **changes: object) -> None:
    spec = load_test_spec(session, 2).model_copy(update=changes)
    session.execute(update(Job).where(Job.experiment_id == 2).values(spec=spec.model_dump(mode="json")))


@pytest.mark.parametrize(
    ("happened", "tests"),
    [
        (same_versions, 0),
        (other_versions, 1),
        (a_fresh_run_that_says_the_opposite, 1),
        (a_finding_that_is_stale, 1),
        (another_judge, 1),
        (other_texts, 1),
        (another_reference_of_quality, 1),
        (another_model, 1),
        (another_target, 1),
    ],
)
def test_an_answer_of_another_scope_or_that_is_doubted_is_none(
    answered: Database, tmp_path: Path, happened: Callable[[Session], None], tests: int
) -> None:
    _, campaign_id = start(tmp_path, answered, questions=[QUESTION])
    measure_baseline(answered, campaign_id)
    with answered.write() as session:
        happened(session)
    Bench(answered, campaign_id).drive()
    with answered.read() as session:
        row = session.scalars(
            select(Hypothesis).where(Hypothesis.campaign_id == campaign_id, Hypothesis.question.is_not(None))
        ).one()
        assert len(experiments_of(session, row)) == tests
