"""What is read in the sources of an installed vLLM is what it says itself when it is imported.

`AUTOINFER_VLLM_PYTHON` names its Python (docs/vllm.md); without one everything here is skipped.
"""

import json
import subprocess

import pytest

from experiments.engines.port import Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.known_values import known_values
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space
from tests.integration.engines.vllm_here import vllm_here

HERE, WHY_NOT = vllm_here()

pytestmark = pytest.mark.skipif(HERE is None, reason=WHY_NOT)

LATER_SETTINGS = {
    "serving.gdn_decode_kernel": ((0, 28), ("cuda", "triton")),
    "drafting.lm_head": ((0, 33), ("fp8", "nvfp4")),
}
"""Knobs whose setting not every version that is served with has: the first that does, and its values."""

SAID = """
import json, typing
import vllm.envs
from vllm.config.cache import CacheDType, MambaDType
from vllm.config.compilation import CUDAGraphMode
from vllm.config.kernel import LinearBackend, MoEBackend
from vllm.config.model import ModelDType
from vllm.config.speculative import SpeculativeConfig, SpeculativeMethod
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers.quantization import QuantizationMethods
def flat(kind):
    found = typing.get_args(kind)
    return [name for each in found for name in ([each] if isinstance(each, str) else flat(each))]
print("said:" + json.dumps({
    "serving.kv_cache_dtype": flat(CacheDType),
    "serving.gdn_state_dtype": flat(MambaDType),
    "serving.graph_mode": [each.name.lower() for each in CUDAGraphMode],
    "serving.linear_backend": flat(LinearBackend),
    "serving.moe_backend": flat(MoEBackend),
    "serving.dtype": flat(ModelDType),
    "drafting.method": [each for each in flat(SpeculativeMethod) if not each.endswith("_mtp")],
    "serving.gdn_prefill_backend": flat(EngineArgs.__annotations__["gdn_prefill_backend"]),
    "serving.weight_dtype": flat(QuantizationMethods),
    "serving.gdn_decode_kernel": ["cuda", "triton"] if "VLLM_GDN_DECODE_KERNEL" in dir(vllm.envs) else [],
    "drafting.lm_head": flat(SpeculativeConfig.__annotations__.get("draft_lm_head_quantization")),
}))
"""


def test_a_version_knows_every_value_of_the_space_but_those_of_later_settings() -> None:
    assert HERE is not None
    known = known_values(HERE)
    assert known.unread is None
    later = {
        (knob, value)
        for knob, (first, values) in LATER_SETTINGS.items()
        for value in values
        if HERE.number < first
    }
    assert set(known.unknown(load_space("vllm"))) == later


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_read_is_what_vllm_says_of_itself() -> None:
    assert HERE is not None
    done = subprocess.run([str(HERE.python), "-P", "-c", SAID], capture_output=True, text=True, check=True)
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("said:"))
    told = json.loads(said.removeprefix("said:"))
    assert {knob: set(values) for knob, values in told.items()} == {
        knob: set(values) for knob, values in known_values(HERE).values.items()
    }


def test_the_check_of_a_configuration_refuses_what_this_version_does_not_know() -> None:
    assert HERE is not None
    device = "cpu" if HERE.for_cpu else "cuda:0"
    made_up = Configuration.of({"serving.kv_cache_dtype": "fp3"})
    with pytest.raises(
        Infeasible, match=f"vLLM {HERE.version} does not know serving.kv_cache_dtype=fp3; it has"
    ):
        VllmEngine().check(made_up, reference_model_path(), device)
