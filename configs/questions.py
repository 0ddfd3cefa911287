"""The questions of a campaign: contrasts that it is to settle before anything of the agent's own.

A question compares two configurations that the author of the campaign wrote down, on a metric of their
choice. The knobs that an arm does not name are the baseline's, which is not known before trial 0 is measured;
so names and values are checked against the space by `agent.campaign.queue.questions`, all else here.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.types import StrictBool, StrictFloat, StrictInt, StrictStr

from configs.fields import Fraction

LatencyMetric = Literal["tpot_ms", "ttft_ms", "itl_ms", "e2el_ms"]
"""Metrics of time, in ms: what a campaign can lower."""

JudgedMetric = Literal[
    "tpot_ms", "ttft_ms", "itl_ms", "e2el_ms", "step_weight_bytes", "nll_bits", "task_correct"
]
"""Metrics a claim can be on: those of time, the bytes of weights that a decode step reads, the bits of the
held-out documents, the share of the instruction items that come out right."""

QUESTION_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""A question's name: it becomes part of labels and file names."""

FEWEST = "fewest"
"""In place of a knob's value: its first value, in the space's order, at which the arm is legal and within the
parameter budget. So a file can say `pruning.layers_removed: fewest` for models of any size."""

Role = Literal["decides", "adds", "noise"]
"""What a contrast is to its question: the answer is made of those that decide it, others add to it; in one of
noise nothing but a draw at random differs, and effects are read against it."""

KnobSetting = StrictBool | StrictInt | StrictFloat | StrictStr
"""A knob's value as YAML gives it; 1, 1.0, true and "1" differ."""


class Question(BaseModel):
    """One contrast: candidate against control, on one metric.

    Questions of equal `asks` are contrasts of one question and are answered together. `min_effect` is the
    smallest gain worth having, in the metric's own scale: a share of the control's value, for `task_correct`
    a difference of shares (2% is two points). Negative is better on every metric but `task_correct`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: str = Field(pattern=QUESTION_ID, max_length=100)
    asks: str = Field(min_length=1)
    """The question in words; contrasts that share it belong together."""
    claim: str = Field(min_length=1)
    """What this contrast claims: a sentence that the measurement supports or refutes."""
    control: dict[str, KnobSetting] = Field(default_factory=dict)
    """Knobs of the control that differ from the baseline's; none of them is the baseline itself."""
    candidate: dict[str, KnobSetting] = Field(default_factory=dict)
    """Knobs of the candidate that differ from the baseline's."""
    metric: JudgedMetric
    min_effect: Fraction = Field(gt=0, lt=1)
    why: str = Field(min_length=1)
    """Why it is asked: the rationale of the hypothesis."""
    role: Role = "decides"
    if_supported: str | None = Field(default=None, min_length=1)
    """What the answer says when the claim is supported, a clause without a full stop; the claim itself if not
    given."""
    if_refuted: str | None = Field(default=None, min_length=1)
    """What it says when the gain is smaller than `min_effect`."""

    @model_validator(mode="after")
    def _compares_two(self) -> Question:
        if self.control == self.candidate:
            raise ValueError(f"control and candidate of the question {self.id} are the same")
        if self.role != "decides" and (self.if_supported or self.if_refuted):
            raise ValueError(
                f"the question {self.id} decides nothing, so it has no if_supported and no if_refuted"
            )
        return self


def is_latency(metric: str) -> bool:
    """Whether a metric is one of time."""
    return metric.endswith("_ms")
