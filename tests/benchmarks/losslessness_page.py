"""The page and the table of what losslessness came to: Markdown from values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from experiments.engines.reference.drafting.acceptance import (
    acceptance_length,
    break_even_length,
    by_content_class,
    kept_steps,
    position_rates,
)
from experiments.measurement.content_prompts import CONTENT_CLASSES
from tests.benchmarks.losslessness import FEWER, NEW_TOKENS, TIMED_EVERY, Checked

HEAD = """# Drafting: is it lossless, and what is accepted

The packaged reference model with every way to draft, on all held-out prompts, against its greedy text without
a draft; texts that differ are read teacher-forced as [drafting](../drafting.md#is-it-lossless) says. Written
by the command below; nothing here is by hand. **The model is small and runs on a CPU, without a compiled step
but where it is named, where a step is mostly dispatch: step times and break-even lengths say nothing of a GPU
or of Qwen3.5.** `draft_model` with layers fewer is the pruned reference model without any healing, a draft
model that is often wrong; without them it is the reference model itself, whose drafts stand but for
near-ties. Neither is a speed-up.
"""

COMMAND = "python -m pytest tests/benchmarks/test_losslessness.py -s -m bench_only --drafting-page {path}"

TEXT_COLUMNS = (
    "method",
    "texts",
    "same",
    "tokens",
    "divergences",
    "near-ties",
    "largest gap change",
    "turned",
)
STEP_COLUMNS = ("method", "acceptance", *CONTENT_CLASSES, "step ms", "break-even")


def page(
    results: Sequence[Checked],
    *,
    path: str,
    date: str,
    machine: str,
    versions: str,
    took_s: float,
    busy: float,
) -> str:
    """The whole page; `took_s` is the wall-clock time of all checks, `machine` and `versions` are words, and
    `busy` is how many processes wanted a core before they began."""
    most = max((each.checks for each in results), key=len)
    counts = by_content_class((check.item, (1,)) for check in most)
    prompts = ", ".join(f"{len(counts[content])} {content}" for content in CONTENT_CLASSES)
    facts = [
        f"- {date}, {machine}; {versions}; one thread a method, two methods at a time; "
        f"{took_s / 60:.0f} min; load of the machine before: {busy:.1f}",
        f"- Command: `{COMMAND.format(path=path)}`",
        f"- {len(most)} held-out prompts ({prompts}), {NEW_TOKENS} tokens each, greedy; one in {FEWER} for a "
        "compiled step, a pruned target and the model as its own drafter",
    ]
    return "\n".join([HEAD, *facts, "", tables(results)])


def tables(results: Sequence[Checked]) -> str:
    """Losslessness, then acceptance and times, then acceptance by position."""
    drafted = max(each.method.order.draft_tokens for each in results)
    positions = ("method", *(f"draft {place}" for place in range(1, drafted + 1)))
    return "\n".join(
        [
            "## Losslessness",
            "",
            "*Same*: texts that are the one written without a draft, token by token. *Divergences*: tokens "
            "of the others that\nare not the greedy ones and no near-ties; 0 is lossless. *Near-ties*: "
            "tokens that are not the greedy ones by\nless than reading k + 1 tokens at once changes a gap of "
            "logits without any draft (*largest gap change*; 0\nwhere all texts are the same, or none left "
            "doubt). *Turned*: tokens that this alone turned.",
            "",
            *_table(TEXT_COLUMNS, [_text_row(each) for each in results]),
            "",
            "## Acceptance and times",
            "",
            "*Acceptance*: tokens a step that the text kept, of all prompts and by class. *Step ms*: median "
            "over prompts.\n*Break-even*: the acceptance length from which drafting pays here: the median "
            f"ratio, over every {TIMED_EVERY}th prompt, of a\nstep with its draft to a step without one of "
            "the same prompt right after.",
            "",
            *_table(STEP_COLUMNS, [_step_row(each) for each in results]),
            "",
            "## Acceptance by position",
            "",
            "The share of steps in which the draft there stood, with all before it.",
            "",
            *_table(positions, [_position_row(each, drafted) for each in results]),
            "",
        ]
    )


def _text_row(each: Checked) -> tuple[str, ...]:
    checks = each.checks
    return (
        each.method.name,
        str(len(checks)),
        str(each.same),
        f"{sum(check.positions for check in checks):,}",
        str(each.divergences),
        str(sum(check.near_ties for check in checks)),
        f"{max(check.near_tie_logits for check in checks):.1g}",
        str(sum(check.flips_without_draft for check in checks)),
    )


def _step_row(each: Checked) -> tuple[str, ...]:
    kept = [(check.item, kept_steps(check.step_tokens, check.positions)) for check in each.checks]
    classes = by_content_class(kept)
    ratios = [break_even_length(*pair) for pair in each.pairs_ms]
    return (
        each.method.name,
        f"{acceptance_length([tokens for _, steps in kept for tokens in steps]):.2f}",
        *(f"{acceptance_length(classes[content]):.2f}" for content in CONTENT_CLASSES),
        f"{median(each.step_ms):.1f}",
        f"{median(ratios):.2f}",
    )


def _position_row(each: Checked, columns: int) -> tuple[str, ...]:
    steps = [tokens for check in each.checks for tokens in check.step_tokens]
    rates = [f"{rate:.0%}" for rate in position_rates(steps, each.method.order.draft_tokens)]
    return (each.method.name, *rates, *([""] * (columns - len(rates))))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
