"""The proposer `recombination`: supported changes put together; what was shown apart is claimed to hold
jointly. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.proposers.idea import Idea
from agent.proposers.port import CampaignView, Draft, Trial
from agent.proposers.turns import Rule, in_turns
from agent.surrogate.levers import NOISE_KNOBS
from configs.errors import UsageError
from db.labels import Noun, format_label
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration, KnobValue

NAME = "recombination"


class RecombinationProposer:
    """What was supported apart, together; see the module's page."""

    name = NAME

    def propose(self, view: CampaignView, count: int) -> list[Draft]:
        """At most `count` drafts, the largest expected gain first; none before something was supported that
        the incumbent lacks."""
        return in_turns(view, [Rule(NAME, recombined(view))], count)


def recombined(view: CampaignView) -> list[Idea]:
    """Supported changes that the incumbent lacks, each and all together on top of it."""
    return [
        Idea(
            found.candidate,
            f"{found.described} supported apart from the incumbent; together their effects should add on the "
            f"log scale.",
            found.parents,
        )
        for found in recombinations(view)
    ]


@dataclass(frozen=True)
class Recombination:
    """A candidate that adds supported changes to the incumbent, and the hypotheses that supported them."""

    candidate: Configuration
    parents: tuple[int, ...]
    described: str


def recombinations(view: CampaignView) -> list[Recombination]:
    """All supported changes together on top of the incumbent, then each of them alone.

    Together they are taken up by effect, the largest first: of one knob's several supported values the first
    counts, and a change that is not legal with those before it, or refused with them, is passed over. What
    the incumbent has already gives nothing.
    """
    supported = sorted(
        (trial for trial in view.trials if trial.outcome == Outcome.SUPPORTED and trial.on_objective),
        key=lambda trial: (trial.effect_log if trial.effect_log is not None else 0.0, trial.hypothesis_id),
    )
    groups = [_together(view, supported), *(_together(view, [trial]) for trial in supported)]
    found: dict[Configuration, Recombination] = {}
    for candidate, group in groups:
        if group and candidate not in found:
            labels = ", ".join(format_label(Noun.HYPOTHESIS, trial.hypothesis_id) for trial in group)
            verb = "was" if len(group) == 1 else "were"
            parents = tuple(sorted({trial.hypothesis_id for trial in group}))
            found[candidate] = Recombination(candidate, parents, f"{labels} {verb}")
    return list(found.values())


def _together(view: CampaignView, trials: Sequence[Trial]) -> tuple[Configuration, list[Trial]]:
    """The incumbent with the changes of these trials, as far as they go together, and those that added."""
    knobs: dict[str, KnobValue] = {}
    candidate, used = view.incumbent, list[Trial]()
    for trial in trials:
        wider = {**_set_by(trial), **knobs}
        try:
            found = view.space.with_change(view.incumbent, wider)
        except UsageError:  # the changes exclude each other
            continue
        found = view.space.as_offered(view.incumbent, found)
        if found != candidate and view.refused(found) is None:
            candidate, knobs = found, wider
            used.append(trial)
    return candidate, used


def _set_by(trial: Trial) -> Mapping[str, KnobValue]:
    """What a trial set, less another draw of what its control had already: noise adds nothing."""
    return {
        change.knob: change.after
        for change in trial.control.changes_to(trial.candidate)
        if change.after is not None and (change.before is None or change.knob not in NOISE_KNOBS)
    }
