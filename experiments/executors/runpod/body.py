"""What runs in a pod for its one job: it takes the job from the board, checks the GPU, runs the job as it is
run anywhere, and tells what happens.

A run is taken once, by one start of one pod. Another pod of the same key does nothing. Where RunPod starts
the same container again, the run is lost: what the first start measured can't be trusted to be whole, and
the queue gives the job another attempt, under another key.
"""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from configs.errors import AutoinferError
from experiments.artifacts.originals import fetch_original
from experiments.artifacts.shared import SharedArtifacts
from experiments.disk import DISK_FULL, is_full, told_in_words
from experiments.executors.checkpoint_there import folder_to_bring, write_shape_texts
from experiments.executors.extras import EXTRAS_NAME, ExtrasWriter
from experiments.executors.local import JOB_COMMAND, LocalExecutor
from experiments.executors.port import RunState
from experiments.executors.runpod.board import (
    CANCELLED,
    Asked,
    Board,
    BoardUnreachable,
    Ended,
    Outcome,
    limit_of,
)
from experiments.executors.runpod.board_tables import PIECE_BYTES
from experiments.executors.runpod.gpus import NO_GPU, TARGET_PREFIX, other_than_asked
from experiments.job.longest import limit_sentence
from experiments.job.place import RECORDS_NAME, Place
from experiments.job.seal import broken_seal, sealed
from experiments.job.spec import SPEC_VERSION, AnyJob, TestJob, parse_job
from experiments.telemetry.collect import Sampler
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice, identify
from experiments.telemetry.reading import Sample

TELL_S = 2.0
"""How often the job is looked at and told: often enough to watch, rare beside a measurement."""

REACH_S = 120.0
"""How long the board may be out of reach at the start, before the pod is given back."""

AGAIN_S = 1.0

LOG_NAME = "log.txt"

_DEVICE = "cuda:0"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Container:
    """What the pod has: a folder, what starts jobs, the engine's Python, and how its GPU is asked
    and read."""

    work: Path
    command: Sequence[str] = JOB_COMMAND
    vllm_python: Path | None = None
    identify: Callable[[str], DeviceIdentity] = identify
    sampler: Callable[[], Callable[[], Sample]] = lambda: Sampler().sample
    tell_s: float = TELL_S
    reach_s: float = REACH_S
    is_over: Callable[[], bool] = lambda: False
    """Whether the pod's limit is reached."""


def run_body(board: Board, key: str, pod_id: str, container: Container) -> Ended | None:
    """Run the job of `key`; returns how it ended, None where another start has it or nobody asks for it.

    Raises `BoardUnreachable` when the board could not be reached at the start.
    """
    boot = f"{pod_id}/{uuid.uuid4().hex}"
    owner = _until_heard(lambda: board.claim(key, boot), container.reach_s)
    if owner != boot:
        if owner is not None and owner.startswith(f"{pod_id}/"):
            ended = Ended(outcome=Outcome.LOST, sentence="RunPod started the pod's container again.")
            _until_heard(lambda: board.end(key, ended))
        what = "was cancelled" if owner == CANCELLED else f"is {owner}'s" if owner else "is not asked for"
        print(f"{key} {what}: this pod does nothing.", flush=True)
        return None
    try:
        ended = _work(board, key, container)
    except BoardUnreachable:
        raise
    except Exception as error:  # whatever it was, the queue may try the job again
        why = told_in_words(f"The pod failed: {type(error).__name__}: {error}")
        ended = Ended(outcome=Outcome.LOST, sentence=why)
        if is_full(error):  # that of the next pod is as large
            ended = Ended(outcome=Outcome.FAILED, sentence=why, failure_kind=DISK_FULL)
    _until_heard(lambda: board.end(key, ended))
    return ended


