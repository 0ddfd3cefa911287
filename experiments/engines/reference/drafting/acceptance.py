"""How much drafting gives: tokens a step, by position and by class of content, and when that pays.

Pure functions of `step_tokens`, the tokens that each verification step gave (`GenerationTrace`): the drafts
that stood and the target's own token. Content classes are what items' names begin with (`code:`, `prose:`,
`instruct:`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

DROPPED_HEAD_LENGTH = 1.05
"""An acceptance length up to this says that an MTP head does not do its work: its weights were dropped, or
are another model's (FACTS §2); chance alone gives some hundredths above 1."""

DROPPED_HEAD_STEPS_MIN = 20
"""Steps from which that is said; a short run of bad luck is not a fault."""

UNNAMED_CLASS = "other"
"""The class of items whose name has no class in front."""


def acceptance_length(step_tokens: Sequence[int]) -> float:
    """Mean tokens a step; 1 is a step that yields what a step without drafting does.

    Raises:
        ValueError: there is no step.
    """
    if not step_tokens:
        raise ValueError("there is no verification step to take an acceptance length from")
    return sum(step_tokens) / len(step_tokens)


def kept_steps(step_tokens: Sequence[int], tokens: int) -> tuple[int, ...]:
    """The steps of one text with the last cut to the `tokens` that the text kept after its first.

    A step gives one token at least. TPOT counts the tokens kept, so a length that is held against a
    break-even length must count them too.
    """
    excess = max(0, sum(step_tokens) - tokens)
    return (*step_tokens[:-1], max(1, step_tokens[-1] - excess)) if step_tokens else ()


def position_rates(step_tokens: Sequence[int], draft_tokens: int) -> tuple[float, ...]:
    """For each draft position 1 … k the share of steps in which the draft there stood, and so all before it.

    Their sum is the acceptance length less one.
    """
    steps = len(step_tokens)
    return tuple(
        sum(tokens > position for tokens in step_tokens) / steps for position in range(1, draft_tokens + 1)
    )


def break_even_length(step_with_draft_ms: float, step_without_draft_ms: float) -> float:
    """The acceptance length at which a step with its draft takes as long a token as a step without drafting.

    Raises:
        ValueError: a time is not positive.
    """
    if not (step_with_draft_ms > 0 and step_without_draft_ms > 0):
        raise ValueError(f"step times must be positive, not {step_with_draft_ms}, {step_without_draft_ms} ms")
    return step_with_draft_ms / step_without_draft_ms


def content_class(item: str) -> str:
    """The class of content that an item's name begins with: `code` of `code:os.path`."""
    name, separator, _ = item.partition(":")
    return name if separator and name else UNNAMED_CLASS


def by_content_class(traces: Iterable[tuple[str, Sequence[int]]]) -> Mapping[str, tuple[int, ...]]:
    """The steps of items' traces (`item`, `step_tokens`) together by class, classes sorted."""
    classes: dict[str, list[int]] = {}
    for item, step_tokens in traces:
        classes.setdefault(content_class(item), []).extend(step_tokens)
    return {name: tuple(classes[name]) for name in sorted(classes)}


def head_seems_dropped(step_tokens: Sequence[int]) -> bool:
    """Whether steps enough say that the drafts of an MTP head hardly ever stand."""
    return (
        len(step_tokens) >= DROPPED_HEAD_STEPS_MIN and acceptance_length(step_tokens) <= DROPPED_HEAD_LENGTH
    )
