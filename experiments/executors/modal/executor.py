"""The executor `modal`: a job is one call of the deployed function; a ref is the call's id.

`submit` writes what it is about to do, calls, and stores the id. Killed in between, the next submit of the
key looks for the call that claimed the job, and takes its id. A call that has not begun yet claimed nothing:
then the function is called once more, and whichever of the two begins second gives way to the first before it
does anything; its start-up seconds, at most those of the deployment, are counted in `cost`.

`poll` copies what the job told into the run's folder, so that its pages read a remote run as a local one.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from configs.errors import AutoinferError, UsageError
from experiments.disk import disk_in_words
from experiments.executors.local import LOG_CHUNK_BYTES
from experiments.executors.modal.body import Boards
from experiments.executors.modal.client import (
    CallGone,
    Calls,
    ModalUnreachable,
    boards,
    heads_of,
    in_our_words,
)
from experiments.executors.modal.deployment import CORES, MEMORY_GIB, STARTUP_S
from experiments.executors.modal.gpus import gpu_of_target
from experiments.executors.modal.prices import Rates, current_rates
from experiments.executors.modal.protocol import (
    CANCELLED,
    Asked,
    Envelope,
    Head,
    Outcome,
    Piece,
    cancelled_key,
    piece_key,
)
from experiments.executors.modal.run_folder import LOG_NAME, Call, Ended, Intent, RunFolder, folder_of_call
from experiments.executors.port import Cost, LogChunk, Quote, RunState, Status
from experiments.job.journal import Journal
from experiments.job.place import Place
from experiments.job.result import Failure, JobResult
from experiments.job.spec import AaJob, AnyJob, BaselineJob, TestJob
from experiments.kill_points import KillPoint, reached
from experiments.measurement.evidence import Stage

_LOG = logging.getLogger(__name__)
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)

DEFAULT_TARGET = "modal:H100!"
HEADS_S = 1.0
"""How long what all calls told last is taken for now: one request then serves the polls of all runs."""

SILENT_S = 30.0
"""After how many seconds without a word a call is asked for its result: it may have ended without one."""

ASK_S = 5.0
"""How often at most a call that tells nothing is asked for its result."""

GONE_S = 60.0
"""How long `cancel` waits for Modal to say that the call has ended."""

THREADS = 8
"""How many calls of an executor may be made at once: each waits for a network."""

LONGEST_S = 24 * 3600
"""Modal's longest time limit of a call (its documentation, version 1.6)."""

_EXPECTED_S = {BaselineJob: 1800.0, TestJob: 1800.0, AaJob: 600.0}
"""What a job takes where no similar one is known: a start, launches of minutes each, blocks."""


@dataclass(frozen=True)
class Patience:
    """The times an executor lives by, seconds (see the constants above)."""

    heads_s: float = HEADS_S
    silent_s: float = SILENT_S
    ask_s: float = ASK_S
    gone_s: float = GONE_S
    look_s: float = 0.2


