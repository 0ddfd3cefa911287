"""In which order which process times which part: what is soon done first, and what compiled for long once
more, by another process. No process runs here (`test_kernel_timer.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from configs.models import load_model_profile
from experiments.engines.kernel_timings import FORMAT, KERNEL, KernelTimings, PartTiming, products_of
from experiments.engines.vllm.timing_order import LONG_S, Case, Task, TimingOrder

PRODUCTS = products_of(load_model_profile("qwen3.5-9b"))
FIRST: Mapping[str, Any] = {FORMAT[0]: 4, FORMAT[1]: 128, FORMAT[2]: True}


def test_a_kernel_that_is_offered_with_a_further_format_alone_is_timed_with_that() -> None:
    formats = ({"quantization.bits": bits} for bits in (4, 4, 8, 8))
    backends = ("auto", "one", "auto", "other")
    cases = [Case({**each, KERNEL: name}, name, {}) for each, name in zip(formats, backends, strict=True)]
    order, asked = TimingOrder(cases, PRODUCTS[:1]), []
    while (task := order.next()) is not None:
        asked.append((task.case.backend, task.case.knobs.get("quantization.bits")))
        order.done(task, PartTiming(PRODUCTS[0].part, 1, us=1.0), 1.0)
    assert asked == [("auto", None), ("auto", 4), ("one", 4), ("other", 8), ("auto", 8)]
    assert order.left == 0


def test_weights_of_sixteen_bits_that_are_left_count_as_left() -> None:
    case = Case({KERNEL: "one"}, "one", {})
    order = TimingOrder([case], PRODUCTS)
    assert order.left == 2
    for product in PRODUCTS:
        order.done(Task(case, product), PartTiming(product.part, 1, us=1.0), 1.0)
    assert order.left == 1


def test_what_the_engine_chooses_for_each_format_is_known_before_any_kernel_is_timed_whole() -> None:
    formats = ({"quantization.bits": bits} for bits in (4, 4, 8, 8))
    backends = ("auto", "one", "auto", "one")
    cases = [Case({**each, KERNEL: name}, name, {}) for each, name in zip(formats, backends, strict=True)]
    order, asked = TimingOrder(cases, PRODUCTS), []
    while (task := order.next()) is not None:
        asked.append((task.case.backend, task.case.knobs.get("quantization.bits"), task.product.part))
        order.done(task, PartTiming(task.product.part, 1, us=1.0), 1.0)
    first = PRODUCTS[0].part
    assert asked[len(PRODUCTS) :][:3] == [("auto", 4, first), ("one", 4, first), ("auto", 8, first)]
    assert order.left == 0


def test_what_is_ready_is_timed_whole_before_what_compiles_for_long() -> None:
    cases = [Case({KERNEL: name}, name, {}) for name in ("compiled", "ready")]
    order, asked = TimingOrder(cases, PRODUCTS), list[str]()
    while (task := order.next()) is not None:
        if task.case.quantization is not None and not task.again:
            asked.append(task.case.backend)
        first_call_s = 2 * LONG_S if task.case.backend == "compiled" else 0.1
        order.done(task, PartTiming(task.product.part, 1, us=1.0, first_call_s=first_call_s), 1.0)
    others = len(PRODUCTS) - 1
    assert asked == ["compiled", "ready"] + ["ready"] * others + ["compiled"] * others


def order_after_a_long_call() -> tuple[TimingOrder, Task]:
    """An order whose only kernel's first product lane 0 has compiled for long."""
    order = TimingOrder([Case({KERNEL: "one"}, "one", {})], PRODUCTS[:1])
    for first_call_s in (0.0, 2 * LONG_S):
        task = order.next(0)
        assert task is not None
        order.done(task, PartTiming(task.product.part, 1, us=1.0, first_call_s=first_call_s), 1.0, 0)
    again = order.next(1)
    assert again is not None
    return order, again


