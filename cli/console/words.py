"""Views in short: effects, changes and configurations as they stand in a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from knowledge.figures import SHARES, signed, unit_of

if TYPE_CHECKING:
    from knowledge.queries.found.findings import FindingView
    from knowledge.queries.view import ChangeView, EffectView, Predictions


def effect_words(effect: EffectView | None) -> str:
    """Return an effect with its interval in its metric's unit, such as `−12.3 % [−14.1, −10.5]` or
    `+2.3 points [+0.4, +4.2]`; a dash for none."""
    if effect is None:
        return "—"
    turned = -100 if effect.metric in SHARES else 100
    middle = f"{signed(turned * effect.relative)} {unit_of(effect.metric)}"
    if effect.low is None or effect.high is None or effect.low == effect.high:
        return middle
    least, most = sorted((turned * effect.low, turned * effect.high))
    return f"{middle} [{signed(least)}, {signed(most)}]"


def predictions_words(found: Predictions) -> str | None:
    """Return what is predicted of a hypothesis, such as `+9.3 % [−1.2, +19.1] now, +0.1 % [−8.1, +9.1] when
    proposed; 80 % intervals`; None for nothing."""
    if found.shown is None:
        return None
    if found.earlier is None:
        when = " when proposed" if found.is_of_proposal else ""
        return f"{effect_words(found.shown)}{when}, 80 % interval"
    then = effect_words(found.earlier)
    return f"{effect_words(found.shown)} now, {then} when proposed; 80 % intervals"


def change_words(changes: Iterable[ChangeView]) -> str:
    """Return changes such as `serving.threads 1 → 2`."""
    return ", ".join(
        f"{each.knob} {value_words(each.before)} → {value_words(each.after)}" for each in changes
    )


def about_words(finding: FindingView) -> str:
    """Return the change that a finding is about; of one that was written down `serving.threads=2`, since
    nobody said from what. Empty for none."""
    if finding.written_by is None:
        return change_words(finding.change)
    return ", ".join(f"{each.knob}={value_words(each.after)}" for each in finding.change)


def configuration_words(configuration: Mapping[str, Any] | None) -> str:
    """Return a configuration such as `serving.dtype=float32, serving.threads=2`."""
    if configuration is None:
        return "—"
    return ", ".join(f"{knob}={value_words(value)}" for knob, value in sorted(configuration.items()))


def value_words(value: object) -> str:
    """Return a value as a user would write it; a dash for none."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def places_words(before: int | None, after: int | None) -> str:
    """Return two places of a hypothesis, one after a test has left: `5 → 3`, or that it does not rise."""
    return f"stays at {after}, where others move up" if before == after else f"{before} → {after}"


def rank_words(rank: int | None, moved_from: int | None, moved: bool) -> str:
    """Return a rank with its last move: `2`, `2 (was 5)`, `2 (new)`."""
    if rank is None:
        return "—"
    if not moved or moved_from == rank:
        return str(rank)
    return f"{rank} (new)" if moved_from is None else f"{rank} (was {moved_from})"
