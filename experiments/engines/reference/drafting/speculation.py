"""The decode loop with drafting: propose, verify in one step, keep what stands, tell the drafter."""

from __future__ import annotations

import time
from collections.abc import Sequence as Items

import torch

from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.engines.reference.decode import Decoder, Reading, Sequence
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.drafting.port import Drafter, Outcome


class Speculation:
    """Greedy decoding of one target with one drafter; says what the target alone would say."""

    def __init__(self, decoder: Decoder, drafter: Drafter, order: DraftingOrder) -> None:
        self.decoder = decoder
        self.drafter = drafter
        self.order = order

    def prepare(self, tokens: int) -> None:
        """Make target and drafter ready for sequences of so many tokens."""
        self.decoder.prepare(tokens)
        self.drafter.prepare(tokens)

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        """As `Decoder.generate`. The tokens of a step come together, when its values are on the host.

        The first token comes when the drafter has read the prompt, for in a server that is one step too.
        """
        self.prepare(len(request.prompt_ids) + request.new_tokens)
        steps: list[int] = []
        with torch.inference_mode():
            start_s = time.perf_counter()
            prefilled = self.decoder.begin(request.prompt_ids)
            sequence, tokens = prefilled.sequence, [int(prefilled.logits.argmax())]
            self.drafter.begin(request.prompt_ids, tokens[0], prefilled)
            times_s = [time.perf_counter() - start_s]
            while not request.ended_by(tokens):
                reading = sequence.read(self.filled(tokens[-1], self.drafter.propose()))
                now_s = time.perf_counter() - start_s
                outcome = self.keep(sequence, reading)
                steps.append(len(outcome.tokens))
                tokens += request.kept(outcome.tokens, len(tokens))
                times_s += [now_s] * (len(tokens) - len(times_s))
                if not request.ended_by(tokens):
                    self.drafter.advance(outcome)
        return GenerationTrace(tuple(tokens), tuple(times_s), tuple(steps), start_s)

    def filled(self, last: int, drafts: Items[int]) -> list[int]:
        """The tokens of a step: the last known one and the drafts.

        Without a draft that is a step of one token. Fewer drafts than a step has room for are filled up with
        the last of them: a filler that happens to be right stands like any other.
        """
        missing = self.order.draft_tokens - len(drafts)
        return [last, *drafts, *([drafts[-1]] * missing if drafts else [])]

    def keep(self, sequence: Sequence, reading: Reading) -> Outcome:
        """Keep what stands of a reading."""
        kept = reading.standing + 1
        sequence.keep(kept)
        features = reading.features[:kept] if reading.features is not None else None
        return Outcome(reading.best[:kept], reading.drafts, features)
