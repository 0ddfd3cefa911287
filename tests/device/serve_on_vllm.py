"""Serves autoinfer's checkpoints on vLLM and compares what is said with the reference engine. See README.md.

Three steps, for the machine with the GPU need not be the one with autoinfer: `--reference` (a CPU and
autoinfer), `--serve` (a GPU and vLLM), `--report`. Every configuration is served in a fresh process with a
time limit, and results are written as they come.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # of autoinfer one file, which imports nothing else of it

from experiments.engines.vllm.wrapped_checkpoint import wrap_checkpoint

LIMIT_S = 200
"""Seconds that one configuration may take, imports and loading included."""

MAX_MODEL_LEN = 512
KV_CACHE_BYTES = 2 << 30
"""A fixed size, so that nothing is profiled and several processes may load at once."""

LOG_LINES_KEPT = 40
LOG_TAIL_CHARACTERS = 3000
TELLING = re.compile(
    r"Using \S*Kernel|Using \S+ attention backend|GDN prefill kernel|Resolved architecture|"
    r"WARNING.*(draft|spec)|not initialized from|Loading weights took"
)
"""Lines of vLLM's log that say what runs."""

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "bf16": {"checkpoint": "bf16"},
    "bf16-mtp-k1": {"checkpoint": "bf16", "drafting": {"method": "mtp", "num_speculative_tokens": 1}},
    "w4-g128": {"checkpoint": "w4-g128"},
    "w4-g32": {"checkpoint": "w4-g32"},
    "bf16-dflash-k7": {
        "checkpoint": "bf16",
        "drafting": {"method": "dflash", "num_speculative_tokens": 7, "model": "dflash"},
    },
    "bf16-mtp-k2": {"checkpoint": "bf16", "drafting": {"method": "mtp", "num_speculative_tokens": 2}},
    "w4-g32-asymmetric": {"checkpoint": "w4-g32-asymmetric"},
    "w4-g128-marlin": {
        "checkpoint": "w4-g128",
        "environment": {"VLLM_DISABLED_KERNELS": "MacheteLinearKernel"},
    },
    "w4-g128-mtp-k1": {"checkpoint": "w4-g128", "drafting": {"method": "mtp", "num_speculative_tokens": 1}},
    "w4-out8": {"checkpoint": "w4-out8"},
    "w8": {"checkpoint": "w8"},
    "pruned": {"checkpoint": "pruned"},
    "pruned-w4": {"checkpoint": "pruned-w4"},
    "w4-head": {"checkpoint": "w4-head"},
    "pruned-w4-mtp-k1": {
        "checkpoint": "pruned-w4",
        "drafting": {"method": "mtp", "num_speculative_tokens": 1},
    },
    "w4-head-mtp-k1": {"checkpoint": "w4-head", "drafting": {"method": "mtp", "num_speculative_tokens": 1}},
}
"""What is served, by name. `checkpoint` and the `model` of `drafting` are names from the command line."""

