"""The stopping plan: what is decided, and hashed, before the first sample of an experiment."""

from __future__ import annotations

import hashlib
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from configs.asked_over import IN_ENGINE, AskedOver
from configs.quality_tasks import asked_tasks
from experiments.measurement.evidence import TIMED_METRICS, Metric

LATER_IN_WORKLOADS = ("evaluation_tasks", "evaluation_thinking", "evaluation_answer_tokens")
"""Fields that workloads of older plans did not have; None stands for that."""


class Workload(BaseModel):
    """What is asked of the engine while it is timed.

    One block is `prompts_per_block` requests, or as many as `concurrency` where that is more, each of
    `prompt_tokens` tokens in and `new_tokens` tokens out (end-of-text ignored, greedy). They are sent in a
    closed loop: `concurrency` are under way at once, the next one starts when one has ended; at concurrency 1
    that is one after the other. Warm-ups are sent so too, `concurrency` of them at least. Drafting is
    checked on `drafting_prompts` prompts of each class of content, over `drafting_new_tokens` tokens each.

    `evaluation_tasks` are tasks of lm-eval, `NAME:ITEMS`, whose answers are generated and graded beside the
    instruction items; `evaluation_thinking`: the model thinks before it answers; `evaluation_answer_tokens`
    replaces what a task allows an answer. All three are None where there are none, as in older plans.

    `asked_over` says how the requests of blocks reach the engine: over its HTTP server, or, as in all older
    plans, in its own process. Nothing else is asked over HTTP.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: int = Field(default=1, ge=1)
    prompt_tokens: int = Field(default=128, ge=1)
    new_tokens: int = Field(default=32, ge=2)
    prompts_per_block: int = Field(default=2, ge=1)
    warmup_requests: int = Field(default=1, ge=1)
    evaluation_documents: int = Field(default=32, ge=1)
    evaluation_tokens_per_document: int = Field(default=384, ge=8)
    evaluation_items: int = Field(default=300, ge=0)
    drafting_prompts: int = Field(default=4, ge=1)
    drafting_new_tokens: int = Field(default=64, ge=2)
    evaluation_tasks: tuple[str, ...] | None = Field(default=None, min_length=1)
    evaluation_thinking: bool | None = None
    evaluation_answer_tokens: int | None = Field(default=None, ge=2)
    asked_over: AskedOver = IN_ENGINE

    @field_validator("evaluation_tasks")
    @classmethod
    def _tasks_can_be_read(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        asked_tasks(value or ())
        return value

    @property
    def requests_per_block(self) -> int:
        """Requests of a block."""
        return max(self.prompts_per_block, self.concurrency)

    @property
    def requests_before(self) -> int:
        """Requests that are sent before the first block and not kept."""
        return max(self.warmup_requests, self.concurrency)

    @property
    def context_tokens(self) -> int:
        """The most tokens of one sequence: a request, a drafting check, or a document that is scored."""
        answer = max(self.new_tokens, self.drafting_new_tokens)
        return max(self.prompt_tokens + answer, self.evaluation_tokens_per_document)


class FurtherWorkload(BaseModel):
    """A workload that is measured beside the plan's own, in launches that are up anyway. Nothing is judged by
    it, so that it stands in no plan.

    The fields are those of `Workload`; `blocks` are measured of it an arm and launch pair.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrency: int = Field(ge=1)
    prompt_tokens: int = Field(ge=1)
    new_tokens: int = Field(ge=2)
    prompts_per_block: int = Field(ge=1)
    warmup_requests: int = Field(ge=1)
    blocks: int = Field(default=1, ge=1)

    @property
    def key(self) -> str:
        """What marks its samples and tells it from others: `16x512+32` is 16 requests at once of 512 tokens
        in and 32 out."""
        return f"{self.concurrency}x{self.prompt_tokens}+{self.new_tokens}"

    @property
    def words(self) -> str:
        """The same for a reader: `16 requests at once of 512 + 32 tokens`."""
        requests = "1 request" if self.concurrency == 1 else f"{self.concurrency} requests"
        return f"{requests} at once of {self.prompt_tokens:,} + {self.new_tokens:,} tokens"

    @property
    def workload(self) -> Workload:
        """What is asked of the engine; nothing is evaluated by it."""
        return Workload(**self.model_dump(exclude={"blocks"}))

    @property
    def context_tokens(self) -> int:
        """The most tokens of one sequence."""
        return self.prompt_tokens + self.new_tokens


