"""Asks vLLM's OpenAI server in a closed loop and takes the times, in vLLM's own Python; imports none of ours.

Reads one JSON object from standard input: `address`, `model`, `prompts` (texts), `new_tokens`,
`concurrency`. Writes one: `requests`, each with `start_s`, `end_s`, `first_s`, `gaps_s` (between chunks) and
`tokens`, as the server counts them.
"""

import asyncio
import json
import sys
import time
from itertools import pairwise
from typing import Any

import aiohttp

DATA = b"data: "
DONE = b"[DONE]"


async def ask(session: aiohttp.ClientSession, told: dict[str, Any], prompt: str) -> dict[str, Any]:
    """One streamed request."""
    body = {
        "model": told["model"],
        "prompt": prompt,
        "max_tokens": told["new_tokens"],
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    times_s, tokens = [], 0
    start_s = time.perf_counter()
    async with session.post(f"{told['address']}/v1/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            chunk = line.strip().removeprefix(DATA)
            if not chunk or chunk == DONE:
                continue
            data = json.loads(chunk)
            if data.get("choices"):
                times_s.append(time.perf_counter())
            elif data.get("usage"):
                tokens = data["usage"]["completion_tokens"]
    return {
        "start_s": start_s,
        "first_s": times_s[0] - start_s,
        "end_s": times_s[-1] - start_s,
        "gaps_s": [after - before for before, after in pairwise(times_s)],
        "tokens": tokens,
    }


async def ask_all(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Every prompt once, so many at a time, in their order."""
    answers: dict[int, dict[str, Any]] = {}
    waiting = iter(enumerate(told["prompts"]))

    async def one_after_the_other(session: aiohttp.ClientSession) -> None:
        for place, prompt in waiting:
            answers[place] = await ask(session, told, prompt)

    connector = aiohttp.TCPConnector(limit=told["concurrency"])
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        for _ in range(told["concurrency"]):
            group.create_task(one_after_the_other(session))
    return [answers[place] for place in range(len(told["prompts"]))]


if __name__ == "__main__":
    print(json.dumps({"requests": asyncio.run(ask_all(json.load(sys.stdin)))}))
