"""What the baseline takes in tests is told where it is another time, and other jobs only where they ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from math import exp, log

import pytest
from scipy.stats import ttest_ind

from dashboard.report.html import as_html
from dashboard.report.markdown import as_markdown
from db.states import ExperimentKind
from experiments.measurement.evidence import Stage
from knowledge.queries.baseline_in_tests import (
    BaselineInTestsView,
    BaselineLaunch,
    baseline_in_tests,
    told_of_baseline,
)
from knowledge.queries.facts import campaign_facts
from knowledge.queries.story import campaign_story
from knowledge.report.gathering import report
from knowledge.telling.facts import CampaignFacts
from knowledge.telling.summary import summarize
from tests.history.campaign_history import History
from tests.history.timed_baseline import BEGAN, LATER, OWN, Lab, a_loaded_lab

GPUS = ("cuda:0", "cuda:1")


def launches(times_ms: Sequence[float], beside: int | None = None) -> list[BaselineLaunch]:
    return [BaselineLaunch(log(each), beside) for each in times_ms]


def told(
    own: Sequence[BaselineLaunch],
    tests: Sequence[BaselineLaunch],
    min_effect: float = 0.03,
    devices: Sequence[str] = GPUS,
) -> BaselineInTestsView | None:
    return told_of_baseline(own, tests, "tpot_ms", min_effect, devices)


def test_other_jobs_are_named_with_the_time_beside_them_and_its_interval() -> None:
    found = told(launches(OWN, 0), [*launches(LATER, 3), *launches((2.7,), 1)])
    assert found is not None
    assert found.beside == (1, 3)
    assert found.sentence == (
        "Beside 1 to 3 other jobs of the same host the baseline takes 2.74 ms a token, "
        "+24.6 % [+19.2, +30.1] (6 launches of its configuration in tests against 3 with no other job): a "
        "test compares both its arms under that load; a campaign on one GPU (`--target cuda:0`) has none "
        "beside it."
    )


def test_the_interval_is_that_of_welch() -> None:
    found = told(launches(OWN, 0), launches(LATER, 3))
    assert found is not None
    theirs = ttest_ind([log(each) for each in LATER], [log(each) for each in OWN], equal_var=False)
    interval = theirs.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((exp(interval.low) - 1, exp(interval.high) - 1))
    assert found.change == pytest.approx(found.in_tests_ms / found.baseline_ms - 1)


@pytest.mark.parametrize(
    ("tests", "min_effect"),
    [
        (OWN, 0.03),  # no difference
        ((2.25, 2.27, 2.26), 0.03),  # one that is worth nothing
        ((1.9, 2.5, 3.1), 0.03),  # one that the interval does not tell
        (LATER, 0.25),  # one that this campaign does not ask for
        ((2.8,), 0.03),  # too few for an interval
        ((), 0.03),
    ],
)
def test_nothing_is_said_where_the_whole_interval_is_not_beyond_the_least_effect(
    tests: tuple[float, ...], min_effect: float
) -> None:
    assert told(launches(OWN, 0), launches(tests, 3), min_effect) is None
    assert told(launches(OWN), launches(tests), min_effect) is None


def test_one_launch_of_the_baseline_has_no_interval() -> None:
    assert told(launches(OWN[:1], 0), launches(LATER, 3)) is None


@pytest.mark.parametrize(
    ("own", "tests"),
    [
        (launches(OWN, 0), launches(LATER, 0)),  # nothing ran beside
        (launches(OWN, 2), launches(LATER, 3)),  # nor did the baseline run alone
        (launches(OWN), launches(LATER)),  # nobody knows
        (launches(OWN, 0), launches(LATER)),
    ],
)
def test_no_cause_is_named_where_other_jobs_do_not_tell_the_two_apart(
    own: list[BaselineLaunch], tests: list[BaselineLaunch]
) -> None:
    found = told(own, tests)
    assert found is not None
    assert found.beside is None
    assert found.sentence == (
        "In tests the baseline takes 2.75 ms a token, +24.9 % [+18.6, +31.6] (5 launches of its "
        "configuration against 3 when it was measured): a test compares both its arms as the machine is then."
    )


def test_a_faster_baseline_is_told_without_a_cause() -> None:
    found = told(launches(LATER, 0), launches(OWN, 3))
    assert found is not None
    assert (found.change < 0, found.beside) == (True, None)
    assert found.sentence.startswith("In tests the baseline takes 2.20 ms a token, \N{MINUS SIGN}20.0 %")


def test_tests_with_nothing_beside_them_are_left_out_where_other_jobs_are_named() -> None:
    found = told(launches(OWN, 0), [*launches(LATER, 1), *launches((2.2, 2.1), 0)])
    assert found is not None
    assert (found.launches, found.beside) == (len(LATER), (1, 1))
    assert found.sentence.startswith("Beside 1 other job of the same host")


def test_a_campaign_with_one_device_is_not_told_to_take_one_gpu() -> None:
    found = told(launches(OWN, 0), launches(LATER, 1), devices=("cuda:0",))
    assert found is not None
    assert found.sentence.endswith("under that load; one job at a time has none beside it.")


def test_launches_that_never_vary_are_told_apart_by_what_they_differ() -> None:
    found = told(launches((2.0, 2.0), 0), launches((2.5, 2.5), 1))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.25, 0.25))


def _measured(facts: CampaignFacts) -> CampaignFacts:
    """The facts with what the campaign's outcome says of its baseline."""
    return replace(facts, outcome={"baseline": {"tpot_ms": 2.2}})


