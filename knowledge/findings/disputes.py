"""Findings about one change that disagree: what differs between their scopes, and so what to ask. Pure.

Findings never speak beyond their scope, so two that disagree need not contradict each other: it may hold on
one GPU and not on another. But each such pair is a question worth asking, because its answer says how far
either may be carried: what differs between them is the list of suspects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import expm1, inf
from typing import Any

from knowledge.change_words import shown
from knowledge.figures import DEFAULT_METRIC, SHARES, listed
from knowledge.findings.rules import Rule
from knowledge.findings.verdict_fact import SAYING, Saying

_ABSENT = "not told"


class Part(StrEnum):
    """Parts of a scope in which two findings may differ, the widest difference first."""

    MODEL = "model"
    TARGET = "target"
    ENGINE = "engine"
    VERSION = "version"
    WORKLOAD = "workload"
    CONTROL = "control"


@dataclass(frozen=True)
class Difference:
    """One thing that differs between two scopes: `name` within its part, and the value in each."""

    part: Part
    name: str
    here: str
    there: str


@dataclass(frozen=True)
class Claim:
    """A finding as disputes see it: its label, what it says of the change (None where that is not known), its
    stored scope, whether its own verdicts disagree, and whether the user wrote it; `gain` is what the user
    said that it gains, as a relative margin, where they did."""

    label: str
    saying: Saying | None
    scope: Mapping[str, Any]
    is_divided: bool = False
    is_told: bool = False
    gain: float | None = None

    @property
    def place(self) -> str:
        """Where it holds, in a word: its target's name, without the kind and the size of it."""
        parts = str(self.scope.get("target", "")).split(":")
        return parts[1] if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class Dispute:
    """Two findings that disagree, the one that says it helps first; `other` is None where the verdicts of one
    finding disagree among themselves."""

    one: Claim
    other: Claim | None
    differences: tuple[Difference, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The findings' labels."""
        return tuple(each.label for each in self.sides)

    @property
    def sides(self) -> tuple[Claim, ...]:
        """The findings themselves."""
        return (self.one,) if self.other is None else (self.one, self.other)

    @property
    def is_answered(self) -> bool:
        """Whether one knob of the control is all that differs: then it is that knob."""
        return len(self.differences) == 1 and self.differences[0].part is Part.CONTROL

    def question(self) -> str:
        """What is to be asked, as a sentence."""
        if self.other is None:
            return (
                f"Verdicts within {self.one.label} disagree although nothing that its scope records differs: "
                f"is it chance, or something that no scope records, such as {_unrecorded(self.one)}?"
            )
        here, there = _says(self.one), _says(self.other)
        said = f"{self.one.label} says that it {here}, {self.other.label} that it {there}"
        if not self.differences:
            return f"{said}, in the same scope: is it chance, or something that no scope records?"
        parts = {each.part for each in self.differences}
        if parts == {Part.TARGET}:
            where = f"{said}: it holds on {self.one.place}, not on {self.other.place}"
            return f"{where}: is it {_of_the_hardware(self.one, self.other)}?"
        suspects = [_suspect(each) for each in self.differences[:_MOST_NAMED]]
        more = len(self.differences) - _MOST_NAMED
        if more > 0:
            suspects.append(f"one of {more} more")
        question = " or ".join(filter(None, [", ".join(suspects[:-1]), suspects[-1]]))
        return f"{said}: is it {question}?"


_MOST_NAMED = 4
"""Differences that a question names."""

_SAYS = {
    Saying.HELPS: "helps",
    Saying.DOES_NOT_HELP: "does not help",
    Saying.BREAKS_QUALITY: "does not hold the quality limit",
    Saying.DOES_NOT_RUN: "does not run",
}


_RATES_AND_TIMES = ("_ms", "_per_s")
"""Ends of the names of metrics that a machine's pace decides; the others are of what it answers."""


def _is_of_pace(claim: Claim) -> bool:
    return str(claim.scope.get("metric", DEFAULT_METRIC)).endswith(_RATES_AND_TIMES)


def _unrecorded(claim: Claim) -> str:
    """What no scope records and may turn a verdict on the claim's metric."""
    return "clocks or neighbours" if _is_of_pace(claim) else "how a machine rounds"


def _of_the_hardware(one: Claim, other: Claim) -> str:
    """What of the hardware may be why `other` denies what `one` says."""
    if other.saying is Saying.DOES_NOT_RUN:
        return "the memory, or a kernel that is not there"
    if other.saying is Saying.BREAKS_QUALITY or not _is_of_pace(one):
        return "the kernels that run there, or how they round"
    return "the bandwidth, the clocks or the kernels that run there"


def _says(claim: Claim) -> str:
    assert claim.saying is not None  # only such disagree
    return _SAYS[claim.saying]


def claim_of(label: str, rule: str, scope: Mapping[str, Any], effect_log: float | None = None) -> Claim:
    """Return a stored finding as disputes see it; one without a stored `saying` says what its rule does.
    `effect_log` is its effect in its metric's scale."""
    told = scope.get(SAYING)
    saying = Saying(told) if told is not None else _BY_RULE.get(rule)
    gain = None
    if rule == Rule.TOLD and effect_log is not None:
        gain = -effect_log if scope.get("metric") in SHARES else -expm1(effect_log)
    return Claim(label, saying, scope, rule == Rule.CONTRADICTED, rule == Rule.TOLD, gain)


_BY_RULE = {
    Rule.EFFECT.value: Saying.HELPS,
    Rule.NO_EFFECT.value: Saying.DOES_NOT_HELP,
    Rule.QUALITY.value: Saying.BREAKS_QUALITY,
    Rule.INFEASIBLE.value: Saying.DOES_NOT_RUN,
}


def disputes_of(claim: Claim, others: Sequence[Claim]) -> tuple[Dispute, ...]:
    """Return what disputes a finding, the closest scope first.

    One dispute for each that disagrees, and one of its own where its verdicts do; others that are about
    another change or metric are passed over.
    """
    found = [_dispute(claim, other) for other in others if _disagree(claim, other)]
    found.sort(key=lambda each: (len(each.differences), each.labels))
    return (*([Dispute(claim, None, ())] if claim.is_divided else []), *found)


def disputing(label: str, found: Sequence[Dispute]) -> tuple[str, ...]:
    """Return the labels of the other findings of a finding's disputes, the closest scope first."""
    return tuple(each.label for dispute in found for each in dispute.sides if each.label != label)


def same_change(one: Claim, other: Claim) -> bool:
    """Whether two findings are about the same change of the same metric.

    What the user told names values after the change alone, and maybe no metric; knobs that have a meaning
    only beside what is told may change with it.
    """
    metrics = {str(each.scope["metric"]) for each in (one, other) if "metric" in each.scope}
    if len(metrics) > 1:
        return False
    if not (one.scope.get("change") and other.scope.get("change")):
        return False
    if one.is_told is other.is_told:
        return _change(one) == _change(other)
    told, whole = (one, other) if one.is_told else (other, one)
    named = {name: value for name, _, *value in _change(told)}
    rest = [each for each in _change(whole) if named.get(each[0]) != list(each[2:])]
    return len(_change(whole)) - len(rest) == len(named) and (
        all(before is None or after is None for _, before, _, after in rest)
    )


def _change(claim: Claim) -> list[tuple[Any, ...]]:
    return [
        (each["knob"], each["before"], type(each["after"]), each["after"])
        for each in claim.scope.get("change") or []
    ]


def _disagree(one: Claim, other: Claim) -> bool:
    if one.label == other.label or not same_change(one, other):
        return False
    sayings = {one.saying, other.saying}
    if None in sayings or len(sayings) == 1 or Saying.HELPS not in sayings:
        return False
    if sayings == {Saying.HELPS, Saying.DOES_NOT_HELP}:
        reached, missed = (one, other) if one.saying is Saying.HELPS else (other, one)
        # It may reach a small margin and miss a large one.
        return _reached(reached) >= _margin(missed)
    return True


def _margin(claim: Claim) -> float:
    return float(claim.scope.get("min_effect") or 0.0)


def _reached(claim: Claim) -> float:
    """The margin that a claim of a gain stands for: whoever wrote one down without a number means that it is
    worth having."""
    if not claim.is_told:
        return _margin(claim)
    return inf if claim.gain is None else claim.gain


def _dispute(claim: Claim, other: Claim) -> Dispute:
    first, second = (claim, other) if claim.saying is Saying.HELPS else (other, claim)
    return Dispute(first, second, differences(first, second))


def differences(one: Claim, other: Claim) -> tuple[Difference, ...]:
    """Return what differs between two scopes; of what the user left open, nothing does."""
    found = []
    for part in (Part.MODEL, Part.TARGET, Part.ENGINE):
        here, there = one.scope.get(part.value), other.scope.get(part.value)
        if here and there and here != there:
            found.append(Difference(part, part.value, str(here), str(there)))
    prints = one.scope.get("model_fingerprint"), other.scope.get("model_fingerprint")
    if all(prints) and prints[0] != prints[1] and not any(each.part is Part.MODEL for each in found):
        found.insert(0, Difference(Part.MODEL, "weights", str(prints[0])[:12], str(prints[1])[:12]))
    told = one.is_told or other.is_told
    changed = {each["knob"] for each in one.scope.get("change") or []}
    for part, field in ((Part.VERSION, "versions"), (Part.WORKLOAD, "workload"), (Part.CONTROL, "control")):
        here, there = one.scope.get(field) or {}, other.scope.get(field) or {}
        for name in sorted({*here, *there} - changed):
            if here.get(name) == there.get(name) or (told and not (name in here and name in there)):
                continue
            values = [shown(each[name]) if name in each else _ABSENT for each in (here, there)]
            found.append(Difference(part, name, *values))
    return tuple(found)


def _suspect(each: Difference) -> str:
    """What differs, as it stands in a question: the value where it helps, and where it does not."""
    match each.part:
        case Part.MODEL:
            what = "the weights" if each.name == "weights" else "the model"
        case Part.TARGET:
            what = "the hardware"
        case Part.ENGINE:
            what = "the engine"
        case Part.WORKLOAD:
            what = each.name.replace("_", " ")
        case _:
            what = each.name
    return f"{what} ({each.here} against {each.there})"


def suspects(found: Dispute) -> str:
    """Return what differs as a list in words; empty where nothing does."""
    return listed([_suspect(each) for each in found.differences])
