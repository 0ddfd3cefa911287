"""A block in which the GPU throttled is run again, at most twice, and it is told; on a CPU nothing changes.

The engine is the simulated one and the readings are invented: what is tried is the rule.
"""

from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

import pytest

from experiments.engines.port import GenerationTrace
from experiments.job.result import JobResult
from experiments.job.watched_block import COOLING_S, REPEATS_MAX, WatchedBlocks, throttling_told
from experiments.measurement.evidence import Json, Metric, Stage
from experiments.measurement.judging import MeasurePair
from experiments.recording import record_result
from experiments.space.configuration import Configuration
from experiments.telemetry.watching import GpuReading, GpuWatch
from knowledge.queries.facts import campaign_facts
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History
from tests.integration.job.running import Run, run
from tests.simulated.specs import WORKLOAD, a_test_job

__all__ = ["run"]

HEAT, POWER_LIMIT, BOTH = 0x40, 0x4, 0x44
ONE_REQUEST = [GenerationTrace((1, 2), (0.1, 0.2))]

PLAIN = Configuration.of({})


def watches(bits: Iterator[int]) -> Callable[[], GpuWatch]:
    """Watches of a GPU that throttles in one block after the other by these reasons."""

    def make() -> GpuWatch:
        reasons, moments = next(bits), iter(((0.0, 1980), (2.0, 1700)))

        def read() -> GpuReading:
            at_s, sm_mhz = next(moments)
            return GpuReading(at_s, sm_mhz, 3201, 400.0, 70, None, reasons)

        return GpuWatch(read, 3600)

    return make


def told_of(*bits: int, blocks: WatchedBlocks | None = None) -> tuple[dict[str, Json], list[float], int]:
    """What is told of one block (of a launch of its own if none is given), the pauses, how often it ran."""
    waited: list[float] = []
    served = 0

    def serve() -> list[GenerationTrace]:
        nonlocal served
        served += 1
        return ONE_REQUEST

    _, told = (blocks or WatchedBlocks(PLAIN)).run(serve, watches(iter(bits)), waited.append)
    return told, waited, served


def test_an_undisturbed_block_is_run_once() -> None:
    told, waited, served = told_of(0)
    assert (told["repeated"], waited, served) == ([], [], 1)
    assert throttling_told(told) is None
    assert told["energy_j_per_output_token"] == 400.0


def test_a_throttled_block_is_repeated_after_a_pause_and_what_it_replaces_is_kept() -> None:
    told, waited, served = told_of(HEAT, 0)
    assert (told["throttled"], waited, served) == (None, [COOLING_S], 2)
    assert [each["throttled"] for each in told["repeated"]] == ["heat, by the hardware"]  # type: ignore[index, union-attr]
    assert throttling_told(told) == "repeated once, for the GPU throttled (heat, by the hardware)"


def test_a_gpu_that_goes_on_throttling_ends_the_repetitions_and_that_is_said() -> None:
    told, waited, served = told_of(*[HEAT] * 9)
    assert (len(waited), served) == (REPEATS_MAX, REPEATS_MAX + 1)
    assert told["throttled"] == "heat, by the hardware"
    assert throttling_told(told) == (
        "the GPU throttled (heat, by the hardware) in each of 3 attempts; the last one counts"
    )


def test_a_power_limit_that_holds_down_once_more_is_how_the_gpu_runs_the_load() -> None:
    launch = WatchedBlocks(PLAIN)
    told, waited, served = told_of(*[POWER_LIMIT] * 9, blocks=launch)
    assert (told["throttled"], waited, served) == ("power cap: 1980 to 1700 MHz", [COOLING_S], 2)
    assert throttling_told(told) == (
        "the GPU throttled (power cap: 1980 to 1700 MHz) in each of 2 attempts; the last one counts"
    )
    told, waited, served = told_of(POWER_LIMIT, blocks=launch)
    assert (told["throttled"], told["repeated"], served) == ("power cap: 1980 to 1700 MHz", [], 1)
    assert throttling_told(told) is None
    assert told_of(BOTH, 0, blocks=launch)[2] == 2, "heat is a disturbance all the same"
    assert told_of(*[POWER_LIMIT] * 9)[2] == 2, "of another launch nothing is known yet"


def test_a_power_limit_once_or_beside_heat_is_a_disturbance() -> None:
    launch = WatchedBlocks(PLAIN)
    assert told_of(POWER_LIMIT, 0, blocks=launch)[2] == 2
    assert told_of(POWER_LIMIT, BOTH, 0, blocks=launch)[2] == 3
    assert told_of(BOTH, POWER_LIMIT, 0, blocks=launch)[2] == 3


def during(result: JobResult) -> list[Json]:
    blocks = [each for launch in result.launches for each in launch.environment["blocks"]]  # type: ignore[union-attr]
    return [each.get("during") for each in blocks]  # type: ignore[union-attr]


def test_a_job_on_a_gpu_keeps_with_each_block_what_the_gpu_did(run: Run) -> None:
    quiet = iter([0, HEAT, *[0] * 20])
    waited: list[float] = []
    pair = [MeasurePair(Stage.QUICK, 2)]
    result = run(a_test_job(), pair, gpu_watch=watches(quiet), wait=waited.append)
    gpus = [each["gpu"] for each in during(result)]  # type: ignore[index, call-overload]
    assert [gpu["power_w"] for gpu in gpus] == [400.0] * 4  # type: ignore[index, call-overload]
    assert sorted(len(gpu["repeated"]) for gpu in gpus) == [0, 0, 0, 1]  # type: ignore[index, call-overload, arg-type]
    assert waited == [COOLING_S]
    for launch in result.launches:
        assert len(launch.values(Metric.TPOT_MS)) == 2 * WORKLOAD.prompts_per_block


def test_a_job_on_a_cpu_tells_nothing_of_a_gpu(run: Run) -> None:
    assert during(run(a_test_job())) == [None] * 4


def test_a_campaign_stored_from_a_gpu_that_throttles_every_time_says_so_in_its_summary(
    run: Run, tmp_path: Path
) -> None:
    result = run(
        a_test_job(),
        [MeasurePair(Stage.QUICK, 2)],
        gpu_watch=watches(repeat(HEAT)),
        wait=lambda seconds: None,
    )
    history = History(tmp_path / "history")
    try:
        experiment_id = history.start_testing(history.propose({"serving.threads": 1}))
        with history.database.write() as session:
            record_result(session, experiment_id, 1, a_test_job(), result)
        with history.database.read() as session:
            part = summarize(campaign_facts(session, history.campaign_id)).held_down
    finally:
        history.close()
    assert part is not None
    assert part.sentence.startswith(
        "The GPU was held down by heat in 4 of 4 timed blocks, even after pauses (up to 70 °C, a block's "
        "median SM clock down to 1,840 MHz): E-0001."
    )


@pytest.mark.parametrize("gpu", [None, "?", {}])
def test_nothing_is_said_where_nothing_is_known(gpu: Json) -> None:
    assert throttling_told(gpu) is None


def test_where_prefixes_are_kept_nothing_is_sent_again() -> None:
    kept = WatchedBlocks(Configuration.of({"serving.prefix_caching": "on"}))
    told, waited, served = told_of(HEAT, blocks=kept)
    assert (waited, served) == ([], 1)
    assert told["throttled"] is not None
    assert told["repeated"] == []
