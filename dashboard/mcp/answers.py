"""What the tools answer: compact, typed, units in the names. Each is the output schema of its tool."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from dashboard.mcp.quoting import Quoted, plain
from experiments.space.configuration import KnobValue
from knowledge.figures import SHARES
from knowledge.queries.view import ChangeView, EffectView

MOST_VALUE = 120
"""Characters of a knob's value that are told: some are paths."""


class Answer(BaseModel):
    """What every answer is made of: frozen."""

    model_config = ConfigDict(frozen=True)


Item = TypeVar("Item", bound=Answer)


class Listed(Answer, Generic[Item]):
    """Some of a list: `total` counts all that match, `next_offset` is where to go on, None at its end."""

    items: tuple[Item, ...]
    total: int
    next_offset: int | None


def listed(items: Sequence[Item], total: int, offset: int) -> Listed[Item]:
    """A part of a list that begins at `offset`."""
    seen = offset + len(items)
    return Listed(items=tuple(items), total=total, next_offset=seen if items and seen < total else None)


class Effect(Answer):
    """A change of a metric, candidate against control; negative is better, whatever the metric."""

    metric: str = Field(description="Such as tpot_ms, milliseconds per output token.")
    change: float = Field(description="The change, in `unit`: −12.0 is 12 % less.")
    low: float | None = Field(description="Lower end of its interval, in `unit`.")
    high: float | None = Field(description="Upper end of its interval, in `unit`.")
    unit: Literal["%", "percentage points"]
    interval: Literal["80 % prediction", "95 %"]


def measured(found: EffectView | None) -> Effect | None:
    """An effect that was measured, with its 95 % interval."""
    return None if found is None else _effect(found, "95 %")


def predicted(found: EffectView | None) -> Effect | None:
    """An effect that is predicted, with its 80 % interval."""
    return None if found is None else _effect(found, "80 % prediction")


def _effect(found: EffectView, interval: Literal["80 % prediction", "95 %"]) -> Effect:
    return Effect(
        metric=found.metric,
        change=round(100 * found.relative, 3),
        low=None if found.low is None else round(100 * found.low, 3),
        high=None if found.high is None else round(100 * found.high, 3),
        unit="percentage points" if found.metric in SHARES else "%",
        interval=interval,
    )


class Change(Answer):
    """One knob's difference; None stands for a knob that is not active."""

    knob: str
    before: KnobValue | None
    after: KnobValue | None


def changes(found: Sequence[ChangeView]) -> tuple[Change, ...]:
    """Differences of two configurations; long values are cut."""
    return tuple(
        Change(knob=each.knob, before=_value(each.before), after=_value(each.after)) for each in found
    )


def _value(value: KnobValue | None) -> KnobValue | None:
    return plain(value)[:MOST_VALUE] if isinstance(value, str) else value


class CampaignAnswer(Answer):
    """A campaign: what it makes faster, where it stands, and what it may spend."""

    id: str
    model: str
    target: str
    state: str
    stopped_because: Quoted | None
    objective: dict[str, object] = Field(description="The metric and the concurrency that it is about.")
    limits: dict[str, object] = Field(description="What the quality may lose at most.")
    budget: dict[str, object] = Field(description="What it may spend; times in seconds (`_s`).")
    hypotheses: dict[str, int] = Field(description="How many hypotheses, by state.")
    experiments: int
    experiment_s: float = Field(description="Seconds that its experiments took.")
    best_experiment: str | None
    awaiting_approval: tuple[str, ...] = Field(description="Hypotheses that wait for the user's approval.")
    directives: tuple[str, ...] = Field(description="How the user steers it, in sentences, oldest first.")


class QueueItem(Answer):
    """A place in the queue; `rank` 1 is tested next, None is under test or not ranked yet."""

    rank: int | None
    id: str
    state: str
    claim: Quoted
    lever: str
    change: tuple[Change, ...]
    predicted: Effect | None
    min_effect_percent: float = Field(description="The smallest effect that is worth having.")
    reason: Quoted | None = Field(description="Why it stands where it does.")
    proposer: str
    pinned: bool
    awaits_approval: bool


class HypothesisItem(Answer):
    """A hypothesis as one line; `measured` is the effect that its own verdict found."""

    id: str
    campaign: str
    state: str
    claim: Quoted
    lever: str
    change: tuple[Change, ...]
    predicted: Effect | None
    measured: Effect | None
    experiment: str | None
    proposer: str


