"""The stage of a job that quantizes where a configuration asks for `quantization.method`; without torch."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from configs.cpu import usable_cores
from experiments.artifacts.key import ArtifactKey
from experiments.engines.one_answer import ask
from experiments.engines.one_device import CPU, one_device
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import (
    CONFIG_FILE,
    CheckpointFiles,
    inspect_checkpoint,
)
from experiments.engines.reference.packed_layout import packed_modules
from experiments.engines.reference.stored_weights import (
    bits_per_weight,
    bytes_by_part,
    step_bytes_by_part,
    step_weight_bytes,
)
from experiments.measurement.evidence import Json, Stage
from experiments.space.configuration import Configuration
from experiments.stages.copied_files import copy_beside
from experiments.stages.quantize.awq_pairs import rescaled
from experiments.stages.quantize.carried import check_carried
from experiments.stages.quantize.environment import needed_python, quantize_python, tool_versions
from experiments.stages.quantize.plan import plan, quantization_config, ties_head
from experiments.stages.quantize.recipe import (
    SEED,
    QuantizationRecipe,
    calibration_of,
    grid_points,
    recipe_of,
)

PROCESS_MODULE = "experiments.stages.quantize.quantizing_process"

QUANTIZATION_VERSION = 4
"""Part of the artifact's key; raised when the same inputs would give other bytes."""

PLACE = 1
"""Where it stands among the stages: pruning stands before (0) or after it (2), by `pruning.order`."""

_SECONDS_DIGITS = 2

UNFINISHED = "unfinished"
"""Folder beside the output for layers of a quantization that nothing goes on with."""

KEPT_S = 7 * 86400.0
"""How long layers of a quantization that was given up are kept."""

Tell = Callable[[int, int, str], None]


def tell_nobody(done: int, planned: int, text: str) -> None:
    """In place of whoever would be told of progress."""


@dataclass(frozen=True)
class CalibrationText:
    """Token ids to calibrate on, and what they are, as a fingerprint and in words."""

    documents: Sequence[Sequence[int]]
    fingerprint: str
    described: str


def quantize(
    checkpoint: Path,
    out_dir: Path,
    recipe: QuantizationRecipe,
    text: CalibrationText | None = None,
    *,
    seed: int = SEED.default,
    device: str = CPU,
    log_path: Path | None = None,
    work_dir: Path | None = None,
    tell: Tell = tell_nobody,
) -> Mapping[str, Json]:
    """Write the quantized checkpoint into `out_dir`; return the report (`docs/quantization.md`).

    AWQ needs `text`; plain rounding needs none. `seed` is that of everything random in the process, `device`
    (`cpu`, `cuda:0` …) where it computes. Finished layers are kept below `work_dir` until all are, so that
    the same call goes on after it was killed; without it, they are kept beside the output and nothing goes
    on. `tell` is called with the layers done, of how many, and what was done.

    Raises:
        Infeasible: `illegal` for a recipe that the checkpoint does not bear, `not_installed` without
        llmcompressor or the device, `checkpoint` for a broken one, `build_failed` when tensors would be lost
        or are not finite, `out_of_memory`, `crashed`.
    """
    started_s = time.monotonic()
    files = inspect_checkpoint(checkpoint)
    planned = plan(files, recipe)
    if recipe.method == "awq" and (text is None or not text.documents or not all(text.documents)):
        raise Infeasible("illegal", "AWQ needs calibration documents with tokens in them.")
    python = needed_python(device)
    points = grid_points(recipe, device)
    needs_text = recipe.method == "awq" and text is not None
    request: dict[str, Json] = {
        "checkpoint": str(checkpoint.resolve()),
        "recipe": asdict(recipe),
        "documents": [list(document) for document in text.documents] if needs_text and text else [],
        "grid_points": points,
        "threads": usable_cores(),
        "seed": seed,
        "device": device,
    }
    work = work_folder(work_dir or out_dir / UNFINISHED, files, request, tool_versions(python))
    told = ask(
        PROCESS_MODULE,
        {**request, "out": str(out_dir), "work": str(work)},
        doing="quantizes",
        log_path=log_path,
        python=python,
        # llmcompressor takes a GPU wherever it sees one, and asks all that it sees for their memory
        environment={"TQDM_DISABLE": "1", **one_device(device)},
        tell=tell,
    )
    shutil.rmtree(work if work_dir else out_dir / UNFINISHED, ignore_errors=True)
    _write_config(files, recipe, out_dir)
    copy_beside(files.folder, out_dir)
    after = inspect_checkpoint(out_dir)
    check_carried(files, after, planned, rescaled(files, recipe))
    return {
        "recipe": asdict(recipe),
        "grid_points": points,
        "modules": len(planned),
        "bits_per_weight": bits_per_weight(after, packed_modules(after)),
        "bytes_by_part": {"before": dict(bytes_by_part(files)), "after": dict(bytes_by_part(after))},
        "step_weight_bytes": {"before": step_weight_bytes(files), "after": step_weight_bytes(after)},
        "step_bytes_by_part": {
            "before": dict(step_bytes_by_part(files)),
            "after": dict(step_bytes_by_part(after)),
        },
        "relative_weight_error": told["errors"],
        "corpus": {"fingerprint": text.fingerprint, "described": text.described} if text else None,
        "calibration_tokens": sum(map(len, text.documents)) if text else 0,
        "seconds": {
            **{name: round(value, _SECONDS_DIGITS) for name, value in told["seconds"].items()},
            "all": round(time.monotonic() - started_s, _SECONDS_DIGITS),
        },
        "peak_memory_bytes": told["peak_memory_bytes"],
        "gpu_peak_memory_bytes": told["gpu_peak_memory_bytes"],
        "device": told["device"],
        "threads": told["threads"],
        "resumed_layers": told["resumed_layers"],
        "versions": dict(tool_versions(python)),
    }


