"""What a load does now is read from vLLM's log, in the words of the versions that are served with."""

from itertools import accumulate
from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from experiments.engines.vllm.driver_process import DriverProcess
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.load_phase import load_phase
from experiments.engines.vllm.order import VllmOrder
from experiments.space.configuration import Configuration

PID = "(EngineCore pid=7476) INFO 07-25 13:42:16 "

LOG = (
    ("", "importing vLLM"),
    ("INFO 07-25 13:41:50 [model.py:517] Resolved architecture: Qwen3_5\n", "importing vLLM"),
    (f"{PID}[core.py:97] Initializing a V1 LLM engine (v0.33.0) with config: a\n", "starting its engine"),
    (f"{PID}[gpu_model_runner.py:4790] Starting to load model /models/a...\n", "loading weights"),
    (
        "Loading safetensors checkpoint shards:   0% Completed | 0/9 [00:00<?, ?it/s]\n",
        "loading weights (0 of 9 files)",
    ),
    (
        "\rLoading safetensors checkpoint shards:  56% Completed | 5/9 [00:13<00:11]",
        "loading weights (5 of 9 files)",
    ),
    (
        f"\n{PID}[default_loader.py:430] Loading weights took 3.04 seconds\n",
        "loading weights (5 of 9 files)",
    ),
    (f"{PID}[gpu_model_runner.py:5233] Loading drafter model...\n", "loading the drafter"),
    (f"{PID}[model_runner.py:295] Model loading took 7.64 GiB and 32.969258 seconds\n", "compiling"),
    (f"{PID}[backends.py:1089] Using cache directory: /c for vLLM's torch.compile\n", "compiling"),
    (f"{PID}[backends.py:1148] Dynamo bytecode transform time: 8.52 s\n", "compiling"),
    (f"{PID}[monitor.py:53] torch.compile took 14.85 s in total\n", "measuring memory"),
    (f"{PID}[kv_cache_utils.py:829] GPU KV cache size: 613,024 tokens\n", "capturing graphs"),
    (
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  37%|███▋      | 13/35 [00:01]",
        "capturing graphs (13 of 35)",
    ),
    (f"\n{PID}[gpu_model_runner.py:6010] Graph capturing finished in 5 secs\n", "warming up"),
    (f"{PID}[core.py:281] init engine (profile, create kv cache) took 34.11 s\n", "warming up"),
)
"""Pieces of a log, one after the other, and what is told at the end of each."""


def grown() -> list[tuple[str, str]]:
    """The log as it grows, and what is told of it at each of these moments."""
    texts = accumulate(text for text, _ in LOG)
    return [(text, told) for text, (_, told) in zip(texts, LOG, strict=True)]


@pytest.mark.parametrize(("log", "told"), grown())
def test_the_last_thing_that_the_log_tells_to_have_begun_is_what_it_does(log: str, told: str) -> None:
    assert load_phase(log) == told


def test_weights_that_are_made_up_are_loaded_without_files() -> None:
    assert load_phase(f"{PID}[gpu_model_runner.py:4790] Starting to load model /a...\n") == "loading weights"


def test_a_second_model_that_is_loaded_is_told_with_its_own_files() -> None:
    log = grown()[7][0] + "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00]\n"
    assert load_phase(log) == "loading the drafter (1 of 2 files)"


def test_a_load_that_is_ended_at_its_limit_is_told_with_what_it_did_and_how_to_give_it_longer(
    tmp_path: Path,
) -> None:
    hangs = tmp_path / "python"
    hangs.write_text(
        f"#!/bin/sh\necho '{PID}[model_runner.py:295] Model loading took 7.64 GiB' >&2\nsleep 600\n"
    )
    hangs.chmod(0o755)
    found = VllmEnvironment(hangs, "0.33.0", for_cpu=True)
    order, log_path = VllmOrder("x", "cpu", {}, "", "none", 0), tmp_path / "sweep-control-0.log"
    with pytest.raises(Infeasible) as told:
        DriverProcess(order, found, log_path, tmp_path, 2.0, 1.0, Configuration.of({}))
    assert told.value.kind == "timed_out"
    assert told.value.cause == (
        "vLLM did not load within 2 s and was ended while compiling: its log sweep-control-0.log tells what "
        "it said; where loads only take longer here, raise the setting load_limit_s (AUTOINFER_LOAD_LIMIT_S)."
    )
