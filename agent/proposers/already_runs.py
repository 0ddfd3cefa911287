"""What was measured already under another name: by what the engine chose where a knob left it the choice.
Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.proposers.port import CampaignView, Trial
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Pin, same_value
from experiments.space.space import Space


def already_runs(view: CampaignView, candidate: Configuration) -> bool:
    """Whether the candidate does what the incumbent does: by what is known of the space here, or because all
    in which it differs is named there what the incumbent's resolved configuration shows already: the kernel,
    say, that `auto` came to. False where nothing tells."""
    return _runs(view.space, view.incumbent, view.incumbent_runs, candidate)


def measured_as(view: CampaignView, candidate: Configuration) -> Trial | None:
    """The trial whose candidate ran just what this one names: another name is no reason to measure it again.
    None where there is none, or nothing tells."""
    found = (each for each in view.trials if _runs(view.space, each.candidate, each.runs, candidate))
    return next(found, None)


def _runs(
    space: Space, measured: Configuration, resolved: Mapping[str, Json], candidate: Configuration
) -> bool:
    if space.why_same(measured, candidate) is not None:
        return True
    changes = measured.changes_to(candidate) if resolved else ()
    return bool(changes) and all(_shown(space, resolved, change.knob, change.after) for change in changes)


def _shown(space: Space, resolved: Mapping[str, Json], name: str, value: KnobValue | None) -> bool:
    pins = next((knob.pins for knob in space.knobs if knob.name == name), ())
    return bool(pins) and all(_is_read(_reads(pin, value), _at(resolved, pin.key)) for pin in pins)


def _is_read(reading: Json, resolved: Json) -> bool:
    """Whether a pin reads as what is resolved, a number written out as the number."""
    is_number = isinstance(resolved, int) and not isinstance(resolved, bool)
    return reading == resolved or (is_number and reading == str(resolved))


def _reads(pin: Pin, value: KnobValue | None) -> Json:
    """What the pinned key shows under this value; an empty text, which no key shows, where that is open."""
    if not pin.reads:
        return value
    return next((text for each, text in pin.reads if same_value(each, value)), "")


def _at(resolved: Mapping[str, Json], key: str) -> Json:
    found: Json = dict(resolved)
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
