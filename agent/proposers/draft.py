"""Making a draft: the claim as a full sentence, its prediction, and what would refute it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.proposers.port import CampaignView, Draft
from agent.surrogate.levers import joined
from experiments.space.configuration import Change, Configuration
from experiments.space.space import Space

MOST_CHANGES_NAMED = 4
"""Changes of a lever that a claim spells out; of more it says how many."""

Z_80 = 1.2816
"""Half width of the 80 % interval of a normal, in standard deviations."""


def draft_of(
    view: CampaignView,
    candidate: Configuration,
    *,
    proposer: str,
    rationale: str,
    parents: Sequence[int] = (),
) -> Draft:
    """A draft with the incumbent as its control, predicted by the view's surrogate."""
    control = view.incumbent
    levers = view.space.levers_between(control, candidate)
    own = () if view.incumbent_hypothesis_id is None else (view.incumbent_hypothesis_id,)
    return Draft(
        claim=claim(view.space, control, candidate, view.min_effect),
        control=control,
        candidate=candidate,
        lever=joined(levers),
        prediction=view.predict(control, candidate),
        min_effect=view.min_effect,
        refuted_if=refuted_if(view.min_effect),
        rationale=rationale,
        proposer=proposer,
        parents=tuple(sorted({*own, *parents})),
    )


def claim(space: Space, control: Configuration, candidate: Configuration, min_effect: float) -> str:
    """A falsifiable sentence, such as: Compiling the decode step (default) makes a token at least 3 %
    faster."""
    lever_of = {knob.name: knob.lever for knob in space.knobs}
    changes = control.changes_to(candidate)
    phrases = [
        _phrase(lever, [change for change in changes if lever_of[change.knob] == lever])
        for lever in space.levers_between(control, candidate)
    ]
    subject = phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]} together"
    verb = "makes" if len(phrases) == 1 else "make"
    return f"{subject[0].upper()}{subject[1:]} {verb} a token at least {100 * min_effect:g} % faster."


def refuted_if(min_effect: float) -> str:
    """What refutes such a claim, as the judge decides it."""
    return (
        f"The whole interval of the effect lies above −{100 * min_effect:g} %, or the quality is worse than "
        "its margin with confidence."
    )


def percent(log_ratio: float) -> str:
    """A log ratio as a signed change in percent, without its sign of percent: `−12`."""
    return f"{100 * math.expm1(log_ratio):+.0f}".replace("-", "−")


def predicted(view: CampaignView, candidate: Configuration) -> str:
    """The surrogate's prediction in words, such as: predicted −12 % [−20, −3]."""
    found = view.predict(view.incumbent, candidate)
    low, high = (found.log_ratio_mean + side * Z_80 * found.log_ratio_sd for side in (-1, 1))
    return f"predicted {percent(found.log_ratio_mean)} % [{percent(low)}, {percent(high)}]"


def _phrase(lever: str, changes: Sequence[Change]) -> str:
    """What changing one lever means, as a gerund: `compiling the decode step (default)`."""
    after = {change.knob: change.after for change in changes}
    before = {change.knob: change.before for change in changes}
    mode = after.get("serving.compile")
    if lever == "compile" and mode not in (None, "off"):
        return f"compiling the decode step ({mode})"
    removed, fewer = after.get("pruning.layers_removed"), before.get("pruning.layers_removed")
    if lever == "pruning" and isinstance(removed, int):
        kind = after.get("pruning.restrict")
        which = f"{kind} " if kind not in (None, "any") else ""
        instead = f" instead of {fewer}" if fewer is not None else ""
        return f"removing {removed} {which}{'layer' if removed == 1 else 'layers'}{instead}"
    if lever == "dtype" and "serving.dtype" in after:
        return f"serving in {after['serving.dtype']} instead of {before['serving.dtype']}"
    if lever == "threads" and "serving.threads" in after:
        return f"running {after['serving.threads']} instead of {before['serving.threads']} threads"
    shown = [str(change) for change in changes[:MOST_CHANGES_NAMED]]
    more = len(changes) - len(shown)
    return f"changing {', '.join(shown)}" + (f" and {more} more" if more else "")
