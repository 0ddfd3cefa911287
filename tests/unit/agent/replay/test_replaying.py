"""Worlds, courses, planners and what they come to."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.proposers.port import CarriedBest
from agent.ranking.ranking import rank
from agent.ranking.values import Candidate
from agent.replay.course import Budget, Course, Step, course
from agent.replay.made_with import MadeWith
from agent.replay.planners import ours
from agent.replay.planners.ours import NoPhysics, OwnPlanner, WithoutLearning, WithoutPhysics
from agent.replay.planners.plain import GreedyPlanner, GridPlanner, RandomPlanner
from agent.replay.planners.smac import SmacPlanner
from agent.replay.planners.tpe import TpePlanner
from agent.replay.port import PlannerFactory, Problem, Told
from agent.replay.read import Asked as Chosen
from agent.replay.read import read_table
from agent.replay.regret_svg import regret_svg
from agent.replay.replay import Asked, Replayed, replay, workers
from agent.replay.report import document, rows
from agent.replay.score import difference, scores
from agent.replay.table import Table
from agent.replay.world import World, permuted, problem_of
from configs.errors import AutoinferError, UsageError
from experiments.space.configuration import Configuration
from tests.unit.agent.replay.conformance import check_planner
from tests.unit.agent.replay.synthetic import table, written
from tests.unit.agent.replay.test_reading import FROZEN

PLANNERS: dict[str, PlannerFactory] = {
    "ours": OwnPlanner,
    "ours-without-physics": WithoutPhysics,
    "ours-without-learning": WithoutLearning,
    "tpe": TpePlanner,
    "random": RandomPlanner,
    "greedy": GreedyPlanner,
    "grid": GridPlanner,
}
HAS_SMAC = find_spec("smac") is not None


@pytest.fixture
def made_up(tmp_path: Path) -> Table:
    return table(tmp_path)


@pytest.fixture(scope="module")
def frozen() -> Table:
    return read_table(FROZEN, Chosen(where={"concurrency": "1", "prompt_tokens": "512"}))


def asks(*kernels: str) -> PlannerFactory:
    """A planner that asks for these kernels without quantization, and then stops."""

    class Listed:
        def __init__(self, problem: Problem, seed: int) -> None:
            self.left = list(kernels)

        def ask(self, history: tuple[Told, ...]) -> Configuration | None:
            if not self.left:
                return None
            return Configuration.of({"quantization.method": "none", "serving.kernel": self.left.pop(0)})

        def tell(self, told: Told) -> None: ...

    return Listed  # type: ignore[return-value]


@pytest.mark.parametrize("name", PLANNERS)
def test_a_planner_keeps_the_port(made_up: Table, name: str) -> None:
    check_planner(made_up, name, PLANNERS[name])


@pytest.mark.parametrize("name", PLANNERS)
def test_whoever_tries_all_has_found_the_best(made_up: Table, name: str) -> None:
    found = course(made_up, name, PLANNERS[name], 0, Budget(8))
    assert len({step.measured for step in found.steps}) == len(made_up.rows)
    assert found.steps[-1].gain == 1


@pytest.mark.skipif(not HAS_SMAC, reason="SMAC3 is not installed")
def test_smac_keeps_the_port(made_up: Table) -> None:
    check_planner(made_up, "smac", SmacPlanner)


@pytest.mark.skipif(HAS_SMAC, reason="SMAC3 is installed")
def test_without_smac_its_planner_says_what_to_install(made_up: Table) -> None:
    with pytest.raises(UsageError, match=r"pip install 'autoinfer\[smac\]'"):
        SmacPlanner(problem_of(made_up), 0)


def test_our_planner_finds_the_best_of_the_frozen_table(frozen: Table) -> None:
    for seed in range(3):
        reached = course(frozen, "ours", OwnPlanner, seed, Budget(11)).reached(0.95)
        assert reached is not None
        assert reached.trial <= 10


def test_without_physics_no_lever_is_expected_to_do_anything(frozen: Table) -> None:
    physics = NoPhysics(frozen.rows[0].configuration, 5.24, frozen.rows[0].profile)
    assert physics.expect("weight_dtype", (("serving.weight_dtype", "fp8"),)).mean_log == 0


def test_what_a_replay_tells_our_planner_is_what_a_campaign_would_learn(tmp_path: Path) -> None:
    """Tokens a step of what drafts, quality against trial 0 whatever the best is, and one error of trial 0's
    that all trials against it share."""
    header = "drafting.method,drafting.draft_tokens,serving.kernel,tpot_ms,quality,run_s,tokens_a_step"
    lines = ("none,,red,10,1.0,9,1", "none,,blue,8,1.004,9,1", "mtp,1,blue,6,1.006,9,1.5")
    world = World(read_table(written(tmp_path, *lines, header=header)), 0)
    planner = OwnPlanner(problem_of(world.table), 0)
    for number, row in enumerate(world.table.rows):
        planner.tell(world.measure(number, row.configuration))
    first, second = planner._trials
    assert second.control == first.candidate, "the second is held against the best by then"
    assert (first.acceptance_length, second.acceptance_length) == (None, 1.5)
    assert second.bits_ratio_log == pytest.approx(math.log(1.006))
    assert first.arms is not None
    assert second.arms is not None
    assert second.arms[0] == first.arms[1], "one measurement, told of twice"
    assert {each.arms for each in planner.trials} == {None}, "elsewhere nobody shares them"


def test_parts_of_what_another_campaign_found_best_are_ranked_as_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = "serving.kernel,serving.graphs,tpot_ms,run_s"
    lines = ("red,off,10,9", "blue,off,9,9", "red,on,9,9", "blue,on,6,9", "green,off,9,9")
    world = World(read_table(written(tmp_path, *lines, header=header)), 0)
    problem, rows = problem_of(world.table), world.table.rows
    ranked: list[list[Candidate]] = []
    monkeypatch.setattr(ours, "rank", lambda candidates: ranked.append(candidates) or rank(candidates))
    best = CarriedBest("C-1", "E-1", "", problem.baseline, rows[3].configuration, math.log(0.6), 1)
    for bests, parts in (((), 0), ((best,), 2)):
        planner = OwnPlanner(problem, 0, bests=bests)
        told = world.measure(0, problem.baseline)
        planner.tell(told)
        planner.ask([told])
        assert sum(len(each.part_of) == 1 for each in ranked[-1]) == parts
        assert len(ranked[-1]) == 4


def test_a_problem_tells_no_latency_and_no_order_of_the_file(made_up: Table) -> None:
    backwards = made_up.with_rows((made_up.rows[0], *reversed(made_up.rows[1:])))
    assert problem_of(made_up) == problem_of(backwards)
    assert {field for field in vars(problem_of(made_up)) if "ms" in field} == set()


def test_what_is_told_of_a_row_depends_on_the_seed_and_not_on_who_asks(made_up: Table) -> None:
    one, two, other = World(made_up, 1), World(made_up, 1), World(made_up, 2)
    here, there = (row.configuration for row in made_up.rows[:2])
    two.measure(0, there)
    assert one.measure(0, here).samples_ms == two.measure(1, here).samples_ms
    assert one.measure(1, here).samples_ms != other.measure(0, here).samples_ms
    first, again = other.measure(1, there), other.measure(2, there)
    assert first.samples_ms != again.samples_ms


def test_a_build_that_exists_costs_nothing(made_up: Table) -> None:
    world = World(made_up, 0)
    red, blue = (row.configuration for row in made_up.rows[3:5])  # both are quantized alike
    assert (world.cost_s(red), world.measure(0, red).cost_s) == (350, 350)
    assert (world.cost_s(blue), world.measure(1, blue).build_s) == (50, 0)


def test_compiled_code_is_paid_for_once_and_apart_from_weights(tmp_path: Path) -> None:
    lines = ("off,9,10,0,,", "on,8,10,0,a,40", "more,7,10,5,a,40", "else,6,10,0,b,20")
    header = "serving.kernel,tpot_ms,run_s,build_s,compile_build,compile_s"
    world = World(read_table(written(tmp_path, *lines, header=header)), 0)
    off, on, more, other = (row.configuration for row in world.table.rows)
    assert world.measure(0, off).cost_s == 10
    assert (world.measure(1, on).cost_s, world.cost_s(more), world.cost_s(other)) == (50, 10, 30)


def test_a_planner_that_stops_keeps_what_it_had(made_up: Table) -> None:
    found = course(made_up, "listed", asks("green"), 0, Budget(5))
    assert len(found.steps) == 2
    assert found.gain_after(5) == found.gain_after(1) == pytest.approx(2 / 6)


def test_a_planner_that_asks_for_what_is_not_there_is_named(made_up: Table) -> None:
    with pytest.raises(AutoinferError, match="The planner listed asked for what the table does not have"):
        course(made_up, "listed", asks("violet"), 0, Budget(5))


class Faulty:
    """A planner with something wrong in it."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem = problem

    def ask(self, history: tuple[Told, ...]) -> object:
        return self.problem.configurations[len(history)]

    def tell(self, told: Told) -> None: ...


