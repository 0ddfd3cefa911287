"""The follow-ups of a confounded experiment: hypotheses that take its causes apart. Pure.

Control and candidate differed by the claimed change C and, beside it, by what the engine chose, K (a kernel,
say). Where knobs of the space fix K, the way from the control to the candidate is gone in steps of one cause
each:

    control with K as the control had it  →  candidate with the same K       the claim itself, C alone
    candidate with K as the control had it  →  candidate with its own K      K alone, one step a knob

or, where one of these arms can't be, by the other corner: K alone beside the control, then C with K as the
candidate had it. A step of K alone is claimed in the direction in which the confounded effect, less what was
predicted of C, says that it is faster. Where no knob fixes a difference, no follow-up can separate it, and
the reason is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agent.judge.confounding import Difference, clauses
from agent.judge.consequences import explained
from agent.proposers import draft as words
from agent.proposers.port import Draft, nothing_refused
from agent.surrogate.levers import joined
from configs.errors import UsageError
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Change, Configuration, KnobValue
from experiments.space.knob import Knob, listed, same_value
from experiments.space.space import Space

PROPOSER = "separation"
"""The name under which such a hypothesis is stored."""


class Corner(StrEnum):
    """Over which corner the way goes: what the engine chose stays as in the control at first, or changes
    first."""

    AS_CONTROL = "as in the control"
    AS_CANDIDATE = "as in the candidate"


@dataclass(frozen=True)
class Confounded:
    """A confounded test: `experiment` is its label, `effect_log` the effect of all causes together, None
    where none was measured, `prediction` what was predicted of the claimed change."""

    experiment: str
    hypothesis_id: int
    claim: str
    control: Configuration
    candidate: Configuration
    metric: Metric
    min_effect: float
    prediction: Prediction
    effect_log: float | None
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Separation:
    """The follow-ups, the claimed change first, and the corner they go over; or why there are none.

    `held` are the knobs that the first of them fixes in both arms.
    """

    drafts: tuple[Draft, ...] = ()
    corner: Corner | None = None
    why_not: str = ""
    held: Mapping[str, KnobValue] = field(default_factory=dict)


@dataclass(frozen=True)
class _Cause:
    """A knob that fixes a difference: its values under which the key reads as in each arm."""

    knob: Knob
    as_control: KnobValue
    as_candidate: KnobValue


Predict = Callable[[Configuration, Configuration, Metric], Prediction]


def separate(
    space: Space,
    found: Confounded,
    predict: Predict,
    *,
    refused: Callable[[Configuration], str | None] = nothing_refused,
    without: Sequence[Corner] = (),
) -> Separation:
    """The follow-ups that separate the causes of a confounded test, over the first corner that can be.

    `refused` says why a legal configuration can't be all the same, None when it can; `without` are corners
    that were tried and did not run.
    """
    causes, obstacles = _causes(space, found)
    if obstacles:
        return Separation(why_not="; ".join(obstacles))
    if not causes:
        return Separation(why_not="nothing that both arms told differs beyond the claimed change")
    why_not = ""
    for corner in Corner:
        if corner in without:
            continue
        try:
            arms = _arms(space, found, causes, corner)
        except UsageError as error:
            why_not = why_not or error.message.rstrip(".")
            continue
        refusal = next((why for each in arms for one in each.both if (why := refused(one)) is not None), None)
        if refusal is None:
            drafts = tuple(_draft(space, found, each, predict) for each in arms)
            return Separation(drafts, corner, held=arms[0].held)
        why_not = why_not or refusal.rstrip(".")
    return Separation(why_not=why_not or "the arms that it would take do not run here")


@dataclass(frozen=True)
class _Step:
    """One comparison of a way: `alone` is the knob whose step it is, None for the claimed change."""

    control: Configuration
    candidate: Configuration
    held: Mapping[str, KnobValue]
    alone: Knob | None = None

    @property
    def both(self) -> tuple[Configuration, Configuration]:
        return self.control, self.candidate


def _causes(space: Space, found: Confounded) -> tuple[list[_Cause], list[str]]:
    """The knobs that fix what differs, each once, and what speaks against separating the rest.

    What follows from such a knob's change, as the types in which a kernel keeps weights do from the kernel,
    differs no longer where the knob is fixed.
    """
    causes: dict[str, _Cause] = {}
    obstacles: list[str] = []
    unfixed: dict[str, str] = {}
    for difference in found.differences:
        cause = _cause(space, found, difference)
        if isinstance(cause, str):
            unfixed[difference.key] = cause
            continue
        known = causes.setdefault(cause.knob.name, cause)
        if known != cause:
            obstacles.append(f"{difference.key} asks for other values of {cause.knob.name} than another key")
    changes = [Change(each.knob.name, each.as_control, each.as_candidate) for each in causes.values()]
    obstacles += [why for key, why in unfixed.items() if not explained(key, changes)]
    return list(causes.values()), list(dict.fromkeys(obstacles))


def _cause(space: Space, found: Confounded, difference: Difference) -> _Cause | str:
    key = difference.key
    knobs = space.pinning(key)
    if not knobs:
        return f"no knob of this space fixes {key}"
    knob = knobs[0]
    before, after = found.control.get(knob.name), found.candidate.get(knob.name)
    if before is None or after is None:
        return f"{knob.name} fixes {key} and means nothing in both arms"
    if same_value(before, after) and knob.reads_as(key, before) is not None:
        return f"{knob.name} is {listed([before])} in both arms already, and {key} differs all the same"
    values = [knob.pinning_value(key, shown) for shown in (difference.control, difference.candidate)]
    if values[0] is None or values[1] is None:
        untold = difference.control if values[0] is None else difference.candidate
        return f"{knob.name} fixes {key}, and has no value for {untold}"
    return _Cause(knob, values[0], values[1])


def _arms(space: Space, found: Confounded, causes: Sequence[_Cause], corner: Corner) -> list[_Step]:
    """The steps of a way; raises `UsageError` where an arm is not legal."""
    first = {each.knob.name: each.as_control for each in causes}
    last = {each.knob.name: each.as_candidate for each in causes}
    held = first if corner is Corner.AS_CONTROL else last
    place = found.candidate if corner is Corner.AS_CONTROL else found.control
    steps = [_Step(space.with_change(found.control, held), space.with_change(found.candidate, held), held)]
    chosen = dict(first)
    for cause in causes:
        before = space.with_change(place, chosen)
        chosen[cause.knob.name] = cause.as_candidate
        after = space.with_change(place, chosen)
        beside = {name: value for name, value in chosen.items() if name != cause.knob.name}
        arms = (before, after) if _gains(found) else (after, before)
        steps.append(_Step(*arms, beside, cause.knob))
    return steps


def _gains(found: Confounded) -> bool:
    """Whether what was measured beyond the prediction says that K as in the candidate is the faster one."""
    return found.effect_log is not None and found.effect_log < found.prediction.log_ratio_mean


def _draft(space: Space, found: Confounded, step: _Step, predict: Predict) -> Draft:
    held = ", ".join(f"{name} at {listed([value])}" for name, value in sorted(step.held.items()))
    if step.alone is None:
        claim = f"{found.claim.rstrip('.')}, with {held} in both arms."
        what = f"the claimed change alone, with {held} in both arms"
    else:
        claim = words.claim(space, step.control, step.candidate, found.min_effect, found.metric)
        what = f"{step.alone.name} alone" + (f", with {held}" if held else "")
    told = "; ".join(clauses(found.differences))
    return Draft(
        claim=claim,
        control=step.control,
        candidate=step.candidate,
        lever=joined(space.levers_between(step.control, step.candidate)),
        prediction=predict(step.control, step.candidate, found.metric),
        min_effect=found.min_effect,
        refuted_if=words.refuted_if(found.min_effect, found.metric),
        rationale=f"Separates the causes of {found.experiment}, in which {told}: {what}.",
        proposer=PROPOSER,
        parents=(found.hypothesis_id,),
        metric=found.metric,
    )
