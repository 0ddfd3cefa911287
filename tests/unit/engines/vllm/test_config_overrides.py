"""A head that is tied at the top of a wrapper's config.json alone is told to vLLM again."""

import pytest

from experiments.engines.vllm.config_overrides import config_overrides

TOLD = {"hf_overrides": {"text_config": {"tie_word_embeddings": True}}}


def test_a_wrapper_that_ties_at_its_top_alone_is_told_again() -> None:
    assert config_overrides({"tie_word_embeddings": True, "text_config": {"hidden_size": 8}}) == TOLD


@pytest.mark.parametrize(
    "config",
    [
        {"tie_word_embeddings": True},
        {"tie_word_embeddings": False, "text_config": {}},
        {"text_config": {}},
        {"tie_word_embeddings": True, "text_config": {"tie_word_embeddings": True}},
        {"tie_word_embeddings": True, "text_config": {"tie_word_embeddings": False}},
    ],
)
def test_nothing_is_told_where_the_text_model_says_it_or_nobody_ties(config: dict[str, object]) -> None:
    assert config_overrides(config) == {}
