"""Tokens that wait for the processor are told by their requests' first tokens, which wait for it too."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from db.models import Launch, Measurement, StageRun
from db.states import Arm, VerdictOutcome
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.measured.slow_processor import first_and_later, slow_processor
from knowledge.queries.measured.step_profile import StepProfileView, profile_view
from tests.history.campaign_history import History

Requests = list[tuple[float, float]]


def a_prompt(outside_share: float = 0.7) -> StepProfileView:
    return profile_view({"parts": prompt_parts(outside_share), "concurrency": 1, "prompt_tokens": 512})


def prompt_parts(outside_share: float) -> list[dict[str, object]]:
    return [
        {"part": "gate_up_proj", "kind": "gemm", "time_ms": 50 * (1 - outside_share), "launches": 1},
        {"part": "outside", "kind": "outside", "time_ms": 50 * outside_share, "launches": 0},
    ]


def asked(token_ms: Callable[[float, random.Random], float], count: int = 40) -> Requests:
    """Requests under a processor that is up to 1.6 times as slow at one time as at another."""
    draw = random.Random(7)
    slowness = [draw.uniform(1.0, 1.6) for _ in range(count)]
    return [(50 * slow * draw.uniform(0.95, 1.05), token_ms(slow, draw)) for slow in slowness]


def waiting(slow: float, draw: random.Random) -> float:
    """A step of 2.7 ms of kernels for which the processor needs 2.3 to 3.7."""
    return max(2.7, 2.3 * slow) * draw.uniform(0.99, 1.01)


def test_tokens_that_are_slow_where_the_first_one_was_are_said_to_wait_for_the_processor() -> None:
    told = slow_processor(asked(waiting), a_prompt())
    assert told is not None
    assert told.startswith(
        "Of 40 requests those with a late first token had slow tokens too (rank correlation 0.9"
    )
    assert "both wait for the processor" in told


@pytest.mark.parametrize(
    ("requests", "prompt"),
    [
        pytest.param(asked(waiting), None, id="no prompt was profiled"),
        pytest.param(asked(waiting), a_prompt(0.3), id="kernels run most of the time to the first token"),
        pytest.param(asked(waiting, 19), a_prompt(), id="too few"),
        pytest.param(
            asked(lambda slow, draw: 3.0 * draw.uniform(0.8, 1.2)), a_prompt(), id="each for itself"
        ),
        pytest.param(asked(lambda slow, draw: 5.0 - slow), a_prompt(), id="the other way round"),
        pytest.param(asked(lambda slow, draw: 5.0 + slow / 50), a_prompt(), id="by hardly anything"),
        pytest.param([(50.0, 3.0)] * 40, a_prompt(), id="all alike"),
    ],
)
def test_all_else_says_nothing_of_it(requests: Requests, prompt: StepProfileView | None) -> None:
    assert slow_processor(requests, prompt) is None


def test_one_request_that_was_slow_throughout_does_not_speak_for_all() -> None:
    requests = asked(lambda slow, draw: 3.0 * draw.uniform(0.9, 1.1))
    assert slow_processor([*requests, (5000.0, 300.0)], a_prompt()) is None


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    yield found
    found.close()


def measured(history: History) -> int:
    """A test whose candidate's 20 requests waited for the processor, and whose control's did not."""
    judged = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED, samples=20)
    steps = [
        {"part": "gemm", "kind": "gemm", "time_ms": 0.1, "launches": 1},
        {"part": "outside", "kind": "outside", "time_ms": 0.1, "launches": 0},
    ]
    detail = {"parts": steps, "concurrency": 1, "prompt": {"parts": prompt_parts(0.7), "concurrency": 1}}
    with history.database.write() as session:
        launches = session.scalars(select(Launch).where(Launch.experiment_id == judged.experiment_id)).all()
        for launch in launches:
            tokens = session.scalars(
                select(Measurement).where(Measurement.launch_id == launch.id, Measurement.metric == "tpot_ms")
            ).all()
            for place, token in enumerate(tokens):
                slow = 1 + place / 20
                token.item, token.value = (
                    f"prompt {place}",
                    3.0 * slow if launch.arm is Arm.CANDIDATE else 5.0,
                )
                session.add(
                    Measurement(
                        launch_id=launch.id,
                        block=token.block,
                        position=token.position,
                        item=token.item,
                        seq=token.seq,
                        metric="ttft_ms",
                        unit="ms",
                        value=60.0 * slow,
                    )
                )
        session.add(
            StageRun(
                experiment_id=judged.experiment_id,
                attempt=1,
                stage="profile",
                started_at=launches[0].started_at,
                wall_s=1.0,
                outcome="done",
                detail=detail,
            )
        )
    return judged.experiment_id


def test_requests_are_put_together_by_launch_and_prompt(history: History) -> None:
    number = measured(history)
    with history.database.read() as session:
        found = first_and_later(session, number, Arm.CANDIDATE)
        assert first_and_later(session, number, Arm.CANDIDATE, "no such stage") == ()
        assert {later for _, later in first_and_later(session, number, Arm.CONTROL)} == {5.0}
    assert len(found) == 20
    assert all(first / later == pytest.approx(20) for first, later in found)


def test_an_experiment_says_it_behind_what_a_token_took(history: History) -> None:
    number = measured(history)
    with history.database.read() as session:
        profile = experiment_detail(session, number).profile
    assert profile is not None
    assert profile.served is not None
    assert "a token took" in profile.served
    assert "Of 20 requests those with a late first token had slow tokens too" in profile.served
