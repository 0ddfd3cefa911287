"""The folder of a run on this machine: who works on it remotely, and a copy of what it told so far.

    <root>/.modal/runs/<key>/asked.json      what is submitted, written before it is
                             call.json       the call's id, written as soon as it is known
                             records.jsonl, log.txt, extras.jsonl      what the job told, piece by piece
                             copied.json     how far that copy goes
                             cancelled.json, ended.json    somebody asked for its end; how it ended
    <root>/.modal/calls/<call id>            the key of a call

Every file is replaced whole, or only grows; a copy that is cut off goes on where `copied.json` says.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from experiments.executors.extras import EXTRAS_NAME
from experiments.executors.modal.protocol import Envelope, Head, Piece
from experiments.executors.port import RunState
from experiments.job.place import RECORDS_NAME

FOLDER = ".modal"
"""No key of a job, so that no folder of a run lies there."""

LOG_NAME = "log.txt"

_Model = TypeVar("_Model", bound=BaseModel)


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Intent(_File):
    """What is about to be submitted; `gpu` and `timeout_s` as the call asks for them."""

    gpu: str | None
    timeout_s: int
    submitted_at_s: float


class Call(_File):
    """The run's call, and the others of its key that are known: a duplicate, or what it gave way to."""

    call_id: str
    others: tuple[str, ...] = ()


class Copied(_File):
    """How much of a call's start is copied, in pieces, and in bytes of each file."""

    call_id: str
    start: int = 0
    pieces: int = 0
    bytes: dict[str, int] = {}


class Ended(_File):
    """The last status of a run, which does not change any more; `at_s` is when that was seen, `head` what the
    call had told last, where it returned no envelope."""

    state: RunState
    failure: str | None = None
    other_gpu: bool = False
    envelope: Envelope | None = None
    at_s: float = 0.0
    head: Head | None = None


@dataclass(frozen=True)
class RunFolder:
    """The folder of the run `key` below `root`."""

    root: Path
    key: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.root / FOLDER / "runs" / self.key

    @property
    def records(self) -> Path:
        """The copy of the job's records."""
        return self.path / RECORDS_NAME

    def intent(self) -> Intent | None:
        """What was about to be submitted; None before that."""
        return self._read("asked.json", Intent)

    def call(self) -> Call | None:
        """The run's call; None where its id was never stored."""
        return self._read("call.json", Call)

    def ended(self) -> Ended | None:
        """How the run ended; None while that is not known."""
        return self._read("ended.json", Ended)

    def cancelled(self) -> bool:
        """Whether somebody asked for its end."""
        return (self.path / "cancelled.json").exists()

    def write_intent(self, intent: Intent) -> None:
        """Say what is about to be submitted."""
        self._write("asked.json", intent.model_dump_json())

    def write_call(self, call: Call) -> None:
        """Store the call; its id leads back to the key from now on."""
        index = self.root / FOLDER / "calls"
        index.mkdir(parents=True, exist_ok=True)
        for call_id in (call.call_id, *call.others):
            (index / call_id).write_text(self.key)
        self._write("call.json", call.model_dump_json())

    def write_ended(self, ended: Ended) -> None:
        """Store how the run ended."""
        self._write("ended.json", ended.model_dump_json())

    def write_cancelled(self) -> None:
        """Note that somebody asked for its end."""
        self._write("cancelled.json", "{}")

    def copied(self, call_id: str, start: int) -> Copied:
        """How far this start of the call is copied; another one's records begin anew, and what else it tells
        comes after what was told before, so that nobody who reads on misses it."""
        found = self._read("copied.json", Copied)
        if found is not None and (found.call_id, found.start) == (call_id, start):
            return found
        kept = {} if found is None else {n: x for n, x in found.bytes.items() if n != RECORDS_NAME}
        return Copied(call_id=call_id, start=start, bytes=kept)

    def append(self, copied: Copied, piece: Piece) -> Copied:
        """Add a piece to the copy; what an append that was cut off had written beyond is overwritten."""
        told = {
            RECORDS_NAME: piece.records,
            LOG_NAME: piece.log,
            EXTRAS_NAME: piece.extras,
        }
        sizes = dict(copied.bytes)
        for name, text in told.items():
            at = sizes.get(name, 0)
            with (self.path / name).open("ab") as file:
                file.truncate(at)
            with (self.path / name).open("r+b") as file:
                file.seek(at)
                sizes[name] = at + file.write(text.encode())
        after = copied.model_copy(update={"pieces": copied.pieces + 1, "bytes": sizes})
        self._write("copied.json", after.model_dump_json())
        return after

    def add_to_log(self, text: str) -> None:
        """Add last words that are no piece."""
        with (self.path / LOG_NAME).open("a", encoding="utf-8") as file:
            file.write(text)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder, made where it is missing, against another submit of the same key."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "submit.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self, name: str, model: type[_Model]) -> _Model | None:
        try:
            return model.model_validate_json((self.path / name).read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def _write(self, name: str, content: str) -> None:
        temporary = self.path / f"{name}.{os.getpid()}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path / name)


def folder_of_call(root: Path, call_id: str) -> RunFolder | None:
    """The folder of a call that was submitted from, or looked at on, this machine."""
    try:
        return RunFolder(root, (root / FOLDER / "calls" / call_id).read_text())
    except (FileNotFoundError, OSError, ValueError):
        return None
