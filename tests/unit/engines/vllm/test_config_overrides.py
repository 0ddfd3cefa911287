"""A head that is tied at the top of a wrapper's config.json alone is told to vLLM again."""

import json
from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.engines.vllm.checked_order import checked_order
from experiments.engines.vllm.config_overrides import config_overrides
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration

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


def test_a_launch_is_ordered_with_it(tmp_path: Path) -> None:
    nothing = Configuration.of({})
    shape = write_shape(load_model_profile("qwen3.5-0.8b"), nothing, tmp_path / "shape")
    assert "hf_overrides" not in checked_order(nothing, shape, "cpu")[0].arguments
    config = json.loads((shape / "config.json").read_text())
    del config["text_config"]["tie_word_embeddings"]
    (shape / "config.json").write_text(json.dumps(config))
    assert checked_order(nothing, shape, "cpu")[0].arguments.items() >= TOLD.items()
