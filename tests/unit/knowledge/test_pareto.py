"""Latency against quality: ratios that lead to the baseline, and what a campaign's view says."""

from __future__ import annotations

from math import hypot, isclose
from pathlib import Path

import pytest
from sqlalchemy import select, update

from db.event_kinds import EventKind
from db.events import append as tell
from db.models import Campaign, Experiment, Verdict
from db.session import Database
from db.states import VerdictOutcome
from knowledge.queries.measured.launch_means import launch_means
from knowledge.queries.pareto import pareto
from knowledge.queries.pareto_ratios import Ratio, chained
from knowledge.queries.present.now_reached import best_of
from tests.history.campaign_history import TPOT_MS, History

BASE, A, B, LOST = 1, 2, 3, 9


def ratio(
    experiment: int, control: int, candidate: int, middle: float | None, half: float = 0.1, launches: int = 4
) -> Ratio:
    ends = (None, None) if middle is None else (middle - half, middle + half)
    return Ratio(experiment, control, candidate, middle, *ends, launches, 0.001, 0.0, 0.002)


def test_a_chain_adds_its_ratios_and_widens_in_quadrature() -> None:
    found = chained([ratio(1, BASE, A, -0.5, 0.03), ratio(2, A, B, -0.2, 0.04)], BASE)
    assert isclose(found[B].log_ratio, -0.7)
    low = found[B].low_log
    assert low is not None
    assert isclose(found[B].log_ratio - low, hypot(0.03, 0.04))


def test_what_nothing_leads_to_is_left_out() -> None:
    assert chained([ratio(1, LOST, A, -0.5), ratio(2, BASE, B, None)], BASE) == {}


def test_the_experiment_with_more_launches_speaks_and_of_equals_the_newest() -> None:
    found = chained(
        [ratio(1, BASE, A, -0.5, launches=6), ratio(2, BASE, A, -0.4), ratio(3, BASE, A, -0.3, launches=6)],
        BASE,
    )[A]
    assert (found.experiment_id, found.experiments) == (3, 3)


def test_the_best_stands_where_the_test_that_made_it_has_it_whatever_else_was_measured_of_it() -> None:
    ratios = [ratio(1, BASE, A, -0.4), ratio(2, BASE, A, -0.5, launches=10), ratio(3, A, B, -0.1)]
    found = chained(ratios, BASE, best_experiment_id=1)
    assert (found[A].experiment_id, found[A].log_ratio, found[A].experiments) == (1, -0.4, 2)
    assert isclose(found[B].log_ratio, -0.5), "and what is put on top of it from there"


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A baseline that was timed, a faster and a slower change, and one whose quality fell."""
    made = History(tmp_path)
    for threads, effect, lost in ((1, -0.2, 0.002), (4, 0.3, 0.004), (8, -0.4, 0.05)):
        judged = made.judge(
            made.propose({"serving.threads": threads}),
            VerdictOutcome.SUPPORTED,
            effect=(effect, effect - 0.02, effect + 0.02),
        )
        quality = {"difference": lost, "low": lost - 0.001, "high": lost + 0.001, "margin": 0.01}
        with made.database.write() as session:
            verdict = session.get_one(Verdict, judged.verdict_id)
            verdict.quality = {"state": "held", "bits_per_byte_relative": quality}
            experiment = session.get_one(Experiment, judged.experiment_id)
            campaign = session.get_one(Campaign, made.campaign_id)
            campaign.baseline_configuration_id = experiment.control_configuration_id
    return made


def test_the_front_is_of_all_configurations_and_says_what_is_beyond_the_limit(history: History) -> None:
    with history.database.read() as session:
        found = pareto(session, history.campaign_id)
    history.close()
    assert [row.experiment for row in found.front] == ["E-0003", "E-0001", None]
    assert [row.within_limit for row in found.front] == [False, True, True]
    assert [point.experiment for point in found.points] == ["E-0002"]
    assert found.configurations == 3
    assert found.baseline_ms is not None
    assert TPOT_MS <= found.baseline_ms <= TPOT_MS + 0.3
    assert isclose(found.front[1].latency_ms, 0.8 * found.baseline_ms)
    low, high = found.front[1].low_ms, found.front[1].high_ms
    assert low is not None
    assert high is not None
    assert low < found.front[1].latency_ms < high


def test_a_rerun_with_more_launches_and_another_effect_moves_nothing_and_the_best_has_one_time(
    history: History,
) -> None:
    """As a recipe's check and a rerun of E-0002 did, both left open, in a campaign whose best it was."""
    again = history.judge(
        1, VerdictOutcome.INCONCLUSIVE, effect=(-0.46, -0.7, -0.02), reproduces=1, learn=False
    )
    with history.database.write() as session:
        before = session.scalars(select(Verdict).where(Verdict.experiment_id == 1)).one()
        rerun = session.get_one(Verdict, again.verdict_id)
        rerun.quality, rerun.launches = before.quality, before.launches + 20
        session.get_one(Campaign, history.campaign_id).best_experiment_id = 1
        best = {
            "experiment": "E-0001",
            "speedup": 1.25,
            "speedup_interval": [1.2, 1.3],
            "speedup_basis": "E-0001",
            "tpot_ms": 8.04,
            "control_tpot_ms": 10.1,
            "configuration": {},
        }
        tell(session, EventKind.CAMPAIGN_BEST, "The best.", campaign_id=history.campaign_id, data=best)
        baseline = {"baseline": {"tpot_ms": 10.4, "configuration": {}}}
        tell(session, EventKind.CAMPAIGN_BASELINE, "Trial 0.", campaign_id=history.campaign_id, data=baseline)
    with history.database.read() as session:
        found = pareto(session, history.campaign_id)
        other = best_of(session, session.get_one(Campaign, history.campaign_id))
    history.close()
    assert other is not None
    (row,) = [each for each in found.front if each.is_best]
    assert (row.experiment, row.latency_ms) == ("E-0001", 8.04)
    assert (found.baseline_ms, row.latency_ms) == (other.baseline_ms, other.best_ms)
    assert found.unplaced == 0


def test_another_metric_is_the_mean_over_pairs_of_launches(history: History) -> None:
    with history.database.read() as session:
        found = pareto(session, history.campaign_id, "itl_ms")
    history.close()
    assert all(isclose(row.latency_ms, TPOT_MS) for row in found.front)  # every arm here has the same
    assert found.metric == "itl_ms"
    assert found.floor is None


def test_launches_are_read_once_until_another_experiment_is_done(history: History) -> None:
    database: Database = history.database
    with database.read() as session:
        before = launch_means(session, history.campaign_id, "tpot_ms")
        assert launch_means(session, history.campaign_id, "tpot_ms") is before
    history.judge(history.propose({"serving.dtype": "bfloat16"}), VerdictOutcome.REFUTED)
    with database.read() as session:
        after = launch_means(session, history.campaign_id, "tpot_ms")
    history.close()
    assert set(before) < set(after)
    assert len(after) == len(before) + 2


def test_confounded_verdicts_place_nothing(history: History) -> None:
    with history.database.write() as session:
        session.execute(update(Verdict).values(outcome=VerdictOutcome.CONFOUNDED))
    with history.database.read() as session:
        found = pareto(session, history.campaign_id)
    history.close()
    assert [row.is_baseline for row in found.front] == [True]
    assert found.points == ()
