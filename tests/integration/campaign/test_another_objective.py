"""A campaign that is after the time to the first token: whatever tells of its best tells that time, as it was
measured, and no time of a token divided by another metric's speed-up.

The database, the queue, the sealing, the judge and the pages are the real ones; launches are given.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from agent.campaign.desk_reading import DeskReader
from agent.campaign.learning.learn import learn_test
from agent.campaign.learning.outcome import campaign_outcome, note_best
from cli.running.telling import _baseline_taken, _best_words
from configs.campaign import CHECKPOINT
from dashboard.page import Request
from dashboard.pages.now import PAGE, NowFilters
from dashboard.report.document import Figure, Table
from dashboard.report.markdown import as_markdown
from dashboard.report.results import pareto as against_quality
from db.models import Campaign, Event, Verdict
from db.session import Database
from db.states import VerdictOutcome
from experiments.job.spec import TestJob
from experiments.measurement.evidence import Arm, LaunchRecord, Metric
from knowledge.queries.pareto import FrontRow, pareto
from knowledge.queries.present.now_reached import best_of
from knowledge.queries.story import campaign_story
from knowledge.report.gathering import report
from tests.integration.campaign.campaigned import pairs
from tests.integration.campaign.sealed import dispatch, propose_change
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import start

NOW = Request({}, NowFilters())
MADE = datetime(2026, 11, 23, 12, tzinfo=UTC)
TPOT_MS, TTFT_MS = 10.0, 20.0
FIRST, SECOND = {"simulated.tpot_ms": 9.9}, {"simulated.threads": 2}
CLOSE = 0.02
"""How far quiet launches are from what they are given, relative."""


def sooner(tpot_times: float) -> Callable[[TestJob], Sequence[LaunchRecord]]:
    """Launches whose first token takes four fifths of the time, and each further one so many times it."""

    def told(record: LaunchRecord) -> LaunchRecord:
        if record.arm is Arm.CONTROL:
            return record
        return replace(
            record,
            samples=tuple(
                replace(each, value=each.value * tpot_times / 0.8) if each.metric is Metric.TPOT_MS else each
                for each in record.samples
            ),
        )

    return lambda spec: [told(each) for each in pairs(0.8 * TPOT_MS)(spec)]


def step(
    database: Database, campaign_id: int, change: dict[str, object], on: dict[str, object], tpot: float
) -> None:
    hypothesis = propose_change(database, campaign_id, change, on, metric="ttft_ms")  # type: ignore[arg-type]
    experiment_id = dispatch(database, campaign_id, hypothesis)
    run_by_hand(database, experiment_id, sooner(tpot))
    with database.write() as session:
        assert learn_test(session, experiment_id) == VerdictOutcome.SUPPORTED
        note_best(session, campaign_id)
        quality = {"bits_per_byte_relative": {"difference": 0.001, "low": 0.0, "high": 0.002}}
        scored = update(Verdict).where(Verdict.experiment_id == experiment_id).values(quality=quality)
        session.execute(scored)


@pytest.fixture
def after_one(tmp_path: Path) -> Iterator[Database]:
    """One step, measured against the baseline itself: a first token in four fifths of the time."""
    database, campaign_id = start(tmp_path, weights="dummy", **{"plan.metric": "ttft_ms"})
    measure_baseline(database, campaign_id, TPOT_MS)
    step(database, campaign_id, FIRST, {}, tpot=0.95)
    yield database
    database.close()


@pytest.fixture
def chained(after_one: Database) -> Database:
    """A second such step on top of it, which takes a fiftieth of the time of a token."""
    step(after_one, 1, SECOND, FIRST, tpot=0.98)
    return after_one


def best_row(database: Database, metric: str | None = None) -> FrontRow:
    """The best's place on the front, which made-up weights have none on: their quality was given by hand."""
    with database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": CHECKPOINT}
    with database.read() as session:
        found = pareto(session, 1, metric)
    assert found.metric == (metric or "ttft_ms")
    (row,) = [each for each in found.front if each.is_best]
    return row


def test_the_loop_holds_the_sweep_against_each_other_in_the_campaigns_metric(after_one: Database) -> None:
    reader = DeskReader(after_one, 1)
    desk = reader.desk(reader.facts())
    assert desk.baseline.own_ms[desk.baseline_configuration.digest] == pytest.approx(TTFT_MS, rel=CLOSE)
    assert desk.view.ttft_ms == pytest.approx(TTFT_MS, rel=CLOSE)
    assert desk.view.new_tokens == desk.facts.spec.plan.workload.new_tokens > 1


def test_latency_against_quality_is_of_the_campaigns_metric(after_one: Database) -> None:
    assert best_row(after_one).latency_ms == pytest.approx(0.8 * TTFT_MS, rel=CLOSE)


def test_a_chain_of_its_metric_divides_no_other(chained: Database) -> None:
    assert best_row(chained).latency_ms == pytest.approx(0.64 * TTFT_MS, rel=CLOSE)
    assert best_row(chained, "tpot_ms").latency_ms == pytest.approx(0.95 * 0.98 * TPOT_MS, rel=CLOSE)