class ModalExecutor:
    """Runs jobs on Modal, on the GPU of `target`; keeps its folders below `root`.

    Of `place` only limits and permissions are used: the folders are the container's own. Making one asks
    Modal for nothing.
    """

    name = "modal"
    threads = THREADS

    def __init__(
        self,
        root: Path,
        place: Place,
        target: str = DEFAULT_TARGET,
        *,
        calls: Calls | None = None,
        patience: Patience | None = None,
        rates: Callable[[], Rates] = current_rates,
        startup_s: int = STARTUP_S,
    ) -> None:
        self.root = root
        self.gpu = gpu_of_target(target)
        self._place = place
        self._calls = calls or Calls()
        self._patience = patience or Patience()
        self._ask_rates = rates
        self._rates: Rates | None = None
        self._startup_s = startup_s
        self._boards: Boards | None = None
        self._reading = threading.Lock()
        self._heads: dict[str, Head] = {}
        self._heads_at_s = float("-inf")
        self._asked_at_s: dict[str, float] = {}
        self._journals: dict[str, tuple[int, Journal]] = {}

    def quote(self, spec: AnyJob) -> Quote:
        """Bounded by the call's time limit and the start-up, each at the full rate; there are no retries.

        A duplicate after a crash costs at most its own start-up, which is in the bound.
        """
        rate = self._current_rates().of(self.gpu, CORES, MEMORY_GIB)
        bound_s = float(self._timeout_s() + 2 * self._startup_s)
        expected_s = min(_EXPECTED_S[type(spec)], bound_s)
        basis = f"{rate * 3600:.2f} USD an hour for {self.gpu or 'no GPU'}: {self._current_rates().basis}"
        return Quote(expected_s, bound_s, expected_s * rate, bound_s * rate, basis)

    def submit(self, key: str, spec: AnyJob) -> str:
        """Call the function, unless a call works on the key or did; returns the call's id.

        Raises `UsageError` for a malformed key and where this version is not deployed, and `ModalUnreachable`
        when Modal does not answer: another submit of the key is safe then, as after a crash.
        """
        if not _KEY.fullmatch(key):
            raise UsageError(
                f"{key!r} is no key of a job.", "Use up to 100 letters, digits, dots and dashes."
            )
        folder = RunFolder(self.root, key)
        with disk_in_words(self.root, "runs"), folder.locked():
            if (known := folder.call()) is not None:
                return known.call_id
            intent = folder.intent()
            if intent is not None and (owner := self._claimed(key)) is not None:
                folder.write_call(Call(call_id=owner))
                return owner
            if intent is None:
                intent = Intent(gpu=self.gpu, timeout_s=self._timeout_s(), submitted_at_s=time.time())
                folder.write_intent(intent)
            asked = self._asked(key, spec, intent.gpu)
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
        if (owner := self._claimed(key)) is not None:
            return owner
        made = [head for head in self._all_heads(fresh=True).values() if head.key == key]
        return min(made, key=lambda head: head.submitted_at_s).call_id if made else None

    def poll(self, ref: str) -> Status:
        """Where the run stands; raises `ModalUnreachable`, after which it is asked again."""
        folder = folder_of_call(self.root, ref)
        if folder is not None and (ended := folder.ended()) is not None:
            return self._final(folder, ended)
        try:
            head = self._head(ref)
            folder = folder or self._adopted(ref, head)
            if head is not None and folder is not None:
                self._copy(folder, head)
            envelope = self._result(ref, head, folder)
        except CallGone as gone:
            return self._gone(ref, folder, gone)
        if envelope is None:
            return self._running(folder, head)
        if folder is None:
            return Status(RunState.LOST, failure=f"The run of call {ref} is not known here.")
        return self._ended(ref, folder, envelope)

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
                self._board().claims.put(folder.key, CANCELLED, skip_if_exists=True)
            owner = self._claimed(folder.key)
            calls += [each for each in (owner,) if each is not None and each != ref]
        for call_id in calls:
            with in_our_words():
                self._board().claims.put(cancelled_key(call_id), call_id)
            self._calls.cancel(call_id)
        for call_id in calls:
            self._wait_until_gone(call_id)
            self._mark_ended(call_id)
        if folder is not None and folder.ended() is None:
            folder.write_ended(Ended(state=RunState.CANCELLED))

    def logs(self, ref: str, cursor: int = 0) -> LogChunk | None:
        """The copy of the run's log from byte `cursor` on; `poll` makes it grow."""
        folder = folder_of_call(self.root, ref)
        if folder is None:
            return None
        try:
            with (folder.path / LOG_NAME).open("rb") as file:
                file.seek(cursor)
                data = file.read(LOG_CHUNK_BYTES)
        except FileNotFoundError:
            return LogChunk("", cursor)
        while data and len(data) == LOG_CHUNK_BYTES and data[-1] & 0b1100_0000 == 0b1000_0000:
            data = data[:-1]
        return LogChunk(data.decode(errors="replace"), cursor + len(data))

    def cost(self, ref: str) -> Cost:
        """Seconds from the first container's begin to the end or to now, and what they cost by the current
        rates, with the start-up of each of the run's calls at its most. An estimate: the bill is Modal's."""
        folder = folder_of_call(self.root, ref)
        if folder is None or (intent := folder.intent()) is None or (call := folder.call()) is None:
            return Cost(0.0, 0.0)
        ended = folder.ended()
        wall_s, startup_s = 0.0, 0.0
        for call_id in (call.call_id, *call.others):
            head = self._heads.get(call_id)
            envelope = None if ended is None else ended.envelope
            if envelope is not None and envelope.call_id == call_id:
                began_s, ended_s = envelope.began_at_s, envelope.ended_at_s
                began_s = min(began_s, (head and head.first_began_at_s) or began_s)
            elif head is not None and head.start:
                began_s, ended_s = head.first_began_at_s, head.told_at_s if head.ended else time.time()
            else:
                continue
            wall_s += max(0.0, ended_s - began_s)
            startup_s += min(float(self._startup_s), max(0.0, began_s - intent.submitted_at_s))
        rate = self._current_rates().of(intent.gpu, CORES, MEMORY_GIB)
        return Cost(wall_s, (wall_s + startup_s) * rate)

    def reconcile(self) -> list[str]:
        """Calls that have not ended, whoever made them: those that tell so, and those made from here."""
        found = []
        for call_id, head in sorted(self._all_heads(fresh=True).items()):
            if not head.ended and self.poll(call_id).state in (RunState.PENDING, RunState.RUNNING):
                found.append(call_id)
        return found

    def key_of(self, ref: str) -> str | None:
        """The key that a call works on, where anybody told it."""
        folder = folder_of_call(self.root, ref)
        if folder is not None:
            return folder.key
        head = self._head(ref)
        return None if head is None else head.key

    def _asked(self, key: str, spec: AnyJob, gpu: str | None) -> Asked:
        return Asked(
            version=spec.version,
            key=key,
            gpu=gpu,
            spec=spec.model_dump(mode="json"),
            limits_s=self._place.limits_s,
            load_limit_s=self._place.load_limit_s,
            run_generated_code=self._place.run_generated_code,
        )

    def _timeout_s(self) -> int:
        return min(LONGEST_S, int(sum(self._place.limits_s.get(stage, 0.0) for stage in Stage)))

    def _current_rates(self) -> Rates:
        if self._rates is None:
            self._rates = self._ask_rates()
        return self._rates

    def _board(self) -> Boards:
        if self._boards is None:
            self._boards = boards()
        return self._boards

    def _claimed(self, key: str) -> str | None:
        """The call that claimed the key; None where none did, or the key was cancelled."""
        with in_our_words():
            owner = self._board().claims.get(key)
        return None if owner == CANCELLED else owner

    def _announce(self, head: Head) -> None:
        """Tell everybody of a call that waits for a container; a call that told itself is left as it is."""
        try:
            with in_our_words():
                self._board().heads.put(head.call_id, head.model_dump_json(), skip_if_exists=True)
        except ModalUnreachable as reason:  # it will tell itself when it begins
            _LOG.warning("%s", reason)

    def _all_heads(self, *, fresh: bool = False) -> dict[str, Head]:
        asked_s = time.monotonic()
        with self._reading:
            old = (
                self._heads_at_s < asked_s if fresh else asked_s - self._heads_at_s >= self._patience.heads_s
            )
            if old:
                self._heads_at_s = time.monotonic()
                self._heads = heads_of(self._board())
            return self._heads

    def _head(self, ref: str) -> Head | None:
        return self._all_heads().get(ref)

    def _adopted(self, ref: str, head: Head | None) -> RunFolder | None:
        """A folder for a call that another machine made; none where its key is not known."""
        if head is None or not _KEY.fullmatch(head.key):
            return None
        folder = RunFolder(self.root, head.key)
        with folder.locked():
            known = folder.call()
            if known is None:
                intent = Intent(gpu=head.gpu, timeout_s=self._timeout_s(), submitted_at_s=head.submitted_at_s)
                folder.write_intent(intent)
                folder.write_call(Call(call_id=ref))
            elif ref not in (known.call_id, *known.others):
                folder.write_call(Call(call_id=known.call_id, others=(*known.others, ref)))
        return folder

    def _copy(self, folder: RunFolder, head: Head) -> None:
        """Copy the pieces that were told since the last time."""
        copied = folder.copied(head.call_id, head.start)
        while copied.pieces < head.pieces:
            with in_our_words():
                told = self._board().pieces.get(piece_key(head.call_id, head.start, copied.pieces))
            if told is None:
                raise CallGone(
                    f"Piece {copied.pieces + 1} of {head.pieces} of what call {head.call_id} told is gone."
                )
            copied = folder.append(copied, Piece.model_validate_json(told))

    def _result(self, ref: str, head: Head | None, folder: RunFolder | None) -> Envelope | None:
        """The call's envelope; asked for only where it may have ended, which one that just spoke has not."""
        now_s = time.monotonic()
        speaks = head is not None and head.start and not head.ended
        if speaks and head is not None and time.time() - head.told_at_s < self._patience.silent_s:
            return None
        due_s = self._asked_at_s.get(ref, float("-inf")) + self._patience.ask_s
        if not (head is not None and head.ended) and now_s < due_s:
            return None
        self._asked_at_s[ref] = now_s
        envelope = self._calls.result(ref)
        if envelope is None and folder is not None and (intent := folder.intent()) is not None:
            # Modal's own limits would have ended it: a TimeoutError of the container looks like this too.
            limit_s = intent.timeout_s + self._startup_s + LONGEST_S
            if intent.submitted_at_s and time.time() - intent.submitted_at_s > limit_s:
                raise CallGone(f"Call {ref} has told nothing for longer than its limits allow.")
        return envelope

    def _running(self, folder: RunFolder | None, head: Head | None) -> Status:
        if folder is None:
            return Status(RunState.PENDING)
        fold = self._journal(folder).fold
        begun = fold.started or (head is not None and head.start > 0)
        return Status(RunState.RUNNING if begun else RunState.PENDING, fold.progress)

    def _ended(self, ref: str, folder: RunFolder, envelope: Envelope) -> Status:
        if envelope.outcome is Outcome.DUPLICATE and envelope.owner is not None:
            return self._give_way(ref, folder, envelope.owner)
        head = Head(call_id=ref, key=folder.key, gpu=None, start=envelope.start, pieces=envelope.pieces)
        try:
            self._copy(folder, head)
        except CallGone as gone:
            return self._gone(ref, folder, gone)
        state = _STATES[envelope.outcome]
        if state is RunState.LOST and self._was_cancelled(ref, folder):
            state = RunState.CANCELLED
        if envelope.outcome is Outcome.LOST and envelope.sentence:
            folder.add_to_log(f"{envelope.sentence}\n")
        reached(KillPoint.BEFORE_REMOTE_RESULT_STORED)
        ended = Ended(
            state=state,
            failure=None if state is RunState.DONE else envelope.sentence,
            other_gpu=envelope.outcome is Outcome.OTHER_GPU,
            envelope=envelope,
        )
        folder.write_ended(ended)
        return self._final(folder, ended)

    def _give_way(self, ref: str, folder: RunFolder, owner: str) -> Status:
        """The status of the call that works on the job in place of this one."""
        known = folder.call()
        if known is not None and owner not in (known.call_id, *known.others):
            folder.write_call(Call(call_id=known.call_id, others=(*known.others, owner)))
        head = self._head(owner)
        try:
            if head is not None:
                self._copy(folder, head)
            envelope = self._result(owner, head, folder)
        except CallGone as gone:
            return self._gone(owner, folder, gone)
        return self._running(folder, head) if envelope is None else self._ended(owner, folder, envelope)

    def _gone(self, ref: str, folder: RunFolder | None, gone: CallGone) -> Status:
        """The end of a call without an envelope; its records may be whole all the same."""
        sentence = str(gone)
        if folder is None:
            return Status(RunState.LOST, failure=sentence)
        journal = self._journal(folder)
        state = RunState.FAILED if gone.limit else RunState.LOST
        if self._was_cancelled(ref, folder):
            state = RunState.CANCELLED
        elif journal.fold.ended:
            state = RunState.DONE
        else:
            words = self._calls.last_words(ref)
            folder.add_to_log(words)
            last = next((line for line in reversed(words.splitlines()) if line.strip()), "")
            sentence = f"{sentence} Its containers said last: {last or 'nothing.'}"
        ended = Ended(state=state, failure=None if state is RunState.DONE else sentence)
        folder.write_ended(ended)
        self._mark_ended(ref)
        return self._final(folder, ended)

    def _was_cancelled(self, ref: str, folder: RunFolder) -> bool:
        """Whether somebody asked for the call's end, here or on another machine."""
        if folder.cancelled():
            return True
        try:
            with in_our_words():
                return self._board().claims.get(cancelled_key(ref)) is not None
        except AutoinferError as reason:
            _LOG.warning("%s", reason)
            return False

    def _final(self, folder: RunFolder, ended: Ended) -> Status:
        journal = self._journal(folder)
        self._journals.pop(folder.key, None)
        result = None
        if ended.state is RunState.DONE:
            result = journal.result()
            if ended.other_gpu:
                result = JobResult(
                    failure=Failure("error", ended.envelope.sentence if ended.envelope else "")
                )
        failure = None if ended.state is RunState.CANCELLED else ended.failure
        return Status(ended.state, journal.fold.progress, result, failure)

    def _journal(self, folder: RunFolder) -> Journal:
        """What the copied records add up to; another start of the call begins anew."""
        try:
            size = folder.records.stat().st_size
        except FileNotFoundError:
            size = 0
        seen, journal = self._journals.get(folder.key, (0, Journal(folder.records)))
        if size < seen:
            journal = Journal(folder.records)
        journal.update()
        self._journals[folder.key] = (size, journal)
        return journal

    def _mark_ended(self, call_id: str) -> None:
        """Say of a call that can't say it any more that it has ended."""
        head = self._heads.get(call_id)
        if head is None or head.ended:
            return
        try:
            with in_our_words():
                told = head.model_copy(update={"ended": True})
                self._board().heads.put(call_id, told.model_dump_json())
        except AutoinferError as reason:
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
            f"Modal did not end call {call_id} in {self._patience.gone_s:.0f} s; it may still cost money.",
            "End everything there with: autoinfer modal stop",
        )


_STATES = {
    Outcome.DONE: RunState.DONE,
    Outcome.OTHER_GPU: RunState.DONE,
    Outcome.FAILED: RunState.FAILED,
    Outcome.LOST: RunState.LOST,
    Outcome.DUPLICATE: RunState.LOST,
    Outcome.CANCELLED: RunState.CANCELLED,
}
