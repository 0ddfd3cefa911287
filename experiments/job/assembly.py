"""Loads what a job's spec names: engine and judge by entry point, checkpoint, texts and stages."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from configs.errors import AutoinferError
from configs.registry import Port, names, registered
from experiments.checkpoints.hub import fetch, pinned_in
from experiments.corpora.standard_library import held_out_modules
from experiments.engines.port import Engine
from experiments.job.named import engine_for, load_engine, load_judge
from experiments.job.process import Workshop
from experiments.job.sameness import check_sameness
from experiments.job.spec import AnyJob, TestJob
from experiments.measurement.environment import package_version
from experiments.measurement.evidence import Json
from experiments.measurement.material import HeldOutMaterial
from experiments.quality_tasks.source import QualityTasks
from experiments.reference_model.load import reference_model_path
from experiments.shapes.marker import is_shape
from experiments.shapes.material import RandomMaterial
from experiments.shapes.stages import ShapePruning, ShapeQuantization
from experiments.stages.pruning.stage import DepthPruning
from experiments.stages.quantize.stage import WeightQuantization

PACKAGED_MODEL = "reference"
"""The name of the packaged model in a spec."""

KEPT_SCORES = "layer-scores"
"""Folder of the cache that holds scores of layers."""

UNFINISHED_QUANTIZATIONS = "quantizing"
"""Folder of the cache that holds finished layers of quantizations that are not."""

SCORING_PACKAGES = ("torch", "transformers", "vllm")
"""Packages whose version may change what an evaluation scores, and so belongs into its artifact's key."""


def assemble(spec: AnyJob, cache_dir: Path) -> Workshop:
    """Load everything a spec names; what a shape is asked and changed by is of its own.

    Raises `AutoinferError` when something is missing or not installed, and when the checkpoint's files are no
    longer those that the spec was written for.
    """
    checkpoint = checkpoint_path(spec.model)
    at_once = 1 if spec.in_turn else spec.at_once
    workload = spec.plan.workload if isinstance(spec, TestJob) else spec.workload
    engine, judge = engine_for(load_engine(spec.engine), at_once, workload), load_judge(spec.judge)
    check_sameness(checkpoint, spec.model_fingerprint, cache_dir)
    if is_shape(checkpoint):
        return Workshop(
            engine=engine,
            judge=judge,
            checkpoint=checkpoint,
            material=RandomMaterial(checkpoint, spec.device, spec.seed),
            checkpoint_stages=(ShapePruning(), ShapeQuantization()),
            tool_versions=_tool_versions(engine, spec.device),
        )
    return Workshop(
        engine=engine,
        judge=judge,
        checkpoint=checkpoint,
        material=HeldOutMaterial(checkpoint, spec.device, spec.seed),
        checkpoint_stages=(
            DepthPruning(spec.device, cache_dir / KEPT_SCORES),
            WeightQuantization(spec.device, cache_dir / UNFINISHED_QUANTIZATIONS),
        ),
        tool_versions=_tool_versions(engine, spec.device),
        quality_tasks=QualityTasks(checkpoint),
    )


def _tool_versions(engine: Engine, device: str) -> dict[str, Json]:
    """The versions that an evaluation depends on: of this Python, and of the engine's own if it has one."""
    elsewhere = getattr(engine, "tool_versions", None)
    return {
        **{name: package_version(name) for name in SCORING_PACKAGES},
        **({} if elsewhere is None else elsewhere(device)),
    }


def prepare() -> None:
    """Load what most jobs need, whatever their specs say, so that a job that comes later waits for less.

    What can't be loaded, whatever a plug-in raises, is left to the job that names it, which says so.
    """
    held_out_modules()
    for port in (Port.ENGINE, Port.JUDGE):
        for name in names(port):
            with suppress(Exception):
                registered(port, name)


def checkpoint_path(model: str) -> Path:
    """Return the folder of a spec's model: the packaged one, or the folder it names.

    The folder is that of the host where the campaign was begun. Where it lay in a hub's cache and is not on
    this host, the same commit is taken from this host's cache, or fetched into it. Raises `AutoinferError`
    for any other folder that is not here.
    """
    if model == PACKAGED_MODEL:
        return reference_model_path()
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    if (pinned := pinned_in(folder)) is not None:
        return fetch(pinned).folder
    raise AutoinferError(
        f"The model {folder} is not on this host ({socket.gethostname()}).",
        "Copy the folder to the same place here, or begin the campaign with a model of the hub "
        "(OWNER/NAME@REVISION), which every host fetches for itself.",
    )
