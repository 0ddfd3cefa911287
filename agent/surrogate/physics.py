"""The prior of what a change does to a latency, from physics and the baseline's profile by part. Pure.

A decode step at batch 1 cannot be faster than its weight bytes over the memory bandwidth (the *floor*); what
is measured above it is *overhead*: dispatch, small kernels, Python. From this follow expectations, each as a
normal on the log scale of candidate over baseline with a standard deviation that says how far to trust it:

- pruning removes the measured time of the layers that go;
- compilation removes a share of the overhead, and how large a share is nearly unknown;
- the number format scales the floor, and leaves or worsens the overhead;
- quantization saves bytes, and time only where the engine computes with packed weights; one that dequantizes
  them as it loads computes as before;
- drafting divides the time of a token by the acceptance length and multiplies it by what a drafting step
  costs (`drafting.py`); what is accepted is learnt (`acceptance.py`), and drops when the target changes;
- threads: what the sweep before trial 0 measured; nearly nothing is known otherwise;
- kernels for packed weights reach very different shares of the bandwidth, each value of the knob its own;
- how many tokens a step reads at most moves the prompts of others between a request's tokens: counted by the
  server's loop of steps (`step_tokens.py`);
- where a profile tells of kernels, serving levers act on one part each (`kernel_parts.py`), and where the
  engine's kernels were timed alone, packed weights and kernels by as much as that says (`timed_kernels.py`).

All of these are of TPOT; of the time to the first token, and of requests to their end, `objective.py` says
what follows from them. Effects of several levers add on the log scale. A lever that this page does not know
is expected to do nothing, with a wide spread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from agent.surrogate.acceptance import AcceptanceBelief
from agent.surrogate.drafting import DraftingCost
from agent.surrogate.expectation import LEAST_SD_LOG, UNKNOWN_SD_LOG, Expectation
from agent.surrogate.kernel_parts import BESIDE, KernelParts, PartEffect, by_part, of_whole, packed
from agent.surrogate.levers import Setting, Target
from agent.surrogate.lone_prompt import FirstTokenShares
from agent.surrogate.objective import (
    FIRST,
    KERNEL,
    OF_BOTH,
    OF_PROMPTS,
    of_first_token,
    of_prompts,
    with_first_token,
)
from agent.surrogate.ordered import Resemblance
from agent.surrogate.prompt_launches import LEAST_SD_LOG as CAPTURED_SD_LOG
from agent.surrogate.prompt_launches import PromptLaunches
from agent.surrogate.step_tokens import LEAST_SD_LOG as COUNTED_SD_LOG
from agent.surrogate.step_tokens import SD_SHARE as COUNTED_SD_SHARE
from agent.surrogate.step_tokens import StepTokens
from agent.surrogate.timed_kernels import TimedEffect, TimedKernels
from agent.surrogate.timed_products import AUTO
from agent.surrogate.weight_bytes import head_is_packed, packed_shares, read_by_drafts, step_weight_bytes
from agent.surrogate.whole_step import of_compiling, of_drafting, of_dtype, of_pruning
from configs.models import ModelProfile
from experiments.engines.kernel_timings import HEAD, PRODUCTS
from experiments.engines.kernel_timings import KERNEL as KERNEL_KNOB
from experiments.engines.port import PartTime
from experiments.engines.stored_bytes import step_rows
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.prompt_graph_rules import GRAPH_TOKENS
from experiments.space.workload_rules import BATCH_TOKENS

FLOOR_SHARE_UNKNOWN = 0.3
"""Share of the step that bytes explain, at most, when the bandwidth is not known."""

LEAST_BYTES_SHARE = 1e-3
"""Share of the step's weight bytes from which on a part tells how fast the memory is, and not how fine the
clock."""

THREADS_SD_LOG = 0.25
"""Another number of threads, never measured: a factor of 1.3 either way."""

UNPACKED_SD_LOG = 0.02
"""Quantized weights that are dequantized while loading are computed with as before: nothing but noise."""

PACKED_SD_LOG = 0.15
"""What computing with packed weights takes beside their bytes, whatever the kernel."""

PACKED_KERNEL_SD_LOG = 0.2
"""And what one kernel for packed weights has over another: three of them reached 32 to 49 % of the bandwidth
of an H200 with the same weights. Which is which is not known before it is measured, each by itself."""

QUANTIZED_BYTES_SHARE = 0.35
"""Bytes of a step with quantized weights over those before, where the model's shape is not known."""