class ExperimentItem(Answer):
    """An experiment as one line; `took_s` in seconds."""

    id: str
    campaign: str
    hypothesis: str | None
    kind: str
    state: str
    outcome: str | None
    claim: Quoted | None
    change: tuple[Change, ...]
    measured: Effect | None
    reason: Quoted | None
    target: str
    took_s: float | None


class Quality(Answer):
    """One test of quality in its `unit`; more is worse, `allowed` is the most that passes."""

    name: str
    unit: str
    difference: float
    low: float | None
    high: float | None
    allowed: float | None
    count: int = Field(description="Documents or items that it was measured on.")
    state: str = Field(description="held, worse or undecided.")


class ArmSpread(Answer):
    """The samples of one metric that a launch, a fresh process of one arm, gave: the middle 80 % lies from
    `low` to `high`, all in `unit`."""

    arm: str
    launch: int
    stage: str
    metric: str
    unit: str
    count: int
    median: float
    low: float
    high: float


class ExperimentAnswer(ExperimentItem):
    """An experiment: the verdict with its interval and reason, quality, launches, what else differed."""

    predicted: Effect | None
    rationale: Quoted | None
    refuted_if: Quoted | None
    judged_on: str = Field(description="The metric that is judged.")
    launches: int | None = Field(description="Launches behind the verdict.")
    samples: int | None = Field(description="Samples behind the verdict; read them with the tool samples.")
    quality: tuple[Quality, ...]
    latency_only: bool = Field(description="Whether its weights are made up, so that quality is not known.")
    preregistered: str | None = Field(description="SHA-256 of prediction, margin and stopping plan.")
    changed_since_sealed: str | None
    spreads: tuple[ArmSpread, ...]
    spreads_left_out: int
    also_differed: tuple[Quoted, ...] = Field(description="What of the resolved configurations differed.")
    failure_kind: str | None
    failure: Quoted | None
    stages: tuple[str, ...]
    versions: dict[str, object]
    reproduced_by: tuple[str, ...]
    reproduce_command: str


class Sample(Answer):
    """One raw sample with its place."""

    arm: str
    launch: int
    stage: str
    block: int
    item: str
    metric: str
    unit: str
    value: float


class SamplesAnswer(Listed[Sample]):
    """Raw samples of an experiment, launch by launch; `metrics` are those that there are."""

    metrics: tuple[str, ...]


class FindingItem(Answer):
    """What verdicts together say of one change, where alone it holds, and how far to believe it."""

    id: str
    claim: Quoted
    status: str = Field(description="holds, contradicted, superseded, stale or withdrawn.")
    status_reason: Quoted | None
    strength: str = Field(
        description="single, replicated, weakened, mixed, or told: written down, no evidence."
    )
    told_by: str | None = Field(description="Who wrote it down, where it was not measured.")
    effect: Effect | None
    holds_for: Quoted = Field(description="Model, target and engine; it says nothing of others.")
    lever: str
    change: tuple[Change, ...]
    campaigns_for: int
    campaigns_against: int


class Evidence(Answer):
    """What one verdict says about a finding; one of another database is called with its origin."""

    experiment: Quoted
    outcome: str
    relation: str
    measured: Effect | None


class FindingAnswer(FindingItem):
    """A finding in full: its scope, the verdicts behind it and what disputes it."""

    scope: Quoted = Field(description="Versions and workload that it was measured with.")
    evidence: tuple[Evidence, ...]
    evidence_left_out: int
    spread_between_campaigns_percent: float | None
    another_campaign: Effect | None = Field(description="Where the effect of another campaign lies, 95 %.")
    disputes: tuple[Quoted, ...]


class Moved(Answer):
    """A change of place in the queue, with the event that caused it."""

    from_rank: int | None
    to_rank: int | None
    reason: Quoted
    cause: Quoted


