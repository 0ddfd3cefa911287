"""A step's kernels summed up by what could be won from each kind, and what a lever may do to each. Pure.

From the profile by kernels (docs/profile.md). Matrix products are above the floor of their bytes by what the
kernel loses; which kernel loses least is not known before it is measured, so each is expected to change
nothing, with a spread; where they were timed alone, what that says (`timed_kernels.py`). What lies outside
kernels is what graphs and scheduling act on. Narrower caches and states save their bytes. Experts of a
Mixture of Experts are a kind of their own: fewer bits save bytes there as of products, they have kernels of
their own, and they are not timed alone.

All else that runs is one kind, the *rest*: norms, gates, copies, sampling. What multiplies in another way may
bring kernels of its own along, as for quantizing what it multiplies weights with, or spare some: what it
saves of products may be lost again there, and is known only once a step was profiled.

A token of a busy server takes longer than the profiled step: other requests read their prompts in between and
keep states of their own. That time is a part of its own, `beside`; prompts are arithmetic more than bytes, so
packed weights save nothing there for all that is known, and their kernels may lose as well as win.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.surrogate.graph_modes import GRAPH_MODE, SAME_STEP_SD_LOG, of_graph_mode
from agent.surrogate.ordered import Resemblance
from agent.surrogate.timed_kernels import TimedEffect
from agent.surrogate.timed_products import KERNEL_SD_LOG
from experiments.engines.port import PartTime
from experiments.measurement.evidence import Json
from experiments.space.configuration import KnobValue
from experiments.space.steps_ahead_rules import AHEAD, OFF, ON

MS_PER_S = 1e3

PRODUCTS, EXPERTS, HEAD, OUTSIDE = "gemm", "experts", "lm_head", "outside"
STATE, ATTENTION = "gdn_state", "attention"

KINDS = (PRODUCTS, EXPERTS, HEAD, STATE, ATTENTION, OUTSIDE)
"""Kinds of parts in a profile that a lever may act on."""

REST = "rest"
"""All kernels of a step that are of none of these kinds."""

BESIDE = "beside"
"""What a token takes beyond the profiled step: other requests, and the server."""

PACKED_BANDWIDTH_SHARE = 0.5
"""Share of the bandwidth that products of packed 4-bit weights are expected to reach; 16-bit ones reach
nearly all. 32 to 49 % were seen on an H200, more on devices with less of it."""

PACKED_SD_LOG = 0.2
"""Standard deviation of what packing does to products, whatever the kernel, and to the output head."""

PACKED_EXPERTS_BANDWIDTH_SHARE = 0.7
"""The same of a mixture's packed experts, of what they take for each byte more."""

PACKED_EXPERTS_MS = 0.006
"""Milliseconds that a layer's packed experts take longer than those of 16 bits, whatever is read of them.
Both by Marlin's kernel timed alone on an H200, for 4 bits in groups of 128 without zero points; they say what
that took for 1 and 16 tokens, and 28 % more for 4 (docs/vllm.md, *Experts alone*). Other formats are taken to
be like it."""

FORMAT_KNOBS = tuple(f"quantization.{name}" for name in ("group_size", "symmetric", "out_proj_bits", "keep"))
"""Knobs that say how packed weights are stored, which a kernel may feel; on which text they were calibrated,
and by which method, it does not."""

FORMAT_SD_LOG = 0.05
"""Standard deviation of what one value of these has over another, of products: groups of 32 took 2 % more
than groups of 128."""

EXPERTS_SD_LOG = KERNEL_SD_LOG
"""Standard deviation of what packing does to experts: which kernel multiplies them then is the engine's
choice. On an H200 Humming's took 0.85 ms of a step for which 0.67 would be said by what Marlin's take."""

EXPERTS_FORMAT_KNOBS = ("quantization.group_size", "quantization.symmetric")
"""Knobs that say how packed experts are stored; by their format vLLM chooses what multiplies them (0.33)."""

EXPERTS_FORMAT_SD_LOG = KERNEL_SD_LOG / 2
"""Standard deviation of what one value of these has over another, of experts: it may be another kernel's. A
guess."""

REST_SD_LOG = 0.1
"""Standard deviation of what packing does to the rest of a step, and of what one kernel has over another
there. Seen in the profiles of tables (h200-9b-http, h100-9b, h100-9b-vllm-0.33): 0.16 to 0.22 of two
kernels, with which some hundred more were launched, −0.04 to +0.03 of three (by hand). What
multiplies 8-bit weights makes what it multiplies them with as narrow first: 0.37 to 0.51 there, so that of it
as much is open as of its products."""

