"""A grid: which configurations of a model are measured, on which workloads, and in which order.

The order of the file is the order of measuring, so what tells most stands first: a lease may end at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.ground.shape import same_shape
from agent.tables.beside import MOST_BESIDE_CORES
from configs.catalog import Kind, read_document
from configs.errors import UsageError
from configs.validation import validated
from experiments.engines.reference.packed_layout import told_method, told_packing
from experiments.shapes.stored_as import SIXTEEN_BITS, StoredAs
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu_rules import LINEAR_BACKEND
from experiments.space.legality import QUANTIZATION, UNQUANTIZED, with_stored_kernels
from experiments.space.loading import Value, load_space
from experiments.space.space import Space

DUMMY, CHECKPOINT = "dummy", "checkpoint"
"""Where weights come from: made up, which gives times alone, or from a checkpoint's folder."""

VLLM, REFERENCE = "vllm", "reference"
"""Engines that serve a grid."""

DIGEST_DIGITS = 16

ADDED_LATER: Mapping[str, KnobValue] = {
    "pruning.ranked_on": "original",
    "pruning.order": "before_quantization",
    "quantization.sample_tokens": 256,
    "quantization.seed": 0,
    "quantization.keep": "none",
    "drafting.lm_head": "auto",
    "serving.gdn_decode_kernel": "auto",
    "serving.max_batch_tokens": "auto",
    "serving.max_graph_tokens": "auto",
    "serving.moe_backend": "auto",
}
"""Knobs that the space vllm got after tables had been measured, with what was done before: so set, they are
no part of what names a load, or what is in those tables would be measured again."""


NO_STORED_KERNEL = (
    "A table serves a checkpoint as it is stored, and this one stores no weights packed in a layout whose "
    "kernels can be named (docs/quantization.md): leave the kernel to vLLM."
)
"""What to do where a grid names a kernel for weights that have none."""

STORED_KERNEL: Mapping[str, KnobValue] = {QUANTIZATION: UNQUANTIZED, LINEAR_BACKEND: "auto"}
"""What was done with weights that a checkpoint stores packed, before a kernel could be named for these."""


def as_measured(configuration: Mapping[str, KnobValue]) -> Configuration:
    """The configuration without the knobs of `ADDED_LATER`, and without a kernel for stored weights, that say
    what was done without them."""
    later = dict(ADDED_LATER)
    if all(configuration.get(name) == value for name, value in STORED_KERNEL.items()):
        later[LINEAR_BACKEND] = STORED_KERNEL[LINEAR_BACKEND]
    return Configuration.of(
        {name: value for name, value in configuration.items() if later.get(name) != value}
    )


COMES_WITH: Mapping[str, Mapping[str, KnobValue | tuple[KnobValue, ...] | None]] = {
    "pruning.ranked_on": {"pruning.criterion": None, "quantization.bits": None},
    "pruning.order": {"pruning.criterion": None, "quantization.bits": None},
    "quantization.sample_tokens": {"quantization.samples": None},
    "quantization.seed": {"quantization.samples": None},
    "quantization.keep": {"quantization.bits": None},
    "drafting.lm_head": {"drafting.method": "mtp"},
    "serving.gdn_decode_kernel": {"drafting.draft_tokens": None},
    "serving.max_batch_tokens": {"serving.chunked_prefill": ("auto", "on")},
    "serving.max_graph_tokens": {"serving.graph_mode": ("auto", "piecewise", "full_and_piecewise")},
}
"""The older knobs beside which each of `ADDED_LATER` stands, with the value, or those of which one, that they
have; None: any."""


def in_full(configuration: Mapping[str, KnobValue]) -> Configuration:
    """The configuration with the knobs of `ADDED_LATER` that it would have, had they been there."""
    done = {
        name: ADDED_LATER[name]
        for name, older in COMES_WITH.items()
        if all(
            knob in configuration and _is_one_of(configuration[knob], values)
            for knob, values in older.items()
        )
    }
    return Configuration.of({**done, **configuration})


def _is_one_of(value: KnobValue, values: KnobValue | tuple[KnobValue, ...] | None) -> bool:
    return values is None or value in (values if isinstance(values, tuple) else (values,))


def _quantizes(configuration: Mapping[str, KnobValue]) -> bool:
    return configuration.get(QUANTIZATION, UNQUANTIZED) != UNQUANTIZED


def load_digest(model: str, weights: str, stored: str, configuration: Mapping[str, KnobValue]) -> str:
    """What names a load in a journal, the same for the same model, weights, configuration and, where this
    quantizes, layout: how else weights are stored is the model's."""
    told = {
        "model": model,
        "weights": weights,
        "stored": stored if _quantizes(configuration) else SIXTEEN_BITS,
        "knobs": dict(as_measured(configuration)),
    }
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


