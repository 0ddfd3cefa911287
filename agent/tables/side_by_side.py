"""Measures prepared loads in batches: all launches of a batch are up, and served one at a time, in turns.

Launches of a processor come up in seconds and are still while nobody asks them, so that many can be up at
once. A batch is the grid's first load, the control, and some others: first they are all loaded, as many at a
time as there are cores; then, with nothing loading, every turn goes over all of them with the same prompts,
in an order drawn for two turns, forwards and then backwards (ABBA). What the machine's pace does meanwhile it
does to all of a batch alike, and between batches the control tells it.

Which loads make a batch is drawn with the grid's seed, among loads that stand near each other in the file, so
that no kind of load meets a slow hour alone, and what tells most still comes first. Each pass draws anew and
takes fresh launches of each load. A batch is in the journal when it is measured: a call that is killed loses
one. One beside which other work took the processor is measured again.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from agent.tables.beside import beside_cores, is_disturbed, undisturbed
from agent.tables.cell import kept
from agent.tables.device import leased
from agent.tables.grid import PlannedLoad
from agent.tables.ground import ARTIFACTS, Ground, launch_processor_s, load_fields
from agent.tables.journal import Line, Measured, read_journal, scope_of
from agent.tables.load_words import told
from agent.tables.measure import ALONE
from agent.tables.prepared import Prepared
from agent.tables.profiled import profiled
from agent.tables.run import Ended
from configs.cpu import usable_cores
from configs.errors import UsageError
from configs.quantities import format_duration
from experiments.artifacts.manifest import FILES_FOLDER
from experiments.engines.port import GenerationTrace, Infeasible, Launch
from experiments.measurement.environment import moment
from experiments.measurement.evidence import Json
from knowledge.figures import counted

ORIGINAL = "original"
"""Names the checkpoint of the grid's model, which no artifact made."""

MOST_DISTURBED = 3
"""Disturbed batches in a row after which nothing more is tried."""


@dataclass
class _Up:
    """A launch of a batch, and what it was asked so far."""

    load: PlannedLoad
    launch: Launch
    number: str
    traces: list[GenerationTrace] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)