@pytest.mark.parametrize("steps", [1, 2])
def test_the_best_and_its_steps_are_in_the_campaigns_metric(steps: int, after_one: Database) -> None:
    if steps == 2:
        step(after_one, 1, SECOND, FIRST, tpot=0.98)
    with after_one.read() as session:
        found = best_of(session, session.get_one(Campaign, 1))
    assert found is not None
    assert (found.metric, found.chained) == ("ttft_ms", steps == 2)
    assert found.baseline_ms == pytest.approx(TTFT_MS, rel=CLOSE)
    assert found.best_ms == pytest.approx(0.8**steps * TTFT_MS, rel=CLOSE)
    assert found.latency_ms == pytest.approx(0.8 * TTFT_MS, rel=CLOSE), "as its own test timed it"
    assert [each.after_ms for each in found.steps] == pytest.approx(
        [0.8 ** (place + 1) * TTFT_MS for place in range(steps)], rel=CLOSE
    )
    assert (found.floor, found.overhead) == (None, ()), "a floor is of a token"


def test_what_is_told_of_the_best_names_its_metric(after_one: Database) -> None:
    with after_one.read() as session:
        outcome = campaign_outcome(session, 1)
        story = campaign_story(session, 1)
        text = as_markdown(report(session, 1, MADE))
        page = PAGE.live(PAGE.read(session, NOW, None), NOW)  # type: ignore[arg-type]
        said = [each for (each,) in session.query(Event.text).filter(Event.campaign_id == 1)]
    best = outcome["best"]
    assert best["metric"] == "ttft_ms"
    assert best["control_ttft_ms"] / best["ttft_ms"] == pytest.approx(best["speedup"], rel=1e-3)
    assert "ms to the first token against 20" in _best_words(best, outcome["baseline"])
    assert "</b> to the first token" in page
    assert "The least time by physics is not known here: no lone prompt was profiled." in page
    assert "per token" not in page
    assert "Time to the first token" in text
    assert "time of a token" not in text.lower()
    trial_0 = rf"{2 * TPOT_MS:.1f} ms to the first token, {TPOT_MS:.2f} ms a token"
    assert any(re.match(rf"Trial 0 is {trial_0} \(", each) for each in said), "what it is about comes first"
    assert re.match(trial_0, _baseline_taken(outcome["baseline"], best))
    lines = " ".join(line.text for chapter in story.chapters for line in chapter.lines)
    assert "takes 20.0 ms to the first token" in lines
    assert "ms a token" not in lines


def test_a_latency_of_several_words_begins_a_caption_and_a_head_with_a_capital(after_one: Database) -> None:
    best_row(after_one)  # the weights are no more called made up, and so latency stands against quality
    with after_one.read() as session:
        view = report(session, 1, MADE)
    of_requests = view.pareto.model_copy(update={"metric": "e2el_ms"})
    figure, front = against_quality(view.model_copy(update={"pareto": of_requests})).blocks
    assert isinstance(figure, Figure)
    assert figure.caption.startswith("End-to-end latency in ms against the change of bits per byte")
    assert isinstance(front, Table)
    assert ">End-to-end latency" in front.columns


def test_an_older_campaigns_best_that_told_no_control_of_its_metric_divides_its_own_time(
    after_one: Database,
) -> None:
    """Before, events told the control's time of a token alone."""
    with after_one.write() as session:
        for event in session.query(Event).filter(Event.kind == "campaign.best"):
            event.data = {
                k: v for k, v in (event.data or {}).items() if k not in ("metric", "control_ttft_ms")
            }
    with after_one.read() as session:
        found = best_of(session, session.get_one(Campaign, 1))
    assert found is not None
    assert (found.baseline_ms, found.best_ms) == pytest.approx((TTFT_MS, 0.8 * TTFT_MS), rel=CLOSE)
    assert best_row(after_one).latency_ms == pytest.approx(found.best_ms)


def to_their_end(record: LaunchRecord) -> LaunchRecord:
    """The same launch with times of whole requests too, for the verdict: the share is not taken from them."""
    first = [each for each in record.samples if each.metric is Metric.TTFT_MS]
    whole = [replace(each, metric=Metric.E2EL_MS) for each in first]
    return replace(record, samples=(*record.samples, *whole))


def test_of_whole_requests_the_loop_knows_the_first_tokens_share_of_the_best(tmp_path: Path) -> None:
    """The first token takes four fifths of its time, each further one half."""
    database, campaign_id = start(tmp_path, weights="dummy", **{"plan.metric": "e2el_ms"})
    measure_baseline(database, campaign_id, TPOT_MS)
    reader = DeskReader(database, campaign_id)
    before = reader.desk(reader.facts()).view
    assert before.best_first_token_share is None

    hypothesis = propose_change(database, campaign_id, FIRST, {}, metric="e2el_ms")
    experiment_id = dispatch(database, campaign_id, hypothesis)
    run_by_hand(database, experiment_id, lambda spec: [to_their_end(each) for each in sooner(0.5)(spec)])
    with database.write() as session:
        assert learn_test(session, experiment_id) == VerdictOutcome.SUPPORTED
    after = reader.desk(reader.facts()).view
    first, rest = 0.8 * TTFT_MS, 0.5 * TPOT_MS * (after.new_tokens - 1)
    assert after.best_first_token_share == pytest.approx(first / (first + rest), rel=CLOSE)
    assert after.first_token_share == before.first_token_share < after.best_first_token_share
    database.close()
