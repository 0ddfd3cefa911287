"""Of a control that names no tokens of a step, what its launches took is part of where a finding holds."""

import pytest
from sqlalchemy import select

from db.models import Experiment, Finding, Launch
from db.states import FindingStatus, VerdictOutcome
from knowledge.findings.importing import export_verdicts
from knowledge.findings.keeping import update_findings
from knowledge.queries.found.scopes import scope_words
from knowledge.scope import steps_told_apart
from tests.history.campaign_history import History

SUPPORTED, REFUTED = VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED
NO_GAIN = (0.0, -0.01, 0.01)


def judged(history: History, hypothesis: int, outcome: VerdictOutcome, at_once: int, tokens: int) -> int:
    """A test of requests of 512 tokens, so many at once, with steps of so many tokens; its experiment."""
    effect = (-0.10, -0.12, -0.08) if outcome is SUPPORTED else NO_GAIN
    made = history.judge(hypothesis, outcome, effect=effect, learn=False)
    with history.database.write() as session:
        experiment = session.get_one(Experiment, made.experiment_id)
        workload = {**experiment.plan["workload"], "concurrency": at_once, "prompt_tokens": 512}
        experiment.plan = {**experiment.plan, "workload": workload}
        query = select(Launch).where(Launch.experiment_id == made.experiment_id)
        for launch in session.scalars(query):
            launch.resolved = {**launch.resolved, "max_batch_tokens": tokens}
        session.flush()
        update_findings(session, made.verdict_id)
    return made.experiment_id


def findings(history: History) -> list[Finding]:
    with history.database.read() as session:
        return list(session.scalars(select(Finding).order_by(Finding.id)))


def test_what_was_measured_in_other_steps_is_another_finding_where_requests_tell_them_apart(
    history: History,
) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    judged(history, hypothesis, SUPPORTED, 64, 2048)
    judged(history, hypothesis, REFUTED, 64, 8192)
    before, after = findings(history)
    assert (before.status, after.status) == (FindingStatus.HOLDS, FindingStatus.HOLDS)
    assert "tokens_a_step" not in before.scope["workload"], "what was found before keeps its name"
    assert after.scope["workload"]["tokens_a_step"] == 8192
    assert "concurrency 64, up to 8,192 tokens a step" in after.claim
    assert "up to 8,192 tokens a step" in scope_words(after.scope)


@pytest.mark.parametrize(
    ("at_once", "one", "other"), [(1, 2048, 8192), (16, 16_384, 32_768), (64, 8192, 8192)]
)
def test_steps_that_hold_what_is_asked_pool(history: History, at_once: int, one: int, other: int) -> None:
    hypothesis = history.propose({"serving.threads": 1})
    judged(history, hypothesis, SUPPORTED, at_once, one)
    judged(history, hypothesis, SUPPORTED, at_once, other)
    (found,) = findings(history)
    assert found.strength == "reproduced"


def test_a_verdict_that_is_handed_on_keeps_its_steps(history: History) -> None:
    judged(history, history.propose({"serving.threads": 1}), SUPPORTED, 64, 8192)
    with history.database.read() as session:
        (told,) = export_verdicts(session, "lab").verdicts
    told = told.model_copy(update={"ran": {"max_batch_tokens": "8192"}})
    (found,) = findings(history)
    assert found.key == told.fact(1, "lab").key
    assert told.model_copy(update={"ran": {}}).fact(1, "lab").key != found.key


def test_a_control_that_names_them_has_them_in_itself() -> None:
    asked = {"concurrency": 64, "prompt_tokens": 512}
    assert steps_told_apart({}, asked, 8192) == 8192
    assert steps_told_apart({"serving.max_batch_tokens": "auto"}, asked, 8192) is None
    assert steps_told_apart({}, asked, None) is None
    assert steps_told_apart({}, {}, 8192) is None
    assert steps_told_apart({}, {"concurrency": 8, "prompt_tokens": 512}, 8192) == 8 * 528
