"""The timer asks a process, keeps to its limits, and makes an answer of whatever comes of it.

The process is a real one with a script in place of vLLM's Python: it answers as `kernel_timing_process` does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from configs.models import load_model_profile
from experiments.engines.kernel_timings import FORMAT, KERNEL, KernelTimings, products_of
from experiments.engines.port import Infeasible
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.kernel_timer import KernelTimer, Limits, Order
from experiments.engines.vllm.timing_order import Case

PRODUCTS = products_of(load_model_profile("qwen3.5-9b"))
ORDER = Order(PRODUCTS, rows=1, dtype="bfloat16", device="cpu")
FIRST: Mapping[str, Any] = {FORMAT[0]: 4, FORMAT[1]: 128, FORMAT[2]: True}
SECOND: Mapping[str, Any] = {FORMAT[0]: 4, FORMAT[1]: 32, FORMAT[2]: True}

SCRIPT = """#!{python}
import json, os, sys, time
told = json.loads({told!r})
order = json.loads(sys.stdin.readline())
assert os.path.isdir(os.path.dirname(order["turn"]))
if told.get("begins") == "once":
    try:
        os.close(os.open({begun!r}, os.O_CREAT | os.O_EXCL))  # of several that begin at once one does
    except FileExistsError:
        print("No space left on device", file=sys.stderr, flush=True)
        os._exit(7)
with open({begun!r}, "a") as file:
    print(os.getpid(), file=file)
