"""The profile of a decode step, and of a lone prompt up to its first token, as they are shown: the time of
each part, its floor by physics, and what lies above.

A part's floor is the bytes that it has to move (weights, keys and values, states) over the bandwidth that was
measured on the device, or the operations of its products over their measured rate, whichever takes longer;
what it takes above is its overhead. A part that moves and multiplies nothing is overhead whole. Of a lone
prompt a part may do work that nothing counts: it has no floor, and is told as not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from db.models.base import JsonObject
from experiments.engines.served_step import OUTSIDE as OUTSIDE_KERNELS
from experiments.measurement.evidence import Stage
from knowledge.queries.measured.stages import StageView
from knowledge.queries.view import View
from knowledge.stored import number

MS_PER_S = 1e3
GB, TERA = 1e9, 1e12

SHOWN_DIGITS = 12
"""Hexadecimal digits of a digest."""

PRODUCTS = "gemm"
"""The kind of the layers' matrix products, which are told apart by linear layer."""

OUTSIDE = (OUTSIDE_KERNELS, "rest")
"""Kinds of what lies outside all parts."""

EXPERTS = "experts"
"""The kind of a Mixture of Experts' experts, with what routes tokens to them."""

COUNTED = (PRODUCTS, EXPERTS, "in_proj_ba", "lm_head", "draft", *OUTSIDE)
"""Kinds of parts of a prompt's steps of which weights are what they move and multiply, or which have no work
at all. Of others the work is of the prompt's tokens, and counted where a profile tells their operations and
their rate."""

SCALED_FROM = 1.0005
"""How many times the untouched time kernels take where it is said that they are scaled down to it."""

NO_BANDWIDTH = "the memory's bandwidth was not measured, so there is no floor"
NO_RATES = "neither bandwidth nor rate of the device was measured, so there is no floor"

UNCOUNTED = (
    "Of the parts that are not counted no floor is known; their time counts as above that of the whole"
)

PART_WORDS = {
    "gdn": "GatedDeltaNet layers",
    "attention": "attention",
    "mlp": "MLP",
    "norm": "norms",
    "rotary": "rotary embedding",
    "rest": "outside the parts: Python, dispatch",
    "compiled": "the compiled step",
    PRODUCTS: "matrix products of the layers",
    EXPERTS: "experts, and what routes tokens to them",
    "shared_expert": "shared expert and router",
    "in_proj_ba": "in_proj a and b",
    "gdn_state": "GatedDeltaNet state",
    "conv1d": "convolution",
    "small": "norms, gates, activations, copies",
    "other": "kernels of unknown names",
    "outside": "outside kernels: launches, scheduling",
    "draft": "drafting",
}
"""What a kind of part is called; others go by their name."""


class PartRow(View):
    """A part of the step: milliseconds, share of the step, kernels, bytes, operations, and its floor; None
    where neither the bandwidth nor the rate is known, and where its work is not `counted`."""

    part: str
    words: str
    time_ms: float
    share: float
    launches: float
    moved_bytes: int
    operations: float = 0.0
    floor_ms: float | None
    above_ms: float | None
    counted: bool = True

    @property
    def floor_share(self) -> float | None:
        """Its floor over its time, of a decode step the share of the bandwidth that it reached; None where
        it moves and multiplies nothing that is known."""
        if not self.floor_ms or self.time_ms <= 0:
            return None
        return self.floor_ms / self.time_ms


class UnknownKernel(View):
    """A kernel of which no part is known: calls and microseconds a step."""

    name: str
    launches: float
    us: float


