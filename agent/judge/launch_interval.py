"""The judge `launch-interval`: an interval in which the launch is the unit. Pure.

Claims on quality and on bytes are judged without timing anything: see `agent.judge.scored_claim`. What
follows is about claims on time.

**Steps.** Where weights change, first a look at their quality in a launch that is ready soonest. One quick
pair → (more blocks on it, if the spread within launches rules) → full pairs up to `full_pairs`, with the
evaluation of quality where it saves most (`sequence.evaluate_first`), at the latest before →
`validation_pairs` pairs of further fresh processes, and more of them, up to `full_pairs` + `validation_pairs`
in all, while the question stays open → stop. It stops early as soon as the interval excludes `min_effect`
(refuted), the quality is worse or stays undecided, or the rest of the plan could hardly settle the question
(`sequence.chance_to_settle`; that ends inconclusive).

**Supported** only if all of these hold:

1. the interval over all pairs, exploratory and validation, lies beyond `min_effect`: its upper end is below
   log(1 − min_effect);
2. the quality is held by non-inferiority (`agent.judge.quality`);
3. all `validation_pairs` were run, and alone agree: their own mean is below log(1 − min_effect), and the
   upper end of their own interval, one-sided at alpha with the pooled spread of a pair, is below 0.

**Refuted** if the interval lies wholly above log(1 − min_effect), so that the gain is smaller than asked for,
or if the quality is worse than a margin with confidence. **Infeasible** with the cause when the candidate did
not run. **Confounded** when what ran differs by more than the claimed change. **Inconclusive** otherwise.

**Error.** The interval's alpha is split over both sides and all planned looks (`agent.judge.interval`), so
the chance to refute by latency a gain that is there is at most alpha / 2 over the whole procedure, and so is
the chance to support one smaller than min_effect, which conditions 2 and 3 only lower. The interval of a
verdict is the one at which it stopped; it holds the truth with 1 − alpha in spite of the looks before.
Assumed: the pair effects of one experiment are independent and nearly normal on the log scale.
"""

from __future__ import annotations

from statistics import fmean

from agent.judge import gates, sentences
from agent.judge.interval import planned_looks, side_alpha
from agent.judge.pairs import TIMED_STAGES, timed_launches
from agent.judge.quality import Quality
from agent.judge.reading import Reading, read
from agent.judge.scored_claim import decide, details_of, next_score, read_scores
from agent.judge.sequence import HOPELESS_CHANCE, chance_to_settle, changes_weights, evaluate_first
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

WITHIN_SHARE = 0.5
"""Above this share of a pair's variance from within launches, more blocks pay before another pair does."""


