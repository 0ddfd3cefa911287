"""What an experiment yields: samples by launch, and the evidence a judge reads.

A *launch* is a fresh process that serves one arm; it is the unit of replication. A *block* is a run of
requests on one arm; blocks of the two arms alternate A B B A. Everything here is a plain value, so that
the judge is a pure function of it and the database can give it back unchanged.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

from experiments.space.configuration import Change

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class Arm(StrEnum):
    """Which side of a comparison a launch serves."""

    CONTROL = "control"
    CANDIDATE = "candidate"


class Stage(StrEnum):
    """The stages of an experiment, in order; a sweep and a noise run have stages of their own."""

    STATIC = "static"
    PRUNE = "prune"
    QUANTIZE = "quantize"
    DRAFT = "draft"
    KERNELS = "kernels"
    SWEEP = "sweep"
    NOISE = "noise"
    PROFILE = "profile"
    SCREEN = "screen"
    QUICK = "quick"
    EVALUATE = "evaluate"
    FULL = "full"
    VALIDATION = "validation"
    FURTHER = "further"
    """Workloads beside the plan's own, in launches of the stages before; no judge sees what it measured."""


TEXTS_KEY = "texts"
"""In a launch's environment, of the machine: the fingerprint of the texts it was measured with."""

EVALUATION_KEY = "evaluation"
"""In a launch's environment, of the machine: the digest of the artifact that its scores are kept in."""

UNCHECKED = "unchecked"
"""In the detail of a stage: sentences that say what its check could not look at."""

NOT_UP = "not_up"
"""In the detail of a stage: sentences that say which launches did not come up beside others that were loaded
at the same time, or ran out of memory while others were up beside them, the kind of failure and why, and what
was to be loaded or asked again."""


WORKLOADS, UNMEASURED = "workloads", "unmeasured"
"""In the detail of the stage of further workloads: those that it was asked for, and of each that could not be
measured `arm`, `workload` (its key), `launch` (its index) and `cause`."""

WORKLOAD_MARK = ": "
"""Parts the key of a further workload from the rest of an item's name."""


class Metric(StrEnum):
    """Metrics and their units; latency follows the definitions of vLLM's serving benchmark.

    TTFT: request sent to first token. TPOT: (end to end − TTFT) / (output tokens − 1). ITL: gap between
    consecutive tokens, with drafting between steps. `tokens_per_s` is a request's own output over its time.
    Of a whole block, one value each, over the time from the start of its first request to its last token:
    `output_tokens_per_s`, `total_tokens_per_s` with the prompts', `requests_per_s`. The quality metrics are
    one value per document (`nll_bits`, `text_bytes`, `kl_nats`, `top1_agreement`) or per instruction item
    (`task_correct`, 0 or 1). Drafting: `step_tokens` is the number of tokens one verification step gave (its
    mean is the acceptance length), `divergences` and `near_ties` count, per prompt, tokens that differ from
    decoding without a draft: beyond what the engine's own near-ties explain, and within; of `checked_tokens`.
    `near_tie_logits` is the gap up to which a tie is near, `flips_without_draft` how often the engine turns a
    token without any draft (see `engines.port.DraftingCheck`). `step_weight_bytes`: bytes of weights, as
    stored, that a decode step reads; one value a launch.
    """

    TTFT_MS = "ttft_ms"
    TPOT_MS = "tpot_ms"
    ITL_MS = "itl_ms"
    E2EL_MS = "e2el_ms"
    TOKENS_PER_S = "tokens_per_s"
    OUTPUT_TOKENS_PER_S = "output_tokens_per_s"
    TOTAL_TOKENS_PER_S = "total_tokens_per_s"
    REQUESTS_PER_S = "requests_per_s"
    NLL_BITS = "nll_bits"
    TEXT_BYTES = "text_bytes"
    KL_NATS = "kl_nats"
    TOP1_AGREEMENT = "top1_agreement"
    TASK_CORRECT = "task_correct"
    DECODE_AGREEMENT = "decode_agreement"
    STEP_TOKENS = "step_tokens"
    DIVERGENCES = "divergences"
    NEAR_TIES = "near_ties"
    CHECKED_TOKENS = "checked_tokens"
    NEAR_TIE_LOGITS = "near_tie_logits"
    FLIPS_WITHOUT_DRAFT = "flips_without_draft"
    STEP_WEIGHT_BYTES = "step_weight_bytes"

    @property
    def unit(self) -> str:
        """The unit of a value of this metric."""
        return _UNITS[self]

    @property
    def is_share(self) -> bool:
        """Whether an effect on it is a difference of shares, negative where more came out right; every other
        effect is a natural log ratio."""
        return self is Metric.TASK_CORRECT


