"""Figures of a report as text: estimates with their intervals, changes, times of day in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from agent.ground.stored_spec import REFERENCE
from configs.moments import format_moment
from dashboard.rendering.figures import NARROW, interval, percent
from db.states import ExperimentState, VerdictOutcome
from knowledge.figures import SHARES, between, metric_word, number, signed
from knowledge.queries.present.now_best import MarginView
from knowledge.queries.view import ChangeView, EffectView

NONE = "–"
"""What stands where nothing was measured."""


def effect(found: EffectView | None, own: str | None = None) -> str:
    """An effect with its interval: `−76.2 % [−78.2, −74.1]`; that of a share in points, with its own sign.

    Where it stands beside others, `own` is the metric that these are on as a rule: one on another says which.
    """
    if found is None:
        return NONE
    if own is not None and metric_word(found.metric) != metric_word(own):
        return f"{metric_word(found.metric)} {effect(found)}"
    if found.metric in SHARES:
        ends = "" if found.low is None or found.high is None else interval(-found.high, -found.low)
        return f"{signed(-100 * found.relative)}{NARROW}points {ends}".rstrip()
    return f"{percent(found.relative)} {interval(found.low, found.high)}".rstrip()


def outcome(found: VerdictOutcome | None, state: ExperimentState) -> str:
    """What became of a run. Of one that has no verdict yet it says that: whether it is at work now is the
    clock's, and two reports of one database say the same."""
    if found is not None:
        return found.value
    return state.value if state in (ExperimentState.FAILED, ExperimentState.CANCELLED) else "no verdict yet"


def model(name: str) -> str:
    """A model as people say it: `reference` is the packaged one; others as they are."""
    return "the packaged reference model" if name == REFERENCE else name


def meaning_of(metric: str) -> str | None:
    """What the metric of a campaign is, as a sentence; None where its name says it."""
    return {
        "tpot_ms": "TPOT is the time per output token of a request after its first: (end to end − TTFT) / "
        "(output tokens − 1).",
        "ttft_ms": "TTFT is the time from a request's start to its first token.",
        "itl_ms": "ITL is the time between two tokens of a request that do not come together.",
    }.get(metric)


def speedup(value: float, low: float | None, high: float | None) -> str:
    """A speed-up with its interval: `5.07× [4.57, 5.62]`."""
    around = "" if low is None or high is None else f" {between(low, high)}"
    return f"{number(value)}×{around}"


def as_speedup(found: EffectView | None) -> str:
    """A change of a time as a speed-up with its interval."""
    if found is None or found.relative <= -1:
        return NONE
    low, high = (None if each is None or each <= -1 else 1 / (1 + each) for each in (found.high, found.low))
    return speedup(1 / (1 + found.relative), low, high)


def milliseconds(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A latency with its interval: `1.20 ms [1.06, 1.30]`."""
    if value is None:
        return NONE
    around = "" if low is None or high is None else f" {between(low, high)}"
    return f"{number(value)}{NARROW}ms{around}"


def time_of(metric: str) -> str:
    """What a latency is of, as a caption says it: `time of a token`."""
    known = {
        "tpot_ms": "time of a token",
        "ttft_ms": "time to the first token",
        "itl_ms": "time between tokens",
        "e2el_ms": "time from request to last token",
    }
    return known.get(metric, metric_word(metric))


def relative_margin(found: MarginView | None) -> str:
    """A change of bits per byte with its interval and what was allowed."""
    if found is None:
        return NONE
    allowed = "" if found.allowed is None else f", allowed {percent(found.allowed)}"
    return f"{percent(found.loss, 2)} {interval(found.low, found.high, 2)}".rstrip() + allowed


def points_margin(found: MarginView | None) -> str:
    """A change of tasks solved, in points, with its interval and what was allowed."""
    if found is None:
        return NONE
    ends = (
        "" if found.low is None or found.high is None else f" [{signed(-found.high)}, {signed(-found.low)}]"
    )
    allowed = "" if found.allowed is None else f", allowed {signed(-found.allowed)}"
    return f"{signed(-found.loss)}{NARROW}points{ends}{allowed}"


def change(changes: tuple[ChangeView, ...]) -> str:
    """What is set otherwise: `` `serving.compile=cpp_wrapper` ``; one that is no longer active too."""
    return ", ".join(
        f"`{each.knob}={_value(each.after)}`" if each.after is not None else f"no `{each.knob}`"
        for each in changes
    )


def knob_value(value: object) -> str:
    """A knob's value as code; a dash for one that is not active."""
    return NONE if value is None else f"`{_value(value)}`"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def instant(at: datetime | None) -> str:
    """A time to the second, UTC."""
    return NONE if at is None else format_moment(at, UTC)


def gib(count: int | None) -> str:
    """Bytes of memory in GiB."""
    return NONE if count is None else f"{number(count / 2**30)}{NARROW}GiB"
