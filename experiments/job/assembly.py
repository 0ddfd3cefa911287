"""Loads what a job's spec names: engine and judge by entry point, checkpoint, texts and stages."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from configs.errors import UsageError
from experiments.engines.port import Engine
from experiments.measurement.judging import Judge
from experiments.reference_model.load import reference_model_path

ENGINES_GROUP = "autoinfer.engines"
JUDGES_GROUP = "autoinfer.judges"

PACKAGED_MODEL = "reference"
"""The name of the packaged model in a spec."""


def load_engine(name: str) -> Engine:
    """Return the engine registered under `name`; raises `UsageError` when none is, or it can't be loaded."""
    return cast(Engine, _load(ENGINES_GROUP, "engine", name))


def load_judge(name: str) -> Judge:
    """Return the judge registered under `name`; raises `UsageError` when none is, or it can't be loaded."""
    return cast(Judge, _load(JUDGES_GROUP, "judge", name))


def checkpoint_path(model: str) -> Path:
    """Return the folder of a spec's model: the packaged one, or the folder it names."""
    return reference_model_path() if model == PACKAGED_MODEL else Path(model)


def _load(group: str, noun: str, name: str) -> object:
    found = entry_points(group=group)
    if name not in found.names:
        known = ", ".join(sorted(found.names)) or "none"
        raise UsageError(
            f"There is no {noun} {name!r}; installed are: {known}.", f"Install the {noun}'s package."
        )
    try:
        return found[name].load()()
    except ImportError as error:
        raise UsageError(
            f"The {noun} {name!r} can't be loaded: {error}.",
            "Install what it needs: pip install 'autoinfer[reference]'",
        ) from error
