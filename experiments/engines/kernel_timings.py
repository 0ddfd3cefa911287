"""How long the kernels of an engine take for a model's matrix products, each timed alone, and for whom.

Plain values: what is asked (`Product`), what came out of one part (`PartTiming`), of one kernel with weights
in one format (`KernelTiming`), and all of it (`KernelTimings`). A kernel's name is the engine's own; nothing
here knows which is which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum
from typing import Any

from configs.models import ModelProfile
from experiments.measurement.evidence import Json
from experiments.space.configuration import KnobValue

PRODUCTS, HEAD = "gemm", "lm_head"
"""Kinds of products: those of layers, and the output head; as in a profile's parts."""

KERNEL = "serving.linear_backend"
FORMAT = ("quantization.bits", "quantization.group_size", "quantization.symmetric")
"""The knobs that say how a packed weight is stored."""

TIMED_BY = (*FORMAT, KERNEL)
"""The knobs that a timing is told by."""


FAR_BEHIND = 2.0
"""How many times the fastest's a kernel's products may take with one format for it to be timed with others,
and to tell of others."""


def packed_words(knobs: Mapping[str, KnobValue]) -> str:
    """The format of weights, such as `4 bits, groups of 128, zero points`."""
    bits, group, symmetric = (knobs.get(knob) for knob in FORMAT)
    if bits is None:
        return "16 bits"
    return f"{bits} bits, groups of {group}{', zero points' if symmetric is False else ''}"


HEAD_MULTIPLE = 64
"""Rows to whose multiple the output head is padded (vLLM's `DEFAULT_VOCAB_PADDING_SIZE`)."""


@dataclass(frozen=True)
class Product:
    """A linear layer as the engine merges it: its part's name, a module of the checkpoint that it is of,
    sizes of a row of its input and output, and how often a decode step computes it."""

    part: str
    module: str
    inputs: int
    outputs: int
    count: int

    @property
    def kind(self) -> str:
        """Of the layers, or the head."""
        return HEAD if self.part == HEAD else PRODUCTS


@dataclass(frozen=True)
class PartTiming:
    """One product alone: median microseconds, the raw ones, `copies` of distinct weights of `weight_bytes`
    each that were read in turn, the class of the kernel that ran, and the seconds of its first call, which
    may have compiled it for this shape. `again_s`: seconds of the first call of another process after that,
    which may find what was compiled; None where none was asked.

    `us` is None where it was not timed: `refused` says that the engine has no such kernel for it, `untimed`
    why it could not be timed though nothing refused it. Of that, what is `left` is so for a limit of all that
    was reached before it came to anything: a later timing has a go at it.
    """

    part: str
    count: int
    us: float | None = None
    samples_us: tuple[float, ...] = ()
    copies: int = 0
    weight_bytes: int = 0
    kernel: str | None = None
    first_call_s: float = 0.0
    again_s: float | None = None
    refused: str | None = None
    untimed: str | None = None
    left: bool = False

    @property
    def kind(self) -> str:
        """Of the layers, or the head."""
        return HEAD if self.part == HEAD else PRODUCTS


@dataclass(frozen=True)
class KernelTiming:
    """One value of `serving.linear_backend` with weights of one format: `knobs` as in `TIMED_BY`, empty for
    the weights of 16 bits that all are held against."""

    knobs: Mapping[str, KnobValue]
    parts: tuple[PartTiming, ...]

    @property
    def kernel(self) -> str:
        """The classes that ran; empty where none did."""
        return ", ".join(sorted({each.kernel for each in self.parts if each.kernel}))

    @property
    def refused(self) -> str | None:
        """Why the engine can't multiply the layers' weights so; None where it can, or it is not known."""
        return self._first("refused", PRODUCTS)

    @property
    def head_refused(self) -> str | None:
        """The same of the output head."""
        return self._first("refused", HEAD)

    @property
    def untimed(self) -> str | None:
        """Why a product of the layers was not timed though nothing refused it."""
        return self._first("untimed", PRODUCTS)

    @property
    def head_untimed(self) -> str | None:
        """The same of the output head."""
        return self._first("untimed", HEAD)

    @property
    def products_us(self) -> float | None:
        """Microseconds of all products of the layers in a step; None where one was not timed."""
        return self._sum(PRODUCTS)

    @property
    def head_us(self) -> float | None:
        """Microseconds of the output head in a step; None where it was not timed."""
        return self._sum(HEAD)

    @property
    def first_calls_s(self) -> float | None:
        """Seconds of the first calls of all products that were timed, each shape once; None of none."""
        timed = [each.first_call_s for each in self.parts if each.us is not None]
        return fsum(timed) if timed else None

    @property
    def again_share(self) -> float:
        """What a first call takes in a process that is not the first, over what it took in that one, at most
        1: by the products of which both are known, 1 where none is."""
        both = [(each.first_call_s, each.again_s) for each in self.parts if each.again_s is not None]
        first_s = fsum(first for first, _ in both)
        return min(1.0, fsum(again for _, again in both) / first_s) if first_s else 1.0

    @property
    def later_calls_s(self) -> float | None:
        """Seconds of `first_calls_s` as a later process has them, by `again_share`; None where either is not
        known."""
        asked = any(each.again_s is not None for each in self.parts)
        first_s = self.first_calls_s
        return None if first_s is None or not asked else self.again_share * first_s

    def part_us(self, part: str) -> float | None:
        """Microseconds of one part in a step; None where it was not timed."""
        found = next((each for each in self.parts if each.part == part), None)
        return None if found is None or found.us is None else found.count * found.us

    def first_call_s(self, part: str) -> float:
        """Seconds of one part's first call; 0 where it was not timed."""
        return next((each.first_call_s for each in self.parts if each.part == part), 0.0)

    def part_kernel(self, part: str) -> str | None:
        """The class that ran for one part; None where none did."""
        return next((each.kernel for each in self.parts if each.part == part), None)

    def _sum(self, kind: str) -> float | None:
        of_kind = [each for each in self.parts if each.kind == kind]
        if not of_kind or any(each.us is None for each in of_kind):
            return None
        return fsum(each.count * each.us for each in of_kind if each.us is not None)

    def _first(self, field: str, kind: str) -> str | None:
        told = (getattr(each, field) for each in self.parts if each.kind == kind)
        return next((why for why in told if why is not None), None)


