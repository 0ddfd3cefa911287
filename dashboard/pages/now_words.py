"""What stands at the head of the Now page: one sentence, and what follows it in quieter ink."""

from __future__ import annotations

from knowledge.figures import counted, listed
from knowledge.queries.present.now import CampaignNow, NowView, Standing
from knowledge.queries.present.now_run import RunView

WORDS = (
    "none",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def sentence(view: NowView) -> tuple[str, str]:
    """What is true now, in one sentence, and how many were supported, ruled out and left open."""
    campaign = view.campaign
    if campaign is None:
        return "Nothing to show yet.", "Start a campaign, and watch it here."
    return _lead(view, campaign), tally(campaign)


def _lead(view: NowView, campaign: CampaignNow) -> str:
    match campaign.standing:
        case Standing.ENDED:
            return _ended(view)
        case Standing.PAUSED:
            return "Paused; what runs is finished first." if _at_work(view) else "Paused."
        case Standing.STOPPING:
            return "Stopping; what runs is finished first."
        case Standing.INTERRUPTED:
            return "Interrupted: nothing drives this campaign."
        case Standing.BASELINE:
            return "Measuring the baseline."
        case Standing.AWAITING:
            return "Waiting for your approval; nothing else is left to test."
        case Standing.RESTING:
            return f"Waiting for {listed([each.device for each in view.at_rest])}, which others use."
        case Standing.CHOOSING:
            return "Choosing what to test next."
    claims = [run.claim for run in _at_work(view) if run.claim]
    if len(claims) == 1:
        return f"Testing: {claims[0].rstrip('.')}."
    if claims:
        return f"Testing {counted(len(claims), 'hypothesis', 'hypotheses')}."
    return "Running an experiment again."


def _at_work(view: NowView) -> list[RunView]:
    return [run for run in view.runs if run.interrupted is None]


def _ended(view: NowView) -> str:
    best = view.best
    if best is None:
        return "Ended before a baseline was measured."
    if best.experiment is None:
        return "Ended: nothing beat the baseline."
    alone = (
        " by time alone (latency only)" if view.campaign is not None and view.campaign.latency_only else ""
    )
    return f"Ended: {best.speedup:.2f} times as fast as the baseline{alone}."


def tally(campaign: CampaignNow) -> str:
    """`Three supported, two ruled out, one left open.`; what nothing was tested for says so."""
    if not campaign.supported + campaign.ruled_out + campaign.left_open:
        return "Nothing is decided yet."
    parts = [
        f"{_word(campaign.supported)} supported",
        f"{_word(campaign.ruled_out)} ruled out",
        f"{_word(campaign.left_open)} left open",
    ]
    told = ", ".join(parts) + "."
    return told[0].upper() + told[1:]


def _word(count: int) -> str:
    return WORDS[count] if count < len(WORDS) else f"{count:,}"
