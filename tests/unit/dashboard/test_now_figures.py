"""What the figures on Now are made of: the steps to the best, the floor, what lies above it, stages done."""

import pytest

from db.states import ExperimentKind
from knowledge.queries.measured.step_profile import PART_WORDS, StepProfileView, profile_view
from knowledge.queries.present.now_best import Told, Trial, steps_of
from knowledge.queries.present.now_floor import FloorView, Part, best_floor_of, floor_of, overhead_of
from knowledge.queries.present.now_prompt import (
    ABOVE_FLOOR,
    ABOVE_OR_WITHOUT,
    BEYOND_PROFILE,
    prompt_floor_of,
    prompt_overhead_of,
)
from knowledge.queries.present.now_run import steps_of as run_steps_of


def test_the_steps_add_up_however_many_there_are() -> None:
    told = [Told(experiment=f"E-{n:04}", speedup=1 + n / 10, data={}) for n in range(1, 21)]
    plain = Trial(
        hypothesis="H-001",
        claim="It is.",
        change=(),
        control_id=1,
        effect=None,
        pairs=3,
        quality={},
        acceptance_length=None,
    )
    steps = steps_of(told, {each.experiment: plain for each in told}, 1, 30.0, 10.0)
    assert steps[0].earlier == 14
    assert steps[0].experiment is None
    assert steps[-1].together
    assert sum(step.won_ms for step in steps) == pytest.approx(20.0)


def test_the_floor_is_bytes_over_bandwidth_and_parts_fill_what_lies_above_it() -> None:
    profile = [
        Part(kind="gdn", time_ms=6.0, moved_bytes=10_000_000),
        Part(kind="rest", time_ms=2.0, moved_bytes=0),
        Part(kind="lm_head", time_ms=0.1, moved_bytes=10_000_000),  # faster than its bytes: from a cache
    ]
    floor = floor_of(profile, 20e9)
    assert floor is not None
    assert floor.ms == pytest.approx(1.0)
    parts = overhead_of(profile, floor, 9.0)
    assert [part.part for part in parts] == ["GatedDeltaNet layers", "outside the parts: Python, dispatch"]
    assert sum(part.ms for part in parts) == pytest.approx(8.0)
    assert floor_of(profile, None) is None
    assert overhead_of(profile, None, 9.0) == ()


GPU_STEP = [
    Part(kind="gemm", time_ms=1.8, moved_bytes=3_600_000_000),
    Part(kind="small", time_ms=0.9, moved_bytes=0),
    Part(kind="outside", time_ms=0.9, moved_bytes=0),
]


@pytest.mark.parametrize(
    ("token_ms", "outside_ms", "small_ms"),
    [
        pytest.param(3.0, 0.3, 0.9, id="the processor was slower as the step was profiled"),
        pytest.param(2.7, 0.0, 0.9, id="kernels alone"),
        pytest.param(3.6, 0.9, 0.9, id="as long as the step"),
        pytest.param(2.4, 0.0, 0.8, id="recording slowed the kernels, which are the whole token"),
    ],
)
def test_a_token_that_takes_less_than_its_profiled_step_waited_less_outside_kernels(
    token_ms: float, outside_ms: float, small_ms: float
) -> None:
    floor = floor_of(GPU_STEP, 4e12)
    told = {each.part: each.ms for each in overhead_of(GPU_STEP, floor, token_ms)}
    assert told.get(PART_WORDS["outside"], 0.0) == pytest.approx(outside_ms)
    assert told[PART_WORDS["small"]] == pytest.approx(small_ms)
    assert floor is not None
    assert sum(told.values()) == pytest.approx(token_ms - floor.ms)


def test_of_a_step_that_gives_several_tokens_all_parts_are_shares() -> None:
    floor = FloorView(ms=0.6, step_bytes=3_600_000_000, bandwidth_bytes_per_s=4e12, tokens=1.5)
    told = {each.part: each.ms for each in overhead_of(GPU_STEP, floor, 2.4)}
    assert told == {
        PART_WORDS["gemm"]: pytest.approx(0.6),
        PART_WORDS["small"]: pytest.approx(0.6),
        PART_WORDS["outside"]: pytest.approx(0.6),
    }


