"""A profile is an artifact of its configuration, of the baseline and, where that is cheap, of candidates."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import pytest

from experiments.engines.port import DEVICE_LOST, Infeasible, PartTime
from experiments.job.limits import TIME_IS_UP, ask_to_end
from experiments.job.profiling import PROFILE_KIND, told_of
from experiments.job.result import JobResult
from experiments.job.spec import BaselineJob, TestJob
from experiments.measurement.evidence import Stage
from experiments.measurement.judging import Evaluate, MeasurePair, Step
from tests.integration.job.running import Run, run
from tests.simulated.engine import SimulatedEngine, SimulatedLaunch
from tests.simulated.specs import CONTROL, FASTER, a_baseline_job, a_test_job

__all__ = ["run"]


class CheapToProfile(SimulatedEngine):
    profiles_candidates = True


class ProfilesPrompts(SimulatedEngine):
    profile_version = 2


def outcomes(result: JobResult) -> list[str]:
    return [stage.outcome for stage in result.stages if stage.stage is Stage.PROFILE]


def test_the_baseline_is_profiled_once_and_its_parts_are_kept(run: Run) -> None:
    first, second = (run(a_baseline_job((CONTROL,))) for _ in range(2))
    assert (outcomes(first), outcomes(second)) == (["done"], ["reused"])
    assert first.profile == second.profile
    assert [part.part for part in first.profile] == ["layers", "rest"]
    assert PROFILE_KIND in {artifact.kind for artifact in first.artifacts}


def test_a_candidate_is_profiled_in_its_last_use_and_only_where_the_engine_says_that_it_is_cheap(
    run: Run,
) -> None:
    steps = [MeasurePair(Stage.QUICK, 2), MeasurePair(Stage.FULL, 2), Evaluate()]
    assert outcomes(run(a_test_job(), steps)) == []
    result = run(a_test_job(), steps, engine=CheapToProfile())
    assert [stage.stage for stage in result.stages] == [
        Stage.STATIC, Stage.QUICK, Stage.PROFILE, Stage.FULL, Stage.EVALUATE,
    ]  # fmt: skip
    assert [part.part for part in result.profile] == ["layers", "rest"]
    assert outcomes(run(a_test_job(), steps, engine=CheapToProfile())) == ["reused"]
    assert outcomes(run(a_test_job(), [MeasurePair(Stage.QUICK, 2)], engine=CheapToProfile())) == ["reused"]


def test_a_candidate_whose_profile_fails_is_judged_all_the_same(run: Run) -> None:
    result = run(
        a_test_job(FASTER | {"simulated.fails": "profile"}),
        [MeasurePair(Stage.QUICK, 2), MeasurePair(Stage.FULL, 2)],
        engine=CheapToProfile(),
    )
    assert result.failure is None
    assert outcomes(result) == ["failed"]
    assert "ended" in str(next(s for s in result.stages if s.stage is Stage.PROFILE).detail["cause"])
    assert {launch.stage for launch in result.launches} == {Stage.QUICK, Stage.FULL}


def test_what_a_profile_rests_on_is_kept_and_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {
        "method": "by hand",
        "context_tokens": 9,
        "read": {"bandwidth": {"bytes_per_s": 4e12, "method": "copies"}},
        "kernels": [
            {"name": "known", "part": "small", "launches": 3, "us": 2.0},
            {"name": "never seen", "part": "other", "launches": 1, "us": 5.0},
        ],
    }
    monkeypatch.setattr(SimulatedLaunch, "profile_record", record, raising=False)
    result = run(a_baseline_job((CONTROL,)))
    detail = next(stage.detail for stage in result.stages if stage.stage is Stage.PROFILE)
    assert detail == {
        "artifact": next(each.digest for each in result.artifacts if each.kind == PROFILE_KIND),
        "method": "by hand",
        "context_tokens": 9,
        "bandwidth_bytes_per_s": 4e12,
        "bandwidth_method": "copies",
        "kernels_ms": pytest.approx(0.007),
        "unknown_kernels": [{"name": "never seen", "launches": 1, "us": 5.0}],
    }
    path = next(each.path for each in result.artifacts if each.kind == PROFILE_KIND)
    document = json.loads((Path(path) / "profile.json").read_text(encoding="utf-8"))
    assert document["record"] == record
    assert [PartTime(**part) for part in document["parts"]] == list(result.profile)
    assert told_of({}) == {}


def test_what_is_kept_of_a_lone_prompt_is_told_with_the_rate_of_products(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = asdict(PartTime("outside", "outside", 40.0, 0))
    prompt = {
        "first_token_ms": 60.0,
        "prompt_tokens": 512,
        "parts": [part],
        "times_ms": [60.0],
        "kernels": [],
    }
    rate = {"operations_per_s": 7e14, "method": "products"}
    record = {"method": "by hand", "read": {"products": rate}, "kernels": [], "prompt": prompt}
    monkeypatch.setattr(SimulatedLaunch, "profile_record", record, raising=False)
    result = run(a_baseline_job((CONTROL,)))
    detail = next(stage.detail for stage in result.stages if stage.stage is Stage.PROFILE)
    assert detail["prompt"] == {
        "first_token_ms": 60.0,
        "prompt_tokens": 512,
        "parts": [part],
        "operations_per_s": 7e14,
        "operations_method": "products",
    }


def test_why_a_lone_prompt_was_not_profiled_is_told() -> None:
    assert told_of({"prompt": {"failure": "It died."}})["prompt"] == {"failure": "It died."}


def lone_prompt_told(result: JobResult) -> object:
    return next(stage.detail for stage in result.stages if stage.stage is Stage.PROFILE).get("prompt")


def test_a_profile_of_an_earlier_version_is_not_taken_for_one_of_the_engine_s_present_version(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(a_baseline_job((CONTROL,)))
    monkeypatch.setattr(
        SimulatedLaunch, "profile_record", {"prompt": {"first_token_ms": 60.0}}, raising=False
    )
    made, used = (run(a_baseline_job((CONTROL,)), engine=ProfilesPrompts()) for _ in range(2))
    assert [outcomes(each) for each in (before, made, used)] == [["done"], ["done"], ["reused"]]
    assert lone_prompt_told(made) == lone_prompt_told(used) == {"first_token_ms": 60.0}


def test_an_engine_without_versions_of_its_profile_keeps_the_keys_that_it_had(run: Run) -> None:
    profile = next(each for each in run(a_baseline_job((CONTROL,))).artifacts if each.kind == PROFILE_KIND)
    assert profile.inputs.keys() == {
        "concurrency", "configuration", "device", "device_name", "engine", "model", "new_tokens", "parents",
        "prompt_tokens",
    }  # fmt: skip


def test_a_prompt_s_profile_that_failed_is_tried_once_more_by_the_next_job(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, found = {"failure": "It died."}, {"first_token_ms": 60.0}
    told = []
    for prompt in (failed, found, failed):
        monkeypatch.setattr(SimulatedLaunch, "profile_record", {"prompt": prompt}, raising=False)
        result = run(a_baseline_job((CONTROL,)), engine=ProfilesPrompts())
        told.append((outcomes(result), lone_prompt_told(result)))
    assert told == [(["done"], failed), (["done"], found), (["reused"], found)]


def test_a_prompt_s_profile_that_failed_twice_is_not_tried_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    for prompt in ({"failure": "It died."}, {"failure": "It died again."}, {"first_token_ms": 60.0}):
        monkeypatch.setattr(SimulatedLaunch, "profile_record", {"prompt": prompt}, raising=False)
        result = run(a_baseline_job((CONTROL,)), engine=ProfilesPrompts())
        told.append((outcomes(result), lone_prompt_told(result)))
    assert told == [
        (["done"], {"failure": "It died."}),
        (["done"], {"failure": "It died again."}),
        (["reused"], {"failure": "It died again."}),
    ]
    one, two = [each for each in result.artifacts if each.kind == PROFILE_KIND]
    assert one.digest in two.inputs["parents"]


class ProfilesAll(ProfilesPrompts, CheapToProfile):
    pass


STEPS: Sequence[Step] = [MeasurePair(Stage.QUICK, 2)]

NO_STEP = "The profiler recorded no whole step, so its parts can't be told."


def raising(kind: str) -> Callable[..., NoReturn]:
    """In place of a launch's profile: one that fails whole."""

    def profile(*_: object) -> NoReturn:
        raise Infeasible(kind, NO_STEP)

    return profile


