"""The process that an executor starts for a job: reads its folder, loads what the spec names, runs, ends."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from configs.cpu import usable_cores
from configs.errors import EXIT_FAILURE, AutoinferError
from experiments.artifacts.shared import SharedArtifacts
from experiments.artifacts.store import ArtifactStore
from experiments.disk import disk_in_words, failure_kind
from experiments.engines.port import Engine, Infeasible
from experiments.engines.vllm import environment as vllm
from experiments.job.context import CheckpointStage, JobContext, Material
from experiments.job.limits import ENDS_MEASURING
from experiments.job.place import PLACE_NAME, RECORDS_NAME, SPEC_NAME, Place
from experiments.job.records import Records
from experiments.job.run import run_job
from experiments.job.spec import AaJob, AnyJob, parse_job
from experiments.measurement.evidence import Json
from experiments.measurement.judging import Judge
from experiments.quality_tasks import environment as tasks
from experiments.quality_tasks.source import QualityTasks
from experiments.stages.quantize import environment as quantize
from experiments.telemetry.watching import gpu_watches


@dataclass(frozen=True)
class Workshop:
    """What a spec names, loaded: the engine, the judge, the checkpoint, the texts and the stages."""

    engine: Engine
    judge: Judge
    checkpoint: Path
    material: Material
    checkpoint_stages: tuple[CheckpointStage, ...] = ()
    tool_versions: Mapping[str, Json] = field(default_factory=dict)
    quality_tasks: QualityTasks | None = None


Assemble = Callable[[AnyJob, Path], Workshop]
"""Loads what a spec names, given the folder of the cache; raises `AutoinferError` when something is not
installed."""


def run_in_folder(folder: Path, assemble: Assemble) -> int:
    """Run the job of `folder` and return its process's exit code: 0 when its records came to their end."""
    spec = parse_job(json.loads((folder / SPEC_NAME).read_bytes()))
    place = Place.model_validate_json((folder / PLACE_NAME).read_bytes())
    for variable, where in (
        (quantize.PYTHON_VARIABLE, place.quantize_python),
        (vllm.PYTHON_VARIABLE, place.vllm_python),
        (tasks.PYTHON_VARIABLE, place.lm_eval_python),
        (tasks.DATA_VARIABLE, place.tasks_data),
        (tasks.CODE_VARIABLE, "true" if place.run_generated_code else None),
    ):
        if where is not None:
            os.environ[variable] = str(where)
    shared = None if place.shared_artifacts is None else SharedArtifacts(place.shared_artifacts)
    with (
        disk_in_words(folder, "runs"),
        Records(folder / RECORDS_NAME, echo=True) as records,
        ArtifactStore(place.artifacts_dir, shared) as artifacts,
    ):

        def abandon(reason: Infeasible) -> None:
            end_given_up(records, reason)
            os._exit(0)

        try:
            with disk_in_words(folder, "runs"):
                artifacts.sweep()
                place.cache_dir.mkdir(parents=True, exist_ok=True)
                _check_beside(spec, place)
                workshop = assemble(spec, place.cache_dir)
                context = JobContext(
                    folder=folder,
                    checkpoint=workshop.checkpoint,
                    artifacts=artifacts,
                    cache_dir=place.cache_dir,
                    cores=usable_cores(),
                    material=workshop.material,
                    checkpoint_stages=workshop.checkpoint_stages,
                    tool_versions=workshop.tool_versions,
                    quality_tasks=workshop.quality_tasks,
                    limits_s=place.limits_s,
                    load_limit_s=place.load_limit_s,
                    gpu_watch=gpu_watches(spec.device),
                )
                run_job(spec, context, workshop.engine, workshop.judge, records, abandon)
        except AutoinferError as error:
            if records.fold.error is None:
                records.error(str(error), failure_kind(error))
            return EXIT_FAILURE
    return 0


def end_given_up(records: Records, reason: Infeasible) -> None:
    """Write down the end of a job that is given up: its failure, unless the reason only ends its measuring,
    which was told then."""
    if reason.kind not in ENDS_MEASURING:
        records.failure(reason.kind, reason.cause)
    records.end(0.0)


def _check_beside(spec: AnyJob, place: Place) -> None:
    """Raise `AutoinferError` for a command that a spec asks for and whoever started the worker did not."""
    if isinstance(spec, AaJob) and spec.beside and spec.beside != place.beside:
        asked = shlex.join(spec.beside)
        raise AutoinferError(
            f"The pair asks for {asked!r} beside it, and this worker was not started with that.",
            "A worker runs no command that only a database has. If it is yours, start the worker with: "
            f"autoinfer worker --beside {shlex.quote(asked)}",
        )