class SideBySideRun:
    """Measures what of a grid is prepared and not measured yet; `tell` gets a sentence a batch."""

    def __init__(self, ground: Ground, tell: Callable[[str], None]) -> None:
        self._ground, self._tell = ground, tell
        self._batch_s: list[float] = []
        self._resolved: dict[str, dict[str, Json]] = {}
        self._disturbed = 0  # batches in a row

    def run(self) -> Ended:
        """Measure until nothing is left or the budget is over.

        Raises `UsageError` for a grid whose first load is not prepared, and `AutoinferError` for a device
        that another process holds.
        """
        ground = self._ground
        journal = self._journal = ground.journal()
        self._lines = self._read() if ground.journal_path.is_file() else []
        self._prepared = Prepared(self._lines)
        if ground.grid.digest(ground.grid.loads[0]) not in self._prepared.ready:
            raise UsageError(
                f"The first load of {ground.grid.name} is not prepared in {ground.folder}.",
                f"Prepare it: autoinfer table prepare {ground.grid.name} --out {ground.folder}",
            )
        journal.add(
            "begin", {"grid": ground.grid.name, "command": ground.command, "budget_s": ground.budget.wall_s}
        )
        with leased(ground.device.device, ground.leases):
            left, before = self._all_left(), None
            while left and (left != before or self._disturbed) and self._goes_on():
                self._measure_once_more()
                left, before = self._all_left(), left
        unprepared = self._unprepared()
        why = "it was told to end" if ground.budget.is_stopped else "the budget is over"
        if self._disturbed >= MOST_DISTURBED:
            why = "other work keeps the processor busy; when the machine is quiet, the same command goes on"
        why = why if left else "all that is prepared is measured"
        why += f"; {unprepared} are not prepared" if unprepared else ""
        journal.add("end", {"loads_left": left, "reason": why})
        return Ended(left, why)

    def _goes_on(self) -> bool:
        """Whether a batch would have time, and the machine has not been busy for several in a row."""
        return (
            self._ground.budget.left_s >= max(self._batch_s, default=1.0) and self._disturbed < MOST_DISTURBED
        )

    def _measure_once_more(self) -> None:
        """Go over the batches of all passes of what is left."""
        for number in range(self._ground.turns.passes):
            for batch in batches(self._ground, self._left(number), number):
                if not self._goes_on():
                    return
                self._measure(batch, number)

    def _all_left(self) -> int:
        return sum(len(self._left(number)) for number in range(self._ground.turns.passes))

    def _read(self) -> list[Line]:
        """The lines of this kind of device and version, without disturbed batches."""
        found = read_journal(self._ground.journal_path)
        return undisturbed(line for line in found if scope_of(line) == self._ground.device.scope)

    def _unprepared(self) -> int:
        """How many loads are neither prepared nor failed."""
        grid, measured = self._ground.grid, Measured(self._read(), self._ground.device.scope)
        digests = map(grid.digest, grid.loads)
        return sum(each not in self._prepared.ready and not measured.load_is_over(each) for each in digests)

    def _left(self, number: int) -> list[PlannedLoad]:
        """The loads that are prepared and have no launch of this pass, nor failed for good."""
        grid, lines = self._ground.grid, self._read()
        measured = Measured(lines, self._ground.device.scope)
        done = {line["load"] for line in lines if line["kind"] == "cell" and line["pass"] == number}
        found = []
        for load in grid.loads[1:]:
            digest = grid.digest(load)
            if digest in self._prepared.ready and digest not in done and not measured.load_is_over(digest):
                found.append(load)
        return found

    @property
    def _turns(self) -> int:
        """Turns of a batch."""
        return self._ground.grid.workloads[0].requests // self._ground.turns.prompts_a_turn

    def _measure(self, loads: Sequence[PlannedLoad], number: int) -> None:
        begun_s, batch = time.monotonic(), uuid.uuid4().hex
        ups: list[_Up] = []
        try:
            ups = self._load([self._ground.grid.loads[0], *loads])
            loaded_s = time.monotonic() - begun_s
            before, ours_s, all_s = moment(self._ground.device.device), _processor_s(ups), _machine_s()
            timed_s = time.monotonic()
            for turn in range(self._turns):
                if self._ground.budget.is_stopped:
                    return
                self._turn(ups, turn, batch)
            after = moment(self._ground.device.device)
            machine = {
                "batch": batch,
                "pass": number,
                "before": before,
                "after": after,
                "loads_s": round(loaded_s, 2),
                "wall_s": round(time.monotonic() - timed_s, 2),
                "ours_processor_s": round(_processor_s(ups) - ours_s, 2),
                "machine_processor_s": round(_machine_s() - all_s, 2),
                "most_beside_cores": self._ground.turns.most_beside_cores,
            }
            self._journal.add("batch", machine)
            disturbed = is_disturbed(machine)
            self._disturbed = self._disturbed + 1 if disturbed else 0
            for up in () if disturbed else ups:
                self._keep(up, batch, number)
            for up in () if disturbed else ups[:1]:
                self._profile(up)
        finally:
            for up in ups:
                up.launch.close()
        self._batch_s.append(time.monotonic() - begun_s)
        if disturbed:
            self._tell(
                f"pass {number + 1}: other work took {beside_cores(machine):.1f} cores beside "
                f"{counted(len(ups), 'launch', 'launches')}, to be measured again"
            )
            return
        launches = counted(len(ups), "launch", "launches")
        self._tell(
            f"pass {number + 1}: {launches} loaded in {format_duration(loaded_s)} and served in "
            f"{format_duration(time.monotonic() - timed_s)}; "
            f"{counted(len(self._left(number)), 'load')} of it left"
        )

    def _load(self, loads: Sequence[PlannedLoad]) -> list[_Up]:
        """All launches that came up, each warmed up; those that did not are failures in the journal."""
        with ThreadPoolExecutor(max_workers=usable_cores(), thread_name_prefix="load") as pool:
            found = list(pool.map(self._launched, loads))
        ups = []
        for load, launch in zip(loads, found, strict=True):
            if isinstance(launch, Infeasible):
                self._failed(load, launch)
                continue
            up = _Up(load, launch, uuid.uuid4().hex)
            try:
                launch.serve(self._warmup(), 1)
                ups.append(up)
            except Infeasible as failure:
                launch.close()
                self._failed(load, failure)
        return ups

    def _launched(self, load: PlannedLoad) -> Launch | Infeasible:
        ready = self._prepared.ready[self._ground.grid.digest(load)]
        try:
            return self._ground.launch(load.configuration, self._folder(ready["checkpoint"]), ready["load"])
        except Infeasible as failure:
            return failure

    def _folder(self, checkpoint: str) -> Path:
        if checkpoint == ORIGINAL:
            return self._ground.checkpoint
        return self._ground.folder / ARTIFACTS / checkpoint / FILES_FOLDER

    def _warmup(self) -> Sequence[Any]:
        return self._ground.material.warmup(self._ground.workload, self._ground.grid.seed)

    def _turn(self, ups: list[_Up], turn: int, batch: str) -> None:
        """Serve a turn's prompts by each launch; one that dies is a failure, and the others go on."""
        ground = self._ground
        requests = ground.material.requests(ground.workload, ground.grid.seed, 0, turn)
        order = list(ups)
        random.Random(f"{batch}/{turn // 2}").shuffle(order)
        for up in reversed(order) if turn % 2 else order:
            try:
                up.traces += up.launch.serve(requests, 1)
                up.turns += [turn] * len(requests)
            except Infeasible as failure:
                ups.remove(up)
                up.launch.close()
                self._failed(up.load, failure)

    def _keep(self, up: _Up, batch: str, number: int) -> None:
        """Keep what a launch was measured at; one that ends before it tells what it runs is a failure."""
        workload = self._ground.grid.workloads[0]
        told = {**load_fields(self._ground.grid, up.load), "launch": up.number, "batch": batch}
        try:
            resolved = dict(up.launch.resolved())
        except Infeasible as failure:
            self._failed(up.load, failure)
            return
        known = self._resolved.get(told["load"]) == resolved
        self._resolved[told["load"]] = resolved
        parts = dict(getattr(up.launch, "load_parts_s", {}))
        self._journal.add(
            "load",
            {
                **told,
                "load_s": up.launch.load_s,
                "load_parts_s": parts,
                "resolved": None if known else resolved,  # None: as in the line of this load before
            },
        )
        requests = [
            {**request, "turn": turn} for request, turn in zip(kept(up.traces), up.turns, strict=True)
        ]
        cell = {
            "pass": number,
            "control": self._ground.grid.digest(self._ground.grid.loads[0]),
            "workload": {**asdict(workload), "key": workload.key},
            "seed": self._ground.grid.seed,
            "run_s": sum(trace.token_times_s[-1] for trace in up.traces),
            "beside": {"at_start": ALONE, "at_end": ALONE},
            "same": None,
            "requests": requests,
        }
        self._journal.add("cell", {**told, **cell})

    def _profile(self, up: _Up) -> None:
        """Keep the time of the control's step by part, once; it is timed no more afterwards."""
        ground = self._ground
        fields = load_fields(ground.grid, up.load)
        if fields["number"] or any(line["kind"] == "profile" for line in self._read()):
            return
        workload = ground.grid.workloads[0]
        request = ground.material.requests(ground.workload, ground.grid.seed, 0, 0)[0]
        told = {"launch": up.number, "workload": {**asdict(workload), "key": workload.key}}
        self._journal.add("profile", {**fields, **told, **profiled(up.launch, request)})

    def _failed(self, load: PlannedLoad, failure: Infeasible) -> None:
        if self._ground.budget.is_stopped:  # what ended us ended it too
            return
        fields = load_fields(self._ground.grid, load)
        cause = {"kind": failure.kind, "cause": failure.cause}
        self._journal.add("failure", {**fields, "failure": cause, "workload": None})
        self._tell(
            f"{fields['load']} failed ({failure.kind}): {told(self._ground.grid, load)}: {failure.cause}"
        )


def batches(ground: Ground, loads: Sequence[PlannedLoad], number: int) -> Iterator[list[PlannedLoad]]:
    """The loads of a pass by batches, without the control that each has; the same for the same seed and
    loads."""
    draw = random.Random(f"{ground.grid.seed}/{number}")
    among, size = ground.turns.shuffled_among, ground.turns.launches - 1
    ordered = []
    for first in range(0, len(loads), among):
        near = list(loads[first : first + among])
        draw.shuffle(near)
        ordered += near
    for first in range(0, len(ordered), size):
        yield ordered[first : first + size]


def _processor_s(ups: Sequence[_Up]) -> float:
    """Seconds of all cores that the launches have taken so far."""
    return sum(launch_processor_s(up.launch) or 0.0 for up in ups)


def _machine_s() -> float:
    """Seconds of all cores that anything on this machine has taken since it was started."""
    times = psutil.cpu_times()
    still = times.idle + getattr(times, "iowait", 0.0)
    # a guest's time is within that of its host's processes
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - still - guests)
