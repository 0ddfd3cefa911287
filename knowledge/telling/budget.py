"""What a campaign may take and took, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from configs.quantities import format_duration
from knowledge.stored import number


def budget_words(budget: Mapping[str, object]) -> str | None:
    """Return a stored budget as the time it is and what is spent of it; None of one without a time."""
    wall_s, spent_s = number(budget.get("wall_s")), number(budget.get("spent_s"))
    if wall_s is None:
        return None
    ran = f"; {format_duration(spent_s)} spent, by the clock while it ran" if spent_s else ""
    return f"{format_duration(wall_s)}{ran}"
