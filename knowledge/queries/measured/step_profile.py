"""The profile of a decode step as it is shown: the time of each part, its floor by physics, and what lies
above.

A part's floor is the bytes that it has to move (weights, keys and values, states) over the bandwidth that was
measured on the device; what it takes above is its overhead. A part that moves nothing is overhead whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from db.models.base import JsonObject
from experiments.measurement.evidence import Stage
from knowledge.queries.measured.stages import StageView
from knowledge.queries.view import View
from knowledge.stored import number

MS_PER_S = 1e3
GB = 1e9

SHOWN_DIGITS = 12
"""Hexadecimal digits of a digest."""

PRODUCTS = "gemm"
"""The kind of the layers' matrix products, which are told apart by linear layer."""

OUTSIDE = ("outside", "rest")
"""Kinds of what lies outside all parts."""

PART_WORDS = {
    "gdn": "GatedDeltaNet layers",
    "attention": "attention",
    "mlp": "MLP",
    "norm": "norms",
    "rotary": "rotary embedding",
    "rest": "outside the parts: Python, dispatch",
    "compiled": "the compiled step",
    PRODUCTS: "matrix products of the layers",
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
    """A part of the step: milliseconds, share of the step, kernels, bytes, and its floor; None where the
    bandwidth is not known."""

    part: str
    words: str
    time_ms: float
    share: float
    launches: float
    moved_bytes: int
    floor_ms: float | None
    above_ms: float | None

    @property
    def bandwidth_share(self) -> float | None:
        """The share of the bandwidth that it reached; None where it moves nothing that is known."""
        if not self.floor_ms or self.time_ms <= 0:
            return None
        return self.floor_ms / self.time_ms


class UnknownKernel(View):
    """A kernel of which no part is known: calls and microseconds a step."""

    name: str
    launches: float
    us: float


class StepProfileView(View):
    """A profiled step by part, the longest first and what lies outside last.

    `artifact` is the digest under which the kernels by name are kept, None where they are not.
    """

    step_ms: float
    floor_ms: float | None
    bandwidth_bytes_per_s: float | None
    bandwidth_method: str | None
    method: str | None
    concurrency: int
    context_tokens: int | None
    launches: float
    artifact: str | None
    parts: tuple[PartRow, ...]
    unknown_kernels: tuple[UnknownKernel, ...]

    @property
    def above_ms(self) -> float | None:
        """What the step takes above its floor."""
        return None if self.floor_ms is None else max(0.0, self.step_ms - self.floor_ms)

    @property
    def basis(self) -> str:
        """What the figures rest on, in a line."""
        told = [self.method] if self.method else []
        if self.concurrency > 1:
            told.append(f"{self.concurrency} sequences at once")
        if self.context_tokens is not None:
            told.append(f"{self.context_tokens} tokens of context")
        if self.bandwidth_bytes_per_s is None:
            told.append("the memory's bandwidth was not measured, so there is no floor")
        else:
            method = f" ({self.bandwidth_method})" if self.bandwidth_method else ""
            told.append(f"the floor at {self.bandwidth_bytes_per_s / GB:,.0f} GB/s{method}")
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


def profile_view(detail: Mapping[str, object], machine_bandwidth: float | None = None) -> StepProfileView:
    """The view of a stage's detail that holds `parts`; pure."""
    bandwidth = bandwidth_of(detail) or machine_bandwidth
    groups: dict[str, list[Mapping[str, object]]] = {}
    told = detail["parts"]
    for part in told if isinstance(told, list) else []:
        name = part.get("part") if part.get("kind") == PRODUCTS else part.get("kind")
        groups.setdefault(str(name), []).append(part)
    step_ms = fsum(number(part.get("time_ms")) or 0.0 for parts in groups.values() for part in parts)
    rows = [_row(name, parts, step_ms, bandwidth) for name, parts in groups.items()]
    rows.sort(key=lambda row: (row.part in OUTSIDE, -row.time_ms))
    moved = sum(row.moved_bytes for row in rows)
    unknown = detail.get("unknown_kernels")
    return StepProfileView(
        step_ms=step_ms,
        floor_ms=MS_PER_S * moved / bandwidth if bandwidth and moved else None,
        bandwidth_bytes_per_s=bandwidth,
        bandwidth_method=_text(detail.get("bandwidth_method")),
        method=_text(detail.get("method")),
        concurrency=int(number(detail.get("concurrency")) or 1),
        context_tokens=_whole(detail.get("context_tokens")),
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
    name: str, parts: Sequence[Mapping[str, object]], step_ms: float, bandwidth: float | None
) -> PartRow:
    time_ms = fsum(number(part.get("time_ms")) or 0.0 for part in parts)
    moved = sum(map(moved_bytes, parts))
    floor_ms = MS_PER_S * moved / bandwidth if bandwidth else None
    return PartRow(
        part=name,
        words=PART_WORDS.get(name, name),
        time_ms=time_ms,
        share=time_ms / step_ms if step_ms else 0.0,
        launches=fsum(number(part.get("launches")) or 0.0 for part in parts),
        moved_bytes=moved,
        floor_ms=floor_ms,
        above_ms=None if floor_ms is None else max(0.0, time_ms - floor_ms),
    )


def _machine_bandwidth(environments: Iterable[JsonObject]) -> float | None:
    for data in environments:
        machine = data.get("machine")
        if isinstance(machine, dict):
            found = number(machine.get("copy_bandwidth_bytes_per_s"))
            if found:
                return found
    return None


def _whole(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
