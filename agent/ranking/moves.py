"""Why the order changed: for every hypothesis that moved, what moved it and the event behind it. Pure.

A hypothesis moves because its own score changed (then the part that changed most is named, with both values),
or because others did: one ahead left the queue, one entered ahead, it overtook or was overtaken. Its own
change is the reason only if it points the way it moved; a hypothesis whose gain rose and that fell all the
same was overtaken. One that a directive moved names that directive, whatever else happened meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from agent.ranking.sentences import LEAST_CHANCE, LEAST_GAIN, ordinal
from agent.ranking.values import DISPUTE_EVERY, Cause, Move, Place, Ranking, Shift, Steering
from configs.quantities import format_duration, format_usd
from db.labels import Noun, format_label
from knowledge.moved_words import ENTERED, LEFT

SAME = 1e-9
"""Relative difference up to which two values of a part are the same."""

GAIN = "the expected gain"
"""The part of a score in which an outcome that is worse counts as none: what is slower is not taken."""

FACTOR = "the factor of the directives"
"""The part of a score that directives about levers make."""

PRICE, WAIT = "the price", "the wait for its machine"
"""The parts that another target than the campaign's own has besides."""

SHARED = "what others bear of its building"
"""The part of a cost that is charged to others which use the same artifact."""

ABSENT = np.iinfo(np.int64).max
"""Stands for the place of a hypothesis that is not in the queue: behind all others."""

NOTHING_KNOWN: Mapping[int, str] = {}
"""What became of hypotheses that left, where nobody says."""

Places = npt.NDArray[np.int64]


def moves(
    previous: Ranking,
    new: Ranking,
    cause: Cause,
    steering: Steering | None = None,
    gone: Mapping[int, str] = NOTHING_KNOWN,
) -> list[Move]:
    """Every change of place, entries and exits too, in the new order and then those who left.

    `cause` is what the queue was ranked again for, `steering` the directives that came meanwhile, `gone` what
    became of hypotheses that left, in a few words.
    """
    found = []
    for each in shifts(previous, new):
        why = each.why
        if each.to_place is None and each.hypothesis_id in gone:
            why = f"{why}: {gone[each.hypothesis_id]}"
        behind = cause
        older = each.held_by is not None and steering is not None and each.held_by not in steering.given
        if each.steered and steering is not None and not older:
            behind = steering.of_hypothesis.get(each.hypothesis_id) or steering.newest or cause
        found.append(
            Move(
                each.hypothesis_id,
                each.from_place,
                each.to_place,
                behind.event_id,
                f"{why}{after_words(behind)}",
            )
        )
    return found


def after_words(cause: Cause) -> str:
    """The end of a move's reason, which names the event behind it."""
    return f", after {cause.text} (event {cause.event_id})"


def shifts(previous: Ranking, new: Ranking) -> list[Shift]:
    """The same without the event behind them: what any two orders differ in, one of them perhaps assumed."""
    before = {place.hypothesis_id: place for place in previous.places}
    after = {place.hypothesis_id: place for place in new.places}
    everyone = [*after, *(hypothesis for hypothesis in before if hypothesis not in after)]
    crowd = _Crowd(
        everyone,
        np.array([before[h].place if h in before else ABSENT for h in everyone], dtype=np.int64),
        np.array([after[h].place if h in after else ABSENT for h in everyone], dtype=np.int64),
    )
    found = []
    for number, hypothesis in enumerate(everyone):
        was, now = before.get(hypothesis), after.get(hypothesis)
        if was is not None and now is not None and was.place == now.place:
            continue
        found.append(
            Shift(
                hypothesis,
                was.place if was else None,
                now.place if now else None,
                *_why(number, was, now, crowd),
                _held_by(was, now),
            )
        )
    return found


class _Crowd:
    """Places of all hypotheses before and after, to see who passed whom."""

    def __init__(self, hypotheses: list[int], before: Places, after: Places) -> None:
        self.hypotheses = hypotheses
        self.before = before
        self.after = after

    def others(self, number: int) -> str:
        """What the others did to the hypothesis `number`, which did not move by itself."""
        was, now = self.before[number], self.after[number]
        ahead_before, ahead_after = self.before < was, self.after < now
        if now < was:
            gone = ahead_before & (self.after == ABSENT)
            if gone.any():
                return f"{self._named(gone, self.before)} left the queue ahead of it"
            return f"overtook {self._named(ahead_before & ~ahead_after, self.before)}"
        entered = ahead_after & (self.before == ABSENT)
        if entered.any():
            return f"{self._named(entered, self.after)} entered the queue ahead of it"
        return f"overtaken by {self._named(ahead_after & ~ahead_before, self.after)}"

    def _named(self, chosen: npt.NDArray[np.bool_], by: Places) -> str:
        found = np.flatnonzero(chosen)
        first = found[np.argmin(by[found])]
        name = format_label(Noun.HYPOTHESIS, self.hypotheses[first])
        return name if len(found) == 1 else f"{name} and {len(found) - 1} more"


