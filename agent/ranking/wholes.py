"""What another campaign found best goes before its own parts. Pure.

By expected gain per second a cheap part of a whole (one lever of three) may stand before it, though the whole
brings that part along: if it holds, a test of the part was for nothing, and if it does not, the parts are
still there. So a whole that another campaign measured, and that will as likely as not run and hold the
quality, moves before the first of its parts that pays at most `1 / NEARLY` times as much a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.ranking.values import Candidate
from db.labels import Noun, format_label
from experiments.space.configuration import Change, Configuration

NEARLY = 0.5
"""The least share of a part's score that a whole must have to go before it; judgement."""

LIKELY = 0.5
"""The least chance that a whole runs and holds the quality."""


def before_their_parts(
    order: Sequence[int], candidates: Sequence[Candidate], scores: Sequence[float], free: Sequence[bool]
) -> tuple[list[int], dict[int, tuple[int, ...]]]:
    """The order with wholes moved before their parts, and for each that was moved the parts that it passed,
    by their places in `candidates`. Only what is `free`, in the order by its score, moves or is passed."""
    found, passed = list(order), dict[int, tuple[int, ...]]()
    parts: dict[int, set[int]] = {}
    for k, each in enumerate(candidates):
        for whole in each.part_of:
            parts.setdefault(whole, set()).add(k)
    for whole in sorted((k for k in order if candidates[k].hypothesis_id in parts), key=order.index):
        each = candidates[whole]
        if not free[whole] or each.p_feasible * each.p_quality < LIKELY:
            continue
        at = found.index(whole)
        ahead = [
            k
            for k in found[:at]
            if k in parts[each.hypothesis_id] and free[k] and scores[whole] >= NEARLY * scores[k]
        ]
        if ahead:
            found.insert(found.index(ahead[0]), found.pop(at))
            passed[whole] = tuple(ahead)
    return found, passed


def whole_reason(passed: Sequence[int], candidates: Sequence[Candidate]) -> str:
    """Why a whole stands where it stands, as the end of a sentence."""
    first, *others = (format_label(Noun.HYPOTHESIS, candidates[k].hypothesis_id) for k in passed)
    more = f" and {len(others)} more" if others else ""
    are = "are parts" if others else "is a part"
    return f"; before {first}{more}, which {are} of it: another campaign found the whole best"


def changes_of(control: Configuration, candidate: Configuration) -> frozenset[tuple[Configuration, Change]]:
    """What a candidate changes, each change with what it is made to."""
    return frozenset((control, each) for each in control.changes_to(candidate))


def parts_of(wholes: Mapping[int, frozenset[object]], changes: frozenset[object]) -> tuple[int, ...]:
    """Of which `wholes`, by hypothesis with its changes, these changes are a part."""
    return tuple(sorted(whole for whole, all_of_it in wholes.items() if changes and changes < all_of_it))
