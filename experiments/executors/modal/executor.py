"""The executor `modal`: a job is one call of the deployed function; a ref is the call's id.

`submit` writes what it is about to do, calls, and stores the id. Killed in between, the next submit of the
key looks for the call that claimed the job, and takes its id. A call that has not begun yet claimed nothing:
then the function is called once more, and whichever of the two begins second gives way to the first before it
does anything; its start-up seconds, at most those of the deployment, are counted in `cost`.

`poll` copies what the job told into a folder of its own (`run_folder`), from where `logs` reads.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path

from configs.errors import AutoinferError, UsageError
from configs.quantities import format_duration
from experiments.disk import disk_in_words
from experiments.executors.asked_gpu import AskedGpu
from experiments.executors.checkpoint_there import folder_to_bring, shape_texts
from experiments.executors.copied_text import chunk_of
from experiments.executors.extras import EXTRAS_NAME
from experiments.executors.modal.client import (
    CallGone,
    Calls,
    ModalUnreachable,
    in_our_words,
)
from experiments.executors.modal.deployment import CORES, MEMORY_GIB, STARTUP_S, deployed_startup_s
from experiments.executors.modal.following import KEY, LONGEST_S, Follower, Patience
from experiments.executors.modal.gpus import TYPES, gpu_of_target
from experiments.executors.modal.prices import Rates, current_rates
from experiments.executors.modal.protocol import (
    CANCELLED,
    Asked,
    Head,
    cancelled_key,
)
from experiments.executors.modal.run_folder import (
    LOG_NAME,
    Call,
    Ended,
    Intent,
    RunFolder,
    folder_of_call,
)
from experiments.executors.port import Cost, LogChunk, Quote, RentedMachine, RunState, Status
from experiments.job.longest import whole_limit_s
from experiments.job.place import Place
from experiments.job.spec import AaJob, AnyJob, BaselineJob, BuildJob, TestJob, job_data
from experiments.kill_points import KillPoint, reached

_LOG = logging.getLogger(__name__)

DEFAULT_TARGET = "modal:H100!"

THREADS = 8
"""How many calls of an executor may be made at once: each waits for a network."""

END_S = 60
"""How long the body may take to end by itself at the job's limit, seconds, before Modal ends the call."""

_EXPECTED_S = {BaselineJob: 1800.0, TestJob: 1800.0, AaJob: 600.0, BuildJob: 1800.0}
"""What a job takes where no similar one is known: a start, launches of minutes each, blocks."""


