"""Hypotheses of a stored campaign that wait for approval, as a ranking leaves them."""

from sqlalchemy import select

from db.models import Campaign, Hypothesis
from db.session import Database
from db.states import HypothesisState

ABOVE_S, COST_S, MOST_S = 600.0, 750.0, 2400.0


def let_wait(database: Database, *places: int) -> list[str]:
    """The campaign asks above ten minutes, and those at these places are expected to take longer."""
    with database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.budget = {**campaign.budget, "wall_s": 7200.0, "approve_above_s": ABOVE_S}
        rows = session.scalars(
            select(Hypothesis).where(Hypothesis.state == HypothesisState.QUEUED).order_by(Hypothesis.rank)
        ).all()
        for place in places:
            row = rows[place - 1]
            quote = {"cost_s": COST_S, "most_s": MOST_S, "awaits_approval": True, "approved_by": None}
            row.score = {**(row.score or {}), **quote}
        return [f"H-{rows[place - 1].id:03d}" for place in places]
