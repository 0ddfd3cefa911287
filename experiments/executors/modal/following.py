"""Following calls to their end: reads what they told, copies it, and says where each stands."""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from configs.errors import AutoinferError
from experiments.executors.modal.body import Boards
from experiments.executors.modal.client import (
    CallGone,
    Calls,
    boards,
    heads_of,
    in_our_words,
)
from experiments.executors.modal.protocol import (
    CANCELLED,
    Envelope,
    Head,
    Outcome,
    Piece,
    cancelled_key,
    piece_key,
)
from experiments.executors.modal.run_folder import Call, Ended, Intent, RunFolder, folder_of_call
from experiments.executors.port import RunState, Status
from experiments.job.journal import Journal
from experiments.job.result import BROKE, Failure, JobResult
from experiments.kill_points import KillPoint, reached

_LOG = logging.getLogger(__name__)

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
"""What a key of a job looks like."""

HEADS_S = 1.0
"""How long what all calls told last is taken for now, seconds for each hundred calls: one request serves the
polls of all runs, and reading a thousand takes a tenth of a second of a processor."""

HEADS_A_SPAN = 100

SILENT_S = 30.0
"""After how many seconds without a word a call is asked for its result: it may have ended without one."""

ASK_S = 5.0
"""How often at most a call that tells nothing is asked for its result."""

GONE_S = 60.0
"""How long `cancel` waits for Modal to say that the call has ended."""

RATES_S = 10.0
"""How long a price is taken for Modal's: what is submitted is by a quote of this moment, and many that are
quoted at once ask once."""

LONGEST_S = 24 * 3600
"""Modal's longest time limit of a call (its documentation, version 1.6)."""


@dataclass(frozen=True)
class Patience:
    """The times an executor lives by, seconds (see the constants above); `rates_s`: how long rates are good
    for that Modal was asked for."""

    heads_s: float = HEADS_S
    silent_s: float = SILENT_S
    ask_s: float = ASK_S
    gone_s: float = GONE_S
    look_s: float = 0.2
    rates_s: float = RATES_S


