"""How far launches of one configuration differ follows from each over the control of its own batch."""

from math import log, sqrt

import pytest

from agent.tables.aa import launch_noise, repeated, repeated_by_workload


def cell(number: int, batch: str, tpot_us: int) -> dict[str, object]:
    request = {"start_us": 0, "ttft_us": 10, "gaps_us": [tpot_us] * 3}
    names = {"load": f"load {number}", "control": "load 0", "number": number, "batch": batch}
    return {"kind": "cell", **names, "configuration": {"n": number}, "requests": [request]}


LINES = [
    cell(0, "a", 1000), cell(2, "a", 3000), cell(1, "a", 2000),
    cell(0, "b", 1100), cell(1, "b", 2200),
    cell(0, "c", 1000), cell(1, "c", 2200), cell(3, "lost", 1),
]  # fmt: skip


def test_a_machine_that_is_slower_in_a_batch_makes_no_noise_and_a_slower_launch_does() -> None:
    (load,) = repeated(LINES)
    assert load.configuration == {"n": 1}
    assert load.pairs == pytest.approx([0, log(2 / 2.2), log(2 / 2.2)])
    noise = launch_noise([load])
    assert (noise.loads, noise.median_share, noise.furthest_share) == pytest.approx((1, 0.1, 0.1))
    assert noise.launch_sd == pytest.approx(log(1.1) / sqrt(3))


def test_the_spread_is_pooled_over_loads() -> None:
    load = repeated(LINES)[0]
    steady = repeated([*LINES[:1], *LINES[2:5]])[0]
    noise = launch_noise([load, steady])
    assert noise.launch_sd == pytest.approx(launch_noise([load]).launch_sd / sqrt(2))
    assert noise.loads == 2
    assert noise.median_share == pytest.approx((0 + 0.1) / 2)


def test_without_a_second_launch_nothing_is_repeated() -> None:
    assert repeated(LINES[:3]) == ()


def served(load: str, launch: str, step_us: int, workload: str = "c1", **more: object) -> dict[str, object]:
    request = {"start_us": 0, "ttft_us": 10, "gaps_us": [step_us] * 3}
    told = {"load": load, "launch": launch, "workload": {"key": workload}, "requests": [request], **more}
    return {"kind": "cell", "configuration": {"n": load}, "identity": {"name": "card"}, **told}


def test_launches_of_a_load_are_compared_by_workload_and_on_one_kind_of_device() -> None:
    lines = [
        served("a", "1", 1000), served("a", "2", 1100), served("b", "3", 2000), served("b", "4", 2000),
        served("a", "1", 500, "c4"), served("b", "3", 500, "c4"), served("b", "5", 600, "c4"),
        served("a", "6", 9000, identity={"name": "another card"}),
        served("a", "7", 9000, same={"beside": "another loads"}),
    ]  # fmt: skip
    found = repeated_by_workload(lines)
    assert {workload: len(loads) for workload, loads in found.items()} == {"c1": 2, "c4": 1}
    noise = launch_noise(found["c1"])
    assert (noise.median_share, noise.furthest_share) == pytest.approx((0.05, 0.1))
    assert launch_noise(found["c4"]).furthest_share == pytest.approx(0.2)


def on(uuid: str | None, load: str, launch: str, step_us: int) -> dict[str, object]:
    return served(load, launch, step_us, identity={"name": "card", "uuid": uuid})


BEGIN: dict[str, object] = {"kind": "begin", "identity": {"name": "card"}}


def test_launches_of_two_runs_on_gpus_that_are_not_told_are_no_noise_of_a_launch() -> None:
    lines = [
        BEGIN, served("a", "1", 1000), served("a", "2", 1010),
        BEGIN, served("a", "3", 2000), served("b", "4", 1000),
        BEGIN, served("b", "5", 1500),
    ]  # fmt: skip
    (load,) = repeated_by_workload(lines)["c1"]
    assert load.differences == pytest.approx([0.01])
    assert launch_noise([load]).launch_sd == pytest.approx(log(1.01) / sqrt(2))
    first, second = repeated_by_workload(lines, together=False)["c1"]
    assert first.differences == pytest.approx([1, 2000 / 1010 - 1])
    assert second.differences == pytest.approx([0.5])


def test_launches_of_two_runs_on_one_gpu_are_of_the_same() -> None:
    lines = [BEGIN, on("GPU-1", "a", "1", 1000), BEGIN, on("GPU-1", "a", "2", 1100)]
    assert launch_noise(repeated_by_workload(lines)["c1"]).furthest_share == pytest.approx(0.1)
    assert repeated_by_workload(lines, together=False) == {}
    lines[-1] = on("GPU-2", "a", "2", 1100)
    assert repeated_by_workload(lines) == {}
    lines[1], lines[-1] = on(None, "a", "1", 1000), on(None, "a", "2", 1100)
    assert repeated_by_workload(lines) == {}


def test_two_cells_of_one_launch_are_no_second_launch() -> None:
    assert repeated_by_workload([served("a", "1", 1000), served("a", "1", 1200)]) == {}
