"""What the incumbent runs already, by whatever the engine chose where a knob left it the choice. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.proposers.port import CampaignView
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Pin, same_value


def already_runs(view: CampaignView, candidate: Configuration) -> bool:
    """Whether all in which the candidate differs from the incumbent is named there what the incumbent's
    resolved configuration shows already: the kernel, say, that `auto` came to. False where nothing tells."""
    changes = view.incumbent.changes_to(candidate)
    return bool(changes) and all(_shown(view, change.knob, change.after) for change in changes)


def _shown(view: CampaignView, name: str, value: KnobValue | None) -> bool:
    pins = next((knob.pins for knob in view.space.knobs if knob.name == name), ())
    return bool(pins) and all(_reads(pin, value) == _at(view.incumbent_runs, pin.key) for pin in pins)


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
