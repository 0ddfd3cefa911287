"""`user:PATH`: a file of the user's, JSONL (a record a line) or plain text."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.corpora.calibration.finite import draw_from
from experiments.corpora.calibration.records import WANTED, looks_like_a_record, record_text
from experiments.corpora.calibration.source import Ask, CalibrationText, CorpusSource, Drawn, SourceKind
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json

PREFIX = "user"

FILE_BYTES_MAX = 256 * 2**20
"""Larger files are refused: 128 samples of 512 tokens are some 300 kB of text, and the file is read whole."""

JSONL_SUFFIXES = (".jsonl", ".ndjson")
"""Files that must be JSONL; others are when their first line is a record."""

PIECE_CHARS = 4096
"""Plain text is drawn in pieces of about this length, from all over the file, cut where a line ends."""


@dataclass(frozen=True)
class UserFile:
    """A file; relative paths are meant from where the process stands, `~` is the user's home."""

    path: Path

    @property
    def canonical(self) -> str:
        """The path as it was given."""
        return f"{PREFIX}:{self.path}"

    def identity(self, device: str) -> Mapping[str, Json]:
        """The file's content and how it is read; equal files are one corpus wherever they lie.

        Raises `Infeasible` (`illegal`) for a file that is not there, empty or no text.
        """
        data = self._bytes()
        self._decoded(data)
        return {
            "corpus": PREFIX,
            "sha256": hashlib.sha256(data).hexdigest(),
            "jsonl_name": self.path.suffix in JSONL_SUFFIXES,
        }

    def draw(self, ask: Ask) -> Drawn:
        """The file's texts in an order of the seed."""
        found = self._texts()
        lines = [line for line, _ in found]
        return draw_from([text for _, text in found], ask, self.canonical, lambda k: self._line(lines[k]))

    def _texts(self) -> list[tuple[int, CalibrationText]]:
        """The records with their lines, or the pieces of a plain text, each with line 1; raises `Infeasible`
        (`illegal`) with the line."""
        text = self._decoded(self._bytes())
        if self.path.suffix in JSONL_SUFFIXES or _begins_with_a_record(text):
            return list(self._records(text))
        return [(1, piece) for piece in pieces(text)]

    def _records(self, text: str) -> Iterator[tuple[int, CalibrationText]]:
        for number, line in enumerate(text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                fields = json.loads(line)
            except (ValueError, RecursionError) as cause:
                reason = cause.msg if isinstance(cause, json.JSONDecodeError) else "it cannot be read"
                raise self._broken(number, f"is not valid JSON: {reason}") from None
            if not isinstance(fields, dict):
                raise self._broken(number, f"is no JSON object with {WANTED}")
            try:
                found = record_text(fields)
            except ValueError as cause:
                raise self._broken(number, str(cause)) from None
            if found is not None:
                yield number, found

    def _broken(self, line: int, what: str) -> Infeasible:
        return Infeasible("illegal", f"{self._line(line)} {what}: correct it there.")

    def _line(self, number: int) -> str:
        return f"Line {number} of the corpus {self.path}"

    def _decoded(self, data: bytes) -> str:
        nul = data.find(b"\0")
        if nul >= 0:
            line = data.count(b"\n", 0, nul) + 1
            raise Infeasible(
                "illegal",
                f"The corpus {self.path} is not text: line {line} has a NUL byte. Give a text file in UTF-8.",
            )
        try:
            text = data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as cause:
            line = data.count(b"\n", 0, cause.start) + 1
            raise Infeasible(
                "illegal",
                f"The corpus {self.path} is not text in UTF-8: line {line} has the byte "
                f"0x{data[cause.start]:02x} where none such may be. Convert it to UTF-8.",
            ) from None
        if not text.strip():
            raise Infeasible("illegal", f"The corpus {self.path} is empty: give a file with text in it.")
        return text

    def _bytes(self) -> bytes:
        path = self.path.expanduser()
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
                raise Infeasible("illegal", f"The corpus {self.path} is {kind}: give a text or JSONL file.")
            if status.st_size > FILE_BYTES_MAX:
                raise Infeasible(
                    "illegal",
                    f"The corpus {self.path} has {status.st_size / 2**20:.0f} MiB, more than the "
                    f"{FILE_BYTES_MAX // 2**20} MiB that are read: give a part of it.",
                )
            return path.read_bytes()
        except FileNotFoundError:
            raise Infeasible(
                "illegal", f"There is no corpus at {path.absolute()}: give the path of a file that exists."
            ) from None
        except PermissionError:
            raise Infeasible(
                "illegal", f"The corpus {self.path} may not be read by this user: allow it with chmod."
            ) from None
        except (OSError, ValueError) as cause:  # a loop of links, a name too long; a NUL in the name
            raise Infeasible("illegal", f"The corpus {self.path} can't be read: {cause}.") from None


def pieces(text: str) -> Iterator[str]:
    """A text in pieces of at least `PIECE_CHARS` characters but for the last; joined, they are the text."""
    start = 0
    while start < len(text):
        line_end = text.find("\n", start + PIECE_CHARS - 1)
        end = len(text) if line_end < 0 else line_end + 1
        yield text[start:end]
        start = end


def _begins_with_a_record(text: str) -> bool:
    """Tell whether the first line that is not blank is a JSON object with a field that is read."""
    line = text.lstrip().split("\n", 1)[0]
    try:
        return line.startswith("{") and looks_like_a_record(json.loads(line))
    except (ValueError, RecursionError):
        return False


def parse(argument: str | None) -> CorpusSource:
    """The source of `user:PATH`; the file is looked at when it is read."""
    if not argument:
        raise Infeasible("illegal", "The corpus user needs a file: write user:/path/to/texts.jsonl.")
    return UserFile(Path(argument))


KIND = SourceKind(
    PREFIX,
    "user:PATH",
    "A file of yours: JSONL with text, messages, or prompt and answer in each line; or plain text.",
    parse,
)
