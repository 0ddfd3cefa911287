"""What the levers on four H200s would have been spared: the tests that are foreseen to be confounded."""

from dataclasses import fields
from pathlib import Path

from sqlalchemy import select

from agent.campaign.known.facts import Queued
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.verdicts import CONFOUNDERS
from agent.campaign.separation.foreseen import Confounder, foresee
from agent.judge.confounding import Difference
from agent.proposers.port import Trial
from agent.proposers.separation import PROPOSER
from configs.quantities import format_duration
from db.models import Experiment, Hypothesis, Verdict
from db.states import VerdictOutcome
from experiments.space.loading import load_space
from tests.recorded.levers_on_four import levers_on_four

DOCS = Path(__file__).parents[3] / "docs"


def test_two_of_three_confounded_tests_and_five_of_nine_open_questions_were_known_beforehand(
    tmp_path: Path,
) -> None:
    database = levers_on_four(tmp_path)
    with database.read() as session:
        facts = read_facts(session, 1)
        space = load_space(facts.spec.space)
        judged = session.execute(
            select(Experiment, Verdict)
            .join(Verdict, Verdict.experiment_id == Experiment.id)
            .where(Verdict.outcome == VerdictOutcome.CONFOUNDED)
            .order_by(Experiment.id)
        ).all()
        asked = {each.id: each for each in session.scalars(select(Hypothesis))}
    database.close()
    trials = {each.experiment_id: each for each in facts.trials}
    told = {
        verdict.experiment_id: tuple(Difference(**each) for each in verdict.judge[CONFOUNDERS])
        for _, verdict in judged
    }

    def known(queued: Queued, before: int | None = None) -> bool:
        """Whether it was known when the experiment `before` was begun, or in the end."""
        begun = None if before is None else next(each for each, _ in judged if each.id == before).started_at
        seen = [
            Confounder(each.id, 1, trials[each.id].control, trials[each.id].candidate, told[each.id])
            for each, _ in judged
            if begun is None or (each.finished_at is not None and each.finished_at < begun)
        ]
        return foresee(queued, seen, space.pinned_keys(queued.control, queued.candidate)) is not None

    spared = [
        experiment
        for experiment, _ in judged
        if known(as_queued(trials[experiment.id], asked[trials[experiment.id].hypothesis_id]), experiment.id)
    ]
    open_questions = [each for each in facts.queue if each.question is not None]
    ahead = [each for each in open_questions if known(each)]
    assert (len(spared), len(judged), len(ahead), len(open_questions)) == (2, 3, 5, 9)
    assert not [each for each in facts.queue if each.proposer == PROPOSER and known(each)]
    seconds = sum((each.finished_at - each.started_at).total_seconds() for each in spared)
    page = (DOCS / "confounders.md").read_text(encoding="utf-8")
    assert f"{format_duration(round(seconds))} of a GPU" in page


def as_queued(trial: Trial, hypothesis: Hypothesis) -> Queued:
    """A hypothesis as it stood in the queue before its test."""
    same = {each.name for each in fields(Queued)} - {"control", "candidate", "prediction"}
    columns = {name: getattr(hypothesis, name) for name in same if hasattr(hypothesis, name)}
    return Queued(
        **{**columns, "lever": trial.lever},
        control=trial.control,
        candidate=trial.candidate,
        prediction=hypothesis.prediction,
    )
