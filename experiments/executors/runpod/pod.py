"""The first process of a pod: starts what runs the job, ends it at the limit, and ends the pod, whatever
happened.

`python -m experiments.executors.runpod.pod`; all it is told is in its environment. It imports little, so that
it can end the pod where nothing else starts. A container that ends is started again by RunPod, and paid for:
this one asks for the pod's end until it is ended.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from configs.errors import AutoinferError
from experiments.executors.runpod.api import API_URL, RunPodApi
from experiments.executors.runpod.pod_environment import LIMIT, LIMIT_SIGNAL, URL

LIMIT_S = 3600.0
"""The limit where the environment names none."""

LAST_WORDS_S = 10.0
"""How long the job's process may take, at the limit, to write that it was reached."""

LONGEST_WAIT_S = 30.0
"""The longest wait between two requests for the pod's own end."""


def body() -> int:
    """Run the job; imported only where it runs, so that the pod's end depends on nothing of it."""
    from experiments.executors.runpod.body_process import main as run

    return run()


def main(run: Callable[[], int] = body, longest_wait_s: float = LONGEST_WAIT_S) -> None:
    """Run the pod; returns never, because a container that ends is started again."""
    try:
        _within_limit(run)
    except Exception as error:  # nothing may keep the pod from its end
        print(f"The pod's job could not be started: {error}", flush=True)
    _end_pod(longest_wait_s)


def _within_limit(run: Callable[[], int]) -> None:
    limit_s = float(os.environ.get(LIMIT) or LIMIT_S)
    process = multiprocessing.get_context("fork").Process(target=_apart, args=(run,))
    process.start()
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    process.join(limit_s)
    assert process.pid is not None  # it was started
    if process.is_alive():
        print(f"The limit of {limit_s:.0f} s is over: the job ends.", flush=True)
        with suppress(ProcessLookupError):
            os.kill(process.pid, LIMIT_SIGNAL)
        process.join(LAST_WORDS_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()


def _apart(run: Callable[[], int]) -> None:
    """In a process group of its own, and without the key that ends pods."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.pop("RUNPOD_API_KEY", None)
    run()


def _end_pod(longest_wait_s: float) -> None:
    api = RunPodApi(os.environ.get("RUNPOD_API_KEY", ""), os.environ.get(URL, API_URL))
    wait_s = min(1.0, longest_wait_s)
    while True:
        try:
            api.terminate_as_pod(os.environ.get("RUNPOD_POD_ID", ""))
        except AutoinferError as error:
            print(f"The pod could not end itself: {error}", flush=True)
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, longest_wait_s)


if __name__ == "__main__":
    main()
