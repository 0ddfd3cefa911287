"""vLLM makes up the weights of the DFlash drafter that a shape brings, and drafts with it.

`AUTOINFER_VLLM_PYTHON` names its Python (docs/vllm.md); without one everything here is skipped. vLLM is asked
by itself: for CPUs it can't set which drafts are accepted, and packs weights away of which a made-up drafter
joins those for keys and values when it first drafts, so here they are kept.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from configs.models import load_model_profile
from experiments.drafters.dflash.config import read_shape
from experiments.shapes.folder import write_shape
from experiments.shapes.marker import drafter_of_shape
from experiments.space.configuration import Configuration
from tests.integration.engines.vllm_here import vllm_here

HERE, WHY_NOT = vllm_here()

pytestmark = [
    pytest.mark.skipif(HERE is None, reason=WHY_NOT),
    pytest.mark.skipif(
        HERE is not None and HERE.number != (0, 32), reason="weights are kept as vLLM 0.32 packs them"
    ),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

DRAFT_TOKENS, REQUESTS, NEW_TOKENS = 15, 2, 6

THEIRS = """
import json, os, random, sys
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
shape, drafter, drafts, requests, new_tokens = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
from vllm.model_executor.layers import linear, utils
packed = utils.dispatch_cpu_unquantized_gemm
def kept(layer, remove_weight):
    return packed(layer, remove_weight=False)
for module in list(sys.modules.values()):
    if getattr(module, "dispatch_cpu_unquantized_gemm", None) is packed:
        module.dispatch_cpu_unquantized_gemm = kept
from vllm import LLM, SamplingParams
engine = LLM(
    model=shape, load_format="dummy", language_model_only=True, skip_tokenizer_init=True, dtype="bfloat16",
    max_model_len=256, max_num_seqs=requests, kv_cache_memory_bytes=400_000_000, enforce_eager=True,
    enable_prefix_caching=False, disable_log_stats=False,
    speculative_config={"method": "dflash", "model": drafter, "num_speculative_tokens": drafts})
drafting = engine.llm_engine.model_executor.driver_worker.worker.model_runner.drafter.model
own = sum(tensor.numel() for name, tensor in drafting.named_parameters()
          if not name.startswith(("model.embed_tokens", "lm_head", "model.mask_embedding")))
sampling = SamplingParams(temperature=0.0, max_tokens=new_tokens, ignore_eos=True, detokenize=False)
prompts = [{"prompt_token_ids": random.choices(range(300, 4000), k=32)} for _ in range(requests)]
texts = [len(each.outputs[0].token_ids) for each in engine.generate(prompts, sampling)]
counted = {each.name: each.value for each in engine.get_metrics() if hasattr(each, "value")}
print(json.dumps([texts, own, counted["vllm:spec_decode_num_drafts"],
                  counted["vllm:spec_decode_num_draft_tokens"]]))
"""


def test_vllm_drafts_with_a_drafter_whose_weights_it_made_up(tmp_path: Path) -> None:
    assert HERE is not None
    shape = write_shape(load_model_profile("reference"), Configuration.of({}), tmp_path / "shape")
    drafter = drafter_of_shape(shape)
    assert drafter is not None
    asked = [str(shape), str(drafter), *map(str, (DRAFT_TOKENS, REQUESTS, NEW_TOKENS))]
    done = subprocess.run(
        [HERE.python, "-c", THEIRS, *asked], capture_output=True, text=True, timeout=500, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-4000:]
    texts, own_weights, drafted, draft_tokens = json.loads(done.stdout.splitlines()[-1])
    assert texts == [NEW_TOKENS] * REQUESTS
    assert own_weights == read_shape(drafter).parameters
    assert drafted >= REQUESTS
    assert draft_tokens == DRAFT_TOKENS * drafted