class Follower:
    """Says where calls stand, for executors that keep their folders below `root`."""

    def __init__(self, root: Path, calls: Calls, patience: Patience, startup_s: int) -> None:
        self.root = root
        self._calls = calls
        self._patience = patience
        self._startup_s = startup_s
        self._boards: Boards | None = None
        self._reading = threading.Lock()
        self.told: dict[str, Head] = {}
        self._told_at_s = float("-inf")
        self._asked_at_s: dict[str, float] = {}
        self._seen: dict[str, tuple[float, float]] = {}
        """By call: what it told last as its time, and when that was seen to change, by the clock here."""
        self._journals: dict[str, tuple[int, Journal]] = {}

    def status(self, ref: str) -> Status:
        """Where the run stands; raises `ModalUnreachable`, after which it is asked again."""
        folder = folder_of_call(self.root, ref)
        if folder is not None and (ended := folder.ended()) is not None:
            return self._final(folder, ended)
        try:
            head = self.head(ref)
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

    def board(self) -> Boards:
        """The three Dicts."""
        if self._boards is None:
            self._boards = boards()
        return self._boards

    def claimed(self, key: str) -> str | None:
        """The call that claimed the key; None where none did, or the key was cancelled."""
        with in_our_words():
            owner = self.board().claims.get(key)
        return None if owner == CANCELLED else owner

    def heads(self, *, fresh: bool = False) -> dict[str, Head]:
        """Where every call stands, by its id, as it was told at most `heads_s` ago, or now."""
        asked_s = time.monotonic()
        with self._reading:
            old = self._told_at_s < asked_s if fresh else asked_s - self._told_at_s >= self._heads_s()
            if old:
                asked_s = time.monotonic()
                self.told = heads_of(self.board())
                self._told_at_s = asked_s
            return self.told

    def _heads_s(self) -> float:
        return self._patience.heads_s * max(1.0, len(self.told) / HEADS_A_SPAN)

    def head(self, ref: str) -> Head | None:
        """Where a call stands; None where nobody told."""
        return self.heads().get(ref)

    def _adopted(self, ref: str, head: Head | None) -> RunFolder | None:
        """A folder for a call that another machine made; none where its key is not known."""
        if head is None or not KEY.fullmatch(head.key):
            return None
        folder = RunFolder(self.root, head.key)
        with folder.locked():
            known = folder.call()
            if known is None:
                intent = Intent(gpu=head.gpu, timeout_s=LONGEST_S, submitted_at_s=head.submitted_at_s)
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
                told = self.board().pieces.get(piece_key(head.call_id, head.start, copied.pieces))
            if told is None:
                raise CallGone(
                    f"Piece {copied.pieces + 1} of {head.pieces} of what call {head.call_id} told is gone."
                )
            copied = folder.append(copied, Piece.model_validate_json(told))

    def _result(self, ref: str, head: Head | None, folder: RunFolder | None) -> Envelope | None:
        """The call's envelope; asked for only where it may have ended, which one that just spoke has not."""
        now_s = time.monotonic()
        if head is not None and head.start and not head.ended and self._spoke(head):
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

    def _spoke(self, head: Head) -> bool:
        """Whether a call told something within `silent_s`. What is told has the container's time, and either
        clock may be wrong: so what counts is when that was seen to change here, but at the first look."""
        now_s = time.monotonic()
        told_at_s, seen_s = self._seen.get(head.call_id, (None, float("-inf")))
        if told_at_s is None:
            age_s = time.time() - head.told_at_s
            seen_s = now_s - age_s if abs(age_s) < self._patience.silent_s else float("-inf")
        elif told_at_s != head.told_at_s:
            seen_s = now_s
        self._seen[head.call_id] = (head.told_at_s, seen_s)
        return now_s - seen_s < self._patience.silent_s

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
        head = self.head(owner)
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
        state = RunState.TIMED_OUT if gone.limit else RunState.LOST
        if self._was_cancelled(ref, folder):
            state = RunState.CANCELLED
        elif journal.fold.ended:
            state = RunState.DONE
        else:
            words = self._calls.last_words(ref)
            folder.add_to_log(words)
            last = next((line for line in reversed(words.splitlines()) if line.strip()), "")
            sentence = f"{sentence} Its containers said last: {last or 'nothing.'}"
        ended = Ended(
            state=state,
            failure=None if state is RunState.DONE else sentence,
            at_s=time.time(),
            head=self.told.get(ref),
        )
        folder.write_ended(ended)
        self.mark_ended(ref)
        return self._final(folder, ended)

    def _was_cancelled(self, ref: str, folder: RunFolder) -> bool:
        """Whether somebody asked for the call's end, here or on another machine."""
        if folder.cancelled():
            return True
        try:
            with in_our_words():
                return self.board().claims.get(cancelled_key(ref)) is not None
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
        kind = BROKE if ended.envelope is None else ended.envelope.failure_kind
        return Status(ended.state, journal.fold.progress, result, failure, kind)

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

    def mark_ended(self, call_id: str) -> None:
        """Say of a call that can't say it any more that it has ended."""
        head = self.told.get(call_id)
        if head is None or head.ended:
            return
        try:
            with in_our_words():
                told = head.model_copy(update={"ended": True})
                self.board().heads.put(call_id, told.model_dump_json())
        except AutoinferError as reason:
            _LOG.warning("%s", reason)


_STATES = {
    Outcome.DONE: RunState.DONE,
    Outcome.OTHER_GPU: RunState.DONE,
    Outcome.FAILED: RunState.FAILED,
    Outcome.LOST: RunState.LOST,
    Outcome.DUPLICATE: RunState.LOST,
    Outcome.CANCELLED: RunState.CANCELLED,
    Outcome.TIMED_OUT: RunState.TIMED_OUT,
}