class ModalExecutor:
    """Runs jobs on Modal, on the GPU of `target`; keeps its folders below `root`.

    Of `place` only limits and permissions are used: the folders are the container's own. Making one asks
    Modal for nothing. `startup_s` is how long a container may take to start, that of what is deployed if not
    given.
    """

    name = "modal"
    threads = THREADS
    logs_elsewhere = True
    """The folder of a run where pages look for logs is not made here: whoever polls copies `logs` into it."""

    def __init__(
        self,
        root: Path,
        place: Place,
        target: str = DEFAULT_TARGET,
        *,
        calls: Calls | None = None,
        patience: Patience | None = None,
        rates: Callable[[], Rates] = current_rates,
        startup_s: int | None = None,
    ) -> None:
        self.root = root
        self.gpu = gpu_of_target(target)
        self._place = place
        self._calls = calls or Calls()
        self._patience = patience or Patience()
        self._ask_rates = rates
        self._rates: tuple[float, Rates] | None = None
        """When Modal was asked, by the monotonic clock, and what it said."""
        self._startup_s = startup_s
        self._startup: tuple[float, int] | None = None
        """When Modal was asked what is deployed, likewise, and its start-up."""
        self._follower = Follower(root, self._calls, self._patience, startup_s or STARTUP_S)

    @classmethod
    def machine(cls, target: str) -> RentedMachine:
        """What a target is asked to be, by the packaged hardware profile of the GPU's name."""
        gpu = gpu_of_target(target)
        hardware = None if gpu is None else gpu.removesuffix("!").lower()
        return RentedMachine(hardware, int(CORES), int(MEMORY_GIB * 2**30))

    @classmethod
    def gpu_asked(cls, target: str) -> AskedGpu | None:
        """The GPU that a target names, as its driver tells it; None for none."""
        gpu = gpu_of_target(target)
        return None if gpu is None else TYPES[gpu]

    def quote(self, spec: AnyJob, limit_s: float | None = None) -> Quote:
        """Bounded by the call's time limit and the start-up, each at the full rate; there are no retries.
        The time limit is that of the stages that the job can come to, or `limit_s` where that is less, and
        `END_S` for the body to end by itself; a call that Modal started again is ended when that is over,
        counted from its first start.

        A duplicate after a crash costs at most its own start-up, which is in the bound.
        """
        rates = self._current_rates()
        rate = rates.of(self.gpu, CORES, MEMORY_GIB)
        bound_s = float(self._timeout_s(spec, limit_s) + 2 * self._deployed_startup_s())
        expected_s = min(_EXPECTED_S[type(spec)], bound_s)
        basis = f"{rate * 3600:.2f} USD an hour for {self.gpu or 'no GPU'}: {rates.basis}"
        return Quote(expected_s, bound_s, expected_s * rate, bound_s * rate, basis)

    def submit(self, key: str, spec: AnyJob, limit_s: float | None = None) -> str:
        """Call the function, unless a call works on the key or did; returns the call's id.

        Raises `UsageError` for a malformed key and where this version is not deployed, and `ModalUnreachable`
        when Modal does not answer: another submit of the key is safe then, as after a crash.
        """
        if not KEY.fullmatch(key):
            raise UsageError(
                f"{key!r} is no key of a job.", "Use up to 100 letters, digits, dots and dashes."
            )
        folder = RunFolder(self.root, key)
        with disk_in_words(self.root, "runs"), folder.locked():
            if (known := folder.call()) is not None:
                return known.call_id
            intent = folder.intent()
            if intent is not None and (owner := self._follower.claimed(key)) is not None:
                folder.write_call(Call(call_id=owner))
                return owner
            if intent is None:
                timeout_s = self._timeout_s(spec, limit_s)
                intent = Intent(gpu=self.gpu, timeout_s=timeout_s, submitted_at_s=time.time())
                folder.write_intent(intent)
            asked = self._asked(key, spec, intent.gpu, intent.timeout_s)
            reached(KillPoint.BEFORE_REMOTE_SUBMIT)
            call_id = self._calls.spawn(asked.packed(), intent.gpu, intent.timeout_s)
            reached(KillPoint.BEFORE_REF_STORED)
            folder.write_call(Call(call_id=call_id))
        self._announce(Head(call_id=call_id, key=key, gpu=intent.gpu, submitted_at_s=intent.submitted_at_s))
        return call_id

    def find(self, key: str) -> str | None:
        """The call that was made for the key, by whomever: the one that works on it, or waits to."""
        if (known := RunFolder(self.root, key).call()) is not None:
            return known.call_id
        if (owner := self._follower.claimed(key)) is not None:
            return owner
        made = [head for head in self._follower.heads(fresh=True).values() if head.key == key]
        return min(made, key=lambda head: head.submitted_at_s).call_id if made else None

    def poll(self, ref: str) -> Status:
        """Where the run stands; raises `ModalUnreachable`, after which it is asked again."""
        return self._follower.status(ref)

    def cancel(self, ref: str) -> None:
        """End the call and every other one of its key; returns when Modal says that they have ended.

        A run that ended stays as it was. Raises `AutoinferError` when Modal does not end it in time.
        """
        folder = folder_of_call(self.root, ref)
        if self.poll(ref).state not in (RunState.PENDING, RunState.RUNNING):
            return
        folder = folder or folder_of_call(self.root, ref)
        calls = [ref]
        if folder is not None:
            folder.write_cancelled()
            # Whoever has not begun yet finds the job taken: a call whose id was lost does nothing any more.
            with in_our_words():
                self._follower.board().claims.put(folder.key, CANCELLED, skip_if_exists=True)
            owner = self._follower.claimed(folder.key)
            calls += [each for each in (owner,) if each is not None and each != ref]
        for call_id in calls:
            with in_our_words():
                self._follower.board().claims.put(cancelled_key(call_id), call_id)
            self._calls.cancel(call_id)
        for call_id in calls:
            self._wait_until_gone(call_id)
            self._follower.mark_ended(call_id)
        if folder is not None and folder.ended() is None:
            told = self._follower.told.get(ref)
            folder.write_ended(Ended(state=RunState.CANCELLED, at_s=time.time(), head=told))

    def logs(self, ref: str, cursor: int = 0) -> LogChunk | None:
        """The copy of the run's log from byte `cursor` on; `poll` makes it grow."""
        folder = folder_of_call(self.root, ref)
        if folder is None:
            return None
        return chunk_of(folder.path / LOG_NAME, cursor)

    def extras(self, ref: str, cursor: int = 0) -> LogChunk | None:
        """The copy of the run's extras from byte `cursor` on; `poll` makes it grow."""
        folder = folder_of_call(self.root, ref)
        return None if folder is None else chunk_of(folder.path / EXTRAS_NAME, cursor)

    def cost(self, ref: str) -> Cost:
        """Seconds from the first container's begin to the end or to now, and what they cost by the current
        rates, with the start-up of each of the run's calls at its most. An estimate: the bill is Modal's."""
        folder = folder_of_call(self.root, ref)
        if folder is None or (intent := folder.intent()) is None or (call := folder.call()) is None:
            return Cost(0.0, 0.0)
        ended = folder.ended()
        wall_s, startup_s = 0.0, 0.0
        for call_id in (call.call_id, *call.others):
            span = _span_s(self._follower.told.get(call_id), call_id, ended, intent)
            if span is not None:
                wall_s += max(0.0, span[1] - span[0])
                startup_s += min(float(self._deployed_startup_s()), max(0.0, span[0] - intent.submitted_at_s))
        rate = self._current_rates().of(intent.gpu, CORES, MEMORY_GIB)
        return Cost(wall_s, (wall_s + startup_s) * rate)

    def reconcile(self) -> list[str]:
        """Calls that have not ended, whoever made them: those that tell so, and those made from here."""
        found = []
        for call_id, head in sorted(self._follower.heads(fresh=True).items()):
            if not head.ended and self.poll(call_id).state in (RunState.PENDING, RunState.RUNNING):
                found.append(call_id)
        return found

    def key_of(self, ref: str) -> str | None:
        """The key that a call works on, where anybody told it."""
        folder = folder_of_call(self.root, ref)
        if folder is not None:
            return folder.key
        head = self._follower.head(ref)
        return None if head is None else head.key

    def _asked(self, key: str, spec: AnyJob, gpu: str | None, timeout_s: int | None = None) -> Asked:
        timeout_s = self._timeout_s(spec) if timeout_s is None else timeout_s
        folder = folder_to_bring(spec.model)
        return Asked(
            version=spec.version,
            key=key,
            gpu=gpu,
            spec=job_data(spec),
            limits_s=self._place.limits_s,
            load_limit_s=self._place.load_limit_s,
            run_generated_code=self._place.run_generated_code,
            within_s=float(timeout_s),
            limit_s=float(timeout_s - END_S),
            shape={} if folder is None else shape_texts(folder),
        )

    def _timeout_s(self, spec: AnyJob, limit_s: float | None = None) -> int:
        return min(LONGEST_S, math.ceil(whole_limit_s(spec, self._place.limits_s, limit_s)) + END_S)

    def _deployed_startup_s(self) -> int:
        if self._startup_s is not None:
            return self._startup_s
        asked = self._startup
        if asked is None or time.monotonic() - asked[0] >= self._patience.rates_s:
            asked = self._startup = (time.monotonic(), deployed_startup_s())
        return asked[1]

    def _current_rates(self) -> Rates:
        asked = self._rates
        if asked is None or time.monotonic() - asked[0] >= self._patience.rates_s:
            asked = self._rates = (time.monotonic(), self._ask_rates())
        return asked[1]

    def _announce(self, head: Head) -> None:
        """Tell everybody of a call that waits for a container; a call that told itself is left as it is."""
        try:
            with in_our_words():
                self._follower.board().heads.put(head.call_id, head.model_dump_json(), skip_if_exists=True)
        except ModalUnreachable as reason:  # it will tell itself when it begins
            _LOG.warning("%s", reason)

    def _wait_until_gone(self, call_id: str) -> None:
        deadline_s = time.monotonic() + self._patience.gone_s
        while time.monotonic() < deadline_s:
            try:
                if self._calls.result(call_id) is not None:
                    return
            except CallGone:
                return
            time.sleep(self._patience.look_s)
        raise AutoinferError(
            f"Modal did not end call {call_id} in {format_duration(self._patience.gone_s)}; it may still "
            "cost money.",
            "End everything there with: autoinfer modal stop",
        )


def _span_s(
    head: Head | None, call_id: str, ended: Ended | None, intent: Intent
) -> tuple[float, float] | None:
    """When a call's first container began and its last one ended, or now, seconds since the epoch.

    None for a call that never began. Where nobody saw the end, at most the time limit after the last begin.
    """
    if ended is not None and ended.envelope is not None and ended.envelope.call_id == call_id:
        began_s = ended.envelope.began_at_s
        first_s = head.first_began_at_s if head is not None and head.start else began_s
        return min(first_s, began_s), ended.envelope.ended_at_s
    if ended is not None and ended.head is not None and ended.head.call_id == call_id:
        head = ended.head
    if head is None or not head.start:
        return None
    if head.ended:
        return head.first_began_at_s, head.told_at_s
    seen_s = time.time() if ended is None or not ended.at_s else ended.at_s
    return head.first_began_at_s, max(head.told_at_s, min(seen_s, head.began_at_s + intent.timeout_s))
