"""Every lever of the engine vllm, once, on the packaged model on a GPU: what runs, what it says, what fails.

    python tests/device/levers_once.py --out DIR --jobs 6 w4-g128=FOLDER w4-g32=… w4-head=… pruned=…
    python tests/device/levers_once.py --page docs/results/tables/h200-levers-once.jsonl

Folders are outputs of the quantize and prune stages on the packaged model; what lacks its folder is left out
and named.
With several jobs loads and requests go on side by side, so no time of it is to be quoted.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.engines.port import GenerationRequest, Infeasible, Launch, ScoringDocument
from experiments.engines.vllm.engine import VllmEngine
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue

Knobs = dict[str, KnobValue]

BASE: Knobs = {
    "serving.gdn_prefill_backend": "triton",  # Hopper's other one is compiled by what may be missing
    "serving.max_model_len": 1024,
    "serving.max_sequences": 4,
}


def drafting(method: str, tokens: int, **more: KnobValue) -> Knobs:
    """Knobs of a way to draft."""
    return {"drafting.method": method, "drafting.draft_tokens": tokens} | {
        f"drafting.{name}": value for name, value in more.items()
    }


def serving(**knobs: KnobValue) -> Knobs:
    """Serving knobs by their short names."""
    return {f"serving.{name}": value for name, value in knobs.items()}


CASES: Mapping[str, tuple[str, Knobs]] = {
    "bf16": ("", {}),
    "auto-gdn": ("", serving(gdn_prefill_backend="auto", graph_mode="eager")),
    "flashinfer-gdn": ("", serving(gdn_prefill_backend="flashinfer", graph_mode="eager")),
    "mtp1": ("", drafting("mtp", 1)),
    "mtp3": ("", drafting("mtp", 3)),
    "dflash": ("", drafting("dflash", 4, drafter="packaged")),
    "dflash7": ("", drafting("dflash", 7, drafter="packaged")),
    "pruned-dflash": ("pruned", drafting("dflash", 4, drafter="packaged")),
    **{f"mtp3-head-{bits}": ("", drafting("mtp", 3, lm_head=bits)) for bits in ("fp8", "nvfp4")},
    **{
        f"mtp3-gdn-{kernel}": ("", drafting("mtp", 3) | serving(gdn_decode_kernel=kernel))
        for kernel in ("cuda", "triton")
    },
    "ngram": ("", drafting("ngram", 3, ngram_tokens=2)),
    "ngram9": ("", drafting("ngram", 9, ngram_tokens=2)),  # more than vLLM's fused kernel verifies at once
    "g128": ("w4-g128", {}),
    **{f"g128-{name}": ("w4-g128", serving(linear_backend=name)) for name in ("marlin", "machete")},
    "g128-marlin-head-fp8": ("w4-g128", serving(linear_backend="marlin") | drafting("mtp", 3, lm_head="fp8")),
    "g32": ("w4-g32", {}),
    **{
        f"g32-{name}": ("w4-g32", serving(linear_backend=name))
        for name in ("machete", "triton", "exllama", "conch", "humming")
    },
    "g32-mtp1": ("w4-g32", drafting("mtp", 1)),
    "head": ("w4-head", {}),
    "fp8": ("", serving(weight_dtype="fp8")),
    "kv8": ("", serving(kv_cache_dtype="fp8_e4m3")),
    "kv8e5": ("", serving(kv_cache_dtype="fp8_e5m2")),
    "state16": ("", serving(gdn_state_dtype="bfloat16")),
    "state32": ("", serving(gdn_state_dtype="float32")),
    "async-off": ("", serving(async_scheduling="off")),
    **{
        mode: ("", serving(graph_mode=mode))
        for mode in ("full", "piecewise", "full_decode_only", "none", "eager")
    },
    "float16": ("", serving(dtype="float16")),
    "float32": ("", serving(dtype="float32")),
    "prefix": ("", serving(prefix_caching="on")),
    "chunked-off": ("", serving(chunked_prefill="off")),
}
"""By name: the checkpoint's name, empty for the packaged one, and what is turned."""

REFERENCE = "bf16"
"""The case whose distributions the others are compared with; it runs first."""


