"""By which command a dispute that no campaign took apart is answered, and where it must run. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from experiments.space.knob import written
from knowledge.figures import listed
from knowledge.findings.disputes import Claim, Difference, Dispute, Part
from knowledge.scope import workload_words

_OTHER_GROUND = frozenset({Part.MODEL, Part.ENGINE, Part.WORKLOAD})
"""Parts of a scope that a campaign of their own is asked about: `promote` and `reproduce` keep them."""


@dataclass(frozen=True)
class OwnTest:
    """The newest test of here behind a finding, by its label; `goes_on` is the newest that another target can
    confirm: one that was supported or refuted (None: there is none)."""

    experiment: str
    goes_on: str | None


@dataclass(frozen=True)
class Way:
    """A command, and where it must run or what must be so there, as a clause (empty: as it is)."""

    command: str
    where: str = ""


def way_to_answer(found: Dispute, tested: Mapping[str, OwnTest]) -> Way | None:
    """Return what answers a dispute by hand; None where nothing is left to ask, or no command can ask it.

    `tested` has the tests of this database by the label of the finding. Where hardware is all that a test of
    here could not reach, another target confirms it; where versions are, it is run again with those; what
    differs more widely, or nobody here tested, is tested by a campaign there.
    """
    if found.is_answered:
        return None
    here = next((each for each in found.sides if each.label in tested), None)
    if here is None:
        return _campaign(found.sides[0], found.sides)
    test = tested[here.label]
    there = next((each for each in found.sides if each.label != here.label), None)
    parts = {each.part for each in found.differences}
    if there is None or not parts:
        return Way(f"autoinfer reproduce {test.experiment}")
    if parts & _OTHER_GROUND or (Part.TARGET in parts and test.goes_on is None):
        return _campaign(here, (there,), found.differences)
    if Part.TARGET in parts:
        return Way(f"autoinfer promote {test.goes_on} --target DEVICE", f"DEVICE is one with {there.place}")
    if Part.VERSION in parts:
        return Way(f"autoinfer reproduce {test.experiment}", f"with {_versions(found, there)} installed")
    return Way("autoinfer run --new", f"a campaign{_of(here, (here,))} takes it apart")


def _campaign(
    change: Claim, places: tuple[Claim, ...], differences: tuple[Difference, ...] = ()
) -> Way | None:
    """A campaign at one of these places that tests the change; None where the change sets nothing, for no
    command takes a knob away alone. Knobs that go with what is set are named."""
    changes = change.scope.get("change") or []
    assigned = [f"{each['knob']}={written(each['after'])}" for each in changes if each["after"] is not None]
    if not assigned:
        return None
    settings = " ".join(f"--set {shlex.quote(each)}" for each in assigned)
    engine = any(each.part is Part.ENGINE for each in differences)
    more = f", engine {places[0].scope.get('engine')}" if engine else ""
    if any(each.part is Part.WORKLOAD for each in differences):
        words = workload_words(places[0].scope.get("workload") or {})
        more += f", {words}" if words else ""
    gone = [each["knob"] for each in changes if each["after"] is None]
    more += f", where {listed(gone)} {'is' if len(gone) == 1 else 'are'} not set" if gone else ""
    return Way(
        f'autoinfer enqueue "It helps here too" {settings}', f"in a campaign{_of(places[0], places)}{more}"
    )


def _of(model: Claim, places: tuple[Claim, ...]) -> str:
    """Of which model and on which hardware, in words."""
    names = list(dict.fromkeys(each.place for each in places if each.place))
    of = f" of {model.scope['model']}" if model.scope.get("model") else ""
    return f"{of} on {' or '.join(names)}" if names else of


def _versions(found: Dispute, there: Claim) -> str:
    return listed(
        [
            f"{each.name} {each.there if found.other is there else each.here}"
            for each in found.differences
            if each.part is Part.VERSION
        ]
    )
