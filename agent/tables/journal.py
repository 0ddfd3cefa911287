"""The journal of a table: a JSON object a line, only ever added to; each line is whole and on the disk.

A process that is killed leaves at most one line that ends in the middle, which the next one to write closes
and everyone skips. Every line tells what it was measured with (`identity`). Kinds of lines:

| kind | tells |
|---|---|
| `begin` | a call that measures: its command, grid, budget |
| `load` | an engine that came up: seconds, resolved configuration |
| `cell` | a workload measured on it: each request's times, and what a GPU did meanwhile (`gpu`) |
| `profile` | the time of a decode step by part, or why there is none; the same of a lone prompt (`prompt`) |
| `failure` | a load or a cell that failed, with kind and cause; a cell of `same` says so as a `cell` does |
| `end` | why a call stopped |
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from agent.tables.grid import load_digest
from configs.asked_over import ASKED_OVER, IN_ENGINE
from configs.errors import AutoinferError, DiskFull, PermissionRefused

TRIES: Mapping[str, int] = {"crashed": 2, "timed_out": 2, "out_of_memory": 2}
"""How often a load or a cell is tried that failed in this way; one that failed in any other way is not tried
again."""

NAMED_BY = frozenset({"model", "weights", "stored_as", "configuration"})
"""Fields of a line that make its load's name."""

Line = dict[str, Any]


class Journal:
    """Adds lines to a file; for several threads, and several processes on one file system."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        """`identity` goes into every line."""
        self.path, self._identity, self._lock = path, dict(identity), Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._close_broken_line()
        except PermissionError:
            raise PermissionRefused(
                f"{path} may not be written.", "Name another folder with --out."
            ) from None

    def add(self, kind: str, told: Mapping[str, Any], device: Mapping[str, Any] | None = None) -> None:
        """Add a line; `device` is what of the identity is one device's."""
        line = {
            "kind": kind,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "identity": {**self._identity, **(device or {})},
            **told,
        }
        data = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        with self._lock:
            try:
                handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
                try:
                    os.write(handle, data)
                    os.fsync(handle)
                finally:
                    os.close(handle)
            except OSError as cause:
                raise DiskFull(
                    f"{self.path} can't be added to: {cause.strerror}.", "Free the disk and call it again."
                ) from cause

    def _close_broken_line(self) -> None:
        if not self.path.is_file() or self.path.stat().st_size == 0:
            return
        with self.path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def read_journal(path: Path) -> Iterator[Line]:
    """The whole lines of a journal, which may be packed (`.gz`); a line that a killed process left in the
    middle is skipped. A load has the name that its configuration has today, whatever it was called when it
    was measured, so that nothing is measured again because names changed. Raises `AutoinferError` for a file
    that is no journal."""
    today: dict[str, str] = {}
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for number, text in enumerate(file, 1):
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if not isinstance(line, dict) or "kind" not in line or "identity" not in line:
                raise AutoinferError(
                    f"Line {number} of {path} is not of a table's journal.", "Name the folder of a table."
                )
            yield _named_as_today(line, today)


def _named_as_today(line: Line, today: dict[str, str]) -> Line:
    """The line with today's names of its load and of its control; `today` has those of lines before it, by
    the names that they had."""
    if "load" not in line or not line.keys() >= NAMED_BY:
        return line
    name = load_digest(line["model"], line["weights"], line["stored_as"], line["configuration"])
    today[line["load"]] = name
    named = {**line, "load": name}
    if "control" in line:  # stands first in its batch, so its name is known
        named["control"] = today.get(line["control"], line["control"])
    return named


Scope: TypeAlias = tuple[str | None, str | None, str]
"""What measurements belong together by: the device's name, the engine's version, and how it was asked."""


def scope_of(line: Line) -> Scope:
    """What a line was measured with; one that does not tell how the engine was asked is an old one."""
    identity = line["identity"]
    return identity.get("name"), identity.get("engine_version"), identity.get(ASKED_OVER) or IN_ENGINE


class Measured:
    """What a journal tells is done on one kind of GPU with one version of the engine, asked in one way."""

    def __init__(self, lines: Iterable[Line], scope: Scope, launches: int = 1) -> None:
        """Lines of another `scope` are left out; a cell is measured when so many launches served it."""
        self._launches = launches
        self._cells: dict[tuple[str, str], set[str | None]] = {}
        """By load and workload the launches that served it."""
        self._profiled: set[str] = set()
        self._failures: dict[tuple[str, str | None, str | None], list[str]] = {}
        """Kinds by load, workload (None: the load itself), and what went on beside (None: the grid's own)."""
        for line in lines:
            if scope_of(line) == scope:
                self.add(line)

    def add(self, line: Line) -> None:
        """Count one more line."""
        if line["kind"] == "cell":
            if line.get("same") is None:  # what is measured beside another load is for comparing alone
                cell = line["load"], line["workload"]["key"]
                self._cells.setdefault(cell, set()).add(line.get("launch"))
        elif line["kind"] == "profile":
            self._profiled.add(line["load"])
        elif line["kind"] == "failure":
            workload = line.get("workload")
            key = None if workload is None else workload["key"]
            beside = (line.get("same") or {}).get("beside")
            self._failures.setdefault((line["load"], key, beside), []).append(line["failure"]["kind"])

    def load_is_over(self, load: str) -> bool:
        """Whether a load failed for good."""
        return self._failed_for_good(load, None, None)

    def cell_is_over(self, load: str, workload: str) -> bool:
        """Whether a cell is measured, or failed for good."""
        served = len(self._cells.get((load, workload), ()))
        return served >= self._launches or self._failed_for_good(load, workload, None)

    def is_profiled(self, load: str) -> bool:
        """Whether a profile of a load was asked for."""
        return load in self._profiled

    def same_is_over(self, load: str, workload: str, beside: str) -> bool:
        """Whether a cell of `same` failed for good while that went on beside: it says nothing of the grid's
        own cell of that workload, nor of what goes on otherwise."""
        return self._failed_for_good(load, workload, beside)

    def _failed_for_good(self, load: str, workload: str | None, beside: str | None) -> bool:
        return _for_good(self._failures.get((load, workload, beside), []))


def _for_good(kinds: list[str]) -> bool:
    return any(kinds.count(kind) >= TRIES.get(kind, 1) for kind in set(kinds))
