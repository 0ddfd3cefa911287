"""`vllm serve`, as a recipe writes it, gives vLLM the arguments of the launch that was measured.

`AUTOINFER_VLLM_PYTHON` names its Python (docs/vllm.md); without one everything here is skipped.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import needed_environment
from experiments.engines.vllm.order import order_for
from experiments.engines.vllm.serve_command import MEASURED_ONLY, vllm_serve
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.test_vllm_engine import why_not

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

KNOBS: list[dict[str, KnobValue]] = [
    {},
    {"serving.graph_mode": "full_decode_only", "serving.async_scheduling": "off"},
    {"serving.chunked_prefill": "on", "serving.max_batch_tokens": 4096},
    {"serving.chunked_prefill": "off", "serving.prefix_caching": "on", "serving.weight_dtype": "fp8"},
    {"drafting.method": "mtp", "drafting.draft_tokens": 2, "serving.graph_mode": "eager"},
    {"serving.kv_cache_dtype": "fp8_e4m3", "serving.gdn_state_dtype": "bfloat16"},
]

PARSED = """
import json, sys
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser
try:
    from vllm.entrypoints.openai.cli_args import make_arg_parser
except ImportError:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
told = []
for words, arguments in json.load(sys.stdin):
    found = make_arg_parser(FlexibleArgumentParser()).parse_args(words[3:])
    found.model = words[2]
    served, launched = AsyncEngineArgs.from_cli_args(found), AsyncEngineArgs(**arguments)
    told.append({name: [str(getattr(each, name)) for each in (served, launched)] for name in arguments})
print("told:" + json.dumps(told))
"""


def test_vllm_reads_out_of_the_words_what_a_launch_is_given(tmp_path: Path) -> None:
    model = str(reference_model_path())
    orders = [order_for(Configuration.of(knobs), model, "cpu", 2**30) for knobs in KNOBS]
    asked = [(vllm_serve(order).words, order.arguments) for order in orders]
    done = subprocess.run(
        [str(needed_environment("cpu").python), "-c", PARSED],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("told:")]
    for told in json.loads(line.removeprefix("told:")):
        for name, (served, launched) in told.items():
            if name not in MEASURED_ONLY - {"model"}:
                assert served == launched, name


def test_the_engine_names_the_command_of_its_own_order() -> None:
    configuration = Configuration.of({"serving.max_model_len": 512, "serving.max_sequences": 4})
    command = VllmEngine().serve_command(configuration, reference_model_path(), "cpu")
    assert command.words[:3] == ("vllm", "serve", str(reference_model_path()))
    assert command.words[command.words.index("--max-model-len") + 1] == "512"
