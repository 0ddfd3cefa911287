"""Rows of answers that tell of beliefs and of the queue's order. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.asking.fallen import Reordered
from agent.asking.untested import Neighbour
from agent.asking.what_if import Consequence
from agent.campaign.decision.desk import Desk
from agent.campaign.known.incumbent import Incumbent
from agent.ranking.values import Shift
from configs.quantities import format_duration
from db.labels import Noun, format_label
from experiments.space.configuration import Change, KnobValue
from experiments.space.knob import written
from knowledge.asking.answer import Row, Section, section, some
from knowledge.asking.walking import changes_words
from knowledge.figures import listed
from knowledge.queries.view import prediction_view

MOST_LEAVING = 20
"""Hypotheses that leave the queue and are named; how many more there are is told."""


def change_text(changes: tuple[Change, ...]) -> str:
    """Return changes as they are read: `serving.threads 2 → 1`."""
    ends = {each.knob: (_value(each.before), _value(each.after)) for each in changes}
    return listed(changes_words(ends))


def _value(value: KnobValue | None) -> str:
    return "" if value is None else written(value)


def believed_row(found: Neighbour, metric: str) -> Row:
    """Return a neighbour that can be had, with what is believed of it against the best, on the campaign's
    metric."""
    belief = found.belief
    assert belief is not None
    told = [
        f"the chance that it runs is {100 * belief.p_feasible:.0f} %, that it keeps the quality "
        f"{100 * belief.p_quality:.0f} %",
        f"a test takes about {format_duration(belief.cost_s)}",
    ]
    if found.banned:
        told.append(f"you banned {', '.join(found.banned)}")
    return Row(
        id=found.waits,
        relation="waits in the queue as" if found.waits else None,
        text=change_text(found.changes),
        because="; ".join(told),
        effect=prediction_view(belief.prediction.model_dump(), metric),
        expected=True,
    )


def withheld_row(found: Neighbour) -> Row:
    """Return a neighbour that can't be had, with the reason."""
    return Row(text=change_text(found.changes), because=found.why_not)


def reordered_section(title: str, desk: Desk, found: Reordered) -> Section:
    """Return where a queue would go without some verdicts."""
    first = [_best_then(found.best)] if found.is_another else []
    about = "places before and after, ranked by the agent's own rule as if these verdicts were not there"
    if not found.relearnt:
        about = "places before and after; with so many verdicts, what is expected is taken as it is"
    return _order(title, about, desk, found.shifts, found.moved, found.leave, first)


def best_section(title: str, best: Incumbent, is_another: bool, why_not: str) -> Section:
    """Return who would be best without some verdicts, of a queue that can't be ranked, and why it can't."""
    then = _best_then(best) if is_another else Row(text="Its best would stay what it is.")
    return section(title, [then, Row(state="unknown", text=why_not)], "", "by the verdicts that are left")


def _best_then(best: Incumbent) -> Row:
    label = None if best.hypothesis_id is None else format_label(Noun.HYPOTHESIS, best.hypothesis_id)
    return Row(id=label, relation="best then", text=f"{label or 'The baseline'} would be the best then.")


def consequence_section(title: str, desk: Desk, found: Consequence) -> Section:
    """Return where a queue would go with a verdict that is assumed."""
    about = "places before and after, ranked by the agent's own rule with that assumed"
    return _order(title, about, desk, found.shifts, found.moved, found.leave, [])


def _leaving(leave: Sequence[int], claims: Mapping[int, str]) -> Row:
    """What leaves the queue, in one row: for all of it the reason is the same."""
    labels = [format_label(Noun.HYPOTHESIS, each) for each in leave]
    if len(leave) == 1:
        return Row(
            id=labels[0],
            relation="leaves the queue",
            text=claims.get(leave[0], ""),
            because="it builds on what is the best now",
        )
    return Row(
        relation=f"{len(leave)} leave the queue",
        text=some(labels, MOST_LEAVING),
        because="each builds on what is the best now",
    )


def _order(
    title: str,
    about: str,
    desk: Desk,
    shifts: Sequence[Shift],
    moved: int,
    leave: Sequence[int],
    first: Sequence[Row],
) -> Section:
    claims = {each.id: each.claim for each in desk.facts.queue}
    rows = [
        *first,
        *(
            Row(
                id=format_label(Noun.HYPOTHESIS, each.hypothesis_id),
                relation=f"place {each.from_place} → {each.to_place}",
                text=claims.get(each.hypothesis_id, ""),
                because=each.why,
            )
            for each in shifts
        ),
        *([_leaving(leave, claims)] if leave else []),
    ]
    more = moved - len(shifts)
    if more > 0:
        about += f"; {more} more change their place by less"
    return section(title, rows, "Nothing in it would move.", about)
