"""A shape's folder: a checkpoint's config.json and no weights, with a file that says so.

An engine that finds `SHAPE_FILE` makes up weights (vLLM's `load_format=dummy`): times can be measured, and
nothing else. Quality is refused, and acceptance of drafts is set, not measured.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from configs.models import BFLOAT16_BYTES, ModelProfile
from experiments.drafters.dflash.config import to_config
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CONFIG_FILE, CheckpointFiles, json_object
from experiments.measurement.evidence import Json
from experiments.shapes.config import shape_config
from experiments.shapes.drafter import drafter_for
from experiments.shapes.marker import DRAFTER_FOLDER, is_shape
from experiments.shapes.marker import SHAPE_FILE as SHAPE_FILE
from experiments.shapes.stored_as import SIXTEEN_BITS, StoredAs, described, quantization_of, weight_bytes
from experiments.space.configuration import Configuration

LATENCY_ONLY = "latency only: the weights are made up (--weights dummy), so times alone mean anything"
"""What is said of everything that is measured on a shape."""

NO_QUALITY = (
    "The weights are made up (--weights dummy), so there is no quality to measure; "
    "give a checkpoint with weights to measure it."
)
"""Why quality is refused."""


@dataclass(frozen=True)
class Shape:
    """What `SHAPE_FILE` says: the model's name, how its weights would be stored, their bytes, layers of its
    MTP head."""

    model: str
    stored: str
    weight_bytes: int
    mtp_layers: int

    def resolved(self) -> dict[str, Json]:
        """The weights in a resolved configuration."""
        return {
            "stored": f"{self.stored} (dummy)",
            "served": "as stored (dummy)",  # how that is, stands there: a change of it is told once
            "weight_bytes": self.weight_bytes,
            "latency_representative": True,
            "latency_only": LATENCY_ONLY,
        }


def write_shape(
    profile: ModelProfile,
    configuration: Configuration,
    folder: Path,
    stored_as: StoredAs = StoredAs.COMPRESSED_TENSORS,
) -> Path:
    """Write the shape of a profile whose weights are stored as the configuration's `quantization.*` ask.

    Its DFlash drafter is described in a folder in it, as a shape of its own. Files appear whole or not at
    all, so several processes may write the same shape. Returns `folder`.

    Raises:
        Infeasible: kind `illegal`, as `quantization_of`.
    """
    quantization, recipe = quantization_of(profile, configuration, stored_as)
    shape = Shape(
        profile.name,
        described(recipe, stored_as),
        weight_bytes(profile, recipe, with_mtp=configuration.get("drafting.method") == "mtp"),
        profile.mtp_layers,
    )
    _write_drafter(profile, folder / DRAFTER_FOLDER)
    _write(folder / CONFIG_FILE, shape_config(profile, quantization))
    _write(folder / SHAPE_FILE, asdict(shape))
    return folder


def shape_in(folder: Path) -> Shape | None:
    """The shape of a folder; None for a checkpoint with weights and for what is no folder.

    Raises:
        Infeasible: kind `checkpoint`, for a broken `SHAPE_FILE`.
    """
    if not is_shape(folder):
        return None
    told = json_object(folder / SHAPE_FILE, "shape")
    try:
        return Shape(
            str(told["model"]), str(told["stored"]), int(told["weight_bytes"]), int(told["mtp_layers"])
        )
    except (KeyError, TypeError, ValueError) as cause:
        raise Infeasible("checkpoint", f"{folder / SHAPE_FILE} does not describe a shape: {cause}.") from None


def shape_files(folder: Path) -> CheckpointFiles:
    """A shape as a checkpoint without tensors. Raises `Infeasible`, kind `checkpoint`, for a broken one."""
    config = json_object(folder / CONFIG_FILE, "shape")
    text = config["text_config"]
    return CheckpointFiles(folder, text, tuple(text["layer_types"]), {}, config.get("quantization_config"))


def _write_drafter(profile: ModelProfile, folder: Path) -> None:
    drafter = drafter_for(profile)
    shape = Shape(f"a drafter for {profile.name}", SIXTEEN_BITS, BFLOAT16_BYTES * drafter.parameters, 0)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / CONFIG_FILE, to_config(drafter))
    _write(folder / SHAPE_FILE, asdict(shape))


def _write(path: Path, data: object) -> None:
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
    Path(scratch).replace(path)
