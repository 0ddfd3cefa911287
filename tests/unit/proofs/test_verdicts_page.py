"""The page on verdicts says what was measured: counts, missed targets with a reason, and what was not."""

import math
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from agent.judge.noninferiority import Quality
from agent.judge.quality import quality_report
from agent.plan.length import LEAST_PAIRS
from experiments.measurement.evidence import Arm, Metric, NoiseProfile
from experiments.measurement.judging import Evaluate, Outcome, Screen
from tests.proofs.counting import Share, Workers, percent, seed_of
from tests.proofs.discovery_rate import discoveries
from tests.proofs.hypothesis_streams import LENGTH, Kind, Mixture, digest, stream
from tests.proofs.page import Made, page
from tests.proofs.real_equal_arms import RealSeries
from tests.proofs.shared_profile import SharedProfile
from tests.proofs.simulated_rates import EVERYTHING, PIECE, Counts, TimeNoise, pieces, plan_of
from tests.proofs.stopping_early import Compared
from tests.proofs.targets import LaterPower, Power, Results, Stopping, targets
from tests.proofs.verdicts import dispatched, power_plans
from tests.simulation.experiment import DEFAULT_PLAN, PRUNED, SimulatedExperiment, Truth

NOTHING = NoiseProfile("target", Metric.TPOT_MS, 0, 0, None)
MADE = Made(command="command", seed=7, quick=False, wall_s=1.0, processor_s=2.0, processes=2)
FROZEN = "2d0d4e453d0ad3c151b211d2f3a5ca8a4a0e26e3052f6387ec0b586864cf3e04"


def compared(
    early: Outcome,
    full: Outcome,
    kind: Kind = Kind.LARGE,
    seconds: tuple[float, float] = (50.0, 100.0),
) -> Compared:
    worth = kind in (Kind.LARGE, Kind.MEDIUM)
    return Compared(kind, worth, early, full, full, *seconds)


def by_t(early: Outcome, full_t: Outcome, full: Outcome = Outcome.INCONCLUSIVE) -> Compared:
    """A large gain where the full schedule says another thing by Student's t."""
    return replace(compared(early, full), full_t=full_t)


AT_LEVEL = Share(5, 100)


def results(
    supported: int = 0,
    held: int = 1000,
    found: int = 95,
    series: tuple[RealSeries, ...] = (),
    streams: tuple[tuple[Compared, ...], ...] = ((compared(Outcome.SUPPORTED, Outcome.SUPPORTED),),),
    lossy: tuple[tuple[Compared, ...], ...] = ((),),
    at_margin: Share = AT_LEVEL,
) -> Results:
    equal = Counts(1000, supported, 700, held, held, 4000)
    counts = Counts(100, found, 0, 100, 100, 450)
    power = [
        Power(plan_of(4), 0.05, TimeNoise(0.01), counts),
        Power(plan_of(16, 0.02), 0.05, TimeNoise(0.01), counts, "test 1 of a campaign of hours"),
    ]
    later = [
        LaterPower(
            "hours", test, before, Power(plan_of(16, support), gain, TimeNoise(0.01), counts, f"test {test}")
        )
        for test, before, support in ((1, 0, 0.02), (5, 0, 0.002), (20, 0, 0.0002), (20, 3, 0.0007))
        for gain in (0.05, 0.10)
    ]
    quiet = discoveries([()])
    return Results(
        equal=equal,
        conditions={"hard": equal},
        power=power,
        calm=[Power(plan_of(4), 0.05, TimeNoise(0.02), counts)],
        later=later,
        streams=streams,
        rates={
            (Mixture.USUAL, True): discoveries(streams),
            (Mixture.HARDEST, True): quiet,
            (Mixture.HARDEST, False): quiet,
            (Mixture.AT_MARGIN, True): discoveries(lossy),
        },
        shared=[SharedProfile(2, [Counts(30, 1, 0, 29, 30, 90), Counts(30, 4, 0, 20, 30, 90)])],
        scarce=quiet,
        at_margin=at_margin,
        series=series,
        noise=TimeNoise(0.01),
        plan=DEFAULT_PLAN,
    )


