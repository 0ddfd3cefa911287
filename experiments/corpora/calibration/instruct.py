"""`instruct`: questions about training functions with their answers, in the chat template."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from experiments.corpora.calibration.held_out import asks_of_held_out
from experiments.corpora.calibration.packing import pack
from experiments.corpora.calibration.source import (
    Ask,
    CalibrationText,
    CorpusSource,
    Drawn,
    SourceKind,
    no_argument,
)
from experiments.corpora.instructions import ChatMessage, InstructionItem, all_training_items
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json

PREFIX = "instruct"


def items(seed: int) -> Iterator[InstructionItem]:
    """Different training items in the order of the seed, none of which an evaluation could ask.

    Raises:
        Infeasible: kind `illegal`, when the library has no more of them.
    """
    given = 0
    for item in all_training_items(seed):
        if not asks_of_held_out(item):
            given += 1
            yield item
    raise Infeasible(
        "illegal",
        f"The standard library gives {given:,} different questions for training, too few for such a corpus "
        "of instructions: ask for fewer samples, or shorter ones.",
    )


def conversation(item: InstructionItem) -> CalibrationText:
    """The question with its right answer."""
    return (*item.prompt_messages, ChatMessage(role="assistant", content=item.answer))


@dataclass(frozen=True)
class Instructions:
    """Instruction items; fewer samples are a prefix of more."""

    canonical: str = PREFIX

    def identity(self, device: str) -> Mapping[str, Json]:
        """The library's functions change with Python."""
        return {"corpus": PREFIX, "python": platform.python_version()}

    def draw(self, ask: Ask) -> Drawn:
        """Whole conversations until a document is full; the last one is cut, and the next one begins anew."""
        texts = (ask.encode(conversation(item)) for item in items(ask.seed))
        documents = pack(texts, ask.samples, ask.sample_tokens, ask.between, carry=False)
        template = "the checkpoint's chat template" if ask.chat.jinja else "the plain chat template"
        return Drawn(
            documents,
            f"questions about functions of the standard library of Python {platform.python_version()}, "
            f"training modules, with their answers in {template}",
        )


def parse(argument: str | None) -> CorpusSource:
    """The source of `instruct`."""
    no_argument(PREFIX, argument)
    return Instructions()


KIND = SourceKind(
    PREFIX,
    PREFIX,
    "Questions about functions of the same modules with their answers, in the checkpoint's chat template.",
    parse,
)
