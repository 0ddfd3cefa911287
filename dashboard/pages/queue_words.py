"""What the queue's page says: its sentence, and the words and figures of each row. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dashboard.rendering.figures import NARROW
from db.states import CampaignState, HypothesisState
from knowledge.figures import counted, signed
from knowledge.proposers import proposer_words
from knowledge.queries.order.queue import QueueRow
from knowledge.queries.order.queue_board import QueueBoard

MINUTE_S = 60.0

NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")

_OWN_LINE = ("approved by", "waits for approval", "put before all else")
"""Beginnings of what a row tells of approval and of the question of the night, in lines of their own."""

_ACROSS = ("before H-", "behind H-", "not submitted")
"""Beginnings of what a reason says across targets (`agent.ranking.across`)."""

_EVENT = re.compile(r" \(event \d+\)")


@dataclass(frozen=True)
class Arithmetic:
    """A score with its parts as text; `share` is its part of the largest, in per cent."""

    score: str
    parts: str
    spoken: str


@dataclass(frozen=True)
class Line:
    """A row with what is worked out for it: its move, its reason, its score, its cost, its place's limits."""

    row: QueueRow
    place: int | None
    move: str
    by: int | None
    why: str
    across: str
    steered: str
    proposer: str
    arithmetic: Arithmetic | None
    share: float
    cost_s: float | None
    paused: bool
    capped: bool
    question: str | None
    put_at: int | None
    moved: bool
    ends_budget: bool

    @property
    def first_next(self) -> bool:
        """Whether it was pinned after the queue was ranked last."""
        return self.row.pinned and not (self.row.score or {}).get("pinned")

    @property
    def waits(self) -> bool:
        """Whether it may still be moved, pinned and withdrawn."""
        return self.row.state is not HypothesisState.TESTING


def lines_of(board: QueueBoard) -> tuple[Line, ...]:
    """What the rows show."""
    rows = board.rows.items
    best = max((_number((each.score or {}).get("score")) or 0.0 for each in rows), default=0.0)
    return tuple(_line(row, board, best) for row in rows)


def _line(row: QueueRow, board: QueueBoard, best: float) -> Line:
    """What a row shows beside a best score."""
    score = row.score or {}
    values = {name: _number(score.get(name)) for name in ("score", "cost_s", "place")}
    paused = score.get("paused") is True
    move, by = _move(row)
    return Line(
        row=row,
        place=row.rank if row.state is not HypothesisState.TESTING else None,
        move=move,
        by=by,
        why=why(row),
        across=across(row.reason or ""),
        steered=steered(row.reason or ""),
        proposer=proposer_words(row.proposer),
        arithmetic=None if values["score"] is None else arithmetic(score),
        share=round(100 * (values["score"] or 0.0) / best, 1) if best > 0 else 0.0,
        cost_s=values["cost_s"],
        paused=paused,
        capped=score.get("capped_by") is not None,
        question=_question(row, board),
        put_at=board.put.get(row.id),
        moved=row.id in board.moved,
        ends_budget=row.rank is not None and row.rank == board.cut,
    )


def _question(row: QueueRow, board: QueueBoard) -> str | None:
    """What a row has to do with the question of the night, as a sentence."""
    asked = board.question
    if asked is None or asked.is_over:
        return None
    if asked.hypothesis == row.id:
        return "The question of the night."
    ranked = (row.score or {}).get("question_of") == asked.event_id
    return f"Settles {asked.hypothesis}, the question of the night." if ranked else None


def lead(board: QueueBoard) -> tuple[str, str]:
    """What is true of the queue in a sentence, and in quieter ink how it came to that."""
    campaign, count = board.campaign, board.waiting
    if not count:
        first = "Nothing waits."
    elif campaign.state is CampaignState.STOPPED:
        first = f"{_count(count)} left when the campaign ended{_asking(board)}."
    else:
        first = f"{_count(count)} queued; {_fitting(board)}."
    if board.ranked is None:
        return first, "Not ranked yet: that needs the baseline." if not campaign.has_baseline else ""
    after = board.ranked.cause
    return first, f"Last ranked after {_cause(board)}." if after else "Ranked."


def _fitting(board: QueueBoard) -> str:
    """What of the queue fits the budget, and what waits for approval, as clauses."""
    may = board.waiting - board.awaiting - board.elsewhere
    if not may and board.elsewhere:
        return f"what is left is to be confirmed elsewhere{_asking(board)}"
    if not may:
        return "it waits for approval" if board.waiting == 1 else "all of them wait for approval"
    if board.fit >= may:
        fit = (
            "it fits" if may == board.waiting == 1 else "all fit" if may == board.waiting else "the rest fits"
        )
    else:
        fits = NUMBERS[board.fit].lower() if board.fit < len(NUMBERS) else f"{board.fit:,}"
        fit = "none fits" if board.fit == 0 else f"{fits} fit{'s' if board.fit == 1 else ''}"
    asking = _asking(board).removeprefix("; ")
    if asking and board.fit >= may:
        return f"{asking}, {fit} the budget"
    return f"{fit} the budget{_asking(board)}"


