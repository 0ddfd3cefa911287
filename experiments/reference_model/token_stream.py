"""The tokens that the reference model is trained on, and how batches are drawn from them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from experiments.corpora.installed_packages import PackageText, installed_package_texts
from experiments.corpora.instructions import InstructionItem, items_from, render_answer, render_prompt
from experiments.corpora.standard_library import Document, held_out_passages, training_documents
from experiments.reference_model.tokenizer import end_of_text_id

PROMPT_WEIGHT = 0.2
"""Weight of a prompt's tokens in the loss: questions are templates, answers are what is learnt."""

ENCODE_BATCH = 256
"""Documents given to the tokenizer at once, which spreads them over the cores."""


@dataclass(frozen=True)
class TokenPool:
    """A source of training windows: its tokens on end, their weights in the loss, and where windows may
    begin."""

    tokens: Tensor
    weights: Tensor
    starts: Tensor
    end_of_text: int

    def windows(self, rows: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw `rows` windows at random: token ids (rows, length + 1), the end of text first, and weights.

        The weights belong to the predicted tokens: (rows, length).
        """
        picks = torch.randint(len(self.starts), (rows,), generator=generator, device=self.starts.device)
        offsets = torch.arange(length, device=self.starts.device)
        places = (self.starts[picks][:, None] + offsets) % len(self.tokens)
        first = torch.full((rows, 1), self.end_of_text, dtype=torch.long, device=self.tokens.device)
        return torch.cat([first, self.tokens[places].long()], dim=1), self.weights[places].float()

    def to(self, device: torch.device) -> "TokenPool":
        """Return the pool on another device."""
        moved = (self.tokens.to(device), self.weights.to(device), self.starts.to(device))
        return TokenPool(*moved, self.end_of_text)


@dataclass(frozen=True)
class TrainingData:
    """The three sources, and what a model card says of them."""

    library: TokenPool
    packages: TokenPool | None
    instructions: TokenPool
    package_texts: tuple[PackageText, ...]

    def to(self, device: torch.device) -> "TrainingData":
        """Return the data on another device."""
        packages = None if self.packages is None else self.packages.to(device)
        return TrainingData(
            self.library.to(device), packages, self.instructions.to(device), self.package_texts
        )


def gather(tokenizer: Tokenizer, *, seed: int, items: int, with_packages: bool) -> TrainingData:
    """Read and tokenize all training text; half of the instruction items are about the packages, if they are
    used."""
    library = training_documents()
    texts = installed_package_texts(held_out_passages()) if with_packages else []
    documents = [document for text in texts for document in text.documents]
    questions = list(items_from(library, seed, items // 2 if documents else items))
    if documents:
        questions += items_from(documents, seed, items - items // 2)
    random.Random(seed).shuffle(questions)
    return TrainingData(
        text_pool(tokenizer, library),
        text_pool(tokenizer, documents) if documents else None,
        instruction_pool(tokenizer, questions),
        tuple(texts),
    )


def text_pool(tokenizer: Tokenizer, documents: Sequence[Document]) -> TokenPool:
    """Tokenize documents; windows begin where a line begins."""
    end = end_of_text_id(tokenizer)
    vocabulary = range(tokenizer.get_vocab_size())
    breaks = torch.tensor(
        [tokenizer.decode([token], skip_special_tokens=False)[:1] == "\n" for token in vocabulary]
    )
    breaks[end] = True
    ids: list[int] = []
    for first in range(0, len(documents), ENCODE_BATCH):
        batch = [document.text for document in documents[first : first + ENCODE_BATCH]]
        for encoding in tokenizer.encode_batch(batch):
            ids += encoding.ids
            ids.append(end)
    tokens = torch.tensor(ids, dtype=torch.int32)
    starts = torch.nonzero(breaks[tokens.long()]).flatten()
    return TokenPool(tokens, torch.ones(len(tokens), dtype=torch.float16), starts, end)


def instruction_pool(tokenizer: Tokenizer, items: Sequence[InstructionItem]) -> TokenPool:
    """Tokenize items one after the other; windows begin where an item begins."""
    end = end_of_text_id(tokenizer)
    prompts = tokenizer.encode_batch([render_prompt(item) for item in items])
    answers = tokenizer.encode_batch([render_answer(item) for item in items])
    ids: list[int] = []
    weights: list[float] = []
    starts = []
    for prompt, answer in zip(prompts, answers, strict=True):
        starts.append(len(ids))
        ids += [*prompt.ids, *answer.ids, end]
        weights += [PROMPT_WEIGHT] * len(prompt.ids) + [1.0] * (len(answer.ids) + 1)
    return TokenPool(
        torch.tensor(ids, dtype=torch.int32),
        torch.tensor(weights, dtype=torch.float16),
        torch.tensor(starts),
        end,
    )
