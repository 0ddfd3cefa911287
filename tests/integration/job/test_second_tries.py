"""What runs out of memory beside launches that it does not need is done once more in fresh ones with nothing
else up: further workloads, a profile and the control's scores. Real processes of the simulated engine."""

from __future__ import annotations

import pytest

from experiments.job.context import DEFAULT_STAGE_LIMITS_S
from experiments.job.result import JobResult, StageRecord
from experiments.measurement.evidence import NOT_UP, UNMEASURED, Metric, Stage
from experiments.measurement.judging import Evaluate, MeasurePair, Step
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.job.further import LONG, WIDE, a_test_with
from tests.integration.job.running import Run, run
from tests.integration.job.short_of_memory import WHY, ShortBeside, counted, gave_way
from tests.simulated.specs import CONTROL, FASTER, PLAN, a_test_job

__all__ = ["run"]

TWO_PAIRS: list[Step] = [MeasurePair(Stage.VALIDATION, 2)] * 2
A_PAIR_AND_SCORES: list[Step] = [MeasurePair(Stage.QUICK, 2), Evaluate()]

PROFILED = "it is profiled anew in a fresh launch that has their room"
ASKED_ANEW = "what it was asked for is done anew in a fresh launch that has their room"


class CheapToProfile(ShortBeside):
    profiles_candidates = True


def of(result: JobResult, *stages: Stage) -> list[StageRecord]:
    return [each for each in result.stages if each.stage in stages]


def further(result: JobResult) -> list[tuple[object, ...]]:
    """What counts of further workloads, launch by launch."""
    return [
        (each.arm, each.index, [(s.block, s.position, s.item, s.metric) for s in each.samples])
        for each in result.further
    ]


@pytest.mark.parametrize("asked", [0, 1, 2], ids=["warm-up", "first block", "second block"])
@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_further_workloads_of_which_one_runs_out_of_memory_are_measured_once_more_in_a_fresh_pair_alone(
    run: Run, arm: str, asked: int
) -> None:
    spec = a_test_with(LONG, WIDE, at_once=4)
    engine = ShortBeside(arm, asked, at_once=WIDE.concurrency)
    result = run(spec, TWO_PAIRS, engine, cores=4)
    assert result.failure is None
    alone = run(a_test_with(LONG, WIDE, at_once=2), TWO_PAIRS, cores=4)
    assert further(result) == further(alone), "nothing is missing, and nothing counts twice"
    assert counted(result) == counted(alone)
    assert engine.times_loaded() == {
        f"{stage}-{each}-{index}": times
        for each in ("control", "candidate")
        for stage, index, times in (("validation", 0, 1), ("validation", 1, 2), ("further", 0, 1))
    }
    for name, others in engine.loaded[4:]:
        assert {each[-1] for each in others} <= {name[-1]}, "only its own pair is up beside it"
    for fresh in ("further-control-0", "further-candidate-0"):
        (warm_up, *_) = next(requests for name, requests, _ in engine.asked if name == fresh)
        assert warm_up.new_tokens == PLAN.workload.new_tokens != LONG.new_tokens, "as any that is timed"
    first, second = of(result, Stage.FURTHER)
    assert (first.outcome, first.detail[NOT_UP], first.detail[UNMEASURED]) == (
        "done", [gave_way(f"{arm} 0")], [],
    )  # fmt: skip
    assert NOT_UP not in second.detail


def test_the_fresh_pair_is_what_is_scored_and_profiled_next(run: Run) -> None:
    engine = CheapToProfile("candidate", at_once=WIDE.concurrency)
    result = run(
        a_test_with(WIDE, at_once=4), [MeasurePair(Stage.VALIDATION, 2), Evaluate()], engine, cores=4
    )
    assert result.failure is None
    assert [each.outcome for each in of(result, Stage.FURTHER, Stage.EVALUATE, Stage.PROFILE)] == ["done"] * 3
    assert sorted(name for name, _ in engine.loaded[4:]) == ["further-candidate-0", "further-control-0"]


def test_a_further_workload_that_runs_out_of_memory_alone_too_is_told_and_the_others_are_measured(
    run: Run,
) -> None:
    engine = ShortBeside("candidate", beside=-1, at_once=WIDE.concurrency)
    result = run(a_test_with(LONG, WIDE, at_once=4), TWO_PAIRS, engine, cores=4)
    assert result.failure is None
    first, second = of(result, Stage.FURTHER)
    assert first.detail[NOT_UP] == [gave_way("candidate 0")]
    assert first.detail[UNMEASURED] == [{"arm": "candidate", "workload": WIDE.key, "launch": 0, "cause": WHY}]
    assert (second.detail[UNMEASURED], NOT_UP in second.detail) == ([], False), "it is asked no more"
    long = [(each.arm, each.index) for each in result.further if each.values(Metric.TPOT_MS)]
    assert sorted(long) == [(arm, index) for arm in ("candidate", "control") for index in (0, 1)]
    assert engine.times_loaded()["further-candidate-0"] == 1


