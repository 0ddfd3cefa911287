"""A model with fewer positions than a space has contexts: it is served with all of them,
or what fits is told."""

import pytest

from agent.ground.positions import space_before, space_on, what_fits
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from configs.models import ModelProfile, load_model_profile
from experiments.measurement.plan import Workload
from experiments.space.legality import ModelFacts, legal_levers
from experiments.space.loading import load_space
from experiments.space.workload_rules import MAX_MODEL_LEN

WITH_FEWER = load_model_profile("reference").model_copy(update={"max_positions": 1024})


def spec_of(**workload: object) -> CampaignSpec:
    asked = {f"plan.workload.{name}": value for name, value in workload.items()}
    return load_campaign("default", {"engine": "vllm", "space": "vllm", **asked})


def contexts(spec: CampaignSpec, profile: ModelProfile) -> tuple[object, ...]:
    return legal_levers(space_on(spec, profile), ModelFacts.of(profile))[0].knob(MAX_MODEL_LEN).values


def test_a_model_with_fewer_positions_than_the_least_context_is_served_with_all_of_them() -> None:
    assert contexts(spec_of(), WITH_FEWER) == (1024,)
    more = WITH_FEWER.model_copy(update={"max_positions": 3000})
    assert contexts(spec_of(), more) == (2048,)
    assert 3000 in contexts(spec_of(prompt_tokens=2100), more)


def test_nothing_is_added_where_a_context_fits_or_the_model_has_more_positions_than_any() -> None:
    whole = load_space("vllm").knob(MAX_MODEL_LEN).values
    for positions in (4096, 262_144):
        profile = WITH_FEWER.model_copy(update={"max_positions": positions})
        assert space_on(spec_of(), profile).knob(MAX_MODEL_LEN).values == whole
    assert space_on(load_campaign("default", {}), WITH_FEWER) == load_space("reference")


def test_a_mixture_of_experts_has_knobs_of_experts_and_before_a_model_is_there_they_may_be_named() -> None:
    mixture = load_model_profile("qwen3.5-35b-a3b")
    assert "serving.moe_backend" in space_on(spec_of(), mixture).configuration({})
    assert "serving.moe_backend" not in space_on(spec_of(), WITH_FEWER).configuration({})
    assert "serving.moe_backend" in space_before(spec_of()).configuration({})


def test_of_a_workload_that_is_too_long_the_largest_numbers_that_fit_are_said_and_fit() -> None:
    with pytest.raises(UsageError) as refused:
        space_on(spec_of(prompt_tokens=1000), WITH_FEWER)
    assert refused.value.message == (
        "The workload's sequences have 1064 tokens, and one more is needed; the model's have 1024 at most."
    )
    assert refused.value.hint == (
        "Write in the campaign's file plan.workload.prompt_tokens of at most 959 or "
        "plan.workload.new_tokens and plan.workload.drafting_new_tokens of at most 23."
    )
    short = {"new_tokens": 23, "drafting_new_tokens": 23}
    for fits in ({"prompt_tokens": 959}, {"prompt_tokens": 1000, **short}):
        assert contexts(spec_of(**fits), WITH_FEWER) == (1024,)
    for longer in ({"prompt_tokens": 960}, {"prompt_tokens": 1000, **short, "new_tokens": 24}):
        with pytest.raises(UsageError, match="one more is needed"):
            space_on(spec_of(**longer), WITH_FEWER)


def test_what_is_scored_and_answers_longer_than_all_positions_are_told_too() -> None:
    assert what_fits(Workload(evaluation_tokens_per_document=2000), 1023) == (
        "plan.workload.evaluation_tokens_per_document of at most 1023"
    )
    assert what_fits(Workload(prompt_tokens=2000, new_tokens=2000), 1023) == (
        "plan.workload.prompt_tokens and the larger of new_tokens and drafting_new_tokens there of at most "
        "1023 together"
    )
    both = what_fits(Workload(prompt_tokens=1000, new_tokens=64, evaluation_tokens_per_document=1024), 1023)
    assert both.endswith(", and plan.workload.evaluation_tokens_per_document of at most 1023")


def test_of_two_limits_the_smaller_is_told_so_that_what_is_advised_is_served() -> None:
    many = WITH_FEWER.model_copy(update={"max_positions": 50_000})
    with pytest.raises(UsageError) as refused:
        space_on(spec_of(prompt_tokens=60_000), many)
    assert "the space vllm has serving.max_model_len of at most 32768" in refused.value.message
    assert "plan.workload.prompt_tokens of at most 32703" in refused.value.hint
    assert 32_768 in contexts(spec_of(prompt_tokens=32_703), many)
