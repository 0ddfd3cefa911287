"""A grid is measured whole, however often the process that measures is killed; with the simulated engine."""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.tables.clock import Budget
from agent.tables.device import TableDevice, leased
from agent.tables.export import export
from agent.tables.measure import ALONE, LOADED, LOADING
from agent.tables.page import page
from agent.tables.run import Ended, measure
from agent.tables.same import same_rows
from configs.errors import AutoinferError, UsageError
from experiments.engines.port import GenerationRequest, Infeasible
from experiments.job.watched_block import COOLING_S, REPEATS_MAX
from experiments.space.configuration import Configuration
from experiments.telemetry.watching import GpuReading, GpuWatch
from tests.integration.tables.tables import DEVICE, grid_in, lines_of, run_in
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch
from tests.waiting import PATIENCE_S

HEAT = 0x40
"""NVML's bit for heat, by the hardware."""


def cells(folder: Path) -> Counter[tuple[str, str]]:
    """How often each cell of the table itself was measured."""
    found = [line for line in lines_of(folder) if line["kind"] == "cell" and not line["same"]]
    return Counter((line["load"], line["workload"]["key"]) for line in found)


def test_every_load_is_measured_once_and_failures_are_lines(tmp_path: Path) -> None:
    grid = grid_in(tmp_path)
    said: list[str] = []
    ended = measure(run_in(tmp_path, grid), said.append)
    assert (ended.loads_left, ended.reason) == (0, "everything is measured")
    assert any(each.endswith("; 1 load not begun") for each in said), said
    assert len(cells(tmp_path)) == 3 * 2
    assert set(cells(tmp_path).values()) == {1}
    lines = lines_of(tmp_path)
    failures = [line["failure"] for line in lines if line["kind"] == "failure"]
    assert [each["kind"] for each in failures] == ["crashed", "crashed"]  # tried once more
    assert "no memory for the weights" in failures[0]["cause"]
    assert (lines[0]["kind"], lines[-1]["kind"]) == ("begin", "end")
    assert all(line["identity"]["git_revision"] == "abc" for line in lines)
    rows = export(lines, None, None).rows
    assert Counter(row["feasible"] for row in rows) == {"yes": 6, "no": 2}
    assert any("did not load (crashed)" in each for each in said)


def test_a_second_call_measures_nothing_twice(tmp_path: Path) -> None:
    grid = grid_in(tmp_path)
    measure(run_in(tmp_path, grid), lambda text: None)
    before = cells(tmp_path)
    assert measure(run_in(tmp_path, grid), lambda text: None).loads_left == 0
    assert cells(tmp_path) == before
    assert [line["kind"] for line in lines_of(tmp_path)[-2:]] == ["begin", "end"]


def launched(folder: Path) -> list[str]:
    """The loads in the order in which they were launched."""
    return [line["load"] for line in lines_of(folder) if line["kind"] == "load"]


def test_two_launches_of_each_load_are_measured_the_second_after_the_first_of_all(tmp_path: Path) -> None:
    grid = grid_in(tmp_path)
    run = replace(run_in(tmp_path, grid, launches=2, loads_ahead=0), with_profile=True)
    assert measure(run, lambda text: None).loads_left == 0
    assert set(cells(tmp_path).values()) == {2}
    order = launched(tmp_path)
    assert len(order) == 6
    assert order[:3] == order[3:]
    lines = lines_of(tmp_path)
    assert len({line["launch"] for line in lines if line["kind"] == "cell"}) == 6
    assert Counter(line["load"] for line in lines if line["kind"] == "profile") == Counter(order[:3])
    assert {row["launches"] for row in export(lines, None, None).rows} == {2, None}
    assert [line["launches"] for line in lines if line["kind"] == "begin"] == [2]


def test_more_launches_are_added_to_those_that_there_are(tmp_path: Path) -> None:
    grid = grid_in(tmp_path)
    measure(run_in(tmp_path, grid), lambda text: None)
    assert measure(run_in(tmp_path, grid, launches=3), lambda text: None).loads_left == 0
    assert set(cells(tmp_path).values()) == {3}
    assert measure(run_in(tmp_path, grid, launches=2), lambda text: None).loads_left == 0
    assert set(cells(tmp_path).values()) == {3}


