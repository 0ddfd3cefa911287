"""What a checkpoint is foreseen to take on a disk is what the stages write, of the packaged model."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.campaign.beginning.disk_needs import checkpoint_bytes
from agent.plan.model import find_model
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from experiments.stages.pruning.stage import DepthPruning
from experiments.stages.quantize.stage import WeightQuantization

TOLERANCE = 0.01
"""Share by which the forecast may miss: headers, reports and shapes of packed tensors are in no formula."""

W4: Mapping[str, KnobValue] = {
    "quantization.method": "rtn",
    "quantization.bits": 4,
    "quantization.group_size": 128,
    "quantization.symmetric": True,
    "quantization.out_proj_bits": 8,
    "quantization.lm_head": "high",
    "quantization.keep": "none",
}
PRUNED: Mapping[str, KnobValue] = {
    "pruning.method": "depth",
    "pruning.layers_removed": 2,
    "pruning.criterion": "block_influence",
    "pruning.restrict": "any",
}


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def built(knobs: Mapping[str, KnobValue], folder: Path) -> Path:
    """What the stages make of the packaged model, pruned before it is quantized where it is both."""
    configuration, checkpoint = Configuration.of(knobs), reference_model_path()
    for stage in (DepthPruning(), WeightQuantization()):
        if stage.asked(configuration):
            out = folder / stage.stage.value
            out.mkdir()
            stage.build(configuration, checkpoint, out)
            checkpoint = out
    return checkpoint


@pytest.mark.slow
@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param(W4, id="w4-g128", marks=pytest.mark.bench_only),
        pytest.param({**W4, "quantization.group_size": 32}, id="w4-g32", marks=pytest.mark.bench_only),
        pytest.param({**W4, "quantization.symmetric": False}, id="w4-with-zero-points"),
        pytest.param(
            {**W4, "quantization.lm_head": "quantized"}, id="w4-with-head", marks=pytest.mark.bench_only
        ),
        pytest.param(PRUNED, id="pruned", marks=pytest.mark.bench_only),
        pytest.param({**PRUNED, **W4}, id="pruned-and-w4"),
    ],
)
def test_a_checkpoint_takes_what_was_foreseen(knobs: Mapping[str, KnobValue], tmp_path: Path) -> None:
    foreseen = checkpoint_bytes(find_model("reference"), Configuration.of(knobs))
    assert foreseen == pytest.approx(folder_bytes(built(knobs, tmp_path)), rel=TOLERANCE)
