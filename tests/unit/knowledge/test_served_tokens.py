"""Beside a profiled step stands what a token took where it was served."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from db.states import Arm
from knowledge.queries.measured.launches_once import LaunchView
from knowledge.queries.measured.served_tokens import served_tokens
from knowledge.queries.measured.spread import spread
from knowledge.queries.measured.step_profile import StepProfileView, profile_view

STEP_MS = 4.0


def a_step(
    concurrency: int = 1, prompt_tokens: int | None = None, outside_ms: float = 0.0, outside: str = "outside"
) -> StepProfileView:
    parts = [
        {"part": "step", "kind": "small", "time_ms": STEP_MS - outside_ms, "launches": 1},
        {"part": outside, "kind": outside, "time_ms": outside_ms, "launches": 0},
    ]
    return profile_view({"parts": parts, "concurrency": concurrency, "prompt_tokens": prompt_tokens})


def launched(*tpot_ms: float, arm: Arm = Arm.CANDIDATE, stage: str = "full") -> LaunchView:
    """A launch with these times a token, and times to the first one that are none of them."""
    spreads = [spread("tpot_ms", "ms", tpot_ms)] if tpot_ms else []
    return LaunchView(
        arm=arm,
        index=0,
        stage=stage,
        attempt=1,
        configuration="a",
        load_s=1.0,
        started_at=datetime(2026, 11, 30, tzinfo=UTC),
        environment="e",
        spreads=(*spreads, spread("ttft_ms", "ms", (70.0,))),
    )


def plan(concurrency: int = 1, asked_over: str = "http") -> dict[str, object]:
    return {"workload": {"concurrency": concurrency, "asked_over": asked_over}}


def test_the_difference_to_the_step_is_told_with_the_launches_it_rests_on() -> None:
    launches = [launched(4.2, 4.4, 4.6), launched(5.0), launched(9.0, arm=Arm.CONTROL)]
    assert served_tokens(a_step(), launches, plan(), drafts=False) == (
        "Served over HTTP a token took 4.70 ms (median of 2 launches, 4.40 to 5.00), 0.70 more than this "
        "step (18 %): the server, requests that were slower, or a processor that had not the next step "
        "ready."
    )


@pytest.mark.parametrize("tpot_ms", [3.97, 4.0, 4.03])
def test_a_token_that_takes_as_long_as_the_step_says_that_the_processor_keeps_up(tpot_ms: float) -> None:
    told = served_tokens(a_step(), [launched(tpot_ms)], plan(), drafts=False)
    assert told == (
        f"Served over HTTP a token took {tpot_ms:.2f} ms (one launch), as long as this step: what the "
        "processor does meanwhile takes no longer."
    )


@pytest.mark.parametrize(
    ("tpot_ms", "compared"), [(4.0, "as long as this step"), (5.0, "1.00 more than this step (25 %)")]
)
def test_within_the_engine_there_is_no_server_to_name(tpot_ms: float, compared: str) -> None:
    told = served_tokens(a_step(), [launched(tpot_ms)], plan(asked_over="engine"), drafts=False)
    assert told == f"Served a token took {tpot_ms:.2f} ms (one launch), {compared}."


def test_a_token_that_takes_less_is_told_without_a_cause() -> None:
    told = served_tokens(a_step(), [launched(3.5)], plan(), drafts=False)
    assert told == "Served over HTTP a token took 3.50 ms (one launch), 0.50 less than this step."


def test_a_step_that_was_profiled_while_the_processor_was_slow_says_so() -> None:
    told = served_tokens(a_step(outside_ms=0.6), [launched(3.5)], plan(), drafts=False)
    assert told == (
        "Served over HTTP a token took 3.50 ms (one launch), 0.50 less than this step, of which kernels take "
        "3.40: the GPU waited longer for the processor as it was profiled than as tokens were served."
    )


def test_a_token_for_which_its_kernels_would_be_too_long_is_told_without_a_cause() -> None:
    told = served_tokens(a_step(outside_ms=0.1), [launched(3.5)], plan(), drafts=False)
    assert told == "Served over HTTP a token took 3.50 ms (one launch), 0.50 less than this step."


def test_what_lies_outside_the_parts_of_an_engine_on_a_processor_is_no_waiting_of_a_gpu() -> None:
    told = served_tokens(a_step(outside_ms=0.6, outside="rest"), [launched(3.5)], plan(), drafts=False)
    assert told == "Served over HTTP a token took 3.50 ms (one launch), 0.50 less than this step."


def test_of_a_baseline_its_fresh_launches_alone_are_taken_for_the_sweep_had_others() -> None:
    launches = [launched(9.0, arm=Arm.CONTROL, stage="sweep"), launched(4.5, arm=Arm.CONTROL, stage="noise")]
    told = served_tokens(a_step(), launches, plan(), drafts=False)
    assert told is not None
    assert "took 4.50 ms (one launch)" in told


@pytest.mark.parametrize(
    ("step", "launches", "asked", "drafts"),
    [
        (a_step(), [launched(4.5)], plan(), True),
        (a_step(), [launched()], plan(), False),
        (a_step(), [], plan(), False),
        (a_step(concurrency=4), [launched(4.5)], plan(), False),
        (a_step(concurrency=4), [launched(4.5)], plan(4), False),
        (a_step(prompt_tokens=512), [launched(4.5)], plan(), False),
        (a_step(), [launched(4.5)], {}, False),
    ],
    ids=[
        "drafts",
        "nothing timed",
        "no launch",
        "other concurrency",
        "several at once",
        "a prompt",
        "no workload",
    ],
)
def test_where_the_two_can_not_be_compared_nothing_is_said(
    step: StepProfileView, launches: list[LaunchView], asked: dict[str, object], drafts: bool
) -> None:
    assert served_tokens(step, launches, asked, drafts=drafts) is None
