"""Making a draft: the claim as a full sentence, its prediction, and what would refute it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from agent.proposers.port import CampaignView, Draft
from agent.ranking.ranking import expected_gain
from agent.surrogate.levers import joined
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from experiments.space.space import Space
from knowledge.change_words import joined as joined_words
from knowledge.change_words import phrases
from knowledge.figures import DEFAULT_METRIC, margin

QUALITY_TOO = ", or the quality is worse than its margin with confidence"
"""What else refutes a claim, wherever something judges quality."""

EFFECTS: Mapping[Metric, str] = {
    Metric.TPOT_MS: "a token at least {} faster",
    Metric.TTFT_MS: "the first token come at least {} sooner",
    Metric.ITL_MS: "the gap between tokens at least {} shorter",
    Metric.E2EL_MS: "a request at least {} faster",
    Metric.STEP_WEIGHT_BYTES: "a step read at least {} fewer bytes of weights",
    Metric.NLL_BITS: "the same text take at least {} fewer bits",
    Metric.TASK_CORRECT: "at least {} more of the items come out right",
}
"""What a claim says of its effect, by the metric that it is about."""

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
        claim=claim(view.space, control, candidate, view.min_effect, metric or view.objective),
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


def expected_gains(view: CampaignView, found: Sequence[tuple[Prediction, Metric | None]]) -> list[float]:
    """What each of these predictions, on its metric (None: the objective), is expected to save, as the
    ranking counts it: by what two launches of one configuration differ nobody wins."""
    means = np.array([each.log_ratio_mean for each, _ in found])
    variances = [
        each.log_ratio_sd**2 - (view.launches_sd_log**2 if metric is None else 0.0) for each, metric in found
    ]
    gains: list[float] = expected_gain(means, np.sqrt(np.maximum(variances, 0.0))).tolist()
    return gains


def claim(
    space: Space,
    control: Configuration,
    candidate: Configuration,
    min_effect: float,
    metric: Metric,
) -> str:
    """A falsifiable sentence, such as: Compiling the decode step (default) makes a token at least 3 %
    faster."""
    lever_of = {knob.name: knob.lever for knob in space.knobs}
    levers = space.levers_between(control, candidate)
    place = {lever: number for number, lever in enumerate(levers)}
    changes = sorted(  # last what only follows from others
        control.changes_to(candidate), key=lambda each: place.get(lever_of[each.knob], len(levers))
    )
    told = [each.text for each in phrases(changes)]
    subject = joined_words(told)
    verb = "makes" if len(told) == 1 else "make"
    effect = EFFECTS[metric].format(margin(min_effect, metric.value))
    return f"{subject[0].upper()}{subject[1:]} {verb} {effect}."


def refuted_if(min_effect: float, metric: Metric | None = None) -> str:
    """What refutes such a claim, as the judge decides it."""
    least = margin(min_effect, metric or DEFAULT_METRIC)
    return f"The whole interval of the effect lies above −{least}{QUALITY_TOO}."


def by_time_alone(refuted_if: str) -> str:
    """The same where weights are made up and nothing judges quality."""
    return refuted_if.replace(QUALITY_TOO, "")


def percent(log_ratio: float) -> str:
    """A log ratio as a signed change in percent, without its sign of percent: `−12`."""
    return f"{100 * math.expm1(log_ratio):+.0f}".replace("-", "−")


def predicted(view: CampaignView, candidate: Configuration, metric: Metric | None = None) -> str:
    """The surrogate's prediction in words, such as: predicted −12 % [−20, −3]."""
    found = predict(view, candidate, metric)
    low, high = (found.log_ratio_mean + side * Z_80 * found.log_ratio_sd for side in (-1, 1))
    of = "" if metric is None else f" of {metric.value}"
    return f"predicted {percent(found.log_ratio_mean)} % [{percent(low)}, {percent(high)}]{of}"
