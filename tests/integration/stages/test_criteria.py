"""Each criterion's scores are what its definition says, worked out the long way on tiny models."""

import pytest
import torch

from experiments.stages.pruning import layer_walk
from experiments.stages.pruning.block_influence import block_influence
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.criteria import CRITERIA
from experiments.stages.pruning.leave_one_out import LeaveOneOut
from tests.integration.engines.checkpoints import LAYERS, tiny_model
from tests.integration.stages.pruned import pruned_by_hand

DOCUMENTS = [tuple(range(7 * start, 7 * start + 50)) for start in range(4)]
UNEVEN = [DOCUMENTS[0], DOCUMENTS[1][:20], DOCUMENTS[2][:33]]


def test_block_influence_is_read_before_the_final_norm() -> None:
    model = tiny_model(layers=LAYERS)
    scores = block_influence(model, DOCUMENTS)
    cosines = torch.zeros(len(LAYERS), dtype=torch.double)
    tokens = 0
    with torch.inference_mode():
        for document in DOCUMENTS:
            states = list(model(torch.tensor([document]), output_hidden_states=True).hidden_states)
            last = states[-2]
            kind = model.model.layers[-1]
            cos_sin = model.model.rotary_emb(last, torch.arange(len(document)).expand(3, 1, -1))
            mask = torch.full((len(document),) * 2, float("-inf")).triu(1)[None, None]
            states[-1] = kind(last, position_embeddings=cos_sin, attention_mask=mask)
            for layer in range(len(LAYERS)):
                cosines[layer] += (
                    torch.cosine_similarity(states[layer], states[layer + 1], dim=-1).double().sum()
                )
            tokens += len(document)
    assert scores.means == pytest.approx((1 - cosines / tokens).tolist(), abs=1e-5)
    assert len({round(score, 3) for score in scores.means}) == len(LAYERS)


def kl_by_hand(removed: set[int], document: tuple[int, ...]) -> float:
    model = tiny_model(layers=LAYERS)
    ids = torch.tensor([document])
    with torch.inference_mode():
        whole = torch.log_softmax(model(ids).logits.double(), -1)
        without = torch.log_softmax(pruned_by_hand(model, removed)(ids).logits.double(), -1)
        return float((whole.exp() * (whole - without)).sum(-1).mean())


@pytest.mark.parametrize("row_tokens", [1, 100, 10_000])
def test_leave_one_out_kl_is_that_of_models_without_a_layer(
    monkeypatch: pytest.MonkeyPatch, row_tokens: int
) -> None:
    monkeypatch.setattr(layer_walk, "ROW_TOKENS", row_tokens)
    scores = LeaveOneOut(tiny_model(layers=LAYERS), UNEVEN).all_layers()
    assert scores.tokens == (50, 20, 33)
    for row, document in zip(scores.by_document, UNEVEN, strict=True):
        assert row == pytest.approx([kl_by_hand({layer}, document) for layer in range(5)], rel=1e-4, abs=1e-6)
    assert min(scores.means) > 0.01


def test_kl_without_more_layers_is_against_the_whole_model() -> None:
    scorer = LeaveOneOut(tiny_model(layers=LAYERS), UNEVEN)
    expected = [[kl_by_hand({1, 3, layer}, document) for layer in (0, 2)] for document in UNEVEN]
    for _ in range(2):  # before and after the whole model's states are kept
        scores = scorer.without((1, 3), (0, 2))
        assert [list(row) for row in scores.by_document] == [
            pytest.approx(row, rel=1e-4, abs=1e-6) for row in expected
        ]
        scorer.all_layers()


def test_a_half_of_the_forwards_is_all_that_leave_one_out_takes() -> None:
    model = tiny_model(layers=LAYERS)
    scorer = LeaveOneOut(model, DOCUMENTS[:1])
    scorer.all_layers()
    tokens = 0

    def count(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        nonlocal tokens
        tokens += args[0].shape[0] * args[0].shape[1]

    handles = [layer.register_forward_pre_hook(count) for layer in model.model.layers]
    scorer.all_layers()
    for handle in handles:
        handle.remove()
    layers = len(LAYERS)
    assert tokens == 50 * layers * (layers + 1) / 2


def test_greedy_takes_the_least_of_what_is_left_each_time() -> None:
    model = tiny_model(layers=LAYERS)
    greedy = CRITERIA["greedy_kl"].load()(model, DOCUMENTS[:2], Choice(3, "any"))
    gone: set[int] = set()
    for each in greedy.rounds:
        for layer, score in each.scores.items():
            by_hand = [kl_by_hand(gone | {layer}, document) for document in DOCUMENTS[:2]]
            assert score == pytest.approx(sum(by_hand) / 2, rel=1e-4, abs=2e-6)
        gone.add(each.removed)
    assert {LAYERS[index] for index in set(range(5)) - gone} == set(LAYERS)


@pytest.mark.parametrize("restrict", ["any", "gdn", "attention"])
def test_greedy_is_leave_one_out_for_one_layer(restrict: str) -> None:
    model, choice = tiny_model(seed=3, layers=LAYERS), Choice(1, restrict)
    greedy, once = (
        CRITERIA[name].load()(model, DOCUMENTS, choice) for name in ("greedy_kl", "leave_one_out_kl")
    )
    assert greedy == once


@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_scores_do_not_depend_on_how_many_documents_are_read_at_a_time(criterion: str) -> None:
    model, rank = tiny_model(layers=LAYERS), CRITERIA[criterion].load()
    assert rank(model, UNEVEN, Choice(2, "any"), 3) == rank(model, UNEVEN, Choice(2, "any"), 1)


@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_every_criterion_leaves_the_model_as_it_was_and_repeats_itself(criterion: str) -> None:
    model = tiny_model(layers=LAYERS)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rankings = [CRITERIA[criterion].load()(model, DOCUMENTS, Choice(2, "any")) for _ in range(2)]
    assert rankings[0] == rankings[1]
    assert len(rankings[0].scores.means) == len(LAYERS)
    assert len(rankings[0].scores.by_document) == len(DOCUMENTS)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.model.layers)
