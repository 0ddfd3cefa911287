"""The judge `launch-interval`: an interval in which the launch is the unit. Pure.

Claims on quality and on bytes are judged without timing anything: see `agent.judge.scored_claim`. What
follows is about claims on time.

**Steps.** Where weights change, first a look at their quality in a launch that is ready soonest. One quick
pair → (more blocks on it, if the spread within launches rules) → full pairs up to `full_pairs`, with the
evaluation of quality where it saves most (`sequence.evaluate_first`), at the latest when a gain seems to be
there → `validation_pairs` pairs of further fresh processes, and more of them, up to `full_pairs` +
`validation_pairs` in all, while the question stays open → stop. The validation begins when the interval lies
beyond `min_effect` or most probably will with it (`sequence.ready_to_validate`), and when the exploratory
pairs are spent. It stops at any pair as soon as the interval excludes `min_effect` (refuted), the quality
is worse or stays undecided, or the rest of the plan could hardly settle the question
(`sequence.chance_to_settle`; that ends inconclusive).

**Supported** only if all of these hold:

1. the interval over all pairs, exploratory and validation, lies beyond `min_effect`: its upper end is below
   log(1 − min_effect); and the e-value of "the gain is smaller than min_effect" is 1 / `support_alpha` at
   least, the level that the campaign allows this experiment;
2. the quality is held by non-inferiority (`agent.judge.quality`); where the plan says that weights are made
   up there is none, and every reason says that it speaks of latency only (`agent.judge.made_up`);
3. all `validation_pairs` were run, and alone agree: their own mean is below log(1 − min_effect), and the
   upper end of their own interval, one-sided at alpha at one look with the spread of a pair over all of them,
   is below 0.

**Refuted** if the interval lies wholly above log(1 − min_effect), so that the gain is smaller than asked for,
or if the quality is worse than a margin with confidence. **Infeasible** with the cause when the candidate did
not run. **Confounded** when what ran differs by more than the claimed change. **Inconclusive** otherwise.

**Error.** The interval is a confidence sequence (`agent.judge.interval`): at all looks together it holds the
truth with probability 1 − alpha, whenever the experiment stops and however many pairs the plan allows. So the
chance to refute by latency a gain that is there is at most alpha over the whole procedure, and the chance to
support one smaller than min_effect is at most `support_alpha`, which conditions 2 and 3 only lower. The
interval of a verdict is the one at which it stopped. Assumed: the pair effects of one experiment are
independent and normal about one mean on the log scale, and vary as the noise profile says.
"""

from __future__ import annotations

from statistics import fmean

from agent.judge import gates, sentences
from agent.judge.costs import Spending, most_pairs, spending
from agent.judge.interval import Interval
from agent.judge.made_up import acceptance_is_set, steps_told, with_scope
from agent.judge.noninferiority import Quality
from agent.judge.pairs import TIMED_STAGES, timed_launches
from agent.judge.reading import Reading, read
from agent.judge.scored_claim import decide, details_of, next_score, read_scores
from agent.judge.sequence import (
    HOPELESS_CHANCE,
    blocks_of_next_pair,
    blocks_to_add,
    chance_beyond,
    chance_to_settle,
    changes_weights,
    evaluate_first,
    ready_to_validate,
)
from configs.errors import UsageError
from experiments.measurement.evidence import (
    SCORED_METRICS,
    TIMED_METRICS,
    Arm,
    Evidence,
    Json,
    Metric,
    Stage,
)
from experiments.measurement.judging import (
    BY_CLOCK,
    Evaluate,
    JudgeVerdict,
    MeasureMore,
    MeasurePair,
    Outcome,
    Screen,
    Step,
    Stop,
)
from experiments.measurement.plan import StoppingPlan

LEAST_SAVED_S = 1.0
"""A verdict says what stopping early saved from this many seconds on."""


