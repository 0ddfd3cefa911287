"""Whatever computes on a GPU in a process of its own sees that GPU alone.

One that saw the others too would open a context there, and a test that is measured on one of them would end,
since it is not alone.
"""

from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.corpora.calibration.corpus import calibration_corpus
from experiments.engines import one_answer
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.scoring import rank_layers
from experiments.stages.quantize import environment
from experiments.stages.quantize.recipe import QuantizationRecipe
from experiments.stages.quantize.stage import quantize
from tests.integration.corpora.test_self_written import tiny_checkpoint
from tests.integration.stages.quantizable import quantizable, quantizable_model

RTN = QuantizationRecipe("rtn", 4, 32, False, 8, False, "none")


class Begun(Exception):
    """A process would have begun."""


def quantizes(folder: Path) -> None:
    quantize(quantizable(folder / "whole", quantizable_model()), folder / "out", RTN, device="cuda:1")


def ranks(folder: Path) -> None:
    whole = quantizable(folder / "whole", quantizable_model())
    rank_layers({"original": whole}, "block_influence", Choice(1, "any"), [(1, 2, 3)], device="cuda:1")


def writes(folder: Path) -> None:
    calibration_corpus(
        "self", tiny_checkpoint(folder / "whole"), samples=1, sample_tokens=20, seed=0, device="cuda:1"
    )


@pytest.mark.parametrize("work", [quantizes, ranks, writes])
def test_a_process_sees_the_gpu_that_it_is_for_and_no_other(
    work: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    started: list[dict[str, str]] = []

    def start(*_: Any, env: dict[str, str], **__: Any) -> None:
        started.append(env)
        raise Begun

    monkeypatch.setattr(environment, "torch_build", lambda _: None)  # a build for CPUs begins none
    monkeypatch.setattr(one_answer, "subprocess", SimpleNamespace(Popen=start, PIPE=PIPE))
    with pytest.raises(Begun):
        work(tmp_path)
    assert started[0]["CUDA_VISIBLE_DEVICES"] == "7"
    assert started[0]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
