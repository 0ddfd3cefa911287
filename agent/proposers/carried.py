"""The proposer `carried`: what another campaign found best, as one change, and what helped before an upgrade.
Pure.

A campaign that begins with the outcomes of others would else walk to their best lever by lever. Taken over is
all by which that best differs from the trial 0 of its own campaign, on top of the incumbent here: what this
space lacks, what is banned, and a lever that is illegal or refused with the rest is left out and named.

A finding by which a change helps here is stale where its versions moved on: nobody acts on it, and nobody
knows whether it still holds. Its change on top of the incumbent is how to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.proposers.draft import percent
from agent.proposers.idea import Idea, changed
from agent.proposers.port import CampaignView, CarriedBest, Draft, StaleFinding
from agent.proposers.turns import Rule, in_turns
from agent.surrogate.levers import NOISE_KNOBS
from configs.errors import UsageError
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import written
from knowledge.figures import listed

NAME = "carried"

Settings = Mapping[str, KnobValue]
"""Values by knob."""


class CarriedProposer:
    """The best of other campaigns, each as one change, and what versions left behind; see the module's
    page."""

    name = NAME

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts, the largest expected gain first; none where no other campaign found
        anything that the incumbent lacks, and nothing that was found is stale."""
        return in_turns(view, [Rule(NAME, [*found_elsewhere(view), *left_behind(view)])], count)


@dataclass(frozen=True)
class TakenOver:
    """The incumbent with as much of another campaign's best as goes here, and what does not: its settings,
    and why."""

    candidate: Configuration
    left_out: tuple[tuple[Settings, str], ...]


def found_elsewhere(view: CampaignView) -> list[Idea]:
    """The best of each other campaign on top of the incumbent; what that has already gives nothing, nor what
    leads back to the baseline."""
    return [
        Idea(
            found.candidate,
            _rationale(best, found),
            as_found=f"as in {best.campaign} ({best.experiment})",
            builds_on=(best.finding,) if best.finding else (),
        )
        for best in view.carried_bests
        if (found := taken_over(view, best)).candidate not in (view.incumbent, view.baseline)
    ]


def left_behind(view: CampaignView) -> list[Idea]:
    """What helped here with versions of before, on top of the incumbent; what that has already gives nothing,
    nor what leads back to the baseline, nor what was settled here since, on whatever control."""
    settled = [
        {
            each.knob: each.after
            for each in trial.control.changes_to(trial.candidate)
            if each.after is not None
        }
        for trial in view.trials
        if trial.on_objective and trial.outcome in (Outcome.SUPPORTED, Outcome.REFUTED)
    ]
    stale = [each for each in view.stale_findings if dict(each.change) not in settled]
    found = [(each, changed(view, each.change)) for each in stale]
    return [
        Idea(candidate, _measured_before(each), as_found=f"as in {each.finding}", builds_on=(each.finding,))
        for each, candidate in found
        if candidate is not None and candidate != view.baseline
    ]


def _measured_before(found: StaleFinding) -> str:
    measured = (
        "" if found.effect_log is None else f" It changed latency by {percent(found.effect_log)} % then."
    )
    return f"{found.again}.{measured}"


def taken_over(view: CampaignView, best: CarriedBest) -> TakenOver:
    """As much of it as goes together on top of the incumbent: all, else lever by lever in the order of the
    space, as long as one more can be had."""
    waiting, left_out = _wanted(view, best)
    whole = _with(view, {name: value for each in waiting.values() for name, value in each.items()})
    if isinstance(whole, Configuration):
        return TakenOver(whole, left_out)
    candidate, knobs, refused = view.incumbent, dict[str, KnobValue](), dict[str, str]()
    more = True
    while more:  # a lever may be had only after one that comes later: what it needs, or what pays for it
        more = False
        for lever, settings in tuple(waiting.items()):
            found = _with(view, {**knobs, **settings})
            if isinstance(found, str):
                refused[lever] = found
                continue
            candidate, more = found, True
            knobs.update(waiting.pop(lever))
    return TakenOver(candidate, (*left_out, *((waiting[each], refused[each]) for each in waiting)))


def _wanted(
    view: CampaignView, best: CarriedBest
) -> tuple[dict[str, Settings], tuple[tuple[Settings, str], ...]]:
    """By which settings the best differs from its baseline, by lever in the order of the space, and which of
    them can't be here. Another draw of what was there already is none."""
    wanted = {
        change.knob: change.after
        for change in best.baseline.changes_to(best.configuration)
        if change.after is not None and (change.before is None or change.knob not in NOISE_KNOBS)
    }
    by_lever = dict[str, Settings]()
    for knob in view.space.knobs:
        if knob.name in wanted and knob.allows(wanted[knob.name]):
            by_lever[knob.lever] = {**by_lever.get(knob.lever, {}), knob.name: wanted.pop(knob.name)}
    banned = [by_lever.pop(each) for each in tuple(by_lever) if each in view.banned_levers]
    lacking = ((wanted, "not in this space"),) if wanted else ()
    return by_lever, (*lacking, *((each, "banned") for each in banned))


def _with(view: CampaignView, settings: Settings) -> Configuration | str:
    """The incumbent with these settings; why it can't be, as a sentence."""
    try:
        found = view.space.with_change(view.incumbent, settings)
    except UsageError as error:
        return error.message
    found = view.space.as_offered(view.incumbent, found)
    return view.refused(found) or found


def _rationale(best: CarriedBest, found: TakenOver) -> str:
    finding = f", {best.finding}" if best.finding else ""
    steps = f" in {best.steps} steps, each measured against the one before" if best.steps > 1 else ""
    said = [
        f"The best of {best.campaign} ({best.experiment}{finding}) changed latency by "
        f"{percent(best.log_ratio)} % over its own baseline{steps}."
    ]
    if best.differs:
        there, here = (listed([each[place] for each in best.differs]) for place in (0, 1))
        said.append(f"That was measured with {there}; here it is {here}.")
    for settings, why in found.left_out:
        named = listed([f"{name}={written(value)}" for name, value in settings.items()])
        said.append(f"Without {named}: {why.rstrip('.')}.")
    return " ".join(said)