def _why(number: int, was: Place | None, now: Place | None, crowd: _Crowd) -> tuple[str, bool]:
    """Why its place differs, and whether by a directive about it."""
    if was is None:
        assert now is not None
        return f"{ENTERED} as {ordinal(now.place)}", False
    if now is None:
        return LEFT, False
    steered = _by_directive(was, now)
    if steered is not None:
        return steered, True
    turn = f"one test in {DISPUTE_EVERY} takes a dispute apart"
    if now.asked and not was.asked and now.place < was.place:
        return f"its turn has come, {turn}", False
    if was.asked and not now.asked and now.place > was.place:
        return f"another had its turn, {turn}", False
    own = _own_change(was, now)
    if own is None:
        return crowd.others(number), False
    name, why = own
    return why, name == FACTOR


def _held_by(was: Place | None, now: Place | None) -> int | None:
    """The event of a cap or a minimum share that bears on its place now and did not before."""
    if was is None or now is None:
        return None
    if now.capped_by != was.capped_by:
        return now.capped_by
    return now.reserved_by if now.reserved_by != was.reserved_by else None


def _by_directive(was: Place, now: Place) -> str | None:
    """The directive about it that holds now and did not, or the reverse."""
    if (was.question_of is None) != (now.question_of is None):
        return "settles the question of the night" if was.question_of is None else "no longer a question"
    if (was.capped_by is None) != (now.capped_by is None):
        return "held back by a cap" if was.capped_by is None else "no longer held back by a cap"
    if was.paused != now.paused:
        return "paused by a ban" if now.paused else "no longer banned"
    if was.pinned != now.pinned:
        return "pinned" if now.pinned else "no longer pinned"
    if was.moved_by != now.moved_by:
        return "moved by hand" if now.moved_by is not None else "no longer held by a move"
    if now.reserved_by is not None and now.place < was.place and was.reserved_by is None:
        return "brought forward by the minimum share of its lever"
    return None


def _own_change(was: Place, now: Place) -> tuple[str, str] | None:
    """The part of its own score that moved it, and how; None if nothing changed, or not the way it moved."""
    rose = now.place < was.place
    if (
        was.pinned
        or was.asked
        or was.moved_by is not None
        or was.question_of is not None
        or _same(was.score, now.score)
        or (now.score > was.score) != rose
    ):
        return None
    parts = (
        (GAIN, was.gain, now.gain, 1),
        ("the chance that quality holds", was.p_quality, now.p_quality, 1),
        ("the chance that it runs", was.p_feasible, now.p_feasible, 1),
        ("the expected cost", was.cost_s, now.cost_s, -1),
        (PRICE, _price_there(was), _price_there(now), -1),
        (WAIT, was.wait_s, now.wait_s, -1),
        (SHARED, was.spared_s, now.spared_s, 1),
        (FACTOR, was.directive_factor, now.directive_factor, 1),
    )
    way = 1 if rose else -1
    told = [
        (way * better * _log_change(old, new), name, old, new)
        for name, old, new, better in parts
        if _shown(name, old) != _shown(name, new)
    ]
    moved_it = [part for part in told if part[0] > 0]
    if not moved_it:
        return None
    _, name, old, new = max(moved_it, key=lambda part: part[0])
    way_told = "rose" if new > old else "fell"
    counted = " (worse outcomes count as 0)" if name == GAIN else ""
    return name, f"{name} {way_told} from {_shown(name, old)} to {_shown(name, new)}{counted}"


def _price_there(place: Place) -> float:
    """Dollars on another target; on the campaign's own they are so many for a second, and move nothing."""
    return (place.usd or 0.0) if place.target else 0.0


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=SAME, abs_tol=0.0)


def _log_change(old: float, new: float) -> float:
    if old == new:
        return 0.0
    if old <= 0 or new <= 0:
        return math.inf if new > old else -math.inf
    return math.log(new / old)


def _shown(name: str, value: float) -> str:
    if name == GAIN:
        return "next to nothing" if value < LEAST_GAIN else f"{100 * value:.2g} %"
    if name == PRICE:
        return format_usd(value)
    if name in ("the expected cost", WAIT, SHARED):
        return format_duration(round(value))
    if name.startswith("the chance"):
        return "< 0.01" if value < LEAST_CHANCE else f"{value:.2g}"
    return f"{value:.3g}"