@dataclass(frozen=True)
class KernelTimings:
    """All that was timed with `rows` rows of input: `plain` with weights of 16 bits, `packed` in the order in
    which they were asked for. `method` says how, `record` what else was told: versions, device."""

    rows: int
    method: str
    plain: KernelTiming
    packed: tuple[KernelTiming, ...] = ()
    record: Mapping[str, Json] | None = None
    cut_off: str | None = None
    """Why not all of it was timed, in a sentence; None where everything was tried."""
    rounds: int = 1
    """How many timings it is the work of, each of which went on where the one before was cut off."""

    @property
    def settled(self) -> int:
        """Parts that came to something: a time, a refusal, a failure of their own."""
        return sum(not part.left for part in self._parts)

    @property
    def is_unfinished(self) -> bool:
        """Whether a later timing has something to go on with."""
        return any(part.left for part in self._parts)

    def given_up(self, why: str) -> KernelTimings:
        """The same with nothing left: what was is not tried again, for the reason given in a sentence."""

        def settled(timing: KernelTiming) -> KernelTiming:
            parts = (replace(each, untimed=why, left=False) if each.left else each for each in timing.parts)
            return replace(timing, parts=tuple(parts))

        return replace(self, plain=settled(self.plain), packed=tuple(map(settled, self.packed)), cut_off=why)

    @property
    def _parts(self) -> tuple[PartTiming, ...]:
        return tuple(part for timing in (self.plain, *self.packed) for part in timing.parts)

    def data(self) -> dict[str, Any]:
        """As JSON data, which `of_data` reads again."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> KernelTimings:
        """From JSON data. Raises `KeyError` or `TypeError` for anything else."""
        return cls(
            rows=data["rows"],
            method=data["method"],
            plain=_timing(data["plain"]),
            packed=tuple(map(_timing, data["packed"])),
            record=data.get("record"),
            cut_off=data.get("cut_off"),
            rounds=data.get("rounds", 1),
        )


def products_of(profile: ModelProfile) -> tuple[Product, ...]:
    """The linear layers of a model that a quantizer may pack, as vLLM merges them (`qkv_proj`,
    `gate_up_proj`, `in_proj_qkvz`); a head that is the embedding stays in 16 bits there and is none of them,
    and experts are none, which other kernels multiply.
    """
    hidden, inner = profile.hidden, profile.intermediate
    mlp = "mlp" if profile.experts is None else "mlp.shared_expert"
    kinds = list(profile.layer_types)
    gdn, attention = kinds.count("linear_attention"), kinds.count("full_attention")
    keys, values = profile.gdn_k_heads * profile.gdn_k_head_dim, profile.gdn_v_heads * profile.gdn_v_head_dim
    q, kv = (
        heads * profile.attention_head_dim
        for heads in (profile.attention_q_heads, profile.attention_kv_heads)
    )
    padded = -(-profile.vocabulary // HEAD_MULTIPLE) * HEAD_MULTIPLE
    found = [
        Product("gate_up_proj", f"model.layers.0.{mlp}.gate_proj", hidden, 2 * inner, len(kinds)),
        Product("down_proj", f"model.layers.0.{mlp}.down_proj", inner, hidden, len(kinds)),
        Product("in_proj_qkvz", "model.layers.0.linear_attn.in_proj_qkv", hidden, 2 * keys + 2 * values, gdn),
        Product("out_proj", "model.layers.0.linear_attn.out_proj", values, hidden, gdn),
        Product("qkv_proj", "model.layers.0.self_attn.q_proj", hidden, 2 * q + 2 * kv, attention),
        Product("o_proj", "model.layers.0.self_attn.o_proj", q, hidden, attention),
        Product(HEAD, HEAD, hidden, padded, 0 if profile.tied_embeddings else 1),
    ]
    return tuple(each for each in found if each.count)


def timed_by(configuration: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
    """The knobs of a configuration that its timing is told by."""
    return {knob: configuration[knob] for knob in TIMED_BY if knob in configuration}


def all_left(knobs: Mapping[str, KnobValue], products: Sequence[Product], why: str) -> KernelTiming:
    """A timing of which everything is left for a later one, with the reason."""
    parts = (PartTiming(each.part, each.count, untimed=why, left=True) for each in products)
    return KernelTiming(knobs, tuple(parts))


def _timing(data: Mapping[str, Any]) -> KernelTiming:
    parts = (PartTiming(**{**each, "samples_us": tuple(each["samples_us"])}) for each in data["parts"])
    return KernelTiming(data["knobs"], tuple(parts))