PROFILED = (PRODUCTS, EXPERTS, HEAD, STATE, ATTENTION, REST)
"""Kinds whose time in a profile is an outcome by itself; time outside kernels moves with the profiler."""

BESIDE_SD_LOG = 0.3
"""Standard deviation of what a kernel, or packing, does to the time beside the step, and the same of halving
the bytes of weights."""

STATE_BESIDE_SD_LOG = 0.15
"""The same of narrower states and caches: those of other requests are a smaller part of it."""

NOT_AHEAD_MS = 2.3
"""Milliseconds that a step takes longer where no next one is scheduled meanwhile, about: what the processor
does for a step lies open then. 2.4 outside kernels where there were none before, on the host of an H200 with
vLLM 0.33 (E-0003 of docs/results/h200-campaign-vllm-0.33.md), 2.3 with 0.26 (its table h200-9b-http)."""

SHARE_SD = 0.5
"""Standard deviation of what a lever does to the part that it acts on, on the log scale of that part."""

SAME_STEP = ("context", "batching", "chunking", "caching", "gdn_prefill", "prompt_graphs")
"""Levers that decide what is reserved and kept, how many requests there may be, and how prompts are read: a
decode step does the same with them, for all that is known."""

SIXTEEN_BITS = ("bfloat16", "float16")
"""Types of activations of the same width, for which a GPU has the same units."""

NARROWER = {"bfloat16": 0.5, "fp8_e4m3": 0.5, "fp8_e5m2": 0.5, "fp8": 0.5}
"""Bytes of a narrower type over those of the default that it replaces."""


@dataclass(frozen=True)
class KernelParts:
    """A profiled step: milliseconds and floor by kind of part, and how many kernels it launches."""

    step_ms: float
    time_ms: Mapping[str, float]
    floor_ms: Mapping[str, float]
    launches: float

    @classmethod
    def of(cls, profile: Sequence[PartTime], bandwidth_bytes_per_s: float | None) -> KernelParts | None:
        """Sum up a profile; None of one that was not made of kernels, or where no bandwidth is known."""
        step_ms = math.fsum(part.time_ms for part in profile)
        by_kind: dict[str, list[PartTime]] = {}
        for part in profile:
            by_kind.setdefault(part.kind if part.kind in KINDS else REST, []).append(part)
        if OUTSIDE not in by_kind or step_ms <= 0 or not bandwidth_bytes_per_s:
            return None
        times = {kind: math.fsum(part.time_ms for part in parts) for kind, parts in by_kind.items()}
        moved = {kind: sum(part.moved_bytes for part in parts) for kind, parts in by_kind.items()}
        floors = {
            kind: min(times[kind], MS_PER_S * count / bandwidth_bytes_per_s) for kind, count in moved.items()
        }
        return cls(step_ms, times, floors, math.fsum(part.launches for part in profile))

    @property
    def multiplied(self) -> tuple[str, ...]:
        """The kinds in which layers multiply weights: products, and experts where there are any."""
        return (PRODUCTS, EXPERTS) if EXPERTS in self.time_ms else (PRODUCTS,)

    def share(self, *kinds: str) -> float:
        """Share of the step that these kinds of parts take, 0 to 1."""
        return math.fsum(self.time_ms.get(kind, 0.0) for kind in kinds) / self.step_ms

    def floor_share(self, *kinds: str) -> float:
        """Share of the step that the bytes of these kinds of parts take at full bandwidth."""
        return math.fsum(self.floor_ms.get(kind, 0.0) for kind in kinds) / self.step_ms

    def above_share(self, kind: str) -> float:
        """Share of the step that a kind of part takes above its floor."""
        return self.share(kind) - self.floor_share(kind)

    def bandwidth_share(self, kind: str) -> float | None:
        """The share of the bandwidth that a kind of part reaches; None where it takes no time."""
        time_ms = self.time_ms.get(kind, 0.0)
        return self.floor_ms.get(kind, 0.0) / time_ms if time_ms > 0 else None


@dataclass(frozen=True)
class PartEffect:
    """What a lever's setting does to one kind of part: the expected log factor, and by name what is open of
    it, as standard deviations. What has one name is one unknown."""

    mean_log: float
    open: Mapping[str, float] = field(default_factory=dict)


