"""The records of a job: JSON lines that are appended as things happen, and folded into a `JobResult`.

One line is one object with `record` (its kind) and `at` (ISO 8601, UTC). The job folds its own lines, so
what it returns and what a reader of the file gets are the same. A line without its newline is torn and does
not count yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from experiments.engines.port import PartTime
from experiments.job.result import (
    BROKE,
    ArtifactRecord,
    Failure,
    HeldMemory,
    JobProgress,
    JobResult,
    StageRecord,
    StageTurn,
)
from experiments.measurement.evidence import Arm, Json, LaunchRecord, Metric, Sample, Stage
from experiments.space.configuration import KnobValue


class RecordKind(StrEnum):
    """What a line tells."""

    STARTED = "started"
    PROGRESS = "progress"
    LOADING = "loading"
    """What launches do that are coming up, and for how long; nothing once all are up."""
    LAUNCH = "launch"
    """A launch is ready; the lines that follow name it by `launch`, a number within the job."""
    BLOCK = "block"
    """The samples of one block of one launch, with the environment before and after, and what a GPU did
    `during` it."""
    STAGE = "stage"
    ARTIFACT = "artifact"
    PROFILE = "profile"
    CHOSEN = "chosen"
    CONFIGURATION = "configuration"
    """The knobs of a configuration that the spec does not name and a launch ran all the same."""
    LEFT_OUT = "left_out"
    """A launch pair, by its index, that was cut off while it was timed, or is timed anew: what it measured
    from a block on until then counts nowhere, of one stage where that is named, else of those of pairs."""
    MEMORY = "memory"
    """What of a GPU was held before, at most and after the job's launches, in bytes."""
    STOPPED = "stopped"
    FAILURE = "failure"
    ERROR = "error"
    """The job itself could not go on, in a sentence; it says nothing about a configuration."""
    END = "end"
    """The last line of a job that came to its end."""


_PAIRED = (Stage.QUICK, Stage.FULL, Stage.VALIDATION)
"""The stages whose launches are timed in pairs."""


@dataclass
class _Launch:
    arm: Arm
    index: int
    stage: Stage
    configuration_digest: str
    resolved: Mapping[str, Json]
    machine: Json
    load_s: float
    samples: list[Sample] = field(default_factory=list)
    blocks: list[tuple[int, dict[str, Json]]] = field(default_factory=list)
    """What is told of each block, by its number."""

    def leave_out(self, first_block: int) -> None:
        """Drop what was measured from this block on, and what was told of these blocks."""
        self.samples = [each for each in self.samples if each.block < first_block]
        self.blocks = [(number, told) for number, told in self.blocks if number < first_block]

    def record(self) -> LaunchRecord:
        return LaunchRecord(
            self.arm,
            self.index,
            self.stage,
            self.configuration_digest,
            self.resolved,
            {"machine": self.machine, "blocks": [told for _, told in self.blocks]},
            self.load_s,
            tuple(self.samples),
        )


