"""What it does to TTFT and TPOT when a request's successor comes some milliseconds later, by count alone.

    python -m tests.benchmarks.hand_over

vLLM's loop of steps (`agent/surrogate/step_loop.py`) with so many requests in a closed loop, as on
docs/results/h200-serving-comparison.md: prompts fill a step up to `BUDGET_TOKENS` beside the requests that
decode, and launching a step with prompts takes the host so long that the GPU has done it by then. A request
counts from when its client sends it, the moment its predecessor's last token is delivered; vLLM has it
`later_ms` after that. Nothing is measured here; of the machine there are the times below and nothing else.
"""

from collections.abc import Sequence

from agent.surrogate.step_loop import Asked, Counted, StepTimes
from agent.surrogate.step_loop import counted as counted_of
from tests.benchmarks.serving_comparison import requests_of_run

BUDGET_TOKENS = 2048
"""Tokens of a step at most: vLLM's `max_num_batched_tokens`, as the page's raw data has it."""

DECODE_MS, PROMPTS_MS = 5.9, 46.0
"""A step of decoding alone, which is the page's ITL at 16 at once; and the host's launching of one with
prompts, which is how far apart first tokens of one group and the next come in the page's raw data."""

LAUNCH_MS = 1.5
"""The host's launching of a step of decoding alone: a guess, of no effect while it is less than the step."""

TIMES = StepTimes(decode_ms=DECODE_MS, launch_ms=LAUNCH_MS, launch_prompts_ms=PROMPTS_MS)

LATER_MS = (0.3, 3.0, 8.0, 12.0)
PROMPT_TOKENS, NEW_TOKENS = 512, 129


def counted(concurrency: int, later_ms: float) -> Counted:
    """A run as the comparison asks for it, with successors that come so much later."""
    asked = Asked(concurrency, requests_of_run(concurrency), PROMPT_TOKENS, NEW_TOKENS, later_ms)
    return counted_of(asked, TIMES, BUDGET_TOKENS)


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
