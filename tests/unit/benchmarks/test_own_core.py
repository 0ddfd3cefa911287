"""Where vLLM's engine is put to see what a core of its own is worth, and what is told of it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.device.own_core import (
    FREE,
    busiest,
    knobs_of,
    main,
    placings,
    processes,
    processor_of,
    put,
    table,
    threads_of,
    watched,
)


def test_all_else_keeps_off_the_engine_s_core() -> None:
    found = placings([1, 2], {1: [5], 2: []}, range(8))
    assert list(found) == [FREE, "on 1", "on 2"]
    assert found[FREE] == (frozenset(range(8)), frozenset(range(8)))
    assert found["on 1"] == (frozenset({1}), frozenset({0, 2, 3, 4, 6, 7}))
    assert found["on 2"] == (frozenset({2}), frozenset({0, 1, 3, 4, 5, 6, 7}))


def test_four_bits_take_a_kernel_and_sixteen_none() -> None:
    assert "quantization.method" not in knobs_of(None)
    assert knobs_of("humming")["serving.linear_backend"] == "humming"
    assert knobs_of("humming").items() >= knobs_of(None).items()


def test_all_threads_of_a_process_are_put_on_its_processors_and_seen_there() -> None:
    before = os.sched_getaffinity(0)
    last = max(before)
    try:
        put([os.getpid()], {last})
        assert {frozenset(os.sched_getaffinity(each)) for each in threads_of(os.getpid())} == {
            frozenset({last})
        }
        with watched(os.getpid()) as seen:
            while not seen:
                sum(range(10_000))
        assert set(seen) == {last}
    finally:
        put([os.getpid()], before)
    assert threads_of(2**30) == []
    assert processor_of(2**30) is None
    put([2**30], before)


SERVER = """
import subprocess, sys
worked = "import time; e = time.process_time() + 0.6\\nwhile time.process_time() < e: pass\\ntime.sleep(99)"
waits = "import sys; sys.stdin.read(1)\\nwhile True: pass"
before = subprocess.Popen([sys.executable, "-c", worked])
engine = subprocess.Popen([sys.executable, "-c", waits], stdin=subprocess.PIPE)
print(before.pid, engine.pid, flush=True)
sys.stdin.read(1)
engine.stdin.write(b".")
engine.stdin.flush()
sys.stdin.read()
before.kill(), engine.kill()
"""
"""One child that worked before, and one, called as all the others, that works once it is told to."""


def worked_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


class Launch(NamedTuple):
    pid: int
    client_pid: int | None


def test_the_engine_is_the_server_s_child_that_works_while_it_is_asked_whatever_it_is_called() -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        before, engine = map(int, server.stdout.readline().split())
        while worked_s(before) < 0.5:
            time.sleep(0.01)

        def ask() -> None:
            server.stdin.write(b".")  # type: ignore[union-attr]
            server.stdin.flush()  # type: ignore[union-attr]
            while worked_s(engine) < 0.3:
                time.sleep(0.01)

        found, others = processes(Launch(server.pid, 1), ask)  # type: ignore[arg-type]
        assert found == engine
        assert sorted(others) == sorted([server.pid, before, os.getpid(), 1])
    finally:
        server.communicate()


def test_what_ended_meanwhile_is_not_the_engine_and_where_there_is_none_that_is_said() -> None:
    ended, busy = (subprocess.Popen([sys.executable, "-c", code]) for code in ("", "while True: pass"))
    try:
        each = [psutil.Process(process.pid) for process in (ended, busy)]
        assert busiest(each, lambda: (ended.wait(), time.sleep(0.3))).pid == busy.pid
    finally:
        busy.kill()
        busy.wait()
        ended.wait()
    with pytest.raises(RuntimeError, match="serves in one process"):
        busiest([], lambda: None)


def told(rounds: int) -> dict[str, object]:
    def one(ttft_ms: float, tpot_ms: float, seen: dict[int, int]) -> dict[str, object]:
        return {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "seen": seen}

    return {
        "rounds": [
            {FREE: one(70.0 + turn, 3.4, {0: 3, 7: 1}), "on 2": one(50.0, 2.72, {2: 4})}
            for turn in range(rounds)
        ]
    }


def test_each_placing_is_told_against_where_the_system_puts_it() -> None:
    lines = table(json.loads(json.dumps(told(3)))).splitlines()
    assert lines[2].startswith("| free | 71.00 | 3.40 | — | — | 2 processors |")
    assert lines[3].startswith("| on 2 | 50.00 | 2.72 | -29.6 % (-3")
    assert "| -20.0 % (-20.0 to -20.0) | processor 2 |" in lines[3]
    assert "| -28.6 % | -20.0 % |" in table(told(1)), "of one round there is no interval"


def test_what_was_kept_is_told_again_and_what_is_none_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.json"
    file.write_text(json.dumps(told(2)), encoding="utf-8")
    assert main(["--table", str(file)]) == 0
    assert "| on 2 |" in capsys.readouterr().out
    for text, said in (("{}", "keeps no rounds"), ("[", "can't be read"), (None, "can't be read")):
        other = tmp_path / f"other{len(said)}{text}"
        if text is not None:
            other.write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main(["--table", str(other)])
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