def a_series(experiments: int = 100, supported: int = 0, held: int = 96) -> RealSeries:
    first_looks = 4 * experiments
    return RealSeries(
        label="C-3",
        engine="reference",
        model="reference",
        target="a machine",
        configuration="serving.threads=1",
        workload="128 tokens in, 48 out",
        host="2 of 2 cores",
        metric="tpot_ms",
        launches=2 * first_looks,
        launch_sd_log=0.006,
        launch_sd_bounds=(0.005, 0.007),
        noise=TimeNoise(0.006),
        freedom=first_looks,
        judge="launch-interval 4",
        min_effect=0.03,
        experiments=experiments,
        experiments_supported=supported,
        experiments_refuted=20,
        held_everywhere=held,
        first_looks=first_looks,
        first_held=first_looks - 3,
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
        (results(held=949), "interval holds the truth at every look |", "949 of 1000"),
        (results(found=89), "a true gain of 5 % found", "the gain lies 2.08 % beyond min_effect"),
        (
            results(streams=((compared(Outcome.SUPPORTED, Outcome.SUPPORTED, seconds=(71, 100)),),)),
            "seconds saved",
            "29.0 %",
        ),
        (
            results(streams=((by_t(Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE, Outcome.SUPPORTED),),)),
            "wrongly stopped, of the truths that the full schedule found, judged as",
            "1 of 1",
        ),
        (
            results(streams=((by_t(Outcome.INCONCLUSIVE, Outcome.SUPPORTED),),)),
            "wrongly stopped, of the truths that the full schedule found, by Student's t",
            "1 of 1",
        ),
        (
            results(streams=((compared(Outcome.SUPPORTED, Outcome.SUPPORTED, Kind.EDGE),),)),
            "false in time among the supported, with online control, usual",
            "1 of 1 false",
        ),
        (results(at_margin=Share(15, 100)), "a loss of exactly the margin", "15 of 100"),
        (results(series=(a_series(supported=2),)), "equal arms called supported, on the ref", "2 of 100"),
        (results(series=(a_series(held=88),)), "interval holds the truth at every look, on the", "88 of 100"),
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
    assert "**Not measured**: no series was given." in told
    assert "assumed, for no series was given" in " ".join(told.split())


REAL = ("equal arms called supported, on the", "interval holds the truth at every look, on the")


def test_a_measured_series_is_told_with_its_noise_and_its_coverage() -> None:
    told = page(results(series=(a_series(),)), MADE)
    assert "Not measured" not in told
    assert "0 % (0 of 100; 0 % to 3.62 %)" in told
    assert "96.0 % (96 of 100; 90.1 % to 98.9 %)" in told
    assert "99.2 % (397 of 400;" in told
    assert [state(told, line) for line in REAL] == ["yes", "yes"]
    assert "as measured by C-3" in " ".join(told.split())
    assert "On a calm machine, for comparison: launches that vary by 2.00 %" in " ".join(told.split())


def test_series_on_several_grounds_are_told_each_and_together() -> None:
    other = replace(a_series(20, held=20), label="C-9", launch_sd_log=0.03)
    told = page(results(series=(a_series(), other)), MADE)
    assert "100 % (20 of 20;" in told
    assert "96.7 % (116 of 120;" in told
    assert "as measured by C-3" in " ".join(told.split())
    assert [state(told, line) for line in REAL] == ["yes", "yes"]


def test_a_series_of_too_few_whole_experiments_meets_nothing_however_many_pairs_it_has() -> None:
    """A pair alone can't be called supported, so it is no comparison that could fail."""
    told = page(results(series=(a_series(25, held=25),)), MADE)
    assert [state(told, line) for line in REAL] == ["**no**", "**no**"]
    assert "0 % (0 of 25; 0 % to 13.7 %); the 200 launches make 25 experiments" in told


def test_a_loss_of_quality_is_counted_apart_from_the_time_that_is_controlled() -> None:
    lossy = compared(Outcome.SUPPORTED, Outcome.SUPPORTED, Kind.AT_MARGIN)
    told = page(results(lossy=((lossy, compared(Outcome.SUPPORTED, Outcome.SUPPORTED)),)), MADE)
    assert state(told, "false in quality among the supported") == "–"
    [row] = [row for row in told.splitlines() if row.startswith("| hardest in quality")]
    assert row.split(" | ")[2:4] == ["0 % (0 of 2 false)", "50.0 % (1 of 2 false)"]


def test_what_a_campaign_dispatches_has_rows_of_its_own_and_other_plans_have_none() -> None:
    told = page(results(), MADE)
    assert state(told, "a true gain of 5 % found by test 1 of a campaign of hours (16 + 2 pairs)") == "yes"
    assert sum(row.startswith("| a true gain of 5 %") for row in told.splitlines()) == 1
    assert "| 16 | 2 | 2.00 % (test 1 of a campaign of hours) |" in told
    assert "| 4 | 2 | 5.00 % |" in told


def test_the_plans_at_alpha_are_those_asked_for_and_those_of_campaigns() -> None:
    plans = power_plans([8])
    assert [plan.full_pairs for plan in plans] == [LEAST_PAIRS, 8, DEFAULT_PLAN.full_pairs]
    assert all(plan.support_alpha is None for plan in plans)


def test_targets_are_of_the_first_test_and_of_a_later_one_without_a_discovery() -> None:
    assert [each.who for each in dispatched(results().later)] == ["test 1", "test 5"]
    assert all(each.gain == 0.05 for each in dispatched(results().later))


def test_a_later_test_is_told_with_its_level_and_the_power_of_both_gains() -> None:
    told = page(results(found=95), MADE)
    part = told[told.index("## Later tests of a campaign") :]
    [strict] = [row for row in part.splitlines() if row.startswith("| hours | 20 | 0 |")]
    assert "| 0.0200 % | ±" in strict
    assert strict.count("95.0 % (95 of 100;") == 2
    [lax] = [row for row in part.splitlines() if row.startswith("| hours | 20 | 3 |")]
    reaches = [float(row.split("±")[1].split(" ")[0]) for row in (lax, strict)]
    assert reaches[0] < reaches[1]
    assert "2.08 % (of 5 %) and 7.49 % (of 10 %)" in " ".join(part.split())


def test_campaigns_that_share_a_profile_are_told_with_the_worst_of_them() -> None:
    told = page(results(), MADE)
    assert "| 2 | 81.7 % (49 of 60; 69.6 % to 90.5 %) | 66.7 % (20 of 30;" in told
    assert "| 4 of 30 |" in told


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
            compared(Outcome.INFEASIBLE, Outcome.INFEASIBLE, Kind.INFEASIBLE),
        ]
    )
    assert (stopping.wrongly().count, stopping.wrongly().of) == (2, 4)
    assert stopping.saved == pytest.approx(0.5)


