"""The shape of the model that a table is of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from configs.models import ModelProfile


def shape_of(model: str) -> ModelProfile:
    """The shape of a packaged name, a profile's file, a folder or a model of the hub."""
    from configs.catalog import Kind, packaged_names
    from configs.models import load_model_profile

    if model in packaged_names(Kind.MODELS) or model.endswith((".yaml", ".yml")):
        return load_model_profile(model)
    if Path(model).expanduser().is_dir():
        from experiments.engines.reference.shape import read_profile

        return read_profile(Path(model).expanduser())
    from agent.plan.model import find_model

    return find_model(model).profile
