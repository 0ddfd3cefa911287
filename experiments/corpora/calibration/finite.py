"""Draws documents from a collection of texts that may be too small, as a user's file or a data set is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from experiments.corpora.calibration.chat import ConversationRefused
from experiments.corpora.calibration.held_out import is_evaluation_text
from experiments.corpora.calibration.packing import pack
from experiments.corpora.calibration.source import SAMPLE_TOKENS_MIN, Ask, CalibrationText, Drawn
from experiments.engines.port import Infeasible


@dataclass
class _Counts:
    """What went by while texts were packed."""

    texts: int = 0
    tokens: int = 0
    left_out: int = 0


def draw_from(
    texts: Sequence[CalibrationText], ask: Ask, name: str, place: Callable[[int], str] | None = None
) -> Drawn:
    """Documents of the texts in an order of the seed, packed end to end; `name` stands in errors, and `place`
    says where a text comes from by its number, as a sentence begins.

    Texts that an evaluation reads are left out, and `Drawn.described` says how many were.

    Raises:
        Infeasible: kind `illegal`, when there is not enough text, with how much there is and what to ask for,
            or when the chat template refuses a conversation, with the place and the role.
    """
    counts = _Counts()
    documents = pack(
        _encoded(texts, ask, counts, place), ask.samples, ask.sample_tokens, ask.between, carry=True
    )
    if len(documents) < ask.samples:
        raise Infeasible("illegal", _too_short(counts, len(documents), ask, name))
    left_out = f", {counts.left_out} left out as evaluation text" if counts.left_out else ""
    return Drawn(documents, f"{counts.texts} texts of {name}{left_out}")


def _encoded(
    texts: Sequence[CalibrationText], ask: Ask, counts: _Counts, place: Callable[[int], str] | None
) -> Iterator[list[int]]:
    order = random.Random(f"{ask.seed}/texts").sample(range(len(texts)), len(texts))
    for index in order:
        if is_evaluation_text(texts[index]):
            counts.left_out += 1
            continue
        try:
            ids = ask.encode(texts[index])
        except ConversationRefused as refusal:
            raise _refused(texts[index], ask, refusal, None if place is None else place(index)) from None
        counts.texts += 1
        counts.tokens += len(ids)
        yield ids


def _refused(text: CalibrationText, ask: Ask, refusal: ConversationRefused, place: str | None) -> Infeasible:
    """What to say of a conversation that the template refuses: its own fault, unless the template refuses
    every one."""
    if isinstance(text, str) or place is None or (at := ask.chat.refused_message(text)) is None:
        return refusal
    return Infeasible(
        "illegal",
        f"{place} has a message, number {at + 1}, with the role {text[at]['role']!r}, that the chat template "
        f"in {refusal.where} refuses ({refusal.reason}): correct it there.",
    )


def _too_short(counts: _Counts, documents: int, ask: Ask, name: str) -> str:
    asked = f"{ask.samples} samples of {ask.sample_tokens} tokens were asked for"
    overlap = f" after {counts.left_out} texts that the evaluation reads were left out" * bool(
        counts.left_out
    )
    if not counts.tokens:
        return f"The corpus {name} holds no text{overlap}: give it some; {asked}."
    # Every sample begins with the token between texts, and so does every text: the larger bound holds.
    b = len(ask.between)
    shorter = max(counts.tokens // ask.samples + b, (counts.tokens + b * counts.texts) // ask.samples)
    remedies = [f"at most {documents} such samples"] if documents else []
    remedies += [f"samples of at most {shorter} tokens"] if shorter >= SAMPLE_TOKENS_MIN else []
    return (
        f"The corpus {name} holds {counts.tokens} tokens{overlap}, and {asked} "
        f"({ask.samples * ask.sample_tokens} in all): {_either([*remedies, 'a longer text'])}."
    )


def _either(remedies: Sequence[str]) -> str:
    *asks, text = remedies
    return f"ask for {' or '.join(asks)}, or give {text}" if asks else f"give {text}"
