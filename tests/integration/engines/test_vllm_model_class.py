"""vLLM's look at a model's class, in a process that is forked from one that has imported.

`AUTOINFER_VLLM_PYTHON` names vLLM's Python (docs/vllm.md); without one everything here is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.engines.vllm_here import vllm_here

HERE, WHY_NOT = vllm_here()

pytestmark = [
    pytest.mark.skipif(HERE is None, reason=WHY_NOT),
    pytest.mark.slow,
    pytest.mark.timeout(180),
]

LOOK = """
import sys, time
from experiments.engines.vllm.engine_process import EngineProcesses

if __name__ == "__main__":
    processes = EngineProcesses.begun()
    processes.wait()
    from vllm import ModelRegistry
    from vllm.model_executor.models import registry
    if sys.argv[1] == "forked":
        vars(registry)["_run_in_subprocess"] = lambda ask: sys.exit("vLLM looked as always")
        assert processes.use()
    begun_s = time.perf_counter()
    ModelRegistry.models["Qwen3_5ForConditionalGeneration"].inspect_model_cls()
    print(time.perf_counter() - begun_s)
"""


def looked(folder: Path, how: str) -> tuple[float, object]:
    """Seconds of the look, and what vLLM kept of it."""
    assert HERE is not None
    script = folder / "look.py"
    script.write_text(LOOK, encoding="utf-8")
    cache = folder / how
    done = subprocess.run(
        [HERE.python, script, how],
        capture_output=True,
        text=True,
        timeout=150,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "VLLM_CACHE_ROOT": str(cache)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (kept,) = (cache / "modelinfos").iterdir()
    return float(done.stdout.splitlines()[-1]), json.loads(kept.read_text(encoding="utf-8"))


def test_what_is_kept_of_a_model_s_class_is_vllm_s_own_and_sooner_there(tmp_path: Path) -> None:
    own_s, own = looked(tmp_path, "own")
    forked_s, forked = looked(tmp_path, "forked")
    assert forked == own
    assert forked_s < own_s / 2, "the other process imports vLLM first"
