"""Reads the logits of a running vLLM engine, and can hold its text to a given one. Runs in vLLM's worker.

vLLM gives probabilities of some tokens; a KL over the whole vocabulary and gaps between logits need all of
them, and 4,096 numbers a token are too many to send. So they are looked at where they are: the tap stands in
for the model's `compute_logits`, which is outside any graph, while it is installed.

To read a text by decode steps, the tap gives the sampler logits that leave one choice, the text's own next
token, and keeps the true ones. What is drafted is then decided here too: nothing (steps of one token), the
text itself (every draft stands), or a text that goes wrong after one token, two tokens, and so on in turn.

vLLM has two model runners, and both are read here: for a hybrid model on a GPU 0.26 to 0.28 take the first,
0.29 to 0.33 the second (`use_v2_model_runner` in its `config/vllm.py`); `describe.py` tells which one runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

NEVER_LOGIT = -1e4
"""The logit of every token but the one that must come."""

DRAFT_NOTHING, DRAFT_TEXT, DRAFT_IN_TURNS = "nothing", "text", "turns"
"""What is drafted while a text is read."""


class LogitTap:
    """Stands in for some methods of a model runner while it is installed; one request at a time."""

    def __init__(self, runner: Any, draft_tokens: int) -> None:
        self._runner, self._model = runner, runner.get_model()
        self._draft_tokens = draft_tokens
        self._saved: dict[tuple[Any, str], Any] = {}
        self._calls: list[Tensor] = []
        self._text: Sequence[int] | None = None
        self._drafts = DRAFT_NOTHING
        self._read: dict[int, Tensor] = {}
        self._place: tuple[int, int, Sequence[int]] = (0, 0, ())
        self._next, self._turn = 0, 0
        self._states_kept = False

    def listen(self) -> None:
        """Keep the logits of what comes, and change nothing of what is generated."""
        self._text, self._calls = None, []
        self._install("compute_logits", self._model, self._compute_logits)
        self._install("sample_tokens", self._runner, self._sample_tokens)

    def read_along(self, text: Sequence[int], drafts: str) -> None:
        """Make the request that comes next say `text`, which begins with its prompt."""
        self._text, self._drafts, self._read = text, drafts, {}
        self._next, self._turn = 0, 0
        self._install("compute_logits", self._model, self._compute_logits)
        self._install("execute_model", self._runner, self._execute_model)
        if self._draft_tokens:
            self._install("take_draft_token_ids", self._runner, self._take_draft_token_ids)

    def remove(self) -> None:
        """Leave everything as it was."""
        for owner, name in self._saved:
            delattr(owner, name)
        self._saved.clear()

    def prompt_rows(self, rows: int) -> Tensor:
        """The logits of a prompt's positions but the last, `[rows, vocabulary]`, of the request that was
        listened to.

        A step computes one row for the token that it samples and, in another call, those of the prompt;
        vLLM's second model runner has the sampled one's, which is the last, among these once more.
        Raises `LookupError` when they are not there, or may be those of a drafter.
        """
        if not self._states_kept:
            raise LookupError("this version keeps the hidden states of a step where a drafter may write")
        found = [call for call in self._calls if len(call) > 1]
        if sum(map(len, found)) not in (rows, rows + 1):
            found = self._calls[1::2]
        if sum(map(len, found)) not in (rows, rows + 1):
            shapes = [len(call) for call in self._calls]
            raise LookupError(f"{rows} rows of logits were expected and calls of {shapes} rows came")
        return torch.cat(found)[:rows]

    def read_rows(self, first: int, last: int) -> Tensor:
        """The true logits that chose tokens `first` to `last − 1` of the text, `[tokens, vocabulary]`.

        Raises `LookupError` when one was never computed.
        """
        missing = [place for place in range(first, last) if place not in self._read]
        if missing:
            raise LookupError(f"the logits before token {missing[0]} of the text were never computed")
        return torch.stack([self._read[place] for place in range(first, last)])

    def _install(self, name: str, owner: Any, stand_in: Any) -> None:
        if (owner, name) not in self._saved:
            self._saved[owner, name] = getattr(owner, name)
            setattr(owner, name, stand_in)

    def _compute_logits(self, *arguments: Any, **named: Any) -> Any:
        logits = self._saved[self._model, "compute_logits"](*arguments, **named)
        if self._text is None:
            self._calls.append(logits.clone())
            return logits
        computed, scheduled, drafts = self._place
        first = computed + scheduled - len(logits) + 1
        given = [
            self._text[place] if place < len(self._text) else 0 for place in range(first, first + len(logits))
        ]
        stood = 0
        while stood < min(len(drafts), len(logits) - 1) and drafts[stood] == given[stood]:
            stood += 1
        for row in range(stood + 1):
            self._read.setdefault(first + row, logits[row].clone())
        self._next = first + stood + 1
        forced = torch.full_like(logits, NEVER_LOGIT)
        forced[torch.arange(len(logits), device=logits.device), torch.tensor(given, device=logits.device)] = (
            0.0
        )
        return forced

    def _sample_tokens(self, *arguments: Any, **named: Any) -> Any:
        """Give a step hidden states that its drafter can't overwrite.

        vLLM computes the logits of a prompt's positions after its drafter ran, and the graphs of both share
        their memory: of a prompt that fits into a graph the drafter's states would be scored, while what is
        generated is right (vllm-project/vllm, issue 53488; open in 0.33).
        """
        state = self._runner.execute_model_state
        states = getattr(state, "hidden_states", None)
        if states is not None:
            self._runner.execute_model_state = state._replace(hidden_states=states.clone())
        self._states_kept = states is not None
        return self._saved[self._runner, "sample_tokens"](*arguments, **named)

    def _execute_model(self, scheduler_output: Any, *arguments: Any, **named: Any) -> Any:
        scheduled = scheduler_output.num_scheduled_tokens
        if len(scheduled) == 1:
            (request, tokens), *_ = scheduled.items()
            drafts = scheduler_output.scheduled_spec_decode_tokens.get(request, [])
            self._place = (_computed(scheduler_output, request), tokens, list(drafts))
            self._put_on_device(request, drafts)
        return self._saved[self._runner, "execute_model"](scheduler_output, *arguments, **named)

    def _put_on_device(self, request: str, drafts: Sequence[int]) -> None:
        """Let these drafts be verified by a runner that takes no more than their number from the scheduler.

        So does vLLM's second model runner, that of hybrid models on a GPU from 0.29 on: it verifies what its
        drafter left on the device, which would be read as if it were the text.
        """
        states = getattr(self._runner, "req_states", None)
        on_device = getattr(states, "draft_tokens", None)
        if states is None or on_device is None or not drafts:
            return
        with torch.inference_mode():  # what was made within it can't be written to outside
            on_device[states.req_id_to_index[request], : len(drafts)] = torch.tensor(
                list(drafts), dtype=on_device.dtype, device=on_device.device
            )

    def _take_draft_token_ids(self) -> Any:
        told = self._saved[self._runner, "take_draft_token_ids"]()
        if told is None:
            return None
        return type(told)(told.req_ids, [self._drafted() for _ in told.req_ids])

    def _drafted(self) -> list[int]:
        if self._drafts == DRAFT_NOTHING or self._text is None:
            return []
        drafts = list(self._text[self._next : self._next + self._draft_tokens])
        if self._drafts == DRAFT_IN_TURNS:
            wrong_from = self._turn % (self._draft_tokens + 1)
            self._turn += 1
            drafts = [token if place < wrong_from else (token + 1) % 2 for place, token in enumerate(drafts)]
        return drafts


def _computed(scheduler_output: Any, request: str) -> int:
    """How many tokens of a request had been computed before this step."""
    for new in scheduler_output.scheduled_new_reqs:
        if new.req_id == request:
            return int(new.num_computed_tokens)
    cached = scheduler_output.scheduled_cached_reqs
    return int(cached.num_computed_tokens[list(cached.req_ids).index(request)])