def test_another_engine_version_begins_anew_in_the_same_journal(tmp_path: Path) -> None:
    grid = grid_in(tmp_path)
    measure(run_in(tmp_path, grid), lambda text: None)
    measure(run_in(tmp_path, grid, devices=(replace(DEVICE, engine_version="1"),)), lambda text: None)
    assert set(cells(tmp_path).values()) == {2}
    assert len(export(lines_of(tmp_path), None, None).rows) == 2 * 8


def test_the_same_cells_are_measured_alone_beside_a_load_and_after_it(tmp_path: Path) -> None:
    measure(run_in(tmp_path, grid_in(tmp_path)), lambda text: None)
    found = {row.beside: row for row in same_rows(lines_of(tmp_path))}
    assert set(found) >= {ALONE, LOADED}
    assert found[ALONE].held
    assert len(found[ALONE].tpot_ms) == 2
    assert len(found.get(LOADING, found[ALONE]).tpot_ms) <= 2


def test_without_loads_ahead_nothing_is_measured_beside_a_load(tmp_path: Path) -> None:
    measure(run_in(tmp_path, grid_in(tmp_path), loads_ahead=0), lambda text: None)
    found = [line for line in lines_of(tmp_path) if line["kind"] == "cell"]
    assert {each for line in found for each in line["beside"].values()} == {ALONE}
    assert not any(line["same"] for line in found)


@pytest.mark.parametrize("together", [2, 3, 8])
def test_what_came_up_together_is_measured_when_all_are_up_and_nothing_loads(
    tmp_path: Path, together: int
) -> None:
    grid = replace(grid_in(tmp_path), same=None)
    at_once: list[int] = []
    under_way = 0

    class Counted(SimulatedEngine):
        def launch(self, configuration: Configuration, *args: Any, **more: Any) -> SimulatedLaunch:
            nonlocal under_way
            under_way += 1
            at_once.append(under_way)
            time.sleep(0.2)
            try:
                return super().launch(configuration, *args, **more)
            finally:
                under_way -= 1

    run = run_in(tmp_path, grid, loads_ahead=0, loads_together=together)
    measure(replace(run, sources=replace(run.sources, engine=Counted)), lambda text: None)
    lines = lines_of(tmp_path)
    found = [line for line in lines if line["kind"] == "cell"]
    assert {line["load"] for line in found} == {grid.digest(grid.loads[number]) for number in (0, 1, 3)}
    assert LOADING not in {each for line in found for each in line["beside"].values()}
    assert LOADED in {each for line in found for each in line["beside"].values()}
    assert max(at_once) == min(together, len(grid.loads))
    assert [line["loads_together"] for line in lines if line["kind"] == "begin"] == [together]


@pytest.mark.parametrize("place", [0, 1, 3])
def test_what_has_room_alone_and_not_beside_others_is_measured_alone(tmp_path: Path, place: int) -> None:
    grid = replace(grid_in(tmp_path), same=None)
    greedy = grid.loads[place].configuration
    under_way: list[Configuration] = []

    class Full(SimulatedEngine):
        def launch(self, configuration: Configuration, *args: Any, **more: Any) -> SimulatedLaunch:
            under_way.append(configuration)
            try:
                time.sleep(0.2)
                if configuration == greedy and len(under_way) > 1:
                    raise Infeasible("out_of_memory", "Beside others it has no room.")
                return super().launch(configuration, *args, **more)
            finally:
                under_way.remove(configuration)

    run = run_in(tmp_path, grid, loads_ahead=0, loads_together=3)
    measure(replace(run, sources=replace(run.sources, engine=Full)), lambda text: None)
    found = {line["load"] for line in lines_of(tmp_path) if line["kind"] == "cell"}
    assert found == {grid.digest(grid.loads[number]) for number in (0, 1, 3)}


def test_nobody_waits_for_a_slow_load_while_another_one_is_up(tmp_path: Path) -> None:
    grid = grid_in(tmp_path)
    last = grid.digest(grid.loads[3])
    measured = threading.Event()

    class SlowUntilTheLastIsMeasured(SimulatedEngine):
        def launch(self, configuration: Configuration, *args: Any, **more: Any) -> SimulatedLaunch:
            if configuration["simulated.load_s"] > 0 and not measured.wait(10):
                raise Infeasible("timed_out", "The last load was not measured meanwhile.")
            return super().launch(configuration, *args, **more)

    def tell(text: str) -> None:
        if f"measured {last}" in text:
            measured.set()

    run = run_in(tmp_path, grid, loads_ahead=3)
    sources = replace(run.sources, engine=SlowUntilTheLastIsMeasured)
    measure(replace(run, grid=replace(grid, same=None), sources=sources), tell)
    lines = lines_of(tmp_path)
    assert {line["failure"]["kind"] for line in lines if line["kind"] == "failure"} == {"crashed"}
    order = list(dict.fromkeys(line["load"] for line in lines if line["kind"] == "cell"))
    assert order == [grid.digest(grid.loads[number]) for number in (0, 3, 1)]


