"""What runs on Modal for one job: it claims the job, checks the GPU, runs the job as it is run anywhere, and
tells what happens. It knows Modal only as three mappings, and it never raises (see `protocol.Envelope`).

Modal may run an input again in another container, when it preempted the first: the call is the same, so the
claim is its own, and the job begins anew as the call's next start. A start that finds a later one ends.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from experiments.disk import DISK_FULL, is_full, told_in_words
from experiments.executors.checkpoint_there import folder_to_bring, write_shape_texts
from experiments.executors.extras import EXTRAS_NAME, ExtrasWriter
from experiments.executors.local import JOB_COMMAND, LocalExecutor
from experiments.executors.modal.gpus import NO_GPU, TARGET_PREFIX, other_than_asked
from experiments.executors.modal.protocol import (
    CANCELLED,
    MODELS_FOLDER,
    MODELS_VOLUME,
    WORK_FOLDER,
    Asked,
    Envelope,
    Head,
    Outcome,
    Piece,
    model_folder,
    piece_key,
    start_key,
)
from experiments.executors.port import RunState
from experiments.job.longest import limit_sentence
from experiments.job.place import RECORDS_NAME, Place
from experiments.job.result import BROKE
from experiments.job.seal import broken_seal, sealed
from experiments.job.spec import SPEC_VERSION, AnyJob, TestJob, parse_job
from experiments.telemetry.collect import Sampler
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice, identify
from experiments.telemetry.reading import Sample

TELL_S = 2.0
"""How often a piece is told: often enough to watch, rare beside a measurement."""

_LOG_NAME = "log.txt"
_PIECE_BYTES = 4 * 1024 * 1024
"""Most of a file that one piece takes."""

_DEVICE = "cuda:0"

USED_UP = "Modal started the call again, and the time that was quoted for it is used up, so it was ended."


class Mapping(Protocol):
    """What is used of one of Modal's Dicts."""

    def get(self, key: str, default: str | None = None) -> str | None:
        """The value, or `default`."""
        ...

    def put(self, key: str, value: str, *, skip_if_exists: bool = False) -> bool:
        """Store; false when it was there and `skip_if_exists`."""
        ...


@dataclass(frozen=True)
class Boards:
    """The three Dicts of `protocol`."""

    claims: Mapping
    heads: Mapping
    pieces: Mapping


@dataclass(frozen=True)
class Container:
    """What the container has: folders, what starts jobs, how its GPU is asked and read, and what makes files
    last."""

    work: Path = Path(WORK_FOLDER)
    models: Path = Path(MODELS_FOLDER)
    vllm_python: Path | None = None
    command: Sequence[str] = JOB_COMMAND
    identify: Callable[[str], DeviceIdentity] = identify
    sampler: Callable[[], Callable[[], Sample]] = lambda: Sampler().sample
    commit: Callable[[], None] = lambda: None
    tell_s: float = TELL_S


def run_body(packed: bytes, call_id: str, boards: Boards, container: Container) -> str:
    """Run the job that `packed` asks for as the call `call_id`; returns an `Envelope` as JSON, always."""
    began_at_s = time.time()
    try:
        envelope = _run(packed, call_id, boards, container, began_at_s)
    except Exception as error:  # a builtin TimeoutError too, which the caller would take for "not yet"
        envelope = Envelope(
            outcome=Outcome.FAILED if is_full(error) else Outcome.LOST,
            call_id=call_id,
            sentence=told_in_words(f"The remote run failed: {type(error).__name__}: {error}"),
            failure_kind=DISK_FULL if is_full(error) else BROKE,
        )
    return envelope.model_copy(update={"began_at_s": began_at_s, "ended_at_s": time.time()}).model_dump_json()


