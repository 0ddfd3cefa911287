"""Limits a stage: when one takes too long, every process that the job started since its beginning is killed.

Killing is what ends a stage that waits for a launch: the engine finds its process dead and raises
`Infeasible`, which the runner then reports as `timed_out`. A stage that computes in the job's own process
can't be ended so; `on_stuck` is called when the stage is still there a while later. What nothing else needs
may be done `apart`, and is left behind then.

A job may have a limit of its own beside (`until`), at which it ends with what was measured until then; so it
ends where it is asked to, by a file in its folder.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import psutil

from configs.quantities import format_duration
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Stage
from experiments.own_processes import begun_beside, children, runs

STUCK_AFTER_S = 30.0
"""How long a stage may take to notice that its processes were killed: closing a launch takes seconds."""

TIME_IS_UP = "time_is_up"
"""The kind of an `Infeasible` at a job's own limit; it says nothing of a configuration."""

LEFT_BEHIND = "left_behind"
"""The kind of one where what was left behind still holds something, so that nothing may be loaded beside it;
it says nothing of a configuration either."""

ENDS_MEASURING = (TIME_IS_UP, LEFT_BEHIND)
"""Kinds that end a test's measuring, with what was measured until then, and fail nothing."""

KILL_EVERY_S = 0.2
"""Seconds between looks for processes that were started as a job's time was up, or that are to be gone."""

LOOK_S = 1.0
"""Seconds between looks for whether a job is asked to end its measuring."""

END_NAME = "end-measuring.txt"
"""The file in a job's folder that asks it to: it says why, in a sentence."""

GONE_WITHIN_S = 10.0
"""How long processes may take to be gone that were killed before, seconds: the system clears one away within
one or two, and one that hangs in a driver never is."""


def time_is_up(within_s: float) -> str:
    """Why a job ended at its own limit, in a sentence."""
    return f"The {format_duration(within_s)} that it was given were over."


def asked_to_end(folder: Path) -> str | None:
    """Why the job of a folder is to end its measuring, as who asks said; None where nobody does."""
    try:
        return (folder / END_NAME).read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def ask_to_end(folder: Path, why: str) -> None:
    """Ask the job of a folder to end its measuring, `why` in a sentence: it keeps what it measured."""
    written = folder / f".{END_NAME}"
    written.write_text(why, encoding="utf-8")
    written.rename(folder / END_NAME)


def nobody_asks() -> None:
    """In place of whoever would ask a job to end."""


