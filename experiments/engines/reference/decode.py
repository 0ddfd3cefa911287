"""Batch-1 streaming greedy decoding: a prefill, then one step a token, with a time for each token."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.cache_utils import DynamicCache
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.cache_keyword import with_cache
from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.engines.reference.capacity import capacity_for
from experiments.engines.reference.compile import BuiltStep, build_step
from experiments.engines.reference.mtp_head import MtpHead
from experiments.engines.reference.state import SequenceState
from experiments.engines.reference.step import DecodeStep


@dataclass(frozen=True)
class Reading:
    """What a step found in the tokens it read, with values on the host.

    `best` is the greedy token after each token read; `standing` of the drafts among them stand; `drafts` are
    the MTP head's to follow these, if there is one. `logits` `[tokens, vocabulary]`; `features` `[tokens,
    layers · hidden]` where a drafter asked for some.
    """

    best: tuple[int, ...]
    standing: int
    drafts: tuple[int, ...]
    logits: torch.Tensor
    features: torch.Tensor | None


@dataclass(frozen=True)
class Prefilled:
    """A sequence after its prompt: logits of the last position `[1, vocabulary]`, the final hidden states
    after the norm `[1, prompt, hidden]`, and features of the prompt as in `Reading`."""

    sequence: Sequence
    logits: torch.Tensor
    hidden: torch.Tensor
    features: torch.Tensor | None


class Sequence:
    """One sequence being decoded. Made by `Decoder.begin`; the next one takes its buffers over."""

    def __init__(self, decoder: Decoder, state: SequenceState) -> None:
        self._decoder = decoder
        self._gated_delta: Items[torch.Tensor] = ()
        self._read = 0
        self.state = state

    def run(self, tokens: Items[int]) -> Items[torch.Tensor]:
        """Run a step over tokens that follow what was kept; its outputs as `DecodeStep` gives them."""
        step = self._decoder.step(len(tokens))
        device = self._decoder.model.device
        outputs = step(
            torch.tensor([tokens], device=device),
            torch.tensor(self.state.position, device=device),
            *self.state.inputs(head=step.module.head is not None),
        )
        self._gated_delta = outputs[3 if step.module.feature_layers else 2 :]
        self._read = len(tokens)
        return outputs

    def read(self, tokens: Items[int]) -> Reading:
        """As `run`, and wait for the values. Say with `keep` how many tokens stay."""
        return self.reading(self.run(tokens))

    def reading(self, outputs: Items[torch.Tensor]) -> Reading:
        """The values of what `run` gave last."""
        standing, *rest = outputs[0].tolist()
        features = len(outputs) - len(self._gated_delta) > 2
        return Reading(
            best=tuple(rest[: self._read]),
            standing=standing,
            drafts=tuple(rest[self._read :]),
            logits=outputs[1],
            features=outputs[2] if features else None,
        )

    def keep(self, tokens: int) -> None:
        """Of the tokens read last the first so many (one at least) stay; the others never were."""
        self.state.keep(self._gated_delta, self._read, tokens)


class Decoder:
    """Decodes under one compile mode; also runs the steps that verify drafts (`drafting/`).

    Prefill is eager in every mode. A step belongs to a capacity and a number of tokens; those of
    `step_tokens` are built by `prepare` for the smallest capacity, others when they are first needed.
    Steps of several tokens draft with `head` where there is one, and give the outputs of `feature_layers`.
    """

    def __init__(
        self,
        model: Qwen3_5ForCausalLM,
        mode: str,
        cache_dir: Path,
        *,
        step_tokens: tuple[int, ...] = (1,),
        head: MtpHead | None = None,
        feature_layers: tuple[int, ...] = (),
    ) -> None:
        self.model = model
        self.mode = mode
        self.head = head
        self.feature_layers = feature_layers
        self.step_tokens = step_tokens
        self.built: dict[tuple[int, int], BuiltStep] = {}
        """By capacity and number of tokens."""
        self.cache_dir = cache_dir
        self._states: dict[int, SequenceState] = {}
        self._capacity = 0

    def prepare(self, tokens: int) -> None:
        """Make ready for sequences of `tokens` tokens; raises `Infeasible` when compilation fails."""
        self._capacity = capacity_for(tokens)
        for count in self.step_tokens:
            self.step(count)

    def prepare_as_timed(self, tokens: int) -> None:
        """As `prepare`, but keep to the capacity of the last generation where it is large enough."""
        if self._capacity < tokens:
            self.prepare(tokens)

    def step(self, tokens: int) -> BuiltStep:
        """The step of so many tokens for the capacity prepared last."""
        key = (self._capacity, tokens)
        if key not in self.built:
            several = tokens > 1
            module = DecodeStep(
                self.model,
                self._capacity,
                tokens,
                self.head if several else None,
                self.feature_layers if several else (),
            )
            self.built[key] = build_step(module, self.mode, self.cache_dir)
        return self.built[key]

    def begin(self, prompt_ids: Items[int]) -> Prefilled:
        """Prefill. Call `prepare` first."""
        cache = DynamicCache(config=self.model.config)
        prompt = torch.tensor([prompt_ids], device=self.model.device)
        read: dict[int, torch.Tensor] = {}
        hooks = [
            self.model.model.layers[index].register_forward_hook(_keeper(read, index))
            for index in self.feature_layers
        ]
        try:
            hidden = self.model.model(prompt, **with_cache(cache), use_cache=True).last_hidden_state
        finally:
            for hook in hooks:
                hook.remove()
        if self._capacity not in self._states:
            self._states[self._capacity] = SequenceState.allocate(
                self.model, self._capacity, head=self.head is not None
            )
        state = self._states[self._capacity]
        state.begin(cache, len(prompt_ids))
        return Prefilled(
            sequence=Sequence(self, state),
            logits=self.model.lm_head(hidden[:, -1]),
            hidden=hidden,
            features=torch.cat([read[index] for index in self.feature_layers], dim=-1) if read else None,
        )

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        """Greedy decoding of `new_tokens` tokens; end-of-text is a token like any other, unless it is one of
        `stop_ids`.

        A token's time is taken when its value is known on the host, which is when it could be streamed.
        """
        self.prepare(len(request.prompt_ids) + request.new_tokens)
        tokens: list[int] = []
        times_s: list[float] = []
        with torch.inference_mode():
            start_s = time.perf_counter()
            prefilled = self.begin(request.prompt_ids)
            sequence = prefilled.sequence
            tokens.append(int(prefilled.logits.argmax()))
            times_s.append(time.perf_counter() - start_s)
            while not request.ended_by(tokens):
                tokens.append(sequence.read(tokens[-1:]).best[0])
                times_s.append(time.perf_counter() - start_s)
                sequence.keep(1)
        return GenerationTrace(tuple(tokens), tuple(times_s), start_s=start_s)


def _keeper(
    read: dict[int, torch.Tensor], index: int
) -> Callable[[torch.nn.Module, object, torch.Tensor], None]:
    """A hook that keeps a layer's output of the one sequence, `[tokens, hidden]`."""

    def keep(module: torch.nn.Module, arguments: object, output: torch.Tensor) -> None:
        read[index] = output[0]

    return keep
