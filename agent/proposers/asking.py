"""Asking the proposers: so many drafts of each as its hit rate earns it. Pure.

The first slot goes to what promises most, whoever brings it: a verdict may have opened something that is
worth more than all that waits, and no share may hide it. The other slots that a queue has left are shared out
by `knowledge.hit_rates`. What one proposer does not fill goes to the others. Each is told what those before
it brought, so that none brings the same; the order of the drafts is that in which they were brought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from agent.proposers.draft import expected_gains
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
    first = _most_promising(view, asked.values(), keeps) if count > 0 else None
    if first is not None:
        drafts.append(first)
        view = replace(view, taken=view.taken | {first.candidate.digest})
        if first.proposer in known:
            known[first.proposer] = _one_more(known[first.proposer])
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
            known[name] = _one_more(known[name], len(kept))
            if len(brought) < wanted:
                del asked[name]  # it has nothing more to say now
    return drafts


def _one_more(record: Record, brought: int = 1) -> Record:
    return replace(record, proposed=record.proposed + brought)


def _most_promising(
    view: CampaignView, proposers: Iterable[Proposer], keeps: Callable[[Draft], bool]
) -> Draft | None:
    """Of what each would bring first, that of which the surrogate expects the largest gain on the objective;
    None where nobody has such a claim. What a proposer itself predicts does not count."""
    shown = [draft for each in proposers for draft in each.propose(view, 1)]
    claims = [draft for draft in shown if draft.metric is None and keeps(draft)]
    if not claims:
        return None
    gains = expected_gains(view, [(view.predict(each.control, each.candidate), None) for each in claims])
    return claims[gains.index(max(gains))]
