"""What the very same ground, measured before, is worth: a bound beside the proof of transfer."""

from __future__ import annotations

import math
from statistics import fmean

import pytest

from agent.replay.table import Table
from agent.tables.cell import figures
from agent.tables.journal import read_journal
from tests.proofs.transfer import ground
from tests.proofs.transfer_again import OUTPUT, page
from tests.proofs.transfer_page import Ran, Runs, how_it_ran
from tests.proofs.transfer_tables import (
    LAUNCHED_ALONE,
    LAUNCHED_TWICE,
    LAUNCHED_TWICE_FILE,
    LAUNCHES,
    TABLES,
    alike,
    launched_again,
)
from tests.unit.proofs.test_transfer_page import words

HOW = how_it_ran("python -m tests.proofs.transfer_again --seeds 5", 3, 2, 1.0, 0)


def ran() -> Runs:
    before, after = Ran(4, 30.0, True, 1.0, (0.8,) * 4), Ran(1, 20.0, True, 0.5, (0.8,) * 4)
    return {
        (each.name, "true", seed): (each.kind, before, after) for each in launched_again() for seed in (0, 1)
    }


def means(table: Table) -> list[float]:
    return [math.nan if row.latency is None else row.latency.centre_ms for row in table.rows]


def test_both_launches_together_are_the_table_of_both() -> None:
    for twice in LAUNCHED_TWICE:
        alone = [ground(twice.replace("twice", launch)) for launch in LAUNCHES]
        for both, first, second in zip(means(ground(twice)), *map(means, alone), strict=True):
            assert math.isnan(both) == math.isnan(first) == math.isnan(second)
            assert math.isnan(both) or math.isclose(both, fmean((first, second)), rel_tol=1e-9)


def test_the_launches_are_those_of_the_journal() -> None:
    tpot_ms: dict[tuple[int, int], dict[str, list[float]]] = {}
    for line in read_journal(TABLES / f"{LAUNCHED_TWICE_FILE}.jsonl"):
        if line["kind"] == "cell":
            place = (line["workload"]["concurrency"], line["workload"]["prompt_tokens"])
            launches = tpot_ms.setdefault(place, {}).setdefault(line["load"], [])
            launches.append(fmean(figures(line["requests"]).tpot_ms))
    for number, launch in enumerate(LAUNCHES):
        for place, loads in tpot_ms.items():
            of_journal = sorted(each[number] for each in loads.values() if len(each) == len(LAUNCHES))
            of_ground = sorted(ms for ms in means(ground(f"{launch}-c{place[0]}-p{place[1]}")) if ms == ms)
            assert of_ground == pytest.approx(of_journal, rel=1e-3), (launch, place)


def test_nothing_but_the_launch_differs() -> None:
    pairs = launched_again()
    assert {pair.target for pair in pairs} == {pair.sources[0] for pair in pairs} == set(LAUNCHED_ALONE)
    for pair in pairs:
        assert pair.sources[0] != pair.target
        there = alike(pair.sources[0], pair.target)
        assert (there.model, there.workload, there.hardware, there.distance) == (True, True, True, 0)


def test_the_page_tells_what_is_left_of_the_trials() -> None:
    made = page(ran(), HOW)
    assert "Of the trials without knowledge, 0.25 [0.25, 0.25] are needed" in made
    assert "| all |  | 4.00 | 1.00 |" in made


def test_the_page_in_the_documentation_says_what_the_generator_says() -> None:
    assert words(OUTPUT.read_text(encoding="utf-8")) == words(page(ran(), HOW))
