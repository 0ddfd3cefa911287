"""Writing the records of a job: one line appended for each thing that happens, folded as it is written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from experiments.engines.port import Blames, PartTime
from experiments.job.journal import Fold, RecordKind
from experiments.job.result import BROKE, ArtifactRecord, HeldMemory, StageRecord
from experiments.measurement.evidence import Arm, Json, Metric, Stage
from experiments.space.configuration import Configuration


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Records:
    """Appends the lines of one job and folds them; `sync` makes them last. Not for use by several threads.

    With `echo` the steps are also printed, for the job's log.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = _utc_now, *, echo: bool = False) -> None:
        self._file = path.open("ab", buffering=0)
        self._now = now
        self._echo = echo
        self._opened = 0
        self.fold = Fold()

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def started(self, version: int) -> None:
        """The job began; `version` is that of the spec."""
        self._append(RecordKind.STARTED, version=version, pid=os.getpid())

    def progress(
        self,
        stage: Stage,
        done: int,
        planned: int,
        text: str,
        arm: Arm | None = None,
        timing: bool = False,
    ) -> None:
        """Where the job is: `done` of `planned` blocks (or other pieces) of the stage, on which arm, and
        whether what is up is `timing` now."""
        told: dict[str, Json] = {} if arm is None else {"arm": arm.value}
        if timing:
            told["timing"] = True
        self._append(RecordKind.PROGRESS, stage=stage.value, done=done, planned=planned, text=text, **told)
        if done == 0 and arm is None and not timing:
            self._say(f"{stage.value}: {text}")

    def loading(self, text: str | None, *, news: bool = False) -> None:
        """What launches do that are coming up, and for how long, as words; None once all are up. The log gets
        what is `news` alone."""
        self._append(RecordKind.LOADING, text=text)
        if news and text is not None:
            self._say(text)

    def launch(
        self,
        arm: Arm,
        index: int,
        stage: Stage,
        configuration_digest: str,
        resolved: Mapping[str, Json],
        environment: Mapping[str, Json],
        load_s: float,
    ) -> int:
        """A launch is ready; returns its number within the job."""
        number, self._opened = self._opened, self._opened + 1
        self._append(
            RecordKind.LAUNCH,
            launch=number,
            arm=arm.value,
            index=index,
            stage=stage.value,
            configuration_digest=configuration_digest,
            resolved=dict(resolved),
            environment=dict(environment),
            load_s=load_s,
        )
        return number

    def block(
        self,
        launch: int,
        block: int,
        position: int,
        samples: Iterable[tuple[str, int, Metric, float]],
        before: Mapping[str, Json],
        after: Mapping[str, Json],
        during: Mapping[str, Json] | None = None,
    ) -> None:
        """The samples (item, seq, metric, value) of a block of a launch, the machine around it, and what is
        told of it meanwhile, where anything is."""
        rows = [[item, seq, metric.value, value] for item, seq, metric, value in samples]
        self._append(
            RecordKind.BLOCK,
            launch=launch,
            block=block,
            position=position,
            samples=rows,
            before=dict(before),
            after=dict(after),
            **({"during": dict(during)} if during else {}),
        )

    def note(self, text: str) -> None:
        """Say something in the job's log."""
        self._say(text)

    def stage(self, record: StageRecord) -> None:
        """A stage ended; everything told so far is made to last."""
        self._append(RecordKind.STAGE, **asdict(record))
        self.sync()

    def artifact(self, record: ArtifactRecord) -> None:
        """An artifact was built or used."""
        self._append(RecordKind.ARTIFACT, **asdict(record))

    def profile(self, parts: Sequence[PartTime]) -> None:
        """Time of a decode step by part."""
        self._append(RecordKind.PROFILE, parts=[asdict(part) for part in parts])

    def chosen(self, configuration: Mapping[str, Json]) -> None:
        """The knobs that a sweep chose as the baseline."""
        self._append(RecordKind.CHOSEN, configuration=dict(configuration))

    def configuration(self, configuration: Configuration) -> None:
        """A configuration that the spec does not name is about to run."""
        self._append(RecordKind.CONFIGURATION, digest=configuration.digest, knobs=dict(configuration))

    def left_out(self, pair: int, first_block: int, stage: Stage | None = None) -> None:
        """The launch pair of this index was cut off while it was timed, or is timed anew: what it measured
        from this block on by now does not count, of `stage` where one is given, else of what is judged."""
        told = {} if stage is None else {"stage": stage.value}
        self._append(RecordKind.LEFT_OUT, pair=pair, first_block=first_block, **told)

    def memory(self, held: HeldMemory, device: str) -> None:
        """What was held of the device; said in the log too."""
        self._append(RecordKind.MEMORY, **asdict(held))
        self._say(held.told(device))

    def stopped(self, reason: str) -> None:
        """The judge stopped the experiment, or its time was up, in a sentence."""
        self._append(RecordKind.STOPPED, reason=reason)
        self._say(f"stopped: {reason}")

    def failure(
        self,
        kind: str,
        cause: str,
        blames: Blames | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        """A configuration can't run; kinds and `blames` as in `Infeasible`, and `control` when it was the
        control; `versions` as in `Failure`."""
        told = {"blames": dict(blames)} if blames else {}
        told |= {"versions": dict(versions)} if versions else {}
        self._append(RecordKind.FAILURE, kind=kind, cause=cause, **told)
        self._say(f"infeasible ({kind}): {cause}")

    def error(self, text: str, kind: str = BROKE) -> None:
        """The job can't go on, and no configuration is to blame; `kind` as of its experiment's failure."""
        self._append(RecordKind.ERROR, text=text, kind=kind)
        self._say(f"error: {text}")
        self.sync()

    def end(self, wall_s: float) -> None:
        """The job came to its end; the last line."""
        self._append(RecordKind.END, wall_s=wall_s)
        self.sync()

    def sync(self) -> None:
        """Write everything told so far through to the disk."""
        os.fsync(self._file.fileno())

    def _say(self, text: str) -> None:
        if self._echo:
            print(text, flush=True)

    def _append(self, record: RecordKind, **content: object) -> None:
        line = {"record": record.value, "at": self._now().isoformat(), **content}
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False)
        self._write(text.encode() + b"\n")
        # Folded from the text, so that the job sees exactly what a reader of the file will see.
        self.fold.apply(json.loads(text))

    def _write(self, line: bytes) -> None:
        """Write the whole line or nothing of it: a nearly full disk takes a part of it without an error, and
        the next line would follow that part. Raises `OSError`."""
        before = os.fstat(self._file.fileno()).st_size
        left = memoryview(line)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            with suppress(OSError):
                self._file.truncate(before)
            raise
