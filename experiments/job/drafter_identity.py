"""What an arm's external drafter is, beside its name."""

from __future__ import annotations

from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder, drafter_source
from experiments.measurement.drafting_due import METHOD
from experiments.measurement.evidence import Json
from experiments.space.configuration import Configuration
from experiments.space.legality import DRAFTER, EXTERNAL_DRAFTERS, PACKAGED


def drafter_identity(configuration: Configuration) -> dict[str, Json]:
    """What the key of whatever an arm tells or scores says of its external drafter beside the drafter's name,
    for a drafter may be trained again in place: its content, None for one that is not on this machine; empty
    where none drafts."""
    method = str(configuration.get(METHOD))
    if method not in EXTERNAL_DRAFTERS:
        return {}
    order = DraftingOrder(method, drafter=str(configuration.get(DRAFTER, PACKAGED)))
    try:
        return {"drafter": drafter_source(order).fingerprint}
    except Infeasible:  # the engine says what it lacks when it is launched
        return {"drafter": None}
