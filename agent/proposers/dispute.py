"""Hypotheses that take a dispute between two findings apart. Pure.

One finding says that a change helps, another that it does not, and more than one thing differs between their
scopes. Each thing that a knob of this space sets, or fixes (the kernel that ran there, say), is tried by
itself: the same change once more, with that knob in both arms as it was there. Where the answer turns over,
that was it; where it stays, it was not.

Where verdicts of one scope disagree, nothing that is recorded differs, and the same test is asked for once
more: it says on which side chance was.

Where nobody measured the change here at all, the change itself is the test: as it was made there where this
space has both arms, else on the best so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.proposers import draft as words
from agent.proposers.port import Draft, nothing_refused
from agent.proposers.separation import Predict
from agent.surrogate.levers import joined
from configs.errors import UsageError
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import listed, same_value
from experiments.space.space import Space

PROPOSER = "dispute"
"""The name under which such a hypothesis is stored."""

MOST_SUSPECTS = 3
"""Hypotheses for one dispute, at most: what differs more widely is better asked by a campaign of its own."""


@dataclass(frozen=True)
class Disputed:
    """A test whose finding is disputed; `question` says by what, `there` what ran there, by resolved key, and
    `control_there` the knobs of the control there."""

    hypothesis_id: int
    claim: str
    control: Configuration
    candidate: Configuration
    metric: Metric
    min_effect: float
    question: str
    control_there: Mapping[str, KnobValue]
    ran_here: Mapping[str, str]
    ran_there: Mapping[str, str]


@dataclass(frozen=True)
class Suspect:
    """A knob that may be the cause, and its value there."""

    knob: str
    value: KnobValue


@dataclass(frozen=True)
class Unmeasured:
    """A disputed change that nobody measured here, `here` in words.

    `question` says what disputes what; `control` and `candidate` are the arms there, None where nobody told
    them (the user names values alone), and `changed` the values that it changes to.
    """

    question: str
    here: str
    changed: Mapping[str, KnobValue]
    control: Configuration | None = None
    candidate: Configuration | None = None


def suspects(space: Space, found: Disputed) -> tuple[Suspect, ...]:
    """Return what of the differences a knob of this space sets or fixes, each knob once."""
    changed = {change.knob for change in found.control.changes_to(found.candidate)}
    values: dict[str, KnobValue] = {}
    for name, there in sorted(found.control_there.items()):
        here = found.control.get(name)
        if name not in changed and here is not None and not same_value(here, there):
            values[name] = there
    for key, reading in sorted(found.ran_there.items()):
        here_ran = found.ran_here.get(key)
        if here_ran is None or here_ran == reading:
            continue
        for knob in space.pinning(key)[:1]:
            value = knob.pinning_value(key, reading)
            here = found.control.get(knob.name)
            if value is not None and here is not None and knob.name not in {*changed, *values}:
                values[knob.name] = value
    return tuple(Suspect(knob, value) for knob, value in values.items())


def take_apart(
    space: Space,
    found: Disputed,
    predict: Predict,
    *,
    refused: Callable[[Configuration], str | None] = nothing_refused,
) -> tuple[tuple[Suspect, Draft], ...]:
    """Return a hypothesis for each suspect that can be tried here, at most `MOST_SUSPECTS`.

    `refused` says why a legal configuration can't be all the same, None when it can.
    """
    drafts = []
    for suspect in suspects(space, found):
        held = {suspect.knob: suspect.value}
        try:
            control, candidate = (space.with_change(arm, held) for arm in (found.control, found.candidate))
        except UsageError:
            continue
        same = control.changes_to(candidate) == found.control.changes_to(found.candidate)
        if not same or any(refused(arm) is not None for arm in (control, candidate)):
            continue
        drafts.append((suspect, _draft(space, found, suspect, control, candidate, predict)))
    return tuple(drafts[:MOST_SUSPECTS])


def once_more(
    space: Space,
    found: Disputed,
    predict: Predict,
    *,
    refused: Callable[[Configuration], str | None] = nothing_refused,
) -> Draft | None:
    """Return the same test again, for verdicts of one scope that disagree; None where it can't be had."""
    if any(not space.is_legal(arm) or refused(arm) is not None for arm in (found.control, found.candidate)):
        return None
    return Draft(
        claim=f"{found.claim.rstrip('.')}, once more.",
        control=found.control,
        candidate=found.candidate,
        lever=joined(space.levers_between(found.control, found.candidate)),
        prediction=predict(found.control, found.candidate, found.metric),
        min_effect=found.min_effect,
        refuted_if=words.refuted_if(found.min_effect, found.metric),
        rationale=f"{found.question} Here the same test again.",
        proposer=PROPOSER,
        parents=(found.hypothesis_id,),
        metric=found.metric,
    )


def arms_here(
    space: Space,
    found: Unmeasured,
    best: Configuration,
    *,
    refused: Callable[[Configuration], str | None] = nothing_refused,
) -> tuple[Configuration, Configuration] | None:
    """Return the arms that test a change here: those of there, else the change on top of the best here; None
    where neither can be had."""
    there = None if found.control is None or found.candidate is None else (found.control, found.candidate)
    try:
        on_best = (best, space.with_change(best, found.changed)) if found.changed else None
    except UsageError:
        on_best = None
    for arms in (there, on_best):
        if arms is None or arms[0] == arms[1]:
            continue
        if all(space.is_legal(arm) and refused(arm) is None for arm in arms):
            return arms
    return None


def try_here(
    space: Space,
    found: Unmeasured,
    arms: tuple[Configuration, Configuration],
    predict: Predict,
    metric: Metric,
    min_effect: float,
) -> Draft:
    """Return the disputed change as a hypothesis of this campaign's own."""
    control, candidate = arms
    return Draft(
        claim=words.claim(space, control, candidate, min_effect, metric),
        control=control,
        candidate=candidate,
        lever=joined(space.levers_between(control, candidate)),
        prediction=predict(control, candidate, metric),
        min_effect=min_effect,
        refuted_if=words.refuted_if(min_effect, metric),
        rationale=f"{found.question} Nobody measured it here, on {found.here}: here the change itself.",
        proposer=PROPOSER,
        metric=metric,
    )


def _draft(
    space: Space,
    found: Disputed,
    suspect: Suspect,
    control: Configuration,
    candidate: Configuration,
    predict: Predict,
) -> Draft:
    value = listed([suspect.value])
    return Draft(
        claim=f"{found.claim.rstrip('.')}, with {suspect.knob} at {value} in both arms.",
        control=control,
        candidate=candidate,
        lever=joined(space.levers_between(control, candidate)),
        prediction=predict(control, candidate, found.metric),
        min_effect=found.min_effect,
        refuted_if=words.refuted_if(found.min_effect, found.metric),
        rationale=f"{found.question} Here is {suspect.knob} as it was there, {value}.",
        proposer=PROPOSER,
        parents=(found.hypothesis_id,),
        metric=found.metric,
    )
