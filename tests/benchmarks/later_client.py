"""The product's HTTP client, but that each request goes out a little later: what its haste is worth.

vLLM's bench sends a successor 0.15 ms later than ours does (`first_token_groups.py`). Started as that client
is, in vLLM's Python.
"""

import asyncio
import time
from typing import Any

from experiments.engines.vllm import http_client

MODULE = "tests.benchmarks.later_client"

LATER_S = 0.00015

ASK = http_client.ask


async def ask_later(*order: Any) -> Any:
    """As the product asks, after `LATER_S`, in which others of its requests are heard: a loop's own timers
    are too coarse for it."""
    due_s = time.perf_counter() + LATER_S
    while time.perf_counter() < due_s:
        await asyncio.sleep(0)
    return await ASK(*order)


def main() -> None:
    """Answer as the client does."""
    http_client.ask = ask_later
    http_client.main()


if __name__ == "__main__":
    main()