class LaunchIntervalJudge:
    """Steers and judges an experiment; see the module's page for the method and its error control."""

    name = "launch-interval"
    version = "3"

    def next_step(self, plan: StoppingPlan, evidence: Evidence) -> Step:
        """What to do next. Raises `UsageError` for a plan whose metric no claim can be on."""
        found = gates.check(evidence, _judged(plan.metric))
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
        if reading.validated:
            return _validation_step(plan, reading)
        evaluated = reading.evaluated
        more = _blocks_to_add(plan, reading) if reading.pair_is_up else 0
        if more:
            return MeasureMore(Stage.FULL, more)
        if reading.short or reading.quality.state in (Quality.WORSE, Quality.UNDECIDED):
            return Stop(_decide(plan, reading)[1])
        if reading.overall is not None:
            hopeless = _hopeless(plan, reading, plan.full_pairs)
            if hopeless is not None:
                return hopeless
            if not evaluated and (reading.beyond or evaluate_first(plan, evidence, reading.overall)):
                return Evaluate()
            if reading.beyond:
                return MeasurePair(Stage.VALIDATION, plan.full_blocks)
        if reading.exploratory < plan.full_pairs:
            return MeasurePair(Stage.FULL, plan.full_blocks)
        return Stop(_decide(plan, reading)[1])

    def verdict(self, plan: StoppingPlan, evidence: Evidence) -> JudgeVerdict:
        """The verdict on what was measured so far. Raises `UsageError` as `next_step` does."""
        found = gates.check(evidence, _judged(plan.metric))
        if found is not None and gates.broken_samples(evidence) is not None:
            # no number may be taken from samples that can't be
            return JudgeVerdict(
                found.outcome, found.reason, None, None, None, len(evidence.launches), 0, {}, {}
            )
        if plan.metric in SCORED_METRICS:
            return _scored_verdict(plan, evidence, found)
        reading = read(plan, evidence)
        if found is not None:
            outcome, reason = found.outcome, found.reason
        else:
            outcome, reason = _decide(plan, reading, _measured(evidence))
        if reading.pairs and stands_for_engine_alone(evidence):
            reason = sentences.engine_alone(reason)
        overall = reading.overall
        return JudgeVerdict(
            outcome=outcome,
            reason=reason,
            effect_log=fmean(pair.effect_log for pair in reading.pairs) if reading.pairs else None,
            interval_low_log=overall.low_log if overall else None,
            interval_high_log=overall.high_log if overall else None,
            launches=sum(len(timed_launches(evidence, arm)) for arm in Arm),
            samples=sum(pair.samples for pair in reading.pairs),
            quality=reading.quality.as_json(),
            details=_details(plan, reading),
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


def _validation_step(plan: StoppingPlan, reading: Reading) -> Step:
    """Run the planned validation, then what is left of the plan's pairs while the question stays open."""
    another = MeasurePair(Stage.VALIDATION, plan.full_blocks)
    if reading.validated < plan.validation_pairs:
        return another
    last = plan.full_pairs + plan.validation_pairs
    settled = reading.short or (reading.beyond and reading.agrees)
    if settled or len(reading.pairs) >= last:
        return Stop(_decide(plan, reading)[1])
    return _hopeless(plan, reading, last) or another


def _hopeless(plan: StoppingPlan, reading: Reading, last: int) -> Stop | None:
    if reading.overall is None or len(reading.pairs) >= last:
        return None
    chance = chance_to_settle(plan, reading.overall, side_alpha(plan), last)
    if chance >= HOPELESS_CHANCE:
        return None
    return Stop(sentences.hopeless(plan, reading, last - len(reading.pairs), chance))


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
    if not reading.evaluated:
        return Outcome.INCONCLUSIVE, sentences.quality_missing(plan, reading)
    if reading.validated < plan.validation_pairs:
        return Outcome.INCONCLUSIVE, sentences.unvalidated(plan, reading)
    if not reading.agrees:
        return Outcome.INCONCLUSIVE, sentences.disagrees(plan, reading)
    return Outcome.SUPPORTED, sentences.supported(plan, reading)


def _blocks_to_add(plan: StoppingPlan, reading: Reading) -> int:
    """Blocks to add to the quick pair, decided by spreads alone, so that it is no look at the effect."""
    if len(reading.pairs) != 1 or reading.noise is None:
        return 0
    pair = reading.pairs[0]
    between = max(reading.noise.sd_log, pair.within_se_log) ** 2
    if pair.within_se_log**2 <= WITHIN_SHARE * between:
        return 0
    return max(0, plan.full_blocks - pair.blocks)


def _judged(metric: Metric) -> Metric:
    judged = TIMED_METRICS | SCORED_METRICS
    if metric not in judged:
        known = ", ".join(sorted(metric.value for metric in judged))
        raise UsageError(f"No effect is judged on {metric.value}.", f"Choose one of {known}.")
    return metric


def _measured(evidence: Evidence) -> bool:
    return any(timed_launches(evidence, arm) for arm in Arm)


def _details(plan: StoppingPlan, reading: Reading) -> dict[str, Json]:
    overall, validation, noise = reading.overall, reading.validation, reading.noise
    return {
        "metric": plan.metric.value,
        "min_effect_log": reading.bound_log,
        "looks": planned_looks(plan),
        "alpha_a_side": side_alpha(plan),
        "effect_se_log": overall.se_log if overall else None,
        "degrees_of_freedom": overall.degrees_of_freedom if overall else None,
        "pair_sd_log": noise.sd_log if noise else None,
        "noise_source": noise.source if noise else None,
        "validation_effect_log": validation.mean_log if validation else None,
        "validation_high_log": validation.high_log if validation else None,
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
