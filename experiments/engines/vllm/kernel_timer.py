"""Times vLLM's linear kernels before anything is loaded; seen from the parent. Imports no torch.

Processes in vLLM's Python (`kernel_timing_process.py`), the *lanes*, are asked for one product by one kernel
after the other, in the order of `timing_order.py`. What a kernel compiles when it first runs may take much
longer than to time it (10 to 20 s a shape, on an H100's host), so several lanes compile side by side; they
take turns on the device, so that one product is timed at a time.

All lanes are ended whole when the limit is reached, one of them when its answer takes too long, and all at
the end. After a kernel that left a lane broken another process is begun, as long as there is time. What the
limit of all cut off is left for a later timing, which is given what this one came to; what did not answer
within the limit of one answer is not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from configs.errors import DiskFull
from configs.quantities import format_duration
from experiments.engines.kernel_timings import KernelTimings, PartTiming, Product
from experiments.engines.one_answer import python_command
from experiments.engines.port import Infeasible
from experiments.engines.server_process import SOCKETS, ServerProcess, sockets_parent
from experiments.engines.vllm.driver_process import driver_environment
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.kernel_timing_process import AGAIN, BROKEN, OK_PART, TURN
from experiments.engines.vllm.lanes import Machine, lanes_for
from experiments.engines.vllm.timing_order import Case, Task, TimingOrder
from experiments.measurement.evidence import Json
from experiments.scratch import ScratchFolder
from experiments.telemetry.free_memory import MemoryUnknown, device_memory

PROCESS_MODULE = "experiments.engines.vllm.kernel_timing_process"

BEGIN_LIMIT_S = 90.0
"""Most seconds until a lane has imported vLLM: 26 on an H100's host that had not read its files before."""

LIMIT_S = 75.0
"""Most seconds after that for all kernels and formats together, lanes that are begun anew among them. One
kernel is compiled for 10 to 20 s a shape on an H100's host; four lanes do seven shapes in three rounds, for
the first goes alone."""

ANSWER_LIMIT_S = 45.0
"""Most seconds for one product: what is compiled when it first runs, and the turns of the other lanes."""

LEAST_LIMIT_S = 1.0
"""An answer that was asked for has so many seconds, though the limit of all ends sooner."""


def machine_for(device: str) -> Machine:
    """This machine as it is now, for lanes on a device."""
    on_device = None
    if device != "cpu":
        with suppress(MemoryUnknown):
            on_device = device_memory(device).free_bytes
    return Machine(os.cpu_count() or 1, psutil.virtual_memory().available, on_device)


@dataclass(frozen=True)
class Order:
    """What is timed, and where: products, rows of an input, the type of activations, `cpu` or `cuda:N`."""

    products: tuple[Product, ...]
    rows: int
    dtype: str
    device: str


@dataclass(frozen=True)
class Limits:
    """Seconds: for all, until a lane has begun, for one answer."""

    all_s: float = LIMIT_S
    begin_s: float = BEGIN_LIMIT_S
    answer_s: float = ANSWER_LIMIT_S


@dataclass(frozen=True)
class Limit:
    """Seconds that are given to one thing; `is_rest` where that is what is left of the limit of all."""

    seconds: float
    is_rest: bool = False

    def ended_by(self, failure: Infeasible) -> bool:
        """Whether the limit of all ended it, which says nothing of it."""
        return self.is_rest and failure.kind == "timed_out"


