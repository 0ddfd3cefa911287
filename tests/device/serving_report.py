"""The report of a serving: tables in Markdown from results.json and from what the reference engine said."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serve_on_vllm import CONFIGURATIONS, ENGINE, GPU_ENGINE

DTYPES = ("float32", "bfloat16")

NEAR_TIE = 0.1
"""Shortfall in nats whose share of all tokens is told, so that a reader sees how rare small ones are."""

HEAD = """# Served by vLLM

What autoinfer makes, loaded and served by vLLM on a GPU, and compared token by token with the reference
engine. Made by `tests/device/serve_on_vllm.py --report`; `tests/device/README.md` says how to repeat it.
The checkpoints are the packaged reference model, outputs of the prune and quantize stages on it, and the
packaged DFlash drafter. Only tensor names and config.json are changed, by `wrapped_checkpoint.py`: vLLM
0.26 knows the model inside a multimodal wrapper alone. **This is about whether they are served and what they
say. The model is far too small for its times to say anything about larger ones: TPOT here is the overhead of
launching kernels, without CUDA graphs, with several configurations on one GPU if `--jobs` says so.**
"""

COMPARISON = """
## Text against the reference engine

Greedy text of the same prompts from the same checkpoint. *Same* counts texts equal in all tokens; *equal
tokens* is the mean number before the first difference, a whole text counting all. *Shortfall* is by how
much, in nats, the reference engine preferred its own token over the second best where the texts part;
*second* tells how often vLLM chose just that second best. Nothing after a first difference is compared, for
from there the contexts differ. vLLM computes in bfloat16; the reference engine is asked in float32 and in
bfloat16.
"""

DRAFTING = """
## Drafting

Mean tokens a step (accepted drafts and the target's own), by vLLM's counters; in parentheses the reference
engine's in float32, with the same prompts and number of tokens. *Same as without* counts texts equal to
those of the same checkpoint served by vLLM without drafting. In bfloat16 a step that verifies several
tokens rounds otherwise than one that decodes a token, so near-ties may turn; *shortfall* is the
reference's, in float32, at those first differences where its own text is the same until there (so many
texts).
"""


@dataclass(frozen=True)
class Parting:
    """Where two texts part: equal tokens, and at the first other one how near the second best was, nats;
    `second` tells whether that one was chosen. The last two are None for equal texts."""

    equal_tokens: int
    shortfall: float | None
    second: bool | None


def parting(text: list[int], reference: dict[str, list[Any]]) -> Parting:
    """Compare a text with a reference text; both have the same number of tokens."""
    for index, (token, expected) in enumerate(zip(text, reference["tokens"], strict=True)):
        if token != expected:
            return Parting(index, reference["shortfall"][index], token == reference["second"][index])
    return Parting(len(text), None, None)


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def write_report(path: Path, results: Path, reference: Path, command: str, date: str) -> None:
    """Write the report of the folder of a serving."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + _serving(results, reference, command, date, explained=True))


def add_report(path: Path, results: Path, reference: Path, command: str, date: str) -> None:
    """Add a later serving to a report, under a heading of its own; what columns mean is not said again."""
    serving = _serving(results, reference, command, date, explained=False).replace("\n## ", "\n### ")
    path.write_text(f"{path.read_text().rstrip()}\n\n## Later: {date}\n{serving}")


def _serving(results: Path, reference: Path, command: str, date: str, *, explained: bool) -> str:
    outcomes: dict[str, Any] = json.loads((results / "results.json").read_text())
    asked: dict[str, Any] = json.loads(reference.read_text())
    outcomes = {name: outcomes[name] for name in CONFIGURATIONS if name in outcomes}
    served = {name: outcome for name, outcome in outcomes.items() if "failed" not in outcome}
    drafting = {name: outcome for name, outcome in served.items() if "drafting" in CONFIGURATIONS[name]}
    parts = [_conditions(served, asked, command, date), _served(outcomes)]
    parts += [COMPARISON if explained else _heading(COMPARISON), _comparison(served, asked), _margins(asked)]
    if drafting:
        parts += [DRAFTING if explained else _heading(DRAFTING), _drafting(served, asked)]
    return "".join(parts)


def _heading(section: str) -> str:
    """The heading of a section, without what it says."""
    return "\n" + section.split("\n")[1] + "\n"


def _conditions(served: dict[str, Any], asked: dict[str, Any], command: str, date: str) -> str:
    one = next(iter(served.values()))
    settings = ", ".join(f"`{name}={value}`" for name, value in (ENGINE | GPU_ENGINE).items())
    return "\n" + "\n".join(
        [
            f"- {date}, {one['device']}; "
            + ", ".join(f"{key} {value}" for key, value in one["versions"].items()),
            f"- Command: `{command}`",
            f"- Engine: {settings}; `VLLM_USE_FLASHINFER_SAMPLER=0`",
            f"- {len(asked['prompts'])} held-out prompts, {asked['new_tokens']} tokens each, greedy, one at "
            f"a time; reference engine on a CPU, torch {asked['torch']}",
            *(f"- `{name}`: {recipe}" for name, recipe in asked["recipes"].items()),
            "",
        ]
    )