class StepProfileView(View):
    """A profiled step by part, the longest first and what lies outside last; of a lone prompt, of
    `prompt_tokens`, all that it was read by.

    `artifact` is the digest under which the kernels by name are kept, None where they are not, and
    `kernels_ms` what these took together as they were recorded (None: not told). `served` says beside a
    decode step what a token took where it was served, in a sentence; None where that is not known.
    """

    step_ms: float
    kernels_ms: float | None = None
    floor_ms: float | None
    bandwidth_bytes_per_s: float | None
    bandwidth_method: str | None
    method: str | None
    operations_per_s: float | None = None
    operations_method: str | None = None
    concurrency: int
    context_tokens: int | None
    prompt_tokens: int | None = None
    launches: float
    artifact: str | None
    parts: tuple[PartRow, ...]
    unknown_kernels: tuple[UnknownKernel, ...]
    served: str | None = None

    @property
    def floor_share(self) -> float | None:
        """Its floor over its time; None where there is none."""
        return self.floor_ms / self.step_ms if self.floor_ms and self.step_ms else None

    @property
    def outside_ms(self) -> float:
        """The time of it that lies outside all parts, in which no kernel runs."""
        return fsum(row.time_ms for row in self.parts if row.part in OUTSIDE)

    @property
    def outside_kernels_ms(self) -> float:
        """The time of a GPU's step in which no kernel runs; 0 of one that is not made of kernels."""
        return fsum(row.time_ms for row in self.parts if row.part == OUTSIDE_KERNELS)

    @property
    def above_ms(self) -> float | None:
        """What the step takes above its floor."""
        return None if self.floor_ms is None else max(0.0, self.step_ms - self.floor_ms)

    @property
    def all_counted(self) -> bool:
        """Whether the work of every part is counted."""
        return all(row.counted for row in self.parts)

    @property
    def uncounted(self) -> str | None:
        """What parts that are not counted are to the whole, in words; None where all are."""
        return None if self.all_counted else UNCOUNTED

    @property
    def is_prompt(self) -> bool:
        """Whether it is of a lone prompt and not of a decode step."""
        return self.prompt_tokens is not None

    @property
    def whole(self) -> str:
        """What all parts together are called."""
        return "to the first token" if self.is_prompt else "the step"

    @property
    def share_of_floor(self) -> str:
        """What the floor over the time is called."""
        return "floor of time" if self.is_prompt else "of the bandwidth"

    @property
    def scaled_from_ms(self) -> float | None:
        """What kernels took as they were recorded, where that is more than the whole took untouched, so that
        the parts are scaled down to it; None where they are not, and where it was not told."""
        more = self.kernels_ms is not None and self.kernels_ms > SCALED_FROM * self.step_ms
        return self.kernels_ms if more else None

    @property
    def basis(self) -> str:
        """What the figures rest on, in a line."""
        told = [self.method] if self.method else []
        if self.concurrency > 1:
            told.append(f"{self.concurrency} sequences at once")
        if self.context_tokens is not None:
            told.append(f"{self.context_tokens} tokens of context")
        if self.scaled_from_ms is not None:
            told.append(
                f"kernels took {self.scaled_from_ms:.2f} ms as they were recorded and are scaled down to the "
                f"{self.step_ms:.2f} of the untouched, so that what lay outside them is not known"
            )
        rates = []
        if self.bandwidth_bytes_per_s is not None:
            rates.append(f"{self.bandwidth_bytes_per_s / GB:,.0f} GB/s{_brackets(self.bandwidth_method)}")
        if self.operations_per_s is not None:
            rate = f"{self.operations_per_s / TERA:,.0f} TFLOP/s of products"
            rates.append(rate + _brackets(self.operations_method))
        if rates:
            told.append(f"the floor at {' and '.join(rates)}")
        else:
            told.append(NO_RATES if self.is_prompt else NO_BANDWIDTH)
        if self.artifact:
            what = "every kernel by name in" if self.launches else "kept as"
            told.append(f"{what} A-{self.artifact[:SHOWN_DIGITS]}")
        return "; ".join(told)


def step_profile(
    stages: Sequence[StageView], environments: Iterable[JsonObject] = ()
) -> StepProfileView | None:
    """The last profile that the stages of an experiment tell; None where there is none.

    Where the profile itself tells no bandwidth, the one of the `environments` of its launches is taken.
    """
    details = [
        each.detail
        for each in stages
        if each.stage == Stage.PROFILE.value and each.detail and each.detail.get("parts")
    ]
    if not details:
        return None
    return profile_view(details[-1], _machine_bandwidth(environments))


def prompt_profile(
    stages: Sequence[StageView], environments: Iterable[JsonObject] = ()
) -> StepProfileView | None:
    """The last profile of a lone prompt that the stages of an experiment tell; None where there is none. Its
    bandwidth is found as a step's is."""
    for each in reversed(stages):
        prompt = (each.detail or {}).get("prompt")
        if each.stage == Stage.PROFILE.value and isinstance(prompt, dict) and prompt.get("parts"):
            detail = each.detail or {}
            shared = {name: detail.get(name) for name in ("bandwidth_bytes_per_s", "bandwidth_method")}
            return profile_view(
                {**shared, "artifact": detail.get("artifact"), **prompt}, _machine_bandwidth(environments)
            )
    return None


