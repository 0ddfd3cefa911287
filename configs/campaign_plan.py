"""What a campaign measures and when a test of it stops: workloads, quality margins and the stopping plan.

The fields of `WorkloadSpec`, `MarginsSpec` and `PlanSpec` are named as those of
`experiments.measurement.plan`, which this room may not import; a test compares them.
"""

from __future__ import annotations

from pydantic import Field, field_validator

from configs.asked_over import IN_ENGINE, AskedOver
from configs.fields import Fraction
from configs.quality_tasks import asked_tasks
from configs.questions import LatencyMetric
from configs.spec import Spec

MOST_FURTHER_BLOCKS = 16
"""Blocks of a further workload in a launch; each pair of launches adds as many, and they decide nothing."""


class WorkloadSpec(Spec):
    """What is asked of the engine while it is timed and graded; see `measurement.plan.Workload`."""

    concurrency: int = Field(ge=1)
    prompt_tokens: int = Field(ge=1)
    new_tokens: int = Field(ge=2)
    prompts_per_block: int = Field(ge=1)
    warmup_requests: int = Field(ge=1)
    evaluation_documents: int = Field(default=32, ge=1)
    evaluation_tokens_per_document: int = Field(default=384, ge=8)
    evaluation_items: int = Field(default=300, ge=0)
    drafting_prompts: int = Field(default=4, ge=1)
    drafting_new_tokens: int = Field(default=64, ge=2)
    evaluation_tasks: tuple[str, ...] | None = Field(default=None, min_length=1)
    evaluation_thinking: bool | None = None
    evaluation_answer_tokens: int | None = Field(default=None, ge=2)
    asked_over: AskedOver = IN_ENGINE
    """How requests reach the engine; `load_campaign` fills in the engine's own way, and what was stored
    without it was asked in the engine's process."""

    @field_validator("evaluation_tasks")
    @classmethod
    def _tasks_can_be_read(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        asked_tasks(value or ())
        return value


class FurtherWorkloadSpec(Spec):
    """A workload that is measured beside the plan's own, in launches that are up anyway, and told beside the
    verdict. What it leaves out is as in `plan.workload`; `blocks` are measured of it an arm and launch
    pair."""

    concurrency: int | None = Field(default=None, ge=1)
    prompt_tokens: int | None = Field(default=None, ge=1)
    new_tokens: int | None = Field(default=None, ge=2)
    prompts_per_block: int | None = Field(default=None, ge=1)
    warmup_requests: int | None = Field(default=None, ge=1)
    blocks: int = Field(default=1, ge=1, le=MOST_FURTHER_BLOCKS)

    def beside(self, workload: WorkloadSpec) -> FurtherWorkloadSpec:
        """The same with nothing left out."""
        given = self.model_dump(exclude_none=True)
        return FurtherWorkloadSpec.model_validate(
            {name: getattr(workload, name) for name in type(self).model_fields if name != "blocks"} | given
        )

    @property
    def asks(self) -> tuple[int | None, int | None, int | None]:
        """What tells it from others: requests at once, tokens in and tokens out."""
        return self.concurrency, self.prompt_tokens, self.new_tokens


class MarginsSpec(Spec):
    """How much worse quality may be: bits per byte relative, the task in percentage points of accuracy,
    and the mean KL to the baseline, nats a token, beyond which a candidate is refuted."""

    bits_per_byte: Fraction = Field(default=0.01, ge=0)
    task_points: float = Field(default=2.0, ge=0)
    kl_nats: float | None = Field(default=None, gt=0)


class PlanSpec(Spec):
    """The stopping plan of every experiment, but for the prediction, which each hypothesis brings, and the
    level of support, which is set when it is dispatched."""

    metric: LatencyMetric
    min_effect: Fraction = Field(gt=0, lt=1)
    alpha: float = Field(gt=0, lt=0.5)
    margins: MarginsSpec = MarginsSpec()
    workload: WorkloadSpec
    quick_blocks: int = Field(ge=2)
    full_blocks: int = Field(ge=2)
    full_pairs: int = Field(ge=1)
    validation_pairs: int = Field(ge=1)
