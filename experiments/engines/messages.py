"""What an engine and its server process say to each other: one JSON object a line. Imports no torch.

The engine writes an order first and then requests; the server answers each with one reply, in order. A reply
is `{"ok": …}`, or `{"infeasible": {"kind": …, "cause": …}}` when the request can't be served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any, TypeVar

from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

M = TypeVar("M")


def line(data: Mapping[str, Json]) -> bytes:
    """One message as a line."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def send(stream: IO[bytes], message: Mapping[str, Json]) -> None:
    """Write one message and push it out."""
    stream.write(line(message))
    stream.flush()


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
