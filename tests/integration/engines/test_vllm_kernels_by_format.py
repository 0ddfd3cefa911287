"""Beside a copy of the output head a kernel is named for packed weights alone, and vLLM takes it for these.

`AUTOINFER_VLLM_PYTHON` names vLLM's Python (docs/vllm.md); without one everything here is skipped.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from experiments.engines.vllm.driver_process import driver_environment
from experiments.engines.vllm.order import order_for
from experiments.space.configuration import Configuration
from tests.integration.engines.test_vllm_known_values import HERE

pytestmark = pytest.mark.skipif(HERE is None, reason="AUTOINFER_VLLM_PYTHON names no Python with vLLM")

SCRIPT = """
import json, sys
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.model_executor.kernels.linear import _get_linear_backend

told = AsyncEngineArgs(model=".", **json.loads(sys.argv[1]))
config = VllmConfig(kernel_config=told.kernel_config)
with set_current_vllm_config(config):
    for format in ("mixed_precision", "fp8_w8a8", "nvfp4_w4a16"):
        print("said:", format, _get_linear_backend(quantization=format))
"""
"""What vLLM looks up where it chooses a kernel for weights of a format; `nvfp4_w4a16` and `fp8_w8a8` are
those of a copied head."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_kernel_is_named_for_packed_weights_and_a_copied_head_has_vllm_s_choice(tmp_path: Path) -> None:
    assert HERE is not None
    if HERE.number < (0, 30):
        pytest.skip("this vLLM names one kernel for all formats")
    knobs = {"drafting.method": "mtp", "drafting.draft_tokens": 1, "drafting.lm_head": "fp8"}
    asked = Configuration.of({**knobs, "serving.linear_backend": "marlin"})
    told = json.dumps({"kernel_config": order_for(asked, "none", "cuda:0", 1).arguments["kernel_config"]})
    done = subprocess.run(
        [HERE.python, "-c", SCRIPT, told],
        capture_output=True,
        text=True,
        check=False,
        env=driver_environment(HERE.python, "cpu", tmp_path / "cache", str(tmp_path), str(tmp_path)),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line.removeprefix("said: ") for line in done.stdout.splitlines() if line.startswith("said:")]
    assert said == ["mixed_precision marlin", "fp8_w8a8 auto", "nvfp4_w4a16 auto"]
