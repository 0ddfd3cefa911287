"""What a campaign asked its language model, kept: a question before it is sent, its answer when it is there.

A question under way is a row that counts at once as the most that it may use, so that a process which is
killed in the meantime leaves the budget neither too wide nor in doubt; who takes the campaign up next tells
of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.language_model.answer import Proposal, Refused
from agent.language_model.asking import ATTEMPTS, MOST_TEXT, SCHEMA, Question, Reply
from agent.language_model.digest import tokens_of
from agent.language_model.exchange import GIVEN_UP
from agent.language_model.quoting import masked, readable
from agent.language_model.usage import UNTOLD
from configs.language_model import Endpoint, LanguageModelSpec
from configs.quantities import format_duration
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import ModelAnswer
from knowledge.figures import counted
from knowledge.queries.claims.model_answers import spent_words
from knowledge.stored import UNDER_WAY

MOST_KEPT = MOST_TEXT
"""Characters of an answer that are kept: all that are looked at."""

NO_ANSWER_YET = "No answer was seen yet."
NEVER_SEEN = "It was asked, and its answer never seen: the process that asked was ended."


def keep_question(
    session: Session,
    campaign_id: int,
    endpoint: Endpoint,
    spec: LanguageModelSpec,
    question: Question,
    prompt_digest: str,
) -> int:
    """Write down a question that is about to be sent, with the most that it may use; returns its number."""
    prompt = _prompt(question)
    sent = tokens_of(prompt)
    requests = min(ATTEMPTS, question.most_untold)
    most = requests * sent, requests * question.answer_tokens
    row = ModelAnswer(
        campaign_id=campaign_id,
        base_url=endpoint.base_url,
        model=endpoint.model,
        form=SCHEMA,
        prompt=masked(prompt, (endpoint.key,)),
        prompt_digest=prompt_digest,
        answer="",
        failure=NO_ANSWER_YET,
        attempts=0,
        counted_tokens=sent,
        usd=spec.usd(0, 0),
        untold_tokens=sum(most),
        untold_usd=spec.usd(*most),
        wall_s=0.0,
        outcome={UNDER_WAY: True, "proposed": [], "refused": []},
    )
    session.add(row)
    session.flush()
    return row.id


def keep_reply(
    session: Session,
    answer_id: int,
    secrets: Sequence[str],
    spec: LanguageModelSpec,
    question: Question,
    reply: Reply,
    proposals: Sequence[Proposal],
    refused: Sequence[Refused],
) -> None:
    """Settle a question that was kept: what came of it and what it used, with an event."""
    row = session.get_one(ModelAnswer, answer_id)
    used = reply.used
    told = (used.prompt_tokens or 0, used.answer_tokens or 0)
    untold = used.untold(row.counted_tokens, question.answer_tokens)
    row.form, row.attempts, row.wall_s = reply.form, reply.attempts, reply.wall_s
    row.answer, row.failure = readable(masked(reply.text, secrets), MOST_KEPT), reply.failure
    row.prompt_tokens, row.answer_tokens = used.prompt_tokens, used.answer_tokens
    row.usd, row.untold_tokens, row.untold_usd = spec.usd(*told), sum(untold), spec.usd(*untold)
    row.outcome = {
        "proposed": [each.words for each in proposals],
        "refused": [{"what": each.what, "reason": each.reason} for each in refused],
    }
    cost = f"{_cost(row)}, {format_duration(reply.wall_s)}"
    if reply.failure is not None:
        kind, text = EventKind.MODEL_FAILED, f"No answer of the language model ({cost}): {reply.failure}"
    else:
        kind = EventKind.MODEL_ANSWERED
        text = (
            f"The language model proposed {counted(len(proposals), 'hypothesis', 'hypotheses')}, and "
            f"{counted(len(refused), 'was', 'were')} refused ({cost}); autoinfer model {row.id}"
        )
    _tell(session, kind, text, row)


def keep_refused(session: Session, answer_id: int, refused: Refused) -> None:
    """Count a proposal of an answer that waited for room, and can't be brought any more, as refused."""
    row = session.get_one(ModelAnswer, answer_id)
    told = {"what": refused.what, "reason": refused.reason}
    row.outcome = {**row.outcome, "refused": [*row.outcome.get("refused", ()), told]}


def tell_of_unseen(session: Session, campaign_id: int) -> None:
    """Settle the questions that a process left under way, each with an event: at most all that they might
    use was used. For who has just taken the campaign up."""
    left = select(ModelAnswer).where(
        ModelAnswer.campaign_id == campaign_id, ModelAnswer.outcome[UNDER_WAY].as_boolean().is_(True)
    )
    for row in session.scalars(left.order_by(ModelAnswer.id)):
        row.failure = NEVER_SEEN
        row.outcome = {"proposed": [], "refused": []}
        text = f"No answer of the language model ({_cost(row)}): {NEVER_SEEN}"
        _tell(session, EventKind.MODEL_FAILED, text, row)


def given_up() -> Reply:
    """That of a question which was cut off before anything was heard."""
    return Reply(failure=GIVEN_UP, used=UNTOLD)


def _prompt(question: Question) -> str:
    return f"{question.system}\n\n{question.user}"


def _told(row: ModelAnswer) -> int:
    return (row.prompt_tokens or 0) + (row.answer_tokens or 0)


def _cost(row: ModelAnswer) -> str:
    return spent_words(_told(row), row.usd, row.untold_tokens or 0, row.untold_usd)


def _tell(session: Session, kind: EventKind, text: str, row: ModelAnswer) -> None:
    data = {
        "answer": row.id,
        "tokens": _told(row),
        "usd": row.usd,
        "untold_tokens": row.untold_tokens,
        "untold_usd": row.untold_usd,
        "refused": len(row.outcome["refused"]),
    }
    label = format_label(Noun.CAMPAIGN, row.campaign_id)
    events.append(session, kind, text, label, row.campaign_id, data)