_UNITS = {
    Metric.TTFT_MS: "ms",
    Metric.TPOT_MS: "ms",
    Metric.ITL_MS: "ms",
    Metric.E2EL_MS: "ms",
    Metric.TOKENS_PER_S: "1/s",
    Metric.OUTPUT_TOKENS_PER_S: "1/s",
    Metric.TOTAL_TOKENS_PER_S: "1/s",
    Metric.REQUESTS_PER_S: "1/s",
    Metric.NLL_BITS: "bit",
    Metric.TEXT_BYTES: "B",
    Metric.KL_NATS: "nat",
    Metric.TOP1_AGREEMENT: "1",
    Metric.TASK_CORRECT: "1",
    Metric.DECODE_AGREEMENT: "1",
    Metric.STEP_TOKENS: "1",
    Metric.DIVERGENCES: "1",
    Metric.NEAR_TIES: "1",
    Metric.CHECKED_TOKENS: "1",
    Metric.NEAR_TIE_LOGITS: "1",
    Metric.FLIPS_WITHOUT_DRAFT: "1",
    Metric.STEP_WEIGHT_BYTES: "B",
}

BLOCK_METRICS = frozenset({Metric.OUTPUT_TOKENS_PER_S, Metric.TOTAL_TOKENS_PER_S, Metric.REQUESTS_PER_S})
"""Metrics of a block as a whole, under the item `ALL_REQUESTS`."""

ALL_REQUESTS = "all requests"
"""The item of a value that is of a whole block."""

HIGHER_IS_BETTER = BLOCK_METRICS | {Metric.TOKENS_PER_S}
"""Metrics of time whose larger value is the better; all others are better as they fall."""

TIMED_METRICS = HIGHER_IS_BETTER | {Metric.TTFT_MS, Metric.TPOT_MS, Metric.ITL_MS, Metric.E2EL_MS}
"""Metrics of time, whose claims are judged by pairs of launches."""

QUALITY_METRICS = frozenset({Metric.NLL_BITS, Metric.TASK_CORRECT})
"""Metrics of quality that a claim can be on; such a claim compares with the control, not with the
baseline."""

SCORED_METRICS = QUALITY_METRICS | {Metric.STEP_WEIGHT_BYTES}
"""Metrics whose claims are judged without timing anything."""


@dataclass(frozen=True)
class Sample:
    """One raw value. `item` names the prompt, document or task; `position` is the block's place in ABBA
    order over the whole launch pair; `seq` is the order within the launch; ITL uses one sample a token."""

    block: int
    position: int
    item: str
    seq: int
    metric: Metric
    value: float


@dataclass(frozen=True)
class LaunchRecord:
    """One launch and its samples.

    `index` counts the launches of its arm within the experiment from 0; launches of equal index in the
    two arms were interleaved and form a pair. `resolved` is what actually ran (dtypes, threads, kernels,
    versions); `environment` is the machine's state at that time.
    """

    arm: Arm
    index: int
    stage: Stage
    configuration_digest: str
    resolved: Mapping[str, Json]
    environment: Mapping[str, Json]
    load_s: float
    samples: tuple[Sample, ...]

    def of(self, metric: Metric) -> tuple[Sample, ...]:
        """The samples of one metric in the order of `samples`."""
        return self._by_metric.get(metric, ())

    def values(self, metric: Metric) -> list[float]:
        """The raw values of one metric in the order they were taken."""
        return [s.value for s in sorted(self.of(metric), key=lambda s: s.seq)]

    @cached_property
    def _by_metric(self) -> Mapping[Metric, tuple[Sample, ...]]:
        found: dict[Metric, list[Sample]] = {}
        for sample in self.samples:
            found.setdefault(sample.metric, []).append(sample)
        return {metric: tuple(samples) for metric, samples in found.items()}

    @cached_property
    def kept(self) -> dict[Hashable, Any]:
        """What its readers worked out of this record, which never changes, kept for the next time."""
        return {}


@dataclass(frozen=True)
class NoiseProfile:
    """How much a launch varies on one target, from stored A/A launches.

    `launch_sd_log` is the standard deviation between launches of the mean log of the metric within one
    window, pooled over windows; `degrees_of_freedom` = launches − windows. With 0 degrees of freedom
    nothing is known and `launch_sd_log` is None.
    """

    target_key: str
    metric: Metric
    launches: int
    degrees_of_freedom: int
    launch_sd_log: float | None


@dataclass(frozen=True)
class Evidence:
    """All that a judge may look at: launches so far (latency and quality) and the target's noise.

    `changes` is the claimed change, `control.changes_to(candidate)`: the judge calls every other difference
    between what the two arms resolved to confounded, and takes the quality first where weights change.
    `pinned_keys` are the resolved keys that the changed knobs pin, as the space declares them: those may
    differ. `in_turn`: launches were up one at a time, so that no two loaded side by side. `measured_s` are
    the seconds on the clock of the stages that loaded, timed and scored them; None where nobody took them.
    What was measured is judged without either.
    """

    launches: tuple[LaunchRecord, ...]
    noise: NoiseProfile
    changes: tuple[Change, ...]
    failure: str | None = None
    warnings: tuple[str, ...] = field(default=())
    pinned_keys: tuple[str, ...] = ()
    in_turn: bool = False
    measured_s: float | None = None

    def of(self, arm: Arm, *stages: Stage) -> tuple[LaunchRecord, ...]:
        """The launches of one arm, of the given stages (all if none is given), by index."""
        found = [r for r in self.launches if r.arm == arm and (not stages or r.stage in stages)]
        return tuple(sorted(found, key=lambda r: r.index))