print(json.dumps({{"ok": {{"method": "by script", "rows": order["rows"]}}}}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    how = told.get(asked["backend"], 10.0)
    if asked["quantization"] is None:
        how = 20.0
    if how == "compiles":
        begun_s = time.monotonic()
        time.sleep(0.4)
        with open({begun!r} + "-compiled", "a") as file:
            print(begun_s, time.monotonic(), file=file)
        how = 3.0
    first_call_s = 0.0
    if how == "long":
        first_call_s, how = (1.0 if asked["again"] else 10.0), 3.0
        with open({begun!r} + "-calls", "a") as file:
            print(os.getpid(), asked["product"]["part"], int(asked["again"]), file=file)
    if how == "hangs":
        time.sleep(600)
    if how == "dies":
        print("CUDA error: an illegal memory access", file=sys.stderr, flush=True)
        os._exit(7)
    part = {{**{{name: asked["product"][name] for name in ("part", "count")}}, "samples_us": []}}
    if isinstance(how, str):
        part["untimed" if how == "breaks" else "refused"] = how
    else:
        part |= {{"us": how, "samples_us": [how], "copies": 2, "kernel": asked["backend"]}}
        part["first_call_s"] = first_call_s
    print(json.dumps({{"ok": {{"part": part, "broken": how == "breaks"}}}}), flush=True)
"""


class Timing:
    """Runs a timer over a process whose kernels take what `told` says, or do what it says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.begun = folder / "begun"

    def __call__(
        self,
        told: Mapping[str, object],
        formats: tuple[Mapping[str, Any], ...] = (FIRST,),
        tell: Callable[[int, int, str], None] = lambda done, planned, text: None,
        lanes: int = 1,
        limits: Mapping[str, float] | None = None,
        known: KernelTimings | None = None,
        **given: Any,
    ) -> KernelTimings:
        python = self._folder / "python"
        python.write_text(SCRIPT.format(python=sys.executable, told=json.dumps(told), begun=str(self.begun)))
        python.chmod(0o755)
        cases = [
            Case({**stored, KERNEL: kernel}, kernel, {"format": dict(stored)})
            for stored in formats
            for kernel in told
            if kernel != "begins"
        ]
        found = VllmEnvironment(python, "0.32.0", for_cpu=True)
        timer = KernelTimer(
            ORDER,
            found,
            self._folder / "log",
            self._folder,
            lanes=lanes,
            limits=Limits(**(limits or {})),
            **given,
        )
        try:
            return timer.time(cases, tell, known)
        finally:
            pids = [int(pid) for pid in self.begun.read_text().split()]
            assert not any(psutil.pid_exists(pid) for pid in pids), "nothing is left of what it began"

    @property
    def processes(self) -> int:
        return len(self.begun.read_text().split())


def kernel_of(told: str) -> str:
    """The kernel that is told to be timed now."""
    return told.removeprefix("time the kernel ").partition(":")[0]


@pytest.fixture
def timing(tmp_path: Path) -> Timing:
    return Timing(tmp_path)


def test_all_parts_of_every_kernel_are_asked_for_and_sum_to_a_step(timing: Timing) -> None:
    found = timing({"one": 5.0, "two": 7.0})
    assert [each.knobs[KERNEL] for each in found.packed] == ["one", "two"]
    products = sum(each.count for each in PRODUCTS if each.kind == "gemm")
    assert products == 4 * 32
    assert [each.products_us for each in found.packed] == [5.0 * products, 7.0 * products]
    assert found.plain.products_us == 20.0 * products
    assert [each.head_us for each in (found.plain, *found.packed)] == [20.0, 5.0, 7.0]
    assert (found.method, found.cut_off, timing.processes) == ("by script", None, 1)
    assert KernelTimings.of_data(json.loads(json.dumps(found.data()))) == found


def test_a_refusal_is_recorded_with_its_reason_and_the_others_go_on(timing: Timing) -> None:
    found = timing({"one": "no such kernel", "two": 7.0})
    refused, timed = found.packed
    assert (refused.refused, refused.products_us) == ("no such kernel", None)
    assert refused.parts[1].untimed == "not tried after: no such kernel"
    assert timed.products_us is not None
    assert timing.processes == 1


@pytest.mark.parametrize(("how", "told"), [("dies", "illegal memory access"), ("breaks", "breaks")])
def test_after_a_kernel_that_breaks_the_process_another_one_goes_on(
    timing: Timing, how: str, told: str
) -> None:
    found = timing({"one": how, "two": 7.0})
    broken, timed = found.packed
    assert told in str(broken.untimed)
    assert broken.refused is None, "the engine refused nothing"
    assert timed.products_us is not None
    assert timing.processes == 2


def test_what_was_timed_is_kept_where_no_other_process_can_be_begun(timing: Timing) -> None:
    found = timing({"one": 5.0, "two": "dies", "three": 5.0, "begins": "once"})
    one, two, three = found.packed[:3]
    assert one.part_us("gate_up_proj") is not None
    assert str(one.untimed).endswith("a disk is full: no space is left on the disk.")
    assert "illegal memory access" in str(two.untimed)
    assert str(three.untimed) == str(one.untimed)
    assert timing.processes == 1


def test_what_does_not_answer_is_ended_and_told_with_its_limit(timing: Timing) -> None:
    found = timing({"one": "hangs", "two": 7.0}, limits={"answer_s": 1.0})
    assert "did not time gate_up_proj within 1 s" in str(found.packed[0].untimed)
    assert found.packed[1].products_us is not None


def test_the_whole_has_a_limit_after_which_nothing_more_is_asked(timing: Timing) -> None:
    found = timing({"one": 5.0, "two": "hangs", "three": 5.0}, limits={"all_s": 1.5})
    one, two, three = found.packed
    assert one.part_us("gate_up_proj") is not None
    told = "The limit of 1.5 s was reached with 3 of 4 left."
    assert one.untimed == two.untimed == three.untimed == found.cut_off == told
    assert [each.left for each in (*one.parts[:2], *two.parts, *three.parts)] == [False] + [True] * 15


def test_a_later_timing_asks_for_what_is_left_alone_and_keeps_the_rest(timing: Timing) -> None:
    first = timing({"one": 5.0, "two": "hangs", "three": 5.0}, limits={"all_s": 1.5})
    asked: list[str] = []
    whole = timing(
        {"one": 8.0, "two": 7.0, "three": 9.0},
        known=first,
        tell=lambda done, planned, text: asked.append(kernel_of(text)),
    )
    assert asked == ["two", "three"] + ["one"] * 6 + ["two"] * 6 + ["three"] * 6
    assert (whole.cut_off, whole.is_unfinished, whole.rounds) == (None, False, 2)
    assert whole.plain == first.plain
    assert whole.packed[0].parts[0] == first.packed[0].parts[0]
    assert [part.us for part in whole.packed[0].parts] == [5.0] + [8.0] * 6
    assert first.settled < whole.settled == len(PRODUCTS) * 4
    again = timing({"one": 1.0, "two": 1.0, "three": 1.0}, known=whole)
    assert (again.packed, again.method) == (whole.packed, "by script")
    assert timing.processes == 2, "where nothing is left no process is begun"


def test_a_refusal_and_what_came_after_it_are_kept_by_a_later_timing(timing: Timing) -> None:
    first = timing({"one": "no such kernel", "two": "hangs"}, limits={"all_s": 1.5})
    assert first.is_unfinished
    later = timing({"one": 5.0, "two": 7.0}, known=first)
    assert later.packed[0] == first.packed[0]
    assert later.packed[1].products_us is not None


def test_what_did_not_answer_within_its_own_limit_is_not_left(timing: Timing) -> None:
    found = timing({"one": "hangs"}, limits={"answer_s": 0.5})
    assert "did not time gate_up_proj within" in str(found.packed[0].untimed)
    assert (found.is_unfinished, found.cut_off) == (False, None)


def test_the_rest_of_the_limit_of_all_is_nobodys_own_limit(timing: Timing) -> None:
    found = timing({"one": 5.0, "two": "hangs"}, limits={"all_s": 1.5, "answer_s": 1.5})
    assert all(part.left for part in found.packed[1].parts)
    assert found.is_unfinished


def test_where_no_process_begins_what_is_left_has_not_failed(timing: Timing, tmp_path: Path) -> None:
    first = timing({"one": 5.0, "two": "hangs"}, limits={"all_s": 1.5})
    python = tmp_path / "broken"
    python.write_text("#!/bin/sh\necho \"No module named 'torch'\" >&2; exit 1\n")
    python.chmod(0o755)
    timer = KernelTimer(ORDER, VllmEnvironment(python, "0.32.0", for_cpu=True), tmp_path / "log", tmp_path)
    cases = [Case(each.knobs, str(each.knobs[KERNEL]), {}) for each in first.packed]
    with pytest.raises(Infeasible, match="No module named 'torch'"):
        timer.time(cases, known=first)


def test_with_further_formats_what_is_far_behind_is_left_out_but_for_the_engines_choice(
    timing: Timing,
) -> None:
    found = timing({"auto": 50.0, "fast": 5.0, "near": 9.0, "slow": 30.0}, (FIRST, SECOND))
    timed = {str(each.knobs[KERNEL]): each for each in found.packed[4:]}
    assert {name for name, each in timed.items() if each.products_us is not None} == {"auto", "fast", "near"}
    assert timed["slow"].untimed == (
        "It took 6.0 times as long as the fastest with weights of the first format."
    )


@pytest.mark.parametrize("how", ["hangs", "dies"])
def test_what_failed_with_the_first_format_is_not_tried_with_a_further_one(timing: Timing, how: str) -> None:
    found = timing({"one": 5.0, "bad": how}, (FIRST, SECOND), limits={"answer_s": 1.0})
    first, further = (each for each in found.packed if each.knobs[KERNEL] == "bad")
    assert further.untimed == f"It failed with the first format: {first.untimed}"
    assert not further.refused
    assert not found.is_unfinished


def test_what_refused_the_first_format_is_asked_for_a_further_one(timing: Timing) -> None:
    found = timing({"one": 5.0, "no": "no such format"}, (FIRST, SECOND))
    assert [each.refused for each in found.packed if each.knobs[KERNEL] == "no"] == ["no such format"] * 2


class Costly:
    """A clock by which an answer of one kernel takes a second, and of all others a hundredth; told what is
    asked for."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._now_s = 0.0
        self.asked: list[str] = []

    def tell(self, done: int, planned: int, text: str) -> None:
        name = kernel_of(text)
        if self.asked[-1:] != [name]:
            self.asked.append(name)

    def __call__(self) -> float:
        self._now_s += 1.0 if self.asked[-1:] == [self._kernel] else 0.01
        return self._now_s


def test_with_further_formats_what_was_soon_done_comes_first(timing: Timing) -> None:
    costly = Costly("compiled")
    timing({"auto": 5.0, "compiled": 5.0, "ready": 5.0}, (FIRST, SECOND), tell=costly.tell, clock=costly)
    assert costly.asked[1:4] == ["auto", "compiled", "ready"], "first products"
    assert costly.asked[4:5] == ["auto"], "what it chooses with the further format, then its other products"
    assert costly.asked[5:7] == ["compiled", "ready"]
    assert costly.asked[7:] == ["auto", "ready", "compiled"]


def test_lanes_compile_side_by_side(timing: Timing) -> None:
    found = timing({"auto": 5.0, "slow": "compiles", "ready": 5.0}, lanes=3)
    assert [each.products_us is not None for each in found.packed] == [True] * 3
    assert timing.processes == 3
    lines = Path(f"{timing.begun}-compiled").read_text().splitlines()
    assert len(lines) == len(PRODUCTS)
    first, *others = sorted(tuple(map(float, line.split())) for line in lines)
    assert all(begun_s >= first[1] for begun_s, _ in others), "the first says whether it can be done at all"
    assert any(one[1] > other[0] for one, other in pairwise(others)), "then they overlap"


def test_what_compiles_for_long_is_called_once_more_by_another_process(timing: Timing) -> None:
    found = timing({"auto": 5.0, "one": "long"}, lanes=2)
    ready, compiled = found.packed
    assert [part.again_s for part in compiled.parts] == [1.0] + [None] * (len(PRODUCTS) - 1)
    assert compiled.later_calls_s == pytest.approx(len(PRODUCTS) * 1.0)
    assert compiled.first_calls_s == len(PRODUCTS) * 10.0
    assert (ready.later_calls_s, ready.again_share) == (None, 1.0)
    lines = Path(f"{timing.begun}-calls").read_text().splitlines()
    (again,) = [line.split() for line in lines if line.endswith(" 1")]
    first = lines[0].split()
    assert again[1] == first[1] == PRODUCTS[0].part
    assert again[0] != first[0], "the process that compiled it has it anyway"
    assert KernelTimings.of_data(json.loads(json.dumps(found.data()))) == found


def test_where_one_process_alone_times_nobody_is_asked_again(timing: Timing) -> None:
    (compiled,) = timing({"one": "long"}, lanes=1).packed
    assert (compiled.later_calls_s, compiled.again_share) == (None, 1.0)
    assert not any(line.endswith(" 1") for line in Path(f"{timing.begun}-calls").read_text().splitlines())


def test_a_later_timing_asks_again_what_an_earlier_one_compiled(timing: Timing) -> None:
    first = timing({"one": "long", "two": "hangs"}, limits={"all_s": 1.5}, lanes=1)
    assert first.packed[0].later_calls_s is None
    later = timing({"one": "long", "two": 7.0}, known=first)
    assert later.packed[0].parts[0].again_s == 1.0, "its process is another one"


def test_a_lane_that_can_not_be_begun_leaves_its_task_to_the_others(timing: Timing) -> None:
    found = timing({"one": 5.0, "two": 7.0, "begins": "once"}, lanes=3)
    assert [each.products_us is not None for each in found.packed[:2]] == [True] * 2
    assert timing.processes == 1
    assert found.cut_off is None


def test_an_error_ends_all_lanes_at_once(timing: Timing) -> None:
    def interrupt(done: int, planned: int, text: str) -> None:
        if kernel_of(text) == "one":
            raise KeyboardInterrupt

    begun_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        timing({"auto": "hangs", "one": 5.0}, tell=interrupt, lanes=2)
    assert time.monotonic() - begun_s < 20, "it waits for no limit"


def test_where_not_even_sixteen_bits_can_be_timed_the_cause_is_told(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"No module named 'torch'\" >&2; exit 1\n")
    python.chmod(0o755)
    timer = KernelTimer(ORDER, VllmEnvironment(python, "0.32.0", for_cpu=True), tmp_path / "log", tmp_path)
    with pytest.raises(Infeasible, match="No module named 'torch'"):
        timer.time([])
