"""How long one request may take before its process counts as hanging. Pure.

What a request costs grows with the model and with the tokens that it reads: scoring 64 documents and 600
items on a model of 0.8 billion weights is hours on two cores, and a fixed limit would call it hung. So the
limit is a fixed part, for compiling and for small requests, and what the tokens take at a speed that no
machine falls below.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.engines.port import GenerationRequest, ScoringDocument, ScoringTask

SLOWEST_WEIGHTS_PER_S = 2e9
"""Weights times tokens a second, the least that is taken for work: a decode step that reads float32 weights
at 8 GB/s, a prefill at 4 GFLOP/s. Less than that is taken for a process that hangs."""

CHECK_READINGS = 4
"""How often a check of drafting goes through each token at most: written with a draft, read at once, read one
by one, read by as many as a step verifies."""

PROFILE_READINGS = 4
"""How often a profile goes through each token: in two runs with hooks and two without (`profile.RUNS`)."""


def limit_s(least_s: float, weights: int, tokens: int) -> float:
    """Most seconds for a request that goes through so many tokens with so many weights."""
    return least_s + weights * tokens / SLOWEST_WEIGHTS_PER_S


def generated_tokens(request: GenerationRequest, draft_tokens: int) -> int:
    """Tokens that a generation goes through at most: every step may keep one token of those it verified."""
    return len(request.prompt_ids) + request.new_tokens * (draft_tokens + 1)


def checked_tokens(requests: Sequence[GenerationRequest], draft_tokens: int) -> int:
    """Tokens that a check of drafting goes through at most."""
    return CHECK_READINGS * sum(generated_tokens(request, draft_tokens) for request in requests)


def profiled_tokens(request: GenerationRequest, draft_tokens: int) -> int:
    """Tokens that a profile of a step goes through at most."""
    return PROFILE_READINGS * generated_tokens(request, draft_tokens)


def scored_tokens(documents: Sequence[ScoringDocument], tasks: Sequence[ScoringTask]) -> int:
    """Tokens that scoring goes through, each document and each item with its answer once."""
    return sum(len(each.token_ids) for each in documents) + sum(
        len(each.prompt_ids) + len(each.answer_ids) for each in tasks
    )