class Prediction(BaseModel):
    """A predicted effect as a normal: the natural log of candidate over control (negative is faster); for a
    metric that `is_share` the difference of shares, in the same fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log_ratio_mean: float
    log_ratio_sd: float = Field(gt=0)


class Margins(BaseModel):
    """How much worse the candidate's quality may be, one-sided at `1 − alpha`.

    `bits_per_byte`: relative (0.01 is +1 %). `task_points`: percentage points of accuracy. `kl_nats`: mean KL
    to the reference, nats a token, beyond which a candidate is refuted; within it nothing is passed. None: KL
    decides nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bits_per_byte: float = Field(default=0.01, ge=0)
    task_points: float = Field(default=2.0, ge=0)
    kl_nats: float | None = Field(default=None, gt=0)


class StoppingPlan(BaseModel):
    """Everything the judge will go by. Frozen; its digest is the preregistration.

    `min_effect` is the smallest gain worth having: relative (0.03 is 3 % less), or for a metric that
    `is_share` a difference of shares (0.02 is two points).
    `quick_blocks` and `full_blocks` are blocks *per arm* in a launch pair; `full_pairs` is the most
    launch pairs the quick and full stages may use together; `validation_pairs` are further pairs of
    fresh processes that must agree before anything is called supported.

    `alpha` is the level of the interval that is shown and of refutation. `support_alpha` is the level at
    which *supported* is called, stricter where a campaign tests many hypotheses; None means `alpha`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: Metric = Metric.TPOT_MS
    prediction: Prediction
    min_effect: float = Field(default=0.03, gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    margins: Margins = Margins()
    workload: Workload = Workload()
    quick_blocks: int = Field(default=4, ge=2)
    full_blocks: int = Field(default=6, ge=2)
    full_pairs: int = Field(default=16, ge=1)
    validation_pairs: int = Field(default=2, ge=1)
    support_alpha: float | None = Field(default=None, gt=0)
    latency_only: bool = False
    """Whether weights are made up: then quality is not known, and what is supported is supported for its
    latency alone."""

    @model_validator(mode="after")
    def _support_is_no_laxer(self) -> Self:
        if self.support_alpha is not None and self.support_alpha > self.alpha:
            raise ValueError(f"support_alpha is {self.support_alpha}: it must be at most alpha, {self.alpha}")
        return self

    @model_validator(mode="after")
    def _latency_only_is_on_time(self) -> Self:
        if self.latency_only and self.metric not in TIMED_METRICS:
            raise ValueError(f"made-up weights have times alone, and {self.metric.value} is none")
        return self

    @property
    def support_level(self) -> float:
        """The level at which support is called."""
        return self.alpha if self.support_alpha is None else self.support_alpha

    def digest(self, control_digest: str, candidate_digest: str) -> str:
        """SHA-256 over the plan and both arms: the preregistration hash.

        A plan without a `support_alpha`, a margin of KL or quality tasks, of weights that are there, or
        whose requests are asked in the engine's process, is hashed as it was before there were these fields,
        so that the hashes of older experiments can still be made again from their stored plans.
        """
        later: dict[str, Any] = {}
        if self.support_alpha is None:
            later["support_alpha"] = True
        if not self.latency_only:
            later["latency_only"] = True
        if self.margins.kl_nats is None:
            later["margins"] = {"kl_nats"}
        absent = {name for name in LATER_IN_WORKLOADS if getattr(self.workload, name) is None}
        if self.workload.asked_over == IN_ENGINE:
            absent.add("asked_over")
        if absent:
            later["workload"] = absent
        text = "\n".join((control_digest, candidate_digest, self.model_dump_json(exclude=later)))
        return hashlib.sha256(text.encode()).hexdigest()