@pytest.fixture
def lab(history: History) -> Lab:
    return a_loaded_lab(history)


def test_jobs_of_the_same_host_and_time_are_counted_and_no_others(lab: Lab) -> None:
    lab.job("other/cuda:0", BEGAN + timedelta(minutes=20))
    lab.job("lab/modal:H100!", BEGAN + timedelta(minutes=20))
    lab.job("lab/cuda:2", BEGAN + timedelta(minutes=30))
    found = lab.read()
    assert found is not None
    assert (found.launches, found.baseline_launches, found.beside) == (5, 3, (1, 1))
    assert (found.metric, found.low > 0.03) == ("tpot_ms", True)
    lab.job("lab/cuda:3", BEGAN + timedelta(minutes=18), running=True)
    more = lab.read()
    assert more is not None
    assert more.beside == (2, 2)


def test_a_job_beside_the_baseline_s_own_launches_leaves_the_cause_open(lab: Lab) -> None:
    lab.job("lab/cuda:1", BEGAN)
    found = lab.read()
    assert found is not None
    assert (found.launches, found.baseline_launches, found.beside) == (5, 3, None)


def test_rented_machines_have_no_neighbours_here(history: History) -> None:
    made = Lab(history, target="modal:H100!")
    made.add(Stage.NOISE, 0, OWN)
    made.add(Stage.QUICK, 20, LATER)
    made.job("lab/cuda:1", BEGAN + timedelta(minutes=20))
    found = made.read()
    assert found is not None
    assert found.beside is None


def test_the_attempt_that_counts_is_compared_and_no_other_target(history: History) -> None:
    made = Lab(history)
    made.add(Stage.NOISE, 0, OWN)
    given_up = made.add(Stage.QUICK, 20, LATER)
    assert made.read() is not None
    made.add(Stage.QUICK, 20, OWN, None, attempt=2, experiment_id=given_up)
    assert made.read() is None
    made.add(Stage.QUICK, 40, LATER, target="cuda:another GPU")
    assert made.read() is None


def test_what_was_run_once_more_later_is_none_of_its_tests(history: History) -> None:
    made = Lab(history)
    made.add(Stage.NOISE, 0, OWN)
    made.add(Stage.QUICK, 20, OWN)
    made.add(Stage.QUICK, 600, 4 * LATER, kind=ExperimentKind.REPRODUCE)
    assert made.read() is None


def test_a_campaign_without_a_baseline_or_without_tests_of_it_says_nothing(history: History) -> None:
    with history.database.read() as session:
        assert baseline_in_tests(session, history.campaign_id) is None
    made = Lab(history)
    made.add(Stage.NOISE, 0, OWN)
    assert made.read() is None


def test_summary_story_and_report_say_it_where_they_tell_the_baseline_s_time(lab: Lab) -> None:
    with lab.history.database.read() as session:
        facts = campaign_facts(session, lab.history.campaign_id)
        story = campaign_story(session, lab.history.campaign_id)
        view = report(session, lab.history.campaign_id, BEGAN)
    said = facts.baseline_in_tests
    assert said is not None
    plain = said.sentence.replace("`", "")
    assert "(--target cuda:0)" in plain
    summary = summarize(_measured(facts))
    assert summary.best.lines[:2] == ("The baseline takes 2.20 ms a token.", plain)
    assert summary.model_dump(mode="json")["baseline_in_tests"]["launches"] == len(LATER)
    began = {each.title: each for each in story.chapters}["How it began"]
    assert plain in [each.text for each in began.lines]
    unescaped = as_markdown(view).replace("\\", "")
    assert unescaped.partition("## 1")[0].count(said.sentence) == 1
    assert as_html(view).partition("<section")[0].count("<code>--target cuda:0</code>) has none") == 1
    assert view.model_dump(mode="json")["baseline_in_tests"]["beside"] == [1, 1]


def test_they_say_nothing_where_tests_take_as_long(history: History) -> None:
    made = Lab(history)
    made.add(Stage.NOISE, 0, OWN)
    made.add(Stage.QUICK, 20, OWN)
    with history.database.read() as session:
        facts = campaign_facts(session, history.campaign_id)
        view = report(session, history.campaign_id, BEGAN)
    assert summarize(_measured(facts)).best.lines == ("The baseline takes 2.20 ms a token.",)
    assert summarize(facts).baseline_in_tests is None
    assert "launches of its configuration" not in as_markdown(view)
