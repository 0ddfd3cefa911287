"""What engine and server say to each other: one JSON object a line. Imports no torch.

The engine writes an order first and then requests; the server answers each with one reply, in order. A reply
is `{"ok": …}`, or `{"infeasible": {"kind": …, "cause": …}}` when the request can't be served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.measurement.evidence import Json


@dataclass(frozen=True)
class LaunchOrder:
    """The first line to a server: what to load and how. Paths are text; `threads` are intra-op; what begins
    with `draft` is as in `drafting.order.DraftingOrder`."""

    checkpoint: str
    device: str
    dtype: str
    threads: int
    compile: str
    cache_dir: str
    drafting_method: str = "none"
    draft_tokens: int = 0
    drafter: str = ""
    ngram_tokens: int = 0

    @property
    def drafting(self) -> DraftingOrder:
        """How it drafts."""
        return DraftingOrder(self.drafting_method, self.draft_tokens, self.drafter, self.ngram_tokens)


if TYPE_CHECKING:
    from _typeshed import DataclassInstance

M = TypeVar("M")


def line(data: Mapping[str, Json]) -> bytes:
    """One message as a line."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def data_of(message: DataclassInstance) -> dict[str, Any]:
    """The JSON data of a dataclass message."""
    return asdict(message)


def message_of(kind: Callable[..., M], data: Mapping[str, Any]) -> M:
    """The dataclass message of JSON data: lists become tuples."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in data.items()})


def messages_of(kind: Callable[..., M], data: Sequence[Mapping[str, Any]]) -> list[M]:
    """A list of dataclass messages."""
    return [message_of(kind, entry) for entry in data]


def infeasible_data(refusal: Infeasible) -> dict[str, Json]:
    """A refusal as a reply."""
    return {"infeasible": {"kind": refusal.kind, "cause": refusal.cause}}
