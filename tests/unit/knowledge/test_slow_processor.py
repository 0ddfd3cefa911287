"""Tokens that wait for the processor are told by their requests' first tokens, which wait for it too."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from db.models import Launch, Measurement, StageRun
from db.states import Arm, VerdictOutcome
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.measured.slow_processor import (
    Request,
    correlation_within,
    requests_by_launch,
    slow_processor,
)
from knowledge.queries.measured.step_profile import StepProfileView, profile_view
from tests.history.campaign_history import History

Requests = list[Request]

STEP = profile_view(
    {
        "parts": [
            {"part": "gemm", "kind": "gemm", "time_ms": 2.7, "launches": 1},
            {"part": "outside", "kind": "outside", "time_ms": 0.4, "launches": 0},
        ],
        "concurrency": 1,
    }
)


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


def launches(requests: Requests) -> list[Requests]:
    """The requests as those of two launches."""
    half = len(requests) // 2
    return [requests[:half], requests[half:]]


def waiting(slow: float, draw: random.Random) -> float:
    """A step of 2.7 ms of kernels for which the processor needs 2.3 to 3.7."""
    return max(2.7, 2.3 * slow) * draw.uniform(0.99, 1.01)


def test_tokens_that_are_slow_where_the_first_one_was_are_said_to_wait_for_the_processor() -> None:
    told = slow_processor(launches(asked(waiting)), STEP, a_prompt())
    assert told is not None
    assert told.startswith(
        "Of 40 requests those with a late first token had slow tokens too (rank correlation 0.9"
    )
    assert "within launches" in told
    assert "it is probably the processor that was slow at one time and fast at another" in told


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
        pytest.param(
            [(50.0, tokens) for _, tokens in asked(waiting)], a_prompt(), id="first tokens all alike"
        ),
        pytest.param(
            [(first, 0.7 * tokens) for first, tokens in asked(waiting)],
            a_prompt(),
            id="no slower than its kernels, as when the GPU's clock varies",
        ),
    ],
)
def test_all_else_says_nothing_of_it(requests: Requests, prompt: StepProfileView | None) -> None:
    assert slow_processor(launches(requests), STEP, prompt) is None


def test_launches_that_differ_by_themselves_say_nothing_of_requests() -> None:
    draw = random.Random(3)
    apart = [
        [(50 * slow * draw.uniform(0.97, 1.03), 3 * slow * draw.uniform(0.97, 1.03)) for _ in range(10)]
        for slow in (1.0, 1.2, 1.4, 1.6)
    ]
    assert correlation_within([[each for launch in apart for each in launch]])[0] > 0.8
    assert slow_processor(apart, STEP, a_prompt()) is None


@pytest.mark.parametrize(("noise", "told"), [(0.25, True), (0.8, False)])
def test_the_correlation_must_be_above_its_limit_by_its_interval(noise: float, told: bool) -> None:
    requests = [
        (50 * slow, 3.0 * slow * draw)
        for slow, draw in ((1 + n / 40, 1 + noise * random.Random(n).uniform(-0.5, 0.5)) for n in range(40))
    ]
    found, _ = correlation_within([requests])
    assert 0.3 < found < 0.95
    assert (slow_processor([requests], STEP, a_prompt()) is not None) is told


def test_equal_values_share_their_places_and_one_launch_of_two_is_no_ground() -> None:
    assert correlation_within([[(1.0, 2.0), (1.0, 3.0), (2.0, 3.0)]])[0] == pytest.approx(0.5)
    assert correlation_within([[(1.0, 2.0), (2.0, 1.0)]]) == (pytest.approx(-1.0), -1)
    assert correlation_within([]) == (0.0, -2)


def test_one_request_that_was_slow_throughout_does_not_speak_for_all() -> None:
    requests = asked(lambda slow, draw: 3.0 * draw.uniform(0.9, 1.1))
    assert slow_processor(launches([*requests, (5000.0, 300.0)]), STEP, a_prompt()) is None


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    found = History(tmp_path)
    yield found
    found.close()


def measured(history: History) -> int:
    """A test whose candidate's 20 requests waited for the processor, and whose control's did not. A launch of
    another workload has the same names of requests and other times."""
    judged = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED, samples=20)
    number = judged.experiment_id
    steps = [
        {"part": "gemm", "kind": "gemm", "time_ms": 2.7, "launches": 1},
        {"part": "outside", "kind": "outside", "time_ms": 0.1, "launches": 0},
    ]
    detail = {"parts": steps, "concurrency": 1, "prompt": {"parts": prompt_parts(0.7), "concurrency": 1}}
    with history.database.write() as session:
        found = session.scalars(select(Launch).where(Launch.experiment_id == number)).all()
        for launch in found:
            session.execute(delete(Measurement).where(Measurement.launch_id == launch.id))
            for place in range(20):
                slow = 1 + place / 20
                token_ms = 3.0 * slow if launch.arm is Arm.CANDIDATE else 5.0
                add_request(session, launch.id, place, 60.0 * slow, token_ms)
        candidate = next(launch for launch in found if launch.arm is Arm.CANDIDATE)
        columns = {
            each.name: getattr(candidate, each.name) for each in Launch.__table__.columns if each.name != "id"
        }
        further = Launch(**{**columns, "stage": "further"})
        session.add(further)
        session.flush()
        for place in range(64):
            add_request(session, further.id, place, 60.0 + place % 7, 9.0 + place % 5)
        add_request(session, candidate.id, 20, 60.0, 0.0)
        session.add(
            StageRun(
                experiment_id=number,
                attempt=1,
                stage="profile",
                started_at=candidate.started_at,
                wall_s=1.0,
                outcome="done",
                detail=detail,
            )
        )
    return number


def add_request(session: Session, launch_id: int, place: int, first_ms: float, token_ms: float) -> None:
    for metric, value in (("ttft_ms", first_ms), ("tpot_ms", token_ms)):
        session.add(
            Measurement(
                launch_id=launch_id,
                block=0,
                position=0,
                item=f"prompt {place}",
                seq=place,
                metric=metric,
                unit="ms",
                value=value,
            )
        )


def test_requests_of_the_campaign_s_own_workload_are_put_together_by_launch(history: History) -> None:
    number = measured(history)
    with history.database.read() as session:
        [found] = requests_by_launch(session, number, Arm.CANDIDATE)
        assert requests_by_launch(session, number, Arm.CANDIDATE, "no such stage") == ()
        [control] = requests_by_launch(session, number, Arm.CONTROL)
    assert {later for _, later in control} == {5.0}
    assert len(found) == 20, "what took no time is none"
    assert all(first / later == pytest.approx(20) for first, later in found)


def test_an_experiment_says_it_behind_what_a_token_took(history: History) -> None:
    number = measured(history)
    with history.database.read() as session:
        profile = experiment_detail(session, number).profile
    assert profile is not None
    assert profile.served is not None
    assert "a token took" in profile.served
    assert "Of 20 requests those with a late first token had slow tokens too" in profile.served
