"""The rows of a CSV of times, one at a time, each checked as it is read.

The table has a header and the columns `arm`, `launch`, `block`, `prompt`, `metric`, `value` and, where a
request has several values, `seq`, in any order of columns and rows. Nothing is kept of a row that was handed
out but the names of the metrics, so a file of any length is read in the memory of one line.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from configs.errors import UsageError
from experiments.measurement.evidence import TIMED_METRICS, Arm, Metric
from knowledge.figures import counted

if TYPE_CHECKING:
    from _csv import Reader

COLUMNS = ("arm", "launch", "block", "prompt", "metric", "value")
"""Columns that must be there."""

SEQ = "seq"
"""The one that may be: the order of several values of one request."""

LONGEST_LINE_BYTES = 1 << 16
"""A longer line is none of such a table; it bounds what is held of a file that has no lines."""

LARGEST_NUMBER = 2**63 - 1
"""Of a launch, a block or a seq: what the sorting table holds in an integer."""

HEADER = ",".join((*COLUMNS, SEQ))

_PACKED = {b"\x1f\x8b": "gzip", b"PK": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
"""How packed files begin."""

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"
_WHOLE = re.compile(r"[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_TIMED = {metric.value: metric for metric in TIMED_METRICS}
_ARMS = {arm.value: arm for arm in Arm}


class Row(NamedTuple):
    """One value; `line` counts the lines of the file from 1; `seq` is 0 where there is no such column."""

    line: int
    arm: Arm
    launch: int
    block: int
    prompt: str
    metric: Metric
    seq: int
    value: float


def read_rows(stream: BinaryIO) -> Iterator[Row]:
    """Yield the rows of a CSV in the order of the file.

    Raises `UsageError`, at the row or at the end, for whatever is not such a table.
    """
    reader = csv.reader(_lines(stream), strict=True, skipinitialspace=True)
    rows = _fields(reader)
    columns = _columns(next(rows, (0, []))[1])
    width, told = len(columns), itemgetter(*(columns.index(name) for name in COLUMNS))
    seq_place = columns.index(SEQ) if SEQ in columns else None
    seen: dict[str, int] = {}
    strange: tuple[str, int] | None = None
    other_unit: tuple[str, int] | None = None
    for line, found in rows:
        if len(found) != width:
            raise UsageError(
                f"Line {line} has {counted(len(found), 'field')}, and the header has {width}.",
                "Give every line one field a column; put text with a comma in double quotes.",
            )
        arm, launch, block, prompt, name, value = told(found)
        if name not in _TIMED:
            strange = strange or (name, line)
            other_unit = other_unit or (None if _fellow(name) is None else (name, line))
            continue
        seen.setdefault(name, line)
        yield Row(
            line,
            _arm(arm, line),
            _whole(launch, "launch", line),
            _whole(block, "block", line),
            _prompt(prompt, line),
            _TIMED[name],
            0 if seq_place is None else _whole(found[seq_place], SEQ, line),
            _time(value, name, line),
        )
    if strange:
        raise _strange_metric(*(other_unit or strange), seen)
    if not seen:
        raise UsageError("The file has a header and no rows.", "Give one row a measured value.")


def _lines(stream: BinaryIO) -> Iterator[str]:
    """The lines as text; refuses what is packed, binary, or in another encoding."""
    number = 0
    while line := stream.readline(LONGEST_LINE_BYTES + 1):
        number += 1
        if number == 1:
            _refuse_other_formats(line)
            line = line.removeprefix(_BOM)
        if b"\0" in line:
            raise UsageError(f"Line {number} holds bytes that are no text.", _not_a_table())
        if len(line) > LONGEST_LINE_BYTES:
            raise UsageError(f"Line {number} is longer than {LONGEST_LINE_BYTES} bytes.", _not_a_table())
        try:
            yield line.decode()
        except UnicodeDecodeError:
            raise UsageError(
                f"Line {number} is not UTF-8.",
                "Save the file as UTF-8, such as: iconv -f latin1 -t utf-8 FILE",
            ) from None


def _refuse_other_formats(first: bytes) -> None:
    for magic, name in _PACKED.items():
        if first.startswith(magic):
            raise UsageError(
                f"The file is packed ({name}), not a CSV.",
                "Unpack it first, such as: gzip -dc FILE | autoinfer judge -",
            )
    if first.startswith(_UTF_16):
        raise UsageError(
            "The file is UTF-16, not UTF-8.", "Save it as UTF-8, such as: iconv -f utf-16 -t utf-8 FILE"
        )


def _fields(reader: Reader) -> Iterator[tuple[int, Sequence[str]]]:
    """Each row that is not blank, with the line that it ends on."""
    try:
        for found in reader:
            if any(map(str.strip, found)):
                yield reader.line_num, found
    except csv.Error as error:
        line = reader.line_num
        if "new-line character" in str(error):
            raise UsageError(
                f"Line {line} holds a carriage return that does not end it.",
                "End lines with LF or CR LF, such as: tr '\\r' '\\n' < FILE | autoinfer judge -",
            ) from None
        raise UsageError(f"Line {line} is not CSV: {error}.", _not_a_table()) from None


def _columns(header: Sequence[str]) -> list[str]:
    """The names in the header, checked."""
    if not header:
        raise UsageError("The file is empty.", f"Begin it with the header {HEADER}")
    names = [name.strip() for name in header]
    known = {*COLUMNS, SEQ}
    if not known & set(names):
        shown = ",".join(names)[:60]
        raise UsageError(
            f"The first line is no header of such a table: {shown!r}.",
            f"Begin the file with the header {HEADER} (seq may be left out), separated by commas.",
        )
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise UsageError(
            f"The header lacks {_listed(missing)}.", f"The columns are {HEADER}; only seq may be left out."
        )
    extra = [name or "a column without a name" for name in names if name not in known]
    if extra:
        raise UsageError(
            f"The header has columns that are not known: {_listed(extra[:5])}.",
            f"Leave them out; the columns are {HEADER}.",
        )
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise UsageError(f"The header names {_listed(twice)} twice.", "Name every column once.")
    return names


def _arm(text: str, line: int) -> Arm:
    found = _ARMS.get(text)
    if found is None:
        raise UsageError(
            f"Line {line}: {text[:40]!r} is no arm.", "Write control for what was, candidate for the change."
        )
    return found


def _whole(text: str, column: str, line: int) -> int:
    number = _number(text)
    if number is None:
        raise UsageError(
            f"Line {line}: the {column} {text[:40]!r} is no whole number of at least 0.",
            f"Number each {column}: 0, 1, 2 …",
        )
    return number


@lru_cache(maxsize=4096)
def _number(text: str) -> int | None:
    """A whole number; remembered, because the same ones stand in most lines."""
    if _WHOLE.fullmatch(text) is None or int(text) > LARGEST_NUMBER:
        return None
    return int(text)


def _prompt(text: str, line: int) -> str:
    if not text.strip():
        raise UsageError(f"Line {line} names no prompt.", "Name the prompt: both arms answer the same ones.")
    return text


def _time(text: str, metric: str, line: int) -> float:
    """A positive, finite number; a word such as `nan` is told as what it is."""
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped) is None:
        try:
            odd = not math.isfinite(float(stripped))
        except ValueError:
            odd = False
        what = "is not finite" if odd else "is no number"
        raise UsageError(
            f"Line {line}: the value {text[:40]!r} of {metric} {what}.",
            "Write a plain positive number such as 12.5, and leave out requests that failed.",
        )
    value = float(stripped)
    if not math.isfinite(value) or value <= 0:
        raise UsageError(
            f"Line {line}: the value {text[:40]!r} of {metric} must be a number above 0.",
            "No time or rate is zero, negative or infinite: leave out requests that failed.",
        )
    return value


def _strange_metric(name: str, line: int, seen: Mapping[str, int]) -> UsageError:
    """What to say of a metric that is none of time; a known one in another unit is named with its fellow."""
    known, shown, same = ", ".join(sorted(_TIMED)), repr(name[:40]), _fellow(name)
    if same is not None:
        hint = f"Convert its values and call it {same}, in {_TIMED[same].unit}."
        if same in seen:
            return UsageError(
                f"The file mixes units: {same!r} (line {seen[same]}) and {shown} (line {line}).", hint
            )
        return UsageError(
            f"The metric {shown} (line {line}) is not in the unit that is judged, {same}.", hint
        )
    if name in {metric.value for metric in Metric}:
        return UsageError(
            f"Line {line}: {name} is no metric of time, and only times are judged here.",
            f"Leave its rows out; the metrics are {known}.",
        )
    return UsageError(f"Line {line}: there is no metric {shown}.", f"The metrics are {known}.")


@lru_cache(maxsize=16)
def _fellow(name: str) -> str | None:
    """The metric of time that this name is in another unit; remembered, as it stands in line after line."""
    return next((each for each in _TIMED if _quantity(each) == _quantity(name)), None)


def _quantity(metric: str) -> str:
    """A metric's name without its unit: `tpot` of `tpot_ms`, `tpot_s` or `TPOT`."""
    return re.sub(r"_(ms|s|us|ns|sec|secs|seconds|milliseconds)$", "", metric.strip().lower())


def _not_a_table() -> str:
    return f"Give a CSV in UTF-8 with the header {HEADER}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
