"""A grid of trained weights is prepared once and measured in batches; with the simulated engine."""

import csv
import io
import re
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import psutil
import pytest

from agent.tables.aa import launch_noise, repeated
from agent.tables.archive import archived
from agent.tables.beside import is_disturbed
from agent.tables.clock import Budget
from agent.tables.export import export
from agent.tables.grid import SideBySide
from agent.tables.journal import read_journal
from agent.tables.side_by_side import SideBySideRun, batches
from agent.tables.trained_page import trained_page
from configs.cpu import usable_cores
from configs.errors import UsageError
from experiments.engines.port import Infeasible
from experiments.space.configuration import Configuration
from tests.integration.tables.side_by_side import grid_in, ground_in, prepare
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch
from tests.waiting import PATIENCE_S

ONCE = {"build": 1, "drafting": 1, "compile": 1}
"""What of the grid is done once each."""


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return list(read_journal(folder / "measured.jsonl"))


def cells(folder: Path) -> Counter[tuple[int, int]]:
    """How often each load was measured in each pass."""
    found = [line for line in lines_of(folder) if line["kind"] == "cell"]
    return Counter((line["number"], line["pass"]) for line in found)


def rows_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(export(lines_of(folder), None, None).csv())))


def test_what_loads_share_is_prepared_once_and_what_can_not_be_says_why(tmp_path: Path) -> None:
    assert prepare(ground_in(tmp_path)) == 0
    lines = lines_of(tmp_path)
    kinds = Counter(line["kind"] for line in lines)
    assert {kind: kinds[kind] for kind in ONCE} == ONCE
    assert kinds["ready"] == 7
    failures = {line["number"]: line["failure"]["kind"] for line in lines if line["kind"] == "failure"}
    assert failures == {6: "illegal", 7: "build_failed"}
    assert prepare(ground_in(tmp_path)) == 0
    assert Counter(line["kind"] for line in lines_of(tmp_path)) == kinds + Counter(begin=1)


def test_forwards_and_backwards_prepare_the_same(tmp_path: Path) -> None:
    def prepared(folder: Path, *, backwards: bool) -> set[tuple[Any, ...]]:
        prepare(ground_in(folder, grid_in(tmp_path)), backwards=backwards)
        found = [line for line in lines_of(folder) if line["kind"] == "ready"]
        return {(line["number"], line["quality"], line["drafting"], line["compile"]) for line in found}

    assert prepared(tmp_path / "a", backwards=False) == prepared(tmp_path / "b", backwards=True)


def test_a_launch_that_ends_before_it_tells_what_it_runs_is_a_failure_and_measured_anew(
    tmp_path: Path,
) -> None:
    class Forgetting(SimulatedEngine):
        ended = False

        def launch(self, configuration: Configuration, *args: Any, **more: Any) -> SimulatedLaunch:
            launch = super().launch(configuration, *args, **more)
            if configuration["simulated.tpot_ms"] == 2.0 and not self.ended:
                self.ended = True
                launch.resolved = resolved  # type: ignore[method-assign]
            return launch

    def resolved() -> NoReturn:
        raise Infeasible("crashed", "The simulated process ended.")

    prepare(ground_in(tmp_path))
    engine = Forgetting()
    ended = SideBySideRun(replace(ground_in(tmp_path), engine=engine), lambda text: None).run()
    assert (ended.loads_left, engine.ended) == (0, True)
    failures = [line["number"] for line in lines_of(tmp_path) if line["kind"] == "failure"]
    assert failures.count(1) == 1
    assert [cells(tmp_path)[1, each] for each in range(2)] == [1, 1]


def test_every_load_has_a_launch_of_each_pass_and_the_control_one_of_each_batch(tmp_path: Path) -> None:
    prepare(ground_in(tmp_path))
    ended = SideBySideRun(ground_in(tmp_path), lambda text: None).run()
    assert (ended.loads_left, ended.reason) == (0, "all that is prepared is measured")
    measured = cells(tmp_path)
    assert {key: count for key, count in measured.items() if key[0]} == {
        (number, each): 1 for number in range(1, 6) for each in range(2)
    }
    lines = lines_of(tmp_path)
    batch_lines = [line for line in lines if line["kind"] == "batch"]
    assert measured[0, 0] + measured[0, 1] == len(batch_lines) == 6
    assert all(line["before"]["time"] <= line["after"]["time"] for line in batch_lines)
    (profile,) = [line for line in lines if line["kind"] == "profile"]
    assert (profile["number"], bool(profile["parts"])) == (0, True)
    turns = {tuple(each["turn"] for each in line["requests"]) for line in lines if line["kind"] == "cell"}
    assert turns == {(0, 1, 2, 3)}


def test_batches_beside_which_other_work_ran_count_for_nothing_and_are_measured_again(tmp_path: Path) -> None:
    slow = "simulated.request_s: 0.05"
    prepare(ground_in(tmp_path, grid_in(tmp_path, slow)))
    strict = replace(
        grid_in(tmp_path, slow),
        side_by_side=SideBySide(launches=3, passes=2, prompts_a_turn=1, most_beside_cores=0.2),
    )
    said: list[str] = []
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(usable_cores())]
    try:
        ended = SideBySideRun(ground_in(tmp_path, strict), said.append).run()
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert ended.reason.startswith("other work keeps the processor busy")
    assert "to be measured again" in said[-1]
    assert not cells(tmp_path)
    ended = SideBySideRun(ground_in(tmp_path, grid_in(tmp_path, slow)), said.append).run()
    assert ended.loads_left == 0
    kept = {line["batch"] for line in archived([lines_of(tmp_path)], 4) if line["kind"] == "cell"}
    assert kept == {line["batch"] for line in lines_of(tmp_path) if line["kind"] == "batch"} - {
        line["batch"] for line in lines_of(tmp_path) if line["kind"] == "batch" and is_disturbed(line)
    }


