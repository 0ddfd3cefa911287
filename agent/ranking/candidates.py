"""What is believed of a configuration as a candidate of the ranking: in campaigns and replays alike. Pure."""

from __future__ import annotations

from agent.ranking.values import Candidate
from agent.surrogate.beliefs import Belief


def candidate_of(hypothesis_id: int, levers: tuple[str, ...], belief: Belief) -> Candidate:
    """A hypothesis that changes these levers, with what is believed of its candidate over the incumbent."""
    return Candidate(
        hypothesis_id=hypothesis_id,
        levers=levers,
        log_ratio_mean=belief.prediction.log_ratio_mean,
        log_ratio_sd=belief.prediction.log_ratio_sd,
        p_quality=belief.p_quality,
        p_feasible=belief.p_feasible,
        cost_s=belief.cost_s,
        builds_s=belief.builds_s,
        launches_sd_log=belief.launches_sd_log,
    )