class Fold:
    """What the lines so far add up to; `progress` is the last told, `error` why the job could not go on,
    and `error_kind` the kind of that."""

    def __init__(self) -> None:
        self.progress: JobProgress | None = None
        self.error: str | None = None
        self.error_kind = BROKE
        self.ended = False
        self.started = False
        self._launches: dict[int, _Launch] = {}
        self._stages: list[StageRecord] = []
        self._turns: list[StageTurn] = []
        self._open: list[StageTurn] = []
        self._artifacts: dict[str, ArtifactRecord] = {}
        self._profile: tuple[PartTime, ...] = ()
        self._chosen: Mapping[str, Json] | None = None
        self._configurations: dict[str, Mapping[str, KnobValue]] = {}
        self._stop_reason: str | None = None
        self._failure: Failure | None = None
        self._memory: HeldMemory | None = None
        self._wall_s = 0.0

    def launches(self) -> tuple[LaunchRecord, ...]:
        """The launches that hold a sample, in the order they were opened; without further workloads."""
        return tuple(
            each.record()
            for each in self._launches.values()
            if each.samples and each.stage is not Stage.FURTHER
        )

    def further(self) -> tuple[LaunchRecord, ...]:
        """What was measured of further workloads, by the launches that it was measured in."""
        return tuple(
            each.record() for each in self._launches.values() if each.samples and each.stage is Stage.FURTHER
        )

    @property
    def stages(self) -> tuple[StageRecord, ...]:
        """The stages that ended, in their order."""
        return tuple(self._stages)

    def result(self) -> JobResult:
        """Everything told so far, as the result of the job."""
        return JobResult(
            launches=self.launches(),
            further=self.further(),
            stages=self.stages,
            artifacts=tuple(self._artifacts.values()),
            profile=self._profile,
            chosen=self._chosen,
            configurations=dict(self._configurations),
            stop_reason=self._stop_reason,
            failure=self._failure,
            memory=self._memory,
            wall_s=self._wall_s,
        )

    def apply(self, line: Mapping[str, Any]) -> None:
        """Take in one line; a kind that this version does not know is passed over."""
        match line["record"]:
            case RecordKind.STARTED:
                self.started = True
            case RecordKind.PROGRESS:
                self._begin(Stage(line["stage"]), line["text"])
                self.progress = JobProgress(
                    Stage(line["stage"]),
                    line["done"],
                    line["planned"],
                    line["text"],
                    None if (arm := line.get("arm")) is None else Arm(arm),
                    tuple(self._turns),
                    bool(line.get("timing")),
                )
            case RecordKind.LOADING:
                if self.progress is not None:
                    self.progress = replace(self.progress, loading=line["text"])
            case RecordKind.LAUNCH:
                self._launches[line["launch"]] = _Launch(
                    Arm(line["arm"]),
                    line["index"],
                    Stage(line["stage"]),
                    line["configuration_digest"],
                    line["resolved"],
                    line["environment"],
                    line["load_s"],
                )
            case RecordKind.BLOCK:
                self._apply_block(line)
            case RecordKind.STAGE:
                self._stages.append(
                    StageRecord(
                        Stage(line["stage"]),
                        line["started_at"],
                        line["wall_s"],
                        line["outcome"],
                        line["detail"],
                        line["log"],
                    )
                )
                self._end(self._stages[-1])
            case RecordKind.ARTIFACT:
                content = {key: value for key, value in line.items() if key not in ("record", "at")}
                used = ArtifactRecord(**content)
                before = self._artifacts.get(used.digest)
                # what the job built and used again was built all the same
                self._artifacts[used.digest] = (
                    used if before is None else replace(used, build_s=max(used.build_s, before.build_s))
                )
            case RecordKind.PROFILE:
                self._profile = tuple(PartTime(**part) for part in line["parts"])
            case RecordKind.CHOSEN:
                self._chosen = line["configuration"]
            case RecordKind.CONFIGURATION:
                self._configurations[line["digest"]] = line["knobs"]
            case RecordKind.LEFT_OUT:
                stages = (Stage(line["stage"]),) if "stage" in line else _PAIRED
                for launch in self._launches.values():
                    if launch.stage in stages and launch.index == line["pair"]:
                        launch.leave_out(line.get("first_block", 0))
            case RecordKind.MEMORY:
                self._memory = HeldMemory(**{name: line[name] for name in HeldMemory.__dataclass_fields__})
            case RecordKind.STOPPED:
                self._stop_reason = line["reason"]
            case RecordKind.FAILURE:
                self._failure = Failure(
                    line["kind"], line["cause"], line.get("blames", {}), line.get("versions", {})
                )
            case RecordKind.ERROR:
                self.error, self.error_kind = line["text"], line.get("kind", BROKE)
            case RecordKind.END:
                self.ended = True
                self._wall_s = line["wall_s"]

    def _begin(self, stage: Stage, text: str) -> None:
        """A stage begins with the first that it tells; one within another leaves that one open."""
        if all(each.stage is not stage for each in self._open):
            self._open.append(StageTurn(stage, text))
            self._turns.append(self._open[-1])

    def _end(self, ended: StageRecord) -> None:
        begun = next((each for each in reversed(self._open) if each.stage is ended.stage), None)
        if begun is not None:
            self._open.remove(begun)
        text = ended.stage.value if begun is None else begun.text
        self._turns.append(StageTurn(ended.stage, text, ended.outcome, ended.wall_s))
        if self.progress is not None:
            self.progress = replace(self.progress, turns=tuple(self._turns))

    def _apply_block(self, line: Mapping[str, Any]) -> None:
        launch = self._launches[line["launch"]]
        block, position = line["block"], line["position"]
        launch.samples += [
            Sample(block, position, item, seq, Metric(metric), value)
            for item, seq, metric, value in line["samples"]
        ]
        told = {name: line[name] for name in ("before", "after", "during") if name in line}
        launch.blocks.append((block, {"block": block, "position": position, **told}))


class Journal:
    """A reader that follows a file of records; each `update` reads only what was added since."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.fold = Fold()

    def update(self) -> None:
        """Take in the complete lines that were added; a torn line waits for the next time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                added = file.read()
        except FileNotFoundError:
            return
        whole = added[: added.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self.fold.apply(json.loads(line))
        self._offset += len(whole)

    def result(self) -> JobResult:
        """Everything read so far, as the result of the job."""
        return self.fold.result()


def read_records(path: Path) -> JobResult:
    """Return what the records of a job say so far; a missing file and a torn last line are no error."""
    journal = Journal(path)
    journal.update()
    return journal.result()
