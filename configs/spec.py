"""What every part of a campaign's file is: frozen, and of known fields alone."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A part of a campaign's file."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
