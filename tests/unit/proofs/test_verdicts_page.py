"""The page on verdicts says what was measured: counts, missed targets with a reason, and what was not."""

import math

import pytest

from experiments.measurement.judging import Outcome
from tests.proofs.counting import Share, Workers, percent, seed_of
from tests.proofs.discovery_rate import discoveries
from tests.proofs.hypothesis_streams import LENGTH, Kind, digest, stream
from tests.proofs.page import Made, page
from tests.proofs.real_equal_arms import RealSeries
from tests.proofs.simulated_rates import EVERYTHING, PIECE, Counts, pieces, plan_of
from tests.proofs.stopping_early import Compared
from tests.proofs.targets import Power, Results, Stopping, targets
from tests.simulation.experiment import DEFAULT_PLAN

MADE = Made(command="command", seed=7, quick=False, wall_s=1.0, processor_s=2.0, processes=2)
FROZEN = "d9fbcd50963e2c718b2a2882ab5d36f5c168efeda701aba8e03eb72eec54d969"


def compared(
    early: Outcome,
    full: Outcome,
    kind: Kind = Kind.LARGE,
    seconds: tuple[float, float] = (50.0, 100.0),
) -> Compared:
    worth = kind in (Kind.LARGE, Kind.MEDIUM)
    return Compared(kind, worth, early, full, full, *seconds)


def results(
    supported: int = 0,
    held: int = 1000,
    found: int = 95,
    series: RealSeries | None = None,
    streams: tuple[tuple[Compared, ...], ...] = ((compared(Outcome.SUPPORTED, Outcome.SUPPORTED),),),
) -> Results:
    equal = Counts(1000, supported, 700, held, held, 4000)
    power = Power(DEFAULT_PLAN, 0.05, 0.01, Counts(100, found, 0, 100, 100, 450), usual=True)
    rates = {(a, b): discoveries(streams) for a in (True, False) for b in (True, False)}
    return Results(equal, {"hard": equal}, [power], streams, rates, series, 0.01, DEFAULT_PLAN)


def a_series(first_looks: int = 100) -> RealSeries:
    return RealSeries(
        label="C-3",
        engine="reference",
        model="reference",
        target="a machine",
        metric="tpot_ms",
        launches=2 * first_looks,
        launch_sd_log=0.006,
        launch_sd_bounds=(0.005, 0.007),
        freedom=first_looks,
        judge="launch-interval 4",
        min_effect=0.03,
        experiments=25,
        experiments_supported=0,
        experiments_refuted=20,
        first_looks=first_looks,
        first_supported=0,
        beyond=1,
    )


def state(told: str, line: str) -> str:
    [row] = [row for row in told.splitlines() if row.startswith(f"| {line}")]
    return row.rsplit("|", 2)[1].strip()


def test_met_targets_are_told_with_counts_and_exact_intervals() -> None:
    told = page(results(), MADE)
    assert state(told, "equal arms called supported, simulated") == "yes"
    assert "0 % (0 of 1000; 0 % to 0.368 %)" in told
    assert "`command`" in told
    assert "seed 7" in told
    assert "**no**" not in told


@pytest.mark.parametrize(
    ("missed", "line", "words"),
    [
        (results(supported=11), "equal arms called supported, simulated", "11 of 1000"),
        (results(held=949), "interval holds the truth", "949 of 1000"),
        (results(found=89), "a true gain of 5 % found", "the gain lies 2.08 % beyond min_effect"),
        (
            results(streams=((compared(Outcome.SUPPORTED, Outcome.SUPPORTED, seconds=(71, 100)),),)),
            "seconds saved",
            "29.0 %",
        ),
        (
            results(streams=((compared(Outcome.INCONCLUSIVE, Outcome.SUPPORTED),),)),
            "wrongly stopped",
            "1 of 1",
        ),
        (
            results(streams=((compared(Outcome.SUPPORTED, Outcome.SUPPORTED, Kind.EDGE),),)),
            "false discovery rate",
            "1 of 1 false",
        ),
        (results(series=a_series(60)), "equal arms called supported, on the ref", "60 pairs were measured"),
    ],
)
def test_a_missed_target_is_told_as_it_is(missed: Results, line: str, words: str) -> None:
    told = page(missed, MADE)
    assert state(told, line) == "**no**"
    [row] = [row for row in told.splitlines() if row.startswith(f"| {line}")]
    assert words in row
    assert sum(each.met is False for each in targets(missed)) == 1


