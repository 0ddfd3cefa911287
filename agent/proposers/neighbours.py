"""The proposer `neighbours`: one step from the best so far, whatever lever it is on. Pure.

A neighbour differs in one knob: by the next value up or down where its values are numbers, by any other where
they are names. It needs no theory of its own, so it reaches levers that no rule knows, and values that the
others pass over; what suits one knob may have changed with every change of the others. Nothing leads back to
the baseline, which is measured already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.proposers.idea import Idea, changed, other_values
from agent.proposers.of_objective import acts_on, comes_too_late
from agent.proposers.port import CampaignView, Draft, Trial
from agent.proposers.turns import Rule, in_turns, within_budget
from agent.surrogate.drafting import METHOD, TOKENS
from db.labels import Noun, format_label
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob, same_value
from experiments.space.legality import MOST_DRAFT_TOKENS
from experiments.space.prompt_graph_rules import AUTO, GRAPH_TOKENS
from experiments.space.workload_rules import BATCH_TOKENS
from knowledge.figures import counted, percent

NAME = "neighbours"

THREADS, QUANTIZATION = "threads", "quantization"
"""Levers of which it says more, or that only change time where the engine computes with packed weights."""


class NeighboursProposer:
    """One step from the best; see the module's page."""

    name = NAME

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts, the largest expected gain first."""
        return in_turns(view, [Rule(NAME, within_budget(view, neighbours(view)))], count)


def neighbours(view: CampaignView) -> list[Idea]:
    """Every neighbour of the incumbent that may help what the campaign is about."""
    ideas = []
    for knob in view.space.active(view.incumbent):
        if knob.lever == QUANTIZATION and not view.serves_packed:
            continue  # no step gets faster by it, and on other metrics the roofline proposes it
        for value in beside(knob.values, view.incumbent[knob.name]):
            candidate = changed(view, {knob.name: value})
            if candidate is None or candidate == view.baseline or _too_many_drafted(candidate):
                continue
            if comes_too_late(view, candidate):
                continue
            ideas.append(Idea(candidate, _why(view, knob, value)))
    return ideas


def of_lever(view: CampaignView, lever: str) -> list[Idea]:
    """The neighbours on one lever that no rule knows."""
    if lever == THREADS:
        return [
            Idea(candidate, _why(view, knob, value))
            for knob in view.space.active(view.incumbent)
            if knob.lever == THREADS
            for value in beside(knob.values, view.incumbent[knob.name])
            if (candidate := changed(view, {knob.name: value})) is not None
        ]
    why = acts_on(view, lever).strip() or (
        f"No rule knows the lever {lever}; its effect here is not known until it is measured."
    )
    return [
        Idea(each, _counted(view, each).strip() or why)
        for each in other_values(view, lever)
        if not comes_too_late(view, each)
    ]


def beside(values: Sequence[KnobValue], now: KnobValue) -> tuple[KnobValue, ...]:
    """The values next to this one: the next number down and up, or every other name."""
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
    if not numbers:
        return tuple(each for each in values if not same_value(each, now))
    at = next((k for k, each in enumerate(values) if same_value(each, now)), None)
    if at is None:  # a value of the user's own
        return tuple(values)
    return tuple(values[k] for k in (at - 1, at + 1) if 0 <= k < len(values))


def _too_many_drafted(candidate: Configuration) -> bool:
    tokens, most = candidate.get(TOKENS), MOST_DRAFT_TOKENS.get(str(candidate.get(METHOD)))
    return isinstance(tokens, int) and most is not None and tokens > most


def _why(view: CampaignView, knob: Knob, value: KnobValue) -> str:
    now = view.incumbent[knob.name]
    if knob.lever == THREADS:
        return (
            f"The incumbent runs {now} {'thread' if now == 1 else 'threads'} on "
            f"{counted(view.cores, 'core')}; small operations gain from "
            "fewer, large ones from more, and what suits changes with every other lever."
        )
    why = f"One step from the best so far: {knob.name} {now} → {value}, all else as it is."
    counted_why = _counted(view, changed(view, {knob.name: value}))
    return f"{why}{counted_why}{acts_on(view, knob.lever)}{_tried_before(view.trials, knob.name, value)}"


def _counted(view: CampaignView, candidate: Configuration | None) -> str:
    """What was counted of other tokens of a step, or of graphs of a prompt's; empty where nothing was."""
    return _counted_steps(view, candidate) or _counted_launches(view, candidate)


def _counted_launches(view: CampaignView, candidate: Configuration | None) -> str:
    """What the first token takes beside arithmetic, where a candidate captures the step that it waits for."""
    now = view.incumbent.get(GRAPH_TOKENS)
    then = None if candidate is None else candidate.get(GRAPH_TOKENS)
    if view.prompt_launches is None or then is None or now != AUTO or now == then:
        return ""
    told = view.prompt_launches.told(then)
    return f" {told}" if told else ""


def _counted_steps(view: CampaignView, candidate: Configuration | None) -> str:
    """What other tokens of a step were counted to do to a token's time; empty where nothing was counted."""
    steps, now = view.step_tokens, view.incumbent.get(BATCH_TOKENS)
    then = None if candidate is None else candidate.get(BATCH_TOKENS)
    if steps is None or now is None or then is None or now == then:
        return ""
    effect, asked = steps.effect_log(now, then), steps.asked
    share = round(100 * abs(math.expm1(effect)))
    takes = (
        f"{share} % {'more' if effect > 0 else 'less'} time, by the prompts of others that are read before it"
        if share
        else "as long"
    )
    return (
        f" Counted step by step for {asked.at_once} requests at once, each of {asked.prompt_tokens:,} tokens "
        f"and {asked.new_tokens:,} new ones: with steps of at most {steps.tokens(then):,} tokens in place of "
        f"{steps.tokens(now):,} a token takes {takes}."
    )


def _tried_before(trials: Sequence[Trial], knob: str, value: KnobValue) -> str:
    """What the newest test of this one step on another configuration found; empty where there is none."""
    for trial in reversed(trials):
        changes = trial.control.changes_to(trial.candidate)
        same = [change.knob for change in changes] == [knob] and same_value(changes[0].after, value)
        if same and trial.effect_log is not None and trial.on_objective:
            label = format_label(Noun.HYPOTHESIS, trial.hypothesis_id)
            return f" On another configuration {label} measured {percent(trial.effect_log)} of it."
    return ""