SWEEP_SD_LOG = 0.05
"""What a ratio of two launches of the sweep is trusted with: one launch each, a few blocks."""

MOST_DRAFTS = 16
"""Drafts up to which it is counted what verifying them reads of experts; more are taken to read as much."""

OF_STEP = ("graphs", "scheduling")
"""Levers of which what is known is of the profiled step."""

MS_PER_S = 1e3

_UNTOLD = AcceptanceBelief.prior()
"""What is believed of drafts before any trial: one value, so that what is the same physics is equal. Beliefs
that were learnt apart hold arrays and can't be compared: a campaign's physics is, before it learns."""

_LAYER = re.compile(r"layers\.(\d+)(?:\.|$)")


@dataclass(frozen=True)
class Physics:
    """What the prior is derived from.

    `tpot_ms` is the baseline's, `profile` its time and weight bytes by part (times are used as shares of the
    step, since profiling slows it), `model_layers` the kind of each layer, `bandwidth_bytes_per_s` what the
    memory gives (None if unknown) and `swept_log` the log of the objective over the baseline's, as the sweep
    before trial 0 measured it. `first_token_share` is the share of the objective that is the time to the
    first token (`objective.py`), `first_token` what that of a lone request is made of (None: it was not
    profiled), `prompt_launches` what it waits for, where graphs of its step can be counted. `serves_packed`
    tells whether the engine computes with packed quantized weights, `shape` what the model is made of (None
    if unknown), `acceptance` what is believed of drafts, `incumbent_profile` the parts of the best so far,
    where it was profiled itself: what serving levers act on now; `incumbent_runs` is its resolved
    configuration, as far as it was told. `timed`: the engine's kernels for packed weights, timed alone (None:
    they were not). `resemblance`: which values are open alike. `step_tokens`: the loop of steps of the
    campaign's requests (None: tokens of a step make no difference that could be counted). `one_at_once`: a
    request waits for no other's prompt. `requests` are under way at once.
    """

    baseline: Configuration
    tpot_ms: float
    profile: Sequence[PartTime] = ()
    model_layers: Sequence[str] = ()
    bandwidth_bytes_per_s: float | None = None
    swept_log: Mapping[Configuration, float] = field(default_factory=dict)
    serves_packed: bool = False
    incumbent_profile: Sequence[PartTime] = ()
    incumbent_runs: Mapping[str, Json] = field(default_factory=dict)
    shape: ModelProfile | None = None
    timed: TimedKernels | None = None
    acceptance: AcceptanceBelief = _UNTOLD
    resemblance: Resemblance = field(default_factory=Resemblance)
    step_tokens: StepTokens | None = None
    first_token_share: float = 0.0
    prompt_launches: PromptLaunches | None = None
    first_token: FirstTokenShares | None = None
    one_at_once: bool = False
    requests: int = 1

    @cached_property
    def drafting_cost(self) -> DraftingCost:
        """What drafting adds to a step, from the profile, and from the shape of a Mixture of Experts."""
        found = DraftingCost.of(self.profile, self.model_layers)
        if self.shape is None:
            return found
        more = read_by_drafts(self.shape, self.baseline, self.requests, MOST_DRAFTS)
        return replace(found, read=tuple(self.floor_ms / self.tpot_ms * each for each in more))

    @cached_property
    def kernels(self) -> KernelParts | None:
        """The kernels of the step that is being improved; None where no profile tells of kernels."""
        return KernelParts.of(self.incumbent_profile or self.profile, self.bandwidth_bytes_per_s)

    @cached_property
    def own(self) -> KernelParts | None:
        """The kernels of the baseline's own step; None where no profile tells of kernels."""
        return KernelParts.of(self.profile, self.bandwidth_bytes_per_s)

    @cached_property
    def parts(self) -> Mapping[str, float]:
        """Shares of the baseline's objective by kind of part, with what lies beside the profiled step, and of
        the first token; empty where no profile tells of kernels. A profile that took longer than the token is
        scaled to it."""
        own = self.own
        if own is None:
            return {}
        whole = max(self.tpot_ms, own.step_ms)
        after = 1 - self.first_token_share
        shares = {kind: after * time_ms / whole for kind, time_ms in own.time_ms.items()}
        found = {**shares, BESIDE: after * max(0.0, 1 - own.step_ms / whole)}
        return {**found, FIRST: self.first_token_share} if self.first_token_share else found

    @property
    def prompts_share(self) -> float:
        """Share of the baseline's objective in which prompts are read, as far as it is known: of a lone
        request none is, beside its first token."""
        beside = 0.0 if self.one_at_once else self.parts.get(BESIDE, 0.0)
        return beside + self.first_token_share

    @property
    def weight_bytes(self) -> int:
        """Weight bytes that a step reads."""
        return sum(part.weight_bytes for part in self.profile)

    @cached_property
    def floor_ms(self) -> float:
        """Least time of a step: its bytes over the bandwidth. Where that is unknown an assumed share, or
        less: the memory gives at least what the part of the profile that reads fastest gets."""
        if self.bandwidth_bytes_per_s is not None and self.weight_bytes:
            return min(self.tpot_ms, MS_PER_S * self.weight_bytes / self.bandwidth_bytes_per_s)
        large = [
            part
            for part in self.profile
            if part.time_ms > 0 and part.weight_bytes >= LEAST_BYTES_SHARE * self.weight_bytes > 0
        ]
        reached = max((part.weight_bytes / part.time_ms for part in large), default=0.0)
        most_ms = self.weight_bytes / reached if reached else math.inf
        return min(FLOOR_SHARE_UNKNOWN * self.tpot_ms, most_ms)

    @property
    def overhead_ms(self) -> float:
        """Measured time above the floor."""
        return self.tpot_ms - self.floor_ms

    def layer_shares(self) -> dict[int, float]:
        """Share of the step that each layer takes; an even split of all but nothing without a profile."""
        total = math.fsum(part.time_ms for part in self.profile)
        shares: dict[int, float] = {}
        for part in self.profile:
            layer = _LAYER.match(part.part)
            if layer and total > 0:
                number = int(layer[1])
                shares[number] = shares.get(number, 0.0) + part.time_ms / total
        if not shares and self.model_layers:
            return {number: 1 / (len(self.model_layers) + 1) for number in range(len(self.model_layers))}
        return shares

    def expect(self, lever: str, setting: Setting, target: Target = ()) -> Expectation:
        """What a lever's setting does to the baseline's objective, on a target whose weights were changed
        so."""
        key = (lever, setting, target)
        if key not in self._known:
            told = self._counted(setting) or self._captured(setting)
            if told is None:
                told = self._of_objective(lever, setting, self._expect(lever, setting, target))
            self._known[key] = self._with_sweep(setting, told)
        return self._known[key]

    def _of_objective(self, lever: str, setting: Setting, expected: Expectation) -> Expectation:
        """The same of the objective, of what is expected of TPOT."""
        if lever in OF_PROMPTS:
            mean, open_ = of_prompts(lever, self.first_token)
            waits = math.log1p(self.prompts_share * math.expm1(mean))
            return replace(
                expected,
                mean_log=expected.mean_log + waits,
                sd_log=math.hypot(expected.sd_log, open_ * self.prompts_share),
            )
        share = self.first_token_share
        if not share or lever in OF_BOTH:
            return expected
        first = of_first_token(lever, self.serves_packed, self.first_token)
        if all(value is None for _, value in setting):
            first = (0.0, 0.0)  # what falls away with another lever's change is that one's
        if expected.parts:
            there = PartEffect(first[0], {f"{lever} of {FIRST}": first[1]})
            return self._of_parts({**expected.parts, FIRST: there})
        mean, spread, weight = with_first_token((expected.mean_log, expected.sd_log), first, share)
        return Expectation(mean, spread, {name: weight * each for name, each in expected.joint.items()})

    @cached_property
    def _known(self) -> dict[tuple[str, Setting, Target], Expectation]:
        """What was expected before: many configurations share a lever's setting."""
        return {}

    @cached_property
    def open_of_whole(self) -> dict[tuple[str, Setting, Target], dict[str, float]]:
        """What is open of a lever's setting that acts on the whole step, as `composed.py` derived it."""
        return {}

    def _expect(self, lever: str, setting: Setting, target: Target) -> Expectation:
        knobs = dict(setting)
        if lever == "pruning":
            return of_pruning(knobs, self.layer_shares(), self.model_layers)
        if lever == "compile":
            return of_compiling(knobs, self.overhead_ms / self.tpot_ms)
        if lever == "quantization":
            return self._quantization(knobs)
        if lever == "drafting":
            return of_drafting(knobs, target, self.baseline, self.acceptance, self.drafting_cost)
        if lever == "threads":
            return Expectation(0.0, THREADS_SD_LOG)
        known = (
            None
            if self.kernels is None
            else of_whole(
                self.kernels,
                lever,
                knobs,
                self.baseline,
                self.incumbent_runs,
                layers=len(self.model_layers),
            )
        )
        if known is not None:
            return Expectation(*(self._of_token(known) if lever in OF_STEP else known))
        if lever == "dtype":
            return of_dtype(knobs, self.baseline, self.floor_ms / self.tpot_ms)
        weights = {knob: value for _, changed in target for knob, value in changed if value is not None}
        packs_head = head_is_packed(self.shape, {**self.baseline, **weights})
        timed = self._timed_kernel(knobs, weights) if lever == KERNEL else {}
        parts = (
            None
            if self.own is None
            else by_part(
                self.own, lever, knobs, packs_head=packs_head, timed=timed, resemblance=self.resemblance
            )
        )
        if parts is not None:
            return self._of_parts(parts)
        if lever == KERNEL and self.serves_packed:
            own = PACKED_KERNEL_SD_LOG / math.sqrt(2)  # the difference of two has the whole
            return Expectation(0.0, LEAST_SD_LOG, self.resemblance.of_all(knobs, own))
        return Expectation(0.0, UNKNOWN_SD_LOG)

    def _of_token(self, of_step: tuple[float, float]) -> tuple[float, float]:
        """Mean and standard deviation of what a lever does to a token, by what it does to the profiled step:
        what lies beside that stays."""
        share = 1.0 if self.own is None else min(1.0, self.own.step_ms / self.tpot_ms)
        mean, sd = of_step
        after = share * math.exp(mean)
        return math.log1p(share * math.expm1(mean)), sd * after / (1 - share + after)

    def _with_sweep(self, setting: Setting, told: Expectation) -> Expectation:
        """An expectation with what the sweep measured of the setting, each by how far it is to be trusted;
        one that the sweep contradicts is trusted as much less, and what is of parts, or open with others,
        gives way to it."""
        if not all(knob in self._swept_knobs and value is not None for knob, value in setting):
            return told
        knobs: dict[str, KnobValue] = {**self.baseline, **{k: v for k, v in setting if v is not None}}
        found = self.swept_log.get(Configuration.of(knobs))
        if found is None:
            return told
        if told.parts or told.joint:
            return Expectation(found, SWEEP_SD_LOG)
        apart = abs(found - told.mean_log) / math.hypot(SWEEP_SD_LOG, told.sd_log)
        swept, before = 1 / SWEEP_SD_LOG**2, 1 / (told.sd_log * max(1.0, apart)) ** 2
        return Expectation(
            (swept * found + before * told.mean_log) / (swept + before), 1 / math.sqrt(swept + before)
        )

    @cached_property
    def _swept_knobs(self) -> frozenset[str]:
        """Knobs in which what the sweep measured differs from the baseline."""
        return frozenset(change.knob for each in self.swept_log for change in self.baseline.changes_to(each))

    def _quantization(self, knobs: Mapping[str, KnobValue | None]) -> Expectation:
        if not self.serves_packed:
            return Expectation(0.0, UNPACKED_SD_LOG)
        changed = {**self.baseline, **{k: v for k, v in knobs.items() if v is not None}}
        shares = packed_shares(self.shape, changed)
        if self.own is not None and shares is not None:
            timed = self._timed(self.baseline, changed)
            removed = self.baseline.get("pruning.layers_removed")
            layers = 0 if self.shape is None else self.shape.layers - (int(removed) if removed else 0)
            return self._of_parts(packed(self.own, knobs, shares, timed, self.resemblance, layers))
        ratio = QUANTIZED_BYTES_SHARE
        if self.shape is not None:
            rows = step_rows(self.baseline, self.requests)
            before, after = (step_weight_bytes(self.shape, each, rows) for each in (self.baseline, changed))
            ratio = after.mean / before.mean
        floor = self.floor_ms / self.tpot_ms
        return Expectation(math.log(1 - floor + floor * ratio), PACKED_SD_LOG)

    def _timed_kernel(
        self, knobs: Mapping[str, KnobValue | None], weights: Mapping[str, KnobValue]
    ) -> dict[str, TimedEffect]:
        """What another kernel does to the products of weights that were changed so, by kind."""
        kernel = knobs.get(KERNEL_KNOB)
        before = {KERNEL_KNOB: AUTO, **self.baseline, **weights}
        return {} if kernel is None else self._timed(before, {**before, KERNEL_KNOB: kernel})

    def _timed(
        self, before: Mapping[str, KnobValue], after: Mapping[str, KnobValue]
    ) -> dict[str, TimedEffect]:
        """What kernels timed alone say of a change, by kind; what of both kinds they don't is left out."""
        if self.timed is None:
            return {}
        found = {kind: self.timed.effect(before, after, kind) for kind in (PRODUCTS, HEAD)}
        return {kind: each for kind, each in found.items() if each is not None}

    def _of_parts(self, parts: Mapping[str, PartEffect]) -> Expectation:
        """The expectation of a lever that acts on parts of the baseline's step."""
        shares = self.parts
        shared = {part: shares.get(part, 0.0) * math.exp(each.mean_log) for part, each in parts.items()}
        total = math.fsum(share for part, share in shares.items() if part not in parts)
        total += math.fsum(shared.values())
        spread = math.sqrt(
            math.fsum(
                (shared[part] / total) ** 2 * math.fsum(sd**2 for sd in each.open.values())
                for part, each in parts.items()
            )
        )
        return Expectation(math.log(total), spread, parts=parts)

    def _counted(self, setting: Setting) -> Expectation | None:
        """What is counted of tokens of a step. How far that is off is one unknown, which moves more and fewer
        tokens apart."""
        steps, tokens = self.step_tokens, dict(setting).get(BATCH_TOKENS)
        if steps is None or tokens is None:
            return None
        mean = steps.effect_log(steps.before, tokens)
        return Expectation(mean, COUNTED_SD_LOG, {"time of prompts": COUNTED_SD_SHARE * mean})

    def _captured(self, setting: Setting) -> Expectation | None:
        """What graphs of a lone prompt's step are expected to do: to the first token, and to a step nothing.
        How far that is off is one unknown for all sizes that hold the prompt."""
        launches, tokens = self.prompt_launches, dict(setting).get(GRAPH_TOKENS)
        if launches is None or tokens is None:
            return None
        of_step = (0.0, CAPTURED_SD_LOG)
        mean, spread, _ = with_first_token(of_step, launches.effect(tokens), self.first_token_share)
        if not launches.holds(tokens):
            return Expectation(mean, spread)
        return Expectation(mean, CAPTURED_SD_LOG, {"launches of a prompt": spread})
