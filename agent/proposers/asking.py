"""Asking the proposers: so many drafts of each as its hit rate earns it. Pure.

The slots that a queue has left are shared out by `knowledge.hit_rates`. What one proposer does not fill goes
to the others. Each is told what those before it brought, so that none brings the same; the order of the
drafts is that in which they were brought.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agent.proposers.port import CampaignView, Draft, Proposer
from knowledge.hit_rates import Record, slots


def every_draft(draft: Draft) -> bool:
    """Keeps all."""
    return True


def parts_of(proposers: Sequence[Proposer]) -> tuple[Proposer, ...]:
    """The proposers, each that is made of several (its `parts`) as these, once each."""
    found = [part for each in proposers for part in getattr(each, "parts", (each,))]
    return tuple({each.name: each for each in found}.values())


def ask(
    view: CampaignView,
    proposers: Sequence[Proposer],
    count: int,
    records: Mapping[str, Record],
    keeps: Callable[[Draft], bool] = every_draft,
) -> list[Draft]:
    """At most `count` drafts that `keeps` leaves, of the proposers by their shares, each candidate once."""
    drafts: list[Draft] = []
    asked = {each.name: each for each in parts_of(proposers)}
    known = {name: records.get(name, Record()) for name in asked}
    while asked and len(drafts) < count:
        for name, wanted in slots({each: known[each] for each in asked}, count - len(drafts)).items():
            if not wanted:
                continue
            brought = [
                each
                for each in asked[name].propose(view, wanted)
                if each.candidate.digest not in view.taken  # one that repeats itself has nothing more to say
            ]
            view = replace(view, taken=view.taken | {each.candidate.digest for each in brought})
            kept = [each for each in brought if keeps(each)]
            drafts += kept
            known[name] = replace(known[name], proposed=known[name].proposed + len(kept))
            if len(brought) < wanted:
                del asked[name]  # it has nothing more to say now
    return drafts