def test_a_profile_of_each_load_is_kept_when_it_is_asked_for(tmp_path: Path) -> None:
    run = replace(run_in(tmp_path, grid_in(tmp_path)), with_profile=True)
    measure(run, lambda text: None)
    profiles = [line for line in lines_of(tmp_path) if line["kind"] == "profile"]
    assert len({line["load"] for line in profiles}) == len(profiles) == 3
    assert all(part["time_ms"] > 0 for line in profiles for part in line["parts"])


@pytest.mark.parametrize("together", [1, 3])
def test_a_load_that_never_comes_up_is_a_failure_and_the_others_are_measured(
    tmp_path: Path, together: int
) -> None:
    grid = replace(grid_in(tmp_path), same=None)
    hung = replace(
        grid.loads[1],
        configuration=Configuration.of({**grid.loads[1].configuration, "simulated.load_s": 600.0}),
    )
    grid = replace(grid, loads=(hung, grid.loads[0], grid.loads[3]))
    run = run_in(tmp_path, grid, loads_ahead=0, loads_together=together)
    ended = measure(replace(run, sources=replace(run.sources, load_limit_s=2.0)), lambda text: None)
    assert (ended.loads_left, ended.reason) == (0, "everything is measured")
    failed = [line for line in lines_of(tmp_path) if line["kind"] == "failure"]
    assert {(line["load"], line["failure"]["kind"]) for line in failed} == {(grid.digest(hung), "timed_out")}
    assert {line["failure"]["cause"] for line in failed} == {
        "The simulated process was not ready within 2 s."
    }
    assert len(failed) == 2  # tried once more
    assert {load for load, _ in cells(tmp_path)} == {grid.digest(each) for each in grid.loads[1:]}


def test_an_engine_that_dies_while_it_serves_is_a_failure_with_its_cause(tmp_path: Path) -> None:
    measure(run_in(tmp_path, grid_in(tmp_path, "simulated.fails: generate")), lambda text: None)
    failures = [line for line in lines_of(tmp_path) if line["kind"] == "failure"]
    assert failures
    assert not cells(tmp_path)
    assert all("ended" in line["failure"]["cause"] for line in failures)


@pytest.mark.timeout(300)
def test_an_engine_that_dies_before_a_cell_is_timed_is_a_failure_too(tmp_path: Path) -> None:
    class CannotPrepare(SimulatedEngine):
        def launch(self, *args: Any, **more: Any) -> SimulatedLaunch:
            launch = super().launch(*args, **more)
            launch.prepare = prepare  # type: ignore[attr-defined]
            return launch

    def prepare(requests: object) -> None:
        raise Infeasible("crashed", "The server ended while it read the prompts.")

    run = run_in(tmp_path, grid_in(tmp_path))
    sources = replace(run.sources, engine=CannotPrepare)
    measure(replace(run, grid=replace(run.grid, same=None), sources=sources), lambda text: None)
    failures = [line["failure"]["cause"] for line in lines_of(tmp_path) if line["kind"] == "failure"]
    assert "The server ended while it read the prompts." in failures
    assert not cells(tmp_path)


MOST_LAUNCHES = 40
"""Launches after which a call that would go on loading the same is ended: twice as many as it needs."""


class Preparing(SimulatedEngine):
    """An engine that calls `prepare` before it is timed, and whose launches stop `budget` at some number."""

    def __init__(self, budget: Budget, prepare: Callable[[Sequence[GenerationRequest]], None]) -> None:
        self._budget, self._prepare, self._launches = budget, prepare, 0

    def launch(self, *args: Any, **more: Any) -> SimulatedLaunch:
        self._launches += 1
        if self._launches > MOST_LAUNCHES:
            self._budget.stop()
        launch = super().launch(*args, **more)
        launch.prepare = self._prepare  # type: ignore[attr-defined]
        return launch


