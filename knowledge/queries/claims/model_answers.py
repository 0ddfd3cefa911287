"""What a language model was asked and answered, and what that cost."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from configs.quantities import format_duration, format_usd
from db.labels import Noun, format_label
from db.models import Hypothesis, ModelAnswer
from knowledge.figures import counted
from knowledge.queries.view import View
from knowledge.stored import FROM_MODEL, UNDER_WAY, answer_of


class RefusedView(View):
    """What was refused of an answer, when it came or while it waited for room, and why."""

    what: str
    reason: str


class AnswerRow(View):
    """One answer in short; `hypotheses` are those that came of it, `usd` None where no price is known.

    Tokens are the endpoint's, None where it told none; `counted_tokens` is what the prompt counts as here.
    `untold_tokens` and `untold_usd` are the most that its attempts may have used beside those and told no
    count of, None where that was not kept. `under_way`: no answer was seen yet, and nobody found that none
    will be.
    """

    id: int
    campaign: str
    model: str
    at: datetime
    under_way: bool
    failure: str | None
    proposed: tuple[str, ...]
    refused: tuple[RefusedView, ...]
    hypotheses: tuple[str, ...]
    prompt_tokens: int | None
    answer_tokens: int | None
    counted_tokens: int
    usd: float | None
    untold_tokens: int | None
    untold_usd: float | None
    wall_s: float
    attempts: int
    form: str


class AnswerView(AnswerRow):
    """One answer with what was asked and answered, secrets masked."""

    base_url: str
    prompt: str
    prompt_digest: str
    answer: str


class AskedView(View):
    """All that a campaign asked: answers (`failed` of them none), hypotheses that came of them, what was
    refused, tokens and dollars (None where the campaign gives no prices) that the endpoint told, the most
    that it may have used beside them and told no count of, and seconds."""

    asked: int
    failed: int
    hypotheses: int
    refused: int
    tokens: int
    usd: float | None
    untold_tokens: int
    untold_usd: float | None
    wall_s: float

    @property
    def words(self) -> str:
        """In a sentence."""
        cost = spent_words(self.tokens, self.usd, self.untold_tokens, self.untold_usd)
        if self.usd is None:
            cost += ", what they cost is not known"
        return (
            f"{counted(self.asked, 'question')}, {self.failed} without an answer; "
            f"{counted(self.hypotheses, 'hypothesis', 'hypotheses')} came of them, {self.refused} refused; "
            f"{cost}, {format_duration(round(self.wall_s))} of waiting."
        )


def spent_words(tokens: int, usd: float | None, untold_tokens: int, untold_usd: float | None) -> str:
    """What was used as far as it was told, and the most that it may be beside that, in a clause."""
    told = f"{tokens:,} tokens" + ("" if usd is None else f", {format_usd(usd)}")
    if not untold_tokens:
        return told
    most = "" if untold_usd is None else f" ({format_usd(untold_usd)})"
    return f"{told}, and at most {untold_tokens:,} more tokens{most} that were not told"


class QuestionsRow(View):
    """What a campaign asked one model: questions (`failed` of them without an answer), tokens as the endpoint
    counted them, dollars by the campaign's prices (`priced` questions have any, and `usd` is None where none
    has), and the most that attempts may have used beside those and told no count of."""

    campaign: str
    model: str
    asked: int
    failed: int
    prompt_tokens: int
    answer_tokens: int
    priced: int
    usd: float | None
    untold_tokens: int
    untold_usd: float | None
    wall_s: float


def asked_of_model(session: Session, campaign_id: int) -> AskedView | None:
    """What a campaign asked altogether; None where it asked nothing. Two statements."""
    rows = session.execute(
        select(
            ModelAnswer.failure,
            ModelAnswer.outcome,
            ModelAnswer.prompt_tokens,
            ModelAnswer.answer_tokens,
            ModelAnswer.counted_tokens,
            ModelAnswer.usd,
            ModelAnswer.untold_tokens,
            ModelAnswer.untold_usd,
            ModelAnswer.wall_s,
        ).where(ModelAnswer.campaign_id == campaign_id)
    ).all()
    if not rows:
        return None
    known = [row.usd for row in rows if row.usd is not None]
    untold = [row.untold_usd for row in rows if row.untold_usd is not None]
    return AskedView(
        asked=len(rows),
        failed=sum(row.failure is not None for row in rows),
        hypotheses=sum(len(found) for found in _hypotheses(session, campaign_id).values()),
        refused=sum(len(row.outcome.get("refused", ())) for row in rows),
        tokens=sum(
            _told(row.prompt_tokens, row.answer_tokens, row.counted_tokens, row.untold_tokens) for row in rows
        ),
        usd=sum(known) if known else None,
        untold_tokens=sum(row.untold_tokens or 0 for row in rows),
        untold_usd=sum(untold) if untold else None,
        wall_s=sum(row.wall_s for row in rows),
    )


def spent_on_model(session: Session, campaign_id: int) -> tuple[int, float]:
    """Tokens and dollars that a campaign's questions used, at most: what was told, and the bound of what was
    not."""
    asked = asked_of_model(session, campaign_id)
    if asked is None:
        return 0, 0.0
    return asked.tokens + asked.untold_tokens, (asked.usd or 0.0) + (asked.untold_usd or 0.0)


def last_answered(session: Session, campaign_id: int) -> str | None:
    """The fingerprint of the knowledge about which a campaign's last answer came; None where none came."""
    return session.scalar(
        select(ModelAnswer.prompt_digest)
        .where(ModelAnswer.campaign_id == campaign_id, ModelAnswer.failure.is_(None))
        .order_by(ModelAnswer.id.desc())
        .limit(1)
    )


