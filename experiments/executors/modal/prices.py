"""What Modal asks for a second of GPU, processor and memory: its own answer, or packaged rates with a date.

The names of the rates in Modal's answer, and whether they are per second or hour, are written down nowhere
that was at hand: a rate is taken only where exactly one name fits, and its unit is read off by comparing it
with the packaged one, of which it must be within a factor of five. Anything else leaves the packaged rate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from configs.prices import load_prices

HOUR_S = 3600.0

LARGEST_CHANGE = 5.0
"""By which factor a rate may differ from the packaged one and still be taken for the same thing."""


@dataclass(frozen=True)
class Rates:
    """US dollars a second by GPU type, `cpu` and `memory`; `basis` says in words where they are from."""

    usd_per_s: Mapping[str, float]
    basis: str

    def of(self, gpu: str | None, cores: float, memory_gib: float) -> float:
        """US dollars a second of a container."""
        rest = cores * self.usd_per_s["cpu"] + memory_gib * self.usd_per_s["memory"]
        return rest if gpu is None else rest + self.usd_per_s[gpu.removesuffix("!")]


@cache
def packaged() -> Rates:
    """What is packaged (`configs/packaged/prices/modal.yaml`), whose `source` says what it rests on."""
    prices = load_prices("modal")
    rest = {"cpu": prices.cpu_core_usd_per_s, "memory": prices.memory_gib_usd_per_s}
    return Rates(
        {**prices.gpu_usd_per_s, **rest}, f"packaged prices of {prices.recorded}, not asked of Modal"
    )


def rates_from(told: Mapping[str, float]) -> Rates:
    """The rates of Modal's answer, with the packaged one where the answer has none that is understood."""
    found, missing, listed = {}, [], packaged()
    for ours, usd_per_s in listed.usd_per_s.items():
        fits = [price for name, price in told.items() if _words(name) >= _words(ours)]
        price = _per_second(fits[0], usd_per_s) if len(fits) == 1 else None
        if price is None:
            missing.append(ours)
        found[ours] = usd_per_s if price is None else price
    if len(missing) == len(found):
        return listed
    told_of = f"; {listed.basis} for {', '.join(missing)}" if missing else ""
    return Rates(found, f"Modal's rates for this workspace{told_of}")


def _words(name: str) -> set[str]:
    """`gpu_a100_80gb` and `A100-80GB` both hold `a100` and `80gb`."""
    return set(re.findall(r"[a-z0-9]+", name.lower()))


def _per_second(told: float, listed: float) -> float | None:
    for price in (told, told / HOUR_S):
        if listed / LARGEST_CHANGE <= price <= listed * LARGEST_CHANGE:
            return price
    return None


def current_rates() -> Rates:
    """Ask Modal; the packaged rates where its library has no such question or it does not answer."""
    from experiments.executors.modal.client import in_our_words, library

    workspace = getattr(library(), "Workspace", None)
    if workspace is None:
        return packaged()
    try:
        with in_our_words():
            told = workspace.from_context().billing.rates()
            return rates_from({name: float(price) for name, price in told.items()})
    except Exception:  # a price is an estimate all the same; the basis says where it is from
        return packaged()
