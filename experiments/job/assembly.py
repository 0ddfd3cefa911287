"""Loads what a job's spec names: engine and judge by entry point, checkpoint, texts and stages."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from configs.registry import Port, registered
from experiments.engines.port import Engine
from experiments.job.process import Workshop
from experiments.job.spec import BaselineJob, TestJob
from experiments.measurement.environment import package_version
from experiments.measurement.judging import Judge
from experiments.measurement.material import HeldOutMaterial
from experiments.reference_model.load import reference_model_path
from experiments.stages.prune import DepthPruning

PACKAGED_MODEL = "reference"
"""The name of the packaged model in a spec."""


SCORING_PACKAGES = ("torch", "transformers", "vllm")
"""Packages whose version may change what an evaluation scores, and so belongs into its artifact's key."""


def assemble(spec: BaselineJob | TestJob) -> Workshop:
    """Load everything a spec names; raises `AutoinferError` when something is missing or not installed."""
    checkpoint = checkpoint_path(spec.model)
    return Workshop(
        engine=load_engine(spec.engine),
        judge=load_judge(spec.judge),
        checkpoint=checkpoint,
        material=HeldOutMaterial(checkpoint, spec.device, spec.seed),
        checkpoint_stages=(DepthPruning(),),
        tool_versions={name: package_version(name) for name in SCORING_PACKAGES},
    )


def load_engine(name: str) -> Engine:
    """Return the engine registered under `name`; raises `UsageError` when none is, or it can't be loaded."""
    return cast(Engine, registered(Port.ENGINE, name)())


def load_judge(name: str) -> Judge:
    """Return the judge registered under `name`; raises `UsageError` when none is, or it can't be loaded."""
    return cast(Judge, registered(Port.JUDGE, name)())


def checkpoint_path(model: str) -> Path:
    """Return the folder of a spec's model: the packaged one, or the folder it names."""
    return reference_model_path() if model == PACKAGED_MODEL else Path(model)