class LaunchIntervalJudge:
    """Steers and judges an experiment; see the module's page for the method and its error control."""

    name = "launch-interval"
    version = "11"

    def next_step(self, plan: StoppingPlan, evidence: Evidence) -> Step:
        """What to do next. Raises `UsageError` for a plan whose metric no claim can be on."""
        found = gates.check(evidence, _judged(plan.metric), gates.clock_tolerance(plan))
        if found is not None:
            return Stop(found.reason, found.failed)
        if plan.metric in SCORED_METRICS:
            return next_score(plan, evidence)
        reading = read(plan, evidence)
        if reading.quality.state in (Quality.WORSE, Quality.UNDECIDED) and not reading.pairs:
            return Stop(_decide(plan, reading)[1])
        if not reading.pairs and not reading.screened and changes_weights(evidence.changes):
            return Screen()
        if not reading.pairs:
            return (
                Stop(sentences.ONE_ARM)
                if _measured(evidence)
                else MeasurePair(Stage.QUICK, plan.quick_blocks)
            )
        if acceptance_is_set(plan, evidence):
            return Stop(steps_told(evidence))
        return _timed_step(plan, evidence, reading)

    def verdict(self, plan: StoppingPlan, evidence: Evidence) -> JudgeVerdict:
        """The verdict on what was measured so far. Raises `UsageError` as `next_step` does."""
        found = gates.check(evidence, _judged(plan.metric), gates.clock_tolerance(plan))
        if found is not None and gates.broken_samples(evidence) is not None:
            # no number may be taken from samples that can't be
            return JudgeVerdict(
                found.outcome, found.reason, None, None, None, len(evidence.launches), 0, {}, {}
            )
        if plan.metric in SCORED_METRICS:
            return _scored_verdict(plan, evidence, found)
        reading = read(plan, evidence)
        if reading.pairs and acceptance_is_set(plan, evidence):
            return _without_effect(plan, evidence, reading, found)
        if found is not None:
            outcome, reason = found.outcome, found.reason
        else:
            outcome, reason = _decide(plan, reading, _measured(evidence))
            reason = _with_saved(plan, evidence, reason)
        if reading.pairs and stands_for_engine_alone(evidence):
            reason = sentences.engine_alone(reason)
        if reading.pairs and plan.latency_only:
            reason = with_scope(reason)
        overall = reading.overall if reading.overall is not None and reading.overall.bounded else None
        return JudgeVerdict(
            outcome=outcome,
            reason=reason,
            effect_log=fmean(pair.effect_log for pair in reading.pairs) if reading.pairs else None,
            interval_low_log=overall.low_log if overall else None,
            interval_high_log=overall.high_log if overall else None,
            launches=sum(len(timed_launches(evidence, arm)) for arm in Arm),
            samples=sum(pair.samples for pair in reading.pairs),
            quality=reading.quality.as_json(),
            details=_details(plan, reading, spending(plan, evidence)),
        )


def _without_effect(
    plan: StoppingPlan, evidence: Evidence, reading: Reading, found: gates.Finding | None
) -> JudgeVerdict:
    """The verdict on drafting with made-up weights: times of steps, or what a gate found, and no effect."""
    return JudgeVerdict(
        outcome=Outcome.INCONCLUSIVE if found is None else found.outcome,
        reason=steps_told(evidence) if found is None else with_scope(found.reason),
        effect_log=None,
        interval_low_log=None,
        interval_high_log=None,
        launches=sum(len(timed_launches(evidence, arm)) for arm in Arm),
        samples=sum(pair.samples for pair in reading.pairs),
        quality=reading.quality.as_json(),
        details={"metric": plan.metric.value, "min_effect_log": reading.bound_log, "alpha": plan.alpha},
    )


def _scored_verdict(plan: StoppingPlan, evidence: Evidence, found: gates.Finding | None) -> JudgeVerdict:
    reading = read_scores(plan, evidence)
    outcome, reason = decide(plan, reading) if found is None else (found.outcome, found.reason)
    launches = [each for arm in Arm for each in gates.compared(evidence, arm, plan.metric)]
    now = reading.now
    return JudgeVerdict(
        outcome=outcome,
        reason=reason,
        effect_log=now.mean if now else None,
        interval_low_log=now.low if now else None,
        interval_high_log=now.high if now else None,
        launches=len(launches),
        samples=sum(len(each.values(plan.metric)) for each in launches),
        quality=reading.quality.as_json(),
        details=details_of(plan, reading),
    )


def stands_for_engine_alone(evidence: Evidence) -> bool:
    """Whether quantization changed and an arm said that its latency is not that of the stored format."""
    if not any(change.knob.partition(".")[0] == "quantization" for change in evidence.changes):
        return False
    for record in (each for arm in Arm for each in evidence.of(arm, *TIMED_STAGES)):
        weights = record.resolved.get("weights")
        for told in (record.resolved, weights if isinstance(weights, dict) else {}):
            if told.get("latency_representative") is False:
                return True
    return False


