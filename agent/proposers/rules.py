"""The proposer `rules`: what an engineer would try first, from where the baseline's time is. Pure.

Each rule looks at one lever and gives candidates that are one step from the incumbent, with the numbers of
the profile that speak for them; the last rule puts supported changes together. The rules take turns, each
with the candidate of the largest expected gain first, so that a short list has something of every kind. A
lever that no rule knows is tried value by value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from agent.proposers.draft import draft_of, predicted
from agent.proposers.port import CampaignView, Draft, Trial
from agent.proposers.recombination import recombinations
from agent.proposers.step_profile import StepProfile, step_profile
from agent.ranking.ranking import expected_gain
from configs.errors import UsageError
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import same_value

METHOD, LAYERS, RESTRICT = "pruning.method", "pruning.layers_removed", "pruning.restrict"
"""Knobs of depth pruning."""

COMPILE, COMPILE_OFF = "serving.compile", "off"
"""The knob of compilation, and its value that undoes it, which this rule never proposes."""

MOST_LAYERS_AT_ONCE = 2
"""Layers beyond the incumbent's that are proposed to go: three are seldom worth a test before two."""

LINEAR_WORDS = ("linear", "gdn")
"""Words in a layer's kind that make it a GatedDeltaNet layer."""


@dataclass(frozen=True)
class Idea:
    """A candidate and why it might pay."""

    candidate: Configuration
    rationale: str
    parents: tuple[int, ...] = ()


class RulesProposer:
    """Domain rules over the profile and the roofline; see the module's page."""

    name = "rules"

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts; rules take turns, the largest expected gain of each first."""
        step = step_profile(view.profile, view.tpot_ms)
        rules = [recombined(view), *(_lever_rule(view, step, lever) for lever in view.space.levers)]
        queues = [_best_first(view, ideas) for ideas in rules]
        drafts: list[Draft] = []
        seen = set(view.taken) | {view.incumbent.digest}
        while any(queues) and len(drafts) < count:
            for queue in queues:
                while queue:
                    idea = queue.pop(0)
                    if idea.candidate.digest not in seen and _allowed(view, idea.candidate):
                        seen.add(idea.candidate.digest)
                        drafts.append(_draft(view, idea))
                        break
                if len(drafts) == count:
                    break
        return drafts


def recombined(view: CampaignView) -> list[Idea]:
    """Supported changes that the incumbent lacks, each and all together on top of it."""
    return [
        Idea(
            found.candidate,
            f"{found.described} supported apart from the incumbent; together their effects should add on the "
            f"log scale.",
            found.parents,
        )
        for found in recombinations(view)
    ]


def _lever_rule(view: CampaignView, step: StepProfile | None, lever: str) -> list[Idea]:
    rule = {"compile": _compile, "pruning": _pruning, "dtype": _dtype, "threads": _threads}.get(lever)
    return rule(view, step) if rule else _value_by_value(view, lever)


def _compile(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """Time that is dispatch, not bytes, is what compilation removes."""
    if step is None:
        why = "A decode step at batch 1 is many small operations, whose dispatch compilation removes."
    else:
        bound = "dispatch and not memory is" if step.dispatch_bound else "memory is"
        outside = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in _largest(step.other))
        why = (
            f"A step of {step.tpot_ms:.2f} ms reads {step.weight_bytes / 1e6:.1f} MB of weights, "
            f"{step.gb_per_s:.2f} GB/s: {bound} what it waits for; layers take {100 * step.layers:.0f} %, "
            f"outside them {outside}."
        )
    return [
        Idea(candidate, why)
        for candidate in _other_values(view, "compile")
        if candidate.get(COMPILE) != COMPILE_OFF
    ]


def _pruning(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """A layer that goes takes its time along; a few at a time, and none where fewer lost the quality."""
    names = {knob.name for knob in view.space.knobs}
    if not {METHOD, LAYERS} <= names:
        return _value_by_value(view, "pruning")
    now = view.incumbent.get(LAYERS, 0)
    removed = now if isinstance(now, int) else 0
    restricts: tuple[KnobValue | None, ...] = (
        view.space.knob(RESTRICT).values if RESTRICT in names else (None,)
    )
    ideas = []
    for count in view.space.knob(LAYERS).values:
        if not isinstance(count, int) or not removed < count <= removed + MOST_LAYERS_AT_ONCE:
            continue
        for restrict in restricts:
            if any(_lost_quality(trial, count, restrict, view.min_effect) for trial in view.trials):
                continue
            knobs: dict[str, KnobValue] = {METHOD: "depth", LAYERS: count}
            if restrict is not None:
                knobs[RESTRICT] = restrict
            candidate = _changed(view, knobs)
            if candidate is not None:
                ideas.append(Idea(candidate, _pruning_why(view, step, count, restrict)))
    return ideas


def _pruning_why(view: CampaignView, step: StepProfile | None, count: int, restrict: KnobValue | None) -> str:
    chosen = [
        number
        for number, kind in enumerate(view.model_layers)
        if restrict in (None, "any", _restrict_of(kind))
    ]
    kinds = "" if restrict in (None, "any") else f"{restrict} "
    if step is None or not step.layer_share:
        return f"Each of {len(view.model_layers)} layers runs once a token; {count} of them would go."
    share = step.share_of(chosen)
    return (
        f"The layers take {100 * step.layers:.0f} % of a step of {step.tpot_ms:.2f} ms, one {kinds}layer "
        f"{100 * share:.1f} % on average, so {count} fewer should save {100 * share * count:.1f} %; whether "
        "the quality holds is the open question."
    )


def _dtype(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """Bytes are what a number format saves; worth more the nearer the step is to the memory's speed."""
    if step is None:
        why = "A narrower number format halves the bytes of a step."
    else:
        why = (
            f"A step reads {step.weight_bytes / 1e6:.1f} MB of weights in {step.tpot_ms:.2f} ms, "
            f"{step.gb_per_s:.2f} GB/s, and another number format changes those bytes and the kernels."
        )
    return [Idea(candidate, why) for candidate in _other_values(view, "dtype")]


