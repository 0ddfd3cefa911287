"""Drivers that have imported vLLM before the launch that takes them is asked for. Imports no torch.

Of a load 15 to 21 s are the driver's imports, the same ones whatever is loaded. So each load begins the next
one's driver, once its own has imported, for imports side by side take longer: the next one imports while that
load goes on and waits then for its order, as fresh a process as any other: it has read no weights. Where
several are expected it begins one after the other. A load is not over before all of them are at rest, so that
nothing of it is left to do when something is timed. For a test's first loads they are begun while its
checkpoints are built, which takes about as long and before which nothing is timed.

What is begun for nothing ends with the job. It takes a core for the time of a load and memory of the machine.
So none is begun where cores or memory are few, nor for a CPU, which would have to share both with what is
measured. What is free is looked at before the memory is taken, and jobs that load at the same moment, each on
a GPU of its own, would all see the same. So each holds a scratch folder while it loads, by which the others
count it; once its load is over and its drivers are at rest, what they take is seen as taken.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from configs.cpu import usable_cores
from configs.memory import available_memory_bytes
from experiments.engines.vllm.driver_process import BegunDriver
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.scratch import ScratchFolder, count_held

CORES_MIN = 4
"""Fewest cores with which a driver is begun ahead: two loads at once take as many for themselves."""

AT_REST_LIMIT_S = 180.0
"""How long a driver may take to import once the load that began it is up, seconds: three times the longest
seen, 63 s on a host where sixteen processes imported at once."""

AT_REST_POLL_S = 0.1
"""Between two looks, seconds."""

WAITING_MAX = 2
"""Most drivers that wait where nothing else is expected: the arms of a test load at the same time."""

MORE_CORES_MIN = 16
"""Fewest cores with which more than that wait: four, each with the process that its engine is forked from,
beside two that load; judgement."""

MEMORY_MIN_BYTES = 16 * 10**9
"""Least memory of the machine that must be free for each job that loads: a driver and the process that its
engine is forked from take some 3 GB together, and two may be begun beside two that load; judgement."""

LOADING = f"autoinfer-loading-{os.getuid()}"
"""The kind of the folders that this user's jobs hold while they load, among the system's temporary files."""


def is_worth_it(device: str, jobs: int = 1, waiting: int = 0) -> bool:
    """Whether a driver is begun ahead for a device while so many jobs of the machine load, this one too, and
    so many drivers of this one wait. What waits beyond `WAITING_MAX` needs as much memory as one job more."""
    more = waiting >= WAITING_MAX
    if device.partition(":")[0] != "cuda" or usable_cores() < (MORE_CORES_MIN if more else CORES_MIN):
        return False
    return available_memory_bytes() >= (jobs + more) * MEMORY_MIN_BYTES


@dataclass
class DriversAhead:
    """The drivers of one job that wait for a launch; for several threads.

    `worth_it` says for which devices they are begun while how many jobs load and how many of them wait.
    """

    worth_it: Callable[[str, int, int], bool] = is_worth_it
    _waiting: list[BegunDriver] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _names: itertools.count[int] = field(default_factory=itertools.count)
    _closed: bool = False
    _expected: int | None = None
    _loads: int = 0
    _before_loads: bool = False
    """Whether drivers were begun and no load has yet."""
    _counted: ScratchFolder | None = None
    """Held while anything loads."""
    _later: list[threading.Thread] = field(default_factory=list)
    """Each begins the next drivers once the one that was taken has imported."""

    def begin(self, found: VllmEnvironment, device: str, folder: Path, cache_dir: Path) -> None:
        """Begin a driver before the first load, with its log in `folder`. Until that load the job counts as
        one that loads; what goes on beside it, such as a checkpoint that is built, needs as much memory."""
        with self._lock:
            counted, self._before_loads = self._before_loads or self._closed, not self._closed
        if not counted:
            self._begin_load()
        self._begin_next(found, device, folder, cache_dir, beside=1)

    def expect(self, launches: int) -> None:
        """So many launches are opened at once after those that are taken next: so many drivers are to wait
        then. Without it each load begins one."""
        with self._lock:
            self._expected = launches

    def take(self, found: VllmEnvironment, device: str, log_path: Path, cache_dir: Path) -> BegunDriver:
        """A driver for a launch: one that waits, or one that begins now. Once it has imported the next is
        begun, too, or as many as are expected. Call `settle` when the load is over, however it ended.

        Raises `OSError` where none can be started.
        """
        self._begin_load()
        self._end_wait()
        taken = self._taken(found, device, log_path, cache_dir)
        if taken is None:
            taken = BegunDriver(found, device, log_path, cache_dir)
        try:
            self._begin_after(taken, found, device, log_path.parent, cache_dir)
        except BaseException:
            taken.close()
            raise
        return taken

    def settle(self) -> float:
        """At the end of a load, wait until all that wait for a launch are at rest; seconds that it took. What
        is not at rest by the limit is ended, and no more are begun: the next would be as late."""
        began_s, waited_s = time.monotonic(), 0.0
        try:
            while self._busy():
                if waited_s >= AT_REST_LIMIT_S:
                    self.close()
                    break
                time.sleep(AT_REST_POLL_S)
                waited_s = time.monotonic() - began_s
        finally:
            self._end_load()
        return waited_s

    def close(self) -> None:
        """End all that wait, and begin no more; idempotent."""
        with self._lock:
            self._closed, left = True, self._waiting
            self._waiting = []
        self._end_wait()
        for each in left:
            _drop(each)

    def _begin_load(self) -> None:
        with self._lock:
            self._loads += 1
            if self._counted is None:
                self._counted = ScratchFolder(LOADING, Path(tempfile.gettempdir()))

    def _end_wait(self) -> None:
        """What was begun before the first load is counted no more: that load is, or none comes."""
        with self._lock:
            counted, self._before_loads = self._before_loads, False
        if counted:
            self._end_load()

    def _end_load(self) -> None:
        with self._lock:
            self._loads = max(0, self._loads - 1)
            if not self._loads and self._counted is not None:
                self._counted.close()
                self._counted = None

    def _busy(self) -> bool:
        with self._lock:
            if any(each.is_alive() for each in self._later):
                return True
        return not self._at_rest()

    def _begin_after(
        self, taken: BegunDriver, found: VllmEnvironment, device: str, folder: Path, cache_dir: Path
    ) -> None:
        """Begin the next one once a driver has imported or ended, or, where it was said how many, one after
        the other until so many wait; in a thread of its own where that is not now. Nothing once all of it is
        closed, and where the machine has no thread left."""

        def begin() -> bool:
            return self._begin_next(found, device, folder, cache_dir)

        def in_turn() -> None:
            while not self._closed:
                if taken.is_at_rest() and self._at_rest() and not (begin() and self._expected is not None):
                    return
                time.sleep(AT_REST_POLL_S)

        if taken.is_at_rest() and self._expected is None:
            begin()
            return
        later = threading.Thread(target=in_turn, name="drivers-ahead", daemon=True)
        with suppress(RuntimeError):  # a load needs a thread itself, and tells then why it can't be
            later.start()
            with self._lock:
                self._later = [*(each for each in self._later if each.is_alive()), later]

    def _at_rest(self) -> bool:
        with self._lock:
            return all(each.is_at_rest() for each in self._waiting)

    def _taken(
        self, found: VllmEnvironment, device: str, log_path: Path, cache_dir: Path
    ) -> BegunDriver | None:
        with self._lock:
            ended = [each for each in self._waiting if not each.is_running()]
            fitting = [each for each in self._waiting if each.is_for(found, device, cache_dir)][:1]
            self._waiting = [each for each in self._waiting if each not in (*ended, *fitting)]
        for each in ended:
            _drop(each)
        for each in fitting:
            if each.log_to(log_path):
                return each
            _drop(each)
        return None

    def _begin_next(
        self, found: VllmEnvironment, device: str, folder: Path, cache_dir: Path, beside: int = 0
    ) -> bool:
        """Begin one where one is expected and the machine bears it; whether one was.

        `beside` are the jobs more whose memory must be free.
        """
        with self._lock:
            waiting, room = len(self._waiting), self._room()
        jobs = count_held(LOADING, Path(tempfile.gettempdir())) + beside
        if not room or not self.worth_it(device, jobs, waiting):
            return False
        with self._lock:
            if not self._room():
                return False
            log_path = folder / f"ahead-{next(self._names)}.log"
            try:
                self._waiting.append(BegunDriver(found, device, log_path, cache_dir))
            except OSError:  # the launch that wants one tells why there can be none
                return False
        return True

    def _room(self) -> bool:
        """Whether one more may wait; the lock is held."""
        most = WAITING_MAX if self._expected is None else self._expected
        return not self._closed and len(self._waiting) < most


def _drop(driver: BegunDriver) -> None:
    driver.close()
    with suppress(OSError):
        driver.log_path.unlink()
