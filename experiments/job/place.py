"""Where a job runs: the folders and limits that its executor gives it, beside the spec."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from configs.limits import LOAD_LIMIT_S
from experiments.job.context import DEFAULT_STAGE_LIMITS_S
from experiments.measurement.evidence import Stage

SPEC_NAME = "spec.json"
PLACE_NAME = "place.json"
RECORDS_NAME = "records.jsonl"


class Place(BaseModel):
    """Folders of the machine that a job uses; `limits_s` are seconds a stage, `load_limit_s` seconds a launch
    until it is ready.

    `quantize_python`, `vllm_python` and `lm_eval_python` are the Pythons that have llmcompressor, vLLM and
    lm-eval, where they are not to be looked for. `shared_artifacts` is the address of the store that hosts
    share. `tasks_data` is a folder with data of quality tasks;
    `run_generated_code` allows these to run programs that a model wrote. `beside` are the words of the one
    command that an A/A pair may have run beside it here: a spec names it, and never brings it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    artifacts_dir: Path
    cache_dir: Path
    shared_artifacts: str | None = None
    quantize_python: Path | None = None
    vllm_python: Path | None = None
    lm_eval_python: Path | None = None
    tasks_data: Path | None = None
    run_generated_code: bool = False
    beside: tuple[str, ...] = ()
    limits_s: dict[Stage, float] = Field(default_factory=lambda: dict(DEFAULT_STAGE_LIMITS_S))
    load_limit_s: float = LOAD_LIMIT_S
