"""That a GPU was held down by heat is counted from stored blocks, and told where somebody reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from configs.settings import Settings
from dashboard.app import create_app
from dashboard.report.html import as_html
from dashboard.report.markdown import as_markdown
from db.models import Experiment
from db.states import Arm, VerdictOutcome
from experiments.measurement.evidence import Json, Stage
from knowledge.queries.facts import campaign_facts
from knowledge.queries.measured.gpu_throttling import (
    MOST_NAMED,
    BlocksOfGpu,
    GpuThrottlingView,
    blocks_of_gpu,
    gpu_throttling,
    throttling,
)
from knowledge.queries.story import campaign_story
from knowledge.report.gathering import report
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History, add_launch
from tests.history.slowed_gpu import (
    BRAKE,
    BY_DRIVER,
    BY_HARDWARE,
    CALM,
    CAPPED,
    COOLED,
    HOT,
    POWER_CAP,
    SLOWDOWN,
    a_block,
    blocks_with,
    environment,
)

MADE = datetime(2026, 11, 26, 7, tzinfo=UTC)


def told(*gpus: Json, max_mhz: int | None = 1980, **said: bool) -> GpuThrottlingView | None:
    return throttling({"E-0002": blocks_of_gpu(blocks_with(*gpus), max_mhz)}, **said)  # type: ignore[arg-type]


def test_blocks_that_count_are_told_with_the_heat_and_the_clock_of_those_held_down() -> None:
    found = told(CALM, HOT, HOT, COOLED, CAPPED)
    assert found is not None
    assert (found.blocks, found.held_down, found.by_heat, found.power_limited) == (5, 2, 2, 1)
    assert (found.temperature_c, found.sm_mhz_min, found.sm_mhz_median_min) == (87, 360, 360)
    assert found.max_sm_mhz == 1980
    assert found.told == (
        "The GPU was held down by heat in 2 of 5 timed blocks, even after pauses (up to 87 °C, a block's "
        "median SM clock down to 360 of 1,980 MHz): E-0002."
    )
    assert found.apart == (
        "In 1 other its power limit alone held the clocks down, as many GPUs run at full load."
    )


def test_a_single_low_reading_is_not_told_as_the_clock_of_a_block() -> None:
    """The first reading of a block may be one of a GPU that just woke."""
    found = told(a_block(BY_HARDWARE, 210, 1700, 1700))
    assert found is not None
    assert (found.sm_mhz_min, found.sm_mhz_median_min) == (210, 1700)
    assert "down to 1,700 of 1,980 MHz" in found.told


@pytest.mark.parametrize("gpus", [(), (None,), (CALM,), (COOLED, CALM), (CAPPED, CAPPED)])
def test_nothing_is_told_where_no_gpu_was_read_or_none_was_held_down(gpus: tuple[Json, ...]) -> None:
    assert told(*gpus) is None


@pytest.mark.parametrize("stored", [None, 3, [3, {"during": 3}, {"during": {"gpu": 3}}]])
def test_what_is_not_understood_counts_for_nothing(stored: object) -> None:
    assert blocks_of_gpu(stored) == BlocksOfGpu()


@pytest.mark.parametrize(
    ("bits", "cause", "act"),
    [
        (
            BY_DRIVER,
            "by heat in",
            "See to its cooling or lower its power limit (`sudo nvidia-smi -pl WATTS`)",
        ),
        (SLOWDOWN | BY_HARDWARE, "by heat in", "See to its cooling or lower its power limit"),
        (SLOWDOWN | BRAKE, "by the power brake of its host in", "See to its host's power supply"),
        (SLOWDOWN, "by its hardware in", "Ask the driver why (`nvidia-smi -q -d PERFORMANCE`)"),
        (POWER_CAP | BY_DRIVER, "by heat in", "See to its cooling"),
    ],
)
def test_each_cause_has_its_words_and_what_to_do_about_it(bits: int, cause: str, act: str) -> None:
    found = told(a_block(bits, 1980, 1000))
    assert found is not None
    assert cause in found.told
    assert found.to_do.startswith(act)
    assert found.apart is None


def test_several_causes_are_told_together_and_counted_apart() -> None:
    found = told(HOT, a_block(BRAKE | BY_HARDWARE, 900), a_block(SLOWDOWN, 900), CALM)
    assert found is not None
    assert "by heat, the power brake of its host and its hardware in 3 of 4 timed blocks" in found.told
    assert found.apart == (
        "Of the 3 blocks, 2 by heat, 1 by the power brake of the host and 1 by a slowdown for which the "
        "hardware names neither."
    )


def test_a_highest_clock_is_told_only_where_it_is_known_and_one() -> None:
    unknown = told(HOT, max_mhz=None)
    assert unknown is not None
    assert "down to 360 MHz)" in unknown.told
    two = throttling(
        {"E-0001": blocks_of_gpu(blocks_with(HOT), 1980), "E-0002": blocks_of_gpu(blocks_with(HOT), 1785)}
    )
    assert two is not None
    assert (two.max_sm_mhz, two.experiments) == (None, ("E-0001", "E-0002"))
    assert "down to 360 MHz): E-0001 and E-0002." in two.told


def test_a_driver_that_tells_neither_heat_nor_clock_is_not_made_up() -> None:
    found = told({**CALM, "throttled": HOT["throttled"], "temperature_c": None, "sm_mhz": None})
    assert found is not None
    assert "even after pauses: E-0002." in found.told


def test_many_experiments_are_counted_and_all_of_them_are_in_the_view() -> None:
    hot = blocks_of_gpu(blocks_with(HOT))
    found = throttling({f"E-{at:04d}": hot for at in range(1, MOST_NAMED + 3)})
    assert found is not None
    assert found.told.endswith("E-0004, E-0005 and 2 more.")
    assert len(found.experiments) == MOST_NAMED + 2


def test_devices_are_named_and_of_rented_ones_another_is_to_be_taken() -> None:
    hot = {"E-0002": blocks_of_gpu(blocks_with(HOT))}
    one = throttling(hot, devices=["desk/cuda:1"])
    two = throttling(hot, devices=["desk/cuda:0", "desk/cuda:1"])
    rented = throttling(hot, devices=["modal:H100!"], rented=True, judged="E-0002")
    assert one is not None
    assert two is not None
    assert rented is not None
    assert one.told.startswith("The GPU (desk/cuda:1) was held down")
    assert two.told.startswith("GPUs (desk/cuda:0 and desk/cuda:1) were held down")
    assert rented.told.startswith("The GPU was held down")
    assert rented.to_do == "Rent another machine, then run them again (`autoinfer reproduce E-0002`)."


@pytest.fixture
def heated(history: History) -> tuple[History, int]:
    """A campaign with a test of which three of four blocks were timed on a GPU held down by heat."""
    judged = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    launch(history, judged.experiment_id, Arm.CONTROL, CALM, HOT)
    launch(history, judged.experiment_id, Arm.CANDIDATE, HOT, HOT)
    return history, judged.experiment_id


def launch(
    history: History, number: int, arm: Arm, *gpus: Json, stage: str = "quick", attempt: int = 1
) -> None:
    with history.database.write() as session:
        experiment = session.get_one(Experiment, number)
        add_launch(session, experiment, arm, stage, {}, [], environment(*gpus), attempt=attempt)


def read(history: History) -> GpuThrottlingView | None:
    with history.database.read() as session:
        return gpu_throttling(session, history.campaign_id)


def test_a_campaign_without_a_gpu_has_none(full_history: History) -> None:
    assert read(full_history) is None


def test_the_last_attempt_of_an_experiment_counts_and_further_workloads_do_not(history: History) -> None:
    number = history.start_testing(history.propose({"serving.threads": 1}))
    assert read(history) is None
    launch(history, number, Arm.CONTROL, HOT, HOT)
    first = read(history)
    assert first is not None
    assert first.held_down == 2
    launch(history, number, Arm.CONTROL, CALM, attempt=2)
    assert read(history) is None
    launch(history, number, Arm.CANDIDATE, HOT, stage=Stage.FURTHER.value, attempt=2)
    assert read(history) is None
    launch(history, number, Arm.CANDIDATE, HOT, CALM, attempt=2)
    again = read(history)
    assert again is not None
    assert (again.held_down, again.blocks) == (1, 3)


def test_what_came_since_is_read_and_what_is_done_is_remembered(heated: tuple[History, int]) -> None:
    history, number = heated
    first, remembered = read(history), read(history)
    assert first is not None
    assert first == remembered
    later = history.start_testing(history.propose({"serving.threads": 4}))
    launch(history, later, Arm.CONTROL, HOT)
    grown = read(history)
    assert grown is not None
    assert grown.held_down == first.held_down + 1
    assert grown.experiments == (f"E-{number:04d}", f"E-{later:04d}")
    assert grown.to_do.endswith(f"(`autoinfer reproduce E-{number:04d}`).")


def test_the_summary_says_so_and_what_to_do(heated: tuple[History, int]) -> None:
    history, number = heated
    with history.database.read() as session:
        facts = campaign_facts(session, history.campaign_id)
    assert facts.throttling is not None
    part = summarize(facts).held_down
    assert part is not None
    assert part in summarize(facts).parts()
    assert "held down by heat in 3 of 4 timed blocks" in part.sentence
    assert "down to 360 of 1,980 MHz" in part.sentence
    assert part.sentence.endswith(
        "See to its cooling or lower its power limit (sudo nvidia-smi -pl WATTS), then run them again "
        f"(autoinfer reproduce E-{number:04d})."
    )
    assert part.lines[-1] == f"Launch by launch: autoinfer show E-{number:04d}"
    assert summarize(replace(facts, throttling=None)).held_down is None


def test_the_story_says_so_where_it_stands(heated: tuple[History, int]) -> None:
    history, number = heated
    with history.database.read() as session:
        stands = {each.title: each for each in campaign_story(session, 1).chapters}["Where it stands"]
    line = stands.lines[-1]
    assert "held down by heat in 3 of 4 timed blocks" in line.text
    assert f"E-{number:04d}" in line.about


def test_a_report_says_so_in_its_head_in_every_form(heated: tuple[History, int]) -> None:
    history, _ = heated
    with history.database.read() as session:
        view = report(session, history.campaign_id, MADE)
    assert view.throttling is not None
    assert view.model_dump(mode="json")["throttling"]["held_down"] == 3
    said = "held down by heat in 3 of 4 timed blocks"
    assert as_markdown(view).partition("## 1")[0].count(said) == 1
    assert as_html(view).partition("<section")[0].count(said) == 1
    assert as_markdown(view).partition("Environment")[2].count(said) == 1


def test_a_report_without_a_slowed_gpu_says_nothing_of_it(full_history: History) -> None:
    with full_history.database.read() as session:
        view = report(session, 1, MADE)
    assert view.throttling is None
    assert "held down" not in as_markdown(view) + as_html(view)


def test_now_says_so_with_links_and_nothing_where_nothing_was_slowed(
    heated: tuple[History, int], tmp_path: Path
) -> None:
    history, number = heated
    with TestClient(
        create_app(Settings(data_dir=tmp_path), history.database), base_url="http://127.0.0.1"
    ) as client:
        html, twin = client.get("/").text, client.get("/now.json").json()
        assert 'id="slowed"' in html
        assert "held down by heat in 3 of 4 timed blocks" in html
        notice = html.partition('id="slowed"')[2].partition("</aside>")[0]
        assert f'href="/experiments/E-{number:04d}"' in notice
        assert "up to 87\u202f°C" in notice
        assert "360 of 1,980\u202fMHz" in notice
        assert "See to its cooling" in notice
        assert f"<code>autoinfer reproduce E-{number:04d}</code>" in notice
        assert twin["throttling"]["held_down"] == 3


def test_now_says_nothing_where_nothing_was_slowed(full_history: History, tmp_path: Path) -> None:
    app = create_app(Settings(data_dir=tmp_path), full_history.database)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert 'id="slowed"' not in client.get("/").text
        assert client.get("/now.json").json()["throttling"] is None