def ends_with_same(folder: Path, dies_at: str) -> tuple[Ended, list[str]]:
    """A call whose engine ends at requests of cells whose name begins so; how it ended and what it said."""
    budget, said = Budget(), list[str]()

    def prepare(requests: Sequence[GenerationRequest]) -> None:
        if requests[0].item.startswith(dies_at):
            raise Infeasible("crashed", "The server ended while it read the prompts.")

    run = run_in(folder, grid_in(folder), budget=budget)
    engine = Preparing(budget, prepare)
    return measure(replace(run, sources=replace(run.sources, engine=lambda: engine)), said.append), said


def failed_cells(folder: Path) -> Counter[tuple[str, str]]:
    """How often a cell of the grid's first load failed, by workload and, in `same`, what went on beside."""
    found = [line for line in lines_of(folder) if line["kind"] == "failure" and line["workload"]]
    first = next(line["load"] for line in lines_of(folder) if line["kind"] == "load")
    return Counter(
        (line["workload"]["key"], (line.get("same") or {}).get("beside", ""))
        for line in found
        if line["load"] == first
    )


def test_an_engine_that_dies_in_every_cell_is_tried_once_more_in_each_whatever_goes_on_beside(
    tmp_path: Path,
) -> None:
    ended, said = ends_with_same(tmp_path, "")
    assert (ended.loads_left, ended.reason) == (0, "everything is measured")
    assert not cells(tmp_path)
    failed = failed_cells(tmp_path)
    assert {key for key, beside in failed if not beside} == {"c1 8/4 x2", "c4 8/4 x4"}
    assert {beside for _, beside in failed} >= {"", ALONE}
    assert all(times == 2 for (_, beside), times in failed.items() if beside in ("", ALONE))
    assert max(failed.values()) == 2
    told = [each for each in said if f"c1 8/4 x2 ({ALONE}) failed (crashed)" in each]
    assert [each.rpartition("prompts. ")[2] for each in told] == [
        "It is tried again.",
        "It is left out from now on.",
    ]


def test_an_engine_that_dies_in_same_cells_alone_is_measured_without_them(tmp_path: Path) -> None:
    ended, _ = ends_with_same(tmp_path, f"{ALONE}/")
    assert (ended.loads_left, ended.reason) == (0, "everything is measured")
    assert len(cells(tmp_path)) == 3 * 2
    assert failed_cells(tmp_path) == {("c1 8/4 x2", ALONE): 2}
    table = export(lines_of(tmp_path), None, None)
    assert Counter(row["feasible"] for row in table.rows) == {"yes": 6, "no": 2}  # a load never comes up
    assert f"| c1 8/4 x2, again while {ALONE} | crashed |" in page(lines_of(tmp_path), table, "T", [])
    again = ends_with_same(tmp_path, f"{ALONE}/")[0]
    assert (again.loads_left, failed_cells(tmp_path).total()) == (0, 2)


def test_a_measuring_process_that_is_killed_loses_a_cell_at_most_and_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    grid_in(tmp_path, "simulated.request_s: 0.05")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.tables.tables", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for text in process.stdout:
        if "measured" in text:
            break
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not psutil.wait_procs(children, timeout=PATIENCE_S)[1]
    before = cells(tmp_path)
    assert before
    grid = grid_in(tmp_path, "simulated.request_s: 0.05")
    assert measure(run_in(tmp_path, grid), lambda text: None).loads_left == 0
    assert len(cells(tmp_path)) == 3 * 2
    assert all(cells(tmp_path)[key] == 1 for key in before)


@pytest.mark.parametrize(
    ("wall_s", "stopped", "why"), [(0.0, False, "the budget is over"), (None, True, "it was told to end")]
)
def test_a_call_without_time_begins_nothing_and_says_so(
    wall_s: float | None, stopped: bool, why: str, tmp_path: Path
) -> None:
    budget = Budget(wall_s)
    if stopped:
        budget.stop()
    ended = measure(run_in(tmp_path, grid_in(tmp_path), budget=budget), lambda text: None)
    assert (ended.loads_left, ended.reason) == (4, why)
    assert not cells(tmp_path)


