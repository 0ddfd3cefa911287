"""What becomes of pods: as RunPod tells it of runs that have not told their end, and of those that have."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from configs.errors import AutoinferError
from experiments.executors.port import RunState
from experiments.executors.runpod.api import Refused, RunPodApi
from experiments.executors.runpod.asking import least_usd_per_hr
from experiments.executors.runpod.board import CANCELLED, Board, Ended, Outcome, Row, limit_of
from experiments.executors.runpod.following import Patience, Pods
from experiments.executors.runpod.naming import name_of
from experiments.job.longest import limit_sentence

_LOG = logging.getLogger(__name__)


class Watch:
    """Holds RunPod's list of pods against the board, and writes the ends there that no pod tells itself.

    `submitted` are the keys that pods were made for here, `image_begins` tells that one of them has begun, so
    that the image is no longer in question.
    """

    def __init__(self, api: RunPodApi, board: Board, pods: Pods, patience: Patience, gpu: str | None) -> None:
        self._api = api
        self._board = board
        self._pods = pods
        self._patience = patience
        self._gpu = gpu
        self.submitted: set[str] = set()
        self.image_begins = False
        self._overdue_at_s = 0.0
        self._limits: dict[str, float] = {}
        self._noted: set[str] = set()
        """Pods that the board knows of."""

    def exists(self, key: str) -> bool:
        """Whether a pod of the key exists; it is noted on the board."""
        found = self._pods.named(name_of(key), fresh=True)
        for pod in found:
            self._note(key, pod.id, pod.usd_per_hr)
        return bool(found)

    def _note(self, key: str, pod_id: str, usd_per_hr: float) -> None:
        """Write a pod down; once, since each look sees the pods anew."""
        if pod_id not in self._noted:
            self._board.made(key, pod_id, max(usd_per_hr, least_usd_per_hr(self._gpu)))
            self._noted.add(pod_id)

    def look(self, row: Row) -> tuple[Row, RunState]:
        """What RunPod says of a run that has not told its end; the run is ended where it can't any more."""
        name = name_of(row.key)
        found = self._pods.named(name)
        age_s = row.now_s - (row.tried_at_s or row.now_s)
        silent_s = row.now_s - (row.told_at_s or float("-inf"))
        if not found and age_s > self._patience.appear_s and silent_s > self._patience.silent_s:
            found = self._pods.named(name, fresh=True)
            if not found:
                return self._end(row, Outcome.LOST, "The pod is gone, and told no result.")
        for pod in found:
            self._note(row.key, pod.id, pod.usd_per_hr)
        if found and all(pod.status in ("EXITED", "ERROR") for pod in found):
            return self._end_unbegun(row, f"RunPod says of the pod: {found[0].status}.")
        if row.owner not in (None, CANCELLED) and row.key in self.submitted:
            self.image_begins = True
        if row.owner is None:
            if age_s > self._patience.startup_s:
                minutes = self._patience.startup_s / 60
                return self._end_unbegun(row, f"The pod did not begin within {minutes:.0f} minutes.")
            return row, RunState.PENDING
        if age_s > self._patience.startup_s:
            limit_s = self._limit_s(row.key)
            if age_s > limit_s + self._patience.startup_s:
                return self._end(row, Outcome.TIMED_OUT, limit_sentence(limit_s))
        return row, RunState.RUNNING

    def _end_unbegun(self, row: Row, sentence: str) -> tuple[Row, RunState]:
        """End a run by a fault of its pod: another attempt may help, but for one that never began with an
        image that never has, which would be paid for again and again."""
        if row.owner is None and not self._board.has_begun(image := self._board.asked(row.key).image):
            hint = (
                f"No pod has begun with the image {image} yet: can RunPod pull it, and was it built for gpu?"
            )
            return self._end(row, Outcome.FAILED, f"{sentence} {hint}")
        return self._end(row, Outcome.LOST, sentence)

    def _limit_s(self, key: str) -> float:
        """The limit that a run was submitted with, which the board is asked for once."""
        if key not in self._limits:
            self._limits[key] = limit_of(self._board.asked(key))
        return self._limits[key]

    def _end(self, row: Row, outcome: Outcome, sentence: str) -> tuple[Row, RunState]:
        """Say the end of a run, unless the pod said it meanwhile."""
        self._board.end(row.key, Ended(outcome=outcome, sentence=sentence), owner=CANCELLED)
        now = self._board.row(row.key)
        assert now is not None  # nothing deletes a run
        return now, RunState.RUNNING

    def let_end(self, row: Row) -> None:
        """See to the end of the pods of a run that has ended; a pod ends itself, and is not waited for."""
        self._limits.pop(row.key, None)
        if row.gone_at_s is None:
            self._give_back(row.key)

    def _give_back(self, key: str) -> None:
        """Terminate the pods of a key, and note it when none is left."""
        name = name_of(key)
        for pod in self._pods.named(name, fresh=True):
            with suppress(Refused):
                self._api.terminate(pod.id)
        if not self._pods.named(name, fresh=True):
            self._board.gone(key)

    def end_overdue(self) -> None:
        """End what should be gone by now and is not, whoever asked for it: once when this is first used, and
        then so often. What can't be done now is told, and tried again."""
        if time.monotonic() < self._overdue_at_s:
            return
        self._overdue_at_s = time.monotonic() + self._patience.overdue_s
        try:
            overdue = self._board.overdue(self._patience.startup_s, self._patience.end_s)
            living = {pod.name for pod in self._pods.all(fresh=True)} if overdue else set()
            for key in overdue:
                row = self._board.row(key)
                if row is not None and row.ended is None:
                    row, _ = self.look(row)
                # Of a pod that is not there, another account with the same board may know more.
                if row is not None and row.ended is not None and name_of(key) in living:
                    self._give_back(key)
        except AutoinferError as error:
            _LOG.warning("%s", error)