def _asking(board: QueueBoard) -> str:
    asking = ""
    if board.awaiting:
        asking = f"; {_count(board.awaiting).lower()} wait{'s' if board.awaiting == 1 else ''} for approval"
    if board.elsewhere and board.waiting > board.elsewhere:
        asking += f"; {_count(board.elsewhere).lower()} to confirm elsewhere"
    return asking


def why(row: QueueRow) -> str:
    """Why a hypothesis stands where it stands, in one sentence."""
    if row.state is HypothesisState.TESTING:
        if row.held is not None:
            return f"Sent, and not submitted yet: {row.held}"
        if row.ended is not None:
            return f"{row.ended.clause}."
        begun = "Under test now" if row.interrupted is None else "Interrupted under test"
        return f"{begun}." if row.device is None else f"{begun} on {row.device}."
    text = row.move_reason or row.reason or "It waits for its first place."
    if row.move_reason is None and row.score is not None:
        text = "It has kept the place that it was given"
    text = _EVENT.sub("", text).rstrip(".")
    return f"{text[0].upper()}{text[1:]}."


def across(reason: str) -> str:
    """What of a place's reason compares it with another target, or says why nothing is sent there; empty
    where it does neither."""
    told = [each for each in reason.split("; ")[1:] if each.startswith(_ACROSS)]
    return "" if not told else ". ".join(f"{each[0].upper()}{each[1:]}" for each in told) + "."


def steered(reason: str) -> str:
    """What of a place's reason cites the user: pins, moves, bans, factors."""
    cited = [
        each
        for each in reason.split("; ")[1:]
        if (" by you " in f"{each} " or "pinned" in each) and not each.startswith(_OWN_LINE)
    ]
    return "; ".join(cited)


def arithmetic(score: dict[str, object]) -> Arithmetic:
    """The score in per cent a minute, and how it comes about: gain × P(quality) × P(runs) ÷ minutes, in which
    price and wait are counted where several targets are in the queue, and what others use too by its part."""
    gain, quality, runs, cost_s, factor, product = (
        _number(score.get(name)) or 0.0
        for name in ("gain", "p_quality", "p_feasible", "cost_s", "directive_factor", "score")
    )
    weighed_s = _number(score.get("weighed_s")) or cost_s
    minutes = f"{weighed_s / MINUTE_S:{'.1f' if weighed_s >= MINUTE_S else '.2g'}}"  # of a second not 0.0
    counted_in = ", price and wait counted as time" if round(weighed_s) > round(cost_s) else ""
    if round(_number(score.get("spared_s")) or 0.0) >= 1:
        counted_in += ", of what others use too its part alone"
    times = f" × {factor:g}" if factor != 1 else ""
    return Arithmetic(
        score=f"{100 * MINUTE_S * product:.2f}",
        parts=f"{_plain(100 * gain)} × {quality:.2f} × {runs:.2f} ÷ {minutes}{times}",
        spoken=(
            f"expected gain {_plain(100 * gain)} %, quality holds with P {quality:.2f}, runs with "
            f"P {runs:.2f}, {minutes} minutes{counted_in}"
            + (f", directives times {factor:g}" if times else "")
        ),
    )


def effect_words(relative: float, low: float | None, high: float | None, metric: str) -> str:
    """A prediction for a screen reader and beside its glyph."""
    unit = "points" if metric == "task_correct" else "%"
    ends = "" if low is None or high is None else f" [{signed(100 * low)}, {signed(100 * high)}]"
    return f"{signed(100 * relative)}{NARROW}{unit}{ends}"


def without_event(reason: str) -> str:
    """The reason of a move without the event's number, which stands elsewhere."""
    return _EVENT.sub("", reason)


def _move(row: QueueRow) -> tuple[str, int | None]:
    """The direction of the last move, and by how many places; the first place is `new`."""
    if row.rank is None or row.move_reason is None:
        return "same", None
    if row.moved_from is None:
        return "new", None
    by = row.moved_from - row.rank
    return ("up", by) if by > 0 else ("down", -by) if by < 0 else ("same", None)


def _cause(board: QueueBoard) -> str:
    assert board.ranked is not None
    if board.ranked.cause_subject is not None:
        return board.ranked.cause_subject
    return (board.ranked.cause or "").rstrip(".")


def _count(count: int) -> str:
    if count < len(NUMBERS):
        return NUMBERS[count]
    return counted(count, "hypothesis", "hypotheses").split()[0]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _plain(value: float) -> str:
    return signed(value).removeprefix("+")