def _timed_step(plan: StoppingPlan, evidence: Evidence, reading: Reading) -> Step:
    """The step after at least one pair was timed."""
    now = reading.overall
    more = blocks_to_add(plan, now, reading.pairs) if now is not None and reading.pair_is_up else 0
    if more:
        return MeasureMore(Stage.FULL, more)
    if reading.short or reading.quality.state in (Quality.WORSE, Quality.UNDECIDED):
        return _stop(plan, evidence, reading)
    validated = reading.validated >= plan.validation_pairs
    if validated and reading.convincing and reading.agrees and reading.evaluated:
        return _stop(plan, evidence, reading)
    if now is None:
        spent = reading.exploratory >= plan.full_pairs
        return _stop(plan, evidence, reading) if spent else MeasurePair(Stage.FULL, plan.full_blocks)
    hopeless = _hopeless(plan, evidence, reading, now)
    if hopeless is not None:
        return hopeless
    ready = ready_to_validate(plan, now)
    hoped = ready or chance_beyond(plan, now) >= HOPELESS_CHANCE
    validates = ready or bool(reading.validated) or reading.exploratory >= plan.full_pairs
    if not reading.evaluated and ((validates and hoped) or evaluate_first(plan, evidence, now)):
        return Evaluate()
    if len(reading.pairs) >= most_pairs(plan):
        return _stop(plan, evidence, reading)
    blocks = blocks_of_next_pair(plan, evidence, now, reading.pairs)
    return MeasurePair(Stage.VALIDATION if validates else Stage.FULL, blocks)


def _stop(plan: StoppingPlan, evidence: Evidence, reading: Reading) -> Stop:
    return Stop(_with_saved(plan, evidence, _decide(plan, reading)[1]))


def _with_saved(plan: StoppingPlan, evidence: Evidence, reason: str) -> str:
    """The reason, and what was saved where not the whole plan was run."""
    spent = spending(plan, evidence)
    if spent is None or spent.planned_s - spent.spent_s < LEAST_SAVED_S:
        return reason
    return sentences.ended_early(reason, spent)


def _hopeless(plan: StoppingPlan, evidence: Evidence, reading: Reading, now: Interval) -> Stop | None:
    left = most_pairs(plan) - len(reading.pairs)
    if left <= 0:
        return None
    chance = chance_to_settle(plan, now)
    if chance >= HOPELESS_CHANCE:
        return None
    return Stop(_with_saved(plan, evidence, sentences.hopeless(plan, reading, left, chance)))


def _decide(plan: StoppingPlan, reading: Reading, measured: bool = True) -> tuple[Outcome, str]:
    quality = reading.quality.state
    if quality == Quality.WORSE:
        return Outcome.REFUTED, sentences.quality_worse(reading)
    if quality == Quality.UNDECIDED and not reading.pairs:
        return Outcome.INCONCLUSIVE, sentences.quality_undecided(reading)
    if not reading.pairs:
        return Outcome.INCONCLUSIVE, sentences.ONE_ARM if measured else sentences.NOTHING
    if reading.short:
        return Outcome.REFUTED, sentences.too_small(plan, reading)
    if quality == Quality.UNDECIDED:
        return Outcome.INCONCLUSIVE, sentences.quality_undecided(reading)
    if not reading.beyond:
        return Outcome.INCONCLUSIVE, sentences.undecided(plan, reading)
    if not plan.latency_only and (not reading.evaluated or quality != Quality.HELD):
        return Outcome.INCONCLUSIVE, sentences.quality_missing(plan, reading)
    if reading.validated < plan.validation_pairs:
        return Outcome.INCONCLUSIVE, sentences.unvalidated(plan, reading)
    if not reading.agrees:
        return Outcome.INCONCLUSIVE, sentences.disagrees(plan, reading)
    if not reading.convincing:
        return Outcome.INCONCLUSIVE, sentences.unconvincing(plan, reading)
    return Outcome.SUPPORTED, sentences.supported(plan, reading)


def _judged(metric: Metric) -> Metric:
    judged = TIMED_METRICS | SCORED_METRICS
    if metric not in judged:
        known = ", ".join(sorted(metric.value for metric in judged))
        raise UsageError(f"No effect is judged on {metric.value}.", f"Choose one of {known}.")
    return metric


def _measured(evidence: Evidence) -> bool:
    return any(timed_launches(evidence, arm) for arm in Arm)


def _details(plan: StoppingPlan, reading: Reading, spent: Spending | None) -> dict[str, Json]:
    overall, validation = reading.overall, reading.validation
    return {
        "metric": plan.metric.value,
        "min_effect_log": reading.bound_log,
        "alpha": plan.alpha,
        "support_alpha": plan.support_level,
        "e_value": reading.e_value,
        "effect_se_log": overall.se_log if overall else None,
        "degrees_of_freedom": overall.noise.degrees_of_freedom if overall else None,
        "pair_sd_log": overall.noise.sd_log if overall else None,
        "noise_source": overall.noise.source if overall else None,
        "validation_effect_log": validation.mean_log if validation else None,
        "validation_high_log": validation.high_log if validation else None,
        "spent_s": spent.spent_s if spent else None,
        "planned_s": spent.planned_s if spent else None,
        BY_CLOCK: True,
        "pairs": [
            {
                "index": pair.index,
                "validation": pair.validation,
                "effect_log": pair.effect_log,
                "within_se_log": pair.within_se_log,
                "blocks": pair.blocks,
            }
            for pair in reading.pairs
        ],
    }