@dataclass(frozen=True)
class TableWorkload:
    """One cell's workload: `requests` of `prompt_tokens` in and `new_tokens` out, `concurrency` at once."""

    concurrency: int
    prompt_tokens: int
    new_tokens: int
    requests: int

    @property
    def key(self) -> str:
        """`c4 512/129 x12`."""
        return f"c{self.concurrency} {self.prompt_tokens}/{self.new_tokens} x{self.requests}"


@dataclass(frozen=True)
class PlannedLoad:
    """One engine load: a configuration, and how its quantized weights are stored."""

    configuration: Configuration
    stored_as: StoredAs
    as_it_is: str = SIXTEEN_BITS
    """How the checkpoint itself stores its weights, in a word."""

    @property
    def stored(self) -> str:
        """How weights are stored, in a word; what the load does not quantize is as it is."""
        return self.stored_as.value if _quantizes(self.configuration) else self.as_it_is

    def digest(self, model: str, weights: str) -> str:
        """What names the load in a journal: `load_digest` of what it is."""
        return load_digest(model, weights, self.stored, self.configuration)


class _Length(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt_tokens: int = Field(ge=1)
    new_tokens: int = Field(ge=2)
    requests: dict[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = Field(min_length=1)
    """Requests of a cell, by concurrency."""

    @model_validator(mode="after")
    def _each_place_is_taken(self) -> Self:
        for concurrency, requests in self.requests.items():
            if requests < concurrency:
                raise ValueError(
                    f"{requests} requests are never {concurrency} at once: give at least as many"
                )
        return self


class _Entry(BaseModel):
    """Loads that differ from the base by `set`, one for each point of `product`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    set: dict[str, Value] = {}
    product: dict[str, tuple[Value, ...]] = {}
    stored_as: StoredAs = StoredAs.COMPRESSED_TENSORS

    def points(self) -> Iterator[dict[str, KnobValue]]:
        """The knobs of each load."""
        for values in product(*self.product.values()):
            yield {**self.set, **dict(zip(self.product, values, strict=True))}


class _Same(BaseModel):
    """The same cells measured again: `repeats` times while nothing loads, while another configuration loads,
    and after it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repeats: int = Field(default=3, ge=1)
    loads: tuple[Annotated[int, Field(ge=0)], ...] = (0,)
    concurrencies: tuple[int, ...] = (1,)
    prompt_tokens: tuple[int, ...] | None = None
    """Only workloads of these; all of them if not given."""

    def has(self, workload: TableWorkload) -> bool:
        """Whether a workload is measured again."""
        lengths = self.prompt_tokens
        return workload.concurrency in self.concurrencies and (
            lengths is None or workload.prompt_tokens in lengths
        )


class SideBySide(BaseModel):
    """Launches that are timed in turns while all are up: `launches` of them, the grid's first load among them
    each time, a turn of `prompts_a_turn` requests each, `passes` fresh launches of each load in all. Loads
    are shuffled among so many that follow each other in the file. A batch beside which other work takes more
    than `most_beside_cores`, in the mean, is measured again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    launches: int = Field(default=12, ge=2)
    passes: int = Field(default=1, ge=1)
    prompts_a_turn: int = Field(default=2, ge=1)
    shuffled_among: int = Field(default=60, ge=1)
    most_beside_cores: float = Field(default=MOST_BESIDE_CORES, gt=0.0)


class Quality(BaseModel):
    """What quality is evaluated on: held-out documents, instruction items, and prompts of each class of
    content on which drafting is checked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: int = Field(default=32, ge=1)
    tokens_per_document: int = Field(default=384, ge=8)
    items: int = Field(default=200, ge=0)
    drafting_prompts: int = Field(default=1, ge=1)
    drafting_new_tokens: int = Field(default=48, ge=2)


class _GridFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    engine: Literal["vllm", "reference"] = "vllm"
    model: str
    weights: Literal["dummy", "checkpoint"]
    space: str = "vllm"
    seed: int = 0
    base: dict[str, Value] = {}
    lengths: tuple[_Length, ...] = Field(min_length=1)
    loads: tuple[_Entry, ...] = Field(min_length=1)
    same: _Same | None = None
    side_by_side: SideBySide | None = None
    quality: Quality | None = None

    @model_validator(mode="after")
    def _side_by_side_is_whole(self) -> Self:
        if self.engine == VLLM:
            if self.side_by_side or self.quality:
                raise ValueError("side_by_side and quality are for engine: reference")
            return self
        if self.weights == DUMMY or self.same is not None or not (self.side_by_side and self.quality):
            raise ValueError("engine: reference needs weights: checkpoint, side_by_side and quality, no same")
        (length, *more) = self.lengths
        if more or list(length.requests) != [1]:
            raise ValueError("engine: reference serves one length, at concurrency 1")
        if length.requests[1] % self.side_by_side.prompts_a_turn:
            raise ValueError(
                f"{length.requests[1]} requests are no whole turns of side_by_side.prompts_a_turn"
            )
        return self


@dataclass(frozen=True)
class SameCells:
    """Which loads (by digest) and workloads are measured again beside another load, and how often."""

    repeats: int
    loads: frozenset[str]
    workloads: tuple[TableWorkload, ...]


@dataclass(frozen=True)
class Grid:
    """A grid that was read: distinct loads in the order of measuring, and the cells of each."""

    name: str
    model: str
    weights: str
    seed: int
    space: Space
    loads: tuple[PlannedLoad, ...]
    workloads: tuple[TableWorkload, ...]
    same: SameCells | None = None
    engine: str = VLLM
    side_by_side: SideBySide | None = None
    quality: Quality | None = None

    def digest(self, load: PlannedLoad) -> str:
        """The name of a load in a journal."""
        return load.digest(self.model, self.weights)


def load_grid(name_or_path: str | Path, model: str | None = None, weights: str | None = None) -> Grid:
    """The grid of this packaged name or YAML file, for another model or other weights where they are given;
    on a checkpoint whose weights are stored packed with a choice of kernels for these.

    Raises `UsageError` that names the fault: as `Space.configuration` does, where no load is left, and where
    two loads are one shape under two names.
    """
    document = read_document(Kind.GRIDS, name_or_path)
    told = validated(_GridFile, document.data, document.where)
    space, unnamed, as_it_is = load_space(told.space), False, SIXTEEN_BITS
    if (weights or told.weights) == CHECKPOINT:
        folder = Path(model or told.model).expanduser()
        packing, as_it_is = told_packing(folder), told_method(folder) or SIXTEEN_BITS
        space, unnamed = with_stored_kernels(space, packing), packing is None
    loads: list[PlannedLoad] = []
    for entry in told.loads:
        for knobs in entry.points():
            asked = {**told.base, **knobs}
            try:
                configuration = space.that_has(asked).configuration(asked)
            except UsageError as error:
                hint = NO_STORED_KERNEL if unnamed and LINEAR_BACKEND in asked else error.hint
                raise UsageError(f"{document.where}: {error.message}", hint) from None
            loads.append(PlannedLoad(configuration, entry.stored_as, as_it_is))
    workloads = tuple(
        TableWorkload(concurrency, length.prompt_tokens, length.new_tokens, requests)
        for length in told.lengths
        for concurrency, requests in length.requests.items()
    )
    if told.engine == REFERENCE and weights == DUMMY:
        raise UsageError(
            f"{document.where}: the engine {told.engine} serves trained weights alone.",
            f"Leave out --weights {DUMMY}.",
        )
    found = Grid(
        told.name,
        model or told.model,
        weights or told.weights,
        told.seed,
        space,
        _distinct(loads, model or told.model, weights or told.weights),
        workloads,
        engine=told.engine,
        side_by_side=told.side_by_side,
        quality=told.quality,
    )
    if found.weights == DUMMY:
        _check_shapes_differ(found, document.where)
    if told.same is None:
        return found
    return _with_same(found, told.same, document.where)


def _distinct(loads: list[PlannedLoad], model: str, weights: str) -> tuple[PlannedLoad, ...]:
    """Each load once, at its first place."""
    by_digest: dict[str, PlannedLoad] = {}
    for load in loads:
        by_digest.setdefault(load.digest(model, weights), load)
    return tuple(by_digest.values())


def _check_shapes_differ(grid: Grid, where: str) -> None:
    """Raise `UsageError` for two loads on made-up weights that differ by their names alone."""
    alike = same_shape(grid.space)
    space = grid.space.passing_over({QUANTIZATION: alike.values()}) if alike else grid.space
    for (at, one), (place, other) in combinations(enumerate(grid.loads), 2):
        same = space.why_same(one.configuration, other.configuration)
        if same is not None and one.stored == other.stored:
            raise UsageError(f"{where}: loads {at} and {place} are one. {same}", "Leave one of them out.")


def _with_same(grid: Grid, same: _Same, where: str) -> Grid:
    missing = [number for number in same.loads if number >= len(grid.loads)]
    if missing:
        raise UsageError(
            f"{where}: same.loads names load {missing[0]}, and there are {len(grid.loads)}.",
            "They count from 0, in the order of the file.",
        )
    digests = frozenset(grid.digest(grid.loads[number]) for number in same.loads)
    workloads = tuple(each for each in grid.workloads if same.has(each))
    return replace(grid, same=SameCells(same.repeats, digests, workloads))
