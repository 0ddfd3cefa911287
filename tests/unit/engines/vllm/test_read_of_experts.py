"""What a step reads of experts, by its tokens, and which part a linear layer beside them is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.vllm.kernel_parts import kind_of
from experiments.engines.vllm.read_of_experts import step_weights, token_operations
from experiments.engines.vllm.served_experts import EXPERTS, SHARED_EXPERT, linear_part

MIXTURE = {
    "weight_bytes": {"qkv_proj": 700, "shared_expert": 90},
    "operations": {"qkv_proj": 700, "shared_expert": 90},
    "experts": {"bytes": 256_000, "count": 256, "per_token": 8, "operations": 16_000},
}
DENSE = {"weight_bytes": {"qkv_proj": 700}, "operations": {"qkv_proj": 700}}


def test_a_lone_token_reads_the_experts_that_it_goes_through() -> None:
    assert step_weights(MIXTURE, 1) == {"qkv_proj": 700, "shared_expert": 90, "experts": 8_000}


@given(st.integers(1, 4096), st.integers(0, 64))
def test_more_tokens_read_more_experts_and_never_more_than_there_are(rows: int, more: int) -> None:
    fewer, others = (step_weights(MIXTURE, each)["experts"] for each in (rows, rows + more))
    assert 8_000 <= fewer <= others <= 256_000
    assert others <= 8_000 * (rows + more)


def test_what_drafts_reads_its_own_experts_in_each_pass_for_one_token_of_each_request() -> None:
    told = {"bytes": 2_560, "count": 256, "per_token": 8, "operations": 1, "passes": 3}
    read = {"weight_bytes": {"draft": 1_000}, "draft_experts": told}
    assert step_weights(read, 4) == {"draft": 1_000 + 3 * 80}
    assert 1_000 + 3 * 80 < step_weights(read, 16, 4)["draft"] < 1_000 + 4 * 3 * 80


def test_of_a_dense_model_nothing_changes_with_the_tokens() -> None:
    assert step_weights(DENSE, 1) == step_weights(DENSE, 64) == DENSE["weight_bytes"]
    assert token_operations(DENSE) == DENSE["operations"]


def test_a_token_computes_with_its_own_experts_however_many_are_read() -> None:
    assert token_operations(MIXTURE)["experts"] == 16_000


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("language_model.model.layers.3.mlp.gate", "shared_expert"),
        ("model.layers.3.mlp.shared_expert_gate", "shared_expert"),
        ("model.layers.3.mlp.shared_expert.gate_up_proj", "shared_expert"),
        ("model.layers.3.mlp.shared_expert.down_proj", "shared_expert"),
        ("model.layers.3.mlp.gate_up_proj", "gate_up_proj"),
        ("model.layers.3.linear_attn.in_proj_ba", "in_proj_ba"),
    ],
)
def test_what_stands_beside_experts_is_one_part(name: str, part: str) -> None:
    assert linear_part(name.split(".")) == part


def test_experts_are_a_kind_of_their_own_and_what_stands_beside_is_products() -> None:
    assert [kind_of(part) for part in (EXPERTS, SHARED_EXPERT, "qkv_proj")] == [EXPERTS, "gemm", "gemm"]