def test_where_no_fresh_pair_comes_up_what_was_measured_of_further_workloads_before_stands(
    run: Run,
) -> None:
    engine = ShortBeside("candidate", at_once=WIDE.concurrency, broken="further-candidate")
    result = run(a_test_with(LONG, WIDE, at_once=4), TWO_PAIRS[:1], engine, cores=4)
    assert result.failure is None
    (told,) = of(result, Stage.FURTHER)
    assert (told.outcome, told.detail["kind"], told.detail[NOT_UP]) == (
        "failed", "crashed", [gave_way("candidate 0")],
    )  # fmt: skip
    assert told.detail[UNMEASURED] == [{"arm": "candidate", "workload": WIDE.key, "launch": 0, "cause": WHY}]
    assert {(each.arm, each.index) for each in result.further} == {("control", 0), ("candidate", 0)}
    items = {sample.item for each in result.further for sample in each.samples}
    assert {item.partition(": ")[0] for item in items} == {LONG.key}


@pytest.mark.parametrize(("at_once", "kind"), [(2, "out_of_memory"), (4, "crashed")])
def test_further_workloads_have_no_second_try_with_no_pair_waiting_and_for_another_failure(
    run: Run, at_once: int, kind: str
) -> None:
    engine = ShortBeside("candidate", beside=-1, kind=kind, at_once=WIDE.concurrency)
    result = run(a_test_with(LONG, WIDE, at_once=at_once), TWO_PAIRS, engine, cores=4)
    assert result.failure is None
    first, _ = of(result, Stage.FURTHER)
    assert len(first.detail[UNMEASURED]) == 1  # type: ignore[arg-type]
    assert NOT_UP not in first.detail
    assert set(engine.times_loaded().values()) == {1}


def test_a_second_try_of_further_workloads_has_what_is_left_of_their_time(run: Run) -> None:
    engine = ShortBeside("candidate", at_once=WIDE.concurrency)
    slow: dict[str, KnobValue] = {**FASTER, "simulated.load_s": 1.5}
    result = run(
        a_test_with(LONG, WIDE, candidate=slow, at_once=4),
        TWO_PAIRS[:1],
        engine,
        cores=4,
        limits_s={**DEFAULT_STAGE_LIMITS_S, Stage.FURTHER: 1.0},
    )
    assert result.failure is None
    (told,) = of(result, Stage.FURTHER)
    assert (told.outcome, told.detail[NOT_UP]) == ("timed_out", [gave_way("candidate 0")])
    assert [each["cause"] for each in told.detail[UNMEASURED]] == [  # type: ignore[union-attr,index,call-overload]
        "The stage further took longer than its limit of 1 s."
    ]


@pytest.mark.parametrize(
    ("at_once", "beside"), [(4, 1), (4, 0), (2, 0)], ids=["pairs", "pairs and the control", "the control"]
)
def test_a_profile_that_runs_out_of_memory_beside_others_is_made_once_more_in_a_fresh_launch_alone(
    run: Run, at_once: int, beside: int
) -> None:
    engine = CheapToProfile("candidate", beside=beside, what="profile")
    result = run(a_test_job(at_once=at_once), TWO_PAIRS, engine, cores=4)
    assert result.failure is None
    (told,) = of(result, Stage.PROFILE)
    assert (told.outcome, told.detail[NOT_UP]) == ("done", [gave_way("candidate 0", PROFILED)])
    assert "artifact" in told.detail
    assert [part.part for part in result.profile] == ["layers", "rest"]
    assert [others for name, others in engine.loaded if name == "profile-candidate-0"] == [set()]
    assert [(each.stage, each.arm, each.index) for each in result.launches] == [
        (each.stage, each.arm, each.index) for each in run(a_test_job(at_once=2), TWO_PAIRS).launches
    ]


@pytest.mark.parametrize(("kind", "tries"), [("out_of_memory", 2), ("crashed", 1)])
def test_a_profile_that_fails_alone_too_or_for_another_reason_is_no_more_than_a_failed_stage(
    run: Run, kind: str, tries: int
) -> None:
    engine = CheapToProfile("candidate", beside=-1, kind=kind, what="profile")
    result = run(a_test_job(at_once=4), TWO_PAIRS, engine, cores=4)
    assert result.failure is None
    assert len(result.launches) == 4
    (told,) = of(result, Stage.PROFILE)
    assert (told.outcome, told.detail["kind"]) == ("failed", kind)
    assert told.detail.get(NOT_UP) == ([gave_way("candidate 0", PROFILED)] if tries == 2 else None)
    assert engine.times_loaded().get("profile-candidate-0", 0) == tries - 1