def why_no_prompt_profile(stages: Sequence[StageView]) -> str | None:
    """Why the last stage that was to profile a lone prompt did not; None where it did, or none was to."""
    profiled = [each.detail or {} for each in stages if each.stage == Stage.PROFILE.value]
    told = [detail["prompt"] for detail in profiled if detail.get("prompt")]
    last = told[-1] if told else None
    return _text(last.get("failure")) if isinstance(last, dict) else None


def profile_view(detail: Mapping[str, object], machine_bandwidth: float | None = None) -> StepProfileView:
    """The view of a stage's detail that holds `parts`; pure."""
    bandwidth = bandwidth_of(detail) or machine_bandwidth
    groups: dict[str, list[Mapping[str, object]]] = {}
    told = detail["parts"]
    for part in told if isinstance(told, list) else []:
        name = part.get("part") if part.get("kind") == PRODUCTS else part.get("kind")
        groups.setdefault(str(name), []).append(part)
    step_ms = fsum(number(part.get("time_ms")) or 0.0 for parts in groups.values() for part in parts)
    rate = number(detail.get("operations_per_s"))
    prompt_tokens = _whole(detail.get("prompt_tokens"))
    rows = [
        _row(name, parts, step_ms, bandwidth, rate, of_prompt=prompt_tokens is not None)
        for name, parts in groups.items()
    ]
    rows.sort(key=lambda row: (row.part in OUTSIDE, -row.time_ms))
    unknown = detail.get("unknown_kernels")
    return StepProfileView(
        step_ms=step_ms,
        kernels_ms=number(detail.get("kernels_ms")),
        floor_ms=fsum(row.floor_ms or 0.0 for row in rows) or None,
        bandwidth_bytes_per_s=bandwidth,
        bandwidth_method=_text(detail.get("bandwidth_method")),
        method=_text(detail.get("method")),
        operations_per_s=rate,
        operations_method=_text(detail.get("operations_method")),
        concurrency=int(number(detail.get("concurrency")) or 1),
        context_tokens=_whole(detail.get("context_tokens")),
        prompt_tokens=prompt_tokens,
        launches=fsum(row.launches for row in rows),
        artifact=_text(detail.get("artifact")),
        parts=tuple(rows),
        unknown_kernels=tuple(
            UnknownKernel.model_validate(each) for each in (unknown if isinstance(unknown, list) else [])
        ),
    )


def bandwidth_of(detail: Mapping[str, object]) -> float | None:
    """The bandwidth that was measured beside a profile, bytes a second."""
    return number(detail.get("bandwidth_bytes_per_s"))


def moved_bytes(part: Mapping[str, object]) -> int:
    """Bytes that a stored part has to move."""
    return int((number(part.get("weight_bytes")) or 0) + (number(part.get("cache_bytes")) or 0))


def _row(
    name: str,
    parts: Sequence[Mapping[str, object]],
    step_ms: float,
    bandwidth: float | None,
    rate: float | None,
    *,
    of_prompt: bool,
) -> PartRow:
    time_ms = fsum(number(part.get("time_ms")) or 0.0 for part in parts)
    moved = sum(map(moved_bytes, parts))
    operations = fsum(number(part.get("operations")) or 0.0 for part in parts)
    by_weights = all(part.get("kind") in COUNTED for part in parts)
    counted = not of_prompt or by_weights or (operations > 0 and rate is not None)
    floors = [MS_PER_S * moved / bandwidth] if bandwidth else []
    floors += [MS_PER_S * operations / rate] if rate else []
    floor_ms = max(floors, default=None) if counted else None
    return PartRow(
        part=name,
        words=PART_WORDS.get(name, name),
        time_ms=time_ms,
        share=time_ms / step_ms if step_ms else 0.0,
        launches=fsum(number(part.get("launches")) or 0.0 for part in parts),
        moved_bytes=moved,
        operations=operations,
        floor_ms=floor_ms,
        above_ms=None if floor_ms is None else max(0.0, time_ms - floor_ms),
        counted=counted,
    )


def _machine_bandwidth(environments: Iterable[JsonObject]) -> float | None:
    for data in environments:
        machine = data.get("machine")
        if isinstance(machine, dict):
            found = number(machine.get("copy_bandwidth_bytes_per_s"))
            if found:
                return found
    return None


def _brackets(method: str | None) -> str:
    return f" ({method})" if method else ""


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