class Lane:
    """One process that is asked for a product at a time, and begun anew after it broke; for one thread."""

    def __init__(
        self, order: Order, found: VllmEnvironment, log_path: Path, cache_dir: Path, folder: Path
    ) -> None:
        self._order, self._found = order, found
        self._log_path, self._cache_dir, self._folder = log_path, cache_dir, folder
        self._process: ServerProcess | None = None
        self._killed = False

    @property
    def is_begun(self) -> bool:
        """Whether its process is there."""
        return self._process is not None

    def begin(self, limit_s: float) -> dict[str, Json]:
        """Begin the process and say what its times rest on. Raises `Infeasible`."""
        sockets = str(self._folder)
        try:
            self._process = ServerProcess(
                "vLLM's kernel timing",
                python_command(self._found.python, PROCESS_MODULE),
                lambda temporary: driver_environment(
                    self._found.python, self._order.device, self._cache_dir, temporary, sockets
                ),
                self._log_path,
                self._cache_dir,
            )
        except OSError as cause:
            raise Infeasible("crashed", f"vLLM's Python can't be started: {cause}.") from None
        order: dict[str, Json] = {
            "device": "cpu" if self._order.device == "cpu" else "cuda:0",  # all that it sees
            "dtype": self._order.dtype,
            "rows": self._order.rows,
            "folder": sockets,
            TURN: str(self._folder / TURN),
        }
        try:
            if self._killed:
                raise Infeasible("crashed", "It was ended.")
            told: dict[str, Json] = self._ask(order, limit_s, "begin vLLM's layers")
        except Infeasible:
            self.close()
            raise
        return told

    def part(self, task: Task, limit: Limit) -> PartTiming:
        """One product; what ends the process is told as its answer."""
        case, product = task.case, task.product
        request: dict[str, Json] = {
            "backend": case.backend,
            "quantization": None if case.quantization is None else dict(case.quantization),
            "product": asdict(product),
            AGAIN: task.again,
        }
        try:
            answer: dict[str, Any] = self._ask(request, limit.seconds, f"time {product.part}")
        except Infeasible as failure:
            self.close()
            left = limit.ended_by(failure)
            return PartTiming(product.part, product.count, untimed=failure.cause, left=left)
        if answer[BROKEN]:
            self.close()
        part = answer[OK_PART]
        return PartTiming(**{**part, "samples_us": tuple(part["samples_us"])})

    def _ask(self, request: dict[str, Json], limit_s: float, verb: str) -> Any:
        """As the process is asked; a full disk, too, leaves what was timed."""
        assert self._process is not None
        try:
            return self._process.ask(request, limit_s, verb)
        except DiskFull as full:
            raise Infeasible("crashed", full.message) from None

    def kill(self) -> None:
        """From another thread: kill the process; the one that asks it learns of its end and closes."""
        self._killed = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End the process and all that it started; idempotent."""
        if self._process is not None:
            self._process.close()
        self._process = None


class KernelTimer:
    """Runs the lanes; once. `clock` gives seconds."""

    def __init__(
        self,
        order: Order,
        found: VllmEnvironment,
        log_path: Path,
        cache_dir: Path,
        *,
        limits: Limits | None = None,
        lanes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._order, self._found = order, found
        self._log_path, self._cache_dir = log_path, cache_dir
        self._limits = limits or Limits()
        self._lanes = lanes or lanes_for(order.device, machine_for(order.device), order.products)
        self._clock = clock
        self._changed = threading.Condition()
        self._running = self._under_way = 0
        self._until_s: float | None = None
        self._told: dict[str, Json] = {}
        self._not_begun: str | None = None

    def time(
        self,
        cases: Sequence[Case],
        tell: Callable[[int, int, str], None] = lambda done, planned, text: None,
        known: KernelTimings | None = None,
    ) -> KernelTimings:
        """Time the cases; `tell` is called with what is done, of how much, and what is next. Of what is
        `known` from an earlier timing of them only what is left is timed.

        Raises `Infeasible` where not even weights of 16 bits could be timed, and where something is left and
        no lane could be begun, with the cause.
        """
        timing = TimingOrder(cases, self._order.products, known)
        with ScratchFolder(SOCKETS, sockets_parent()) as folder:
            self._run_lanes(folder, timing, lambda done, text: tell(done, 1 + len(cases), text))
        plain = timing.plain()
        if plain.products_us is None:
            cause = plain.refused or plain.untimed or "no product of the layers"
            raise Infeasible("crashed", f"Not even products with 16-bit weights could be timed: {cause}")
        if known is not None and not self._told and self._not_begun is not None:
            raise Infeasible("crashed", self._not_begun)
        left = timing.left
        limit = format_duration(self._limits.all_s)
        cut_off = f"The limit of {limit} was reached with {left} of {1 + len(cases)} left."
        return KernelTimings(
            rows=self._order.rows,
            method=str(self._told.get("method", "" if known is None else known.method)),
            plain=plain,
            packed=timing.packed(cut_off),
            record={**self._told, "lanes": self._lanes, "vllm": self._found.version},
            cut_off=cut_off if left else None,
            rounds=1 if known is None else 1 + known.rounds,
        )

    def _run_lanes(self, folder: Path, timing: TimingOrder, tell: Callable[[int, str], None]) -> None:
        log_paths = [self._log_path, *(Path(f"{self._log_path}-{n + 1}") for n in range(1, self._lanes))]
        lanes = [Lane(self._order, self._found, path, self._cache_dir, folder) for path in log_paths]
        self._running = len(lanes)
        with ThreadPoolExecutor(len(lanes), "kernel-timing") as pool:
            try:
                running = [
                    pool.submit(self._run, lane, number, timing, tell) for number, lane in enumerate(lanes)
                ]
                for each in wait(running, return_when=FIRST_EXCEPTION).done:
                    each.result()
            finally:
                self._stop()
                for lane in lanes:
                    lane.kill()

    def _run(self, lane: Lane, number: int, timing: TimingOrder, tell: Callable[[int, str], None]) -> None:
        """One lane, until nothing is left to do or no time."""
        counted_out = False
        try:
            while (task := self._take(number, timing, tell)) is not None:
                why_not = self._begun(lane)
                if why_not is not None and self._others_go_on(timing, task):
                    counted_out = True
                    return
                begun_s, product = self._clock(), task.product
                if why_not is None:
                    part = lane.part(task, self._limit(self._limits.answer_s))
                else:
                    cause, left = why_not
                    part = PartTiming(product.part, product.count, untimed=cause, left=left)
                self._ended(number, timing, task, part, self._clock() - begun_s)
        finally:
            lane.close()
            if not counted_out:
                with self._changed:
                    self._running -= 1

    def _stop(self) -> None:
        """No lane begins anything more."""
        with self._changed:
            self._until_s = self._clock()
            self._changed.notify_all()

    def _begun(self, lane: Lane) -> tuple[str, bool] | None:
        """Begin the lane where it is not; why it can't be begun, and whether the limit of all ended that."""
        if lane.is_begun:
            return None
        limit = self._limit(self._limits.begin_s)
        try:
            told = lane.begin(limit.seconds)
        except Infeasible as failure:
            self._not_begun = failure.cause
            return failure.cause, limit.ended_by(failure)
        with self._changed:
            self._told = told
            if self._until_s is None:
                self._until_s = self._clock() + self._limits.all_s
        return None

    def _others_go_on(self, timing: TimingOrder, task: Task) -> bool:
        """Whether a lane that can't be begun may leave its task to others; it is counted out then."""
        with self._changed:
            if self._running == 1:
                return False
            self._running -= 1
            self._under_way -= 1
            timing.put_back(task)
            self._changed.notify_all()
            return True

    def _limit(self, own_s: float) -> Limit:
        """So many seconds, or what is left of the limit of all where that is less."""
        rest_s = max(self._left_s(), LEAST_LIMIT_S)
        if self._until_s is None or own_s <= rest_s:
            return Limit(own_s)
        return Limit(rest_s, is_rest=True)

    def _left_s(self) -> float:
        return self._limits.all_s if self._until_s is None else self._until_s - self._clock()

    def _take(self, lane: int, timing: TimingOrder, tell: Callable[[int, str], None]) -> Task | None:
        """The next task, waited for while others may bring one; None at the end."""
        with self._changed:
            while self._left_s() > 0:
                task = timing.next(lane)
                if task is not None:
                    self._under_way += 1
                    tell(timing.cases_done, task.words)
                    return task
                if not self._under_way:
                    break
                self._changed.wait(max(0.0, self._left_s()))
            return None

    def _ended(self, lane: int, timing: TimingOrder, task: Task, part: PartTiming, took_s: float) -> None:
        with self._changed:
            by_limit = part.left or (part.untimed is not None and self._left_s() <= 0)
            if not by_limit:  # the limit of all says nothing of it
                timing.done(task, part, took_s, lane)
            self._under_way -= 1
            self._changed.notify_all()