class Unmade(Faulty):
    def __init__(self, problem: Problem) -> None: ...


class Raising(Faulty):
    def ask(self, history: tuple[Told, ...]) -> object:
        return {"a": 1}["b"]


class Foreign(Faulty):
    def ask(self, history: tuple[Told, ...]) -> object:
        return {"serving.kernel": "blue"}


class Refusing(Faulty):
    def tell(self, told: Told) -> None:
        raise UsageError("No.", "Ask another.")


class Leaving(Faulty):
    def ask(self, history: tuple[Told, ...]) -> object:
        raise SystemExit(3)


class Certain(Faulty):
    def predict(self, configuration: Configuration) -> tuple[float, float]:
        return 1.0, 0.0


class Speechless(Faulty):
    def predict(self, configuration: Configuration) -> None:
        return None


class Unbounded(Faulty):
    def predict(self, configuration: Configuration) -> tuple[float, float]:
        return 1e300, 1.0


class Certainly(Faulty):
    def predict(self, configuration: Configuration) -> tuple[float, float]:
        return 1.0, 1e-300


class Verbose(Faulty):
    def ask(self, history: tuple[Told, ...]) -> object:
        raise ValueError("one\ntwo " + "x" * 5000)


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        (Unmade, "faulty failed to be made: TypeError"),
        (Raising, r"faulty failed to ask: KeyError: 'b' \(test_replaying.py, line \d+\)"),
        (Foreign, "faulty asked for what the table does not have: {'serving.kernel': 'blue'}"),
        (Refusing, "faulty failed to tell: UsageError: No."),
        (Leaving, "faulty failed to ask: SystemExit: 3"),
        (Certain, "faulty predicts a mean of 1 and a standard deviation of 0"),
        (Unbounded, r"faulty predicts a mean of 1e\+300"),
        (Certainly, "a standard deviation of 1e-300"),
        (Speechless, "faulty failed to predict: TypeError"),
        (Verbose, r"^The planner faulty failed to ask: ValueError: one two x{50,300} \(test_replaying"),
    ],
)
def test_a_planner_that_fails_is_named_with_what_it_did(
    made_up: Table, factory: PlannerFactory, why: str
) -> None:
    with pytest.raises(AutoinferError, match=why):
        course(made_up, "faulty", factory, 0, Budget(5))


