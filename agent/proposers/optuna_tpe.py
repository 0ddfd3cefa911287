"""The proposer `optuna`: a tree-structured Parzen estimator over the conditional space, by ask and tell.

The study is built anew from the trials at every call and lives in memory, so that the proposer keeps no state
and gives the same drafts for the same view. Trial 0 is the baseline with value 0; every judged trial is told
with its log TPOT over the baseline's, along the chain of its controls. What did not run or lost its quality
is told as worse than everything measured (a failed trial would simply be forgotten, and asked for again). The
sampler is Optuna's TPE, multivariate and grouped, which models the branches of a conditional space apart
(FACTS: InferenceBench has it close behind the best). Knobs that are noise are neither sampled nor told: a
candidate has the incumbent's value, or the default where the incumbent lacks the knob. An external drafter
that the parameter budget refuses is proposed together with the fewest pruned layers that pay for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import create_trial

from agent.proposers.draft import draft_of, predicted
from agent.proposers.of_objective import AFTER_FIRST, of_first_tokens
from agent.proposers.port import CampaignView, Draft, Trial
from agent.proposers.tpe_sampler import tpe_sampler
from agent.surrogate.levers import NOISE_KNOBS
from experiments.measurement.judging import Outcome
from experiments.space.budget import with_pruning_that_pays
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob, is_among
from experiments.space.legality import DRAFTING, EXTERNAL_DRAFTERS
from experiments.space.space import Space
from knowledge.figures import counted

STARTUP_TRIALS = 4
"""Trials, the baseline among them, before the estimator replaces random choice: a campaign has few."""

ASKS_A_DRAFT = 40
"""Points that are asked for, at most, for one draft; those taken, banned or equal to the incumbent are passed
over."""

LISTED_POINTS = 200
"""Of a space with no more points, what is left is listed before anything is asked for, for an ask takes some
milliseconds, and where nothing is left all of them are in vain."""

PENALTY_LOG = 0.3
"""How much worse than the worst measured value a trial is told that did not run or lost its quality."""

QUANTIZATION = "quantization"
"""The lever that saves no time on an engine that dequantizes its weights: a draft on the objective that takes
it along would make weights worse for nothing, and hand them on to what comes after."""

SEED_RANGE = 2**32
"""Seeds of the sampler lie below this."""


class OptunaProposer:
    """Optuna's TPE behind the proposer's port; stateless, deterministic for a view."""

    name = "optuna"

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts; fewer when the space is nearly exhausted."""
        asks = ASKS_A_DRAFT * count
        left = _left(view)
        if left is not None:
            count = min(count, len(left))
        if count == 0:
            return []
        study = _study(view)
        told = len(study.trials)
        seen = set(view.taken)
        drafts: list[Draft] = []
        for candidate, differs in drawn(view, study, asks):
            if candidate.digest in seen:
                continue
            seen.add(candidate.digest)
            rationale = (
                f"The optimizer (TPE) knows {counted(told, 'trial')}, baseline included, and {_how(told)}; "
                f"{differs} "
                f"Surrogate: {predicted(view, candidate)}."
            )
            drafts.append(draft_of(view, candidate, proposer=self.name, rationale=rationale))
            if len(drafts) == count:
                break
        return drafts


def drawn(view: CampaignView, study: optuna.Study, asks: int) -> Iterator[tuple[Configuration, str]]:
    """What the study's sampler draws in so many asks and may be tested here, with a sentence on how it
    differs from the incumbent; the same point may come again."""
    for _ in range(asks):
        candidate = _ask(view.space, study.ask(), _kept(view))
        if candidate is None:  # a value that must be given is not the sampler's to give
            continue
        # every trial that was asked for stays open, so that the sampler keeps away from its point
        found = _admitted(view, candidate)
        if found is not None:
            yield found


def _admitted(view: CampaignView, candidate: Configuration) -> tuple[Configuration, str] | None:
    """What is tested where this point was drawn, with a sentence on how it differs from the incumbent; None
    where it does not, or may not be tested here."""
    candidate, paid = _paid(view, view.space.named_as(view.incumbent, candidate))
    levers = set(view.space.levers_between(view.incumbent, candidate))
    if not levers or levers & view.banned_levers or view.refused(candidate) is not None:
        return None
    return candidate, f"it differs from the incumbent in {', '.join(sorted(levers))}.{paid}"


def _left(view: CampaignView) -> Set[str] | None:
    """The digests of all that may be drawn and is not taken; None where a space has too many points to list
    them."""
    points = list(islice(_points(view.space.in_order, _kept(view), {}), LISTED_POINTS + 1))
    if len(points) > LISTED_POINTS:
        return None
    found = (_admitted(view, view.space.configuration(each)) for each in points if each is not None)
    return {each[0].digest for each in found if each is not None} - view.taken