ENVIRONMENT = {
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
"""No network; the engine in the process itself, so that its log is the process's."""

ENGINE = {
    "skip_tokenizer_init": True,
    "language_model_only": True,
    "enforce_eager": True,
    "enable_prefix_caching": False,
    "mamba_ssm_cache_dtype": "float32",  # as Qwen3.5's own config.json has it, and the reference engine
    "max_model_len": MAX_MODEL_LEN,
    "max_num_seqs": 1,
    "kv_cache_memory_bytes": KV_CACHE_BYTES,
    "gpu_memory_utilization": 0.05,
    "disable_log_stats": False,
}
GPU_ENGINE = {"gdn_prefill_backend": "triton"}
"""The default prefill kernel for Hopper is compiled at run time and needs a compiler."""


def serve_one(name: str, checkpoints: dict[str, str], reference: Path, result: Path) -> None:
    """Load one configuration, generate every prompt's text, write the result as JSON. In its own process."""
    os.environ.update(ENVIRONMENT)
    start_s = time.perf_counter()
    import torch

    vllm: Any = importlib.import_module("vllm")

    imported_s = time.perf_counter()
    chosen = CONFIGURATIONS[name]
    drafting = dict(chosen.get("drafting", {}))
    if "model" in drafting:
        drafting["model"] = checkpoints[drafting["model"]]
    cuda = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as scratch:
        folder = wrap_checkpoint(Path(checkpoints[chosen["checkpoint"]]), Path(scratch) / name)
        engine = vllm.LLM(
            model=str(folder), speculative_config=drafting or None, **ENGINE, **(GPU_ENGINE if cuda else {})
        )
    loaded_s = time.perf_counter()
    asked = json.loads(reference.read_text())
    parameters = vllm.SamplingParams(
        temperature=0, max_tokens=asked["new_tokens"], ignore_eos=True, detokenize=False
    )

    def generate(ids: list[int]) -> tuple[list[int], float]:
        began_s = time.perf_counter()
        output = engine.generate({"prompt_token_ids": ids}, parameters, use_tqdm=False)[0]
        wall_s = time.perf_counter() - began_s
        stats = output.metrics
        tokens = list(output.outputs[0].token_ids)
        decode_s = stats.last_token_ts - stats.first_token_ts if stats else wall_s
        return tokens, 1e3 * decode_s / (len(tokens) - 1)

    for ids in asked["prompts"].values():  # kernels are compiled for new shapes
        generate(ids)
    texts, tpot_ms, counters = {}, {}, {}
    before = _counters(engine)
    for item, ids in asked["prompts"].items():
        texts[item], tpot_ms[item] = generate(ids)
        after = _counters(engine)
        counters[item] = {key: after[key] - before.get(key, 0) for key in after}
        before = after
    data = {
        "import_s": imported_s - start_s,
        "load_s": loaded_s - imported_s,
        "texts": texts,
        "tpot_ms": tpot_ms,
        "drafting": counters,
        "versions": {
            "vllm": vllm.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": torch.cuda.get_device_name() if cuda else platform.machine(),
    }
    result.write_text(json.dumps(data))


def _counters(engine: Any) -> dict[str, int]:
    """vLLM's running counts of drafting: drafts, drafted tokens and accepted tokens; empty without any."""
    return {
        metric.name.removeprefix("vllm:spec_decode_"): int(metric.value)
        for metric in engine.get_metrics()
        if metric.name.startswith("vllm:spec_decode_") and hasattr(metric, "value")
    }


def serve(names: list[str], checkpoints: dict[str, str], reference: Path, out: Path, jobs: int) -> None:
    """Serve every configuration, up to `jobs` at a time; writes `results.json` anew after each."""
    path, lock = out / "results.json", threading.Lock()
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def one(name: str) -> None:
        outcome = _in_process(name, checkpoints, reference)
        with lock:
            results[name] = outcome
            unfinished = path.with_suffix(".part")
            unfinished.write_text(json.dumps(results))
            unfinished.replace(path)
        print(name, outcome.get("failed") or "served", f"{outcome['wall_s']:.0f} s", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, names))


def _in_process(name: str, checkpoints: dict[str, str], reference: Path) -> dict[str, Any]:
    """Serve one configuration in a process group that is killed at the limit; what failed is a result too."""
    start_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        log, result = Path(scratch) / "log", Path(scratch) / "result.json"
        given = [f"{key}={value}" for key, value in checkpoints.items()]
        command = [sys.executable, __file__, "--one", name, str(result), "--given", str(reference), *given]
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | ENVIRONMENT | CONFIGURATIONS[name].get("environment", {}),
            )
            try:
                code: int | None = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                code = None
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        lines = log.read_text(errors="replace").splitlines()
        data = json.loads(result.read_text()) if result.exists() else {}
        if not data:
            data["failed"] = "over the time limit" if code is None else _cause(lines, code)
            data["log_tail"] = "\n".join(lines)[-LOG_TAIL_CHARACTERS:]
        told = dict.fromkeys(
            re.sub(r"^.*?\[[\w/.]+:\d+\] ", "", line) for line in lines if TELLING.search(line)
        )
        return data | {"log": list(told)[:LOG_LINES_KEPT], "wall_s": time.perf_counter() - start_s}


def _cause(lines: list[str], code: int) -> str:
    """The last line that names an error, else the exit status."""
    named = [line.strip() for line in lines if re.match(r"^(\S+ )*\S*(Error|Exception)\b.*: ", line)]
    return named[-1][-500:] if named else f"exit status {code}"


def main() -> None:
    """Parse the command line and do one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    step = parser.add_mutually_exclusive_group(required=True)
    step.add_argument("--reference", type=Path, metavar="FILE", help="write prompts and reference texts")
    step.add_argument("--serve", type=Path, metavar="FOLDER", help="serve, and write results.json there")
    step.add_argument("--report", type=Path, metavar="FILE", help="write the report from --results")
    step.add_argument("--add", type=Path, metavar="FILE", help="add --results to a report that is there")
    step.add_argument("--one", nargs=2, metavar=("NAME", "RESULT"), help="serve one configuration here")
    parser.add_argument("--given", type=Path, help="the file that --reference wrote")
    parser.add_argument("--results", type=Path, help="the folder of --serve")
    parser.add_argument("--only", nargs="+", choices=list(CONFIGURATIONS), default=list(CONFIGURATIONS))
    parser.add_argument("--jobs", type=int, default=1, help="configurations served at once; times suffer")
    parser.add_argument("--command", default="", help="the command of --serve, for the report")
    parser.add_argument("--date", default="", help="the day of --serve, for the report")
    parser.add_argument("checkpoints", nargs="*", metavar="NAME=FOLDER")
    given = parser.parse_args()
    checkpoints = dict(entry.split("=", 1) for entry in given.checkpoints)
    if given.reference:
        from reference_texts import write_reference

        write_reference(given.reference, {name: Path(folder) for name, folder in checkpoints.items()})
    elif given.serve:
        given.serve.mkdir(parents=True, exist_ok=True)
        serve(given.only, checkpoints, given.given, given.serve, given.jobs)
    elif given.one:
        serve_one(given.one[0], checkpoints, given.given, Path(given.one[1]))
    else:
        from serving_report import add_report, write_report

        made = given.report or given.add
        write = write_report if given.report else add_report
        write(made, given.results, given.given, given.command, given.date)


if __name__ == "__main__":
    main()
