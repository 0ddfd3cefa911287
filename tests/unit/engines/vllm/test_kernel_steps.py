"""A trace of the device is cut into steps and regions, and its kernels' times add up to the time in use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.vllm.kernel_steps import Region, own_times, settled, steps_of
from experiments.engines.vllm.kernel_trace import MARK_BYTES, MARKS, trace_of

MOMENT = st.integers(0, 50)
SPANS = st.lists(
    st.tuples(MOMENT, MOMENT).map(lambda two: (float(min(two)), float(max(two)))), max_size=20
).map(sorted)


@given(SPANS)
def test_own_times_add_up_to_the_time_in_which_anything_ran(spans: list[tuple[float, float]]) -> None:
    own = own_times(spans)
    in_use = {k for start, end in spans for k in range(int(start), int(end))}
    assert sum(own) == pytest.approx(len(in_use))
    assert all(0 <= each <= end - start for each, (start, end) in zip(own, spans, strict=True))


def test_an_instant_belongs_to_what_began_last() -> None:
    assert own_times([(0, 10), (2, 4)]) == [8, 2]
    assert own_times([(0, 5), (4, 9)]) == [4, 5]


def kernel(at: float, name: str, duration: float = 1.0) -> dict[str, object]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "ts": at,
        "dur": duration,
        "args": {"grid": [2, 1, 1]},
    }


def mark(at: float, what: str) -> dict[str, object]:
    return {
        "ph": "X",
        "cat": "gpu_memcpy",
        "name": "Memcpy DtoD (Device -> Device)",
        "ts": at,
        "dur": 1.0,
        "args": {"bytes": MARK_BYTES + MARKS.index(what)},
    }


def step_at(at: float) -> list[dict[str, object]]:
    """A step whose head is computed within its forward method, and whose draft within its sampling."""
    return [
        mark(at, "step"),
        kernel(at + 2, "layers"),
        mark(at + 4, "head"),
        kernel(at + 6, "product"),
        mark(at + 8, "forward"),
        kernel(at + 10, "after the head"),
        mark(at + 12, "between"),
        mark(at + 14, "sampling"),
        kernel(at + 16, "argmax"),
        mark(at + 18, "drafting"),
        kernel(at + 20, "draft"),
        mark(at + 22, "sampling"),
        mark(at + 24, "between"),
        kernel(at + 26, "copy"),
    ]


def test_marks_of_the_stream_tell_which_part_of_a_step_queued_a_kernel() -> None:
    events = [event for number in range(3) for event in step_at(100.0 * number)]
    trace = trace_of([*events, {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 900}])
    steps = steps_of(trace)
    assert len(steps) == 2, "the last step may have been cut"
    assert [(each.name, each.region) for each in steps[1]] == [
        ("layers", Region.FORWARD),
        ("product", Region.HEAD),
        ("after the head", Region.FORWARD),
        ("argmax", Region.SAMPLING),
        ("draft", Region.DRAFTING),
        ("copy", Region.BETWEEN),
    ]
    assert (steps[1][0].start_us, steps[1][0].own_us, steps[1][0].grid) == (2.0, 1.0, (2, 1, 1))


def test_a_copy_of_other_bytes_is_no_mark() -> None:
    other = mark(0, "step") | {"args": {"bytes": MARK_BYTES - 1}}
    to_host = mark(0, "step") | {"name": "Memcpy DtoH (Device -> Pageable)"}
    trace = trace_of([other, to_host])
    assert (len(trace["rows"]), trace["marks"]) == (2, [])
    assert steps_of(trace) == []


def test_where_no_kernel_is_recorded_operators_and_named_ranges_stand_for_them() -> None:
    def event(kind: str, name: str, at: float) -> dict[str, object]:
        return {"ph": "X", "cat": kind, "name": name, "ts": at, "dur": 1.0}

    events = []
    for at in (0.0, 10.0):
        events += [
            event("user_annotation", "autoinfer:step", at),
            event("cpu_op", "aten::mm", at + 1),
            event("user_annotation", "execute_0_context_1", at),
        ]
    assert [[each.name for each in step] for step in steps_of(trace_of(events))] == [["aten::mm"]]


def test_steps_that_give_no_token_and_the_earlier_half_are_left_out() -> None:
    events = [event for number in range(5) for event in step_at(100.0 * number)]
    empty = [mark(450, "step"), kernel(452, "nothing to do"), mark(460, "step")]
    steps = steps_of(trace_of([*events, *empty]))
    assert len(steps) == 6
    assert settled(steps) == steps[2:5]