NOT_TIMED: Mapping[str, TimedEffect] = {}

NOT_TOLD: Mapping[str, Json] = {}

APART = Resemblance()
"""No value of a knob tells of another."""


def by_part(
    parts: KernelParts,
    lever: str,
    knobs: Mapping[str, KnobValue | None],
    *,
    packs_head: bool = False,
    timed: Mapping[str, TimedEffect] = NOT_TIMED,
    resemblance: Resemblance = APART,
) -> Mapping[str, PartEffect] | None:
    """What a serving lever's setting does to each kind of part, where the output head is packed or not, and
    kernels were `timed` alone, by kind, and values of one knob are open alike by their `resemblance`; None
    for one that is of the whole step, or that this page does not know."""
    if lever == "kernel":
        multiplied = (PRODUCTS, HEAD, BESIDE) if packs_head else (PRODUCTS, BESIDE)
        found = {}
        for part in multiplied:
            known = timed.get(part)
            sd_log = KERNEL_SD_LOG if known is None else known.sd_log
            own = resemblance.of_all(knobs, sd_log / math.sqrt(2))  # the difference of two has it all
            found[part] = (
                PartEffect(0.0, _of(part, own))
                if known is None
                else PartEffect(known.mean_log, {**_of(f"timed {part}", own), **_of(part, known.open)})
            )
        return {**found, REST: _rest(knobs, resemblance)}
    if lever == "experts_kernel" and EXPERTS in parts.time_ms:
        own = resemblance.of_all(knobs, KERNEL_SD_LOG / math.sqrt(2))  # the difference of two has it all
        moved = {part: PartEffect(0.0, _of(part, own)) for part in (EXPERTS, BESIDE)}
        return {**moved, REST: _rest(knobs, resemblance)}
    if lever == "scheduling":
        return {part: PartEffect(0.0, {f"{lever} of {part}": SHARE_SD}) for part in (OUTSIDE, BESIDE)}
    if lever == "gdn_state":
        return _narrower(parts, STATE, lever, knobs.get("serving.gdn_state_dtype"))
    if lever == "kv_cache":
        return _narrower(parts, ATTENTION, lever, knobs.get("serving.kv_cache_dtype"))
    if lever == "weight_dtype":
        if knobs.get("serving.weight_dtype") is None:
            return {}  # packed weights have a type of their own: what that does is another lever's
        value = knobs.get("serving.weight_dtype")
        return {
            **{
                part: PartEffect(_narrowed(parts, part, value), {f"{lever} of {part}": KERNEL_SD_LOG})
                for part in parts.multiplied
            },
            REST: PartEffect(0.0, {f"{lever} of {REST}": KERNEL_SD_LOG}),
            BESIDE: PartEffect(0.0, {f"{lever} of {BESIDE}": BESIDE_SD_LOG}),
        }
    return None


def packed(
    parts: KernelParts,
    knobs: Mapping[str, KnobValue | None],
    shares: Mapping[str, float],
    timed: Mapping[str, TimedEffect] = NOT_TIMED,
    resemblance: Resemblance = APART,
    experts_layers: int = 0,
) -> Mapping[str, PartEffect]:
    """What packing does to each kind of part: the layers' products and experts each into a share of their
    bytes, and the output head into one of its own (none: it stays); of a kind that was `timed` alone, what
    that says. `experts_layers`: how many layers have experts (0: not known)."""
    lever = "quantization"
    stored = {knob: value for knob, value in knobs.items() if knob in FORMAT_KNOBS}
    own = resemblance.of_all(stored, FORMAT_SD_LOG)
    found = {
        PRODUCTS: PartEffect(
            _shrunk(parts, PRODUCTS, shares[PRODUCTS] / PACKED_BANDWIDTH_SHARE),
            {f"{lever} of {PRODUCTS}": PACKED_SD_LOG, **_of(PRODUCTS, own)},
        ),
        REST: PartEffect(0.0, {f"{lever} of {REST}": REST_SD_LOG}),
        BESIDE: PartEffect(0.0, {f"{lever} of {BESIDE}": BESIDE_SD_LOG}),
    }
    if EXPERTS in parts.time_ms:
        stored = {knob: value for knob, value in knobs.items() if knob in EXPERTS_FORMAT_KNOBS}
        own = resemblance.of_all(stored, EXPERTS_FORMAT_SD_LOG)
        found[EXPERTS] = PartEffect(
            _packed_experts_log(parts, shares[EXPERTS], experts_layers),
            {f"{lever} of {EXPERTS}": EXPERTS_SD_LOG, **_of(EXPERTS, own)},
        )
    if HEAD in shares:
        mean = _shrunk(parts, HEAD, shares[HEAD] / PACKED_BANDWIDTH_SHARE)
        found[HEAD] = PartEffect(mean, {f"{lever} of {HEAD}": PACKED_SD_LOG})
    for part, known in timed.items():
        if part in found:
            shared = {f"{lever} of timed {part}": known.sd_log}
            found[part] = PartEffect(known.mean_log, {**shared, **_of(part, known.open)})
    return found


