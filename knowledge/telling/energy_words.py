"""The energy that cards took, in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from configs.quantities import format_energy
from configs.targets import is_rented

if TYPE_CHECKING:
    from knowledge.queries.spent.energy import EnergyView

WHOLE_FROM = 0.95
"""Share of the time from which its energy is told as that of all of it: means are kept every minute, and the
last readings come with the next ones."""

LEAST_SHARE = 0.01
"""Below it a share has no figure."""

NO_READINGS = "is not known: no reading of power was kept while experiments ran"


def energy_told(energy: EnergyView | None) -> str | None:
    """`The card took about 0.35 kWh while experiments ran`, with the share of that time in which its power
    was read where that is not nearly all; None where nothing ran on a card."""
    if energy is None or not energy.devices:
        return None
    cards = "the card" if len(energy.devices) == 1 else "the cards"
    if energy.energy_wh is None:
        return f"How much energy {cards} took {NO_READINGS}{_where_to_look(energy)}"
    share = energy.covered_s / energy.job_s
    read = ""
    if share < WHOLE_FROM:
        whose = "its" if len(energy.devices) == 1 else "their"
        read = f", counted for the {_percent(share)} of that time in which {whose} power was read"
    return f"{cards.capitalize()} took about {format_energy(energy.energy_wh)} while experiments ran{read}"


def _where_to_look(energy: EnergyView) -> str:
    """What tells why power was not read; nothing of machines that were rented, which are gone."""
    if all(is_rented(each.device.partition("/")[0]) for each in energy.devices):
        return ""
    where, whose = ("the card is", "its") if len(energy.devices) == 1 else ("the cards are", "their")
    return f"; autoinfer devices, run where {where}, tells whether {whose} driver reports power"


def _percent(share: float) -> str:
    """A share that is neither none nor all of it."""
    return f"{100 * share:.0f} %" if share >= LEAST_SHARE else "less than 1 %"
