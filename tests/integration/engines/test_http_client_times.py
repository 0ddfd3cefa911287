"""The times that the HTTP client tells are those at which a server handed its tokens to their sockets.

The server is no vLLM: it answers by a timetable and notes when it did (`tests/benchmarks/paced_server.py`).
Client and server are processes of their own on one clock; the client runs in this Python, for it needs
nothing of vLLM. `vllm bench serve` is asked beside it in `tests/benchmarks/test_client_bias.py`.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import psutil
import pytest

from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.http_client_process import HttpClient
from tests.benchmarks.paced_process import ROOT, PacedServer, late_ms, trace_of, ways_ms
from tests.benchmarks.paced_server import MADE_UP, Answered, Timetable

AT_ONCE, REQUESTS, NEW_TOKENS = 4, 8, 12
TABLE = Timetable(step_ms=20.0, first_ms=(90.0, 50.0, 130.0, 70.0, 110.0, 60.0, 100.0, 80.0))

BLOCKS = 3
"""Blocks of which the one counts that the rest of the machine disturbed least."""

BOUND_MS = 5.0
"""Most by which TTFT and end to end may lie from the server's record; 1 ms is usual on two idle cores …"""

BOUND_OF_GAPS_MS = 1.0
"""… and the time between tokens, as medians."""

LIMIT_S = 60.0


@dataclass(frozen=True)
class Apart:
    """By how much what was told is more than what was noted: medians of requests and of gaps, in ms."""

    ttft_ms: float
    itl_ms: float
    e2el_ms: float

    def agrees(self) -> bool:
        """Whether all three lie within their bounds."""
        of_requests = max(abs(self.ttft_ms), abs(self.e2el_ms))
        return of_requests <= BOUND_MS and abs(self.itl_ms) <= BOUND_OF_GAPS_MS


Block = tuple[list[Answered], list[GenerationTrace]]
"""What the server noted of requests, and what the client told of the same ones."""


def apart(noted: Sequence[Answered], told: Sequence[GenerationTrace]) -> Apart:
    pairs = [(trace_of(note), trace) for note, trace in zip(noted, told, strict=True)]
    gaps = [
        theirs - ours
        for noted_, told_ in pairs
        for ours, theirs in zip(noted_.itl_ms, told_.itl_ms, strict=True)
    ]
    return Apart(
        median(trace.ttft_ms - note.ttft_ms for note, trace in pairs),
        median(gaps),
        median(trace.e2el_ms - note.e2el_ms for note, trace in pairs),
    )


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Block]]:
    folder = tmp_path_factory.mktemp("paced")
    requests = [
        GenerationRequest(str(place), tuple(range(place, place + 64)), NEW_TOKENS)
        for place in range(REQUESTS)
    ]
    python = VllmEnvironment(Path(sys.executable), "none is needed", for_cpu=True)
    with PacedServer() as server:
        client = HttpClient(server.address, python, folder / "client.log", folder)
        try:
            client.prepare(requests, LIMIT_S)
            found = []
            for _ in range(BLOCKS):
                server.set(TABLE)
                traces, names = client.ask(requests, AT_ONCE, LIMIT_S)
                by_name = {each.name: each for each in server.record()}
                found.append(([by_name[name] for name in names], traces))
        finally:
            client.close()
    yield found
    assert not server.is_running


@pytest.fixture(scope="module")
def best(blocks: list[Block]) -> Block:
    """The block that lies nearest to the server's record."""
    return min(blocks, key=lambda each: abs(apart(*each).e2el_ms))


def test_ttft_gaps_and_end_to_end_are_those_of_the_servers_own_record(best: Block) -> None:
    found = apart(*best)
    assert found.agrees(), found


def later(note: Answered) -> Answered:
    return replace(note, written_s=[each + 3e-3 * BOUND_MS for each in note.written_s])


def earlier(note: Answered) -> Answered:
    return replace(note, written_s=[each - 3e-3 * BOUND_MS for each in note.written_s])


def wider(note: Answered) -> Answered:
    spread_s = 3e-3 * BOUND_OF_GAPS_MS
    return replace(note, written_s=[each + spread_s * place for place, each in enumerate(note.written_s)])


@pytest.mark.parametrize("moved", [later, earlier, wider])
def test_a_record_of_other_times_is_told_from_it(best: Block, moved: Callable[[Answered], Answered]) -> None:
    noted, told = best
    assert not apart([moved(each) for each in noted], told).agrees()


def test_no_request_arrives_before_it_is_sent_and_no_token_is_read_before_it_is_handed_over(
    blocks: list[Block],
) -> None:
    for noted, told in blocks:
        there, back = ways_ms(noted, told)
        assert min(there) > 0
        assert min(back) > 0
        assert [trace.token_ids for trace in told] == [(MADE_UP,) * NEW_TOKENS] * REQUESTS


def test_the_server_answers_by_its_timetable_and_never_early(blocks: list[Block]) -> None:
    for noted, _ in blocks:
        assert min(late_ms(noted)) > -1e-3
        first_due_s = noted[0].due_s[0]
        for note, first_ms in zip(noted, TABLE.first_ms, strict=True):
            waits_ms = 1e3 * (note.due_s[0] - note.arrived_s)
            assert first_ms - 1e-3 <= waits_ms <= first_ms + TABLE.step_ms + 1e-3
            steps = [1e3 * (after - before) for before, after in pairwise(note.due_s)]
            assert steps == pytest.approx([TABLE.step_ms] * (NEW_TOKENS - 1))
            from_the_first = 1e3 * (note.due_s[0] - first_due_s) / TABLE.step_ms
            assert from_the_first == pytest.approx(round(from_the_first), abs=1e-6)


STARTS_ONE = """
import sys
from tests.benchmarks.paced_process import PacedServer
print(PacedServer().pid, flush=True)
sys.stdin.read()
"""


def test_the_server_ends_with_the_process_that_started_it_however_that_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    ) as parent:
        assert parent.stdout is not None
        server = psutil.Process(int(parent.stdout.readline()))
        assert server.is_running()
        parent.kill()
    server.wait(LIMIT_S)
