"""What a GPU did while the cells of a row were served, as columns. Pure.

Counted are the attempts whose times stand in the row; what the throttled ones did that they replaced is
in the journal alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from agent.tables.journal import Line

POWER, ENERGY, HEAT, CLOCK = "gpu_power_w", "gpu_energy_j_per_token", "gpu_temperature_c", "gpu_sm_mhz"
THROTTLED, REPEATED = "gpu_throttled", "gpu_repeated"

GPU_COLUMNS = (POWER, ENERGY, HEAT, CLOCK, THROTTLED, REPEATED)
"""Mean power, energy of the whole GPU over output tokens, the highest temperature, the median clock of its
processors; `no` or why it throttled all the same; how many attempts were replaced."""

NOT_THROTTLED = "no"

DIGITS = 4
"""Digits after the point."""


def gpu_columns(cells: Iterable[Line], *, of_acceptance: bool) -> dict[str, object]:
    """The columns of a row's cells; of several the means, and the highest temperature. Empty for cells that
    were measured before a GPU was watched, and for what its driver does not tell.

    With drafts whose acceptance was set (`of_acceptance`) energy is left out, as whatever depends on how many
    are accepted.
    """
    told: list[Mapping[str, Any]] = [cell["gpu"] for cell in cells if cell.get("gpu") is not None]
    clocks = [each["sm_mhz"]["median"] for each in told if each["sm_mhz"] is not None]
    energy = [] if of_acceptance else _known(told, "energy_j_per_output_token")
    heat = _known(told, "temperature_c")
    causes = sorted({each["throttled"] for each in told if each["throttled"] is not None})
    return {
        POWER: _mean(_known(told, "power_w")),
        ENERGY: _mean(energy),
        HEAT: max(heat, default=None),
        CLOCK: _mean(clocks),
        THROTTLED: ("; ".join(causes) or NOT_THROTTLED) if told else None,
        REPEATED: sum(len(each["repeated"]) for each in told) if told else None,
    }


def _known(told: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    return [each[name] for each in told if each[name] is not None]


def _mean(values: list[float]) -> float | None:
    return round(fmean(values), DIGITS) if values else None
