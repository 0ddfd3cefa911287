"""Depth pruning: takes the layers of least influence out of a checkpoint. Imports no torch.

Scores come from a process of their own (`block_influence_process.py`); choosing is a pure function; the files
are rewritten byte by byte (`layer_removal.py`).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import experiments
from configs.cpu import usable_cores
from experiments.artifacts.key import ArtifactKey
from experiments.corpora.standard_library import training_documents
from experiments.engines.parent import search_path
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.executors import guard
from experiments.measurement.environment import package_version
from experiments.measurement.evidence import Stage
from experiments.measurement.prompts import end_of_text_id, load_tokenizer
from experiments.space.configuration import Configuration
from experiments.stages.layer_removal import remove_layers

PROCESS_MODULE = "experiments.stages.block_influence_process"

RESTRICTIONS: Mapping[str, tuple[str, ...]] = {
    "any": ("linear_attention", "full_attention"),
    "gdn": ("linear_attention",),
    "attention": ("full_attention",),
}
"""Values of `pruning.restrict` and the kinds of layers that may go under each."""

CRITERIA = ("block_influence",)
"""Values of `pruning.criterion`."""

CALIBRATION_DOCUMENTS = 16
CALIBRATION_TOKENS = 512
"""Calibration text: so many training documents of so many tokens, 8,192 in all. Held-out text is left to the
evaluation."""

REPORT_NAME = "pruning.json"
"""File in the pruned checkpoint that says what was taken out and why."""

SCORE_DIGITS = 6
"""Digits after the point of a score in the report: the noise of single precision is left out."""

PRUNING_VERSION = 1
"""Part of the artifact's key; raised when the same inputs would give other bytes."""

_WORDS = {"linear_attention": "GatedDeltaNet", "full_attention": "attention"}


@dataclass(frozen=True)
class PruneReport:
    """What was done: layers are numbered from 0 in the checkpoint before; `scores` has one for each of
    them."""

    criterion: str
    restrict: str
    removed: tuple[int, ...]
    kept: tuple[int, ...]
    layer_types: tuple[str, ...]
    scores: tuple[float, ...]
    calibration_tokens: int
    weight_bytes: int


def prune(
    checkpoint_dir: Path,
    out_dir: Path,
    *,
    layers_removed: int,
    criterion: str,
    restrict: str,
    documents: Sequence[Sequence[int]],
    log_path: Path | None = None,
) -> PruneReport:
    """Write the checkpoint less its `layers_removed` least influential layers into `out_dir`.

    `documents` are token ids to calibrate on. `out_dir` also gets the report, as `pruning.json`.

    Raises:
        Infeasible: kind `illegal` when so many layers can't go, `checkpoint` for a broken one, `crashed`.
    """
    if criterion not in CRITERIA or restrict not in RESTRICTIONS:
        raise Infeasible("illegal", f"Pruning knows no criterion {criterion!r} with restrict {restrict!r}.")
    if not documents or not all(documents):
        raise Infeasible("illegal", "Pruning needs calibration documents with tokens in them.")
    files = inspect_checkpoint(checkpoint_dir)
    removable(files.layer_types, layers_removed, restrict)
    scores = _block_influence(checkpoint_dir, documents, log_path)
    removed = choose_layers(scores, files.layer_types, layers_removed, restrict)
    kept = tuple(index for index in range(len(files.layer_types)) if index not in removed)
    report = PruneReport(
        criterion=criterion,
        restrict=restrict,
        removed=removed,
        kept=kept,
        layer_types=tuple(files.layer_types[index] for index in kept),
        scores=tuple(round(score, SCORE_DIGITS) for score in scores),
        calibration_tokens=sum(map(len, documents)),
        weight_bytes=remove_layers(files, removed, out_dir),
    )
    (out_dir / REPORT_NAME).write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
    return report


def removable(layer_types: Sequence[str], count: int, restrict: str) -> None:
    """Raise `Infeasible` when `count` layers of the allowed kinds can't go with one of each kind left."""
    if count < 1:
        raise Infeasible("illegal", f"pruning.layers_removed is {count}; at least 1 layer must go.")
    present = {kind: layer_types.count(kind) for kind in RESTRICTIONS[restrict]}
    most = sum(max(0, number - 1) for number in present.values())
    if count > most:
        shown = ", ".join(f"{number} {_WORDS[kind]}" for kind, number in present.items())
        raise Infeasible(
            "illegal",
            f"{count} layers can't be taken out: of the layers that may go ({shown}) "
            f"one of each kind must stay, which leaves {most}.",
        )