def _run(packed: bytes, call_id: str, boards: Boards, container: Container, began_at_s: float) -> Envelope:
    asked = Asked.unpacked(packed)
    owner = claim(boards.claims, asked.key, call_id)
    if owner != call_id:
        return Envelope(
            outcome=Outcome.CANCELLED if owner == CANCELLED else Outcome.DUPLICATE,
            call_id=call_id,
            owner=owner,
            sentence=f"{asked.key} is not begun by this call: {owner} came first.",
        )
    start = 1
    while not boards.claims.put(start_key(call_id, start), call_id, skip_if_exists=True):
        start += 1
    told = boards.heads.get(call_id)
    before = (
        Head(call_id=call_id, key=asked.key, gpu=None) if told is None else Head.model_validate_json(told)
    )
    teller = Teller(
        boards,
        Head(
            call_id=call_id,
            key=asked.key,
            gpu=asked.gpu,
            start=start,
            submitted_at_s=before.submitted_at_s,
            began_at_s=began_at_s,
            first_began_at_s=before.first_began_at_s or began_at_s,
        ),
    )
    teller.say()
    try:
        envelope = _work(asked, teller, container)
    finally:
        if not teller.superseded():
            teller.say(ended=True)
    head = teller.head
    return envelope.model_copy(update={"start": start, "pieces": head.pieces, "got_gpu": head.got_gpu})


def claim(claims: Mapping, key: str, call_id: str) -> str:
    """Make `call_id` the one that works on the job, unless another is; returns which one is."""
    if claims.put(key, call_id, skip_if_exists=True):
        return call_id
    return claims.get(key) or call_id


@dataclass
class Teller:
    """Tells a job's files by pieces, and where it stands."""

    boards: Boards
    head: Head
    _told: dict[str, int] = field(default_factory=dict)

    def must_end(self, within_s: float | None) -> bool:
        """Whether this is a later start and the call's time is used up, over all its starts."""
        if within_s is None or self.head.start == 1:
            return False
        return time.time() - self.head.first_began_at_s >= within_s

    def say(self, *, ended: bool = False, got_gpu: str | None = None) -> None:
        """Write the head."""
        update: dict[str, object] = {"told_at_s": time.time(), "ended": ended}
        if got_gpu is not None:
            update["got_gpu"] = got_gpu
        self.head = self.head.model_copy(update=update)
        self.boards.heads.put(self.head.call_id, self.head.model_dump_json())

    def superseded(self) -> bool:
        """Whether the call was started again after this start."""
        return self.boards.claims.get(start_key(self.head.call_id, self.head.start + 1)) is not None

    def tell(self, folder: Path) -> None:
        """Tell what was added to the files of a run since the last time."""
        while True:
            records, log, extras = (
                self._added(folder / name) for name in (RECORDS_NAME, _LOG_NAME, EXTRAS_NAME)
            )
            if not (records or log or extras):
                return
            piece = Piece(records=records, log=log, extras=extras)
            key = piece_key(self.head.call_id, self.head.start, self.head.pieces)
            self.boards.pieces.put(key, piece.model_dump_json())
            self.head = self.head.model_copy(update={"pieces": self.head.pieces + 1})

    def _added(self, path: Path) -> str:
        """The whole lines that were added; a torn last one waits, so that no character is cut."""
        at = self._told.get(path.name, 0)
        try:
            with path.open("rb") as file:
                file.seek(at)
                data = file.read(_PIECE_BYTES)
        except FileNotFoundError:
            return ""
        whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == _PIECE_BYTES else b"")
        self._told[path.name] = at + len(whole)
        return whole.decode(errors="replace")


