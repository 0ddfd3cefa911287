"""A server's loop of steps with so many requests at once, counted by what its steps take. Pure.

vLLM's loop with steps scheduled one ahead: a step is put together when the one before the last has been
delivered. All requests that decode are in every step, and prompts that wait fill it up to the tokens it may
read. Requests come in a closed loop: the next one is sent when a last token is delivered. A request counts
from when it is sent.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

APART_MS = 0.2
"""Between the arrivals of requests that are sent together, so that the first of them finds a step before the
others are there, as it does in what was recorded (docs/results/h200-serving-comparison.md). A guess."""

AHEAD = 2
"""Steps that are launched and not delivered, at most."""

MS_PER_S = 1e3


@dataclass(frozen=True)
class Asked:
    """A closed loop of `requests` in all, `at_once` of them under way; each arrives `later_ms` after it was
    sent."""

    at_once: int
    requests: int
    prompt_tokens: int
    new_tokens: int
    later_ms: float = 0.0


@dataclass(frozen=True)
class StepTimes:
    """What steps take, in milliseconds: the device for one of decoding alone, and, of one with prompts, for
    each of its tokens, or for reading its weights (`prompts_ms`), whichever is most; the host for launching
    either kind."""

    decode_ms: float
    token_ms: float = 0.0
    launch_ms: float = 0.0
    launch_prompts_ms: float = 0.0
    prompts_ms: float = 0.0


@dataclass
class Served:
    """One request: when it was sent, when the server had it, how much of its prompt is to be read, and when
    its first and last token were delivered; milliseconds."""

    sent_ms: float
    arrives_ms: float
    prompt_left: int
    first_ms: float = 0.0
    last_ms: float = 0.0


@dataclass(frozen=True)
class Counted:
    """Medians over the requests in milliseconds, and tokens a second over all."""

    ttft_ms: float
    tpot_ms: float
    e2el_ms: float
    output_tokens_per_s: float


class StepLoop:
    """The loop with at most `step_tokens` tokens a step; ask it with `run` once."""

    def __init__(self, asked: Asked, times: StepTimes, step_tokens: int) -> None:
        self._asked, self._times, self._step_tokens = asked, times, step_tokens
        self._left = asked.requests
        self._now_ms = self._device_free_ms = 0.0
        self._step = self._decoding = 0
        self._waiting: list[Served] = []
        self._last_in: dict[int, list[Served]] = defaultdict(list)
        self._launched: deque[tuple[int, float, list[Served]]] = deque()

    def run(self) -> list[Served]:
        """All requests, in the order in which they were sent."""
        served = self._send(self._asked.at_once)
        while self._waiting or self._decoding or self._launched:
            has_work = len(self._launched) < AHEAD and self._has_work()
            if has_work:
                self._launch()
            if self._launched and (len(self._launched) == AHEAD or not has_work):
                served += self._deliver()
            elif not has_work:
                self._now_ms = min(each.arrives_ms for each in self._waiting)
        return served

    def _send(self, count: int) -> list[Served]:
        count = min(count, self._left)
        self._left -= count
        now_ms, later_ms = self._now_ms, self._asked.later_ms
        sent = [
            Served(now_ms, now_ms + later_ms + APART_MS * place, self._asked.prompt_tokens)
            for place in range(count)
        ]
        self._waiting += sent
        return sent

    def _has_work(self) -> bool:
        return bool(self._decoding) or any(each.arrives_ms <= self._now_ms for each in self._waiting)

    def _launch(self) -> None:
        room, read, first_in = self._step_tokens - self._decoding, 0, []
        for each in self._waiting:
            if each.arrives_ms <= self._now_ms and read < room:
                tokens = min(each.prompt_left, room - read)
                each.prompt_left -= tokens
                read += tokens
                if not each.prompt_left:
                    first_in.append(each)
        times, begun_ms = self._times, self._now_ms
        with_prompts_ms = max(times.token_ms * (read + self._decoding), times.prompts_ms) if read else 0.0
        device_ms = max(times.decode_ms, with_prompts_ms)
        self._now_ms += times.launch_prompts_ms if read else times.launch_ms
        self._device_free_ms = max(max(self._device_free_ms, begun_ms) + device_ms, self._now_ms)
        self._launched.append((self._step, self._device_free_ms, first_in))
        self._waiting = [each for each in self._waiting if each.prompt_left]
        self._last_in[self._step + self._asked.new_tokens - 1] += first_in
        self._decoding += len(first_in) - len(self._last_in[self._step])
        self._step += 1

    def _deliver(self) -> list[Served]:
        step, done_ms, first_in = self._launched.popleft()
        self._now_ms = max(self._now_ms, done_ms)
        for each in first_in:
            each.first_ms = self._now_ms
        ended = self._last_in.pop(step)
        for each in ended:
            each.last_ms = self._now_ms
        return self._send(len(ended))


@lru_cache(maxsize=256)
def counted(asked: Asked, times: StepTimes, step_tokens: int) -> Counted:
    """What requests take with steps of at most so many tokens."""
    served = StepLoop(asked, times, step_tokens).run()
    between = max(1, asked.new_tokens - 1)
    return Counted(
        median(each.first_ms - each.sent_ms for each in served),
        median((each.last_ms - each.first_ms) / between for each in served),
        median(each.last_ms - each.sent_ms for each in served),
        MS_PER_S * asked.new_tokens * len(served) / max(each.last_ms for each in served),
    )
