"""Gates between evidence and verdict: small pure checks, each naming what it found. Pure.

A gate never weighs numbers; it says that evidence can't be judged (`Refused`), or that something besides the
claimed change differs between the arms (`Confounded`), or that the candidate can't do the work (`Broken`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.judge.drafting import arm_is_due, drafting_report, dropped_head
from agent.judge.pairs import TIMED_STAGES, paired_blocks, timed_launches
from experiments.measurement.evidence import (
    SCORED_METRICS,
    TIMED_METRICS,
    Arm,
    Evidence,
    Json,
    LaunchRecord,
    Metric,
    Stage,
)
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Change

NOT_NEGATIVE = frozenset(
    {
        Metric.KL_NATS,
        Metric.TOP1_AGREEMENT,
        Metric.TASK_CORRECT,
        Metric.DECODE_AGREEMENT,
        Metric.DIVERGENCES,
        Metric.NEAR_TIES,
        Metric.NEAR_TIE_LOGITS,
        Metric.FLIPS_WITHOUT_DRAFT,
    }
)
"""Metrics that may be zero; every other one must be positive."""

KL_ROUNDING_NATS = 1e-4
"""A KL of equal distributions may come out this far below zero in single precision."""

EXPLAINED: Mapping[str, frozenset[str]] = {
    "serving.dtype": frozenset({"dtype", "precision", "kernel", "bytes", "served"}),
    "serving.threads": frozenset({"threads", "affinity", "cpus", "cores"}),
    "serving.compile": frozenset(
        {"compile", "compiled", "backend", "inductor", "graph", "graphs", "recompilations", "mode", "kernel"}
    ),
    "pruning": frozenset(
        {"pruning", "pruned", "removed", "layers", "layer", "parameters", "bytes", "checkpoint", "weights"}
    ),
    "quantization": frozenset(
        {
            "quantization",
            "quantized",
            "bits",
            "group",
            "kernel",
            "bytes",
            "checkpoint",
            "weights",
            "dtype",
            "representative",
            "reason",
        }
    ),
    "drafting": frozenset(
        {
            "drafting",
            "draft",
            "drafter",
            "speculative",
            "mtp",
            "layers",
            "parameters",
            "bytes",
            "kernel",
            "capacity",
            "graphs",
            "recompilations",
        }
    ),
}
"""For a knob or a group of knobs, the words of resolved keys that its change explains, beside the words of
the knob's own name. A key of the resolved configuration that no claimed change explains must not differ."""

HISTORY = frozenset({"calls", "reused", "package", "hits", "misses"})
"""Words of resolved keys that tell a launch's history (how often compiled code was called, whether it lay in
the cache) or a digest of what stands beside it, not what runs; they are not compared."""


@dataclass(frozen=True)
class Finding:
    """What a gate found: the outcome it forces, the sentence that says why, and the arm that can't do the
    work where that is why."""

    outcome: Outcome
    reason: str
    failed: Arm | None = None


def check(evidence: Evidence, metric: Metric) -> Finding | None:
    """The first gate that does not pass, in a fixed order; None when the evidence can be judged."""
    return (
        failed(evidence)
        or uncounted_drafter(evidence, metric)
        or broken_samples(evidence)
        or mixed_configurations(evidence, metric)
        or unpaired_prompts(evidence, metric)
        or unpaired_documents(evidence)
        or unfit_control(evidence)
        or dropped_drafts(evidence)
        or unexplained_difference(evidence, metric)
    )


def failed(evidence: Evidence) -> Finding | None:
    """The candidate did not run; `failure` holds the cause."""
    if evidence.failure is None:
        return None
    return Finding(Outcome.INFEASIBLE, f"The candidate did not run: {evidence.failure.rstrip('.')}.")


def uncounted_drafter(evidence: Evidence, metric: Metric) -> Finding | None:
    """Bytes a step are those of the target's weights: they say nothing of what a drafter reads."""
    if metric is not Metric.STEP_WEIGHT_BYTES:
        return None
    touched = [str(change) for change in evidence.changes if change.knob.partition(".")[0] == "drafting"]
    if not touched:
        return None
    return Finding(
        Outcome.INCONCLUSIVE,
        f"A claim on bytes a step counts the target's weights, and the change touches what drafts "
        f"({', '.join(touched)}), whose bytes are not counted: claim it on time, or leave drafting as it is.",
    )


def broken_samples(evidence: Evidence) -> Finding | None:
    """No sample may be NaN, infinite, negative, or zero where zero can't be."""
    for record in evidence.launches:
        for sample in record.samples:
            if _sound(sample.metric, sample.value):
                continue
            where = f"{sample.metric.value} of {sample.item!r} in {record.arm.value} launch {record.index}"
            scored = sample.metric not in TIMED_METRICS
            if scored and record.arm == Arm.CANDIDATE and math.isnan(sample.value):
                return Finding(Outcome.INFEASIBLE, f"The candidate computes no numbers: {where} is NaN.")
            return Finding(
                Outcome.INCONCLUSIVE, f"The evidence is refused: {where} is {sample.value}, which can't be."
            )
    return None


def compared(evidence: Evidence, arm: Arm, metric: Metric) -> tuple[LaunchRecord, ...]:
    """The launches of an arm whose effect on `metric` is judged: the timed ones, or those that tell it.

    The evaluation of a reference that is not the control itself is none of them.
    """
    if metric not in SCORED_METRICS:
        return evidence.of(arm, *TIMED_STAGES)
    return tuple(r for r in evidence.of(arm, Stage.EVALUATE, Stage.VALIDATION) if r.values(metric))