class StageLimits:
    """Watches one stage at a time; used from the job's main thread."""

    def __init__(
        self,
        limits_s: Mapping[Stage, float],
        on_stuck: Callable[[Infeasible], None] | None = None,
        stuck_after_s: float = STUCK_AFTER_S,
        asked: Callable[[], str | None] = nobody_asks,
    ) -> None:
        """`asked` says why the job is to end its measuring, None while it is not."""
        self._asked = asked
        self._limits_s = limits_s
        self._on_stuck = on_stuck
        self._stuck_after_s = stuck_after_s
        self._others = children()
        self._killed: set[psutil.Process] = set()
        self._expired: Infeasible | None = None
        self._over: Infeasible | None = None
        self._leave: threading.Event | None = None
        """Set where what is done apart is to be left behind; None while nothing is."""

    @contextmanager
    def of(self, stage: Stage) -> Iterator[None]:
        """Limit the block; whatever it raises after its time was up becomes `Infeasible("timed_out", …)`, and
        after the job's was up what `until` raises."""
        limit_s = self._limits_s.get(stage)
        if limit_s is None:
            with self._in_words():
                yield
            return
        try:
            with self._watched(f"limit-{stage.value}", partial(self._end_stage, stage, limit_s)):
                yield
        finally:
            self._expired = None

    @contextmanager
    def until(self, within_s: float | None, cut_off: Callable[[str], None]) -> Iterator[None]:
        """Limit all stages of the block together, to so many seconds (None: to none) and until it is asked
        to end.

        Whatever it raises after that becomes `Infeasible(TIME_IS_UP, …)`. Where it is stuck then, `cut_off`
        is called with the reason before `on_stuck`.
        """
        with self._watched("limit-job", partial(self._end_all, within_s, cut_off)):
            yield

    def apart(self, work: Callable[[], None]) -> bool:
        """Do a part of the present stage in a thread of its own; raises what that raises. Where the wait
        for it is interrupted, as by `KeyboardInterrupt`, the thread is left at its work.

        False where it was still there a while after the stage's time was up: it is left behind then, and what
        it works with is not to be touched any more, for a thread that waits holds locks.
        """
        self._leave = leave = threading.Event()
        outcome = Future[None]()

        def do() -> None:
            try:
                work()
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        outcome.add_done_callback(lambda _: leave.set())
        threading.Thread(target=do, name="apart", daemon=True).start()
        try:
            leave.wait()
        finally:
            self._leave = None
        if not outcome.done():
            return False
        outcome.result()
        return True

    def end_processes(self) -> None:
        """Kill every process that the job started since its beginning."""
        begun = begun_beside(self._others)
        self._killed.update(begun)
        for process in begun:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def not_gone(self) -> tuple[int, ...]:
        """The numbers of the processes that the job started and that still run, at most `GONE_WITHIN_S` after
        they were killed; empty where all are gone.

        One that hangs in a driver survives that.
        """
        until = time.monotonic() + GONE_WITHIN_S
        while True:
            self.end_processes()
            left = tuple(sorted(each.pid for each in tuple(self._killed) if runs(each)))
            if not left or time.monotonic() >= until:
                return left
            time.sleep(KILL_EVERY_S)

    def give_up(self, reason: Infeasible, cut_off: Callable[[], None] | None = None) -> NoReturn:
        """End the job as where a stage is stuck, after `cut_off` was called; raises the reason where
        `on_stuck` comes back."""
        if cut_off is not None:
            cut_off()
        if self._on_stuck is not None:
            self._on_stuck(reason)
        raise reason

    def check(self) -> None:
        """Raise `Infeasible` when the time of the present stage, or of the job, is up."""
        if (up := self._over or self._expired) is not None:
            raise up

    @contextmanager
    def _watched(self, name: str, watch: Callable[[threading.Event], None]) -> Iterator[None]:
        """Run the block while `watch` looks at its time in a thread of its own, given what is set at its
        end."""
        ended = threading.Event()
        watcher = threading.Thread(target=watch, args=(ended,), name=name, daemon=True)
        watcher.start()
        try:
            with self._in_words():
                yield
        finally:
            ended.set()
            watcher.join()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """What comes of killed processes is told as what killed them."""
        try:
            yield
        except Exception as error:
            up = self._over or self._expired
            if up is None or up is error:
                raise
            raise up from error

    def _end_stage(self, stage: Stage, limit_s: float, ended: threading.Event) -> None:
        if ended.wait(limit_s):
            return
        expired = Infeasible(
            "timed_out", f"The stage {stage.value} took longer than its limit of {format_duration(limit_s)}."
        )
        self._expired = expired
        self.end_processes()
        if ended.wait(self._stuck_after_s):
            return
        if (leave := self._leave) is not None:
            leave.set()
        elif self._on_stuck is not None:
            self._on_stuck(expired)

    def _end_all(
        self, within_s: float | None, cut_off: Callable[[str], None], ended: threading.Event
    ) -> None:
        why = self._why_over(within_s, ended)
        if why is None:
            return
        self._over = over = Infeasible(TIME_IS_UP, why)
        stuck_at = time.monotonic() + self._stuck_after_s
        while time.monotonic() < stuck_at:
            self.end_processes()  # again and again: a launch may be on its way up in another thread
            if ended.wait(KILL_EVERY_S):
                return
        if self._on_stuck is not None:
            cut_off(why)
            self._on_stuck(over)

    def _why_over(self, within_s: float | None, ended: threading.Event) -> str | None:
        """Wait for the job's end; why its measuring is over before, None where it is not."""
        until = math.inf if within_s is None else time.monotonic() + within_s
        while True:
            left_s = until - time.monotonic()
            if left_s <= 0:
                assert within_s is not None
                return time_is_up(within_s)
            if (why := self._asked()) is not None:
                return why
            if ended.wait(min(left_s, LOOK_S)):
                return None
