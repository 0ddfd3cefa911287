"""Supported changes put together: what was shown apart is claimed to hold jointly. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.proposers.port import CampaignView, Trial
from configs.errors import UsageError
from db.labels import Noun, format_label
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration, KnobValue


@dataclass(frozen=True)
class Recombination:
    """A candidate that adds supported changes to the incumbent, and the hypotheses that supported them."""

    candidate: Configuration
    parents: tuple[int, ...]
    described: str


def recombinations(view: CampaignView) -> list[Recombination]:
    """All supported changes together on top of the incumbent, then each of them alone.

    Of one knob's several supported values the one with the larger effect counts. What the incumbent has
    already, and what the space does not allow together, gives nothing.
    """
    supported = sorted(
        (trial for trial in view.trials if trial.outcome == Outcome.SUPPORTED),
        key=lambda trial: (trial.effect_log if trial.effect_log is not None else 0.0, trial.hypothesis_id),
    )
    missing = [trial for trial in supported if _adds(view, [trial]) is not None]
    groups = [missing] if len(missing) > 1 else []
    groups += [[trial] for trial in missing]
    found: dict[Configuration, Recombination] = {}
    for group in groups:
        candidate = _adds(view, group)
        if candidate is not None and candidate not in found:
            labels = ", ".join(format_label(Noun.HYPOTHESIS, trial.hypothesis_id) for trial in group)
            verb = "was" if len(group) == 1 else "were"
            parents = tuple(sorted({trial.hypothesis_id for trial in group}))
            found[candidate] = Recombination(candidate, parents, f"{labels} {verb}")
    return list(found.values())


def _adds(view: CampaignView, group: Sequence[Trial]) -> Configuration | None:
    knobs: dict[str, KnobValue] = {}
    for trial in group:
        for knob, value in _set_by(trial).items():
            knobs.setdefault(knob, value)
    try:
        candidate = view.space.with_change(view.incumbent, knobs)
    except UsageError:  # the changes exclude each other
        return None
    return None if candidate == view.incumbent else candidate


def _set_by(trial: Trial) -> Mapping[str, KnobValue]:
    return {
        change.knob: change.after
        for change in trial.control.changes_to(trial.candidate)
        if change.after is not None
    }
