"""The stages on a real GPU: quantized layer by layer there, ranked there whole and streamed.

Skipped where this Python has no torch that sees a GPU; quantizing also where there is no llmcompressor.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.stages.pruning.block_influence import block_influence
from experiments.stages.pruning.streamed_model import streamed_model
from experiments.stages.quantize.environment import needed_python
from experiments.stages.quantize.recipe import QuantizationRecipe
from experiments.stages.quantize.stage import quantize
from tests.integration.engines.checkpoints import LAYERS, tiny_model, write_checkpoint
from tests.integration.stages.quantizable import CPU, quantizable, quantizable_mixture, quantizable_model
from tests.integration.stages.test_prune_resuming import Told as ScoringTold
from tests.integration.stages.test_prune_resuming import ranked, row_files
from tests.integration.stages.test_quantize import TEXT
from tests.integration.stages.test_quantize_resuming import Told, weight_files

DEVICE = "cuda:0"

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this Python's torch sees no GPU"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

RECIPES = [
    QuantizationRecipe("awq", 4, 32, False, 8, True, "none"),
    QuantizationRecipe("rtn", 8, 32, True, 8, False, "none"),
]


def without_llmcompressor() -> str:
    try:
        needed_python()
    except Infeasible as reason:
        return reason.cause
    return ""


@pytest.mark.skipif(bool(without_llmcompressor()), reason=without_llmcompressor() or "it is there")
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.method)
@pytest.mark.parametrize("make", [quantizable_model, quantizable_mixture])
def test_a_wrapped_checkpoint_in_files_is_quantized_there_and_goes_on_after_a_kill(
    tmp_path: Path, recipe: QuantizationRecipe, make: Callable[[], Qwen3_5ForCausalLM]
) -> None:
    source = quantizable(tmp_path / "before", make(), wrapper=True, shards=3)
    told = Told()
    report = quantize(source, tmp_path / "whole", recipe, TEXT, device=DEVICE, tell=told)
    assert str(report["device"]) == DEVICE
    assert report["gpu_peak_memory_bytes"]
    assert [line[0] for line in told.lines][: len(LAYERS)] == [*range(1, len(LAYERS) + 1)]
    work = tmp_path / "work"
    with pytest.raises(Infeasible):
        quantize(source, tmp_path / "first", recipe, TEXT, device=DEVICE, work_dir=work, tell=Told(dies=2))
    again = quantize(source, tmp_path / "second", recipe, TEXT, device=DEVICE, work_dir=work)
    assert again["resumed_layers"] >= 2  # type: ignore[operator]
    assert weight_files(tmp_path / "second") == weight_files(tmp_path / "whole")
    ids = torch.arange(60)[None]
    with torch.inference_mode():
        one, other = (
            load_model(inspect_checkpoint(folder), torch.float32, CPU)(ids).logits
            for folder in (tmp_path / "whole", source)
        )
    assert 0 < float((one - other).norm() / other.norm()) < 0.5


def test_layers_are_ranked_there_one_at_a_time_as_in_the_whole_model(tmp_path: Path) -> None:
    files = inspect_checkpoint(write_checkpoint(tmp_path, tiny_model(layers=LAYERS), shards=2))
    documents = [tuple(range(7 * start, 7 * start + 50)) for start in range(3)]
    device = torch.device(DEVICE)
    whole = block_influence(load_model(files, torch.float32, device), documents)
    streamed = block_influence(streamed_model(files, torch.float32, device), documents)
    assert streamed.means == pytest.approx(whole.means, abs=1e-5)


def test_ranking_that_was_killed_there_goes_on_with_what_it_had_scored(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "model", tiny_model(layers=LAYERS))
    whole = ScoringTold()
    expected = ranked(source, None, "block_influence", whole, device=DEVICE)
    kept = tmp_path / "kept"
    with pytest.raises(Infeasible, match="process that scores layers ended") as told:
        ranked(source, kept, "block_influence", ScoringTold(dies=3), device=DEVICE)
    assert told.value.kind == "crashed"
    before = row_files(kept)
    assert 3 <= len(before) < whole.scored
    again = ScoringTold()
    found = ranked(source, kept, "block_influence", again, device=DEVICE)
    assert again.scored == whole.scored - len(before)
    assert found.scores.means == pytest.approx(expected.scores.means, abs=1e-6)
    assert found.removed == expected.removed