def test_what_was_not_measured_is_said_plainly() -> None:
    told = page(results(), MADE)
    assert state(told, "equal arms called supported, on the reference engine") == "–"
    assert "**Not measured**: no database with a series was given." in told
    assert "assumed, for no series was given" in " ".join(told.split())


def test_a_measured_series_is_told_with_its_noise() -> None:
    told = page(results(series=a_series()), MADE)
    assert "Not measured" not in told
    assert "0 % (0 of 25; 0 % to 13.7 %)" in told
    assert "1.00 % (1 of 100; 0.0253 % to 5.45 %)" in told
    assert state(told, "equal arms called supported, on the reference engine") == "yes"
    assert "as measured by series C-3" in " ".join(told.split())


def test_a_quick_run_says_that_it_is_one() -> None:
    quick = Made(command="", seed=1, quick=True, wall_s=1, processor_s=1, processes=1)
    assert "**A quick run" in page(results(), quick)
    assert "**A quick run" not in page(results(), MADE)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 100, 0, 0.0362167),
        (1, 10, 0.0025286, 0.4450161),
        (5, 10, 0.1870860, 0.8129140),
        (10, 10, 0.6915029, 1),
    ],
)
def test_the_binomial_interval_is_the_exact_one(count: int, of: int, low: float, high: float) -> None:
    assert Share(count, of).bounds() == pytest.approx((low, high), abs=1e-6)


def test_shares_are_told_with_three_digits() -> None:
    assert [percent(each) for each in (0, 0.000367, 0.0123, 0.5, 1)] == [
        "0 %",
        "0.0367 %",
        "1.23 %",
        "50.0 %",
        "100 %",
    ]


def test_wrongly_stopped_is_a_truth_that_only_the_full_schedule_found() -> None:
    stopping = Stopping(
        [
            compared(Outcome.SUPPORTED, Outcome.SUPPORTED),
            compared(Outcome.INCONCLUSIVE, Outcome.SUPPORTED),
            compared(Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE),
            compared(Outcome.REFUTED, Outcome.REFUTED, Kind.NOTHING),
            compared(Outcome.SUPPORTED, Outcome.REFUTED, Kind.NOTHING),
        ]
    )
    assert (stopping.wrongly().count, stopping.wrongly().of) == (2, 4)
    assert stopping.saved == pytest.approx(0.5)


def test_false_discoveries_are_counted_by_stream() -> None:
    right = compared(Outcome.SUPPORTED, Outcome.SUPPORTED)
    wrong = compared(Outcome.SUPPORTED, Outcome.SUPPORTED, Kind.LOSSY)
    missed = compared(Outcome.INCONCLUSIVE, Outcome.SUPPORTED)
    found = discoveries([(right, wrong), (missed,), (right, right)])
    assert (found.supported, found.false, found.worth_having, found.found) == (4, 1, 4, 3)
    assert found.rate == pytest.approx(0.5 / 3)


def test_the_streams_are_frozen() -> None:
    assert digest(range(60)) == FROZEN
    assert len(stream(0)) == LENGTH
    gains = {each.kind: each.gain for each in stream(0, 500)}
    assert gains[Kind.NOTHING] == 0
    assert gains[Kind.HARMFUL] < 0 < 0.1 <= gains[Kind.LARGE]
    assert all(each.truth.effect_log == math.log(1 - each.gain) for each in stream(3))
    assert not any(each.worth_having(0.03) for each in stream(0, 500, hardest=True) if each.kind is Kind.EDGE)


def test_the_work_is_cut_alike_for_any_number_of_processes() -> None:
    cut = pieces(plan_of(4), EVERYTHING, 2 * PIECE + 1, seed=1, place=0)
    assert [piece.experiments for piece in cut] == [PIECE, PIECE, 1]
    assert len({piece.seed for piece in cut}) == 3
    keys = [(1, 2), (3, 4), (5, 6)]
    with Workers(1) as one, Workers(2) as two:
        assert one.map(_seed, keys) == two.map(_seed, keys) == [seed_of(*key) for key in keys]


def _seed(key: tuple[int, int]) -> int:
    return seed_of(*key)
