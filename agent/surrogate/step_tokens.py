"""What it does to TPOT how many tokens a step reads at most, counted by the server's loop of steps. Pure.

Prompts of other requests are read between the tokens of one that answers, and how many of these steps fall
there depends on how many prompts one step takes. A step of decoding takes what makes the counted TPOT of the
baseline the measured one; a step with prompts takes their arithmetic, or as long as a step of decoding, if
that is more. Not counted: the host's time for launching a step with prompts, which nobody knows before a
launch. Nothing here is fitted to what such values were measured to do.
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


@dataclass(frozen=True)
class StepTokens:
    """The loop as a campaign's workload asks it. `token_ms` is the arithmetic of one token of a prompt,
    `auto` how many tokens a step has where that is left to the server, `before` the value of the baseline,
    whose TPOT is `tpot_ms`; a step of decoding takes `least_ms` at least, its bytes."""

    asked: Asked
    token_ms: float
    auto: int
    before: KnobValue
    tpot_ms: float
    least_ms: float

    def tokens(self, value: KnobValue) -> int:
        """How many tokens a step has at most with this value."""
        return int(value) if isinstance(value, int) else self.auto

    def effect_log(self, before: KnobValue, after: KnobValue) -> float:
        """Log of TPOT with one value over another's."""
        one, other = (self._counted_ms(self.tokens(each), self.decode_ms) for each in (before, after))
        return math.log(other / one)

    @cached_property
    def decode_ms(self) -> float:
        """What a step of decoding takes."""
        decode_ms, tokens = self.tpot_ms, self.tokens(self.before)
        for _ in range(ROUNDS):
            missing_ms = self.tpot_ms - self._counted_ms(tokens, decode_ms)
            if abs(missing_ms) <= CLOSE_SHARE * self.tpot_ms:
                break
            decode_ms = max(self.least_ms, decode_ms + missing_ms)
        return decode_ms

    def _counted_ms(self, tokens: int, decode_ms: float) -> float:
        return counted(self.asked, StepTimes(decode_ms, self.token_ms), tokens).tpot_ms
