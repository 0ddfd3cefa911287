"""Which drafts are refused, and why: duplicates with a pointer to the earlier one, and what can't be.
Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.proposers.confirmation import PROPOSER as CONFIRMATION
from agent.proposers.port import Draft, nothing_refused
from agent.proposers.user import PROPOSER as USER
from agent.surrogate.levers import joined
from configs.errors import UsageError
from db.labels import Noun, format_label
from experiments.space.configuration import Configuration
from experiments.space.space import Space


@dataclass(frozen=True)
class Earlier:
    """A hypothesis that exists: its arms by digest and its state in a word.

    `void`: nothing was learnt of it, because it was withdrawn or its test broke.
    """

    hypothesis_id: int
    control_digest: str
    candidate_digest: str
    state: str
    void: bool = False


@dataclass(frozen=True)
class Refusal:
    """Why a draft was refused, what to do instead, and the earlier hypothesis if it repeats one."""

    reason: str
    hint: str
    duplicate_of: int | None = None


def refusal(
    draft: Draft,
    space: Space,
    earlier: Iterable[Earlier],
    refused: Callable[[Configuration], str | None] = nothing_refused,
) -> Refusal | None:
    """The first thing that speaks against a draft; None when it may be taken in.

    A void one is no obstacle to a person who asks again, nor to the confirmation of the best, which may have
    been proposed before in one step and withdrawn when another step was first; the agent's other proposers
    don't bring back what was withdrawn, nor run again what broke. `refused` is what a campaign's view says of
    configurations that are legal and can't be all the same.
    """
    return (
        _illegal(draft, space)
        or _refused(draft, refused)
        or _says_nothing(draft)
        or _contradictory(draft, space)
        or _duplicate(draft, earlier)
    )


def _duplicate(draft: Draft, earlier: Iterable[Earlier]) -> Refusal | None:
    arms = (draft.control.digest, draft.candidate.digest)
    may_repeat = draft.proposer in (USER, CONFIRMATION)
    for each in sorted(earlier, key=lambda each: each.hypothesis_id):
        if (each.control_digest, each.candidate_digest) == arms and not (each.void and may_repeat):
            label = format_label(Noun.HYPOTHESIS, each.hypothesis_id)
            return Refusal(
                f"{label} claims the same change of the same control, and is {each.state}.",
                f"See it with: autoinfer show {label}",
                each.hypothesis_id,
            )
    return None


def _illegal(draft: Draft, space: Space) -> Refusal | None:
    for arm, configuration in (("control", draft.control), ("candidate", draft.candidate)):
        try:
            settled = space.configuration(configuration)
        except UsageError as error:
            return Refusal(f"The {arm} is not legal here: {error.message}", error.hint)
        if settled != configuration:
            missing = ", ".join(change.knob for change in configuration.changes_to(settled))
            return Refusal(f"The {arm} leaves out {missing}.", "Give every active knob a value.")
    return None


def _refused(draft: Draft, refused: Callable[[Configuration], str | None]) -> Refusal | None:
    why = refused(draft.candidate)
    return None if why is None else Refusal(f"The candidate can't be here: {why}", "Change what it says.")


def _says_nothing(draft: Draft) -> Refusal | None:
    if not draft.claim.strip():
        return Refusal("The claim is empty.", "Say in a sentence what is expected.")
    if draft.candidate == draft.control:
        return Refusal("The candidate is the control: nothing changes.", "Change at least one knob.")
    return None


def _contradictory(draft: Draft, space: Space) -> Refusal | None:
    if not 0 < draft.min_effect < 1:
        return Refusal(
            f"The least effect {draft.min_effect:g} is not between 0 and 1.", "Give a share such as 0.03."
        )
    if not math.isfinite(draft.prediction.log_ratio_mean) or not math.isfinite(draft.prediction.log_ratio_sd):
        return Refusal("The prediction is not a number.", "Predict a finite log ratio with its spread.")
    levers = joined(space.levers_between(draft.control, draft.candidate))
    if draft.lever != levers:
        return Refusal(
            f"The draft names the lever {draft.lever}, but changes {levers}.", "Name what it changes."
        )
    return None