def run_case(name: str, folders: Mapping[str, Path], device: str, out: Path, text: Sequence[int]) -> None:
    """Launch one case, ask everything of it, and add a line to `levers.jsonl`."""
    checkpoint, knobs = CASES[name]
    told: dict[str, Any] = {"case": name, "knobs": knobs}
    begun_s = time.monotonic()
    try:
        launch = VllmEngine(launches_at_once=1).launch(
            Configuration.of(BASE | knobs),
            folders[checkpoint],
            device,
            out / f"{name}.log",
            out / "cache",
            400.0,
        )
        try:
            told |= {"load_s": launch.load_s, **asked(name, launch, out, text)}
        finally:
            launch.close()
    except Infeasible as reason:
        told["infeasible"] = [reason.kind, reason.cause]
    told["s"] = time.monotonic() - begun_s
    with (out / "levers.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(told, default=str) + "\n")
    print(name, round(told["s"]), told.get("infeasible", ""), flush=True)


def asked(name: str, launch: Launch, out: Path, text: Sequence[int]) -> dict[str, Any]:
    """What a launch answers; a failure of one question is its answer."""
    reference = out / "reference"
    kept: dict[str, Any] = (
        {"write_reference": reference}
        if name == REFERENCE
        else {"reference": reference}
        if reference.exists()
        else {}
    )

    def request(first: int, new_tokens: int) -> GenerationRequest:
        return GenerationRequest(str(first), tuple(text[first : first + 128]), new_tokens)

    questions: dict[str, Callable[[], Any]] = {
        "resolved": lambda: dict(launch.resolved()),
        "generate": lambda: asdict(launch.generate(request(0, 65))),
        "tpot": lambda: [launch.generate(request(50 * each, 129)).tpot_ms for each in range(5)],
        "again": lambda: launch.generate(request(0, 65)).token_ids,
        "profile": lambda: [asdict(part) for part in launch.profile(request(0, 65))],
        "score": lambda: [
            asdict(score)
            for score in launch.score(
                [
                    ScoringDocument(str(each), tuple(text[300 * each : 300 * each + 300]), 900)
                    for each in range(4)
                ],
                [],
                **kept,
            )[0]
        ],
        "drafting": lambda: (
            [asdict(check) for check in launch.check_drafting([request(90 * each, 64) for each in range(4)])]
            if "drafting.method" in CASES[name][1]
            else None
        ),
    }
    answers: dict[str, Any] = {}
    for question, answer in questions.items():
        try:
            answers[question] = answer()
        except Infeasible as reason:
            answers[question] = f"INFEASIBLE {reason.kind}: {reason.cause}"
        except Exception:  # a fault of ours is told like any other answer, and the others are still asked
            answers[question] = f"FAULT {traceback.format_exc()[-1500:]}"
    return answers


def page(lines: Sequence[Mapping[str, Any]]) -> str:
    """A row a case, in Markdown."""
    head = ("case", "turned", "runs", "KL to bf16", "drafting", "failed")
    rows = [head, ("---",) * len(head), *(_row(line) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    turned = ", ".join(f"{knob.partition('.')[2]} {value}" for knob, value in line["knobs"].items())
    resolved = line.get("resolved")
    runs = "" if not isinstance(resolved, dict) else f"{resolved['linear_kernel']}, {resolved['graph_mode']}"
    failed = line.get("infeasible") or next(
        (value for value in line.values() if isinstance(value, str) and value.startswith("INFEASIBLE")), ""
    )
    cause = failed if isinstance(failed, str) else f"{failed[0]}: {failed[1]}"
    return (line["case"], turned, runs, _kl(line), _drafting(line), cause.removeprefix("INFEASIBLE "))


def _kl(line: Mapping[str, Any]) -> str:
    scores = line.get("score")
    if not isinstance(scores, list):
        return ""
    found = [each["kl_nats"] for each in scores if each["kl_nats"] is not None and ":" not in each["item"]]
    return f"{fmean(found):.4f}" if found else ""


def _drafting(line: Mapping[str, Any]) -> str:
    checks = line.get("drafting")
    if not isinstance(checks, list):
        return ""
    steps = [tokens for check in checks for tokens in check["step_tokens"]]
    positions, divergences, ties = (
        sum(check[name] for check in checks) for name in ("positions", "divergences", "near_ties")
    )
    return f"{fmean(steps):.2f} tokens a step; {divergences} divergences, {ties} near-ties in {positions}"


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoints", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=sorted(CASES))
    parser.add_argument("--page", type=Path, metavar="JSONL")
    given = parser.parse_args()
    if given.page is not None:
        print(page([json.loads(line) for line in given.page.read_text(encoding="utf-8").splitlines()]))
        return
    packaged = reference_model_path()
    folders = {"": packaged} | {
        name: Path(folder) for name, _, folder in (each.partition("=") for each in given.checkpoints)
    }
    text = load_tokenizer(packaged).encode(_text()).ids
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in given.only or CASES if CASES[name][0] in folders]
    missing = sorted(set(given.only or CASES) - set(wanted))
    if missing:
        print("without a checkpoint:", ", ".join(missing))
    if REFERENCE in wanted:
        wanted.remove(REFERENCE)
        run_case(REFERENCE, folders, given.device, given.out, text)
    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(lambda name: run_case(name, folders, given.device, given.out, text), wanted))


def _text() -> str:
    return (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
