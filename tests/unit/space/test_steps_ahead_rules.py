"""Steps ahead beside drafts by n-grams: what each version of vLLM allows, and what is not known."""

from __future__ import annotations

import pytest

from agent.ground.sweep import passed_over, swept
from configs.models import load_model_profile
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu import Gpu
from experiments.space.legality import ModelFacts, joint_refusal, legal_levers
from experiments.space.loading import load_space
from experiments.space.space import Space
from experiments.space.steps_ahead_rules import AHEAD, ahead_refused

SPACE, PROFILE = load_space("vllm"), load_model_profile("qwen3.5-9b")


def refused(ahead: str, version: tuple[int, int] | None, method: str = "ngram") -> str | None:
    asked = SPACE.configuration({"drafting.method": method, AHEAD: ahead})
    return joint_refusal(asked, ModelFacts.of(PROFILE, gpu=Gpu("9.0", version=version)))


@pytest.mark.parametrize("version", [(0, 26), (0, 32)])
def test_before_0_33_steps_can_be_scheduled_ahead_beside_anything_but_ngrams(
    version: tuple[int, int],
) -> None:
    told = refused("on", version)
    assert told is not None
    assert told.startswith(
        f"vLLM 0.{version[1]} schedules no step ahead beside drafts by n-grams, which 0.33 "
    )
    assert told.endswith(f"leave {AHEAD} at auto, or take another drafting.method.")
    assert refused("off", version) is refused("auto", version) is None
    assert refused("on", version, "none") is refused("on", version, "mtp") is None


@pytest.mark.parametrize("version", [(0, 33), (0, 34), (1, 0), None])
def test_from_0_33_on_and_where_the_version_is_not_known_both_ways_may_be_asked_for(
    version: tuple[int, int] | None,
) -> None:
    assert [refused(value, version) for value in ("auto", "on", "off")] == [None, None, None]


def test_of_other_engines_and_where_nothing_is_known_nothing_is_said() -> None:
    asked = {"drafting.method": "ngram", AHEAD: "on"}
    assert ahead_refused(asked, Gpu("9.0", engine="another", version=(0, 26))) is None
    assert ahead_refused(asked, None) is None
    assert joint_refusal(SPACE.configuration(asked), ModelFacts.of(PROFILE)) is None


def space_on(version: tuple[int, int] | None) -> Space:
    space, _ = legal_levers(SPACE, ModelFacts.of(PROFILE, gpu=Gpu("9.0", version=version)))
    return space


def ahead_nearby(space: Space, configuration: Configuration) -> set[KnobValue]:
    """Values of the knob that single changes of it lead to."""
    near = space.neighbours(configuration)
    return {each[AHEAD] for each in near if each[AHEAD] != configuration[AHEAD]}


@pytest.mark.parametrize("version", [(0, 26), (0, 32)])
def test_before_0_33_off_beside_ngrams_is_what_auto_is_and_no_neighbour(version: tuple[int, int]) -> None:
    space = space_on(version)
    auto = space.configuration({"drafting.method": "ngram"})
    off = space.with_change(auto, {AHEAD: "off"})
    assert ahead_nearby(space, auto) == {"on"}
    assert ahead_nearby(space, off) == {"on"}
    assert space.why_same(auto, off) == space.why_same(off, auto)
    assert str(space.why_same(auto, off)).startswith(f"vLLM 0.{version[1]} schedules no step ahead beside")
    assert space.why_same(auto, auto) is None


def test_beside_other_drafting_both_are_tested_and_who_changes_drafting_changes_something() -> None:
    space = space_on((0, 32))
    off = space.configuration({AHEAD: "off"})
    assert ahead_nearby(space, space.configuration({})) == {"on", "off"}
    assert space.with_change(off, {"drafting.method": "ngram"}) in space.neighbours(off)
    more = space.configuration({"drafting.method": "ngram", "serving.prefix_caching": "on"})
    assert space.why_same(space.configuration({"drafting.method": "ngram", AHEAD: "off"}), more) is None


@pytest.mark.parametrize("version", [(0, 33), (1, 0), None])
def test_from_0_33_on_both_are_tested_beside_ngrams_too(version: tuple[int, int] | None) -> None:
    space = space_on(version)
    assert ahead_nearby(space, space.configuration({"drafting.method": "ngram"})) == {"on", "off"}


@pytest.mark.parametrize(
    ("sweep", "times"),
    [
        ({AHEAD: ["auto", "off"]}, ["auto"]),
        ({AHEAD: ["off", "on", "auto"]}, ["auto", "on"]),
        ({AHEAD: ["off"]}, ["off"]),
        ([AHEAD], ["auto", "on"]),
    ],
)
def test_a_sweep_beside_ngrams_times_one_of_the_two_and_says_so(
    sweep: list[str] | dict[str, list[KnobValue]], times: list[str]
) -> None:
    space = space_on((0, 32))
    start = space.configuration({"drafting.method": "ngram"})
    assert [each[AHEAD] for each in swept(space, start, sweep)] == times
    told = passed_over(space, start, (), sweep)
    if times == ["off"]:
        assert told is None
    else:
        assert str(told).startswith(f"The sweep before trial 0 passes over {AHEAD}=off: vLLM 0.32 ")
    whole = swept(space, None, {AHEAD: ["auto", "off"]})
    assert [each[AHEAD] for each in whole] == ["auto", "off"], "without drafts they differ"
    assert passed_over(space, None, (), sweep) is None
