"""What it does to TTFT and TPOT when a request's successor comes some milliseconds later, by count alone.

    python -m tests.benchmarks.hand_over

vLLM's step loop with steps scheduled one ahead, and so many requests in a closed loop, as on
docs/results/h200-serving-comparison.md: a step is put together when the one before the last has been
delivered, prompts fill it up to `BUDGET_TOKENS` beside the requests that decode, and launching a step with
prompts takes the host so long that the GPU has done it by then. A request counts from when its client sends
it, the moment its predecessor's last token is delivered; vLLM has it `later_ms` after that. Nothing is
measured here; of the machine there are the times below and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.benchmarks.serving_comparison import requests_of_run

BUDGET_TOKENS = 2048
"""Tokens of a step at most: vLLM's `max_num_batched_tokens`, as the page's raw data has it."""

DECODE_MS, PROMPTS_MS = 5.9, 46.0
"""A step of decoding alone, which is the page's ITL at 16 at once; and the host's launching of one with
prompts, which is how far apart first tokens of one group and the next come in the page's raw data."""

LAUNCH_MS = 1.5
"""The host's launching of a step of decoding alone: a guess, of no effect while it is less than the step."""

APART_MS = 0.2
"""Between the arrivals of requests that are sent together: a guess."""

AHEAD = 2
"""Steps that are launched and not delivered, at most."""

LATER_MS = (0.3, 3.0, 8.0, 12.0)
PROMPT_TOKENS, NEW_TOKENS = 512, 129


@dataclass
class Request:
    """One under way: when its client sent it, when vLLM had it, tokens still to prefill, steps that give it a
    token, and when its tokens were delivered; milliseconds."""

    sent_ms: float
    arrives_ms: float
    prompt_left: int = PROMPT_TOKENS
    scheduled: int = 0
    delivered_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Counted:
    """Medians over the requests in milliseconds, and tokens a second over all."""

    ttft_ms: float
    tpot_ms: float
    e2el_ms: float
    output_tokens_per_s: float


class Server:
    """The step loop; ask it with `run` once."""

    def __init__(self, requests: int, later_ms: float) -> None:
        self._left, self._later_ms = requests, later_ms
        self._now_ms = self._device_free_ms = 0.0
        self.requests: list[Request] = []
        self._launched: list[tuple[float, list[Request]]] = []

    def run(self, concurrency: int) -> None:
        """Everything, from the first request to the last token."""
        self._send([0.0] * concurrency)
        while any(len(each.delivered_ms) < NEW_TOKENS for each in self.requests):
            work = self._work() if len(self._launched) < AHEAD else []
            if work:
                self._launch(work)
            if self._launched and (len(self._launched) == AHEAD or not work):
                self._deliver()
            elif not work:
                coming = [each.arrives_ms for each in self.requests if each.arrives_ms > self._now_ms]
                self._now_ms = min(coming)

    def _send(self, sent_ms: Sequence[float]) -> None:
        for place, at_ms in enumerate(sent_ms[: self._left]):
            self.requests.append(Request(at_ms, at_ms + self._later_ms + APART_MS * place))
        self._left -= min(self._left, len(sent_ms))

    def _work(self) -> list[tuple[Request, int]]:
        """What the next step has: requests, and how many tokens of their prompts."""
        here = [each for each in self.requests if each.arrives_ms <= self._now_ms]
        decode = [each for each in here if not each.prompt_left and each.scheduled < NEW_TOKENS]
        room, work = BUDGET_TOKENS - len(decode), [(each, 0) for each in decode]
        for each in here:
            if each.prompt_left and room:
                tokens = min(each.prompt_left, room)
                work.append((each, tokens))
                room -= tokens
        return work

    def _launch(self, work: Sequence[tuple[Request, int]]) -> None:
        begun_ms, prompts = self._now_ms, any(tokens for _, tokens in work)
        for each, tokens in work:
            each.prompt_left -= tokens
            each.scheduled += not each.prompt_left
        self._now_ms += PROMPTS_MS if prompts else LAUNCH_MS
        plain_ms = max(self._device_free_ms, begun_ms) + DECODE_MS
        self._device_free_ms = max(plain_ms, self._now_ms) if prompts else plain_ms
        self._launched.append((self._device_free_ms, [each for each, _ in work if not each.prompt_left]))

    def _deliver(self) -> None:
        done_ms, given = self._launched.pop(0)
        self._now_ms = max(self._now_ms, done_ms)
        for each in given:
            each.delivered_ms.append(self._now_ms)
        self._send([self._now_ms for each in given if len(each.delivered_ms) == NEW_TOKENS])


def counted(concurrency: int, later_ms: float) -> Counted:
    """A run as the comparison asks for it, with successors that come so much later."""
    server = Server(requests_of_run(concurrency), later_ms)
    server.run(concurrency)
    spans = [(each.sent_ms, each.delivered_ms[0], each.delivered_ms[-1]) for each in server.requests]
    tokens, last_ms = NEW_TOKENS * len(spans), max(last for _, _, last in spans)
    return Counted(
        median(first - sent for sent, first, _ in spans),
        median((last - first) / (NEW_TOKENS - 1) for _, first, last in spans),
        median(last - sent for sent, _, last in spans),
        1e3 * tokens / last_ms,
    )


def table(concurrencies: Sequence[int] = (16, 64)) -> str:
    """Lines of Markdown: a row for each number at once and each delay."""
    rows = [
        "| at once | later, ms | TTFT, ms | TPOT, ms | end to end, ms | tokens a second |",
        "|---|---|---|---|---|---|",
    ]
    for concurrency in concurrencies:
        for later_ms in LATER_MS:
            found = counted(concurrency, later_ms)
            told = f"{found.ttft_ms:.0f} | {found.tpot_ms:.2f} | {found.e2el_ms:.0f}"
            rows.append(f"| {concurrency} | {later_ms:g} | {told} | {found.output_tokens_per_s:.0f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
