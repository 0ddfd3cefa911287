"""The reference engine serves a Mixture of Experts: transformers' own text, drafted or compiled too."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS
from transformers.models.qwen3_5_moe import Qwen3_5MoeForCausalLM

from configs.models import Experts
from experiments.engines.port import GenerationRequest, Infeasible, ScoringDocument
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.check import check_drafting
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.drafting.profile import profile_speculation
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.module_bytes import bytes_of, bytes_read
from experiments.engines.reference.mtp_head import load_head
from experiments.engines.reference.profile import profile_step
from experiments.engines.reference.resolved import resolved_configuration
from experiments.engines.reference.score import Scorer
from tests.integration.engines.checkpoints import LAYERS, tiny_mixture, tiny_model, write_checkpoint
from tests.integration.engines.drafted import (
    with_and_without,
    write_block_drafter,
    write_nearly_the_same,
    write_target,
)
from tests.integration.engines.test_reference_decode import LENGTHS, growing_and_fixed, prompt

CPU = torch.device("cpu")

OF_8 = Experts(count=8, per_token=2, intermediate=32)

NEW_TOKENS = 20


@pytest.fixture(scope="module")
def model() -> Qwen3_5MoeForCausalLM:
    return tiny_mixture(layers=LAYERS).requires_grad_(False)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, model: Qwen3_5MoeForCausalLM) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("mixture")
    return {
        "target": write_target(folder / "target", model),
        "apart": write_target(folder / "apart", model, each_expert=True),
        "near": write_nearly_the_same(folder / "near", model, 0.03),
        "dense": write_checkpoint(folder / "dense", tiny_model(layers=LAYERS)),
        "blocks": write_block_drafter(folder / "blocks"),
    }


def requests(new_tokens: int = NEW_TOKENS) -> list[GenerationRequest]:
    prompts = [prompt(3, 70), prompt(4, 6) * 4]
    return [GenerationRequest(f"prose:{place}", ids, new_tokens) for place, ids in enumerate(prompts)]


@pytest.mark.parametrize("form", ["target", "apart"])
def test_loading_gives_what_from_pretrained_gives(folders: dict[str, Path], form: str) -> None:
    theirs = Qwen3_5MoeForCausalLM.from_pretrained(folders["apart"], dtype=torch.float32)
    ours = load_model(inspect_checkpoint(folders[form]), torch.float32, CPU)
    expected = dict(theirs.named_parameters()) | dict(theirs.named_buffers())
    found = dict(ours.named_parameters()) | dict(ours.named_buffers())
    assert found.keys() == expected.keys()
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())


@pytest.mark.parametrize(("compiles", "way"), [(False, "grouped_mm"), (True, "batched_mm")])
def test_a_compiled_step_multiplies_each_row_with_its_own_experts_and_all_else_by_expert(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, compiles: bool, way: str
) -> None:
    loaded = load_model(inspect_checkpoint(folders["target"]), torch.float32, CPU)
    ways, taken = ("grouped_mm", "batched_mm"), list[str]()
    for each in ways:

        def spy(*given: torch.Tensor, each: str = each, own: Any = ALL_EXPERTS_FUNCTIONS[each]) -> Any:
            taken.append(each)
            return own(*given)

        monkeypatch.setitem(ALL_EXPERTS_FUNCTIONS, each, spy)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiles)
    with torch.inference_mode():
        loaded(torch.tensor([[1, 2, 3]]))
    assert taken == [way] * len(LAYERS)


def test_greedy_text_is_that_of_generate(tmp_path: Path, model: Qwen3_5MoeForCausalLM) -> None:
    decoder = Decoder(load_model_of(model, tmp_path), "off", tmp_path)
    for request in requests(40):
        with torch.inference_mode():
            told = model.generate(
                torch.tensor([request.prompt_ids]), max_new_tokens=40, min_new_tokens=40, do_sample=False
            )
        expected = told[0, len(request.prompt_ids) :].tolist()
        assert list(decoder.generate(request).token_ids) == expected
        assert len(set(expected)) > 5, "the text is too dull to tell anything"


def load_model_of(model: Qwen3_5MoeForCausalLM, folder: Path) -> Qwen3_5MoeForCausalLM:
    return load_model(inspect_checkpoint(write_checkpoint(folder, model)), torch.float32, CPU)


def test_the_fixed_shape_step_computes_what_the_growing_cache_computes(
    tmp_path: Path, model: Qwen3_5MoeForCausalLM
) -> None:
    for growing, fixed in growing_and_fixed(load_model_of(model, tmp_path), LENGTHS):
        torch.testing.assert_close(fixed, growing, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("method", "draft_tokens", "target", "drafter"),
    [
        ("ngram", 3, "target", ""),
        pytest.param("mtp", 1, "target", "", marks=pytest.mark.bench_only),
        ("mtp", 3, "apart", ""),
        ("draft_model", 3, "target", "near"),
        ("draft_model", 2, "target", "dense"),
        pytest.param("draft_model", 2, "dense", "near", marks=pytest.mark.bench_only),
        ("dflash", 3, "target", "blocks"),
    ],
)
def test_drafting_changes_no_token(
    folders: dict[str, Path], method: str, draft_tokens: int, target: str, drafter: str
) -> None:
    order = DraftingOrder(
        method, draft_tokens, str(folders[drafter]) if drafter else "", 2 if method == "ngram" else 0
    )
    plain, speculation = with_and_without(folders[target], order)
    steps = []
    for request in requests():
        trace = speculation.generate(request)
        assert trace.token_ids == plain.generate(request).token_ids
        steps += trace.step_tokens
    assert all(1 <= tokens <= draft_tokens + 1 for tokens in steps)
    if (target, drafter) == ("target", "near"):
        assert max(steps) > 2, "a draft that is often right stands"


def test_in_bfloat16_texts_differ_at_near_ties_alone(folders: dict[str, Path]) -> None:
    order = DraftingOrder("draft_model", 2, str(folders["near"]))
    _, speculation = with_and_without(folders["target"], order, dtype=torch.bfloat16)
    assert [check.divergences for check in check_drafting(speculation, requests())] == [0, 0]


def test_the_experts_of_a_head_are_joined_and_one_that_lacks_is_named(
    folders: dict[str, Path], model: Qwen3_5MoeForCausalLM, tmp_path: Path
) -> None:
    heads = [load_head(inspect_checkpoint(folders[form]), model).state_dict() for form in ("target", "apart")]
    assert heads[0].keys() == heads[1].keys()
    assert all(torch.equal(tensor, heads[1][name]) for name, tensor in heads[0].items())
    tensors = load_file(folders["apart"] / "model.safetensors")
    config = (folders["apart"] / "config.json").read_text()
    lost = "mtp.layers.0.mlp.experts.5.up_proj.weight"
    save_file({name: each for name, each in tensors.items() if name != lost}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(Infeasible, match=r"experts\.5\.up_proj\.weight is missing, where config") as told:
        load_head(inspect_checkpoint(tmp_path), model)
    assert told.value.kind == "checkpoint"
    save_file(tensors, tmp_path / "model.safetensors")
    fewer = json.loads(config) | {"num_experts": 7}
    (tmp_path / "config.json").write_text(json.dumps(fewer))
    with pytest.raises(Infeasible, match=r"experts\.7\.down_proj\.weight is one too many"):
        load_model(inspect_checkpoint(tmp_path), torch.float32, CPU)


def test_a_step_is_profiled_and_reads_the_experts_of_its_tokens(
    tmp_path: Path, folders: dict[str, Path], model: Qwen3_5MoeForCausalLM
) -> None:
    plain, speculation = with_and_without(folders["target"], DraftingOrder("mtp", 2))
    parts = profile_step(plain, GenerationRequest("a", tuple(range(40)), 12))
    assert Counter(part.kind for part in parts) == {
        "gdn": 3, "attention": 2, "mlp": 5, "norm": 11,
        "embedding": 1, "rotary": 1, "lm_head": 1, "sampling": 1, "rest": 1,
    }  # fmt: skip
    assert all(part.time_ms > 0 for part in parts if part.kind in ("gdn", "attention", "mlp", "lm_head"))
    read = {part.part: part.weight_bytes for part in parts}
    of_one = 3 * 48 * 32 * 4
    assert read["layers.0.mlp"] == 2 * of_one + (3 * 48 * 64 + 9 * 48) * 4
    assert sum(read.values()) == bytes_of(model) - 5 * 6 * of_one + 48 * 4
    drafted = {part.part: part for part in profile_speculation(speculation, requests(12)[1])}
    more = 5 * (OF_8.read(3) - 2) * of_one
    assert drafted["verify"].weight_bytes == pytest.approx(sum(read.values()) + more, abs=5)
    head = speculation.decoder.head
    assert head is not None
    assert drafted["draft"].weight_bytes == bytes_read(head, 3) + bytes_read(head, 1) + 2 * read["lm_head"]
    assert bytes_of(head) - bytes_read(head, 1) == 6 * of_one


def test_a_document_is_scored_as_it_is_decoded(tmp_path: Path, model: Qwen3_5MoeForCausalLM) -> None:
    decoder = Decoder(load_model_of(model, tmp_path), "off", tmp_path)
    documents, _ = Scorer(decoder).score([ScoringDocument("a", prompt(3, 150), 300)], [], None, None)
    assert documents[1].item == "decode:a"
    assert documents[1].kl_nats == pytest.approx(0, abs=1e-5)


@pytest.mark.bench_only
@pytest.mark.parametrize("mode", ["default", "cpp_wrapper"])
def test_a_compiled_step_gives_the_eager_text(tmp_path: Path, mode: str) -> None:
    target = write_target(tmp_path / "target", tiny_mixture(layers=LAYERS[:2]))
    order = DraftingOrder("mtp", 1)
    eager, _ = with_and_without(target, order)
    _, speculation = with_and_without(target, order, mode=mode, cache_dir=tmp_path / "cache")
    for request in requests(12):
        assert speculation.generate(request).token_ids == eager.generate(request).token_ids
    told = resolved_configuration(speculation.decoder, speculation)["compile"]
    assert isinstance(told, dict)
    assert (told["mode"], told["used"]) == (mode, True)
    if mode == "default":
        assert told["graph_breaks"] == 0