def _points(
    knobs: Sequence[Knob], kept: Mapping[str, KnobValue], chosen: Mapping[str, KnobValue]
) -> Iterator[Mapping[str, KnobValue] | None]:
    """All that `_ask` can give, once each, and None wherever it gives that, so that these count too: else
    everything before a value that must be given would be gone through. `knobs` are those that are not yet in
    `chosen`."""
    if not knobs:
        yield chosen
        return
    knob, held = knobs[0], _held(knobs[0], kept)
    if knob.unmet(chosen) is not None:
        yield from _points(knobs[1:], kept, chosen)
        return
    values = knob.values if held is None else (held,)
    if not values:
        yield None
    for value in values:
        yield from _points(knobs[1:], kept, {**chosen, knob.name: value})


def _kept(view: CampaignView) -> dict[str, KnobValue]:
    """What of the incumbent every candidate keeps: its noise, its quantization where that saves no time, and
    in a campaign about first tokens what only begins to act after them."""
    lever_of = {knob.name: knob.lever for knob in view.space.knobs}
    return {
        name: value
        for name, value in view.incumbent.items()
        if name in NOISE_KNOBS
        or (lever_of[name] == QUANTIZATION and not view.serves_packed)
        or (lever_of[name] in AFTER_FIRST and of_first_tokens(view))
    }


def _paid(view: CampaignView, candidate: Configuration) -> tuple[Configuration, str]:
    """A point, and a sentence of what was done to it: an external drafter that the parameter budget refuses
    gets the fewest pruned layers that pay for it."""
    if view.pruning_pays and candidate.get(DRAFTING) in EXTERNAL_DRAFTERS:
        refusal = view.refused(candidate)
        paid = with_pruning_that_pays(view.space, view.refused, candidate) if refusal else ()
        if paid:
            return paid[
                0
            ], f" As drawn it was refused: {refusal} The fewest layers that pay for it go with it."
    return candidate, ""


def _how(told: int) -> str:
    return "draws this point at random, to start with" if told < STARTUP_TRIALS else "prefers this point"


def values_told(view: CampaignView) -> list[tuple[Configuration, float]]:
    """What the study is told: configurations with log TPOT over the baseline's, or a penalty; trial 0 first.

    A trial whose control was never reached from the baseline, or that measured nothing though it ran, tells
    nothing.
    """
    known: dict[Configuration, float] = {view.baseline: 0.0}
    found: list[tuple[Configuration, float | None]] = [(view.baseline, 0.0)]
    for trial in view.trials:
        if not trial.on_objective:
            continue
        start = known.get(trial.control)
        if _penalised(trial, view.min_effect):
            found.append((trial.candidate, None))
        elif start is not None and trial.effect_log is not None and trial.outcome != Outcome.CONFOUNDED:
            value = start + trial.effect_log
            known.setdefault(trial.candidate, value)
            found.append((trial.candidate, value))
    worst = max(value for _, value in found if value is not None)
    return [(point, worst + PENALTY_LOG if value is None else value) for point, value in found]


def _penalised(trial: Trial, min_effect: float) -> bool:
    """Whether a trial did not run, or was refuted although it was fast enough: by its quality."""
    if trial.outcome == Outcome.INFEASIBLE:
        return True
    fast = trial.effect_log is None or trial.effect_log < math.log1p(-min_effect)
    return trial.outcome == Outcome.REFUTED and fast


def _study(view: CampaignView) -> optuna.Study:
    seed = (view.seed + len(view.trials)) % SEED_RANGE
    sampler = tpe_sampler(seed, STARTUP_TRIALS, constant_liar=True)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    for configuration, value in values_told(view):
        if view.space.is_legal(configuration) and _enumerated(view.space, configuration):
            distributions = _distributions(view.space, configuration)
            params = {name: configuration[name] for name in distributions}
            study.add_trial(create_trial(params=params, distributions=distributions, value=value))
    return study


def _distributions(space: Space, configuration: Configuration) -> dict[str, BaseDistribution]:
    return {
        knob.name: CategoricalDistribution(knob.values)
        for knob in space.active(configuration)
        if knob.name not in NOISE_KNOBS
    }


def _enumerated(space: Space, configuration: Configuration) -> bool:
    """Whether it has only values that the sampler could have chosen, and no path, say, of the user's."""
    return all(is_among(value, space.knob(knob).values) for knob, value in configuration.items())


def _ask(space: Space, trial: optuna.Trial, kept: Mapping[str, KnobValue]) -> Configuration | None:
    """A legal point with the values of `kept` wherever these knobs are active; None where a value must be
    given. Knobs that are noise and not in `kept` get their defaults."""
    chosen: dict[str, KnobValue] = {}
    for knob in space.in_order:
        if knob.unmet(chosen) is not None:
            continue
        held = _held(knob, kept)
        if held is not None:
            chosen[knob.name] = held
        elif not knob.values:
            return None
        else:
            value = trial.suggest_categorical(knob.name, knob.values)
            assert value is not None  # it is one of the knob's values
            chosen[knob.name] = value
    return space.configuration(chosen)


def _held(knob: Knob, kept: Mapping[str, KnobValue]) -> KnobValue | None:
    """The value that a knob has without the sampler; None where the sampler chooses."""
    if knob.name in kept:
        return kept[knob.name]
    return knob.default if knob.name in NOISE_KNOBS else None
