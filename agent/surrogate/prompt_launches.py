"""What CUDA graphs of a step that reads a prompt are expected to do to the first token. Pure.

A lone request's prompt is read in a step of its own. Where it was profiled (docs/profile.md), the time in
which no kernel runs is known: launching, scheduling, the way between processes. Where it was not, its
arithmetic is counted as plans count it, and what the measured first token takes beyond is taken to be that,
with HTTP and a tokenizer, which graphs do not touch. Of it a captured step is expected to remove
`REMOVED_SHARE`: pieces are captured between the layers that keep states, whose kernels are launched as
before. The share was stated before any GPU had run two values beside each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent.surrogate.lone_prompt import LonePrompt
from experiments.space.configuration import KnobValue
from experiments.space.workload_rules import AUTO

REMOVED_SHARE = 0.5
"""Share of what the first token takes outside kernels, or beyond the prompt's arithmetic, that captured steps
are expected to remove; judgement."""

OPEN_SHARE = 0.5
"""How far that may be off, as a share of the same; judgement."""

LEAST_SD_LOG = 0.02
"""No value is expected more closely than this: other sizes of graphs, and less memory."""


@dataclass(frozen=True)
class PromptLaunches:
    """Of a campaign's lone request: tokens of its prompt, its measured time to the first token with vLLM's
    own choice of graphs, and the counted arithmetic of the prompt in it, in ms; `profiled` where it was."""

    prompt_tokens: int
    ttft_ms: float
    arithmetic_ms: float
    profiled: LonePrompt | None = None

    @property
    def beyond(self) -> float:
        """Share of the first token in which no kernel runs, or, unprofiled, that is not the prompt's
        arithmetic, 0 to 1."""
        if self.profiled is not None:
            return self.profiled.shares(self.ttft_ms).outside
        return max(0.0, 1 - self.arithmetic_ms / self.ttft_ms)

    def holds(self, tokens: KnobValue) -> bool:
        """Whether steps of up to so many tokens, where they are captured, are the prompt's too."""
        return isinstance(tokens, int) and tokens >= self.prompt_tokens

    def effect(self, tokens: KnobValue) -> tuple[float, float]:
        """Mean and standard deviation of the log of the time to the first token, with steps of up to so many
        tokens captured in place of vLLM's own choice."""
        if tokens == AUTO or not self.holds(tokens):
            return 0.0, LEAST_SD_LOG
        mean = math.log1p(-REMOVED_SHARE * self.beyond)
        return mean, max(LEAST_SD_LOG, OPEN_SHARE * self.beyond)

    def told(self, tokens: KnobValue) -> str:
        """Why that is expected, in a sentence; empty where nothing is."""
        if not self.holds(tokens) or not self.beyond:
            return ""
        graphs = f"a graph of steps of up to {tokens:,} tokens launches"
        if self.profiled is not None:
            return (
                f"By the profile no kernel runs in {self.profiled.outside_ms:.1f} of the "
                f"{self.profiled.first_token_ms:.1f} ms to the first token of a lone prompt of "
                f"{self.prompt_tokens:,} tokens; {graphs} those kernels at once that lie between the layers "
                "that keep states."
            )
        return (
            f"The baseline's first token takes {self.ttft_ms:.1f} ms, and the arithmetic of the "
            f"prompt's {self.prompt_tokens:,} tokens {self.arithmetic_ms:.1f} ms as plans count it. That the "
            f"rest is largely the processor launching kernels one by one is a guess; {graphs} those between "
            "the layers that keep states at once."
        )
