"""When nothing that is left is worth its price. Pure.

The rule is that of Weitzman's problem of Pandora ("Optimal search for the best alternative", Econometrica
47(3), 1979): a box is opened only while the improvement that it is expected to bring over the best so far,
E[(reward − best)⁺], exceeds what opening it costs; the search stops when none does. For Bayesian optimization
with costs it is that of arXiv 2507.12453. The improvement here is `Place.worth`; the price of a test is
`WORTH`, the same share of TPOT for each, since what a night's seconds are worth is said by the budget and not
by a rate. Weitzman's order would be by reservation prices; the queue's is by worth per second, which can be
arbitrarily bad where something next to worthless is very cheap, and this price bars just that.
"""

from __future__ import annotations

from agent.ranking.values import Place, Ranking
from db.labels import Noun, format_label

WORTH = 0.005
"""Expected share of TPOT saved below which an experiment is not worth its time: 0.5 %, a sixth of the default
min_effect of 3 %, so that six such experiments together would be expected to save what one must save to
count."""


def is_worth_it(place: Place, worth: float = WORTH) -> bool:
    """Whether it is worth testing: what is wanted by the user or the campaign's file always is."""
    return place.is_wanted or place.worth >= worth


def nothing_worth_it(ranking: Ranking, worth: float = WORTH) -> str | None:
    """Why the campaign may stop, as a sentence; None while something is worth testing.

    The measure is gain × P(quality) × P(runs), the expected share of the incumbent's latency saved. What is
    wanted by the user or the campaign's file is always worth it; what is banned, or held back by a cap, is
    not counted.
    """
    if not ranking.places:
        return "Nothing is left in the queue."
    running = [place for place in ranking.places if not place.paused]
    if not running:
        capped = sum(place.capped_by is not None for place in ranking.places)
        how = "banned" if not capped else "held back by a cap" if capped == len(ranking.places) else None
        how = how or f"banned or held back by a cap ({capped} of them)"
        return f"Everything left in the queue is {how} ({len(ranking.places)} in all)."
    if any(is_worth_it(place, worth) for place in running):
        return None
    best = max(running, key=lambda place: (place.worth, -place.hypothesis_id))
    label = format_label(Noun.HYPOTHESIS, best.hypothesis_id)
    return (
        f"Nothing left is worth its price: the best of {len(running)}, {label}, is expected to save "
        f"{100 * best.worth:.2f} % of the time, and less than {100 * worth:g} % is not worth an experiment."
    )
