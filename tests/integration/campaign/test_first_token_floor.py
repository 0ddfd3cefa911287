"""The waterfall of a campaign that is after the time to the first token of one request at once: from the
profiles of a lone prompt the floor, what kernels take above it, what is outside them, and what the measured
time has beyond the profile.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from dashboard.pages.now import PAGE
from dashboard.report.document import Figure
from dashboard.report.results import waterfall
from db.event_kinds import EventKind
from db.events import of_kind
from db.models import Campaign, Event, StageRun
from db.models.base import JsonObject
from db.session import Database
from db.states import StageOutcome
from experiments.engines.port import PartTime
from experiments.job.result import StageRecord
from experiments.measurement.evidence import Stage
from knowledge.queries.present.now_best import BestView
from knowledge.queries.present.now_floor import FloorView
from knowledge.queries.present.now_reached import best_of
from knowledge.report.gathering import report
from tests.integration.campaign.test_another_objective import CLOSE, FIRST, NOW, TTFT_MS, step
from tests.simulated.by_hand import BEGAN, measure_baseline
from tests.simulated.campaign import start

MADE = datetime(2026, 11, 29, 12, tzinfo=UTC)
STEP = [asdict(PartTime("lm_head", "lm_head", 0.6, 2_000_000_000, launches=1))]
"""A decode step, of which nothing is to be told."""

RATES: JsonObject = {"bandwidth_bytes_per_s": 4e12, "parts": STEP}


def lone(outside_ms: float) -> JsonObject:
    """The profile of a stage with a lone prompt: 2 ms of floor, 1 ms of kernels above it."""
    parts = [
        PartTime("gate_up_proj", "gemm", 3.0, 3_000_000_000, launches=32, operations=2e12),
        PartTime("outside", "outside", outside_ms, 0),
    ]
    told = {"prompt_tokens": 512, "first_token_ms": 3.0 + outside_ms, "operations_per_s": 1e15}
    return {**RATES, "prompt": {**told, "parts": [asdict(each) for each in parts]}}


FAILED: JsonObject = {**RATES, "prompt": {"failure": "The profiler recorded no whole prompt."}}


def begun(folder: Path, detail: JsonObject | None, metric: str = "ttft_ms") -> Database:
    """A campaign whose baseline has this profile."""
    database, campaign_id = start(folder, weights="dummy", **{"plan.metric": metric})
    stages = () if detail is None else (StageRecord(Stage.PROFILE, BEGAN, 1.0, "done", detail),)
    measure_baseline(database, campaign_id, TTFT_MS / 2, stages=stages)
    return database


def profile_best(database: Database, detail: JsonObject) -> None:
    with database.write() as session:
        session.execute(
            insert(StageRun).values(
                experiment_id=2,
                attempt=1,
                stage=Stage.PROFILE.value,
                started_at=MADE,
                wall_s=3.0,
                outcome=StageOutcome.DONE,
                detail=detail,
            )
        )


def best_and_page(database: Database) -> tuple[BestView, str]:
    with database.read() as session:
        best = best_of(session, session.get_one(Campaign, 1))
        page = PAGE.live(PAGE.read(session, NOW, None), NOW)  # type: ignore[arg-type]
    assert best is not None
    return best, unescape(page)


@pytest.fixture
def profiled(tmp_path: Path) -> Iterator[Database]:
    """The baseline takes 15 of its 20 ms within the engine; its best, at 16 ms, is not profiled."""
    database = begun(tmp_path, lone(12.0))
    step(database, 1, FIRST, {}, tpot=0.95)
    yield database
    database.close()


def test_a_baseline_by_itself_is_told_up_to_its_first_token(tmp_path: Path) -> None:
    database = begun(tmp_path, lone(12.0))
    best, page = best_and_page(database)
    database.close()
    assert best.floor is not None
    assert best.floor == best.best_floor
    assert [each.ms for each in best.overhead] == pytest.approx([1.0, 12.0, 5.0], abs=TTFT_MS * CLOSE)
    assert "512 tokens at 1,000\u202fTFLOP/s and 4,000\u202fGB/s" in page
    assert "kernels above their floor" in page
    assert "The prompt that was profiled took 15.0\u202fms within the engine" in page
    assert "step" not in page.split('class="wf-left"')[1].split("</section>")[0]


def test_a_best_with_a_profile_of_its_own_is_told_beside_the_baseline(profiled: Database) -> None:
    profile_best(profiled, lone(4.0))
    best, page = best_and_page(profiled)
    with profiled.read() as session:
        figure = waterfall(report(session, 1, MADE)).blocks[0]
    assert best.floor is not None
    assert best.best_floor is not None
    assert (best.floor.ms, best.best_floor.ms) == (2.0, 2.0)
    assert [each.ms for each in best.overhead] == pytest.approx([1.0, 12.0, 5.0], abs=TTFT_MS * CLOSE)
    assert [each.ms for each in best.best_overhead] == pytest.approx([1.0, 4.0, 9.0], abs=TTFT_MS * CLOSE)
    assert sum(each.ms for each in best.best_overhead) == pytest.approx(best.best_ms - 2.0)
    assert "The best's by part, ms:" in page
    assert "took 7.00\u202fms within the engine" in page
    assert isinstance(figure, Figure)
    assert "the floor by physics of a lone prompt, 2.00\u202fms of the baseline" in figure.caption
    assert "of the best: kernels above their floor 1.00\u202fms; outside kernels" in figure.caption


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        (None, "No lone prompt of the best was profiled, so its floor is not known."),
        (RATES, "No lone prompt of the best was profiled, so its floor is not known."),
        (
            FAILED,
            "No lone prompt of the best was profiled, so its floor is not known. The profiler recorded no "
            "whole prompt.",
        ),
        (
            {"parts": STEP, "prompt": lone(1.0)["prompt"]},
            "The memory's bandwidth was not measured beside the best's profile, so its floor is not known.",
        ),
    ],
    ids=["no profile", "a step's alone", "prompt failed", "no bandwidth"],
)
def test_of_a_best_without_a_floor_the_reason_is_told_beside_what_the_baseline_spends(
    profiled: Database, detail: JsonObject | None, reason: str
) -> None:
    if detail is not None:
        profile_best(profiled, detail)
    best, page = best_and_page(profiled)
    assert best.floor is not None
    assert (best.best_floor, best.best_overhead) == (None, ())
    told = f"{reason} The baseline's {best.baseline_ms - 2.0:.1f}\u202fms above its floor by part, ms:"
    assert told in page


def test_a_best_below_its_floor_has_the_reasons_of_a_prompt(profiled: Database) -> None:
    slow = lone(4.0)
    slow["prompt"]["operations_per_s"] = 0.1e15
    profile_best(profiled, slow)
    best, page = best_and_page(profiled)
    assert best.is_below_floor
    assert (
        "the device copies or multiplies faster than was measured, or a cache of prefixes spared some" in page
    )
    assert "GPU" not in page.split('class="wf-left"')[1].split("</section>")[0]


@pytest.mark.parametrize(
    ("way", "beyond"),
    [
        (
            "http",
            "what was measured beyond it is HTTP, the tokenizer, and prompts and launches that were slower.",
        ),
        ("engine", "what was measured beyond it is prompts and launches that were slower."),
        (None, "what was measured beyond it is prompts and launches that were slower."),
    ],
    ids=["over HTTP", "in the engine", "an old record"],
)
def test_what_lies_beyond_the_profile_goes_by_the_way_that_requests_came(
    profiled: Database, way: str | None, beyond: str
) -> None:
    with profiled.write() as session:
        campaign = session.get_one(Campaign, 1)
        plan = campaign.spec["plan"]
        others = {name: value for name, value in plan["workload"].items() if name != "asked_over"}
        workload = others if way is None else {**others, "asked_over": way}
        campaign.spec = {**campaign.spec, "plan": {**plan, "workload": workload}}
    profile_best(profiled, lone(4.0))
    _, page = best_and_page(profiled)
    assert beyond in page


def too_high(detail: JsonObject) -> JsonObject:
    """The same profile with a floor of 40 ms, more than baseline and best were measured to take."""
    return {**detail, "prompt": {**detail["prompt"], "operations_per_s": 0.05e15}}


BELOW_ITS_FLOOR = "The baseline lies below its floor</b>, so the floor is too high: "


@pytest.mark.parametrize(
    ("of_best", "told"),
    [
        (None, ("its floor is not known. <b>" + BELOW_ITS_FLOOR,)),
        (lone(4.0), ("is what is left to win. <b>" + BELOW_ITS_FLOOR, "The best's by part, ms:")),
        (
            too_high(lone(4.0)),
            ("The best lies below this floor</b>", "The baseline lies below its floor too."),
        ),
    ],
    ids=["best not profiled", "best above its floor", "both below"],
)
def test_a_baseline_below_its_floor_is_said_whatever_is_known_of_the_best(
    tmp_path: Path, of_best: JsonObject | None, told: tuple[str, ...]
) -> None:
    database = begun(tmp_path, too_high(lone(12.0)))
    step(database, 1, FIRST, {}, tpot=0.95)
    if of_best is not None:
        profile_best(database, of_best)
    best, page = best_and_page(database)
    with database.read() as session:
        figure = waterfall(report(session, 1, MADE)).blocks[0]
    database.close()
    assert best.is_baseline_below_floor
    assert page.count("so the floor is too high") == 1
    for words in told:
        assert words in page, words
    assert "floor 40.0\u202fms, more than was measured" in page
    assert "floor 40.0\u202fms, and what lies above it" not in page
    assert isinstance(figure, Figure)
    assert "The baseline lies below its floor" in figure.caption
    assert figure.caption.count("so the floor is too high") == 1


def test_a_baseline_by_itself_below_its_floor_is_told_as_the_baseline(tmp_path: Path) -> None:
    database = begun(tmp_path, too_high(lone(12.0)))
    _, page = best_and_page(database)
    database.close()
    assert f"<b>{BELOW_ITS_FLOOR}" in page
    assert "The best lies below" not in page


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        (None, "The least time by physics is not known here: no lone prompt was profiled."),
        (RATES, "The least time by physics is not known here: no lone prompt was profiled."),
        (FAILED, "not known here: no lone prompt was profiled. The profiler recorded no whole prompt."),
        (
            {"prompt": lone(1.0)["prompt"]},
            "not known here: the memory's bandwidth was not measured.",
        ),
    ],
)
def test_without_such_a_profile_the_reason_alone_is_told(
    tmp_path: Path, detail: JsonObject | None, reason: str
) -> None:
    database = begun(tmp_path, detail)
    best, page = best_and_page(database)
    database.close()
    assert (best.floor, best.best_floor, best.overhead) == (None, None, ())
    assert reason in page


def test_several_requests_at_once_are_no_lone_prompt(tmp_path: Path) -> None:
    database = begun(tmp_path, lone(12.0))
    with database.write() as session:
        session.execute(update(Campaign).values(objective={"metric": "ttft_ms", "concurrency": 8}))
    best, page = best_and_page(database)
    database.close()
    assert best.floor is None
    assert "is told of a lone prompt, and here are 8 at once." in page


@pytest.mark.parametrize(("metric", "words"), [("e2el_ms", "end-to-end latency"), ("itl_ms", "ITL")])
def test_a_campaign_about_another_time_is_told_of_which_times_the_least_is_known(
    tmp_path: Path, metric: str, words: str
) -> None:
    database = begun(tmp_path, lone(12.0))
    with database.write() as session:
        session.execute(update(Campaign).values(objective={"metric": metric}))
        told = session.scalars(select(Event).where(of_kind(EventKind.CAMPAIGN_BASELINE, 1))).one()
        told.data = {**told.data, "baseline": {**told.data["baseline"], metric: 20.0}}
    best, page = best_and_page(database)
    database.close()
    assert (best.floor, best.no_floor) == (None, None)
    said = (
        "The least time by physics is told of the time per token and of that to the first token of a lone "
        f"prompt, and this campaign is after {words}."
    )
    assert said in page


def test_a_campaign_about_a_token_is_told_a_steps_floor_though_a_prompt_was_profiled(tmp_path: Path) -> None:
    database = begun(tmp_path, lone(12.0), "tpot_ms")
    best, page = best_and_page(database)
    database.close()
    assert isinstance(best.floor, FloorView)
    assert best.floor.ms == 0.5
    assert "prompt" not in page.split('class="wf-left"')[1].split("</section>")[0]
