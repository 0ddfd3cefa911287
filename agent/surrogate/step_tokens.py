"""What it does to TPOT how many tokens a step reads at most, counted by the server's loop of steps. Pure.

Prompts of other requests are read between the tokens of one that answers, and how many of these steps fall
there depends on how many prompts one step takes. A step of decoding takes what makes the counted TPOT of
the baseline the measured one; a step with prompts takes their arithmetic, or as long as a step of decoding,
if that is more. Where that is more than was measured even with steps of decoding at their bytes, prompts
are read faster than was guessed: by so much that both agree. In a Mixture of Experts a step with prompts
reads experts that one of decoding does not, and takes as long as that at least. Not counted: the host's time
for launching a step with prompts, which nobody knows before a launch. Nothing here is fitted to what such
values were measured to do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from agent.surrogate.step_loop import Asked, StepTimes, counted
from experiments.space.configuration import KnobValue

SD_SHARE = 0.5
"""Standard deviation of a counted effect, as a share of it: which share of the listed rate a prefill reaches
is a guess within a factor of two, and the effect is about proportional to it. Judgement."""

LEAST_SD_LOG = 0.02
"""How far off it may be beside that: where the counted steps are the same, launches differ all the same."""

LATER_MS = 0.3
"""How long after a request's last token its successor is there: a guess, of which it matters alone that the
next step is put together before, and that a step takes longer."""

ROUNDS, CLOSE_SHARE = 8, 1e-3
"""How often a step of decoding is corrected at most, and how near to the measured TPOT it need not come."""


HALVINGS = 12
"""How often the bounds of what a prompt's token takes are halved, where it takes less than was guessed."""


@dataclass(frozen=True)
class StepTokens:
    """The loop as a campaign's workload asks it. `token_ms` is the arithmetic of one token of a prompt,
    `auto` how many tokens a step has where that is left to the server, `before` the value of the baseline,
    whose TPOT is `tpot_ms`; a step of decoding takes `least_ms` at least, its bytes, and one with prompts
    `prompts_ms`, where it reads more."""

    asked: Asked
    token_ms: float
    auto: int
    before: KnobValue
    tpot_ms: float
    least_ms: float
    prompts_ms: float = 0.0

    def tokens(self, value: KnobValue) -> int:
        """How many tokens a step has at most with this value."""
        return int(value) if isinstance(value, int) else self.auto

    def effect_log(self, before: KnobValue, after: KnobValue) -> float:
        """Log of TPOT with one value over another's."""
        one, other = (self._counted_ms(self.tokens(each), self.times) for each in (before, after))
        return math.log(other / one)

    @cached_property
    def times(self) -> StepTimes:
        """What steps take, by which the baseline's counted TPOT is the measured one."""
        tokens, found = self.tokens(self.before), self._with(self.decode_ms, self.token_ms)
        if self._counted_ms(tokens, found) <= (1 + CLOSE_SHARE) * self.tpot_ms:
            return found
        low_ms, high_ms = 0.0, self.token_ms
        for _ in range(HALVINGS):
            token_ms = (low_ms + high_ms) / 2
            found = self._with(self.decode_ms, token_ms)
            if self._counted_ms(tokens, found) > self.tpot_ms:
                high_ms = token_ms
            else:
                low_ms = token_ms
        return found

    @cached_property
    def decode_ms(self) -> float:
        """What a step of decoding takes."""
        decode_ms, tokens = self.tpot_ms, self.tokens(self.before)
        for _ in range(ROUNDS):
            missing_ms = self.tpot_ms - self._counted_ms(tokens, self._with(decode_ms, self.token_ms))
            if abs(missing_ms) <= CLOSE_SHARE * self.tpot_ms:
                break
            decode_ms = max(self.least_ms, decode_ms + missing_ms)
        return decode_ms

    def _with(self, decode_ms: float, token_ms: float) -> StepTimes:
        return StepTimes(decode_ms, token_ms, prompts_ms=self.prompts_ms)

    def _counted_ms(self, tokens: int, times: StepTimes) -> float:
        return counted(self.asked, times, tokens).tpot_ms
