"""The proposer `language-model`: drafts from what a language model answered. Pure.

It asks nobody: a campaign that has an endpoint asks beside itself
(`agent.campaign.asked_model.language_model`) and gives it the answers that are ready, checked, as values.
Without any it has nothing to say. The prediction is the model's own, so that it can be held to it; the order
of the queue goes by the surrogate, as for everyone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agent.language_model.answer import Proposal
from agent.proposers.already_runs import already_runs, measured_as
from agent.proposers.draft import claim, refuted_if
from agent.proposers.port import CampaignView, Draft, FromModel
from agent.surrogate.levers import changes_noise, joined
from configs.errors import UsageError
from configs.language_model import PROPOSER
from db.labels import Noun, format_label
from experiments.space.configuration import Configuration


@dataclass(frozen=True)
class Ready:
    """A proposal that waits to be brought: of which answer it is, its place there, and on what it was
    proposed."""

    proposal: Proposal
    answer_id: int
    place: int
    control: Configuration


def most_standing(share: float, others_tested: int) -> int:
    """How many hypotheses of a language model may stand (waiting, under test or tested) beside so many tests
    of others, so that whichever is tested next they are at most this share of all tests."""
    return math.floor(share * others_tested / (1 - share) + 1e-9)


class LanguageModelProposer:
    """What is ready, in its order, at most `most` in a turn; stateless, deterministic for a view."""

    name = PROPOSER

    def __init__(self, ready: Sequence[Ready] = (), most: int | None = None) -> None:
        self._ready = tuple(ready if most is None else ready[: max(0, most)])

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts; one that is not legal here, refused or taken is passed over."""
        drafts: list[Draft] = []
        seen = set(view.taken)
        for each in self._ready:
            if len(drafts) == count:
                break
            try:
                draft = draft_from(view, each)
            except UsageError:
                continue
            if draft.candidate.digest in seen or view.refused(draft.candidate) is not None:
                continue
            seen.add(draft.candidate.digest)
            drafts.append(draft)
        return drafts


def draft_from(view: CampaignView, ready: Ready) -> Draft:
    """The draft of a proposal on the best so far.

    Raises `UsageError` with the reason where the space, a ban, or what runs already speaks against it.
    """
    said = ready.proposal
    control = view.incumbent
    candidate = view.space.with_change(control, dict(said.change))
    levers = view.space.levers_between(control, candidate)
    if candidate == control:
        raise UsageError("It changes nothing: the best so far has that already.")
    banned = sorted(view.banned_levers & set(levers))
    if banned:
        raise UsageError(f"The lever {banned[0]} is banned or used up.")
    if changes_noise(control, candidate):
        raise UsageError("It only draws the same thing anew.")
    if (same := view.space.why_same(control, candidate)) is not None:
        raise UsageError(f"It does what the best so far does. {same}")
    candidate = view.space.as_offered(control, candidate)
    if already_runs(view, candidate):
        raise UsageError("It names what the best so far runs by itself.")
    measured = measured_as(view, candidate)
    if measured is not None:
        label = format_label(Noun.EXPERIMENT, measured.experiment_id)
        raise UsageError(f"It names what {label} measured: the same runs under both names.")
    built = f" Builds on {', '.join(said.builds_on)}." if said.builds_on else ""
    moved = " It was proposed on top of another configuration." if ready.control != control else ""
    own = () if view.incumbent_hypothesis_id is None else (view.incumbent_hypothesis_id,)
    return Draft(
        claim=claim(view.space, control, candidate, said.min_effect, view.objective),
        control=control,
        candidate=candidate,
        lever=joined(levers),
        prediction=said.prediction,
        min_effect=said.min_effect,
        refuted_if=f"{refuted_if(said.min_effect)} In the language model’s words: “{said.refuted_if}”",
        rationale=f"A language model: “{said.rationale}”{built}{moved}",
        proposer=PROPOSER,
        parents=own,
        from_model=FromModel(ready.answer_id, ready.place, said.builds_on),
    )
