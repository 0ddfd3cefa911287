"""Prompts of a given length in tokens, cut from held-out text; the same for a seed, everywhere.

The tokenizer is the checkpoint's own, by the `tokenizers` package: transformers is not imported.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from configs.errors import UsageError
from experiments.checkpoints.tokenizer_file import SAVE_TOKENIZER, TOKENIZER_FILE, no_tokenizer
from experiments.corpora.standard_library import Document
from experiments.engines.port import GenerationRequest
from experiments.measurement.plan import Workload

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT = "<|endoftext|>"
"""The token between texts in Qwen's tokenizers and in the reference model's; every text begins after one."""

PAGE_TOKENS = 16
"""A cache of prefixes keeps whole pages of at least so many tokens, so that it finds nothing of less."""

WARM_UP = -1
"""Stands for the pair and block of warm-up requests, which no measured block has."""


def load_tokenizer(checkpoint: Path) -> Tokenizer:
    """The tokenizer of a checkpoint; raises `UsageError` when it is missing or can't be read."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError(
            "Reading a checkpoint's text needs the package tokenizers, which is not installed.",
            "Install what an engine needs: pip install 'autoinfer[reference]'",
        ) from None
    path = checkpoint / TOKENIZER_FILE
    if not path.is_file():
        raise UsageError(no_tokenizer(checkpoint), f"{SAVE_TOKENIZER}.")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as cause:  # the package raises a bare Exception
        raise UsageError(
            f"{path} can't be read as a tokenizer: {cause}.", "Save the tokenizer again."
        ) from None


def end_of_text_id(tokenizer: Tokenizer) -> int | None:
    """The id of the token between texts; None for a tokenizer without one."""
    found: int | None = tokenizer.token_to_id(END_OF_TEXT)
    return found


class PromptSource:
    """Cuts prompts from documents.

    A prompt begins with the token between texts and, where it is longer than `PAGE_TOKENS`, a comment that
    names it, so that no two that are measured in a launch begin alike: a cache of prefixes finds nothing. It
    goes on at a random document, and over those that follow, until it has its length. Which document, is
    decided by seed, launch pair, block and number alone.
    """

    def __init__(self, tokenizer: Tokenizer, documents: Sequence[Document]) -> None:
        if not any(document.text for document in documents):
            raise ValueError("prompts need documents with text")
        self._tokenizer = tokenizer
        self._documents = documents
        end = end_of_text_id(tokenizer)
        self._between = () if end is None else (end,)

    def block(self, workload: Workload, seed: int, pair: int, block: int) -> list[GenerationRequest]:
        """The requests of one block of one launch pair."""
        return [
            self._request(workload, seed, pair, block, number)
            for number in range(workload.requests_per_block)
        ]

    def warm_up(self, workload: Workload, seed: int) -> list[GenerationRequest]:
        """The requests before the first block."""
        return [
            self._request(workload, seed, WARM_UP, WARM_UP, number)
            for number in range(workload.requests_before)
        ]

    def _request(
        self, workload: Workload, seed: int, pair: int, block: int, number: int
    ) -> GenerationRequest:
        first = random.Random(f"{seed}/{pair}/{block}/{number}").randrange(len(self._documents))
        ids: list[int] = []
        name, index = "", first
        if workload.prompt_tokens > PAGE_TOKENS:
            name = f"# {number}.{block}.{pair} of {workload.prompt_tokens}\n"
        while len(ids) < workload.prompt_tokens:
            text = f"{'' if ids else name}{self._documents[index].text}"
            ids += [*self._between, *self._tokenizer.encode(text).ids]
            index = (index + 1) % len(self._documents)
        return GenerationRequest(
            item=f"{pair}.{block}.{number} {self._documents[first].name}",
            prompt_ids=tuple(ids[: workload.prompt_tokens]),
            new_tokens=workload.new_tokens,
            seed=seed,
        )
