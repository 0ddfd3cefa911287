"""What fields of a campaign are called on the command line, so that a refusal tells what was typed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_NAMED_ALIKE = (
    "approve_above",
    "approve_above_usd",
    "ask_again",
    "budget",
    "budget_usd",
    "confirm_on",
    "drafter",
    "engine",
    "memory",
    "model",
    "seed",
    "space",
    "target",
    "usd_per_hour",
    "weights",
)

OPTIONS: Mapping[str, str] = {
    **{field: f"--{field.replace('_', '-')}" for field in _NAMED_ALIKE},
    "baseline.start": "--baseline",
    "plan.min_effect": "--min-effect",
    "plan.workload.concurrency": "--concurrency",
    "plan.workload.prompt_tokens": "--prompt-tokens",
    "plan.workload.new_tokens": "--new-tokens",
    "plan.workload.evaluation_tasks": "--tasks",
    "plan.workload.evaluation_thinking": "--thinking",
}
"""The options of `autoinfer run` and `autoinfer plan` by the dotted field that each gives."""


ASKED_TOGETHER = frozenset(
    {"plan.workload.concurrency", "plan.workload.prompt_tokens", "plan.workload.new_tokens"}
)
"""Fields that are one workload, so that one of them alone is not yet what was asked for."""


def option_of(field: str) -> str:
    """The option that gives a field; the field's name itself where none does."""
    return OPTIONS.get(field, field)
