"""Queue: what comes next and why, within the budget, and what a person may do about it."""

from __future__ import annotations

import shlex
from functools import cached_property, lru_cache
from urllib.parse import urlencode

from markupsafe import Markup
from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dashboard.charts.glyph import Glyph, Scale, glyph, scale_of
from dashboard.page import Filters, Ground, Page, Request, Table
from dashboard.pages.queue_words import Line, lead, lines_of, without_event
from db.models import Campaign
from db.models.base import NAME_LENGTH
from knowledge.acts.levers import levers_of
from knowledge.moved_words import moved_words
from knowledge.queries.claims.calibration import CalibrationView, calibration
from knowledge.queries.lookup import campaign_of
from knowledge.queries.order.carried import CarriedView, carried_view
from knowledge.queries.order.queue import QueueRow
from knowledge.queries.order.queue_board import EXPERIMENTS, MoveView, QueueBoard, queue_board
from knowledge.queries.view import EffectView, View

MOST_LEVERS = 5
"""Levers that stand above the queue by themselves; the others open by a click."""

MOST_ROWS = 200
MOST_MOVES = 500
FEW_MOVES = 8


class QueueFilters(Filters):
    """Which campaign's queue, and which part of it."""

    campaign: str | None = Field(
        default=None, max_length=32, description="A campaign's label; the newest if not given."
    )
    lever: str | None = Field(
        default=None, max_length=NAME_LENGTH, description="Only what changes this lever."
    )
    q: str | None = Field(default=None, max_length=100, description="Only claims and knobs that say this.")
    awaiting: bool = Field(default=False, description="Only what waits for approval.")
    moves: int = Field(default=FEW_MOVES, ge=0, le=MOST_MOVES, description="How many past moves to show.")
    offset: int = Field(default=0, ge=0, le=1_000_000)
    limit: int = Field(default=50, ge=1, le=MOST_ROWS)


class QueueShown(View):
    """The queue of a campaign; `board` None where there is no campaign. `space_levers` may be steered by."""

    board: QueueBoard | None
    space_levers: tuple[str, ...] = ()
    calibration: CalibrationView | None = None
    """How often what was predicted in this campaign held so far."""
    carried: CarriedView | None = None
    asked: QueueFilters

    @property
    def levers_in_sight(self) -> tuple[tuple[str, int], ...]:
        """The levers with the most hypotheses, each with its number, and the one that is asked for."""
        assert self.board is not None
        first, rest = self.board.levers[:MOST_LEVERS], self.board.levers[MOST_LEVERS:]
        return (*first, *(each for each in rest if each[0] == self.asked.lever))

    @property
    def levers_folded(self) -> tuple[tuple[str, int], ...]:
        """All others: a dozen chips would push the queue out of a phone's first screen."""
        assert self.board is not None
        return tuple(each for each in self.board.levers[MOST_LEVERS:] if each[0] != self.asked.lever)

    @property
    def lead(self) -> tuple[str, str]:
        """What is true of the queue, and how it came to that."""
        assert self.board is not None
        return lead(self.board)

    @property
    def scale(self) -> Scale:
        """The scale that the glyphs of all rows share."""
        rows = self._rows
        return scale_of(
            (each for each in (row.predictions.shown for row in rows) if each is not None),
            max((row.min_effect for row in rows), default=0.0),
        )

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The rows with what is worked out for each."""
        assert self.board is not None
        return lines_of(self.board)

    @property
    def seen(self) -> str:
        """What an act sends back, so that it counts for this view alone: the last act and the ranking."""
        assert self.board is not None
        board = self.board
        act = 0 if board.last_act is None else board.last_act.event_id
        return f"{act}.{0 if board.ranked is None else board.ranked.event_id}"

    @cached_property
    def hidden(self) -> Markup:
        """The fields that all forms of the page send, as HTML: written once, for a row has ten forms."""
        assert self.board is not None
        chosen = Markup('<input type="hidden" name="chosen" value="1">') if self.asked.campaign else ""
        fields = (
            '<input type="hidden" name="campaign" value="{}">{}<input type="hidden" name="seen" value="{}">'
        )
        return Markup(fields).format(self.board.campaign.id, chosen, self.seen)

    @property
    def filtered(self) -> bool:
        """Whether the rows are a part of the queue."""
        return self.asked.lever is not None or self.asked.q is not None or self.asked.awaiting

    @property
    def missing_told(self) -> tuple[str, ...]:
        """What was not there to make hypotheses of these rows, with what to do, each sentence once."""
        return tuple(dict.fromkeys(tool.told for row in self._rows for tool in row.missing))

    @property
    def has_elsewhere(self) -> bool:
        """Whether something of the page is for another target than the campaign's own."""
        return any(line.row.elsewhere is not None for line in self.lines)

    def url(self, **changed: object) -> str:
        """This page with some filters changed; None leaves one out."""
        given = {**self.asked.model_dump(exclude_defaults=True), "offset": None, **changed}
        kept = {name: value for name, value in given.items() if value is not None}
        return f"/queue?{urlencode(kept)}" if kept else "/queue"

    def glyph(self, effect: EffectView, min_effect: float, scale: Scale) -> Glyph:
        """The marks of a prediction."""
        return glyph(effect, min_effect, scale)

    def doubts(self, reason: str) -> tuple[tuple[str, str], ...]:
        """The experiments that a reason names and that are in doubt, with what speaks against each."""
        assert self.board is not None
        named = dict.fromkeys(EXPERIMENTS.findall(reason))
        return tuple((each, self.board.doubts[each]) for each in named if each in self.board.doubts)

    def moved(self, move: MoveView) -> str:
        """A move with its reason."""
        return moved_words(move.from_rank, move.to_rank, without_event(move.reason))

    @property
    def _rows(self) -> tuple[QueueRow, ...]:
        return () if self.board is None else self.board.rows.items


