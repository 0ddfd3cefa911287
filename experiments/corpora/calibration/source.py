"""What a source of calibration text is, and what it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from configs.errors import UsageError
from experiments.corpora.calibration.chat import ChatTemplate, load_chat_template
from experiments.corpora.instructions import ChatMessage
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json
from experiments.measurement.prompts import end_of_text_id, load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CalibrationText = str | tuple[ChatMessage, ...]
"""Running text, or a conversation that is rendered in the checkpoint's chat template."""

TokenIds = tuple[int, ...]

SAMPLE_TOKENS_MIN = 2
"""Least tokens of a sample: the token between texts and one of a text."""


@dataclass(frozen=True)
class Ask:
    """`samples` documents of `sample_tokens` tokens each, in the tokens of a checkpoint.

    `device` (as in a spec: `cpu`, `cuda:0`) is where a source that needs the model runs it.
    """

    checkpoint: Path
    samples: int
    sample_tokens: int
    seed: int
    device: str = "cpu"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer; raises `Infeasible` (`checkpoint`) when it can't be read."""
        try:
            return load_tokenizer(self.checkpoint)
        except UsageError as refusal:
            raise Infeasible("checkpoint", str(refusal)) from None

    @cached_property
    def chat(self) -> ChatTemplate:
        """The checkpoint's chat template, or the plain one; raises `Infeasible` as `load_chat_template`."""
        return load_chat_template(self.checkpoint)

    @cached_property
    def between(self) -> TokenIds:
        """What stands before every text: the token between texts; empty for a tokenizer without one."""
        end = end_of_text_id(self.tokenizer)
        return () if end is None else (end,)

    def encode(self, text: CalibrationText) -> list[int]:
        """The token ids of a text, without the token between texts."""
        if isinstance(text, str):
            ids: list[int] = self.tokenizer.encode(text).ids
        else:  # the template writes all special tokens itself
            ids = self.tokenizer.encode(self.chat.render(text), add_special_tokens=False).ids
        return ids


@dataclass(frozen=True)
class Drawn:
    """What a source gave: exactly what was asked for, and a phrase that says what text it is."""

    documents: Sequence[TokenIds]
    described: str


class CorpusSource(Protocol):
    """A source that a spec names, ready to be drawn from."""

    @property
    def canonical(self) -> str:
        """The spec in its one way of writing: equal corpora have equal ones."""
        ...

    def identity(self, device: str) -> Mapping[str, Json]:
        """What would change the text beside samples, length, seed and checkpoint; `corpus` names the source.

        Runs no model; `device` is where it would run.

        Raises `Infeasible` when the source can't be reached.
        """
        ...

    def draw(self, ask: Ask) -> Drawn:
        """The documents; raises `Infeasible` with a sentence when the source can't give them."""
        ...


@dataclass(frozen=True)
class SourceKind:
    """An entry of the registry: what specs begin with, how they are written, and what they give.

    `parse` gets what follows the colon (None without a colon) and raises `Infeasible` (`illegal`).
    """

    prefix: str
    form: str
    help: str
    parse: Callable[[str | None], CorpusSource]


def no_argument(prefix: str, argument: str | None) -> None:
    """Raise `Infeasible` when something follows a prefix that stands alone."""
    if argument is not None:
        raise Infeasible(
            "illegal", f"The corpus {prefix}:{argument} is not known: write {prefix} with nothing after it."
        )
