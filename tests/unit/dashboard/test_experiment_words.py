"""What leads an experiment's page, and the tests of quality and grounds for belief that stand on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.pages.compare import CompareFilters
from dashboard.pages.experiment_parts import arm_rows, stage_bars
from dashboard.pages.experiment_words import change_words, first_clause, words_of
from dashboard.pages.experiments import ExperimentsFilters, Order
from db.states import Arm, VerdictOutcome
from knowledge.queries.measured.belief import CheckState, checks_of
from knowledge.queries.measured.distribution import MOST_STEPS, distribution
from knowledge.queries.measured.experiment_detail import ExperimentDetail, experiment_detail
from knowledge.queries.measured.experiments import ExperimentSort
from knowledge.queries.measured.quality_tests import quality_tests
from knowledge.queries.view import EffectView
from tests.history.campaign_history import History, a_full_history

NARROW = "\u202f"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    found = a_full_history(Path(tmp_path_factory.mktemp("words")))
    found.judge(1, VerdictOutcome.REFUTED, effect=(0.1, 0.05, 0.15), reproduces=1)
    yield found
    found.close()


def detail(history: History, number: int) -> ExperimentDetail:
    with history.database.read() as session:
        return experiment_detail(session, number)


@pytest.mark.parametrize(
    ("effect", "figure"),
    [
        (EffectView(relative=-0.76), ("TPOT", f"76.0{NARROW}% lower")),
        (EffectView(relative=0.018), ("TPOT", f"1.8{NARROW}% higher")),
        (EffectView(relative=-0.5, metric="tokens_per_s"), ("Tokens per second", f"100.0{NARROW}% higher")),
        (EffectView(relative=-0.02, metric="task_correct"), ("Tasks solved", f"2.0{NARROW}points higher")),
    ],
)
def test_a_change_is_told_in_the_direction_of_its_metric(effect: EffectView, figure: tuple[str, str]) -> None:
    assert change_words(effect) == figure


@pytest.mark.parametrize(
    ("number", "symbol", "sentence"),
    [
        (1, "supported", f"Supported. TPOT is 10.0{NARROW}% lower."),
        (2, "refuted", f"Refuted. TPOT is 20.0{NARROW}% higher."),
        (3, "infeasible", "Infeasible. The candidate did not start."),
        (4, "inconclusive", f"Inconclusive. TPOT may be 2.0{NARROW}% lower."),
        (5, "testing", "Running. Quick: block 3 of 8."),
    ],
)
def test_the_sentence_is_the_verdict(history: History, number: int, symbol: str, sentence: str) -> None:
    words = words_of(detail(history, number))
    assert words.symbol == symbol
    assert f"{words.outcome}. {words.before}{words.figure}{words.after}" == sentence


def test_the_first_clause_ends_where_a_sentence_pauses() -> None:
    assert first_clause("No C++ compiler: it failed.") == "No C++ compiler"
    assert first_clause("It costs 3.5 s; too much.") == "It costs 3.5 s"
    assert first_clause("Over.") == "Over"


def test_tests_of_quality_are_in_units_with_their_state() -> None:
    told = {
        "state": "undecided",
        "bits_per_byte_relative": {
            "difference": 0.004,
            "low": 0.001,
            "high": 0.02,
            "margin": 0.01,
            "count": 32,
        },
        "task_points_lost": {"difference": 0.0, "low": -1.0, "high": 1.0, "margin": 2.0, "count": 300},
        "kl_nats": {"difference": 2.0, "low": 1.5, "high": 2.5, "margin": 1.0, "count": 32},
    }
    found = quality_tests(told)
    assert [(each.name, each.unit, each.state) for each in found] == [
        ("Bits per byte", "%", "undecided"),
        ("Tasks lost", "points", "held"),
        ("KL to the reference", "nat/token", "worse"),
    ]
    assert found[0].difference == pytest.approx(0.4)
    assert quality_tests(None) == quality_tests({"state": "held"}) == ()


def test_grounds_for_belief_say_what_fails_and_what_is_open(history: History) -> None:
    found = detail(history, 1)
    states = {each.claim: each.state for each in checks_of(found, (-10.0, 2.0), ())}
    assert states == {
        "Registered before the first sample": CheckState.HOLDS,
        "The installed judge agrees": CheckState.OPEN,  # this verdict is of an earlier one, and has no job
        "The arms differ only by the claim": CheckState.HOLDS,
        "2 fresh launch pairs agree on the direction": CheckState.FAILS,
        "Quality held": CheckState.HOLDS,
        "Reproduced": CheckState.FAILS,
    }
    assert checks_of(detail(history, 5), (), ()) == ()
    alone = found.model_copy(update={"fresh_runs": (), "reproduced_by": ()})
    assert {each.claim: each.state for each in checks_of(alone, (-10.0,), ())}["Reproduced"] == "open"


def test_both_arms_stand_line_by_line_with_the_differences_first(history: History) -> None:
    rows = arm_rows(detail(history, 1))
    knobs = [each for each in rows if each.is_knob]
    assert (knobs[0].name, knobs[0].differs) == ("serving.threads", True)
    assert not any(each.differs for each in knobs[1:])
    resolved = {each.name: each for each in rows if not each.is_knob}
    assert (resolved["threads"].control, resolved["threads"].candidate) == (2, 1)
    assert resolved["threads"].differs
    assert not resolved["versions.torch"].differs


def test_stages_lie_within_the_time_they_took(history: History) -> None:
    (bar,) = stage_bars(detail(history, 1).stages)
    assert (bar.x, bar.width, bar.outcome) == (0.0, 100.0, "done")
    assert stage_bars(()) == ()


def test_a_distribution_of_many_samples_is_thinned_and_keeps_its_ends() -> None:
    values = [float(number) for number in range(5000)]
    found = distribution(Arm.CONTROL, "tpot_ms", "ms", values)
    assert len(found.steps) == MOST_STEPS
    assert found.steps[0] == (0.0, 1 / 5000)
    assert found.steps[-1] == (4999.0, 1.0)
    assert found.median == 2499.5
    assert len(distribution(Arm.CONTROL, "tpot_ms", "ms", values[:7]).steps) == 7


def test_addresses_of_lists_say_all_and_begin_on_the_first_page() -> None:
    asked = ExperimentsFilters(q="a b&c", state=("done",), offset=100)
    assert asked.href() == "/experiments?q=a+b%26c&state=done"
    assert asked.href(offset=50) == "/experiments?q=a+b%26c&state=done&offset=50"
    assert ExperimentsFilters().sorted_by("took") == "/experiments?sort=took"
    turned = ExperimentsFilters(sort=ExperimentSort.TOOK)
    assert turned.sorted_by("took") == "/experiments?sort=took&order=asc"
    assert ExperimentsFilters(sort=ExperimentSort.TOOK, order=Order.ASCENDING).sorted_by("took") == (
        "/experiments?sort=took"
    )


def test_what_is_compared_comes_from_labels_or_from_ticks_and_each_once() -> None:
    asked = CompareFilters(ids="E-0001, E-2,,E-0001", id=("E-0003",))
    assert asked.labels == ("E-0001", "E-2", "E-0003")
    assert asked.without("E-2") == "/compare?ids=E-0001,E-0003"
    assert asked.href(differences=True) == "/compare?ids=E-0001,E-2,E-0003&differences=1"
