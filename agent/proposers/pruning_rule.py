"""The rule of pruning: a layer that goes takes its time along. Pure.

A few layers at a time, and none where fewer of the same choice lost the quality. Where a choice lost it, the
same number of layers by another criterion is proposed, since another criterion takes other layers; on a
quantized model layers are ranked on that model too. An incumbent above the parameter budget is pruned at once
by the fewest layers that bring it within.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from agent.proposers.idea import Idea, changed, enumerated, other_values
from agent.proposers.of_objective import of_first_tokens
from agent.proposers.port import CampaignView, Trial
from agent.proposers.step_profile import StepProfile
from db.labels import Noun, format_label
from experiments.measurement.judging import Outcome
from experiments.space.budget import with_pruning_that_pays
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import same_value

METHOD, LAYERS, RESTRICT = "pruning.method", "pruning.layers_removed", "pruning.restrict"
"""Knobs of depth pruning."""

WAYS = ("pruning.criterion", "pruning.ranked_on", "pruning.order")
"""Knobs that decide which layers go, not how many or of which kind."""

MOST_LAYERS_AT_ONCE = 2
"""Layers beyond the incumbent's that are proposed to go: three are seldom worth a test before two."""

OTHER_LOSSES = ("quantization.", "serving.dtype")
"""Knobs, or how their names begin, that may lose the quality in pruning's place."""

LINEAR_WORDS = ("linear", "gdn")
"""Words in a layer's kind that make it a GatedDeltaNet layer."""


def pruning(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """Candidates with one or two layers fewer than the incumbent."""
    names = {knob.name for knob in view.space.knobs}
    if not {METHOD, LAYERS} <= names:
        why = "What this pruning does is not known until it is measured."
        return [Idea(candidate, why) for candidate in other_values(view, "pruning")]
    removed, refusal, fitting = _removed(view), view.refused(view.incumbent), least_layers_that_fit(view)
    counts = range(removed + 1, removed + MOST_LAYERS_AT_ONCE + 1) if fitting is None else (fitting,)
    ideas = []
    for count in enumerated(view, LAYERS):
        if not isinstance(count, int) or count not in counts:
            continue
        for restrict in enumerated(view, RESTRICT) or (None,):
            knobs: dict[str, KnobValue] = {METHOD: "depth", LAYERS: count}
            if restrict is not None:
                knobs[RESTRICT] = restrict
            candidate = changed(view, knobs)
            if candidate is None:
                continue
            losses = losing(view.trials, view.model_layers, candidate, view.min_effect)
            if not losses:
                why = _why(view, step, count, restrict)
                ideas.append(Idea(candidate, why if refusal is None else f"{refusal} {why}"))
            ideas += _other_ways(view, candidate, losses)
    return ideas


def least_layers_that_fit(view: CampaignView) -> int | None:
    """The fewest removed layers with which an incumbent that is refused itself, as a baseline above the
    parameter budget is, would not be; None where it is not refused, or no pruning helps."""
    if not view.pruning_pays or view.refused(view.incumbent) is None:
        return None
    paid = with_pruning_that_pays(view.space, view.refused, view.incumbent)
    counts = [count for each in paid if isinstance(count := each.get(LAYERS), int)]
    return min(counts, default=None)


def _removed(view: CampaignView) -> int:
    now = view.incumbent.get(LAYERS, 0)
    return now if isinstance(now, int) else 0


def _other_ways(view: CampaignView, candidate: Configuration, losses: list[Trial]) -> list[Idea]:
    """The same number of layers chosen in another way, where this one lost the quality or ranked on a model
    that is not served."""
    ideas = []
    for knob in WAYS:
        if knob not in candidate or not (losses or knob == "pruning.ranked_on"):
            continue
        for value in view.space.knob(knob).values:
            if same_value(value, candidate[knob]):
                continue
            other = view.space.with_change(candidate, {knob: value})
            if losing(view.trials, view.model_layers, other, view.min_effect):
                continue
            if losses:
                label = format_label(Noun.HYPOTHESIS, losses[0].hypothesis_id)
                why = (
                    f"{label} was fast enough and lost the quality with layers chosen by "
                    f"{losses[0].candidate.get(WAYS[0], 'the only criterion')}; {knob}={value} takes others."
                )
            else:
                why = (
                    "The model that is served is quantized, and what looked redundant before may have been "
                    f"used up since: {knob}={value} ranks the layers on it."
                )
            ideas.append(Idea(other, why, tuple(trial.hypothesis_id for trial in losses[:1])))
    return ideas


def _why(view: CampaignView, step: StepProfile | None, count: int, restrict: KnobValue | None) -> str:
    chosen = [
        number
        for number, kind in enumerate(view.model_layers)
        if restrict in (None, "any", _restrict_of(kind))
    ]
    kinds = "" if restrict in (None, "any") else f"{restrict} "
    if of_first_tokens(view):
        return (
            f"The first token waits for each of {len(view.model_layers)} layers to read the prompt, and "
            f"{count} {kinds}{'layer' if count == 1 else 'layers'} would go; whether the quality holds is "
            "the open question."
        )
    if step is None or not step.layer_share:
        return f"Each of {len(view.model_layers)} layers runs once a token; {count} of them would go."
    share = step.share_of(chosen)
    return (
        f"The layers take {100 * step.layers:.0f} % of the baseline's step of {step.tpot_ms:.2f} ms, one "
        f"{kinds}layer {100 * share:.1f} % on average, so {count} fewer should save "
        f"{100 * share * count:.1f} %; whether the quality holds is the open question."
    )


def losing(
    trials: Iterable[Trial], layers: Sequence[str], candidate: Configuration, min_effect: float
) -> list[Trial]:
    """The trials that speak against this candidate's pruning: they lost the quality, though they were fast
    enough, with layers that it takes too.

    `layers` are the kinds of the model's layers. One criterion takes layers in one order, so more of the same
    choice are those and further ones. And where the lowest of all layers are of one kind, they are the lowest
    of that kind. A trial that changed the numbers' format too does not tell what pruning lost.
    """
    most = candidate.get(LAYERS)
    if candidate.get(METHOD) != "depth" or not isinstance(most, int):
        return []
    return [
        trial
        for trial in trials
        if trial.on_objective
        and trial.outcome == Outcome.REFUTED
        and (trial.effect_log is None or trial.effect_log < math.log1p(-min_effect))
        and all(trial.candidate.get(knob) == candidate.get(knob) for knob in WAYS)
        and not any(each.knob.startswith(OTHER_LOSSES) for each in trial.control.changes_to(trial.candidate))
        and _takes_them_too(trial, layers, candidate.get(RESTRICT), most)
    ]


def _takes_them_too(trial: Trial, layers: Sequence[str], restrict: KnobValue | None, most: int) -> bool:
    taken, chosen = trial.candidate.get(LAYERS), trial.candidate.get(RESTRICT)
    if not isinstance(taken, int) or taken > most:
        return False
    if chosen == restrict:
        return True
    if chosen != "any" or not trial.removed_layers or max(trial.removed_layers) >= len(layers):
        return False
    return {_restrict_of(layers[layer]) for layer in trial.removed_layers} == {restrict}


def _restrict_of(kind: str) -> str:
    return "gdn" if any(word in kind for word in LINEAR_WORDS) else "attention"