QUALITY = PLAN.model_copy(update={"metric": Metric.NLL_BITS})


@pytest.mark.parametrize("metric", [Metric.TPOT_MS, Metric.NLL_BITS], ids=["timed", "scored alone"])
def test_a_control_that_runs_out_of_memory_as_it_is_scored_beside_the_candidate_is_scored_once_more_alone(
    run: Run, metric: Metric
) -> None:
    job = a_test_job(at_once=2, plan=PLAN.model_copy(update={"metric": metric}))
    steps = A_PAIR_AND_SCORES if metric is Metric.TPOT_MS else A_PAIR_AND_SCORES[1:]
    engine = ShortBeside("control", beside=0, what="score")
    result = run(job, steps, engine, cores=4)
    assert result.failure is None
    told = result.stages[-1]
    assert (told.outcome, told.detail[NOT_UP]) == ("done", [gave_way("control 0", ASKED_ANEW)])
    assert {"reference", "reused"} < told.detail.keys()
    *_, control, candidate = engine.loaded
    assert (control, candidate) == (("evaluate-control-0", set()), ("evaluate-candidate-0", set()))
    assert len(engine.loaded) == 4
    assert counted(result) == counted(run(job, steps, cores=4)), "each is scored once"


def test_after_a_second_try_both_arms_are_no_longer_loaded_together_to_be_scored(run: Run) -> None:
    engine = ShortBeside("evaluate-control", beside=0, what="score")
    result = run(a_test_job(at_once=2, plan=QUALITY), [Evaluate(), Evaluate(1)], engine, cores=4)
    assert result.failure is None
    assert [others for name, others in engine.loaded if name.endswith("-1")] == [set(), set()]
    assert NOT_UP not in result.stages[-1].detail


def test_a_reference_that_runs_out_of_memory_beside_the_pair_is_scored_once_more_alone(run: Run) -> None:
    reference = CONTROL | {"simulated.bits": 900.0}
    engine = ShortBeside("evaluate-control", beside=0, what="score")
    result = run(a_test_job(reference=reference), A_PAIR_AND_SCORES, engine)
    assert result.failure is None
    assert result.stages[-1].detail[NOT_UP] == [gave_way("control 0", ASKED_ANEW)]
    scored = [each for each in result.launches if each.stage is Stage.EVALUATE]
    assert [each.configuration_digest for each in scored] == [
        Configuration.of(knobs).digest for knobs in (reference, FASTER)
    ]
    beside = [others for name, others in engine.loaded if name == "evaluate-control-0"]
    assert beside == [{"quick-control-0", "quick-candidate-0"}, set()]


def test_a_control_whose_drafting_is_checked_beside_the_candidate_is_checked_once_more_alone(
    run: Run,
) -> None:
    drafting = {"drafting.method": "mtp", "drafting.draft_tokens": 2}
    job = a_test_job(FASTER | drafting | {"drafting.draft_tokens": 3}, CONTROL | drafting, at_once=2)
    engine = ShortBeside("control", beside=0, what="check_drafting")
    result = run(job, A_PAIR_AND_SCORES, engine, cores=4)
    assert result.failure is None
    assert result.stages[-1].detail[NOT_UP] == [gave_way("control 0", ASKED_ANEW)]
    assert counted(result) == counted(run(job, A_PAIR_AND_SCORES, cores=4)), "its scores count once"
    assert engine.times_loaded()["evaluate-control-0"] == 1


@pytest.mark.parametrize(("kind", "tries"), [("out_of_memory", 2), ("crashed", 1)])
def test_a_control_that_can_not_be_scored_alone_either_or_for_another_reason_ends_the_test(
    run: Run, kind: str, tries: int
) -> None:
    engine = ShortBeside("control", beside=-1, kind=kind, what="score")
    result = run(a_test_job(at_once=2), A_PAIR_AND_SCORES, engine, cores=4)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.cause) == ("control", f"The control did not run: {WHY}")
    told = result.stages[-1]
    assert told.detail.get(NOT_UP) == ([gave_way("control 0", ASKED_ANEW)] if tries == 2 else None)
    assert (told.outcome, told.detail["kind"]) == ("failed", "control")
    assert engine.times_loaded().get("evaluate-control-0", 0) == tries - 1


@pytest.mark.parametrize("arm", ["control", "candidate"])
def test_an_arm_that_is_scored_with_nothing_beside_it_has_no_second_try(run: Run, arm: str) -> None:
    engine = ShortBeside(arm, beside=-1, what="score")
    job = a_test_job(at_once=1 if arm == "control" else 2, plan=QUALITY)
    result = run(job, [Evaluate()], engine, cores=4)
    assert result.failure is not None
    assert set(engine.times_loaded().values()) == {1}
    assert NOT_UP not in result.stages[-1].detail
