"""A plan's concurrency is what launches are asked for, in warm-up and blocks; throughput is that of all."""

from collections.abc import Sequence

import pytest

from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.measurement.evidence import ALL_REQUESTS, Metric
from tests.integration.job.running import Run, items, run
from tests.simulated.engine import SimulatedLaunch
from tests.simulated.specs import PLAN, WORKLOAD, a_test_job

__all__ = ["run"]

AT_ONCE = 4


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Number of requests and concurrency of each call."""
    found: list[tuple[int, int]] = []
    serve = SimulatedLaunch.serve

    def noted(
        self: SimulatedLaunch, requests: Sequence[GenerationRequest], concurrency: int
    ) -> list[GenerationTrace]:
        found.append((len(requests), concurrency))
        return serve(self, requests, concurrency)

    monkeypatch.setattr(SimulatedLaunch, "serve", noted)
    return found


def job(**workload: int):
    plan = PLAN.model_copy(update={"workload": WORKLOAD.model_copy(update=workload)})
    return a_test_job(plan=plan.model_dump(mode="json"))


def test_blocks_and_warm_up_have_as_many_requests_as_are_at_once_at_least(run: Run, asked):
    run(job(concurrency=AT_ONCE))
    assert asked == [(AT_ONCE, AT_ONCE)] * (2 + 4)


def test_more_requests_than_are_at_once_are_sent_as_asked_for(run: Run, asked):
    run(job(concurrency=AT_ONCE, prompts_per_block=10, warmup_requests=6))
    assert asked == [(6, AT_ONCE)] * 2 + [(10, AT_ONCE)] * 4


def test_throughput_is_of_a_block_and_higher_with_more_at_once(run: Run):
    rates = {}
    for at_once in (1, AT_ONCE):
        launch = run(job(concurrency=at_once, prompts_per_block=8)).launches[0]
        assert items(launch, Metric.OUTPUT_TOKENS_PER_S) == {ALL_REQUESTS}
        rates[at_once] = launch.values(Metric.OUTPUT_TOKENS_PER_S)
        assert len(rates[at_once]) == len(launch.values(Metric.REQUESTS_PER_S)) == 2
    assert rates[AT_ONCE][0] / rates[1][0] == pytest.approx(AT_ONCE, rel=0.1)
