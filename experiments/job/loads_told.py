"""What launches that are coming up do meanwhile, told while a job waits for them, by the thread that waits.

A load takes minutes on a GPU, most of them compiling and capturing, and its log is all that tells of it. An
engine that can read it (`engines.port`: `load_phase`) is asked every few seconds, while nothing is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path

from configs.quantities import format_duration
from experiments.engines.port import Launch
from experiments.job.running_job import RunningJob

TELL_EVERY_S = 5.0
"""Between two looks, seconds: each is a line of the job's records."""

LOG_BYTES = 256 * 1024
"""How much of a log's end is read: more than vLLM logs of a load; judgement."""

Phase = Callable[[str], str]


class LoadsTold:
    """Tells of the loads whose logs are `log_paths`, from now on; what is in these by now is not theirs."""

    def __init__(
        self, job: RunningJob, log_paths: Sequence[Path], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._job, self._clock, self._begun_s = job, clock, clock()
        self._phase: Phase | None = getattr(job.engine, "load_phase", None)
        self._logs = [(path, _size(path)) for path in log_paths]
        self._since: dict[int, tuple[str, float]] = {}
        """By load what it does, without how far it is, and since when."""

    def wait(self, loads: Sequence[Future[Launch | None]]) -> None:
        """Wait until all of them are over, and tell meanwhile; what they raise is theirs."""
        if self._phase is None:
            wait(loads)
            return
        said = False
        while under_way := wait(loads, TELL_EVERY_S).not_done:
            self._tell(self._phase, [place for place, each in enumerate(loads) if each in under_way])
            said = True
        if said:
            self._job.records.loading(None)

    def _tell(self, phase: Phase, places: Sequence[int]) -> None:
        now_s, told, news = self._clock(), dict[str, None](), False
        for place in places:
            does = phase(_text(*self._logs[place]))
            name = does.partition(" (")[0]
            if self._since.get(place, ("", 0.0))[0] != name:
                self._since[place] = (name, now_s if place in self._since else self._begun_s)
                news = True
            told[f"{does} for {_seconds(now_s - self._since[place][1])}"] = None
        whole = _seconds(now_s - self._begun_s)
        self._job.records.loading(f"loading, for {whole} by now: {'; '.join(told)}", news=news)


def _seconds(seconds: float) -> str:
    return format_duration(round(seconds))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text(path: Path, start: int) -> str:
    """The end of what a log has beyond `start`; empty where it is not there yet."""
    try:
        with path.open("rb") as log:
            log.seek(max(start, _size(path) - LOG_BYTES))
            return log.read().decode(errors="replace")
    except OSError:
        return ""
