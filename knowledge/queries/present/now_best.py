"""The best configuration of a campaign, and how the time that it is after, on its own metric, came down to it
from the baseline.

The steps are the successive bests as they were told, so what each won adds up to the whole. Where the last
one was measured against the baseline itself, the baseline's time is that of its control arm, side by side;
otherwise the steps are scaled to the baseline's own launches, and the best's time is that over the speed-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label, parse_label_of
from db.models import Configuration, Event, Experiment, Hypothesis, Verdict
from db.models.base import JsonObject
from experiments.space.configuration import KnobValue
from knowledge.figures import DEFAULT_METRIC
from knowledge.queries.present.now_floor import FloorView, OverheadView, PromptFloorView
from knowledge.queries.view import ChangeView, EffectView, View, changes_between, verdict_effect
from knowledge.stored import number

MOST_STEPS = 7
"""Steps that are told one by one; earlier ones are told as one."""

CHAIN = "chain"
"""What a best's `speedup_basis` says where no experiment compared it with the baseline itself."""


class StepView(View):
    """One step from the baseline to the best: what became of the time by it.

    `won_ms` is negative where the new best is slower, as when a chain is measured as one. `effect` is the
    verdict's, against the experiment's own control; `earlier` counts the steps that this one stands for, and
    where it is more than 1 the step has no experiment of its own. `together` says that all changes were
    measured against the baseline at once.
    """

    experiment: str | None
    hypothesis: str | None
    claim: str | None
    change: tuple[ChangeView, ...]
    effect: EffectView | None
    pairs: int
    together: bool
    earlier: int
    before_ms: float
    after_ms: float
    won_ms: float


class MarginView(View):
    """A loss of quality against the baseline with its interval, and the most that is allowed; relative for
    bits per byte, in points for tasks."""

    loss: float
    low: float | None
    high: float | None
    allowed: float | None


class BestView(View):
    """The best configuration so far; the baseline where `experiment` is None.

    Every time is on `metric`, the campaign's own. `speedup` is the baseline's time over the best's, its
    interval None where it is multiplied along a chain. `latency_ms` is what was measured, beside `control_ms`
    in the same experiment, and `low_ms` to `high_ms` the best's time by the interval of the speed-up.
    `baseline_ms` and `best_ms` are the ends of the steps, `baseline_experiment` the one that measured the
    first of them, and `naive_ms` is what the engine's own default
    takes beside that baseline, by their ratio in the sweep. `overhead` is the baseline's time above its
    floor, by part, `best_overhead` the best's, empty where it was not profiled itself; they and the floors
    are of a token on TPOT, on TTFT of the first token of a lone prompt, and there are none on another metric.
    `no_floor` says why there is none on TTFT, in a sentence, and `beyond` what a measured first token has
    beyond its profile.
    """

    metric: str = DEFAULT_METRIC

    experiment: str | None
    configuration: Mapping[str, KnobValue]
    changed: Mapping[str, KnobValue]
    speedup: float
    speedup_low: float | None
    speedup_high: float | None
    chained: bool
    latency_ms: float
    control_ms: float | None
    low_ms: float | None
    high_ms: float | None
    bits_per_byte: MarginView | None
    tasks: MarginView | None
    note: str | None
    baseline_ms: float
    baseline_experiment: str | None
    best_ms: float
    naive_ms: float | None
    steps: tuple[StepView, ...]
    floor: FloorView | PromptFloorView | None
    best_floor: FloorView | PromptFloorView | None
    overhead: tuple[OverheadView, ...]
    best_overhead: tuple[OverheadView, ...] = ()
    no_floor: str | None = None
    beyond: str | None = None

    @property
    def left_ms(self) -> float | None:
        """What lies above the best's floor; None where that is not known."""
        return None if self.best_floor is None else max(0.0, self.best_ms - self.best_floor.ms)

    @property
    def of_prompt(self) -> bool:
        """Whether the floors are of a lone prompt's first token."""
        return isinstance(self.floor, PromptFloorView)

    @property
    def is_below_floor(self) -> bool:
        """Whether the best takes less than its floor, by which that is too high."""
        floor = self.best_floor or (None if self.of_prompt else self.floor)
        return floor is not None and self.best_ms < floor.ms

    @property
    def is_baseline_below_floor(self) -> bool:
        """Whether the baseline takes less than its own floor, which then is too high, whatever is known of
        the best's."""
        return self.floor is not None and self.baseline_ms < self.floor.ms


class Told(View):
    """What the log says of a best: one event of kind `campaign.best`."""

    experiment: str
    speedup: float
    data: JsonObject


