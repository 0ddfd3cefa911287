"""The network: who sees whom, and that its layers compute what Qwen3's do."""

from __future__ import annotations

import torch
from transformers import Qwen3Config, Qwen3Model
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.drafters.dflash.blocks import draft_hidden, labels, read_target, visible
from experiments.drafters.dflash.config import to_config
from experiments.drafters.dflash.network import DFlashNetwork
from experiments.drafters.dflash.target import FeatureTap

CONTEXT = 6


def block_outputs(network: DFlashNetwork, features: torch.Tensor, block: torch.Tensor) -> torch.Tensor:
    places = torch.arange(features.shape[1])[None]
    with torch.inference_mode():
        return network(
            block, features.shape[1] + torch.arange(block.shape[1])[None], network.context(features, places)
        )


def random_inputs(network: DFlashNetwork) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    shape = network.shape
    return torch.randn(1, CONTEXT, shape.features), torch.randn(1, shape.block_tokens, shape.hidden)


def test_a_block_position_sees_later_positions_of_its_block(tiny_network: DFlashNetwork) -> None:
    features, block = random_inputs(tiny_network)
    changed = block.clone()
    changed[:, -1] += 1.0
    before, after = (
        block_outputs(tiny_network, features, block),
        block_outputs(tiny_network, features, changed),
    )
    assert (before[:, 0] - after[:, 0]).abs().max() > 1e-5


def test_a_block_position_sees_every_position_of_the_context(tiny_network: DFlashNetwork) -> None:
    features, block = random_inputs(tiny_network)
    before = block_outputs(tiny_network, features, block)
    for place in range(CONTEXT):
        changed = features.clone()
        changed[:, place] *= -1.0
        assert (before - block_outputs(tiny_network, changed, block)).abs().max() > 1e-6


def test_context_positions_see_neither_the_block_nor_each_other(tiny_network: DFlashNetwork) -> None:
    features, _ = random_inputs(tiny_network)
    together = tiny_network.context(features, torch.arange(CONTEXT)[None])
    for place in range(CONTEXT):
        alone = tiny_network.context(features[:, place : place + 1], torch.tensor([[place]]))
        for (keys, values), (own_keys, own_values) in zip(together, alone, strict=True):
            torch.testing.assert_close(keys[:, :, place : place + 1], own_keys)
            torch.testing.assert_close(values[:, :, place : place + 1], own_values)


def test_the_mask_of_many_blocks_shows_each_its_context_and_itself() -> None:
    seen = visible(torch.tensor([[1, 3]]), positions=4, block_tokens=2)[0, 0]
    assert seen.int().tolist() == [
        [1, 0, 0, 0, 1, 1, 0, 0],
        [1, 0, 0, 0, 1, 1, 0, 0],
        [1, 1, 1, 0, 0, 0, 1, 1],
        [1, 1, 1, 0, 0, 0, 1, 1],
    ]


def test_many_blocks_in_one_pass_are_those_made_one_by_one(
    tiny_network: DFlashNetwork, tiny_target: Qwen3_5ForCausalLM
) -> None:
    ids = torch.randint(1, 4096, (2, 16), generator=torch.Generator().manual_seed(1))
    anchors = torch.tensor([[1, 5, 9], [2, 2, 12]])
    reading = read_target(tiny_target, tiny_network.shape.target_layer_ids, ids)
    with torch.inference_mode():
        together = draft_hidden(tiny_network, tiny_target, reading.features, ids, anchors)
        for row in range(2):
            for block, anchor in enumerate(anchors[row].tolist()):
                tokens = torch.zeros(1, tiny_network.shape.block_tokens, dtype=torch.long)
                tokens[0, 0] = ids[row, anchor]
                alone = block_outputs(
                    tiny_network,
                    reading.features[row : row + 1, :anchor],
                    tiny_target.model.embed_tokens(tokens),
                )
                torch.testing.assert_close(together[row, block], alone[0, 1:])


def test_the_layers_compute_what_transformers_qwen3_computes(tiny_network: DFlashNetwork) -> None:
    config = {name: value for name, value in to_config(tiny_network.shape).items() if name != "model_type"}
    theirs = Qwen3Model(Qwen3Config(**config, attn_implementation="sdpa")).float().eval()
    own = {
        name: tensor
        for name, tensor in tiny_network.state_dict().items()
        if not name.startswith(("fc.", "hidden_norm."))
    }
    with torch.no_grad():
        for tensor in own.values():
            tensor += 0.1 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(2))
    told = theirs.load_state_dict(own, strict=False)
    assert told.missing_keys == ["embed_tokens.weight"]
    assert not told.unexpected_keys
    _, block = random_inputs(tiny_network)
    tokens = block.shape[1]
    positions = 40 + torch.arange(tokens)[None]
    nothing = [(torch.zeros(1, 2, 0, 16), torch.zeros(1, 2, 0, 16))] * tiny_network.shape.layers
    with torch.inference_mode():
        ours = tiny_network(block, positions, nothing)
        expected = theirs(
            inputs_embeds=block,
            position_ids=positions,
            attention_mask=torch.zeros(1, 1, tokens, tokens),  # added to the scores: all see all
            use_cache=False,
        ).last_hidden_state
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


def test_the_features_are_the_streams_after_the_layers_the_last_before_the_final_norm(
    tiny_target: Qwen3_5ForCausalLM,
) -> None:
    ids = torch.arange(1, 9)[None]
    with torch.inference_mode(), FeatureTap(tiny_target, (0, 2, 3)) as tap:
        states = tiny_target(ids, use_cache=False, output_hidden_states=True).hidden_states
        first, third, last = tap.features().chunk(3, dim=-1)
        torch.testing.assert_close(first, states[1])
        torch.testing.assert_close(third, states[3])
        torch.testing.assert_close(tiny_target.model.norm(last), states[-1])


def test_the_tap_leaves_no_hook_behind(tiny_target: Qwen3_5ForCausalLM) -> None:
    before = [len(layer._forward_hooks) for layer in tiny_target.model.layers]
    with FeatureTap(tiny_target, (0, 3)):
        assert len(tiny_target.model.layers[0]._forward_hooks) == before[0] + 1
    assert [len(layer._forward_hooks) for layer in tiny_target.model.layers] == before


def test_labels_end_where_the_text_departs_from_what_the_target_says() -> None:
    ids = torch.tensor([[9, 1, 2, 3, 4, 5]])
    greedy = torch.tensor([[1, 2, 7, 4, 5, 6]])  # after position 2 the target would say 7, the text says 3
    wanted, known = labels(ids, greedy, torch.tensor([[0, 1, 2]]), block_tokens=4)
    assert wanted.tolist() == [[[1, 2, 7], [2, 7, 4], [7, 4, 5]]]
    assert known.tolist() == [[[True, True, True], [True, True, False], [True, False, False]]]