def test_what_is_asked_again_and_fails_says_nothing_and_what_is_put_back_is_asked() -> None:
    order, again = order_after_a_long_call()
    assert again.again
    assert order.next(0) is order.next(1) is None, "once, and not by the lane that compiled it"
    order.put_back(again)
    again = order.next(2)
    assert again is not None
    part = again.product.part
    order.done(again, PartTiming(part, 1, untimed="It died."), 1.0, 2)
    (timed,) = order.packed("")
    assert (timed.parts[0].us, timed.parts[0].again_s, order.left) == (1.0, None, 0)
    assert order.next(2) is None


def an_order(*kernels: str, known: KernelTimings | None = None) -> TimingOrder:
    return TimingOrder([Case({**FIRST, KERNEL: name}, name, {}) for name in kernels], PRODUCTS[:2], known)


def done(order: TimingOrder, task: Task, lane: int, *, long: bool, kernel: str) -> None:
    first_call_s = 2 * LONG_S if long else 0.1
    part = PartTiming(task.product.part, 1, us=1.0, first_call_s=first_call_s, kernel=kernel)
    order.done(task, part, 1.0, lane)


def test_a_lane_that_called_it_under_another_value_is_not_asked_for_the_same_class_has_it() -> None:
    order = an_order("auto", "one")
    lanes = {"auto": 0, "one": 1}
    for _ in range(2):
        plain = order.next(0)
        assert plain is not None
        done(order, plain, 0, long=False, kernel="Plain")
    tasks = [order.next(lane) for lane in lanes.values()]
    for task, lane in zip(tasks, lanes.values(), strict=True):
        assert task is not None
        done(order, task, lane, long=True, kernel="Compiled")
    for lane in lanes.values():
        task = order.next(lane)
        assert task is not None
        assert not task.again
    asked = [order.next(2), order.next(2)]
    assert [task.again for task in asked if task] == [True, True], "a third lane has called neither"


def test_a_lane_that_called_another_product_of_the_same_sizes_is_not_asked_either() -> None:
    first, like = PRODUCTS[0], [each for each in PRODUCTS if each.part in ("out_proj", "o_proj")]
    assert len({(each.inputs, each.outputs) for each in like}) == 1
    order = TimingOrder([Case({**FIRST, KERNEL: "one"}, "one", {})], [first, *like])
    for _ in range(4):  # 16 bits, and the first product
        task = order.next(0)
        assert task is not None
        done(order, task, 0, long=False, kernel=task.case.backend)
    tasks = [order.next(0), order.next(1)]
    for lane, task in enumerate(tasks):
        assert task is not None
        done(order, task, lane, long=lane == 0, kernel="one")
    assert order.next(0) is order.next(1) is None
    again = order.next(2)
    assert again is not None
    assert again.again


def test_the_first_product_that_was_compiled_for_long_is_asked_again_whichever_it_is() -> None:
    order = an_order("one")
    while (task := order.next(0)) is not None:
        is_second = task.product is PRODUCTS[1]
        done(order, task, 0, long=is_second and task.case.backend == "one", kernel=task.case.backend)
    again = order.next(1)
    assert again is not None
    assert (again.again, again.product, again.case.backend) == (True, PRODUCTS[1], "one")
    assert again.words == "ask another process for what the kernel one compiled"


def test_a_timing_that_goes_on_comes_further_before_it_asks_again() -> None:
    first = an_order("one", "two")
    for _ in range(3):  # 16 bits and the first product of one
        task = first.next(0)
        assert task is not None
        done(first, task, 0, long=task.case.backend == "one", kernel=task.case.backend)
    known = KernelTimings(1, "", first.plain(), first.packed("cut off"))
    order, asked = an_order("one", "two", known=known), list[tuple[str, bool]]()
    while (task := order.next(0)) is not None:
        asked.append((task.case.backend, task.again))
        done(order, task, 0, long=False, kernel=task.case.backend)
    assert asked == [("two", False), ("two", False), ("one", False), ("one", True)]
