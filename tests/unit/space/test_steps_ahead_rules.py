"""Steps ahead beside drafts by n-grams: what each version of vLLM allows, and what is not known."""

from __future__ import annotations

import pytest

from configs.models import load_model_profile
from experiments.space.gpu import Gpu
from experiments.space.legality import ModelFacts, joint_refusal
from experiments.space.loading import load_space
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
