"""What a decode step has to do with what a campaign is about, for the reasons of rules. Pure.

A profile is of a decode step. A token's time is one; a request to its last token is the first token and as
many steps as are left; the time to the first token has none. So where a campaign is about requests a reason
says how much of one steps are, and where it is about first tokens no reason speaks of a step, and a lever
that begins to act after the first token is not proposed at all. What is expected of each lever there says
`agent/surrogate/objective.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.proposers.idea import Idea
from agent.proposers.port import CampaignView
from agent.surrogate.drafting import drafts
from agent.surrogate.objective import OF_BOTH, OF_PRODUCTS, OF_PROMPTS, OF_STEPS
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration

AFTER_FIRST = ("compile", "drafting", "draft_lm_head")
"""Levers that only begin to act after the first token: what compiles the decode step compiles nothing that
reads a prompt, and drafts are of what comes after it."""

NOT_FASTER = {
    Metric.TTFT_MS: "no first token comes sooner",
    Metric.E2EL_MS: "no request gets faster",
}
"""What does not get better by weights that are served as before; elsewhere it is a step."""


def of_first_tokens(view: CampaignView) -> bool:
    """Whether the campaign is about the time to the first token alone."""
    return view.objective is Metric.TTFT_MS


def of_arithmetic(view: CampaignView) -> str:
    """Why what is known of a step's bytes says little of the first token, a clause, with what products take
    of it where that was profiled."""
    why = "Reading a prompt is arithmetic more than bytes"
    return why if view.lone_prompt is None else f"{why} ({view.lone_prompt.told})"


def comes_too_late(view: CampaignView, candidate: Configuration) -> bool:
    """Whether a candidate of a campaign about first tokens changes only what happens after them. That the
    best so far stops drafting is none of these, since drafters read the prompt too."""
    if not of_first_tokens(view) or (drafts(view.incumbent) is not None and drafts(candidate) is None):
        return False
    return set(view.space.levers_between(view.incumbent, candidate)) <= set(AFTER_FIRST)


def nothing_faster(view: CampaignView) -> str:
    """What does not get better by weights that are served as before, as a clause."""
    return NOT_FASTER.get(view.objective, "no step gets faster")


def of_requests(view: CampaignView, lever: str, ideas: Sequence[Idea]) -> list[Idea]:
    """The ideas of a lever, whose reasons speak of a step; in a campaign about whole requests each also says
    how a step counts there. A claim on another metric stands as it is."""
    counts = _how_steps_count(view, lever)
    return [
        idea if idea.metric is not None else replace(idea, rationale=f"{idea.rationale}{counts}")
        for idea in ideas
    ]


def acts_on(view: CampaignView, lever: str) -> str:
    """What of the objective a lever acts on, a sentence with a space before it; empty in a campaign about
    tokens, and where there is nothing to say."""
    if not view.first_token_share:
        return ""
    if lever in OF_PROMPTS:
        share, request = _share_of_request(view)
        waits = (
            "which the first token waits for."
            if of_first_tokens(view)
            else f"and the first token takes {100 * share:.0f} % of {request}."
        )
        return f" It decides how prompts are read, {waits}"
    if lever in OF_STEPS and of_first_tokens(view):
        return " It acts on steps of decoding, after the first token, so that little is expected of it."
    return ""


def _share_of_request(view: CampaignView) -> tuple[float, str]:
    """The first token's share of what a change is put on, and whose request that is of: the best's, where it
    was measured, else the baseline's."""
    if view.best_first_token_share is None:
        return view.first_token_share, "the baseline's request"
    return view.best_first_token_share, "a request of the best so far"


def _how_steps_count(view: CampaignView, lever: str) -> str:
    if view.objective is not Metric.E2EL_MS or not view.first_token_share:
        return ""
    share, request = _share_of_request(view)
    after = view.new_tokens - 1
    first = f"{100 * share:.0f} %"
    lead = f" Of {request} the first token takes {first} and the {after} after it "
    lead += f"{100 - 100 * share:.0f} %: "
    if lever in OF_BOTH:
        return f"{lead}layers read the prompt too, so that what goes with them counts with both."
    if lever in OF_STEPS or (lever == "quantization" and not view.serves_packed):
        return f"{lead}what a step saves counts with the latter alone."
    if lever in OF_PRODUCTS and view.lone_prompt is not None:
        return f"{lead}what a step saves counts with the latter; of the former, {view.lone_prompt.told}."
    return f"{lead}what a step saves counts with the latter, and no profile tells what becomes of the former."
