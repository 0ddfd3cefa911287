"""Claims on quality and on bytes: judged by scoring alone, nothing is timed. Pure.

**Steps.** One evaluation of both arms → unless the interval already says that the gain is too small, or the
guardrail that it is worse, a validation on documents and items that the evaluation did not use, by a fresh
process of the candidate (the control's scores may be kept from an earlier one) → stop. A first look that
leaves the claim or its guardrail open is no end: the second one is paid for.

**Supported** only after the validation, if the interval over everything scored lies beyond `min_effect`; the
validation alone has its mean beyond `min_effect` and the upper end of its own interval, one-sided at alpha,
below 0; and the guardrail is held over everything. **Refuted**, at either look, if the interval says that the
gain is smaller than `min_effect`, or if the guardrail is worse than a margin with confidence.
**Inconclusive** otherwise.

**Guardrail.** A claim on bits is guarded by the tasks, a claim on tasks by the bits, both against the
control; a claim on bytes by both, against the reference that the job names: the campaign's baseline, as for a
claim on time, and for a question of the campaign its own control. The margins are the plan's
(`agent.judge.quality`). Drafting, where it changed, must keep the text for every claim.

**Error.** There are two looks, so each side of an interval misses with alpha / 4: the chance to refute by
its effect a gain that is there is at most alpha / 2. Only the second look supports: the chance to support a
gain smaller than `min_effect` is at most alpha / 4, which the validation's own agreement only lowers. Where
the plan's level of support is stricter still, the interval over everything must lie beyond `min_effect` at
that level too; its e-value is then 1 / level, and 0 where it does not (a test as an e-value of two values).
Bytes are counted and have no error; the validation reads the candidate's from a fresh process.
"""

from __future__ import annotations

from agent.judge import scored_sentences as sentences
from agent.judge.noninferiority import Quality
from agent.judge.quality import quality_report
from agent.judge.scale import bound_of
from agent.judge.scored_effect import scored_effect
from agent.judge.scored_reading import ScoredReading
from experiments.measurement.evidence import Arm, Evidence, Json, Stage
from experiments.measurement.judging import Evaluate, Outcome, Step, Stop
from experiments.measurement.plan import StoppingPlan

LOOKS = 2
"""How often the interval may be acted upon: after the evaluation and after the validation."""

VALIDATION_PART = 1
"""The part of the material that the validation is scored on."""

SCORED_STAGES = (Stage.EVALUATE, Stage.VALIDATION)
"""The stages of such an experiment."""


def read_scores(plan: StoppingPlan, evidence: Evidence) -> ScoredReading:
    """Reduce evidence that has passed the gates."""
    a_side = plan.alpha / (2 * LOOKS)
    metric = plan.metric
    return ScoredReading(
        metric=metric,
        first=scored_effect(metric, evidence, (Stage.EVALUATE,), a_side),
        validation=scored_effect(metric, evidence, (Stage.VALIDATION,), plan.alpha),
        overall=scored_effect(metric, evidence, SCORED_STAGES, a_side),
        strict=scored_effect(metric, evidence, SCORED_STAGES, min(a_side, plan.support_level)),
        needed=1 / plan.support_level,
        quality=quality_report(plan, evidence),
        bound=bound_of(plan),
        evaluated=bool(evidence.of(Arm.CANDIDATE, Stage.EVALUATE)),
        validated=bool(evidence.of(Arm.CANDIDATE, Stage.VALIDATION)),
    )


def next_score(plan: StoppingPlan, evidence: Evidence) -> Step:
    """What to do next about a claim that is scored."""
    reading = read_scores(plan, evidence)
    if not reading.evaluated:
        return Evaluate()
    if not reading.validated and not reading.settled:
        return Evaluate(part=VALIDATION_PART)
    return Stop(decide(plan, reading)[1])


def decide(plan: StoppingPlan, reading: ScoredReading) -> tuple[Outcome, str]:
    """The outcome of what was scored by now, and the sentence that says why."""
    quality = reading.quality.state
    if not reading.evaluated:
        return Outcome.INCONCLUSIVE, sentences.NOTHING
    if quality == Quality.WORSE:
        return Outcome.REFUTED, sentences.guardrail_worse(plan, reading)
    if reading.now is None:
        return Outcome.INCONCLUSIVE, sentences.too_little(plan)
    if reading.short:
        return Outcome.REFUTED, sentences.too_small(plan, reading)
    if quality != Quality.HELD:
        return Outcome.INCONCLUSIVE, sentences.guardrail_undecided(plan, reading)
    if not reading.beyond:
        return Outcome.INCONCLUSIVE, sentences.undecided(plan, reading)
    if not reading.validated:
        return Outcome.INCONCLUSIVE, sentences.unvalidated(plan, reading)
    if not reading.agrees:
        return Outcome.INCONCLUSIVE, sentences.disagrees(plan, reading)
    if not reading.convincing:
        return Outcome.INCONCLUSIVE, sentences.unconvincing(plan, reading)
    return Outcome.SUPPORTED, sentences.supported(plan, reading)


def details_of(plan: StoppingPlan, reading: ScoredReading) -> dict[str, Json]:
    """What a verdict stores beside its numbers; effects in the metric's scale."""
    now, validation = reading.now, reading.validation
    return {
        "metric": plan.metric.value,
        "min_effect_log": reading.bound,
        "looks": LOOKS,
        "alpha_a_side": plan.alpha / (2 * LOOKS),
        "effect_se_log": now.error if now else None,
        "count": now.count if now else 0,
        "first_effect_log": reading.first.mean if reading.first else None,
        "validation_effect_log": validation.mean if validation else None,
        "validation_high_log": validation.high if validation else None,
        "validation_count": validation.count if validation else 0,
        "e_value": reading.e_value,
        "support_alpha": plan.support_level,
        "spent_s": None,
        "planned_s": None,
    }
