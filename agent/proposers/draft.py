"""Making a draft: the claim as a full sentence, its prediction, and what would refute it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent.proposers.port import CampaignView, Draft
from agent.surrogate.levers import joined
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Change, Configuration, KnobValue
from experiments.space.space import Space
from knowledge.figures import DEFAULT_METRIC, margin

MOST_CHANGES_NAMED = 4
"""Changes of a lever that a claim spells out; of more it says how many."""

FASTER = "a token at least {} faster"
"""What a claim about latency says of its effect."""

EFFECTS: Mapping[Metric, str] = {
    Metric.STEP_WEIGHT_BYTES: "a step read at least {} fewer bytes of weights",
    Metric.NLL_BITS: "the same text take at least {} fewer bits",
    Metric.TASK_CORRECT: "at least {} more of the items come out right",
}
"""The same for other metrics."""

Z_80 = 1.2816
"""Half width of the 80 % interval of a normal, in standard deviations."""


def draft_of(
    view: CampaignView,
    candidate: Configuration,
    *,
    proposer: str,
    rationale: str,
    parents: Sequence[int] = (),
    metric: Metric | None = None,
) -> Draft:
    """A draft with the incumbent as its control, predicted by the view's surrogate.

    `metric` is what it is about; None stands for the campaign's objective.
    """
    control = view.incumbent
    levers = view.space.levers_between(control, candidate)
    own = () if view.incumbent_hypothesis_id is None else (view.incumbent_hypothesis_id,)
    return Draft(
        claim=claim(view.space, control, candidate, view.min_effect, metric),
        control=control,
        candidate=candidate,
        lever=joined(levers),
        prediction=predict(view, candidate, metric),
        min_effect=view.min_effect,
        refuted_if=refuted_if(view.min_effect, metric),
        rationale=rationale,
        proposer=proposer,
        parents=tuple(sorted({*own, *parents})),
        metric=metric,
    )


def predict(view: CampaignView, candidate: Configuration, metric: Metric | None) -> Prediction:
    """What the view's surrogate believes of candidate over incumbent, on the objective or another metric."""
    if metric is None:
        return view.predict(view.incumbent, candidate)
    if view.predict_on is None:
        raise ValueError(f"this campaign takes no hypothesis about {metric}")
    return view.predict_on(view.incumbent, candidate, metric)


def claim(
    space: Space,
    control: Configuration,
    candidate: Configuration,
    min_effect: float,
    metric: Metric | None = None,
) -> str:
    """A falsifiable sentence, such as: Compiling the decode step (default) makes a token at least 3 %
    faster. `metric` None stands for latency."""
    lever_of = {knob.name: knob.lever for knob in space.knobs}
    changes = control.changes_to(candidate)
    phrases = [
        _phrase(lever, [change for change in changes if lever_of[change.knob] == lever])
        for lever in space.levers_between(control, candidate)
    ]
    subject = phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]} together"
    verb = "makes" if len(phrases) == 1 else "make"
    what = EFFECTS.get(metric, FASTER) if metric is not None else FASTER
    least = margin(min_effect, metric or DEFAULT_METRIC)
    return f"{subject[0].upper()}{subject[1:]} {verb} {what.format(least)}."


def refuted_if(min_effect: float, metric: Metric | None = None) -> str:
    """What refutes such a claim, as the judge decides it."""
    least = margin(min_effect, metric or DEFAULT_METRIC)
    return (
        f"The whole interval of the effect lies above −{least}, or the quality is worse than its margin with "
        "confidence."
    )


def percent(log_ratio: float) -> str:
    """A log ratio as a signed change in percent, without its sign of percent: `−12`."""
    return f"{100 * math.expm1(log_ratio):+.0f}".replace("-", "−")


def predicted(view: CampaignView, candidate: Configuration, metric: Metric | None = None) -> str:
    """The surrogate's prediction in words, such as: predicted −12 % [−20, −3]."""
    found = predict(view, candidate, metric)
    low, high = (found.log_ratio_mean + side * Z_80 * found.log_ratio_sd for side in (-1, 1))
    of = "" if metric is None else f" of {metric.value}"
    return f"predicted {percent(found.log_ratio_mean)} % [{percent(low)}, {percent(high)}]{of}"


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
        criterion = after.get("pruning.criterion")
        by = f" by {criterion}" if criterion not in (None, "block_influence") else ""
        return f"removing {removed} {which}{'layer' if removed == 1 else 'layers'}{instead}{by}"
    if lever == "quantization" and (phrase := _quantizing(after, before)):
        return phrase
    if lever == "drafting" and (phrase := _drafting(after, before)):
        return phrase
    if lever == "dtype" and "serving.dtype" in after:
        return f"serving in {after['serving.dtype']} instead of {before['serving.dtype']}"
    if lever == "threads" and "serving.threads" in after:
        return f"running {after['serving.threads']} instead of {before['serving.threads']} threads"
    shown = [str(change) for change in changes[:MOST_CHANGES_NAMED]]
    more = len(changes) - len(shown)
    return f"changing {', '.join(shown)}" + (f" and {more} more" if more else "")


def _quantizing(after: Mapping[str, KnobValue | None], before: Mapping[str, KnobValue | None]) -> str | None:
    method, bits = after.get("quantization.method"), after.get("quantization.bits")
    if method not in (None, "none") and bits is not None:
        head = " with the head" if after.get("quantization.lm_head") == "quantized" else ""
        group = after.get("quantization.group_size")
        return f"quantizing{head} to {bits} bits by {method} in groups of {group}"
    if set(after) == {"quantization.corpus"}:
        return f"calibrating on {after['quantization.corpus']} instead of {before['quantization.corpus']}"
    if set(after) == {"quantization.group_size"}:
        was, now = before["quantization.group_size"], after["quantization.group_size"]
        return f"quantizing in groups of {now} instead of {was}"
    return None


def _drafting(after: Mapping[str, KnobValue | None], before: Mapping[str, KnobValue | None]) -> str | None:
    method, tokens = after.get("drafting.method"), after.get("drafting.draft_tokens")
    if method == "none" and before.get("drafting.method") is not None:
        return f"no longer drafting by {before['drafting.method']}"
    if method is not None and tokens is not None:
        return f"drafting {tokens} {'token' if tokens == 1 else 'tokens'} by {method}"
    if set(after) == {"drafting.draft_tokens"}:
        return f"drafting {tokens} instead of {before['drafting.draft_tokens']} tokens"
    return None