def watches(bits: Iterator[int]) -> Callable[[], GpuWatch]:
    """Watches of an invented GPU that throttles in one attempt after the other by these reasons of NVML's."""

    def make() -> GpuWatch:
        reasons, at_s = next(bits), iter((0.0, 2.0))
        return GpuWatch(lambda: GpuReading(next(at_s), 1980, 3201, 400.0, 70, None, reasons), 3600)

    return make


def test_a_cell_in_which_the_gpu_throttled_is_served_again_and_the_journal_keeps_both(tmp_path: Path) -> None:
    made, waited, said = watches(chain([0, HEAT], repeat(0))), list[float](), list[str]()
    grid = replace(grid_in(tmp_path), same=None)
    run = replace(run_in(tmp_path, grid), gpu_watches=lambda device: made, wait=waited.append)
    measure(run, said.append)
    found = [line for line in lines_of(tmp_path) if line["kind"] == "cell"]
    assert [len(line["gpu"]["repeated"]) for line in found] == [0, 1, 0, 0, 0, 0]
    assert waited == [COOLING_S]
    throttled = found[1]["gpu"]["repeated"][0]
    assert (throttled["throttled"], found[1]["gpu"]["throttled"]) == ("heat, by the hardware", None)
    assert all(len(line["requests"]) == line["workload"]["requests"] for line in found)
    tokens = found[0]["workload"]["requests"] * found[0]["workload"]["new_tokens"]
    assert found[0]["gpu"]["energy_j_per_output_token"] == 2 * 400.0 / tokens
    rows = export(lines_of(tmp_path), None, None).rows
    assert [row["gpu_repeated"] for row in rows if row["feasible"] == "yes"] == [0, 1, 0, 0, 0, 0]
    assert any("repeated once, for the GPU throttled (heat, by the hardware)" in each for each in said)


def test_a_gpu_that_goes_on_throttling_keeps_its_last_attempt_and_is_said_to(tmp_path: Path) -> None:
    waited, said = list[float](), list[str]()
    grid = grid_in(tmp_path)
    grid = replace(grid, same=None, loads=grid.loads[:1])
    made = watches(repeat(HEAT))
    run = replace(run_in(tmp_path, grid), gpu_watches=lambda device: made, wait=waited.append)
    measure(run, said.append)
    assert cells(tmp_path).total() == 2
    assert waited == [COOLING_S] * REPEATS_MAX * 2
    rows = export(lines_of(tmp_path), None, None).rows
    assert [row["gpu_throttled"] for row in rows] == ["heat, by the hardware"] * 2
    assert sum("in each of 3 attempts; the last one counts" in each for each in said) == 2


def test_on_a_processor_no_gpu_is_told_of(tmp_path: Path) -> None:
    measure(run_in(tmp_path, grid_in(tmp_path)), lambda text: None)
    assert not any("gpu" in line for line in lines_of(tmp_path))
    assert not any("gpu_power_w" in row for row in export(lines_of(tmp_path), None, None).rows)


class Roomy(TableDevice):
    """A GPU that nobody has, and that has room for every launch at once."""

    def has_room(self, needed_bytes: int) -> bool:
        return True


def test_two_devices_share_the_loads(tmp_path: Path) -> None:
    devices = tuple(Roomy(**asdict(replace(DEVICE, device=each))) for each in ("cuda:0", "cuda:1"))
    grid = grid_in(tmp_path, "simulated.request_s: 0.05")  # so that both compute at once
    run = run_in(tmp_path, grid, devices=devices, loads_ahead=0)
    measure(run, lambda text: None)
    assert set(cells(tmp_path).values()) == {1}
    used = {line["identity"]["device"] for line in lines_of(tmp_path) if line["kind"] == "cell"}
    assert used == {"cuda:0", "cuda:1"}


def test_devices_of_two_kinds_are_refused(tmp_path: Path) -> None:
    devices = (DEVICE, replace(DEVICE, device="cuda:1", name="another"))
    with pytest.raises(UsageError, match="several kinds"):
        measure(run_in(tmp_path, grid_in(tmp_path), devices=devices), lambda text: None)


def test_a_device_that_is_being_measured_on_is_refused(tmp_path: Path) -> None:
    run = run_in(tmp_path, grid_in(tmp_path))
    with (
        leased("cpu", run.sources.cache_dir),
        pytest.raises(AutoinferError, match="being measured on by another process"),
    ):
        measure(run, lambda text: None)
