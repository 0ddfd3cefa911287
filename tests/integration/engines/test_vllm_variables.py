"""A knob that vLLM reads from the environment is set after all is imported and before vLLM reads it.

`AUTOINFER_VLLM_PYTHON` names vLLM's Python (docs/vllm.md); without one everything here is skipped.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from experiments.engines.vllm.driver_process import driver_environment
from experiments.engines.vllm.known_values import known_values
from tests.integration.engines.test_vllm_known_values import HERE

pytestmark = pytest.mark.skipif(HERE is None, reason="AUTOINFER_VLLM_PYTHON names no Python with vLLM")

SCRIPT = """
import os
from experiments.engines.port import Infeasible
from experiments.engines.vllm.loaded_engine import import_vllm, set_variables

def read(told):
    import vllm.envs
    told.send(vllm.envs.VLLM_GDN_DECODE_KERNEL)

if __name__ == "__main__":
    os.environ.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)  # as on a GPU: the engine has its own process
    imported = import_vllm()
    set_variables({"VLLM_GDN_DECODE_KERNEL": "triton"})
    answers, told = imported.processes.Pipe(duplex=False)
    process = imported.processes.Process(target=read, kwargs={"told": told})
    process.start()
    print("said:", answers.recv())
    process.join()
    try:
        set_variables({"VLLM_NO_SUCH": "1"})
    except Infeasible as refused:
        print("said:", refused.kind, refused.cause, "VLLM_NO_SUCH" in os.environ)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_engine_s_process_that_imported_before_reads_what_the_order_says(tmp_path: Path) -> None:
    assert HERE is not None
    if not known_values(HERE).values["serving.gdn_decode_kernel"]:
        pytest.skip("this vLLM has no such variable")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    variables = driver_environment(HERE.python, "cpu", tmp_path / "cache", str(tmp_path), str(tmp_path))
    done = subprocess.run(
        [HERE.python, script],
        capture_output=True,
        text=True,
        check=False,
        env={**variables, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line.removeprefix("said: ") for line in done.stdout.splitlines() if line.startswith("said:")]
    assert said == [
        "triton",
        f"unsupported vLLM {HERE.version} has no setting VLLM_NO_SUCH. False",
    ]
