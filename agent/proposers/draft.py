"""Making a draft: the claim as a full sentence, its prediction, and what would refute it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.proposers.port import CampaignView, Draft
from agent.surrogate.levers import joined
from experiments.space.configuration import Change, Configuration

MOST_CHANGES_NAMED = 4
"""Changes that a claim spells out; of more it says how many."""


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
        claim=claim(control.changes_to(candidate), levers, view.min_effect),
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


def claim(changes: Sequence[Change], levers: Sequence[str], min_effect: float) -> str:
    """A falsifiable sentence, such as: Compiling the decode step makes a token at least 3 % faster."""
    return f"{_subject(changes, levers)} makes a token at least {100 * min_effect:g} % faster."


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


Z_80 = 1.2816
"""Half width of the 80 % interval of a normal, in standard deviations."""


def _subject(changes: Sequence[Change], levers: Sequence[str]) -> str:
    after = {change.knob: change.after for change in changes}
    if tuple(levers) == ("compile",) and after.get("serving.compile") not in (None, "off"):
        return f"Compiling the decode step ({_listed(changes)})"
    if tuple(levers) == ("pruning",) and "pruning.layers_removed" in after:
        count = after["pruning.layers_removed"]
        kind = after.get("pruning.restrict")
        which = f"{kind} " if kind not in (None, "any") else ""
        if count is not None:
            return f"Removing {count} {which}{'layer' if count == 1 else 'layers'} ({_listed(changes)})"
    if tuple(levers) == ("dtype",):
        return f"Another number format ({_listed(changes)})"
    if tuple(levers) == ("threads",):
        return f"Another number of threads ({_listed(changes)})"
    return f"Changing {_listed(changes)}"


def _listed(changes: Sequence[Change]) -> str:
    shown = [str(change) for change in changes[:MOST_CHANGES_NAMED]]
    more = len(changes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