def test_drafting_shares_the_bytes_of_a_step_among_its_tokens() -> None:
    floor = FloorView(ms=1.0, step_bytes=20_000_000, bandwidth_bytes_per_s=20e9, tokens=1.0)
    drafting = {"method": "mtp", "draft_tokens": 2, "drafter": {"weight_bytes": 2_000_000}}
    best = best_floor_of(floor, {"weight_bytes": 20}, {"weight_bytes": 20, "drafting": drafting}, 1.5)
    assert best is not None
    assert best.ms == pytest.approx(24 / 20 / 1.5)
    halved = best_floor_of(floor, {"weight_bytes": 20}, {"weight_bytes": 10}, None)
    assert halved is not None
    assert halved.ms == pytest.approx(0.5)
    assert (
        best_floor_of(floor, {"weight_bytes": 20}, {"weight_bytes": 20, "drafting": drafting}, None) is None
    )
    assert best_floor_of(floor, {}, {"weight_bytes": 20}, None) is None


def test_quality_looked_at_first_does_not_make_the_quick_look_done() -> None:
    steps = run_steps_of(ExperimentKind.TEST, {"prune", "evaluate"}, "evaluate")
    assert [step.name for step in steps if step.done] == ["Check"]
    assert [step.name for step in steps if step.now] == ["Quality"]
    assert run_steps_of(ExperimentKind.TEST, (), None)[0].now


def prompt(outside_ms: float = 40.0, rate: float | None = 1e15) -> StepProfileView:
    """A lone prompt: a floor of 5.0 ms, 3.6 ms of kernels above it, and what lies outside kernels."""
    parts = [
        {"part": "down_proj", "kind": "gemm", "time_ms": 8.0, "weight_bytes": 3e9, "operations": 5e12},
        {"part": "small", "kind": "small", "time_ms": 0.6, "weight_bytes": 0},
        {"part": "outside", "kind": "outside", "time_ms": outside_ms, "weight_bytes": 0},
    ]
    told = {"bandwidth_bytes_per_s": 4e12, "operations_per_s": rate, "prompt_tokens": 512}
    return profile_view({"parts": parts, **told})


def test_a_first_token_is_its_floor_kernels_above_it_what_is_outside_and_what_the_profile_lacks() -> None:
    floor = prompt_floor_of(prompt())
    assert floor is not None
    assert (floor.ms, floor.profiled_ms, floor.prompt_tokens) == (5.0, pytest.approx(48.6), 512)
    above = prompt_overhead_of(prompt(), floor, 60.0)
    assert [each.part for each in above] == [ABOVE_OR_WITHOUT, PART_WORDS["outside"], BEYOND_PROFILE]
    assert [each.ms for each in above] == pytest.approx([3.6, 40.0, 11.4])


def test_kernels_are_all_above_their_floor_only_where_the_work_of_each_is_counted() -> None:
    some = prompt()
    all_counted = some.model_copy(update={"parts": tuple(row for row in some.parts if row.counted)})
    assert len(all_counted.parts) == 2
    floor = prompt_floor_of(all_counted)
    assert prompt_overhead_of(all_counted, floor, 60.0)[0].part == ABOVE_FLOOR
    assert prompt_overhead_of(some, floor, 60.0)[0].part == ABOVE_OR_WITHOUT
    assert "or without" in ABOVE_OR_WITHOUT


def test_a_prompt_that_took_longer_while_it_was_profiled_shares_the_measured_time() -> None:
    floor = prompt_floor_of(prompt())
    above = prompt_overhead_of(prompt(), floor, 26.8)
    assert [each.ms for each in above] == pytest.approx([1.8, 20.0, 0.0])
    assert prompt_overhead_of(prompt(), floor, 4.9) == (), "below its floor nothing lies above it"


def test_kernels_that_beat_their_floor_leave_all_above_it_to_what_is_outside() -> None:
    """Parts at 102 % of the floor by a measured rate were seen."""
    profile = prompt(rate=0.5e15)
    floor = prompt_floor_of(profile)
    assert floor is not None
    assert floor.ms == 10.0
    assert [each.ms for each in prompt_overhead_of(profile, floor, 55.0)] == pytest.approx([0.0, 40.0, 5.0])


def test_a_prompt_without_a_bandwidth_has_no_floor() -> None:
    none = prompt().model_copy(update={"bandwidth_bytes_per_s": None, "floor_ms": None})
    assert prompt_floor_of(none) is None
    assert prompt_overhead_of(none, None, 60.0) == ()