def questions_by_model(session: Session, campaign_id: int | None = None) -> tuple[QuestionsRow, ...]:
    """What was asked by campaign and model, of one campaign or of all, the newest first; one statement."""
    answer = ModelAnswer
    before = answer.untold_tokens.is_(None)  # a prompt that nobody counted was told as it counts here
    prompt = func.coalesce(answer.prompt_tokens, case((before, answer.counted_tokens), else_=0))
    query = (
        select(
            answer.campaign_id,
            answer.model,
            func.count().label("asked"),
            func.count(answer.failure).label("failed"),
            func.sum(prompt).label("prompt_tokens"),
            func.coalesce(func.sum(answer.answer_tokens), 0).label("answer_tokens"),
            func.count(answer.usd).label("priced"),
            func.sum(answer.usd).label("usd"),
            func.coalesce(func.sum(answer.untold_tokens), 0).label("untold_tokens"),
            func.sum(answer.untold_usd).label("untold_usd"),
            func.sum(answer.wall_s).label("wall_s"),
        )
        .group_by(answer.campaign_id, answer.model)
        .order_by(answer.campaign_id.desc(), answer.model)
    )
    if campaign_id is not None:
        query = query.where(answer.campaign_id == campaign_id)
    return tuple(
        QuestionsRow(
            campaign=format_label(Noun.CAMPAIGN, row.campaign_id),
            model=row.model,
            asked=row.asked,
            failed=row.failed,
            prompt_tokens=row.prompt_tokens,
            answer_tokens=row.answer_tokens,
            priced=row.priced,
            usd=row.usd,
            untold_tokens=row.untold_tokens,
            untold_usd=row.untold_usd,
            wall_s=row.wall_s,
        )
        for row in session.execute(query)
    )


def model_answers(
    session: Session, campaign_id: int, limit: int, before: int | None = None
) -> tuple[AnswerRow, ...]:
    """A campaign's answers, the newest first, or the newest before this one's number."""
    query = select(ModelAnswer).where(ModelAnswer.campaign_id == campaign_id)
    if before is not None:
        query = query.where(ModelAnswer.id < before)
    rows = session.scalars(query.order_by(ModelAnswer.id.desc()).limit(limit)).all()
    hypotheses = _hypotheses(session, campaign_id) if rows else {}
    return tuple(AnswerRow(**_fields(row, hypotheses.get(row.id, ()))) for row in rows)


def model_answer(session: Session, answer_id: int) -> AnswerView | None:
    """One answer; None where there is none of this number."""
    row = session.get(ModelAnswer, answer_id)
    if row is None:
        return None
    return AnswerView(
        **_fields(row, _hypotheses(session, row.campaign_id).get(row.id, ())),
        base_url=row.base_url,
        prompt=row.prompt,
        prompt_digest=row.prompt_digest,
        answer=row.answer,
    )


def newest_answer(session: Session) -> int | None:
    """The campaign of the newest answer; None where nobody was ever asked."""
    return session.scalar(select(ModelAnswer.campaign_id).order_by(ModelAnswer.id.desc()).limit(1))


def _told(prompt: int | None, answer: int | None, counted_here: int, untold: int | None) -> int:
    """Tokens that were told; of a row from before others were bounded, its prompt as it counts here."""
    return (counted_here if prompt is None and untold is None else prompt or 0) + (answer or 0)


def _hypotheses(session: Session, campaign_id: int) -> dict[int, tuple[str, ...]]:
    """The hypotheses of a campaign that came of an answer, by answer."""
    found: dict[int, tuple[str, ...]] = {}
    query = (
        select(Hypothesis.id, Hypothesis.change)
        .where(
            Hypothesis.campaign_id == campaign_id,
            Hypothesis.change[FROM_MODEL]["answer"].as_integer().is_not(None),
        )
        .order_by(Hypothesis.id)
    )
    for number, change in session.execute(query):
        answer = answer_of(change)
        if answer is not None:
            found[answer] = (*found.get(answer, ()), format_label(Noun.HYPOTHESIS, number))
    return found


def _fields(row: ModelAnswer, hypotheses: tuple[str, ...]) -> dict[str, object]:
    return {
        "id": row.id,
        "campaign": format_label(Noun.CAMPAIGN, row.campaign_id),
        "model": row.model,
        "at": row.created_at,
        "under_way": UNDER_WAY in row.outcome,
        "failure": row.failure,
        "proposed": tuple(row.outcome.get("proposed", ())),
        "refused": tuple(RefusedView(**each) for each in row.outcome.get("refused", ())),
        "hypotheses": hypotheses,
        "prompt_tokens": row.prompt_tokens,
        "answer_tokens": row.answer_tokens,
        "counted_tokens": row.counted_tokens,
        "usd": row.usd,
        "untold_tokens": row.untold_tokens,
        "untold_usd": row.untold_usd,
        "wall_s": row.wall_s,
        "attempts": row.attempts,
        "form": row.form,
    }
