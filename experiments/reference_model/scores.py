"""Scores of a reference checkpoint as its file stands (bf16), for the card: text, instructions, drafting.

Everything runs through transformers on the CPU in float32, which holds the bf16 weights exactly.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from experiments.cache_keyword import with_cache
from experiments.corpora.content_classes import held_out_code, held_out_prose
from experiments.corpora.instructions import IM_END, InstructionItem, grade, render_prompt
from experiments.corpora.standard_library import Document
from experiments.reference_model.architecture import Shape
from experiments.reference_model.checkpoint import read_mtp_head
from experiments.reference_model.tokenizer import END_OF_TEXT

SCORING_ROWS = 8
"""Documents scored at once: 8 × 1,900 tokens × 4,096 logits are 0.25 GB."""

ANSWER_MAX_TOKENS = 64
"""Longest answer waited for; the longest right one of the held-out items is shorter."""

PROMPT_TOKENS = 128
"""Length of a prompt from which acceptance is measured."""

CONTINUATION_TOKENS = 128
"""Tokens decoded from each prompt."""

PROMPTS_PER_CLASS = 32
"""Prompts of a content class: 4,096 decoded tokens, a standard error of about 0.01 on acceptance length."""


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A checkpoint ready to be scored: transformers' model and tokenizer, and the MTP head."""

    model: Any
    tokenizer: Any
    mtp: Any


def load_checkpoint(folder: Path) -> LoadedCheckpoint:
    """Load a reference checkpoint in float32 on the CPU."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    config = model.config
    shape = Shape(
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        layers=config.num_hidden_layers,
        query_heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_size=config.head_dim,
        gdn_key_heads=config.linear_num_key_heads,
        gdn_value_heads=config.linear_num_value_heads,
        gdn_head_size=config.linear_key_head_dim,
    )
    return LoadedCheckpoint(model, AutoTokenizer.from_pretrained(folder), read_mtp_head(folder, shape))


@torch.inference_mode()
def document_bits(checkpoint: LoadedCheckpoint, documents: Sequence[Document]) -> list[float]:
    """Return the bits that the model needs for each document, each alone after the end-of-text token."""
    end = checkpoint.tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    encoded = [[end, *checkpoint.tokenizer(document.text).input_ids] for document in documents]
    order = sorted(range(len(encoded)), key=lambda index: len(encoded[index]))
    bits = [0.0] * len(encoded)
    for first in range(0, len(order), SCORING_ROWS):
        chosen = order[first : first + SCORING_ROWS]
        width = max(len(encoded[index]) for index in chosen)
        ids = torch.full((len(chosen), width), end)
        for row, index in enumerate(chosen):
            ids[row, : len(encoded[index])] = torch.tensor(encoded[index])
        logits = checkpoint.model(ids[:, :-1], use_cache=False).logits
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        for row, index in enumerate(chosen):
            bits[index] = losses[row, : len(encoded[index]) - 1].double().sum().item() / math.log(2)
    return bits


def bits_per_byte(checkpoint: LoadedCheckpoint, documents: Sequence[Document]) -> float:
    """Return the bits per UTF-8 byte over all documents together."""
    return sum(document_bits(checkpoint, documents)) / sum(len(item.text.encode()) for item in documents)


@torch.inference_mode()
def greedy(checkpoint: LoadedCheckpoint, prompts: Tensor, tokens: int, stop: int | None = None) -> Tensor:
    """Decode greedily from prompts of one length, (rows, prompt); return prompts and continuations.

    With `stop`, decoding ends once every row has said it; what rows say after it is theirs to ignore.
    """
    cache = DynamicCache(config=checkpoint.model.config)
    step = checkpoint.model(prompts, **with_cache(cache), use_cache=True)
    ids = torch.cat([prompts, step.logits[:, -1:].argmax(-1)], dim=1)
    stopped = ids[:, -1] == (stop if stop is not None else -1)
    for _ in range(tokens - 1):
        if stop is not None and bool(stopped.all()):
            break
        step = checkpoint.model(ids[:, -1:], **with_cache(cache), use_cache=True)
        ids = torch.cat([ids, step.logits[:, -1:].argmax(-1)], dim=1)
        stopped |= ids[:, -1] == (stop if stop is not None else -1)
    return ids


def answers(checkpoint: LoadedCheckpoint, items: Sequence[InstructionItem]) -> list[bool]:
    """Return for each item whether the model's greedy answer is right."""
    stop = checkpoint.tokenizer.convert_tokens_to_ids(IM_END)
    end = checkpoint.tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    prompts = [[end, *checkpoint.tokenizer(render_prompt(item)).input_ids] for item in items]
    by_length: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(index)
    right = [False] * len(items)
    for indices in by_length.values():
        ids = greedy(checkpoint, torch.tensor([prompts[index] for index in indices]), ANSWER_MAX_TOKENS, stop)
        for index, row in zip(indices, ids.tolist(), strict=True):
            completion = checkpoint.tokenizer.decode(row[len(prompts[index]) :], skip_special_tokens=False)
            right[index] = grade(items[index], completion)
    return right


def content_prompts(checkpoint: LoadedCheckpoint, content: str, items: Sequence[InstructionItem]) -> Tensor:
    """Return up to `PROMPTS_PER_CLASS` held-out prompts of one content class, (rows, `PROMPT_TOKENS`)."""
    end = checkpoint.tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    rows: list[list[int]] = []
    for text in _content_texts(content, items):
        ids = [end, *checkpoint.tokenizer(text).input_ids]
        if len(ids) >= PROMPT_TOKENS:
            rows.append(ids[:PROMPT_TOKENS])
        if len(rows) == PROMPTS_PER_CLASS:
            break
    return torch.tensor(rows)


def _content_texts(content: str, items: Sequence[InstructionItem]) -> Iterator[str]:
    """Yield texts of a content class: held-out code from the top of a slice; module docstrings; chats of
    several solved items."""
    if content == "code":
        yield from (document.text for document in held_out_code())
    elif content == "prose":
        yield from (document.text for document in held_out_prose())
    else:
        solved = [f"{render_prompt(item)}{item.answer}{IM_END}\n{END_OF_TEXT}" for item in items]
        for first in range(0, len(solved) - 4, 5):
            yield "".join(solved[first : first + 5])


@torch.inference_mode()
def acceptance_length(checkpoint: LoadedCheckpoint, prompts: Tensor) -> float:
    """Return the mean number of tokens a step yields when the MTP head drafts one token, decoding greedily.

    The text is decoded by the trunk alone: with greedy verification the drafted text is the same. The head
    then runs over it as it would have run beside, and the steps are walked: from a known token the head
    drafts the next; if the trunk says the same, the step yields two tokens, else one.
    """
    start = prompts.shape[1]
    ids = greedy(checkpoint, prompts, CONTINUATION_TOKENS)
    hidden = checkpoint.model.model(ids[:, :-1], use_cache=False).last_hidden_state
    table = checkpoint.model.get_input_embeddings().weight
    drafts = (checkpoint.mtp(hidden, table[ids[:, 1:]]) @ table.T).argmax(-1)
    steps = tokens = 0
    for row, drafted in zip(ids.tolist(), drafts.tolist(), strict=True):
        known = start
        while known + 1 < len(row):
            accepted = drafted[known - 1] == row[known + 1]
            steps += 1
            tokens += 1 + accepted
            known += 1 + accepted
    return tokens / steps
