"""What a place in the queue says of another target than the campaign's own: price, wait, builds. Pure."""

from __future__ import annotations

from configs.quantities import format_duration, format_usd
from db.models import Hypothesis
from db.models.base import JsonObject
from knowledge.queries.view import View
from knowledge.stored import number


class ElsewhereView(View):
    """Where a hypothesis confirms what was found, by its last ranking: the price in dollars, None where it
    costs none; seconds of waiting, of building what is not there yet, and what all of it counts as in the
    order. All but the target are None before the first ranking."""

    target: str
    usd: float | None
    wait_s: float | None
    build_s: float | None
    weighed_s: float | None

    @property
    def words(self) -> str:
        """Its target, price, wait and what must be built there, as a line."""
        price = None if self.usd is None else f"{format_usd(self.usd)} expected"
        if self.weighed_s is not None and self.usd is None:
            price = "no dollars"
        wait = None if not self.wait_s else f"{format_duration(round(self.wait_s))} of waiting"
        build = None
        if self.build_s is not None:
            build = f"{format_duration(round(self.build_s))} to build there" if round(self.build_s) else None
            build = build or "nothing to build there"
        return ", ".join(each for each in (f"on {self.target}", price, wait, build) if each)


def elsewhere_of(hypothesis: Hypothesis) -> ElsewhereView | None:
    """What its place says of its target; None of what is tested on the campaign's own."""
    if not hypothesis.target:
        return None
    score: JsonObject = hypothesis.score or {}
    return ElsewhereView(
        target=hypothesis.target,
        usd=number(score.get("usd")),
        wait_s=number(score.get("wait_s")),
        build_s=number(score.get("build_s")),
        weighed_s=number(score.get("weighed_s")),
    )
