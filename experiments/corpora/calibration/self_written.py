"""`self`: text that the model under test writes, from short beginnings of training text and questions.

Self-calibration (arXiv 2410.17170): the model's own text is near to what it was trained on, and needs no
data. Half of the samples begin with running text, half with a question in the chat template; where the model
ends its text before the sample is full, the next beginning follows, as texts do in every corpus.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from configs.cpu import usable_cores
from experiments.corpora.calibration.held_out import is_evaluation_text
from experiments.corpora.calibration.instruct import items
from experiments.corpora.calibration.raw import passages
from experiments.corpora.calibration.source import (
    Ask,
    CorpusSource,
    Drawn,
    SourceKind,
    TokenIds,
    no_argument,
)
from experiments.corpora.instructions import IM_END
from experiments.engines import one_answer
from experiments.engines.one_device import one_device
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.measurement.environment import package_version
from experiments.measurement.evidence import Json

PREFIX = "self"

PROCESS_MODULE = "experiments.corpora.calibration.writing_process"

TEMPERATURE = 1.0
"""The model's own distribution, neither sharpened nor flattened."""

BEGINNING_TOKENS = 16
"""Tokens of running text that the model goes on from: some two lines of code."""

BEGINNINGS_PER_SAMPLE = 8
"""Beginnings handed over for each sample; a model that ends its texts sooner meets the first one again."""

ROUNDS = 3
"""A sample that is evaluation text (a model may know it by heart) is written anew, so often at most."""


@dataclass(frozen=True)
class SelfWritten:
    """Text of the model under test; the number of samples decides what is in each."""

    canonical: str = PREFIX

    def identity(self, device: str) -> Mapping[str, Json]:
        """What the beginnings and the sampling depend on."""
        return {
            "corpus": PREFIX,
            "python": platform.python_version(),
            "torch": package_version("torch"),
            "transformers": package_version("transformers"),
            "device": device.partition(":")[0],
            "temperature": TEMPERATURE,
        }

    def draw(self, ask: Ask) -> Drawn:
        """Let the model write; raises `Infeasible` as `experiments.engines.one_answer.ask` too."""
        inspect_checkpoint(ask.checkpoint)  # what is broken shows before a process has loaded torch
        documents: list[TokenIds] = []
        beginning = _beginnings(ask)
        written_tokens = 0
        for turn in range(ROUNDS):
            missing = ask.samples - len(documents)
            if missing == 0:
                break
            rows = [list(islice(beginning, BEGINNINGS_PER_SAMPLE)) for _ in range(missing)]
            answer = one_answer.ask(
                PROCESS_MODULE,
                _request(ask, rows, turn),
                doing="writes calibration text",
                environment=one_device(ask.device),
            )
            for ids, written in zip(answer["documents"], answer["written"], strict=True):
                if not is_evaluation_text(ask.tokenizer.decode(ids)):
                    documents.append(tuple(ids))
                    written_tokens += written
        if len(documents) < ask.samples:
            raise Infeasible(
                "build_failed",
                f"The model wrote evaluation text in {ask.samples - len(documents)} of {ask.samples} samples "
                f"{ROUNDS} times over: choose another corpus than {PREFIX}.",
            )
        share = written_tokens / (ask.samples * ask.sample_tokens)
        return Drawn(
            documents,
            f"text of the model itself at temperature {TEMPERATURE:g}, {share:.0%} of the tokens its own, "
            "the rest beginnings of training text and questions",
        )


def _beginnings(ask: Ask) -> Iterator[list[int]]:
    """Beginnings of running text and questions in the chat template, so that rows of eight take turns."""
    texts = passages(ask, BEGINNING_TOKENS)
    questions = (
        ask.tokenizer.encode(
            ask.chat.render(item.prompt_messages, answer_follows=True), add_special_tokens=False
        ).ids
        for item in items(ask.seed)
    )
    row = 0
    while True:
        for place in range(BEGINNINGS_PER_SAMPLE):
            yield next(texts) if (row + place) % 2 == 0 else next(questions)
        row += 1


def _request(ask: Ask, rows: list[list[list[int]]], turn: int) -> dict[str, object]:
    ends = (ask.tokenizer.token_to_id(IM_END), *ask.between)
    return {
        "checkpoint": str(ask.checkpoint),
        "beginnings": [[[*ask.between, *ids] for ids in row] for row in rows],
        "tokens": ask.sample_tokens,
        "ends": [token for token in ends if token is not None],
        "vocabulary": ask.tokenizer.get_vocab_size(),
        "temperature": TEMPERATURE,
        "seed": f"{ask.seed}/{turn}",
        "device": ask.device,
        "threads": usable_cores(),
    }


def parse(argument: str | None) -> CorpusSource:
    """The source of `self`."""
    no_argument(PREFIX, argument)
    return SelfWritten()


KIND = SourceKind(
    PREFIX,
    PREFIX,
    "Text that the model under test writes, from short beginnings of training text and from questions.",
    parse,
)