def test_a_row_has_quality_samples_costs_and_the_ratio_to_the_control(tmp_path: Path) -> None:
    prepare(ground_in(tmp_path))
    SideBySideRun(ground_in(tmp_path), lambda text: None).run()
    rows = rows_of(tmp_path)
    assert [row["feasible"] for row in rows] == ["yes"] * 6 + ["no"] * 3
    assert [row["baseline"] for row in rows] == ["yes"] + ["no"] * 5 + ["", "", "no"]
    first, slower, _, pruned, drafts, compiled = rows[:6]
    assert (float(first["tpot_over_control"]), len(first["tpot_ms"].split())) == (1, 6 * 4)
    assert float(slower["tpot_over_control"]) == pytest.approx(2, rel=0.2)
    paced = [median(map(float, row["tpot_paced_ms"].split())) for row in (first, slower)]
    assert paced[1] / paced[0] == pytest.approx(float(slower["tpot_over_control"]), rel=0.1)
    assert float(pruned["quality"]) > float(first["quality"]) > 0
    assert (pruned["build"] != "", first["build"], float(pruned["build_s"]) >= 0) == (True, "", True)
    assert (float(drafts["tokens_a_step"]), drafts["divergences"]) == (2, "0")
    assert (compiled["compile_build"] != "", first["compile_build"]) == (True, "")
    assert float(first["run_s"]) >= float(first["serve_s"]) > 0
    assert rows[-1]["cause_kind"] == "crashed"


def test_a_page_tells_what_keeps_the_quality_how_steady_it_was_and_what_failed(tmp_path: Path) -> None:
    prepare(ground_in(tmp_path))
    SideBySideRun(ground_in(tmp_path), lambda text: None).run()
    lines = lines_of(tmp_path)
    page = trained_page(lines, export(lines, None, None), "A table", ["autoinfer table measure"])
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    kept, failed = sections["Fastest with the quality kept"], sections["What failed"]
    assert "5 of the 6 that ran" in kept
    assert "simulated.prunes=yes" not in kept
    assert "`drafting.method=mtp` |" in sections["One lever alone"]
    assert "in 6 batches" in sections["How steady it was"]
    noise = launch_noise(repeated(lines))
    assert (noise.loads, noise.furthest_share > 0) == (5, True), "all but the control, by two launches each"
    shares = (noise.median_share, noise.most_share, noise.furthest_share, noise.launch_sd)
    told = " | ".join(f"{share:.1%}" for share in shares)
    assert f"| all | 5 | {told} |" in sections["How far two launches of one configuration differ"]
    assert ("illegal" in failed, "build_failed" in failed, "crashed" in failed) == (True, True, True)


def test_the_first_load_must_be_prepared(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not prepared"):
        SideBySideRun(ground_in(tmp_path), lambda text: None).run()


def test_loads_that_are_not_prepared_are_left_and_told(tmp_path: Path) -> None:
    budget = Budget()
    ground = ground_in(tmp_path, budget=budget)
    budget.stop()
    assert prepare(ground) == 9, "nothing is begun"
    whole = ground_in(tmp_path / "whole", grid_in(tmp_path))
    prepare(whole)
    ready = [line for line in lines_of(tmp_path / "whole") if line["kind"] == "ready"]
    for line in ready[:2]:
        ground.journal().add("ready", line)
    ended = SideBySideRun(ground_in(tmp_path), lambda text: None).run()
    assert ended.reason == "all that is prepared is measured; 7 are not prepared"


def test_a_call_without_time_begins_nothing_and_says_so(tmp_path: Path) -> None:
    prepare(ground_in(tmp_path))
    ended = SideBySideRun(ground_in(tmp_path, budget=Budget(0.0)), lambda text: None).run()
    assert (ended.loads_left, ended.reason) == (2 * 6, "the budget is over")
    assert not cells(tmp_path)


def test_batches_hold_each_load_once_and_near_ones_together_the_same_for_a_seed(tmp_path: Path) -> None:
    ground = ground_in(tmp_path)
    loads = ground.grid.loads[1:]
    made = list(batches(ground, loads, 0))
    assert made == list(batches(ground, loads, 0))
    assert sorted(loads.index(load) for batch in made for load in batch) == list(range(len(loads)))
    assert set(made[0] + made[1]) == set(loads[:4]), "shuffled among four"
    assert [len(each) for each in made] == [2] * 4
    assert any(list(batches(ground, loads, number)) != made for number in range(1, 4))


@pytest.mark.timeout(300)
def test_a_process_that_is_killed_loses_a_batch_at_most_and_leaves_nothing_running(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.tables.side_by_side", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "pass 1" in process.stdout.readline()
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not psutil.wait_procs(children, timeout=PATIENCE_S)[1]
    before = cells(tmp_path)
    assert before
    ground = ground_in(tmp_path, grid_in(tmp_path, "simulated.request_s: 0.05"))
    assert SideBySideRun(ground, lambda text: None).run().loads_left == 0
    after = cells(tmp_path)
    assert all(after[key] == 1 for key in after if key[0])
