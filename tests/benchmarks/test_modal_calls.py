"""How much of a core a thousand calls on Modal take to follow, through Modal's client library."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("modal")

from experiments.executors.modal import deployment
from experiments.executors.modal.executor import ModalExecutor
from experiments.executors.modal.following import HEADS_A_SPAN, HEADS_S, Patience
from experiments.executors.modal.protocol import Head
from experiments.executors.port import RunState
from tests.benchmarks.slowness import Promise
from tests.simulated.modal import app as simulated
from tests.simulated.modal.places import modal_executor
from tests.simulated.modal.server import FakeModal
from tests.simulated.specs import a_test_job

CALLS = 1000
LOOK_S = HEADS_S * CALLS / HEADS_A_SPAN
"""How often what a thousand calls told is read; as often each of them is looked at."""


MOST_OF_A_CORE = 0.05
"""What following the calls may take of a core of the machine of the promises."""

LOOKS = 3
"""Looks that are timed; the least of them counts, for other work on the machine makes each take longer."""


def looked_s(executor: ModalExecutor, refs: Sequence[str], fake: FakeModal) -> float:
    """Seconds of a processor that a look at each call takes, without the server's."""
    server_s, begun_s = fake.loopback.busy_s(), time.process_time()
    executor._follower._told_at_s = float("-inf")  # LOOK_S have passed
    for ref in refs:
        executor.poll(ref)
    return time.process_time() - begun_s - (fake.loopback.busy_s() - server_s)


def test_a_thousand_calls_are_followed_with_little_of_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import modal

    fake = FakeModal(tmp_path)
    monkeypatch.setenv("MODAL_SERVER_URL", fake.loopback.url)
    monkeypatch.setenv("MODAL_TOKEN_ID", "ak-test")
    monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-test")
    try:
        deployment.deploy(app=deployment.make_app(function=simulated.job, image=modal.Image.debian_slim()))
        fake.hold = True
        executor = modal_executor(tmp_path)
        job = a_test_job()
        begun = time.perf_counter()
        refs = [executor.submit(f"job{number}", job) for number in range(CALLS)]
        submit_ms = (time.perf_counter() - begun) / CALLS * 1000
        board = executor._follower.board()
        for number, ref in enumerate(refs):
            head = Head(call_id=ref, key=f"job{number}", gpu=None, start=1, told_at_s=time.time())
            board.heads.put(ref, head.model_dump_json())
        again = modal_executor(tmp_path)
        again._follower._patience = Patience()
        begun = time.perf_counter()
        assert all(again.poll(ref).state is RunState.RUNNING for ref in refs)
        attach_s = time.perf_counter() - begun
        used_s = min(looked_s(again, refs, fake) for _ in range(LOOKS))
        print(
            f"\n{CALLS} calls: submit {submit_ms:.1f} ms each (fake included), a new executor has looked at "
            f"all after {attach_s:.2f} s, a look at each every {LOOK_S:.0f} s takes {used_s / LOOK_S:.1%} of "
            "a core"
        )
        Promise(f"a look at each of {CALLS} calls", MOST_OF_A_CORE * LOOK_S).hold(used_s)
        assert attach_s < 10
        assert submit_ms < 100
    finally:
        modal.Client.from_env().close()
        fake.close()
