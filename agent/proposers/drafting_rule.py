"""The rule of drafting: more than one token a step, where enough of them are accepted to pay. Pure.

The cost of a drafting step comes from the profile (`agent/surrogate/drafting.py`), so that each candidate
names the acceptance at which it breaks even. An external drafter that the parameter budget refuses is
proposed together with the fewest pruned layers that pay for it. What was found of drafting holds for the
target it was found on: after every change of the target's weights it is measured again.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.proposers.idea import Idea, changed, enumerated, other_values
from agent.proposers.of_objective import comes_too_late
from agent.proposers.port import CampaignView, Trial
from agent.proposers.step_profile import StepProfile
from agent.surrogate.drafting import METHOD, NONE, TOKENS, DraftingCost, drafts
from agent.surrogate.levers import TARGET_LEVERS
from db.labels import Noun, format_label
from experiments.space.budget import with_pruning_that_pays
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.legality import MOST_DRAFT_TOKENS

WITH: Mapping[str, str] = {
    "mtp": "the MTP head, whose weights the model has already",
    "ngram": "what followed the same tokens earlier in the text",
    "draft_model": "a smaller model",
    "dflash": "a block-diffusion drafter that reads the hidden states",
}
"""What drafts, in words."""


def drafting(view: CampaignView, step: StepProfile | None) -> list[Idea]:
    """Every method and number of draft tokens, paid for."""
    if METHOD not in {knob.name for knob in view.space.knobs}:
        return [
            Idea(candidate, "What this drafting does is not known until it is measured.")
            for candidate in other_values(view, "drafting")
        ]
    cost = view.drafting_cost or DraftingCost.of(view.profile, view.model_layers)
    ideas: list[Idea] = []
    for method in map(str, enumerated(view, METHOD)):
        for tokens in enumerated(view, TOKENS) if method != NONE else ():
            if not isinstance(tokens, int) or tokens > MOST_DRAFT_TOKENS.get(method, tokens):
                continue
            candidate = changed(view, {METHOD: method, TOKENS: tokens})
            if candidate is None:
                continue
            refused = view.refused(candidate)
            why = _why(view, step, cost, method, tokens)
            if refused is None:
                ideas.append(Idea(candidate, why))
            elif view.pruning_pays:
                ideas += [
                    Idea(paid, f"{why} {refused} The fewest layers that pay for it go with it.")
                    for paid in with_pruning_that_pays(view.space, view.refused, candidate)
                ]
    return ideas


def measured_again(view: CampaignView) -> list[Idea]:
    """What was found of drafting on another target than the incumbent's, to be measured on this one.

    An incumbent that drafts is compared with itself without; one that does not, with the drafting that was
    tried before. Of each method and number of tokens the newest verdict counts.
    """
    target = _target(view.incumbent)
    verdicts: dict[tuple[str, int], Trial] = {}
    here: set[tuple[str, int]] = set()
    for trial in view.trials:
        about = drafts(trial.candidate) or drafts(trial.control)
        if about is None or not trial.on_objective or not _about_drafting(trial):
            continue
        if _target(trial.control) == _target(trial.candidate) == target:
            here.add(about)
        else:
            verdicts[about] = trial
    own = drafts(view.incumbent)
    ideas = []
    for (method, tokens), trial in verdicts.items():
        if (method, tokens) in here or (own is not None and own != (method, tokens)):
            continue
        knobs: dict[str, KnobValue] = {METHOD: NONE}
        if own is None:
            knobs = {k: v for k, v in trial.candidate.items() if k.startswith("drafting.")}
            if drafts(knobs) is None:  # the verdict was on leaving it out
                knobs = {k: v for k, v in trial.control.items() if k.startswith("drafting.")}
        candidate = changed(view, knobs)
        if candidate is None or view.refused(candidate) is not None or comes_too_late(view, candidate):
            continue
        label = format_label(Noun.HYPOTHESIS, trial.hypothesis_id)
        why = (
            f"{label} measured drafting {tokens} by {method} on a target with other weights "
            f"({_difference(trial.candidate, view.incumbent)}); what a target accepts changes with its "
            "weights, so drafting is measured again on this one."
        )
        ideas.append(Idea(candidate, why, (trial.hypothesis_id,)))
    return ideas


def _why(view: CampaignView, step: StepProfile | None, cost: DraftingCost, method: str, tokens: int) -> str:
    whole = cost.step(method, tokens)
    needed = cost.break_even_acceptance(method, tokens)
    length = "a step" if step is None else f"the baseline's step of {step.tpot_ms:.2f} ms"
    pays = (
        "which not even full acceptance would pay for"
        if needed is None
        else f"so against no drafting it pays from {whole:.2f} tokens a step on, "
        f"{100 * needed:.0f} % of first drafts accepted"
    )
    plural = "token" if tokens == 1 else "tokens"
    host = cost.host(method, tokens)
    launched = f", and what the processor does for it about {100 * host:.0f} %" if host else ""
    return (
        f"{tokens} {plural} drafted by {WITH.get(method, method)}: each token more makes {length} "
        f"{100 * cost.growth_of(tokens) / tokens:.0f} % longer and drafting takes "
        f"{100 * cost.draft(method, tokens):.0f} % of one{launched}, {whole:.2f} steps in all, {pays}."
    )


def _about_drafting(trial: Trial) -> bool:
    return any(c.knob.startswith("drafting.") for c in trial.control.changes_to(trial.candidate))


def _target(configuration: Configuration) -> tuple[tuple[str, KnobValue], ...]:
    """The knobs that make the target's weights."""
    return tuple(
        (knob, value) for knob, value in configuration.items() if knob.partition(".")[0] in TARGET_LEVERS
    )


def _difference(before: Configuration, after: Configuration) -> str:
    changes = [
        str(change)
        for change in before.changes_to(after)
        if change.knob.partition(".")[0] in TARGET_LEVERS and None not in (change.before, change.after)
    ]
    return ", ".join(changes) or "another choice of pruning or quantization"
