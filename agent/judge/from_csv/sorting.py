"""Rows in any order become pairs of launches, in bounded memory.

The rows go into a private SQLite table that spills to a temporary file, which is gone with the connection,
and come back sorted: by metric, launch, block, prompt, arm, seq. Held at a time are `CACHE_KIB` of that
table, 8 bytes for each value of one request, each prompt of one block and each block of the file, and a few
hundred for each of at most `MOST_LAUNCHES` launches.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from statistics import median
from typing import Final

from agent.judge.from_csv.rows import SEQ, Row
from agent.judge.pairs import PairEffect, effect_of_ratios
from configs.errors import DiskFull, UsageError
from experiments.measurement.evidence import HIGHER_IS_BETTER, Arm, Metric

CACHE_KIB = 32 << 10
"""Memory for the sorting table, 32 MiB; what is more lies in a temporary file."""

BATCH_ROWS = 10_000
"""Rows handed to SQLite at once."""

UNITS_APART = 300.0
"""Factor between two typical values above which the unit must differ: one step of a unit is 1,000, and no
block of requests is 300 times slower than another by itself."""

STRANGE_SHARE = 0.05
"""Share of prompts that may differ so much between the arms: single requests hang."""

LEAST_LAUNCHES = 2
"""Of each arm: one launch does not tell how launches vary."""

MOST_LAUNCHES = 100_000
"""Of each arm: more are surely requests, and each takes some memory."""

_TABLE = """CREATE TABLE found (
    metric TEXT, launch INTEGER, block INTEGER, prompt TEXT, arm INTEGER, seq INTEGER, value REAL,
    line INTEGER
)"""
_SORTED = """SELECT metric, launch, block, prompt, arm, seq, value, line FROM found
    ORDER BY metric, launch, block, prompt, arm, seq, line"""
_ARMS = (_CONTROL, _CANDIDATE) = (Arm.CONTROL.value, Arm.CANDIDATE.value)
_UNITS_APART_LOG = math.log(UNITS_APART)

_Sorted = tuple[str, int, int, str, int, int, float, int]
_METRIC: Final = 0
_LAUNCH: Final = 1
_BLOCK: Final = 2
_PROMPT: Final = 3
_ARM: Final = 4
_VALUE: Final = 6
_LINE: Final = 7


@dataclass
class _Block:
    """One block of a launch pair: the logs of its requests by arm, and their differences by prompt."""

    launch: int
    number: int
    logs: dict[str, array[float]] = field(default_factory=lambda: {arm: array("d") for arm in _ARMS})
    ratios: array[float] = field(default_factory=lambda: array("d"))
    samples: int = 0
    alone: tuple[str, str] | None = None
    """A prompt that one arm alone answered, and that arm."""

    def add(self, prompt: str, request: dict[str, float]) -> None:
        """Take the medians of one prompt, natural log, by arm."""
        for arm, log in request.items():
            self.logs[arm].append(log)
        if len(request) == len(_ARMS):
            self.ratios.append(request[_CANDIDATE] - request[_CONTROL])
        else:
            self.alone = (prompt, next(iter(request)))

    def unpaired(self) -> UsageError | None:
        """Why the arms can't be compared in this block, if they can't."""
        if self.alone is None:
            return None
        prompt, arm = self.alone
        if not self.logs[_other(arm)]:
            return UsageError(
                f"Block {self.number} of launch {self.launch} was measured in the {arm} alone.",
                "Blocks of equal number stand beside each other: number them alike, or leave this one out.",
            )
        return UsageError(
            f"The arms answered different prompts in launch {self.launch}, block {self.number}: "
            f"{prompt[:40]!r} in the {arm} alone.",
            "Give both arms of a block the same prompts, or leave this one out.",
        )


@dataclass
class _Levels:
    """The least and the greatest typical value of a block, natural log, and how many prompts differ strangely
    between the arms."""

    metric: str
    least: tuple[float, str] = (math.inf, "")
    most: tuple[float, str] = (-math.inf, "")
    prompts: int = 0
    strange: int = 0

    def add(self, block: _Block) -> None:
        for arm, logs in block.logs.items():
            if not logs:
                continue
            log = _median(logs)
            if self.least[0] <= log <= self.most[0]:
                continue
            where = f"{math.exp(log):.3g} in {arm} launch {block.launch}, block {block.number}"
            self.least = min(self.least, (log, where))
            self.most = max(self.most, (log, where))
        self.prompts += len(block.ratios)
        self.strange += sum(abs(ratio) > _UNITS_APART_LOG for ratio in block.ratios)

    def check(self) -> None:
        hint = "Give all values of a metric in one unit, the one in its name; or judge the two kinds apart."
        if self.most[0] - self.least[0] > _UNITS_APART_LOG:
            raise UsageError(
                f"The file mixes units: {self.metric} is {self.least[1]}, and {self.most[1]}.", hint
            )
        if self.strange > STRANGE_SHARE * self.prompts:
            raise UsageError(
                f"The file mixes units: {self.strange} of {self.prompts} prompts differ more than "
                f"{UNITS_APART:g} times in {self.metric} between the arms.",
                hint,
            )


@dataclass(frozen=True)
class Table:
    """What a CSV holds: the effect of each launch pair by metric, in order of launch."""

    effects: dict[Metric, tuple[PairEffect, ...]] = field(default_factory=dict)


def pair_table(rows: Iterable[Row], validation_pairs: int = 0) -> Table:
    """Sort the rows and reduce them to pair effects; the last `validation_pairs` are marked as validation.

    Raises `UsageError` for rows given twice, an arm or a launch, block or prompt without its partner, fewer
    than two launches an arm, and values in different units; `DiskFull` where the rows find no room.
    """
    try:
        with closing(sqlite3.connect("", isolation_level=None)) as connection:
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            connection.execute("PRAGMA temp_store = FILE")
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute(_TABLE)
            _fill(connection, rows)
            found = {}
            for name, of_metric in groupby(_unique(connection.execute(_SORTED)), itemgetter(_METRIC)):
                found[Metric(name)] = _pairs(name, of_metric, validation_pairs)
            return Table(found)
    except sqlite3.OperationalError as error:
        if "full" not in str(error):
            raise
        raise DiskFull(
            "No space is left for sorting the rows.",
            "Free some space, or name another folder for temporary files with TMPDIR.",
        ) from None


def _fill(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    waiting = iter(rows)
    connection.execute("BEGIN")
    while batch := list(islice(waiting, BATCH_ROWS)):
        connection.executemany(
            "INSERT INTO found VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (r.metric.value, r.launch, r.block, r.prompt, _ARMS.index(r.arm), r.seq, r.value, r.line)
                for r in batch
            ],
        )
    connection.execute("COMMIT")


def _unique(rows: Iterable[_Sorted]) -> Iterator[_Sorted]:
    """The sorted rows; two of one key are refused."""
    before: _Sorted | None = None
    for row in rows:
        if before is not None and row[:_VALUE] == before[:_VALUE]:
            metric, launch, block, prompt, arm, seq = row[:_VALUE]
            raise UsageError(
                f"Lines {before[_LINE]} and {row[_LINE]} are of one value: {_ARMS[arm]} launch {launch}, "
                f"block {block}, prompt {prompt[:40]!r}, {metric}, seq {seq}.",
                f"Give every value once; several values of one request are told apart by a column {SEQ}.",
            )
        before = row
        yield row


def _pairs(name: str, rows: Iterable[_Sorted], validation_pairs: int) -> tuple[PairEffect, ...]:
    """The pairs of one metric from its sorted rows."""
    sign = -1.0 if Metric(name) in HIGHER_IS_BETTER else 1.0
    levels = _Levels(name)
    launches: dict[str, set[int]] = {arm: set() for arm in _ARMS}
    ratios: dict[int, array[float]] = {}
    samples: dict[int, int] = {}
    unpaired: UsageError | None = None
    for block in _blocks(rows):
        levels.add(block)
        for arm, logs in block.logs.items():
            if logs:
                launches[arm].add(block.launch)
        unpaired = unpaired or block.unpaired()
        samples[block.launch] = samples.get(block.launch, 0) + block.samples
        found = ratios.setdefault(block.launch, array("d"))
        if len(ratios) > MOST_LAUNCHES:
            raise UsageError(
                f"The file holds more than {MOST_LAUNCHES} launches of {name}.",
                "Number the launches, which are fresh processes, not the requests.",
            )
        if block.ratios:
            found.append(sign * _median(block.ratios))
    _check_launches(name, launches)
    if unpaired is not None:
        raise unpaired
    levels.check()
    first_validation = len(ratios) - validation_pairs
    return tuple(
        effect_of_ratios(launch, found, samples[launch], validation=place >= first_validation)
        for place, (launch, found) in enumerate(ratios.items())
    )


def _blocks(rows: Iterable[_Sorted]) -> Iterator[_Block]:
    """The blocks of both arms, each from the medians of its requests."""
    for (launch, number), of_block in groupby(rows, _place):
        block = _Block(launch, number)
        for prompt, of_prompt in groupby(of_block, itemgetter(_PROMPT)):
            request: dict[str, float] = {}
            for arm, of_arm in groupby(of_prompt, itemgetter(_ARM)):
                values = array("d", map(itemgetter(_VALUE), of_arm))
                block.samples += len(values)
                request[_ARMS[arm]] = math.log(_median(values))
            block.add(prompt, request)
        yield block


def _check_launches(name: str, launches: dict[str, set[int]]) -> None:
    """Both arms, equal launches, and at least two of them."""
    for arm in _ARMS:
        if not launches[arm]:
            raise UsageError(
                f"The file holds no {arm}: {name} was given for the {_other(arm)} alone.",
                f"Measure both arms, and give the rows of the {arm} too.",
            )
    lonely = sorted(launches[_CONTROL] ^ launches[_CANDIDATE])
    if lonely:
        arm = next(each for each in _ARMS if lonely[0] in launches[each])
        raise UsageError(
            f"Launch {lonely[0]} of the {arm} has no launch {lonely[0]} of the {_other(arm)} beside it "
            f"({name}).",
            "Launches of equal number form a pair: number them alike, or leave out one without a partner.",
        )
    if len(launches[_CONTROL]) < LEAST_LAUNCHES:
        raise UsageError(
            f"Only one launch of each arm was measured ({name}), and one says nothing about the next.",
            "Measure both arms in fresh processes, at least two of each and better four, and number them.",
        )


def _other(arm: str) -> str:
    return _CANDIDATE if arm == _CONTROL else _CONTROL


def _place(row: _Sorted) -> tuple[int, int]:
    return row[_LAUNCH], row[_BLOCK]


def _median(values: array[float]) -> float:
    return values[0] if len(values) == 1 else float(median(values))
