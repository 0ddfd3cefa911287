"""A shape without weights is served by a real vLLM for CPUs, marked as latency only, without quality."""

from pathlib import Path

import pytest

from agent.tables.clock import Budget
from agent.tables.device import find_device
from agent.tables.grid import load_grid
from agent.tables.journal import read_journal
from agent.tables.loading import Sources
from agent.tables.run import TableRun, measure
from configs.models import load_model_profile
from experiments.engines.port import Infeasible, Launch
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.launch import SHAPE_S_OWN
from experiments.shapes.drafter import drafter_for
from experiments.shapes.folder import LATENCY_ONLY, write_shape
from experiments.space.configuration import Configuration
from tests.integration.engines.test_vllm_engine import KNOBS, why_not

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

GRID = """
name: try
model: reference
weights: dummy
base: {serving.graph_mode: eager, serving.max_model_len: 2048, serving.max_sequences: 4}
lengths: [{prompt_tokens: 32, new_tokens: 5, requests: {1: 2, 4: 4}}]
loads: [{set: {drafting.method: dflash, drafting.draft_tokens: 15}}]
"""

VLLM_SAYS = (
    "Synthetic acceptance not supported with CPU sampling",  # 0.32
    "size mismatch, got input (32), mat (32x128), vec (0)",  # 0.29: a drafter's weights that were packed away
)


def test_a_shape_is_served_and_marked_and_has_no_quality(tmp_path: Path) -> None:
    knobs = {"quantization.method": "rtn", "quantization.group_size": 32}
    configuration = Configuration.of({**KNOBS, **knobs})
    shape = write_shape(load_model_profile("reference"), configuration, tmp_path / "shape")
    launch: Launch = VllmEngine(launches_at_once=1).launch(
        configuration, shape, "cpu", tmp_path / "log", tmp_path / "cache"
    )
    try:
        resolved = launch.resolved()
        assert resolved["latency_only"] == LATENCY_ONLY
        assert resolved["architecture"] == "Qwen3_5ForConditionalGeneration"
        assert isinstance(resolved["weights"], dict)
        assert resolved["weights"]["stored"] == "compressed-tensors W4 g32 symmetric (dummy)"
        assert "WNA16" in str(resolved["linear_kernel"])
        with pytest.raises(Infeasible, match="no quality to measure") as refused:
            launch.score([], [])
        assert refused.value.kind == "unsupported"
        with pytest.raises(Infeasible, match="no quality to measure"):
            launch.check_drafting([])
    finally:
        launch.close()


def test_the_drafter_of_a_shape_is_loaded_and_what_a_cpu_does_not_serve_is_a_line_with_its_cause(
    tmp_path: Path,
) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    sources = Sources(load_model_profile("reference"), tmp_path, tmp_path / "cache", 300.0)
    run = TableRun(load_grid(path), (find_device("cpu"),), sources, Budget(), 0, {})
    assert measure(run, lambda text: None).loads_left == 0
    lines = list(read_journal(run.journal_path))
    assert not any(line["kind"] == "cell" for line in lines)
    drafted = [line["resolved"]["drafting"] for line in lines if line["kind"] == "load"]
    assert drafted
    for told in drafted:
        assert (told["method"], told["draft_tokens"]) == ("dflash", 15)
        assert told["drafter"]["folder"] == SHAPE_S_OWN
        assert told["drafter"]["parameters"] == drafter_for(load_model_profile("reference")).parameters
    causes = [line["failure"]["cause"] for line in lines if line["kind"] == "failure"]
    assert causes
    assert all(any(of_vllm in cause for of_vllm in VLLM_SAYS) for cause in causes), causes