def as_here(spec: AnyJob, gpu: str | None, checkpoint: Path | None = None) -> AnyJob:
    """The spec with its device and its checkpoint, where that was fetched, as the pod has them: a target that
    was sealed, such as `runpod:L4`, is this pod's one device. Only an unbroken seal is made anew for it."""
    changes: dict[str, object] = {}
    if spec.device.startswith(TARGET_PREFIX):
        changes["device"] = NO_GPU if gpu is None else _DEVICE
    if checkpoint is not None:
        changes["model"] = str(checkpoint)
    there = spec.model_copy(update=changes)
    if isinstance(spec, TestJob) and isinstance(there, TestJob) and broken_seal(spec) is None:
        return sealed(there)
    return there


def _work(board: Board, key: str, container: Container) -> Ended:
    try:
        asked = _until_heard(lambda: board.asked(key))
        if asked.version != SPEC_VERSION:
            return Ended(
                outcome=Outcome.FAILED,
                sentence=f"The job was written as version {asked.version}, and the image of the pods runs "
                f"version {SPEC_VERSION}. Build and push the image anew.",
            )
        spec = parse_job(asked.spec)
    except ValidationError as error:
        sentence = f"The job's spec is malformed: {error.errors()[0]['msg']}."
        return Ended(outcome=Outcome.FAILED, sentence=sentence)
    got = None
    if asked.gpu is not None:
        try:
            found = container.identify(_DEVICE)
        except NoSuchDevice as reason:
            return Ended(outcome=Outcome.LOST, sentence=f"The pod has no GPU that can be measured: {reason}")
        got = found.name
        if other := other_than_asked(asked.gpu, found.name, found.memory_bytes):
            return Ended(outcome=Outcome.OTHER_GPU, sentence=other, got_gpu=got)
    fetched = _checkpoint(spec, asked, container)
    if isinstance(fetched, Ended):
        return fetched
    with tempfile.TemporaryDirectory(prefix="autoinfer-") as root:
        place = Place(
            shared_artifacts=asked.shared_artifacts,
            artifacts_dir=container.work / "artifacts",
            cache_dir=container.work / "cache",
            vllm_python=container.vllm_python,
            limits_s=asked.limits_s,
            load_limit_s=asked.load_limit_s,
            run_generated_code=asked.run_generated_code,
        )
        executor = LocalExecutor(Path(root), place, container.command)
        try:
            there = as_here(spec, asked.gpu, fetched)
            return _follow(board, key, executor, there, container, got, limit_of(asked))
        finally:
            executor.close()


def _checkpoint(spec: AnyJob, asked: Asked, container: Container) -> Path | Ended | None:
    """Bring the job's checkpoint here; None where the job finds it by itself. An end where there is none, or
    the pod's limit is reached meanwhile."""
    if folder_to_bring(spec.model) is None:
        return None
    folder = container.work / "models" / uuid.uuid4().hex
    if asked.shape:
        return write_shape_texts(asked.shape, folder)
    if asked.shared_artifacts is None:
        sentence = f"The checkpoint {spec.model} is a folder, and no bucket was named to fetch it from."
        return Ended(outcome=Outcome.FAILED, sentence=sentence)
    shared = SharedArtifacts(asked.shared_artifacts)
    print(f"The checkpoint is fetched from {shared.url}.", flush=True)
    fetching = _Fetching(lambda: fetch_original(shared, spec.model_fingerprint, folder))
    fetching.start()
    while fetching.is_alive():
        if container.is_over():
            return Ended(outcome=Outcome.TIMED_OUT, sentence=limit_sentence(limit_of(asked)))
        fetching.join(container.tell_s)
    if isinstance(fetching.found, Path):
        return fetching.found
    why = fetching.found or f"The checkpoint {spec.model} is not in {shared.url}, or is damaged there."
    return Ended(outcome=Outcome.FAILED, sentence=str(why))