def bests_told(found: Sequence[Event]) -> tuple[Told, ...]:
    """The bests of these events, oldest first; an event that lacks its data is passed over."""
    told = []
    for event in found:
        data = event.data or {}
        speedup, experiment = number(data.get("speedup")), data.get("experiment")
        if speedup and isinstance(experiment, str):
            told.append(Told(experiment=experiment, speedup=speedup, data=data))
    return tuple(told)


class Trial(View):
    """What an experiment of a best tested and found."""

    hypothesis: str | None
    claim: str | None
    change: tuple[ChangeView, ...]
    control_id: int
    effect: EffectView | None
    pairs: int
    quality: JsonObject
    acceptance_length: float | None


def tested(session: Session, labels: Sequence[str]) -> dict[str, Trial]:
    """What experiments tested, by their labels; one statement."""
    control, candidate = aliased(Configuration), aliased(Configuration)
    numbers = [parse_label_of(Noun.EXPERIMENT, label) for label in labels]
    query = (
        select(Experiment, Hypothesis, Verdict, control.knobs, candidate.knobs)
        .join(control, control.id == Experiment.control_configuration_id)
        .outerjoin(candidate, candidate.id == Experiment.candidate_configuration_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.id.in_(numbers))
    )
    found = {}
    for experiment, hypothesis, verdict, before, after in session.execute(query):
        found[format_label(Noun.EXPERIMENT, experiment.id)] = Trial(
            hypothesis=None if hypothesis is None else format_label(Noun.HYPOTHESIS, hypothesis.id),
            claim=None if hypothesis is None else hypothesis.claim,
            change=changes_between(before, after),
            control_id=experiment.control_configuration_id,
            effect=None if verdict is None else verdict_effect(verdict),
            pairs=0 if verdict is None else verdict.launches // 2,
            quality=(verdict.quality or {}) if verdict is not None else {},
            acceptance_length=None if verdict is None else number(verdict.judge.get("acceptance_length")),
        )
    return found


def steps_of(
    told: Sequence[Told],
    known: Mapping[str, Trial],
    baseline_id: int | None,
    baseline_ms: float,
    best_ms: float,
) -> tuple[StepView, ...]:
    """The steps from the baseline's time to the best's; pure. What they won adds up to the difference."""
    first = max(0, len(told) - MOST_STEPS)
    times = [baseline_ms / each.speedup for each in told[:-1]] + [best_ms]
    steps = []
    for place, each in enumerate(told):
        if place < first:
            continue
        merged = place == first and first > 0
        before = baseline_ms if place == 0 or merged else times[place - 1]
        found = known.get(each.experiment)
        plain = None if merged else found
        steps.append(
            StepView(
                experiment=None if merged else each.experiment,
                hypothesis=plain.hypothesis if plain else None,
                claim=plain.claim if plain else None,
                change=plain.change if plain else (),
                effect=plain.effect if plain else None,
                pairs=plain.pairs if plain else 0,
                together=plain is not None and place > 0 and plain.control_id == baseline_id,
                earlier=first + 1 if merged else 1,
                before_ms=before,
                after_ms=times[place],
                won_ms=before - times[place],
            )
        )
    return tuple(steps)


def margin_of(quality: JsonObject, name: str) -> MarginView | None:
    """A loss of quality as a verdict keeps it under this name; None where it was not measured."""
    told = quality.get(name)
    if not isinstance(told, dict) or (loss := number(told.get("difference"))) is None:
        return None
    return MarginView(
        loss=loss,
        low=number(told.get("low")),
        high=number(told.get("high")),
        allowed=number(told.get("margin")),
    )


def baseline_best(
    baseline: JsonObject,
    naive: JsonObject,
    metric: str,
    baseline_ms: float,
    measured_by: str | None,
    floor: FloorView | None,
    overhead: tuple[OverheadView, ...],
) -> BestView:
    """The baseline as the best so far, with its time on the campaign's metric."""
    return BestView(
        metric=metric,
        experiment=None,
        configuration=baseline.get("configuration") or {},
        changed={},
        speedup=1.0,
        speedup_low=None,
        speedup_high=None,
        chained=False,
        latency_ms=baseline_ms,
        control_ms=None,
        low_ms=None,
        high_ms=None,
        bits_per_byte=None,
        tasks=None,
        note=None,
        baseline_ms=baseline_ms,
        baseline_experiment=measured_by,
        best_ms=baseline_ms,
        naive_ms=number(naive.get(metric)),
        steps=(),
        floor=floor,
        best_floor=floor,
        overhead=overhead,
    )