def mixed_configurations(evidence: Evidence, metric: Metric) -> Finding | None:
    """All launches of an arm that are compared must be launches of one configuration."""
    for arm in Arm:
        digests = sorted({record.configuration_digest for record in compared(evidence, arm, metric)})
        if len(digests) > 1:
            return Finding(
                Outcome.CONFOUNDED,
                f"The {arm.value} arm ran more than one configuration ({', '.join(d[:8] for d in digests)}).",
            )
    return None


def unpaired_prompts(evidence: Evidence, metric: Metric) -> Finding | None:
    """Block k of both arms of a launch pair must have answered the same prompts."""
    if metric in SCORED_METRICS:
        return None
    control, candidate = timed_launches(evidence, Arm.CONTROL), timed_launches(evidence, Arm.CANDIDATE)
    for index in sorted(control.keys() & candidate.keys()):
        for number, a, b in paired_blocks(control[index], candidate[index], metric):
            before, after = a.keys(), b.keys()
            if before != after:
                return Finding(
                    Outcome.CONFOUNDED,
                    f"The arms answered different prompts in launch pair {index}, block {number}: "
                    f"{', '.join(sorted(before ^ after)[:3])} in one arm only.",
                )
    return None


def unpaired_documents(evidence: Evidence) -> Finding | None:
    """A document that both arms scored must have the same bytes in both."""
    sizes: dict[str, float] = {}
    for arm in (Arm.CONTROL, Arm.CANDIDATE):
        for record in evidence.of(arm, Stage.SCREEN, Stage.EVALUATE, Stage.VALIDATION):
            for sample in record.samples:
                if sample.metric != Metric.TEXT_BYTES:
                    continue
                if sizes.setdefault(sample.item, sample.value) != sample.value:
                    return Finding(
                        Outcome.CONFOUNDED,
                        f"Different texts were scored: {sample.item!r} has {sizes[sample.item]:.0f} bytes "
                        f"in one arm and {sample.value:.0f} in the other.",
                    )
    return None


def unfit_control(evidence: Evidence) -> Finding | None:
    """A control whose drafting changes the text or hardly ever stands is none to compare with."""
    if not arm_is_due(evidence, Arm.CONTROL):
        return None
    report = drafting_report(evidence, Arm.CONTROL)
    if report is None:
        return None
    if report.dropped:
        cause = dropped_head(report)
    elif report.prompts and report.changes_text:
        cause = report.sentence()
    else:
        return None
    return Finding(
        Outcome.INFEASIBLE,
        f"The control is none to compare with: its {cause[0].lower()}{cause[1:]}.",
        Arm.CONTROL,
    )


def dropped_drafts(evidence: Evidence) -> Finding | None:
    """Drafts that hardly ever stand are no drafting: a head or drafter without its weights."""
    if not arm_is_due(evidence, Arm.CANDIDATE):
        return None
    report = drafting_report(evidence)
    if report is None or not report.dropped:
        return None
    return Finding(Outcome.INFEASIBLE, f"{dropped_head(report)}.")


def unexplained_difference(evidence: Evidence, metric: Metric) -> Finding | None:
    """What actually ran may differ between the arms only where the claimed change explains it."""
    control = _resolved(compared(evidence, Arm.CONTROL, metric))
    candidate = _resolved(compared(evidence, Arm.CANDIDATE, metric))
    if not control or not candidate:
        return None
    found = [
        key
        for key in sorted({*control, *candidate})
        if control.get(key) != candidate.get(key)
        and not _words(key) & HISTORY
        and not explained(key, evidence.changes)
    ]
    if not found:
        return None
    shown = "; ".join(
        f"{key} is {_shown(control.get(key))} in the control, {_shown(candidate.get(key))} in the candidate"
        for key in found[:3]
    )
    claimed = ", ".join(str(change) for change in evidence.changes) or "nothing"
    return Finding(
        Outcome.CONFOUNDED, f"What ran differs by more than the claimed change ({claimed}): {shown}."
    )


def explained(key: str, changes: Iterable[Change]) -> bool:
    """Whether a claimed change explains that the resolved configurations differ at `key`."""
    words = _words(key)
    for change in changes:
        allowed = set(_words(change.knob.rpartition(".")[2]))
        for group, consequences in EXPLAINED.items():
            if change.knob == group or change.knob.startswith(f"{group}."):
                allowed |= consequences
        if words & allowed:
            return True
    return False


def _sound(metric: Metric, value: float) -> bool:
    if not math.isfinite(value):
        return False
    if metric == Metric.KL_NATS:
        return value >= -KL_ROUNDING_NATS
    if metric == Metric.TASK_CORRECT:
        return value in (0.0, 1.0)
    return value >= 0 if metric in NOT_NEGATIVE else value > 0


def _resolved(records: Iterable[LaunchRecord]) -> dict[str, frozenset[str]]:
    """Every leaf of the resolved configurations, by dotted key, with all the values it took."""
    found: dict[str, set[str]] = {}
    for record in records:
        for key, value in _leaves("", dict(record.resolved)):
            found.setdefault(key, set()).add(value)
    return {key: frozenset(values) for key, values in found.items()}


def _leaves(prefix: str, value: Json) -> Iterable[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in sorted(value.items()):
            yield from _leaves(f"{prefix}.{key}" if prefix else key, inner)
    else:
        yield prefix, str(value)


def _words(key: str) -> set[str]:
    return set(key.lower().replace(".", "_").replace("-", "_").split("_"))


def _shown(values: frozenset[str] | None) -> str:
    return "absent" if values is None else " or ".join(sorted(values))