def of_whole(
    parts: KernelParts,
    lever: str,
    knobs: Mapping[str, KnobValue | None],
    baseline: Mapping[str, KnobValue],
    runs: Mapping[str, Json] = NOT_TOLD,
    layers: int = 0,
) -> tuple[float, float] | None:
    """Mean and standard deviation of the log of TPOT that a lever's setting brings, where the best so far was
    told to run so (its resolved configuration) and the model has `layers` (0: not known); None for a lever
    that is not of the whole step, or that this page does not know."""
    if lever in SAME_STEP:
        return 0.0, SAME_STEP_SD_LOG
    if lever == "dtype":
        kinds = (knobs.get("serving.dtype"), baseline.get("serving.dtype"))
        return (0.0, SAME_STEP_SD_LOG) if all(kind in SIXTEEN_BITS for kind in kinds) else None
    if lever == "graphs":
        mode = str(knobs.get(GRAPH_MODE))
        return of_graph_mode(
            mode,
            ran(GRAPH_MODE, baseline, runs),
            step_ms=parts.step_ms,
            outside=parts.share(OUTSIDE),
            launches=parts.launches,
            layers=layers,
        )
    if lever == "scheduling" and knobs.get(AHEAD) == OFF and ran(AHEAD, baseline, runs) == ON:
        mean = math.log1p(NOT_AHEAD_MS / parts.step_ms)
        return mean, SHARE_SD * mean
    return None


def ran(knob: str, configuration: Mapping[str, KnobValue], runs: Mapping[str, Json]) -> str:
    """What a knob of serving was: as configured, or, left to the engine, what that told of it."""
    told, chosen = str(configuration.get(knob)), runs.get(knob.removeprefix("serving."))
    return str(chosen) if told == "auto" and chosen else told


def _rest(knobs: Mapping[str, KnobValue | None], resemblance: Resemblance) -> PartEffect:
    """What another kernel does to the rest of a step: the difference of two has all that is open of it."""
    return PartEffect(0.0, _of(REST, resemblance.of_all(knobs, REST_SD_LOG / math.sqrt(2))))


def _narrower(parts: KernelParts, kind: str, lever: str, value: KnobValue | None) -> Mapping[str, PartEffect]:
    return {
        kind: PartEffect(_narrowed(parts, kind, value), {f"{lever} of {kind}": SHARE_SD}),
        BESIDE: PartEffect(0.0, {f"{lever} of {BESIDE}": STATE_BESIDE_SD_LOG}),
    }


def _narrowed(parts: KernelParts, kind: str, value: KnobValue | None) -> float:
    return _shrunk(parts, kind, NARROWER.get(str(value), 1.0))


def _shrunk(parts: KernelParts, kind: str, factor: float) -> float:
    """Log of a part's time after its bytes took `factor` of their time, over before."""
    at_floor = parts.floor_ms.get(kind, 0.0) / parts.time_ms[kind] if parts.time_ms.get(kind) else 0.0
    return math.log(1 - at_floor * (1 - factor))


def _packed_experts_log(parts: KernelParts, share: float, layers: int) -> float:
    """Log of the time of experts packed into that share of their bytes, over before."""
    taken_ms = parts.time_ms[EXPERTS]
    if not layers or not taken_ms:
        return _shrunk(parts, EXPERTS, share / PACKED_BANDWIDTH_SHARE)
    kept = math.exp(_shrunk(parts, EXPERTS, share / PACKED_EXPERTS_BANDWIDTH_SHARE))
    return math.log(kept + layers * PACKED_EXPERTS_MS / taken_ms)


def _of(part: str, features: Mapping[str, float]) -> dict[str, float]:
    return {f"{name} of {part}": value for name, value in features.items()}