class Talking(Faulty):
    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem, seed)
        print("made")

    def ask(self, history: tuple[Told, ...]) -> object:
        print("asked")
        return super().ask(history)

    def tell(self, told: Told) -> None:
        print("told")

    def predict(self, configuration: Configuration) -> tuple[float, float]:
        print("predicts")
        return 1.0, 1.0


def test_what_a_planner_prints_never_comes_into_the_document(
    made_up: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    course(made_up, "talking", Talking, 0, Budget(2))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert set(printed.err.split()) == {"made", "asked", "told", "predicts"}


def test_seconds_end_a_course_before_what_they_do_not_pay_for(made_up: Table) -> None:
    found = course(made_up, "listed", asks("blue", "green"), 0, Budget.parse("100s"))
    assert [step.cost_s for step in found.steps] == [0, 60]


def test_seconds_pay_for_measuring_again_as_trials_do(made_up: Table) -> None:
    again = ["blue"] * 20
    found = course(made_up, "listed", asks(*again), 0, Budget.parse("20m"))
    assert (len(found.steps) - 1, found.steps[-1].cost_s) == (20, 1200)
    assert len(found.steps) > len(made_up.rows)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", "less than one"),
        ("-3", "less than one"),
        ("5s", "less than one trial"),
        ("--5", "is no budget"),
        ("\u00b2", "is no budget"),
        ("2.5", "is no budget"),
        ("", "is no budget"),
        ("9" * 5000, "more than any table has"),
    ],
)
def test_what_is_no_budget_or_below_one_trial_is_refused(made_up: Table, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Budget.parse(text).most(made_up)


def test_turned_labels_keep_times_and_move_them_to_other_names(made_up: Table) -> None:
    seen = set()
    for seed in range(20):
        turned = permuted(made_up, ["serving.kernel"], seed)
        assert turned.best_ms == made_up.best_ms
        assert turned.rows[0] == made_up.rows[0], "trial 0 keeps its own label"
        seen.add(turned.best.configuration["serving.kernel"])
    assert seen == {"blue", "green"}


def test_what_ran_is_renamed_with_its_label(frozen: Table) -> None:
    for seed in range(6):
        turned = permuted(frozen, ["serving.linear_backend"], seed)
        for row in turned.rows:
            label = str(row.configuration.get("serving.linear_backend", "auto"))
            if label != "auto":
                assert row.resolved["linear_kernel"].lower().startswith(label)


@pytest.mark.parametrize("knob", ["quantization.method", "serving.colour"])
def test_labels_that_can_not_be_turned_are_told(made_up: Table, knob: str) -> None:
    with pytest.raises(UsageError):
        permuted(made_up, [knob], 0)


def ended(planner: str, seed: int, *gains: float) -> Course:
    return Course(planner, seed, tuple(Step(k, str(k), 60.0 * k, gain) for k, gain in enumerate(gains)))


def test_measures_are_those_of_the_courses() -> None:
    found = scores(
        {
            "ours": [ended("ours", 0, 0, 0.96, 1), ended("ours", 1, 0, 0.5, 0.97)],
            "random": [ended("random", 0, 0, 0, 1), ended("random", 1, 0, 0.2, 0.4)],
        },
        trials=2,
        configurations=3,
    )
    own, random = found
    assert (own.reaching[0].trials, own.reaching[0].cost_s, own.reaching[0].reached) == (1.5, 90, 2)
    assert math.isinf(random.reaching[0].trials)
    assert own.regret == pytest.approx((1, 0.27, 0.015))
    assert (own.wins, random.wins) == (2, 0)
    assert not own.differences, "a budget of 3 trials was not had"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_the_interval_of_a_difference_holds_it_and_turns_with_its_sign(
    pairs: list[tuple[float, float]],
) -> None:
    own = [ended("ours", k, 0, gain) for k, (gain, _) in enumerate(pairs)]
    other = [ended("random", k, 0, gain) for k, (_, gain) in enumerate(pairs)]
    one, two = difference(own, other, 1), difference(other, own, 1)
    assert one.low - 1e-9 <= one.mean <= one.high + 1e-9 or len(pairs) < 5
    assert one.mean == pytest.approx(-two.mean)
    assert (one.low, one.high) == pytest.approx((-two.high, -two.low))


def test_processes_change_nothing(made_up: Table) -> None:
    asked = Asked(("random", "grid"), 3, Budget(4))
    here = replayed(made_up, asked)
    with workers(2) as pool:
        assert replay(made_up, asked, pool).courses == here.courses


def replayed(table: Table, asked: Asked) -> Replayed:
    return replay(table, asked)


def test_the_document_has_every_seed_and_no_infinity(made_up: Table) -> None:
    found = document(
        replayed(made_up, Asked(("random", "ours"), 2, Budget(1))),
        MadeWith("0.1", None, None, "3.12.1", {"SMAC3": None}, "A processor", 2),
    )
    assert [item["planner"] for item in found["items"]] == ["random", "ours"]
    assert all(len(item["courses"]) == 2 for item in found["items"])
    assert "inf" not in str(found).lower().replace("infeasible", "").replace("autoinfer", "")
    assert found["made_with"]["packages"] == {"SMAC3": None}


def test_a_planner_that_could_not_run_has_a_row_that_says_so(made_up: Table) -> None:
    told = rows(replayed(made_up, Asked(("random",), 2, Budget(1))).scores, ("smac",))
    assert [row[:2] for row in told][1] == ("smac", "not run")
    assert len({len(row) for row in told}) == 1


def test_the_picture_has_a_line_and_a_name_for_each_planner(made_up: Table) -> None:
    found = replayed(made_up, Asked(("random", "grid"), 2, Budget(4)))
    drawn = regret_svg(found.scores, "A <title>", "of a test")
    assert drawn.count('d="M') == 4
    assert "&lt;title&gt;" in drawn
    assert ">grid<" in drawn


def test_planners_of_others_have_lines_that_differ(made_up: Table) -> None:
    found = replayed(made_up, Asked(("random", "grid"), 2, Budget(4))).scores
    named = [replace(each, planner=name) for each, name in zip(found, ("mine", "theirs"), strict=True)]
    drawn = regret_svg(named, "A title", "of a test")
    assert len({each.split('"')[1] for each in drawn.splitlines() if each.startswith("<path class=")}) == 2