def work_folder(
    work_dir: Path,
    files: CheckpointFiles,
    request: Mapping[str, Json],
    versions: Mapping[str, str | None],
) -> Path:
    """Where the finished layers of a request are kept: another place for whatever would give other bytes.

    A checkpoint is known by its place and by the size and time of its files. Others that nobody went on with
    for `KEPT_S` are deleted.
    """
    stats = [(path.name, path.stat()) for path in files.weight_files]
    inputs = {
        **request,
        "version": QUANTIZATION_VERSION,
        "versions": dict(versions),
        "files": [f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats],
    }
    name = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]
    for other in work_dir.glob("*"):
        if other.name != name and time.time() - other.stat().st_mtime > KEPT_S:
            shutil.rmtree(other, ignore_errors=True)
    return work_dir / name


class WeightQuantization:
    """Quantizes the weights, by AWQ or plain rounding, in the environment that has llmcompressor.

    `device` (`cpu`, `cuda:0` …) is where it computes and where a model writes its own calibration text;
    `work_dir` is where finished layers outlive a build that is killed, None for nowhere.
    """

    stage = Stage.QUANTIZE

    def __init__(self, device: str = CPU, work_dir: Path | None = None) -> None:
        self._device = device
        self._work_dir = work_dir

    def asked(self, configuration: Configuration) -> bool:
        """Whether anything is to be quantized."""
        return configuration.get("quantization.method", "none") != "none"

    def place(self, configuration: Configuration) -> int:
        """Between pruning before and pruning after quantization."""
        return PLACE

    def beside(self, configuration: Configuration) -> Configuration | None:
        """It reads no other checkpoint."""
        return None

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey:
        """The key of the quantized checkpoint. Raises `Infeasible` for a recipe or a corpus that can't be.

        It holds the recipe, not the knobs, so that a knob that is not given and its default are the same.
        """
        recipe = _asked_recipe(configuration)
        python = quantize_python()
        return ArtifactKey(
            "checkpoint",
            {
                "stage": "quantize",
                "version": QUANTIZATION_VERSION,
                "model": model_fingerprint,
                "recipe": asdict(recipe),
                "corpus": _corpus_identity(configuration, model_fingerprint, self._device),
                "device": self._device.partition(":")[0],
                "seed": _seed(configuration),
            },
            tuple(parents),
            dict(tool_versions(python)) if python else {"llmcompressor": None},
        )

    def build(
        self,
        configuration: Configuration,
        checkpoint: Path,
        folder: Path,
        beside: Path | None = None,
        tell: Tell = tell_nobody,
    ) -> Mapping[str, Json]:
        """Write the quantized checkpoint into `folder`; return the report. Raises as `quantize`."""
        recipe = _asked_recipe(configuration)
        plan(inspect_checkpoint(checkpoint), recipe)  # refuses before text is made
        needed_python(self._device)
        return quantize(
            checkpoint,
            folder,
            recipe,
            _corpus(configuration, checkpoint, self._device),
            seed=_seed(configuration),
            device=self._device,
            work_dir=self._work_dir,
            tell=tell,
        )


def _asked_recipe(configuration: Configuration) -> QuantizationRecipe:
    recipe = recipe_of(configuration)
    if recipe is None:
        raise Infeasible("illegal", "The configuration does not ask for quantization.")
    return recipe


def _seed(configuration: Configuration) -> int:
    """The seed of the calibration, the first one where there is none."""
    asked = calibration_of(configuration)
    return SEED.default if asked is None else asked.seed


def _corpus_identity(
    configuration: Configuration, model_fingerprint: str, device: str
) -> dict[str, Json] | None:
    asked = calibration_of(configuration)
    if asked is None:
        return None
    from experiments.corpora.calibration import calibration_identity

    return dict(
        calibration_identity(
            asked.corpus,
            samples=asked.samples,
            sample_tokens=asked.sample_tokens,
            seed=asked.seed,
            model_fingerprint=model_fingerprint,
            device=device,
        )
    )


def _corpus(configuration: Configuration, checkpoint: Path, device: str) -> CalibrationText | None:
    asked = calibration_of(configuration)
    if asked is None:
        return None
    from experiments.corpora.calibration import calibration_corpus

    corpus = calibration_corpus(
        asked.corpus,
        checkpoint,
        samples=asked.samples,
        sample_tokens=asked.sample_tokens,
        seed=asked.seed,
        device=device,
    )
    return CalibrationText(corpus.documents, corpus.fingerprint, corpus.described)


def _write_config(files: CheckpointFiles, recipe: QuantizationRecipe, out_dir: Path) -> None:
    """config.json with the quantization in it; a quantized head is no longer tied to the embedding."""
    config = json.loads((files.folder / CONFIG_FILE).read_text(encoding="utf-8"))
    config["quantization_config"] = quantization_config(files, recipe)
    if recipe.lm_head and ties_head(files):
        config["tie_word_embeddings"] = False
        if "text_config" in config:
            config["text_config"]["tie_word_embeddings"] = False
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (out_dir / CONFIG_FILE).write_text(text, encoding="utf-8")