def test_false_discoveries_are_counted_by_stream() -> None:
    right = compared(Outcome.SUPPORTED, Outcome.SUPPORTED)
    wrong = compared(Outcome.SUPPORTED, Outcome.SUPPORTED, Kind.LOSSY)
    missed = compared(Outcome.INCONCLUSIVE, Outcome.SUPPORTED)
    found = discoveries([(right, wrong), (missed,), (right, right)])
    assert (found.supported, found.worth_having, found.found) == (4, 4, 3)
    assert (found.in_time.false, found.in_quality.false) == (0, 1)
    assert found.in_quality.rate == pytest.approx(0.5 / 3)
    slow = compared(Outcome.SUPPORTED, Outcome.SUPPORTED, Kind.EDGE)
    assert discoveries([(right, slow)]).in_time.rate == 0.5


def test_the_streams_are_frozen() -> None:
    assert digest(range(60)) == FROZEN
    assert len(stream(0)) == LENGTH
    gains = {each.kind: each.gain for each in stream(0, 500)}
    assert gains[Kind.NOTHING] == 0
    assert gains[Kind.HARMFUL] < 0 < 0.1 <= gains[Kind.LARGE]
    assert all(each.truth.effect_log == math.log(1 - each.gain) for each in stream(3))
    for mixture, kind in ((Mixture.HARDEST, Kind.EDGE), (Mixture.AT_MARGIN, Kind.AT_MARGIN)):
        nulls = [each for each in stream(0, 500, mixture) if each.kind is kind]
        assert len(nulls) > 350
        assert not any(each.worth_having(0.03) for each in nulls)


def test_of_losses_at_the_margin_the_guard_lets_pass_what_its_level_says() -> None:
    truth = next(each.truth for each in stream(0, 30, Mixture.AT_MARGIN) if each.kind is Kind.AT_MARGIN)
    rng = np.random.default_rng(3)
    held, ratios = 0, []
    for _ in range(400):
        experiment = SimulatedExperiment(DEFAULT_PLAN, truth, rng, NOTHING)
        experiment.take(Evaluate())
        bits = quality_report(DEFAULT_PLAN, experiment.evidence()).bits
        assert bits is not None
        held += bits.state is Quality.HELD
        ratios.append(bits.difference)
    assert fmean(ratios) == pytest.approx(DEFAULT_PLAN.margins.bits_per_byte, abs=1e-4)
    assert Share(held, 400).bounds(0.998)[0] < DEFAULT_PLAN.alpha < Share(held, 400).bounds(0.998)[1]


def test_the_same_weights_scored_twice_are_scored_alike() -> None:
    truth = replace(Truth(), changes=PRUNED, task_loss_chance=0.1)
    experiment = SimulatedExperiment(DEFAULT_PLAN, truth, np.random.default_rng(3), NOTHING)
    for step in (Screen(), Evaluate(), Evaluate(part=1)):
        experiment.take(step)
    first, again, further = (each for each in experiment.launches if each.arm is Arm.CANDIDATE)
    for metric in (Metric.NLL_BITS, Metric.TASK_CORRECT):
        assert first.values(metric) == again.values(metric) != further.values(metric)


def test_the_work_is_cut_alike_for_any_number_of_processes() -> None:
    cut = pieces(plan_of(4), EVERYTHING, 2 * PIECE + 1, seed=1, place=0)
    assert [piece.experiments for piece in cut] == [PIECE, PIECE, 1]
    assert len({piece.seed for piece in cut}) == 3
    keys = [(1, 2), (3, 4), (5, 6)]
    with Workers(1) as one, Workers(2) as two:
        assert one.map(_seed, keys) == two.map(_seed, keys) == [seed_of(*key) for key in keys]


def _seed(key: tuple[int, int]) -> int:
    return seed_of(*key)
