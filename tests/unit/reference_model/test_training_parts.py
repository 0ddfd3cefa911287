import pytest
import torch
from torch import nn

from experiments.reference_model.architecture import (
    REFERENCE_SHAPE,
    TINY_SHAPE,
    WEIGHT_FILE_MAX_BYTES,
    Shape,
    layer_types,
    mrope_section,
)
from experiments.reference_model.checkpoint import ReferenceNetwork, fresh_network
from experiments.reference_model.optimizer import LearningRates, MuonAdamW, orthogonalised
from experiments.reference_model.token_stream import TokenPool
from experiments.reference_model.training import TrainingPlan, learning_rate_factor

MARLIN_INPUT, MARLIN_OUTPUT = 128, 64


def test_the_reference_shape_is_three_to_one_with_unequal_heads() -> None:
    kinds = layer_types(REFERENCE_SHAPE.layers)
    assert kinds.count("linear_attention") == 3 * kinds.count("full_attention")
    assert REFERENCE_SHAPE.gdn_key_heads != REFERENCE_SHAPE.gdn_value_heads


def test_the_reference_shape_has_three_to_five_million_parameters_and_fits_the_file() -> None:
    network = ReferenceNetwork(REFERENCE_SHAPE)
    trunk = sum(parameter.numel() for parameter in network.model.parameters())
    assert 3_000_000 <= trunk <= 5_000_000
    assert 2 * sum(parameter.numel() for parameter in network.parameters()) < WEIGHT_FILE_MAX_BYTES


def test_every_quantizable_matrix_suits_the_four_bit_kernels() -> None:
    network = ReferenceNetwork(REFERENCE_SHAPE)
    for name, module in network.model.named_modules():
        if isinstance(module, nn.Linear) and not name.endswith(("in_proj_a", "in_proj_b")):
            assert module.in_features % MARLIN_INPUT == 0, name
            assert module.out_features % MARLIN_OUTPUT == 0, name


def test_a_shape_that_cannot_be_three_to_one_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        Shape(**{**vars(TINY_SHAPE), "layers": 6})


def test_the_rotary_sections_add_up_to_the_frequencies() -> None:
    assert sum(mrope_section(REFERENCE_SHAPE)) == 8


def test_fresh_weights_follow_their_seed() -> None:
    first, again, other = (fresh_network(TINY_SHAPE, seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_the_schedule_rises_stays_and_falls_to_zero() -> None:
    assert learning_rate_factor(0.0) == 0.0
    assert learning_rate_factor(0.3) == 1.0
    assert 0.0 < learning_rate_factor(0.9) < 0.5
    assert learning_rate_factor(1.0) == 0.0


def test_orthogonalised_matrices_have_singular_values_near_one() -> None:
    for shape in ((2, 32, 64), (2, 64, 32)):
        matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        values = torch.linalg.svdvals(orthogonalised(matrices))
        assert 0.5 < values.min() < values.max() < 1.3


def test_the_optimizer_finds_the_minimum_of_a_small_problem() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(32, 32)
    wanted = torch.randn(32, 32) * 0.1
    inputs = torch.randn(256, 32)
    optimizer = MuonAdamW(layer, LearningRates(weight_decay=0.0))
    losses = []
    for step in range(300):
        loss = (layer(inputs) - inputs @ wanted).square().mean()
        loss.backward()
        optimizer.step(1.0 - step / 300)
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]


def test_windows_begin_with_the_end_of_text_and_weigh_what_they_predict() -> None:
    pool = TokenPool(torch.arange(10, 30, dtype=torch.int32), torch.arange(20).half(), torch.tensor([3]), 0)
    ids, weights = pool.windows(2, 4, torch.Generator().manual_seed(0))
    assert ids.tolist() == [[0, 13, 14, 15, 16]] * 2
    assert weights.tolist() == [[3.0, 4.0, 5.0, 6.0]] * 2


def test_a_plan_needs_one_length() -> None:
    with pytest.raises(ValueError, match="steps or minutes"):
        TrainingPlan(rows=1, length=64, mtp_rows=1)
    with pytest.raises(ValueError, match="mtp_rows"):
        TrainingPlan(rows=1, length=64, mtp_rows=2, steps=1)
