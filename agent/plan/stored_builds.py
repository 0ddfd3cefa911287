"""How long stages took here that built checkpoints of a model; reads only."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.surrogate.cost_priors import GREEDY
from db.models import Artifact

CHECKPOINT_KIND = "checkpoint"
"""Kind of the artifacts that pruning and quantization build."""


def measured_builds(session: Session, model_fingerprint: str) -> dict[str, float]:
    """Median seconds that builds of this model's checkpoints took here, by the method of quantization or the
    criterion of pruning; for the greedy criterion, a layer that went. What was not built here tells nothing.
    """
    rows = session.execute(
        select(Artifact.inputs, Artifact.build_s).where(
            Artifact.kind == CHECKPOINT_KIND,
            Artifact.inputs["model"].as_string() == model_fingerprint,
            Artifact.build_s > 0,
        )
    )
    found: dict[str, list[float]] = {}
    for inputs, build_s in rows:
        method, times = _method(inputs)
        if method is not None:
            found.setdefault(method, []).append(build_s / times)
    return {method: median(each) for method, each in found.items()}


def _method(inputs: Mapping[str, Any]) -> tuple[str | None, int]:
    """The method or criterion of a stage's inputs, and how often it was applied."""
    if inputs.get("stage") == "quantize":
        return inputs.get("recipe", {}).get("method"), 1
    knobs = inputs.get("knobs", {})
    criterion, layers = knobs.get("pruning.criterion"), knobs.get("pruning.layers_removed")
    greedy = criterion == GREEDY and isinstance(layers, int) and layers > 0
    return criterion, layers if greedy else 1
