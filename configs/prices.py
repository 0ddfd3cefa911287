"""Prices of rented machines as their provider lists them, by the second, and the bound they give a job.

The packaged ones carry their date. A provider may change its prices at any time: an executor that can ask for
the present rates does, and falls back on these.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from configs.catalog import Kind, read_document
from configs.errors import UsageError
from configs.validation import nearest, validated

Rate = Annotated[float, Field(gt=0, lt=1)]
"""US dollars a second; a dollar a second is a hundred times any GPU."""

Included = Annotated[float, Field(ge=0, lt=1)]
"""The same; 0 where the price of the GPU has it in it."""


class PriceList(BaseModel):
    """What one provider asks, US dollars a second."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str = Field(min_length=1)
    currency: Literal["USD"]
    gpu_usd_per_s: dict[str, Rate]
    """By the provider's own name of a GPU."""
    cpu_core_usd_per_s: Included
    memory_gib_usd_per_s: Included
    source: str = Field(min_length=1)
    """What the figures are, and what they leave out."""
    recorded: datetime.date
    """When the figures were entered here."""

    def gpu_rate(self, gpu: str) -> float:
        """Dollars a second of a GPU as a target names it: `H100!`, which asks for exactly that, is an `H100`.

        Raises `UsageError` for a GPU that is not listed: what has no price is not rented.
        """
        wanted = gpu.removesuffix("!")
        if wanted not in self.gpu_usd_per_s:
            raise UsageError(
                f"{self.title} has no listed price for a GPU {wanted!r}.",
                nearest(wanted, self.gpu_usd_per_s, otherwise="Listed are"),
            )
        return self.gpu_usd_per_s[wanted]

    @property
    def basis(self) -> str:
        """Where an amount that rests on the list comes from."""
        return f"{self.title}'s prices of {self.recorded.isoformat()}"


@dataclass(frozen=True)
class Machine:
    """What a job rents: a GPU by the provider's name, so many physical cores, so much memory."""

    gpu: str
    cpu_cores: float
    memory_gib: float

    def usd_per_s(self, prices: PriceList) -> float:
        """What it costs a second."""
        return (
            prices.gpu_rate(self.gpu)
            + self.cpu_cores * prices.cpu_core_usd_per_s
            + self.memory_gib * prices.memory_gib_usd_per_s
        )


def upper_bound_s(timeout_s: float, startup_s: float, retries: int) -> float:
    """The most seconds that can be billed: every attempt starts, and runs into its timeout."""
    return (timeout_s + startup_s) * (retries + 1)


def load_prices(name_or_path: str | Path) -> PriceList:
    """The price list of this packaged name or YAML file; raises `UsageError` that names the fault."""
    document = read_document(Kind.PRICES, name_or_path)
    return validated(PriceList, document.data, document.where)
