"""The executor `runpod`: a job is a pod that runs it and ends itself; what both say lies on a board.

A ref is the pod's name, `autoinfer-` and the run's key, which is known before anything is asked of RunPod: so
no ref can be lost. Before a pod is made its name is looked for, and where RunPod's list is behind, the second
pod of a name finds the run taken on the board, and ends itself before it does anything.

`poll` copies what the job told into a folder of this machine, from where `logs` reads.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from configs.errors import AutoinferError, UsageError
from configs.hardware import profile_of_device
from configs.quantities import format_duration
from experiments.disk import disk_in_words
from experiments.executors.asked_gpu import AskedGpu
from experiments.executors.copied_text import chunk_of
from experiments.executors.extras import EXTRAS_NAME
from experiments.executors.port import Cost, LogChunk, Quote, RentedMachine, RunState, Status
from experiments.executors.runpod.account import Account, account_from
from experiments.executors.runpod.api import ImageUntried, NoCapacity, Refused, RunPodApi
from experiments.executors.runpod.asking import HOUR_S, least_usd_per_hr, most_usd_per_hr, new_pod
from experiments.executors.runpod.board import CANCELLED, Asked, Board, Ended, Outcome, Row
from experiments.executors.runpod.body import LOG_NAME
from experiments.executors.runpod.checkpoints import CheckpointsForPods
from experiments.executors.runpod.following import Copy, Lock, Patience, Pods, final_status
from experiments.executors.runpod.gpus import TYPES, gpu_of_target
from experiments.executors.runpod.naming import NAME_PREFIX, is_key, key_of, name_of
from experiments.executors.runpod.watching import Watch
from experiments.job.longest import whole_limit_s
from experiments.job.place import RECORDS_NAME, Place
from experiments.job.spec import AaJob, AnyJob, BaselineJob, BuildJob, TestJob, job_data
from experiments.kill_points import KillPoint, reached

DEFAULT_TARGET = "runpod:H100-SXM"

THREADS = 4
"""How many calls of an executor may be made at once: each waits for a network."""

UNATTENDED = "as much again for each hour that a pod which never begins is left alone"
"""What no bound of a quote can hold: RunPod has no time at which it ends a pod by itself."""

COPIED = (RECORDS_NAME, LOG_NAME, EXTRAS_NAME)
"""What a job tells, file by file."""

_EXPECTED_S = {BaselineJob: 2400.0, TestJob: 2400.0, AaJob: 1200.0, BuildJob: 2400.0}
"""What a job takes where no similar one is known: the image and the model are fetched, then it runs."""


LEAST_CORES, LEAST_MEMORY_BYTES = 4, 8 * 2**30
"""Of the smallest pod that is asked for."""


class RunPodExecutor:
    """Runs jobs on RunPod, on the GPU of `target`; keeps its copies below `root`.

    Of `place` only limits and permissions are used: the folders are the pod's own. Making one asks RunPod
    for nothing; raises `UsageError` for an unknown GPU, and where the environment lacks something.
    """

    name = "runpod"
    threads = THREADS
    logs_elsewhere = True

    def __init__(
        self,
        root: Path,
        place: Place,
        target: str = DEFAULT_TARGET,
        *,
        account: Account | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.root = root
        self.gpu = gpu_of_target(target)
        self._place = place
        self._account = account or account_from()
        self._patience = patience or Patience()
        self._api = RunPodApi(self._account.key, self._account.url)
        self._board = Board(self._account.board)
        self._pods = Pods(self._api, self._patience)
        self._watch = Watch(self._api, self._board, self._pods, self._patience, self.gpu)
        self._ahead: dict[str, tuple[Row, list[tuple[str, int, str]]]] = {}
        """What was read of runs that are about to be polled, by their keys."""
        self._checkpoints = CheckpointsForPods(place.shared_artifacts)
        self._quoted: dict[str, float] = {}
        """What jobs were quoted at, by their specs, until they are submitted."""
        self._copies: dict[str, Copy] = {}

    @classmethod
    def machine(cls, target: str) -> RentedMachine:
        """What a target is asked to be, by the packaged hardware profile that lists the GPU's name; processor
        and memory are those of a pod without a GPU, one with a GPU may have more.

        Raises `UsageError` for a GPU that no profile lists.
        """
        gpu = gpu_of_target(target)
        listed = None if gpu is None else profile_of_device(TYPES[gpu].id)
        if gpu is not None and listed is None:
            raise UsageError(
                f"No packaged hardware profile lists RunPod's {gpu}, so no campaign can be planned for it.",
                f"Its jobs can be run all the same: autoinfer worker --target {target}",
            )
        return RentedMachine(None if listed is None else listed.name, LEAST_CORES, LEAST_MEMORY_BYTES)

    @classmethod
    def gpu_asked(cls, target: str) -> AskedGpu | None:
        """The GPU that a target names, as its driver tells it; None for none."""
        gpu = gpu_of_target(target)
        return None if gpu is None else TYPES[gpu].asked

    def close(self) -> None:
        """Let go of the board's connections."""
        self._board.close()

    def quote(self, spec: AnyJob, limit_s: float | None = None) -> Quote:
        """Bounded by the pod's limit and start-up and by its end, and a second pod's start-up, at the full
        rate; there are no retries. The limit is that of the stages that the job can come to, or `limit_s`
        where that is less. A pod that turns out to cost more is ended at once."""
        usd_per_hr, basis = most_usd_per_hr(self._api, self.gpu, self._account.cloud)
        self._quoted[_digest(spec)] = usd_per_hr
        limit_s = whole_limit_s(spec, self._place.limits_s, limit_s)
        bound_s = limit_s + 2 * self._patience.startup_s + self._patience.end_s
        expected_s = min(_EXPECTED_S[type(spec)], bound_s)
        rate, basis = usd_per_hr / HOUR_S, f"{basis}; {UNATTENDED}"
        return Quote(expected_s, bound_s, expected_s * rate, bound_s * rate, basis)

    def submit(self, key: str, spec: AnyJob, limit_s: float | None = None) -> str:
        """Make the pod, unless one was made for the key; returns its name.

        Raises `UsageError` for a malformed key; `ProviderUnreachable` where RunPod or the board does not
        answer, and where no such GPU is free: another submit of the key is safe then. Any other error says
        that nothing runs.
        """
        if not is_key(key):
            raise UsageError(
                f"{key!r} is no key of a job.", "Use up to 100 letters, digits, dots and dashes."
            )
        name = name_of(key)
        self._board.prepare()
        self._watch.end_overdue()
        with disk_in_words(self.root, "runs"), self._locked(key):
            row = self._board.row(key)
            if row is not None and (row.owner is not None or row.ended is not None):
                return name
            if row is None:
                row = self._board.ask(key, self._asked(spec, limit_s))
            if row.tried_at_s is not None and self._watch.exists(key):
                return name
            self._create(name, key, self._board.asked(key), first=row.tried_at_s is None)
        return name

    def find(self, key: str) -> str | None:
        """The name of the key's pod where one was made, by whomever."""
        self._board.prepare()
        row = self._board.row(key)
        if row is None or row.tried_at_s is None:
            return None
        name = name_of(key)
        return name if row.owner is not None or row.ended is not None or self._watch.exists(key) else None

    def ahead(self, refs: Sequence[str]) -> None:
        """Read what the board has of these runs, which are polled next, all at once."""
        self._board.prepare()
        self._watch.end_overdue()
        keys = {key: ref for ref in refs if (key := self.key_of(ref)) is not None}
        sizes = {key: Copy(self._folder(key)).sizes(COPIED) for key in keys}
        rows, pieces = self._board.rows(keys), self._board.pieces(sizes)
        self._ahead = {keys[key]: (row, pieces[key]) for key, row in rows.items()}

    def poll(self, ref: str) -> Status:
        """Where the run stands; raises `ProviderUnreachable`, after which it is asked again.

        What a pod told is read as data of somebody else: where it makes no sense the run is lost.
        """
        ahead = self._ahead.pop(ref, None)
        self._watch.end_overdue()
        row = self._row(ref) if ahead is None else ahead[0]
        if row is None:
            return Status(RunState.LOST, failure=f"The board knows no run {ref}.")
        try:
            return self._status(row, None if ahead is None else ahead[1])
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
            self._copies.pop(row.key, None)
            self.cancel(ref)
            return Status(RunState.LOST, failure=f"The pod told what is no record of a job ({error}).")

    def _status(self, row: Row, pieces: list[tuple[str, int, str]] | None) -> Status:
        copy = self._copy(row, pieces)
        progress = copy.progress()
        if row.ended is None:
            row, state = self._watch.look(row)
            if row.ended is None:
                return Status(state, progress)
            copy = self._copy(row)
        self._watch.let_end(row)
        assert row.ended is not None
        self._copies.pop(row.key, None)
        return final_status(row.ended, copy)

    def cancel(self, ref: str) -> None:
        """End every pod of the name, and keep one that comes late from beginning; returns when RunPod tells
        none any more. A run that ended stays as it was."""
        row = self._row(ref)
        if row is not None and row.ended is None:
            self._board.end(row.key, Ended(outcome=Outcome.CANCELLED), owner=CANCELLED)
        deadline_s = time.monotonic() + self._patience.gone_s
        while living := self._pods.named(ref, fresh=True):
            for pod in living:
                self._api.terminate(pod.id)
            if time.monotonic() >= deadline_s:
                raise AutoinferError(
                    f"RunPod did not end the pod {ref} in {format_duration(self._patience.gone_s)}; it may "
                    "still cost money.",
                    "End it in RunPod's console.",
                )
            time.sleep(self._patience.look_s)
        if row is not None:
            self._board.gone(row.key)

    def logs(self, ref: str, cursor: int = 0) -> LogChunk | None:
        """The copy of the run's log from byte `cursor` on; `poll` makes it grow."""
        return self._chunk(ref, LOG_NAME, cursor)

    def extras(self, ref: str, cursor: int = 0) -> LogChunk | None:
        """The copy of the run's extras from byte `cursor` on; `poll` makes it grow."""
        return self._chunk(ref, EXTRAS_NAME, cursor)

    def _chunk(self, ref: str, name: str, cursor: int) -> LogChunk | None:
        key = self.key_of(ref)
        folder = None if key is None else self._folder(key)
        return None if folder is None or not folder.is_dir() else chunk_of(folder / name, cursor)

    def cost(self, ref: str) -> Cost:
        """Seconds from the request for the pod to its end or to now, and what they cost by the price that
        RunPod told of it, its disk included. An estimate, rather too high: the bill is RunPod's."""
        row = self._row(ref)
        if row is None or row.tried_at_s is None:
            return Cost(0.0, 0.0)
        usd_per_hr = self._board.usd_per_hr(row.key)
        if usd_per_hr == 0.0:
            if row.owner in (None, CANCELLED):
                return Cost(0.0, 0.0)
            usd_per_hr = self._board.asked(row.key).usd_per_hr
        wall_s = max(0.0, (row.gone_at_s or row.now_s) - row.tried_at_s)
        return Cost(wall_s, wall_s * usd_per_hr / HOUR_S)

    def reconcile(self) -> list[str]:
        """Names of the pods of autoinfer that exist, whoever made them; one that has stopped too."""
        return sorted({pod.name for pod in self._pods.all(fresh=True) if pod.name.startswith(NAME_PREFIX)})

    def key_of(self, ref: str) -> str | None:
        """The key that a pod was made for, which its name tells."""
        return key_of(ref)

    def _create(self, name: str, key: str, asked: Asked, *, first: bool) -> None:
        """Make the pod of a run; `first` where none was asked for before."""
        image = self._account.image
        if not self._board.tries(key, None if self._watch.image_begins else image):
            raise ImageUntried(
                f"No pod has begun with the image {image} yet, and one tries it now.",
                "Others are made when it has.",
            )
        reached(KillPoint.BEFORE_REMOTE_SUBMIT)
        try:
            pod = self._api.create(new_pod(name, key, self._account, asked))
        except (NoCapacity, Refused):
            if first:  # after an answer that was lost there may be a pod all the same
                self._board.made_none(key)
            raise
        reached(KillPoint.BEFORE_REF_STORED)
        if pod.usd_per_hr > asked.usd_per_hr + 1e-6:
            self.cancel(name)
            raise AutoinferError(
                f"RunPod asks {pod.usd_per_hr:.2f} USD an hour for the pod, which was quoted at "
                f"{asked.usd_per_hr:.2f}: it was ended before it began.",
                "Queue the job again for a quote by the new price.",
            )
        self._watch.submitted.add(key)
        self._board.made(key, pod.id, max(pod.usd_per_hr, least_usd_per_hr(self.gpu)))

    def _row(self, ref: str) -> Row | None:
        """The run as the board has it now."""
        key = self.key_of(ref)
        if key is None:
            return None
        self._board.prepare()
        return self._board.row(key)

    def _copy(self, row: Row, pieces: list[tuple[str, int, str]] | None = None) -> Copy:
        """The copy of what was told, with these pieces added, or with all that there are now."""
        with disk_in_words(self.root, "runs"), self._locked(row.key):
            copy = self._copies.setdefault(row.key, Copy(self._folder(row.key)))
            if pieces is None:
                pieces = self._board.pieces({row.key: copy.sizes(COPIED)})[row.key]
            copy.add(pieces)
        return copy

    def _folder(self, key: str) -> Path:
        return self.root / ".runpod" / key

    def _locked(self, key: str) -> Lock:
        return Lock(self._folder(key))

    def _asked(self, spec: AnyJob, limit_s: float | None) -> Asked:
        """What is asked of a pod; raises `AutoinferError` where it could not come by the job's checkpoint."""
        rate = self._quoted.pop(_digest(spec), None)
        return Asked(
            version=spec.version,
            gpu=self.gpu,
            spec=job_data(spec),
            limits_s=self._place.limits_s,
            load_limit_s=self._place.load_limit_s,
            usd_per_hr=rate or most_usd_per_hr(self._api, self.gpu, self._account.cloud)[0],
            run_generated_code=self._place.run_generated_code,
            limit_s=whole_limit_s(spec, self._place.limits_s, limit_s),
            image=self._account.image,
            shape=self._checkpoints.shape_of(spec),
            shared_artifacts=self._checkpoints.bucket,
        )


def _digest(spec: AnyJob) -> str:
    return hashlib.sha256(spec.model_dump_json().encode()).hexdigest()
