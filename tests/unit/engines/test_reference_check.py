import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from configs.cpu import usable_cores
from experiments.engines.port import Infeasible
from experiments.engines.reference.engine import ReferenceEngine
from experiments.space.configuration import Configuration, KnobValue


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3_5_text", "num_hidden_layers": 4}))
    save_file({"a": np.ones(3, np.float32)}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"serving.dtype": "bfloat16", "serving.threads": 1, "serving.compile": "off"},
        {"pruning.method": "depth", "pruning.layers_removed": 2},
        {"quantization.method": "none", "drafting.method": "none"},
    ],
)
def test_what_it_serves_passes(checkpoint: Path, knobs: dict[str, KnobValue]) -> None:
    ReferenceEngine().check(Configuration.of(knobs), checkpoint, "cpu")


@pytest.mark.parametrize(
    ("knobs", "kind", "sentence"),
    [
        ({"serving.dtype": "float16"}, "illegal", "float32 or bfloat16"),
        ({"serving.compile": "max-autotune"}, "illegal", "off, default, cpp_wrapper"),
        ({"serving.compile": False}, "illegal", "serving.compile is False"),
        ({"serving.threads": 0}, "illegal", "serving.threads is 0"),
        ({"serving.threads": usable_cores() + 1}, "illegal", f"may use 1 to {usable_cores()} cores"),
        ({"serving.threads": True}, "illegal", "serving.threads is True"),
        ({"serving.threads": "2"}, "illegal", "serving.threads is '2'"),
        ({"serving.cuda_graphs": True}, "unsupported", "no knob serving.cuda_graphs"),
        ({"quantization.method": "awq"}, "unsupported", "quantization.method=awq"),
        ({"drafting.method": "mtp"}, "unsupported", "drafting.method=mtp"),
    ],
)
def test_what_it_does_not_serve_is_told(
    checkpoint: Path, knobs: dict[str, KnobValue], kind: str, sentence: str
) -> None:
    with pytest.raises(Infeasible, match=sentence) as told:
        ReferenceEngine().check(Configuration.of(knobs), checkpoint, "cpu")
    assert told.value.kind == kind


@pytest.mark.parametrize("mode", ["default", "cpp_wrapper"])
def test_compilation_without_a_compiler_is_told(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    engine, configuration = ReferenceEngine(), Configuration.of({"serving.compile": mode})
    with pytest.raises(Infeasible, match="no no-such-compiler on this machine") as told:
        engine.check(configuration, checkpoint, "cpu")
    assert told.value.kind == "unsupported"


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "CPU", "cuda:", ""])
def test_an_unknown_device_is_told(checkpoint: Path, device: str) -> None:
    with pytest.raises(Infeasible, match="no device") as told:
        ReferenceEngine().check(Configuration.of({}), checkpoint, device)
    assert told.value.kind == "unsupported"


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU driver")
def test_a_gpu_where_there_is_none_is_told(checkpoint: Path) -> None:
    with pytest.raises(Infeasible, match="no GPU driver on this machine"):
        ReferenceEngine().check(Configuration.of({}), checkpoint, "cuda:0")


def test_the_engine_s_side_imports_no_torch() -> None:
    program = (
        "import sys; import experiments.engines.reference.engine, experiments.stages.prune, "
        "experiments.measurement.material; "
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"
