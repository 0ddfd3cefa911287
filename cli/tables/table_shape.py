"""The shape of the model that a table is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from configs.models import ModelProfile


def shape_of(model: str, *, weights: bool) -> ModelProfile:
    """The shape of a packaged name, a profile's file, a folder or a model of the hub; with `weights` with the
    bytes that a checkpoint stores which is quantized."""
    from agent.plan.model import find_model
    from configs.catalog import Kind, packaged_names
    from configs.models import load_model_profile

    if model in packaged_names(Kind.MODELS):
        return load_model_profile(model)
    found = find_model(model).profile
    return found if weights else found.as_stored(None)