def _work(asked: Asked, teller: Teller, container: Container) -> Envelope:
    call_id = teller.head.call_id

    def ended(outcome: Outcome, sentence: str = "") -> Envelope:
        return Envelope(outcome=outcome, call_id=call_id, sentence=sentence)

    if teller.must_end(asked.within_s):
        return ended(Outcome.LOST, USED_UP)
    if asked.version != SPEC_VERSION:
        return ended(
            Outcome.FAILED,
            f"The job was written as version {asked.version}, and version {SPEC_VERSION} is deployed. "
            "Deploy this version with: autoinfer modal deploy",
        )
    try:
        spec = parse_job(asked.spec)
    except ValidationError as error:
        return ended(Outcome.FAILED, f"The job's spec is malformed: {error.errors()[0]['msg']}.")
    if asked.gpu is not None:
        try:
            found = container.identify(_DEVICE)
        except NoSuchDevice as reason:
            return ended(Outcome.LOST, f"The container on Modal has no GPU that can be measured: {reason}")
        teller.say(got_gpu=found.name)
        if other := other_than_asked(asked.gpu, found.name, found.memory_bytes):
            return ended(Outcome.OTHER_GPU, other)
    models = container.models
    if asked.shape:
        models = container.work / "shapes"
        write_shape_texts(asked.shape, models / model_folder(spec.model_fingerprint))
    if (there := as_here(spec, asked.gpu, models)) is None:
        return ended(
            Outcome.FAILED,
            f"The checkpoint {spec.model} is not on Modal. Put it there with: modal volume put "
            f"{MODELS_VOLUME} {spec.model} /{model_folder(spec.model_fingerprint)}",
        )
    with tempfile.TemporaryDirectory(prefix="autoinfer-") as root:
        place = Place(
            artifacts_dir=container.work / "artifacts",
            cache_dir=container.work / "cache",
            vllm_python=container.vllm_python,
            limits_s=asked.limits_s,
            load_limit_s=asked.load_limit_s,
            run_generated_code=asked.run_generated_code,
        )
        executor = LocalExecutor(Path(root), place, container.command)
        try:
            return _follow(executor, asked, there, teller, container, ended)
        finally:
            executor.close()
            container.commit()


def _follow(
    executor: LocalExecutor,
    asked: Asked,
    spec: AnyJob,
    teller: Teller,
    container: Container,
    ended: Callable[[Outcome, str], Envelope],
) -> Envelope:
    ref = executor.submit(asked.key, spec)
    folder = executor.root / ref
    limit_s, began_at_s = asked.limit_s, teller.head.began_at_s
    with ExtrasWriter(folder, container.sampler() if asked.gpu is not None else None) as extras:
        while (status := executor.poll(ref)).state in (RunState.PENDING, RunState.RUNNING):
            if limit_s is not None and time.time() - began_at_s >= limit_s:
                executor.cancel(ref)
                extras.look(last=True)
                teller.tell(folder)
                return ended(Outcome.TIMED_OUT, limit_sentence(limit_s))
            if teller.superseded():
                return ended(Outcome.LOST, "Modal started the call again while this start still ran.")
            if teller.must_end(asked.within_s):
                return ended(Outcome.LOST, USED_UP)
            extras.look()
            teller.tell(folder)
            teller.say()
            executor.wait(ref, container.tell_s)
        extras.look(last=True)
    teller.tell(folder)
    if status.state is RunState.DONE:
        return ended(Outcome.DONE, "")
    outcome = Outcome.FAILED if status.state is RunState.FAILED else Outcome.LOST
    told = ended(outcome, status.failure or "The run ended without a result.")
    return told.model_copy(update={"failure_kind": status.failure_kind})


def as_here(spec: AnyJob, gpu: str | None, models: Path) -> AnyJob | None:
    """The spec with its device and its checkpoint as the container has them; None where it has no checkpoint.

    The packaged checkpoint went up with the code, and one of the hub is fetched by the job. A device that was
    sealed as the target, such as `modal:H100!`, is this container's one device; only an unbroken seal is made
    anew for it.
    """
    changes: dict[str, object] = {}
    if folder_to_bring(spec.model) is not None:
        folder = models / model_folder(spec.model_fingerprint)
        if not folder.is_dir():
            return None
        changes["model"] = str(folder)
    if spec.device.startswith(TARGET_PREFIX):
        changes["device"] = NO_GPU if gpu is None else _DEVICE
    there = spec.model_copy(update=changes)
    if isinstance(spec, TestJob) and isinstance(there, TestJob) and broken_seal(spec) is None:
        return sealed(there)
    return there