def choose_layers(
    scores: Sequence[float], layer_types: Sequence[str], count: int, restrict: str
) -> tuple[int, ...]:
    """The numbers of the `count` layers to remove, ascending: least score first, ties by number.

    Only kinds that `restrict` allows, and never the last layer of its kind. Raises `Infeasible` as
    `removable`.
    """
    removable(layer_types, count, restrict)
    left = {kind: layer_types.count(kind) for kind in set(layer_types)}
    chosen: list[int] = []
    for index in sorted(range(len(scores)), key=lambda index: (scores[index], index)):
        kind = layer_types[index]
        if len(chosen) < count and kind in RESTRICTIONS[restrict] and left[kind] > 1:
            left[kind] -= 1
            chosen.append(index)
    return tuple(sorted(chosen))


def _block_influence(
    checkpoint_dir: Path, documents: Sequence[Sequence[int]], log_path: Path | None
) -> list[float]:
    """The scores, by a process that ends with this one."""
    request = {
        "checkpoint": str(checkpoint_dir),
        "documents": [list(document) for document in documents],
        "threads": usable_cores(),
    }
    package_root = str(Path(experiments.__file__).parent.parent)
    with log_path.open("a+b") if log_path else tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", PROCESS_MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(os.environ)
            | {
                "PYTHONPATH": search_path(package_root),
                "HF_HUB_OFFLINE": "1",
                "OMP_WAIT_POLICY": "PASSIVE",  # nothing is timed; spinning beside others takes minutes
            },
            pass_fds=guard.descriptors(),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()  # and left open: its end would say that nobody waits any more
            reply = process.stdout.read()
            process.wait()
        finally:
            process.kill()
            process.wait()
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
        if not reply:
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
            last_line = lines[-1].strip() if lines else "it said nothing."
            raise Infeasible("crashed", f"The process that scores layers ended: {last_line}")
    answer = json.loads(reply)
    if "infeasible" in answer:
        raise Infeasible(answer["infeasible"]["kind"], answer["infeasible"]["cause"])
    return [float(score) for score in answer["ok"]]


def calibration_documents(checkpoint: Path) -> list[tuple[int, ...]]:
    """Training text of the standard library for a checkpoint's tokenizer: token ids, one list a document."""
    tokenizer = load_tokenizer(checkpoint)
    end = end_of_text_id(tokenizer)
    found: list[tuple[int, ...]] = []
    for document in training_documents():
        ids = tokenizer.encode(document.text).ids[:CALIBRATION_TOKENS]
        if len(ids) == CALIBRATION_TOKENS:
            found.append(tuple(ids) if end is None else (end, *ids[:-1]))
        if len(found) == CALIBRATION_DOCUMENTS:
            break
    return found


class DepthPruning:
    """The stage of a job that prunes where a configuration asks for `pruning.method=depth`."""

    stage = Stage.PRUNE

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey | None:
        """The key of the pruned checkpoint; None when nothing is to be pruned."""
        if configuration.get("pruning.method", "none") == "none":
            return None
        return ArtifactKey(
            "checkpoint",
            {
                "stage": "prune",
                "version": PRUNING_VERSION,
                "model": model_fingerprint,
                "knobs": {
                    knob: value for knob, value in configuration.items() if knob.startswith("pruning.")
                },
                "calibration_documents": CALIBRATION_DOCUMENTS,
                "calibration_tokens": CALIBRATION_TOKENS,
            },
            tuple(parents),
            {
                "python": platform.python_version(),  # its library is the calibration text
                "torch": package_version("torch"),
                "transformers": package_version("transformers"),
            },
        )

    def build(self, configuration: Configuration, checkpoint: Path, folder: Path) -> None:
        """Write the pruned checkpoint into `folder`; raises `Infeasible` as `prune`."""
        if configuration["pruning.method"] != "depth":
            raise Infeasible(
                "unsupported", f"There is no pruning.method {configuration['pruning.method']!r}."
            )
        layers_removed = configuration["pruning.layers_removed"]
        if isinstance(layers_removed, bool) or not isinstance(layers_removed, int):
            raise Infeasible(
                "illegal", f"pruning.layers_removed is {layers_removed!r}; it must be a whole number."
            )
        prune(
            checkpoint,
            folder,
            layers_removed=layers_removed,
            criterion=str(configuration["pruning.criterion"]),
            restrict=str(configuration["pruning.restrict"]),
            documents=calibration_documents(checkpoint),
        )