class _Fetching(threading.Thread):
    """Fetches a checkpoint; `found` is where it lies, None where it is not, or why it can't be fetched."""

    def __init__(self, fetch: Callable[[], Path | None]) -> None:
        super().__init__(daemon=True)
        self._fetch = fetch
        self.found: Path | AutoinferError | None = None

    def run(self) -> None:
        try:
            self.found = self._fetch()
        except AutoinferError as error:
            self.found = error
        except Exception as error:  # such as a disk that is full
            self.found = AutoinferError(f"The checkpoint could not be fetched: {error}.")


def _follow(
    board: Board,
    key: str,
    executor: LocalExecutor,
    spec: AnyJob,
    container: Container,
    got: str | None,
    limit_s: float,
) -> Ended:
    ref = executor.submit(key, spec)
    folder = executor.root / ref
    teller = _Teller(board, key, folder)
    with ExtrasWriter(folder, None if got is None else container.sampler()) as extras:
        while (status := executor.poll(ref)).state in (RunState.PENDING, RunState.RUNNING):
            if container.is_over():
                executor.cancel(ref)
                return Ended(outcome=Outcome.TIMED_OUT, sentence=limit_sentence(limit_s), got_gpu=got)
            extras.look()
            try:
                if not teller.tell():
                    return Ended(outcome=Outcome.CANCELLED)
            except BoardUnreachable as reason:  # the job goes on meanwhile, up to the pod's limit
                print(reason, flush=True)
            executor.wait(ref, container.tell_s)
        extras.look(last=True)
    _until_heard(teller.tell)
    match status.state:
        case RunState.DONE:
            return Ended(outcome=Outcome.DONE, got_gpu=got)
        case RunState.FAILED:
            why, kind = status.failure or "The run failed.", status.failure_kind
            return Ended(outcome=Outcome.FAILED, sentence=why, failure_kind=kind, got_gpu=got)
        case _:
            sentence = status.failure or "The run ended without a result."
            return Ended(outcome=Outcome.LOST, sentence=sentence, got_gpu=got)


@dataclass
class _Teller:
    """Tells a job's files piece by piece; what was not heard is told again, from the same place."""

    board: Board
    key: str
    folder: Path
    read: dict[str, int] = field(default_factory=dict)
    """How far each file was read."""
    told: dict[str, int] = field(default_factory=dict)
    """How long its copy is: other than that where a character could not be kept."""
    unheard: list[tuple[str, int, str]] = field(default_factory=list)
    """What was read and perhaps not heard: it is told again as it was, because a part of it may be there."""

    def tell(self) -> bool:
        """Tell what was added, and that the pod lives; false where the run has ended for everybody else."""
        while True:
            if not self.unheard:
                self.unheard = self._next()
            told = bool(self.unheard)
            wanted = self.board.tell(self.key, self.unheard)
            self.unheard = []
            if not wanted or not told:
                return wanted

    def _next(self) -> list[tuple[str, int, str]]:
        pieces = []
        for name in (RECORDS_NAME, LOG_NAME, EXTRAS_NAME):
            size, data = self._added(name)
            if data:
                at = self.told.get(name, 0)
                pieces.append((name, at, data))
                self.told[name], self.read[name] = at + len(data.encode()), self.read.get(name, 0) + size
        return pieces

    def _added(self, name: str) -> tuple[int, str]:
        """Whole lines that were added, in bytes and as PostgreSQL takes text; a torn last one waits."""
        try:
            with (self.folder / name).open("rb") as file:
                file.seek(self.read.get(name, 0))
                data = file.read(PIECE_BYTES)
        except FileNotFoundError:
            return 0, ""
        whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == PIECE_BYTES else b"")
        return len(whole), whole.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


def _until_heard(say: Callable[[], _Answer], within_s: float = float("inf")) -> _Answer:
    """Ask the board until it answers; the pod's own limit ends what has no other."""
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            return say()
        except BoardUnreachable as reason:
            if time.monotonic() >= deadline_s:
                raise
            print(reason, flush=True)
            time.sleep(AGAIN_S)