def read(session: Session, request: Request[QueueFilters], ground: Ground) -> QueueShown:
    """Read the queue that the filters name."""
    asked = request.filters
    if asked.campaign is None and not session.scalar(select(func.count()).select_from(Campaign)):
        return QueueShown(board=None, asked=asked)
    campaign_id = campaign_of(session, asked.campaign)
    board = queue_board(
        session,
        campaign_id,
        limit=asked.limit,
        offset=asked.offset,
        lever=asked.lever,
        text=asked.q,
        awaiting=asked.awaiting,
        most_moves=asked.moves,
    )
    return QueueShown(
        board=board,
        space_levers=_levers(board.campaign.space),
        calibration=calibration(session, campaign_id),
        carried=carried_view(session, campaign_id),
        asked=asked,
    )


@lru_cache(maxsize=32)
def _levers(space: str) -> tuple[str, ...]:
    """Of a space that was read once; an act is checked against the space as it is then."""
    return levers_of(space)


def command(request: Request[QueueFilters]) -> str:
    """The same on the command line."""
    asked = request.filters
    words = ["autoinfer queue"]
    if asked.campaign is not None:
        words.append(f"--campaign {shlex.quote(asked.campaign)}")
    if asked.awaiting:
        words.append("--awaiting")
    if asked.offset:
        words.append(f"--offset {asked.offset}")
    return " ".join(words)


def table(view: QueueShown) -> Table:
    """The queue as rows."""
    columns = (
        "rank",
        "id",
        "claim",
        "lever",
        "change",
        "predicted",
        "low",
        "high",
        "metric",
        "gain",
        "p_quality",
        "p_feasible",
        "cost_s",
        "directive_factor",
        "score",
        "pinned",
        "proposer",
        "state",
        "moved_from",
        "reason",
        "move_reason",
        "cause_event_id",
        "most_s",
        "awaits_approval",
        "approved_by_event",
        "target",
        "usd",
        "wait_s",
        "build_s",
        "weighed_s",
        "latency_only",
        "predicted_now",
        "low_now",
        "high_now",
    )
    return Table(columns, (_cells(row) for row in view._rows))


def _cells(row: QueueRow) -> tuple[object, ...]:
    predicted, now, score = row.predicted, row.predicted_now, row.score or {}
    return (
        row.rank,
        row.id,
        row.claim,
        row.lever,
        "; ".join(f"{each.knob} {each.before} -> {each.after}" for each in row.change),
        predicted and predicted.relative,
        predicted and predicted.low,
        predicted and predicted.high,
        predicted and predicted.metric,
        *(score.get(part) for part in ("gain", "p_quality", "p_feasible", "cost_s", "directive_factor")),
        score.get("score"),
        row.pinned,
        row.proposer,
        row.state.value,
        row.moved_from,
        row.reason,
        row.move_reason,
        row.cause_event_id,
        score.get("most_s"),
        row.approval is not None and row.approval.waits,
        row.approval and row.approval.event_id,
        row.elsewhere and row.elsewhere.target,
        *(score.get(part) for part in ("usd", "wait_s", "build_s", "weighed_s")),
        row.latency_only,
        *((now.relative, now.low, now.high) if now is not None else (None, None, None)),
    )


PAGE = Page(
    name="queue",
    title="Queue",
    path="/queue",
    filters=QueueFilters,
    shows=QueueShown,
    read=read,
    command=command,
    table=table,
)