class WhyAnswer(Answer):
    """Why a hypothesis stands where it does, or why it is ruled out, down to verdicts and findings."""

    id: str
    campaign: str
    state: str
    state_reason: Quoted | None
    verdict_reason: Quoted | None
    why_not: Quoted | None = Field(
        description="Why it is ruled out or not settled; None while it waits, is under test or is supported."
    )
    claim: Quoted
    rationale: Quoted
    refuted_if: Quoted
    proposer: str
    proposer_record: str = Field(description="How often what it proposed here was supported.")
    change: tuple[Change, ...]
    predicted: Effect | None
    measured: Effect | None
    rank: int | None
    rank_reason: Quoted | None
    score: dict[str, object] = Field(description="The parts of its score; costs in seconds.")
    waits_for: str | None = Field(description="What it would cost, where it waits for approval.")
    last_moves: tuple[Moved, ...] = Field(description="The last changes of place, newest first.")
    experiments: tuple[str, ...]
    findings: tuple[str, ...] = Field(description="Findings that its verdicts are evidence for or against.")
    follows_from: tuple[str, ...]
    led_to: tuple[str, ...]


class SummaryPart(Answer):
    """One part of the story; its text names claims that others wrote."""

    title: str
    text: Quoted


class SummaryAnswer(Answer):
    """A campaign as a story, every number from the database."""

    campaign: str
    state: str
    headline: str
    parts: tuple[SummaryPart, ...]
    stopped_because: Quoted | None


class EventAnswer(Answer):
    """A line of the log."""

    id: int
    at: datetime
    kind: str
    subject: str | None
    campaign: str | None
    text: Quoted


class LogAnswer(Answer):
    """Lines of the log, oldest first; go on with `after_id` = `last_id`."""

    events: tuple[EventAnswer, ...]
    last_id: int


class FrontItem(Answer):
    """A configuration that none beats in both latency and quality; intervals of 95 %."""

    experiment: str | None = Field(description="None for the baseline.")
    change: tuple[Change, ...] = Field(description="Against the baseline.")
    outcome: str | None
    latency_ms: float
    low_ms: float | None
    high_ms: float | None
    bits_per_byte_percent: float = Field(description="Change of bits per byte; less is better.")
    within_limit: bool
    is_baseline: bool
    is_best: bool


class ParetoAnswer(Answer):
    """Latency against quality: the front by rising latency, with the baseline and the best so far."""

    campaign: str | None
    metric: str
    concurrency: int | None
    quality_limit_percent: float | None
    baseline_ms: float | None
    floor_ms: float | None = Field(description="The least that physics allows.")
    front: tuple[FrontItem, ...]
    front_left_out: int
    configurations: int = Field(description="How many were timed and scored.")


class Device(Answer):
    """A device of the server's machine now; None is what it does not report."""

    name: str
    model: str
    utilization_percent: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    temperature_c: float | None
    clock_mhz: float | None
    throttled_by: tuple[str, ...] | None


class DevicesAnswer(Answer):
    """The devices of the machine that this server runs on."""

    at: datetime
    devices: tuple[Device, ...]
    note: str | None


class KnobAnswer(Answer):
    """A knob that is legal now: what to write into an assignment `NAME=VALUE`."""

    name: str
    lever: str
    help: str
    values: tuple[str, ...]
    now: str | None = Field(description="Its value in the configuration that a proposal would change.")
    also: str | None = Field(description="What else may be given, in words.")


class PreviewAnswer(Answer):
    """What would become of a proposal that is not made yet, or why it can't be."""

    campaign: str | None
    against: str = Field(description="The configuration that it would be tested against.")
    refusal: str | None
    change: tuple[Change, ...]
    lever: str | None
    predicted: Effect | None
    rank: int | None = Field(description="Where it would stand, of `queued`; None before the baseline.")
    queued: int | None
    reason: Quoted | None
    cost_s: float | None = Field(description="Expected seconds of the target.")
    duplicate_of: str | None


class SpaceAnswer(Answer):
    """The knobs of a campaign's space that are legal on its best configuration so far."""

    campaign: str | None
    against: str
    knobs: tuple[KnobAnswer, ...]
    levers: tuple[str, ...]


class Shift(Answer):
    """A hypothesis that would move, beyond everybody's moving up."""

    hypothesis: str
    from_rank: int | None
    to_rank: int | None
    why: Quoted


class Consequence(Answer):
    """What one outcome would do to the queue; nothing is changed by asking."""

    outcome: str
    assumed: str
    is_best: bool
    next: str | None
    moved: int
    moves: tuple[Shift, ...]
    leave: tuple[str, ...]


class WhatIfAnswer(Answer):
    """Where the queue would go with each outcome of one hypothesis."""

    campaign: str | None
    hypothesis: str | None
    consequences: tuple[Consequence, ...]


class Done(Answer):
    """What a write did: the label of what was made or changed, and what follows in a sentence."""

    id: str
    said: str
    author: str
