"""The static check knows whether two launches of a configuration fit into memory side by side."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.engine import ReferenceEngine
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.memory import check_fits, drafter_parameters, served_parameters
from experiments.space.configuration import Configuration, KnobValue

GB = 10**9


@pytest.mark.parametrize(
    ("dtype", "launches", "available", "fits"),
    [
        ("float32", 1, 5 * GB, True),
        ("float32", 2, 5 * GB, False),
        ("bfloat16", 2, 6 * GB, True),
        ("float32", 2, 11 * GB, True),
    ],
)
def test_bytes_are_those_of_the_type_that_is_served_for_every_launch_that_is_up(
    dtype: str, launches: int, available: int, fits: bool
) -> None:
    if fits:
        check_fits(GB, dtype, available, launches=launches)
        return
    with pytest.raises(Infeasible, match=r"take 9\.9 GB") as refused:
        check_fits(GB, dtype, available, launches=launches)
    assert refused.value.kind == "out_of_memory"
    assert "5.0 GB are available" in refused.value.cause


def test_a_drafter_is_held_by_every_launch_too() -> None:
    check_fits(GB, "bfloat16", 6 * GB, launches=2)
    with pytest.raises(Infeasible, match="500 million of its drafter"):
        check_fits(GB, "bfloat16", 6 * GB, drafter_parameters=GB // 2, launches=2)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_5_text", "num_hidden_layers": 4}))
    tensors = {
        "model.embed_tokens.weight": np.ones((8, 4), np.float32),
        "mtp.a": np.ones(3, np.float32),
        "model.visual.b": np.ones(50, np.float32),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


def test_parameters_are_those_of_the_text_model_and_of_a_head_that_drafts(checkpoint: Path) -> None:
    files = inspect_checkpoint(checkpoint)
    assert served_parameters(files) == 32
    assert served_parameters(files, head=True) == 35
    assert drafter_parameters(DraftingOrder("mtp", 1)) == 0
    assert drafter_parameters(DraftingOrder("dflash", 1, str(checkpoint))) == 85
    assert drafter_parameters(DraftingOrder("draft_model", 1, str(checkpoint))) == 32


@pytest.mark.parametrize("knobs", [{}, {"serving.dtype": "bfloat16", "drafting.method": "mtp"}])
def test_the_static_check_refuses_what_does_not_fit(checkpoint: Path, knobs: dict[str, KnobValue]) -> None:
    configuration = Configuration.of(knobs)
    ReferenceEngine(available_bytes=lambda: 4 * GB).check(configuration, checkpoint, "cpu")
    with pytest.raises(Infeasible, match="2 launches side by side"):
        ReferenceEngine(available_bytes=lambda: GB // 2).check(configuration, checkpoint, "cpu")
