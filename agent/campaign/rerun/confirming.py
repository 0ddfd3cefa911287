"""What is to be confirmed on other targets: what becomes a row, what goes next, what is left. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.campaign.decision.expected_there import TRANSFER_SD, target_of
from agent.campaign.known.facts import Facts
from agent.campaign.known.incumbent import is_on
from agent.campaign.known.other_targets import OtherTarget
from agent.proposers.draft import refuted_if
from agent.proposers.port import Draft, Trial
from agent.ranking.stopping import is_worth_it
from agent.ranking.values import Place
from configs.quantities import format_duration
from db.labels import Noun, format_label
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Prediction
from knowledge.figures import effect

if TYPE_CHECKING:
    from agent.campaign.decision.desk import Desk

PROPOSER = "promotion"
"""Who puts a test for another target into the queue."""


def drafts(facts: Facts) -> list[tuple[Draft, Trial, str]]:
    """What is to be put into the queue: what was supported on the objective, for each target that it was not
    put there for; with its test and the target."""
    known = set(facts.confirmed)
    arms = {(each.target, each.control.digest, each.candidate.digest) for each in facts.queue if each.target}
    found = []
    for target in facts.targets:
        for trial in facts.trials:
            key = (target.device, trial.control.digest, trial.candidate.digest)
            if (
                trial.outcome is not Outcome.SUPPORTED
                or trial.effect_log is None
                or not is_on(trial, facts.objective)
                or (trial.experiment_id, target.device) in known
                or key in arms
            ):
                continue
            arms.add(key)
            found.append((_draft(facts, trial, target.device), trial, target.device))
    return found


def _draft(facts: Facts, trial: Trial, target: str) -> Draft:
    assert trial.effect_log is not None
    sd = math.hypot(trial.effect_se_log or 0.0, TRANSFER_SD)
    here = format_label(Noun.EXPERIMENT, trial.experiment_id)
    share = effect(trial.effect_log, None, None, facts.objective.value)
    hypothesis = format_label(Noun.HYPOTHESIS, trial.hypothesis_id)
    changes = ", ".join(map(str, trial.control.changes_to(trial.candidate)))
    return Draft(
        claim=f"{hypothesis} holds on {target} too: {changes}.",
        control=trial.control,
        candidate=trial.candidate,
        lever=trial.lever,
        prediction=Prediction(log_ratio_mean=trial.effect_log, log_ratio_sd=sd),
        min_effect=facts.spec.plan.min_effect,
        refuted_if=refuted_if(facts.spec.plan.min_effect),
        rationale=(
            f"{here} supported it on {facts.target_key} ({share}). The same arms are tested under the same "
            f"plan on {target}, where it is to be used; each target keeps a finding of its own."
        ),
        proposer=PROPOSER,
        parents=(trial.hypothesis_id,),
    )


def choose_there(desk: Desk, device: str, left_s: float) -> Place | None:
    """The first of the queue that may run on a target: within the time that is left and the budgets, and
    worth its test. A wait that is a guess keeps nothing from being sent."""
    target = target_of(desk.facts, device)
    if target.held is not None:
        return None
    return next(
        (
            each
            for each in desk.ranking.places
            if each.target == device
            and each.may_run
            and is_worth_it(each)
            and _needs_s(each, target) <= left_s
        ),
        None,
    )


def _needs_s(place: Place, target: OtherTarget) -> float:
    return place.cost_s + (place.wait_s if target.is_wait_known else 0.0)


def left_over(places: Sequence[Place], facts: Facts, left_s: float) -> str:
    """What was worth confirming and was not, as the end of a reason to stop; empty for nothing."""
    left = [each for each in places if each.target and not each.paused and is_worth_it(each)]
    if not left:
        return ""
    held = next((found for each in left if (found := target_of(facts, each.target).held)), None)
    named = format_label(Noun.HYPOTHESIS, left[0].hypothesis_id)
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    why = f" ({held.rstrip('.')})" if held else ""
    if left[0].awaits_approval:
        why = f" (it waits for approval: autoinfer approve {named})"
    elif held is None and (needs_s := _needs_s(left[0], target_of(facts, left[0].target))) > left_s:
        why = f" (it needs {format_duration(needs_s)} and {format_duration(max(0.0, left_s))} are left)"
    return f"; not confirmed on {left[0].target}: {named}{more}{why}"
