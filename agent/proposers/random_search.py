"""The proposer `random`: a legal point drawn evenly, knob by knob, and nothing learnt from any.

What other ways of searching are compared with (`proposers: [random]` in a campaign's file). There is one
draft for each number of judged trials, drawn from the campaign's seed and that number, so that the ranking
has nothing to choose from.
"""

from __future__ import annotations

import optuna

from agent.proposers.draft import draft_of, predicted
from agent.proposers.optuna_tpe import ASKS_A_DRAFT, SEED_RANGE, drawn
from agent.proposers.port import CampaignView, Draft


class RandomProposer:
    """Random search behind the proposer's port; stateless, deterministic for a view."""

    name = "random"

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """One draft, or none where this turn's is in the queue already or all that was drawn was tested."""
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.RandomSampler(seed=(view.seed + len(view.trials)) % SEED_RANGE)
        tested = {trial.candidate.digest for trial in view.trials}
        for candidate, differs in drawn(view, optuna.create_study(sampler=sampler), ASKS_A_DRAFT):
            if candidate.digest in tested:
                continue
            if count < 1 or candidate.digest in view.taken:
                return []
            rationale = f"Drawn at random; {differs} Surrogate: {predicted(view, candidate)}."
            return [draft_of(view, candidate, proposer=self.name, rationale=rationale)]
        return []
