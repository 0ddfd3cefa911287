"""Limits a stage: when one takes too long, every process that the job started since its beginning is killed.

Killing is what ends a stage that waits for a launch: the engine finds its process dead and raises
`Infeasible`, which the runner then reports as `timed_out`. A stage that computes in the job's own process
can't be ended so; `on_stuck` is called when the stage is still there a while later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import psutil

from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Stage
from experiments.own_processes import begun_beside, children

STUCK_AFTER_S = 30.0
"""How long a stage may take to notice that its processes were killed: closing a launch takes seconds."""


class StageLimits:
    """Watches one stage at a time; used from the job's main thread."""

    def __init__(
        self,
        limits_s: Mapping[Stage, float],
        on_stuck: Callable[[Infeasible], None] | None = None,
        stuck_after_s: float = STUCK_AFTER_S,
    ) -> None:
        self._limits_s = limits_s
        self._on_stuck = on_stuck
        self._stuck_after_s = stuck_after_s
        self._others = children()
        self._expired: Infeasible | None = None

    @contextmanager
    def of(self, stage: Stage) -> Iterator[None]:
        """Limit the block; whatever it raises after its time was up becomes `Infeasible("timed_out", …)`."""
        limit_s = self._limits_s.get(stage)
        if limit_s is None:
            yield
            return
        ended = threading.Event()
        watcher = threading.Thread(
            target=self._watch, args=(stage, limit_s, ended), name=f"limit-{stage.value}", daemon=True
        )
        watcher.start()
        try:
            yield
        except Exception as error:
            if self._expired is not None:
                raise self._expired from error
            raise
        finally:
            ended.set()
            watcher.join()
            self._expired = None

    def check(self) -> None:
        """Raise `Infeasible` when the time of the present stage is up."""
        if self._expired is not None:
            raise self._expired

    def _watch(self, stage: Stage, limit_s: float, ended: threading.Event) -> None:
        if ended.wait(limit_s):
            return
        expired = Infeasible(
            "timed_out", f"The stage {stage.value} took longer than its limit of {limit_s:g} s."
        )
        self._expired = expired
        for process in begun_beside(self._others):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if not ended.wait(self._stuck_after_s) and self._on_stuck is not None:
            self._on_stuck(expired)
