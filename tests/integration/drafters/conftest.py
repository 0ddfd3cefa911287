"""Small targets and drafters with random weights, and the packaged pair."""

from __future__ import annotations

import pytest
import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.drafters.dflash.network import DFlashNetwork, initialise
from experiments.drafters.dflash.shape import DFlashShape
from experiments.drafters.dflash.target import load_target
from experiments.reference_model.architecture import TINY_SHAPE, text_config
from experiments.reference_model.load import reference_model_path
from experiments.reference_model.scores import LoadedCheckpoint
from tests.integration.one_thread import one_thread

__all__ = ["one_thread"]

TINY_DRAFTER = DFlashShape(
    vocabulary=4096,
    hidden=TINY_SHAPE.hidden,
    intermediate=48,
    layers=2,
    query_heads=4,
    kv_heads=2,
    head_size=16,
    block_tokens=4,
    mask_token_id=0,
    target_layer_ids=(0, 2, 3),
    target_layers=TINY_SHAPE.layers,
    rope_theta=10_000.0,
    max_positions=512,
)


@pytest.fixture(scope="session")
def tiny_target() -> Qwen3_5ForCausalLM:
    """A hybrid of four layers with random weights, large enough that its choices vary."""
    torch.manual_seed(11)
    target = Qwen3_5ForCausalLM(text_config(TINY_SHAPE)).float().eval().requires_grad_(False)
    with torch.no_grad():
        target.model.embed_tokens.weight.normal_(0.0, 1.0)
    return target


@pytest.fixture
def tiny_network() -> DFlashNetwork:
    """A fresh drafter beside the tiny target."""
    network = DFlashNetwork(TINY_DRAFTER)
    initialise(network, 5)
    return network


@pytest.fixture(scope="session")
def reference() -> LoadedCheckpoint:
    """The packaged reference model."""
    return load_target(reference_model_path(), torch.device("cpu"))