def _threads(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """The neighbours of the incumbent's number of threads."""
    ideas = []
    for knob in view.space.active(view.incumbent):
        if knob.lever != "threads":
            continue
        now = view.incumbent[knob.name]
        at = next(k for k, value in enumerate(knob.values) if same_value(value, now))
        for value in knob.values[max(0, at - 1) : at + 2]:
            candidate = None if same_value(value, now) else _changed(view, {knob.name: value})
            if candidate is not None:
                why = (
                    f"The incumbent runs {now} threads on {view.cores} cores; small operations gain from "
                    "fewer, large ones from more, and what suits changes with every other lever."
                )
                ideas.append(Idea(candidate, why))
    return ideas


def _value_by_value(view: CampaignView, lever: str) -> list[Idea]:
    why = f"No rule knows the lever {lever}; its effect here is not known until it is measured."
    return [Idea(candidate, why) for candidate in _other_values(view, lever)]


def _other_values(view: CampaignView, lever: str) -> list[Configuration]:
    """Every configuration that one knob of the lever leads to."""
    return [
        candidate
        for candidate in view.space.neighbours(view.incumbent)
        if view.space.levers_between(view.incumbent, candidate) == (lever,)
    ]


def _changed(view: CampaignView, knobs: Mapping[str, KnobValue]) -> Configuration | None:
    try:
        return view.space.with_change(view.incumbent, knobs)
    except UsageError:  # the space of this target lacks such a value
        return None


def _lost_quality(trial: Trial, count: int, restrict: KnobValue | None, min_effect: float) -> bool:
    """Whether this trial removed no more layers of that kind, was fast enough, and was refuted: by
    quality."""
    layers = trial.candidate.get(LAYERS)
    return (
        trial.outcome == Outcome.REFUTED
        and trial.effect_log is not None
        and trial.effect_log < np.log1p(-min_effect)
        and isinstance(layers, int)
        and layers <= count
        and trial.candidate.get(RESTRICT) == restrict
    )


def _restrict_of(kind: str) -> str:
    return "gdn" if any(word in kind for word in LINEAR_WORDS) else "attention"


def _largest(shares: Mapping[str, float], most: int = 3) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda share: (-share[1], share[0]))[:most]


def _allowed(view: CampaignView, candidate: Configuration) -> bool:
    return not view.banned_levers & set(view.space.levers_between(view.incumbent, candidate))


def _best_first(view: CampaignView, ideas: Iterable[Idea]) -> list[Idea]:
    found = list(ideas)
    beliefs = [view.predict(view.incumbent, idea.candidate) for idea in found]
    gains = expected_gain(
        np.array([belief.log_ratio_mean for belief in beliefs]),
        np.array([belief.log_ratio_sd for belief in beliefs]),
    )
    order = sorted(range(len(found)), key=lambda k: (-float(gains[k]), found[k].candidate.digest))
    return [found[k] for k in order]


def _draft(view: CampaignView, idea: Idea) -> Draft:
    rationale = f"{idea.rationale} Surrogate: {predicted(view, idea.candidate)}."
    return draft_of(
        view, idea.candidate, proposer=RulesProposer.name, rationale=rationale, parents=idea.parents
    )