@pytest.mark.parametrize("spec", [a_baseline_job((CONTROL,)), a_test_job()], ids=["baseline", "test"])
def test_a_second_try_that_fails_whole_leaves_the_kept_profile_and_counts(
    spec: BaselineJob | TestJob, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {"prompt": {"failure": "It died."}}
    monkeypatch.setattr(SimulatedLaunch, "profile_record", failed, raising=False)
    first = run(spec, STEPS, engine=ProfilesAll())
    with monkeypatch.context() as broken:
        broken.setattr(SimulatedLaunch, "profile", raising("crashed"))
        second = run(spec, STEPS, engine=ProfilesAll())
    third = run(spec, STEPS, engine=ProfilesAll())
    assert [outcomes(each) for each in (first, second, third)] == [["done"], ["reused"], ["reused"]]
    assert [each.failure for each in (first, second, third)] == [None] * 3
    assert first.profile == second.profile == third.profile != ()
    assert (
        lone_prompt_told(second)
        == lone_prompt_told(third)
        == {"failure": f"It died. It was tried again, and the whole profile failed: {NO_STEP}"}
    )
    one, two = [each for each in third.artifacts if each.kind == PROFILE_KIND]
    assert one.digest in two.inputs["parents"]


@pytest.mark.parametrize("kind", [DEVICE_LOST, TIME_IS_UP])
def test_a_second_try_that_fails_by_no_fault_of_the_profile_does_not_count(
    kind: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, found = {"prompt": {"failure": "It died."}}, {"prompt": {"first_token_ms": 60.0}}
    monkeypatch.setattr(SimulatedLaunch, "profile_record", failed, raising=False)
    run(a_baseline_job((CONTROL,)), engine=ProfilesAll())
    with monkeypatch.context() as broken:
        broken.setattr(SimulatedLaunch, "profile", raising(kind))
        stopped = run(a_baseline_job((CONTROL,)), engine=ProfilesAll())
    assert outcomes(stopped) == ["timed_out" if kind == TIME_IS_UP else "failed"]
    monkeypatch.setattr(SimulatedLaunch, "profile_record", found)
    again = run(a_baseline_job((CONTROL,)), engine=ProfilesAll())
    assert (outcomes(again), lone_prompt_told(again)) == (["done"], found["prompt"])


def test_a_second_try_that_is_cut_off_as_its_test_ends_does_not_count(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, found = {"prompt": {"failure": "It died."}}, {"prompt": {"first_token_ms": 60.0}}
    monkeypatch.setattr(SimulatedLaunch, "profile_record", failed, raising=False)
    run(a_test_job(), STEPS, engine=ProfilesAll())

    def cut_off(launch: SimulatedLaunch, *_: object) -> NoReturn:
        ask_to_end(launch._log_path.parents[1], "Enough was measured.")
        launch.process.wait()
        raise Infeasible("crashed", "The process ended.")

    with monkeypatch.context() as ended:
        ended.setattr(SimulatedLaunch, "profile", cut_off)
        stopped = run(a_test_job(), STEPS, engine=ProfilesAll())
    assert outcomes(stopped) == ["timed_out"]
    monkeypatch.setattr(SimulatedLaunch, "profile_record", found)
    again = run(a_test_job(), STEPS, engine=ProfilesAll())
    assert (outcomes(again), lone_prompt_told(again)) == (["done"], found["prompt"])


def test_a_second_try_that_outlasts_its_stage_leaves_the_kept_profile(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {"prompt": {"failure": "It died."}}
    monkeypatch.setattr(SimulatedLaunch, "profile_record", failed, raising=False)
    run(a_baseline_job((CONTROL,)), engine=ProfilesAll())

    def until_killed(launch: SimulatedLaunch, *_: object) -> NoReturn:
        launch.process.wait()
        raise Infeasible("crashed", "The process ended.")

    monkeypatch.setattr(SimulatedLaunch, "profile", until_killed)
    limits_s = {Stage.PROFILE: 0.2}
    late = run(a_baseline_job((CONTROL,)), engine=ProfilesAll(), limits_s=limits_s)
    assert (late.failure, outcomes(late)) == (None, ["reused"])
    assert "took longer than its limit" in str(lone_prompt_told(late))
