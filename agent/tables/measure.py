"""Measures the loads of a grid on one device: all cells of a load, then the next one.

On a device one thing is measured at a time, by the one thread that has it. `loads_together` launches come up
at once, as far as they fit into the memory that is free, and are measured in turn when all are up: the others
are idle then. With `loads_ahead` so many launches come up while it measures, which is faster and may do
times harm (docs/tables.md). Each cell tells whether another load was under way, so that what that does can be
seen; the grid's `same` cells are measured for just that.

A load that failed for lack of memory beside another one is tried again when it is alone. Where it lacks some
alone, and something holds memory though no launch is up, such as what a hung one left, nothing is put down to
it: the device is left, with who holds how much. Everything is in the journal as soon as it is known, and what
is there is not measured again.

A GPU is watched while it serves a cell, and a cell in which it throttled is served again, by the rule of a
campaign's blocks (`experiments.job.watched_block`); the journal has what the GPU did in each attempt.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from agent.tables.cell import kept, requests_of, warm_up
from agent.tables.clock import Budget
from agent.tables.device import BESIDE_BYTES, TableDevice
from agent.tables.grid import DUMMY, PlannedLoad, TableWorkload
from agent.tables.journal import Journal
from agent.tables.load_words import told
from agent.tables.loading import Loading, Sources, needed_bytes
from agent.tables.profiled import profiled
from agent.tables.work import Work
from configs.quantities import format_duration
from experiments.engines.port import GenerationTrace, Infeasible, Launch
from experiments.job.open_launch import prepare
from experiments.job.watched_block import WatchedBlocks, throttling_told
from experiments.measurement.environment import moment
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration
from experiments.telemetry.watching import GpuWatch
from knowledge.figures import counted

ALONE, LOADING, LOADED = "nothing loads", "another loads", "another is loaded"
"""What goes on beside a cell of `same`."""

FREED_S, FREED_POLL_S = 10.0, 0.2
"""Seconds within which a driver gives back the memory of a process that has ended, and between two looks."""

RECENT_LOADS = 3
"""By how many of the last loads it is told whether one more would be up in time: the first compiles what the
others find compiled, and takes two to three times as long."""

DEADLY = ("crashed", "timed_out", "out_of_memory")
"""Failures of a cell after which its launch is no more."""


class DeviceRun:
    """Measures on one device until nothing is left or the budget is over; `tell` gets a sentence for each
    thing that happens."""

    def __init__(
        self,
        work: Work,
        device: TableDevice,
        sources: Sources,
        journal: Journal,
        budget: Budget,
        loads_ahead: int,
        tell: Callable[[str], None],
        *,
        loads_together: int = 1,
        with_profile: bool = False,
        gpu_watch: Callable[[], GpuWatch] | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """`gpu_watch` makes what reads the device while a cell is served, None for none; `wait` waits for so
        many seconds."""
        self._gpu_watch, self._wait = gpu_watch, wait
        self._blocks = WatchedBlocks(Configuration.of({}))
        self._work, self._device, self._sources, self._journal = work, device, sources, journal
        self._budget, self._loads_ahead, self._loads_together = budget, loads_ahead, loads_together
        self._told, self._with_profile = tell, with_profile
        self._ahead: deque[Loading] = deque()
        self._current: Loading | None = None
        self._alone: set[str] = set()
        self._load_s: deque[float] = deque(maxlen=RECENT_LOADS)
        self._failed_last = ""
        self.left: str | None = None
        """Why the device was left with something to measure, in a clause; None where it was not."""

    def _tell(self, text: str) -> None:
        self._told(f"{self._device.device}: {text}")

    def run(self) -> None:
        """Measure; leaves nothing on the device but loads that are under way when the budget ends."""
        try:
            while not self._budget.is_over and self.left is None:
                if not self._ahead:
                    self._begin_loads(self._loads_together)
                self._current = self._next()
                if self._current is None:
                    return
                if self._current.failure is not None:
                    self._load_failed(self._current, self._current.failure)
                else:
                    self._measure(self._current)
                self._current.close()
                self._current = None
        finally:
            for loading in (self._current, *self._ahead):
                if loading is not None:
                    loading.close()

    def _next(self) -> Loading | None:
        """The first of the loads ahead that is up or has failed. All that come up together are waited for, so
        that none loads beside what is measured; else nobody waits for a slow one while another is there.
        None when nothing is ahead, or the budget ends before."""
        if not self._ahead:
            return None
        every = any if self._loads_together > 1 else all
        while every(each.is_under_way for each in self._ahead) and not self._budget.is_over:
            first = next(each for each in self._ahead if each.is_under_way)
            first.wait(lambda: not self._budget.is_over and every(each.is_under_way for each in self._ahead))
        ready = next((each for each in self._ahead if not each.is_under_way), None)
        if ready is not None and not self._budget.is_over:
            self._ahead.remove(ready)
            return ready
        return None

    def _begin_loads(self, wanted: int) -> None:
        """Begin loads until so many are ahead, as far as there are any, they fit and there is time."""
        while len(self._ahead) < wanted and self._budget.left_s > max(self._load_s, default=0.0):
            load = self._work.take()
            if load is None:
                return
            digest = self._work.grid.digest(load)
            coming = sum(each.needed_bytes() + BESIDE_BYTES for each in self._ahead if each.is_under_way)
            beside = self._current is not None or bool(self._ahead)
            if any(each.digest in self._alone for each in self._ahead):
                self._work.put_first(load)
                return
            if beside and (
                digest in self._alone
                or not self._device.has_room(coming + needed_bytes(load, digest, self._sources))
            ):
                self._work.put_first(load)
                return
            if not beside:
                self._wait_for_room(load, digest)
                if not self._has_room(load, digest) and self._is_held(load, digest):
                    return
            for each in self._ahead:
                each.beside = True
            self._tell(f"loads {digest}: {told(self._work.grid, load)}")
            self._ahead.append(Loading(load, digest, beside, self._sources, self._device.device).start())

    def _wait_for_room(self, load: PlannedLoad, digest: str) -> None:
        """Wait a little for the memory of a launch that has just ended; what is then still missing, the
        engine's own check tells."""
        self._wait_until(lambda: self._has_room(load, digest))

    def _has_room(self, load: PlannedLoad, digest: str) -> bool:
        return self._device.has_room(needed_bytes(load, digest, self._sources))

    def _wait_until(self, given_back: Callable[[], bool]) -> None:
        until_s = time.monotonic() + FREED_S
        while not given_back() and time.monotonic() < until_s and not self._budget.is_over:
            time.sleep(FREED_POLL_S)

    def _is_held(self, load: PlannedLoad, digest: str) -> bool:
        """Whether something holds memory though no launch is up, which is why this load has no room: it is
        put back, and the device is left."""
        held = self._device.held_by(needed_bytes(load, digest, self._sources))
        if held is None or self._budget.is_over:
            return False
        self._work.put_first(load)
        device = self._device.device
        self.left = (
            f"{device} has no room for {digest}, because something else holds its memory: "
            f"{held}{self._failed_last}; end it, or reset the GPU where it can't be ended (`nvidia-smi "
            "--gpu-reset`), and give the same command again"
        )
        return True

    def _load_failed(self, loading: Loading, failure: Infeasible) -> None:
        if self._budget.is_stopped:  # what ended us ended it too
            return
        if failure.kind == "out_of_memory" and not (loading.beside or self._ahead):
            self._wait_until(lambda: self._device.held_by() is None)
            if self._is_held(loading.load, loading.digest):
                return
        if loading.beside and failure.kind == "out_of_memory":
            self._alone.add(loading.digest)
        self._failed(loading, failure, {"seconds": loading.seconds, "beside": loading.beside})
        again = self._work.put_last(loading.load)
        self._tell(
            f"{loading.digest} did not load ({failure.kind}): {failure.cause}"
            + (" It is tried again." if again else "")
        )

    def _failed(self, loading: Loading, failure: Infeasible, more: Mapping[str, Any]) -> None:
        self._failed_last = (
            f"; before it {loading.digest} failed ({failure.kind}): {failure.cause.rstrip('.')}"
        )
        self._add(
            "failure",
            loading,
            {"failure": {"kind": failure.kind, "cause": failure.cause}, "workload": None, **more},
        )

    def _measure(self, loading: Loading) -> None:
        launch = loading.launch
        assert launch is not None
        self._load_s.append(loading.seconds)
        number = uuid.uuid4().hex
        self._blocks = WatchedBlocks(loading.load.configuration)
        begun_s = time.monotonic()
        cells = self._work.cells_left(loading.load)
        try:
            resolved = launch.resolved()
            self._add(
                "load",
                loading,
                {
                    "launch": number,
                    "load_s": launch.load_s,
                    "load_parts_s": dict(getattr(launch, "load_parts_s", {})),
                    "beside": loading.beside,
                    "resolved": resolved,
                },
            )
            most = int(loading.load.configuration.get("serving.max_sequences", 1))
            for requests, at_once in warm_up(self._work.grid.workloads, self._sources.words, most):
                launch.serve(requests, at_once)
        except Infeasible as failure:
            if self._budget.is_stopped:
                return
            self._failed(loading, failure, {"launch": number})
            self._work.put_last(loading.load)
            self._tell(f"{loading.digest} failed while it warmed up: {failure.cause}")
            return
        alive = self._same(loading, launch, number, ALONE)
        self._begin_loads(self._loads_ahead)
        alive = alive and self._same(loading, launch, number, LOADING)
        for workload in cells:
            if not alive or self._budget.is_over:
                break
            alive = self._cell(loading, launch, number, workload, None)
        if alive and self._has_same(loading) and len(self._ahead) == 1:  # of several some still load
            self._ahead[0].wait(lambda: not self._budget.is_over)
            alive = self._same(loading, launch, number, LOADED)
        wanted = self._with_profile and not self._work.is_profiled(loading.load)
        if alive and wanted and not self._budget.is_over:
            self._profile(loading, launch, number)
        self._work.put_last(loading.load)
        self._tell(
            f"measured {loading.digest} in {format_duration(time.monotonic() - begun_s)}, loaded in "
            f"{format_duration(launch.load_s)}; {counted(len(self._work), 'load')} not begun"
        )

    def _profile(self, loading: Loading, launch: Launch, number: str) -> None:
        """Keep the time of a decode step by part at concurrency 1, and of a lone prompt where the engine
        tells it; the launch is timed no more afterwards. A profile that fails is told and leaves the load
        measured."""
        workload = min(self._work.grid.workloads, key=lambda each: (each.concurrency, each.prompt_tokens))
        request = requests_of(workload, self._sources.words, self._work.grid.seed, "profile")[0]
        found = profiled(launch, request)
        failure, prompt = found.get("failure"), found.get("prompt", {})
        if failure:
            self._tell(f"{loading.digest} was not profiled ({failure['kind']}): {failure['cause']}")
        elif "failure" in prompt:
            self._tell(f"{loading.digest}: a lone prompt was not profiled: {prompt['failure']}")
        described = {**asdict(workload), "key": workload.key}
        self._add("profile", loading, {"launch": number, "workload": described, **found})

    def _has_same(self, loading: Loading) -> bool:
        same = self._work.grid.same
        return same is not None and loading.digest in same.loads and self._loads_ahead > 0

    def _same(self, loading: Loading, launch: Launch, number: str, beside: str) -> bool:
        """Measure the grid's `same` cells while that goes on beside; whether the launch is still there."""
        same = self._work.grid.same
        if same is None or not self._has_same(loading):
            return True
        for repeat in range(same.repeats):
            for workload in self._work.same_left(loading.load, beside):
                if self._budget.is_over or self._goes_on() != beside:
                    return True
                if not self._cell(loading, launch, number, workload, {"beside": beside, "repeat": repeat}):
                    return False
        return True

    def _goes_on(self) -> str:
        if any(each.is_under_way for each in self._ahead):
            return LOADING
        return LOADED if self._ahead else ALONE

    def _cell(
        self,
        loading: Loading,
        launch: Launch,
        number: str,
        workload: TableWorkload,
        same: Mapping[str, Any] | None,
    ) -> bool:
        """Measure one cell; whether the launch is still there."""
        grid, device = self._work.grid, self._device.device
        which = "" if same is None else f"{same['beside']}/{same['repeat']}"
        requests = requests_of(workload, self._sources.words, grid.seed, which)
        described = {**asdict(workload), "key": workload.key}
        before, beside, seconds = moment(device), self._goes_on(), 0.0
        gpu: dict[str, Json] | None = None

        def serve() -> list[GenerationTrace]:
            nonlocal beside, seconds
            begun_s, beside = time.monotonic(), self._goes_on()
            served = launch.serve(requests, workload.concurrency)
            seconds = time.monotonic() - begun_s
            return served

        try:
            prepare(launch, requests)
            if self._gpu_watch is None:
                traces = serve()
            else:
                traces, gpu = self._blocks.run(serve, self._gpu_watch, self._wait)
        except Infeasible as failure:
            if not self._budget.is_stopped:
                self._cell_failed(loading, failure, workload, {"workload": described, "launch": number}, same)
            return failure.kind not in DEADLY
        self._add(
            "cell",
            loading,
            {
                "launch": number,
                "workload": described,
                "seed": grid.seed,
                "run_s": seconds,
                "beside": {"at_start": beside, "at_end": self._goes_on()},
                "same": None if same is None else dict(same),
                "machine": {"before": before, "after": moment(device)},
                **({} if gpu is None else {"gpu": gpu}),
                "requests": kept(traces),
            },
        )
        if (throttling := throttling_told(gpu)) is not None:
            self._tell(f"{loading.digest} {workload.key}: {throttling}")
        return True

    def _cell_failed(
        self,
        loading: Loading,
        failure: Infeasible,
        workload: TableWorkload,
        told: Mapping[str, Any],
        same: Mapping[str, Any] | None,
    ) -> None:
        """Keep why a cell failed, and say whether it is tried again: a cell of `same` counts for itself."""
        if same is None:
            self._failed(loading, failure, told)
            which, left = "", self._work.cells_left(loading.load)
        else:
            self._failed(loading, failure, {**told, "same": dict(same)})
            which, left = f" ({same['beside']})", self._work.same_left(loading.load, same["beside"])
        comes_back = same is None or failure.kind not in DEADLY or self._work.cells_left(loading.load)
        again = "It is tried again." if workload in left and comes_back else "It is left out from now on."
        self._tell(f"{loading.digest} {workload.key}{which} failed ({failure.kind}): {failure.cause} {again}")

    def _add(self, kind: str, loading: Loading, more: Mapping[str, Any]) -> None:
        grid, load = self._work.grid, loading.load
        line = {
            "grid": grid.name,
            "model": grid.model,
            "weights": grid.weights,
            "latency_only": grid.weights == DUMMY,
            "load": loading.digest,
            "configuration": dict(load.configuration),
            "stored_as": load.stored,
            **more,
        }
        self._journal.add(kind, line, self._device.identity())
        self._work.add({"kind": kind, **line})
