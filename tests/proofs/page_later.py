"""The part of the page on later tests of a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tests.proofs.counting import percent, plain
from tests.proofs.markdown import paragraph, table
from tests.proofs.targets import LaterPower, Results


def later_part(results: Results) -> str:
    """What the k-th test finds of a true gain, at the level that the online control gives it."""
    gains = sorted({each.power.gain for each in results.later})
    columns = (
        "campaign of",
        "test",
        "supported before",
        "support at",
        "the whole plan's interval reaches",
        *(f"a gain of {plain(gain)} found" for gain in gains),
    )
    rows = [_row(list(cells)) for _, cells in groupby(results.later, key=_place)]
    beyond = " and ".join(
        f"{percent(each.power.beyond)} (of {plain(each.power.gain)})" for each in results.later[: len(gains)]
    )
    text = (
        "The online control makes a campaign's later tests stricter, the less was supported before them: "
        "each is shown with nothing supported before, which is as strict as it gets, and with every fifth "
        "test supported. Times vary as above; the intervals are those of launches with as many blocks as the "
        "plan says; found means supported within the plan. A gain can be found where it lies "
        "further beyond min_effect than the interval of "
        f"the whole plan reaches at the test's level: the gains lie {beyond} beyond it (log scale). A "
        "campaign of minutes rarely comes to a twentieth test; it is told all the same."
    )
    return f"## Later tests of a campaign\n\n{paragraph(text)}\n\n{table(columns, rows)}"


def _place(each: LaterPower) -> tuple[str, int, int]:
    return each.campaign, each.test, each.supported


def _row(cells: Sequence[LaterPower]) -> tuple[str, ...]:
    first = cells[0]
    return (
        first.campaign,
        str(first.test),
        str(first.supported),
        percent(first.power.plan.support_level),
        f"±{percent(first.power.support_reach)}",
        *(str(each.power.supported) for each in sorted(cells, key=lambda each: each.power.gain)),
    )
