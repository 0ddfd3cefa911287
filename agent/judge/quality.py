"""Quality as non-inferiority: is the candidate, with confidence, not worse than the margin allows? Pure.

Two tests, each one-sided at the plan's alpha, each paired; quality is *held* only if every test that the plan
asks for passes, so the chance to pass a candidate that is worse than a margin is at most alpha (an
intersection-union test needs no correction). Too little data never passes: the bound is then beyond the
margin, and the state is *undecided*.

- **Bits per byte**, paired by document: the relative difference of total bits.
- **Tasks**, paired by item: the net loss in percentage points.

Their bounds are those of `agent.judge.noninferiority`. A claim on one of these metrics is guarded by the
other alone (`agent.judge.scored_claim`); both are told.

**Drafting**, where it changed, must keep the text (`agent.judge.drafting`): it is part of the state.

**KL** to the reference can refute and never pass: where the plan has a margin for it, a candidate whose mean
KL a token is beyond it with confidence is worse, whatever its bits; below it nothing follows, because near
the baseline KL does not rank candidates. It is not asked of a claim on bits or tasks, which compares with its
own control: what is better than that moves away from it too. Top-1 agreement is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

from agent.judge.drafting import DraftingReport, arm_is_due, drafting_report
from agent.judge.made_up import LATENCY_ONLY, report_json
from agent.judge.noninferiority import (
    MIN_DOCUMENTS,
    POINTS,
    Bound,
    Quality,
    bits_bound,
    kl_bound,
    lost_and_gained,
    task_bound,
)
from agent.judge.once import once
from configs.quality_tasks import AskedTask, asked_tasks
from experiments.job.evaluation import DECODE_ITEM_PREFIX
from experiments.measurement.evidence import (
    QUALITY_METRICS,
    Arm,
    Evidence,
    Json,
    LaunchRecord,
    Metric,
    Stage,
)
from experiments.measurement.plan import StoppingPlan
from knowledge.figures import signed


@dataclass(frozen=True)
class QualityReport:
    """The tests and what is reported beside them; None stands for what was not measured.

    `latency_only`: weights are made up, so that nothing decides and the state is never a pass.
    `scored`: the candidate was screened or evaluated, so that what was asked for and is None could not be
    told. `bits_asked`, `tasks_asked` and the two `…drafting_asked` say which of them decide; `drafting` is
    that of the candidate. `tasks_to_come`: quality tasks are asked for and come with the evaluation, so that
    what is open of the items before may close. `by_task` has items lost, gained and paired of each quality
    task.
    """

    scored: bool
    bits: Bound | None
    tasks: Bound | None
    bits_asked: bool
    tasks_asked: bool
    reference_accuracy: float | None
    kl_nats_mean: float | None
    kl: Bound | None
    top1_agreement_mean: float | None
    drafting: DraftingReport | None = None
    drafting_asked: bool = False
    control_drafting: DraftingReport | None = None
    control_drafting_asked: bool = False
    tasks_to_come: bool = False
    by_task: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    latency_only: bool = False
    since_screen: Bound | None = None
    """The net loss of the candidate against its own screen, which scored the same weights served plainly."""

    @property
    def unpaired_tasks(self) -> tuple[str, ...]:
        """The quality tasks of which both arms have no item in common."""
        return tuple(name for name, (_, _, items) in self.by_task.items() if not items)

    @property
    def state(self) -> Quality:
        """The tests together: one that is worse decides, and all that were asked for must hold."""
        if self.latency_only:
            return Quality.NOT_KNOWN
        if not self.scored:
            return Quality.NOT_MEASURED
        found = set()
        if self.bits_asked:
            found.add(self.bits.state if self.bits is not None else Quality.UNDECIDED)
        if self.tasks_asked:
            tasks = self.tasks.state if self.tasks is not None else Quality.UNDECIDED
            if self.unpaired_tasks and tasks is Quality.HELD:
                tasks = Quality.UNDECIDED  # what was asked for and is not there is not left out silently
            if tasks is not Quality.UNDECIDED or not self.tasks_to_come:
                found.add(tasks)
        if self.kl is not None and self.kl.state == Quality.WORSE:
            found.add(Quality.WORSE)
        if self.drafting_asked:
            found.add(_drafting_state(self.drafting))
        if self.control_drafting_asked:
            # one that changes the text is no control at all, which a gate says before
            found.add(_drafting_state(self.control_drafting))
        for state in (Quality.WORSE, Quality.UNDECIDED):
            if state in found:
                return state
        return Quality.HELD

    @property
    def drafting_open(self) -> bool:
        """Whether the check of drafting, which the first evaluation alone makes, leaves the text open."""
        asked = ((self.drafting, self.drafting_asked), (self.control_drafting, self.control_drafting_asked))
        return any(due and _drafting_state(report) == Quality.UNDECIDED for report, due in asked)

    def sentence(self) -> str:
        """The tests that decide in words, with numbers; without a full stop."""
        if self.latency_only:
            return LATENCY_ONLY
        if not self.scored:
            return "quality was not measured"
        parts = [*self._bits_words(), *self._tasks_words()]
        if self.kl is not None and self.kl.state == Quality.WORSE:
            parts.append(
                f"KL to the reference {self.kl.difference:.3g} nats a token (at least {self.kl.low:.3g}, "
                f"allowed {self.kl.margin:g}; {self.kl.count:,} documents)"
            )
        if self.drafting_asked:
            parts.append(_drafting_words(self.drafting))
        if self.control_drafting_asked:
            parts.append(f"in the control {_drafting_words(self.control_drafting)}")
        return ", ".join(parts) if parts else "nothing else was asked for"

    def _bits_words(self) -> list[str]:
        if not self.bits_asked:
            return []
        if self.bits is None:
            return [f"fewer than {MIN_DOCUMENTS} paired documents"]
        return [
            f"bits per byte {signed(100 * self.bits.difference, 2)} % (at most "
            f"{signed(100 * self.bits.high, 2)} %, allowed {signed(100 * self.bits.margin)} %; "
            f"{self.bits.count:,} documents)"
        ]

    def _tasks_words(self) -> list[str]:
        if not self.tasks_asked:
            return []
        if self.tasks is None:
            # what bits or KL refute is asked no items
            return [] if self.state is Quality.WORSE else ["no paired task items"]
        parts = [
            f"tasks {signed(-self.tasks.difference)} points (at worst {signed(-self.tasks.high)}, allowed "
            f"{signed(-self.tasks.margin)}; {self.tasks.count:,} items)"
        ]
        for name, (lost, gained, items) in self.by_task.items():
            if items:
                parts.append(f"{name} {signed(POINTS * (gained - lost) / items)} points of {items}")
            elif self.state is not Quality.WORSE:
                parts.append(f"no paired items of {name}")
        if self.reference_accuracy is not None and POINTS * self.reference_accuracy < self.tasks.margin:
            parts.append(
                f"the reference solves {POINTS * self.reference_accuracy:.1f} % of them, too few to lose"
            )
        return parts

    def as_json(self) -> dict[str, Json]:
        """What a verdict stores: differences with their bounds, by name."""
        found: dict[str, Json] = {"state": self.state.value}
        if self.latency_only:
            reports = {"drafting": self.drafting, "control_drafting": self.control_drafting}
            return found | {name: report_json(each) for name, each in reports.items() if each is not None}
        if self.bits is not None:
            found["bits_per_byte_relative"] = _bound_json(self.bits)
        if self.tasks is not None:
            found["task_points_lost"] = _bound_json(self.tasks)
        if self.by_task:
            found["by_task"] = {
                name: {"lost": lost, "gained": gained, "items": items}
                for name, (lost, gained, items) in self.by_task.items()
            }
        found["reference_accuracy"] = self.reference_accuracy
        found["kl_nats_mean"] = self.kl_nats_mean
        if self.kl is not None:
            found["kl_nats"] = _bound_json(self.kl)
        found["top1_agreement_mean"] = self.top1_agreement_mean
        if self.drafting is not None:
            found["drafting"] = self.drafting.as_json()
        if self.control_drafting is not None:
            found["control_drafting"] = self.control_drafting.as_json()
        return found


def quality_report(plan: StoppingPlan, evidence: Evidence) -> QualityReport:
    """The tests on what was evaluated, validation included, or before that the screen."""
    evaluated = bool(evidence.of(Arm.CANDIDATE, Stage.EVALUATE))
    stages = (Stage.EVALUATE, Stage.VALIDATION) if evaluated else (Stage.SCREEN,)
    bits = {arm: by_item(evidence, arm, Metric.NLL_BITS, stages) for arm in Arm}
    tasks = {arm: by_item(evidence, arm, Metric.TASK_CORRECT, stages) for arm in Arm}
    documents = sorted(bits[Arm.CONTROL].keys() & bits[Arm.CANDIDATE].keys())
    lost, gained, items = lost_and_gained(tasks[Arm.CONTROL], tasks[Arm.CANDIDATE])
    asked = asked_tasks(plan.workload.evaluation_tasks or ())
    by_task = {task.name: lost_and_gained(*(_of_task(tasks[arm], task) for arm in Arm)) for task in asked}
    kl = by_item(evidence, Arm.CANDIDATE, Metric.KL_NATS, stages)
    margin = None if plan.metric in QUALITY_METRICS else plan.margins.kl_nats
    return QualityReport(
        scored=evaluated or bool(evidence.of(Arm.CANDIDATE, Stage.SCREEN)),
        bits=bits_bound(
            [bits[Arm.CONTROL][name] for name in documents],
            [bits[Arm.CANDIDATE][name] for name in documents],
            margin=plan.margins.bits_per_byte,
            alpha=plan.alpha,
        ),
        tasks=task_bound(
            lost=lost,
            gained=gained,
            items=items,
            margin_points=plan.margins.task_points,
            alpha=plan.alpha,
        ),
        bits_asked=plan.metric is not Metric.NLL_BITS,
        tasks_asked=plan.metric is not Metric.TASK_CORRECT and _asks_items(plan, evaluated=evaluated),
        reference_accuracy=_mean(tasks[Arm.CONTROL]),
        kl_nats_mean=_mean(kl),
        kl=None if margin is None else kl_bound([*kl.values()], margin=margin, alpha=plan.alpha),
        top1_agreement_mean=_mean(by_item(evidence, Arm.CANDIDATE, Metric.TOP1_AGREEMENT, stages)),
        drafting=drafting_report(evidence),
        drafting_asked=evaluated and arm_is_due(evidence, Arm.CANDIDATE),
        control_drafting=drafting_report(evidence, Arm.CONTROL),
        control_drafting_asked=evaluated and arm_is_due(evidence, Arm.CONTROL),
        tasks_to_come=bool(asked) and not evaluated,
        by_task=by_task if evaluated else {},
        latency_only=plan.latency_only,
        since_screen=_since_screen(plan, evidence, tasks[Arm.CANDIDATE]) if evaluated else None,
    )


def _since_screen(plan: StoppingPlan, evidence: Evidence, evaluated: Mapping[str, float]) -> Bound | None:
    screened = by_item(evidence, Arm.CANDIDATE, Metric.TASK_CORRECT, (Stage.SCREEN,))
    lost, gained, items = lost_and_gained(screened, evaluated)
    return task_bound(
        lost=lost, gained=gained, items=items, margin_points=plan.margins.task_points, alpha=plan.alpha
    )


def _asks_items(plan: StoppingPlan, *, evaluated: bool) -> bool:
    """Whether items decide: instruction items always, quality tasks once they have been asked."""
    return plan.workload.evaluation_items > 0 or (evaluated and bool(plan.workload.evaluation_tasks))


def _of_task(values: Mapping[str, float], task: AskedTask) -> dict[str, float]:
    return {item: value for item, value in values.items() if item.startswith(task.item_prefix)}


def by_item(evidence: Evidence, arm: Arm, metric: Metric, stages: tuple[Stage, ...]) -> Mapping[str, float]:
    """The values of a metric that an arm's launches of these stages gave, by document or item.

    A document that an engine scored once more through its timed path is left out: it is no further one.
    """
    found: dict[str, float] = {}
    for record in evidence.of(arm, *stages):
        found.update(_by_item_of(record, metric))
    return found


@once
def _by_item_of(record: LaunchRecord, metric: Metric) -> Mapping[str, float]:
    return {
        sample.item: sample.value
        for sample in record.of(metric)
        if not sample.item.startswith(DECODE_ITEM_PREFIX)
    }


def _drafting_words(report: DraftingReport | None) -> str:
    return report.sentence() if report is not None and report.prompts else "drafting was not checked"


def _drafting_state(report: DraftingReport | None) -> Quality:
    if report is None or not report.enough:
        return Quality.UNDECIDED
    return Quality.WORSE if report.changes_text else Quality.HELD


def _mean(values: Mapping[str, float]) -> float | None:
    return fmean(values.values()) if values else None


def _bound_json(bound: Bound) -> dict[str, Json]:
    return {
        "difference": bound.difference,
        "low": bound.low,
        "high": bound.high,
        "margin": bound.margin,
        "count": bound.count,
    }