def _served(outcomes: dict[str, Any]) -> str:
    rows = []
    for name, outcome in outcomes.items():
        if "failed" in outcome:
            rows.append([name, f"no: {outcome['failed']}", "", "", ""])
            continue
        log = " ".join(outcome["log"])
        kernels = [word for word in ("MacheteLinearKernel", "MarlinLinearKernel") if f"Using {word}" in log]
        tpot = statistics.median(outcome["tpot_ms"].values())
        rows.append([name, "yes", ", ".join(kernels) or "dense", f"{outcome['load_s']:.0f}", f"{tpot:.1f}"])
    failed = sum("failed" in outcome for outcome in outcomes.values())
    note = (
        f"\n{len(outcomes) - failed} of {len(outcomes)} are served."
        " Seconds to load include compilation of kernels, which the first ones pay for the others; vLLM's "
        "log gives the linear kernel of quantized layers.\n"
    )
    return (
        "\n## Served\n"
        + table(["configuration", "served", "linear kernel", "load s", "TPOT ms"], rows)
        + note
    )


def _comparison(served: dict[str, Any], asked: dict[str, Any]) -> str:
    rows = []
    for name, outcome in served.items():
        texts = asked["texts"][CONFIGURATIONS[name]["checkpoint"]]
        for dtype in DTYPES:
            found = [parting(outcome["texts"][item], texts[dtype][item]) for item in asked["prompts"]]
            apart = [one for one in found if one.shortfall is not None]
            worst = max((one.shortfall for one in apart if one.shortfall is not None), default=0.0)
            rows.append(
                [
                    name,
                    dtype,
                    f"{len(found) - len(apart)} of {len(found)}",
                    f"{statistics.mean(one.equal_tokens for one in found):.1f}",
                    f"{worst:.3f}",
                    f"{sum(bool(one.second) for one in apart)} of {len(apart)}",
                ]
            )
    return table(["configuration", "reference", "same", "equal tokens", "largest shortfall", "second"], rows)


def _margins(asked: dict[str, Any]) -> str:
    """What shortfalls are usual: without it nobody can tell whether the parting ones are small."""
    texts = asked["texts"]["bf16"]
    margins = [value for text in texts["float32"].values() for value in text["shortfall"]]
    between = [
        parting(texts["bfloat16"][item]["tokens"], texts["float32"][item]) for item in asked["prompts"]
    ]
    same = sum(one.shortfall is None for one in between)
    worst = max((one.shortfall for one in between if one.shortfall is not None), default=0.0)
    return (
        f"\nOver all {len(margins)} tokens of the reference engine's float32 text of `bf16` the median "
        f"shortfall of the second best is {statistics.median(margins):.2f} nats, and "
        f"{sum(m < NEAR_TIE for m in margins) / len(margins):.0%} of them are under {NEAR_TIE}. The "
        f"reference engine's own bfloat16 text is the same as its float32 text for {same} of {len(between)} "
        f"prompts; the largest shortfall where they part is {worst:.3f}.\n"
    )


def _drafting(served: dict[str, Any], asked: dict[str, Any]) -> str:
    classes = list(dict.fromkeys(item.split(":")[0] for item in asked["prompts"]))
    rows = []
    for name, outcome in served.items():
        if "drafting" not in CONFIGURATIONS[name]:
            continue
        checkpoint = CONFIGURATIONS[name]["checkpoint"]
        steps = asked["step_tokens"].get(name.removeprefix("bf16-"), {})
        cells = []
        for content in ("", *classes):
            items = [item for item in asked["prompts"] if item.startswith(content)]
            counts = [outcome["drafting"][item] for item in items]
            drafts = sum(count["num_drafts"] for count in counts)
            length = 1 + sum(count["num_accepted_tokens"] for count in counts) / drafts
            there = [tokens for item in items for tokens in steps.get(item, [])]
            cells.append(f"{length:.2f} ({statistics.mean(there):.2f})" if there else f"{length:.2f}")
        plain = served.get(checkpoint, {}).get("texts", {})
        reference = asked["texts"][checkpoint]["float32"]
        same, near = 0, [0.0]
        for item, text in plain.items():
            drafted = outcome["texts"][item]
            same += text == drafted
            first = min(
                parting(text, reference[item]).equal_tokens, parting(drafted, reference[item]).equal_tokens
            )
            if text != drafted and text[:first] == drafted[:first] and text[first] != drafted[first]:
                near.append(reference[item]["shortfall"][first])
        rows.append([name, *cells, f"{same} of {len(plain)}", f"{max(near):.3f} ({len(near) - 1})"])
    header = ["configuration", "all (reference)", *(f"{name} (reference)" for name in classes)]
    return table([*header, "same as without", "largest shortfall (texts)"], rows)
