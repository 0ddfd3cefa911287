"""What differs between the resolved configurations of the two arms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from db.models.base import JsonObject
from db.states import Arm
from knowledge.queries.view import View


class DifferenceView(View):
    """A part of the resolved configuration that the arms do not share."""

    name: str
    control: Any
    candidate: Any


def resolved_differences(launches: Iterable[tuple[Arm, JsonObject]]) -> tuple[DifferenceView, ...]:
    """Return what differs between the resolved configurations of the arms, by dotted name.

    What varies from launch to launch within an arm (a process id) is no difference between the arms.
    """
    seen: dict[Arm, dict[str, list[Any]]] = {Arm.CONTROL: defaultdict(list), Arm.CANDIDATE: defaultdict(list)}
    for arm, resolved in launches:
        for name, value in flat(resolved).items():
            if value not in seen[arm][name]:
                seen[arm][name].append(value)
    if not all(seen.values()):
        return ()
    found = []
    for name in sorted({*seen[Arm.CONTROL], *seen[Arm.CANDIDATE]}):
        control, candidate = (seen[arm].get(name, [None]) for arm in (Arm.CONTROL, Arm.CANDIDATE))
        if len(control) == len(candidate) == 1 and control != candidate:
            found.append(DifferenceView(name=name, control=control[0], candidate=candidate[0]))
    return tuple(found)


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested objects as one, with dotted names; lists stay values."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found
