"""Batch-1 streaming greedy decoding: a prefill, then one step a token, with a time for each token."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.engines.reference.compile import CompiledStep, compile_step
from experiments.engines.reference.step import capacity_for, copy_state


class Sequence:
    """One sequence being decoded: its state and how to go on. Made by `Decoder.begin`."""

    def __init__(
        self, model: Qwen3_5ForCausalLM, cache: DynamicCache, length: int, compiled: CompiledStep | None
    ) -> None:
        self._model = model
        self._cache = cache
        self._length = length
        self._compiled = compiled
        if compiled is not None:
            copy_state(cache, compiled.state)

    def step(self, token: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Take one token (int64 `[1, 1]`) in; give logits `[1, vocabulary]` and the greedy next token."""
        if self._compiled is not None:
            position = torch.tensor(self._length, device=token.device)
            self._length += 1
            return self._compiled(token, position)
        logits = self.logits(token)
        return logits, logits.argmax(-1, keepdim=True)

    def logits(self, token: torch.Tensor) -> torch.Tensor:
        """The eager step without sampling, whatever the mode: logits `[1, vocabulary]`."""
        logits: torch.Tensor = self._model(token, past_key_values=self._cache, use_cache=True).logits[:, -1]
        return logits


class Decoder:
    """Decodes under one compile mode: eager with transformers' growing cache, or a compiled step.

    Prefill is eager in every mode. A compiled step belongs to a capacity; the smallest is compiled by
    `prepare`, a larger one when a request first needs it.
    """

    def __init__(self, model: Qwen3_5ForCausalLM, mode: str, cache_dir: Path) -> None:
        self.model = model
        self.mode = mode
        self._cache_dir = cache_dir
        self.compiled: dict[int, CompiledStep] = {}
        self._capacity = 0

    def prepare(self, tokens: int) -> None:
        """Make ready for sequences of `tokens` tokens; raises `Infeasible` when compilation fails."""
        self._capacity = capacity_for(tokens)
        if self.mode != "off" and self._capacity not in self.compiled:
            self.compiled[self._capacity] = compile_step(
                self.model, self.mode, self._capacity, self._cache_dir
            )

    def prepare_as_timed(self, tokens: int) -> None:
        """As `prepare`, but keep to the capacity of the last generation where it is large enough."""
        if self._capacity < tokens:
            self.prepare(tokens)

    def begin(self, prompt_ids: tuple[int, ...]) -> tuple[Sequence, torch.Tensor]:
        """Prefill; give the sequence and the last position's logits. Call `prepare` first."""
        compiled = self.compiled[self._capacity] if self.mode != "off" else None
        cache = DynamicCache(config=self.model.config)
        prompt = torch.tensor([prompt_ids], device=self.model.device)
        logits = self.model(prompt, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
        return Sequence(self.model, cache, len(prompt_ids), compiled), logits

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        """Greedy decoding of exactly `new_tokens` tokens; end-of-text is a token like any other.

        A token's time is taken when its value is known on the host, which is when it could be streamed.
        """
        total = len(request.prompt_ids) + request.new_tokens
        self.prepare(total)
        tokens: list[int] = []
        times_s: list[float] = []
        with torch.inference_mode():
            start_s = time.perf_counter()
            sequence, logits = self.begin(request.prompt_ids)
            next_token = logits.argmax(-1, keepdim=True)
            tokens.append(int(next_token))
            times_s.append(time.perf_counter() - start_s)
            while len(tokens) < request.new_tokens:
                _, next_token = sequence.step(next_token)
                tokens.append(int(next_token))
                times_s.append(time.perf_counter() - start_s)
        return GenerationTrace(tuple(tokens), tuple(times_s))
