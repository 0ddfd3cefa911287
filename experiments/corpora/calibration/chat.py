"""Conversations as a checkpoint's chat template writes them.

The template is the checkpoint's own where it has one (`chat_template.jinja`, or `chat_template` in
`tokenizer_config.json`), rendered by transformers as its tokenizers do, without torch; else the plain one of
`corpora.instructions`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.corpora.instructions import IM_END, IM_START, ChatMessage
from experiments.engines.port import Infeasible

TEMPLATE_FILE = "chat_template.jinja"
CONFIG_FILE = "tokenizer_config.json"

DEFAULT_NAME = "default"
"""The template that counts where a tokenizer has several by name."""


SIMPLEST = (ChatMessage(role="user", content="Hello."), ChatMessage(role="assistant", content="Hello."))
"""A conversation that every template writes: where one refuses it too, the template is at fault."""


class ConversationRefused(Infeasible):
    """A template did not write a conversation: told as the checkpoint's fault until whoever has the
    conversation looks closer. `reason` is the template's own, without a full stop, `where` the template."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__("checkpoint", f"The chat template in {where} can't write a conversation: {reason}.")
        self.where = where
        self.reason = reason


@dataclass(frozen=True)
class ChatTemplate:
    """Renders messages; `jinja` is the checkpoint's template, None for the plain one; `where` names it."""

    jinja: str | None
    where: str

    def render(self, messages: Sequence[ChatMessage], *, answer_follows: bool = False) -> str:
        """The conversation as text, up to where the assistant's answer begins if `answer_follows`.

        Raises:
            ConversationRefused: when the template refuses the messages or is broken.
        """
        if self.jinja is None:
            turns = (f"{IM_START}{each['role']}\n{each['content']}{IM_END}\n" for each in messages)
            return "".join(turns) + (f"{IM_START}assistant\n" if answer_follows else "")
        try:
            from transformers.utils.chat_template_utils import render_jinja_template
        except ImportError:
            raise Infeasible(
                "unsupported",
                "Rendering a chat template needs the package transformers, which is not installed: "
                "pip install 'autoinfer[reference]'.",
            ) from None
        try:
            answer: Any = render_jinja_template(
                conversations=[[dict(each) for each in messages]],
                chat_template=self.jinja,
                add_generation_prompt=answer_follows,
            )
        except Exception as cause:  # a template may raise anything, and jinja has errors of its own
            reason = " ".join(str(cause).split()) or type(cause).__name__
            raise ConversationRefused(self.where, reason.rstrip(".")) from None
        return str(answer[0][0])  # annotated as text, but a list of them comes first

    def refused_message(self, messages: Sequence[ChatMessage]) -> int | None:
        """Which message of a conversation that is refused is to blame, from 0: the last one of the shortest
        beginning that is refused for the same reason. None where the template refuses any conversation."""
        if self._refusal(SIMPLEST) is not None:
            return None
        whole = self._refusal(messages)
        return next((k for k in range(len(messages)) if self._refusal(messages[: k + 1]) == whole), None)

    def _refusal(self, messages: Sequence[ChatMessage]) -> str | None:
        try:
            self.render(messages)
        except ConversationRefused as refusal:
            return refusal.reason
        return None


def load_chat_template(checkpoint: Path) -> ChatTemplate:
    """The template of a checkpoint; a file of its own goes before the tokenizer's configuration.

    Raises:
        Infeasible: kind `checkpoint`, when the files can't be read.
    """
    file, config = checkpoint / TEMPLATE_FILE, checkpoint / CONFIG_FILE
    try:
        if file.is_file():
            return ChatTemplate(file.read_text(encoding="utf-8"), str(file))
        stored = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    except (OSError, ValueError) as cause:
        raise Infeasible("checkpoint", f"The chat template of {checkpoint} can't be read: {cause}.") from None
    found = stored.get("chat_template") if isinstance(stored, dict) else None
    if isinstance(found, list):  # several by name
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get(DEFAULT_NAME)
    return ChatTemplate(found, str(config)) if isinstance(found, str) else ChatTemplate(None, "autoinfer")
