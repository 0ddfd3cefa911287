"""Instruction items made from the standard library: signature, summary and example calls, graded exactly.

An item is a question about a function of the standard library with one right answer, in a chat of one turn.
The kinds are chosen so that a model of a few million parameters answers part of them: most can be read off
the prompt by copying, which is what breaks first when such a model is damaged; a few need counting or a
choice.

Items of the held-out modules are never trained on: their split is the one of `standard_library`.
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TypedDict

from experiments.corpora.signatures import Parameter, Signature, signatures
from experiments.corpora.standard_library import Document, held_out_modules, training_documents

IM_START = "<|im_start|>"
"""Special token that opens a message of the chat template."""

IM_END = "<|im_end|>"
"""Special token that closes a message of the chat template."""

HELD_OUT_SEED = 20261121
"""Fixes the held-out items: they never change between runs."""

EXAMPLE_WORDS = ("alpha", "blue", "data", "east", "file", "green", "left", "main", "name", "red", "text")
"""Strings that example calls pass; short, so that copying is what is tested."""


class ChatMessage(TypedDict):
    """One message of a chat, as `apply_chat_template` takes it."""

    role: str
    content: str


@dataclass(frozen=True)
class InstructionItem:
    """A question with one right answer; `kind` names the task, `id` is unique and stable."""

    id: str
    kind: str
    prompt_messages: tuple[ChatMessage, ...]
    answer: str


def render_prompt(item: InstructionItem) -> str:
    """Return the item's prompt in the chat template, up to where the assistant's answer begins."""
    turns = (
        f"{IM_START}{message['role']}\n{message['content']}{IM_END}\n" for message in item.prompt_messages
    )
    return "".join(turns) + f"{IM_START}assistant\n"


def render_answer(item: InstructionItem) -> str:
    """Return what follows the prompt when the answer is right."""
    return f"{item.answer}{IM_END}\n"


def grade(item: InstructionItem, completion: str) -> bool:
    """Tell whether a completion is the right answer: exactly, but for white space around it.

    What follows the end of the assistant's message is not part of the completion.
    """
    return completion.split(IM_END, 1)[0].strip() == item.answer


def _ask(signature: Signature, kind: str, question: str, answer: str) -> InstructionItem:
    """Build an item; its id comes from its text, so that equal items are equal everywhere."""
    digest = hashlib.sha256(f"{kind}\n{question}".encode()).hexdigest()[:12]
    messages = (ChatMessage(role="user", content=question),)
    return InstructionItem(f"{kind}/{signature.module}.{signature.name}/{digest}", kind, messages, answer)


def _name(signature: Signature, rng: random.Random) -> InstructionItem | None:
    question = f"What is the name of this function?\n{signature.line}"
    return _ask(signature, "name", question, signature.name)


def _parameters(signature: Signature, rng: random.Random) -> InstructionItem | None:
    if not signature.parameters:
        return None
    answer = ", ".join(parameter.name for parameter in signature.parameters)
    return _ask(signature, "parameters", f"List the parameters, without self.\n{signature.line}", answer)


def _count(signature: Signature, rng: random.Random) -> InstructionItem | None:
    question = f"How many parameters are there, without self?\n{signature.line}"
    return _ask(signature, "count", question, str(len(signature.parameters)))


def _default(signature: Signature, rng: random.Random) -> InstructionItem | None:
    having = [parameter for parameter in signature.parameters if parameter.default is not None]
    if not having:
        return None
    asked: Parameter = rng.choice(having)
    question = f"What is the default of {asked.name}?\n{signature.line}"
    return _ask(signature, "default", question, asked.default or "")


def _call(signature: Signature, rng: random.Random) -> InstructionItem | None:
    if not 1 <= len(signature.parameters) <= 4:
        return None
    values = [
        repr(rng.choice(EXAMPLE_WORDS)) if rng.random() < 0.5 else str(rng.randrange(100))
        for _ in signature.parameters
    ]
    question = f"Call this function by keyword with {', '.join(values)}.\n{signature.line}"
    pairs = zip(signature.parameters, values, strict=True)
    answer = f"{signature.name}({', '.join(f'{parameter.name}={value}' for parameter, value in pairs)})"
    return _ask(signature, "call", question, answer)


def _summary(signature: Signature, rng: random.Random) -> InstructionItem | None:
    if signature.summary is None:
        return None
    question = f'Quote the summary.\n{signature.line}\n    """{signature.summary}"""'
    return _ask(signature, "summary", question, signature.summary)


MISSES_PER_TURN = 50
"""Draws without a new item after which a kind gives up its turn: large sets use up the rarer kinds."""

KINDS = ("name", "parameters", "count", "default", "call", "summary", "match")
"""The kinds of items; each is one seventh of a set, as long as none is used up."""

_MAKERS: dict[str, Callable[[Signature, random.Random], InstructionItem | None]] = {
    "name": _name,
    "parameters": _parameters,
    "count": _count,
    "default": _default,
    "call": _call,
    "summary": _summary,
}


def _match(pool: Sequence[Signature], rng: random.Random) -> InstructionItem | None:
    """Ask which of two functions a summary describes; the other one is any function of the pool."""
    right, wrong = rng.choice(pool), rng.choice(pool)
    if right.summary is None or right.name == wrong.name:
        return None
    letter = rng.choice("AB")
    first, second = (right, wrong) if letter == "A" else (wrong, right)
    question = f"Which function fits: {right.summary}\nA: {first.line}\nB: {second.line}"
    return _ask(right, "match", question, letter)


def items_from(documents: Sequence[Document], seed: int, n: int) -> tuple[InstructionItem, ...]:
    """Return `n` different items about the functions of these documents, the kinds taking turns.

    Raises:
        ValueError: the documents hold too few functions for `n` different items.
    """
    return _items(tuple(signatures(documents)), seed, n)


def _items(pool: Sequence[Signature], seed: int, n: int) -> tuple[InstructionItem, ...]:
    """Draw the items of `items_from` from functions already read."""
    found = tuple(islice(_drawn(pool, seed), n))
    if len(found) < n:
        raise ValueError(f"the documents give {len(found)} different items, not {n}; ask for fewer")
    return found


def _drawn(pool: Sequence[Signature], seed: int) -> Iterator[InstructionItem]:
    """Draw different items, the kinds taking turns, until the functions give no more."""
    rng = random.Random(seed)
    seen: set[str] = set()
    turn, misses = 0, 0
    while pool and misses < MISSES_PER_TURN * len(KINDS):
        kind = KINDS[turn % len(KINDS)]
        item = _match(pool, rng) if kind == "match" else _MAKERS[kind](rng.choice(pool), rng)
        if item is None or item.id in seen:
            misses += 1
            turn += misses % MISSES_PER_TURN == 0
        else:
            seen.add(item.id)
            turn, misses = turn + 1, 0
            yield item


def training_items(seed: int, n: int) -> tuple[InstructionItem, ...]:
    """Return the first `n` items of `all_training_items`; raises `ValueError` when there are fewer."""
    return _items(_training_signatures(), seed, n)


def all_training_items(seed: int) -> Iterator[InstructionItem]:
    """Give the items of the training modules, as they are drawn, until there are no more; another seed gives
    other items."""
    return _drawn(_training_signatures(), seed)


@lru_cache(maxsize=1)
def _training_signatures() -> tuple[Signature, ...]:
    """Read the functions of the training modules once a process: it takes a second or two."""
    return tuple(signatures(training_documents()))


@lru_cache(maxsize=8)
def held_out_items(n: int) -> tuple[InstructionItem, ...]:
    """Return the first `n` items of the held-out modules, always the same; fewer are a prefix of more."""
    return _items(_held_out_signatures(), HELD_OUT_SEED, n)


@lru_cache(maxsize=1)
def _held_out_signatures() -> tuple[Signature, ...]:
    """Read the functions of the held-out modules once a process, however many items are asked for."""
    return tuple(signatures(held_out_modules()))
