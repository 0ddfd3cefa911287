"""A question under way beside the campaign, in a thread of its own, which nobody waits for at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from agent.language_model.asking import Question, Reply, ask
from agent.language_model.exchange import GIVEN_UP, Line
from agent.language_model.usage import Usage
from configs.language_model import Endpoint

GRACE_S = 5.0
"""Seconds after its time limit from which on a question that still hangs, in the name service say, is given
up whatever its thread does."""


class Asked:
    """One question that was put; `answer` is asked for the reply until it is there."""

    def __init__(
        self, endpoint: Endpoint, question: Question, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._line = Line()
        self._reply: Reply | None = None
        self._given_up = False
        self._clock = clock
        self._began = clock()
        self._timeout_s = question.timeout_s
        self._thread = threading.Thread(
            target=self._run, args=(endpoint, question), name="language model", daemon=True
        )
        self._thread.start()

    def _run(self, endpoint: Endpoint, question: Question) -> None:
        self._reply = ask(endpoint, question, self._line)

    @property
    def wall_s(self) -> float:
        """Seconds since it was put."""
        return self._clock() - self._began

    def answer(self) -> Reply | None:
        """The reply; None while it is under way."""
        if self._reply is not None:
            return self._reply
        late = self.wall_s > self._timeout_s + GRACE_S
        if not (late or self._given_up) and self._thread.is_alive():
            return None
        self._line.cut()
        sent = self._line.sent
        why = GIVEN_UP if self._given_up else "No answer came in time."
        return self._reply or Reply(
            failure=why,
            used=Usage(untold_prompts=sent, untold_answers=sent),
            attempts=sent,
            wall_s=self.wall_s,
        )

    def give_up(self, wait_s: float = 0.0) -> None:
        """End it: the connection is cut, which tells a server to stop too. Waits so long for the thread; then
        there is an answer, that it was given up."""
        self._line.cut()
        if wait_s:
            self._thread.join(wait_s)
        self._given_up = True
