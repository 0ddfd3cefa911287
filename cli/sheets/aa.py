"""The sheet of an A/A series: how much launches vary, and whether what the judge assumes holds here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console.output import console, fields, state, table
from cli.console.words import configuration_words
from knowledge.figures import counted, percent, percent_interval

if TYPE_CHECKING:
    from agent.judge.aa_replay import Judged
    from agent.judge.aa_statistics import Estimate
    from agent.noise.report import SeriesReport


def print_report(told: SeriesReport) -> None:
    """Print what a series says, on one screen."""
    found, asked = told.found, told.asked
    measured = 2 * (found.pairs + found.pairs_apart)
    out = console()
    out.print(
        f"{told.label}  {measured} of {asked.launches} launches of {told.spec.model}, {told.target_key}"
    )
    out.print()
    out.print(
        fields(
            [
                ("configuration", configuration_words(asked.configuration)),
                ("launches vary by", _spread(found.launch_sd, "pairs")),
                ("of which", _parts(told)),
                ("beside or alone", _contrast(told)),
                ("noise profile", _profile(told)),
                ("judged", _judged(told)),
                ("first look", _first_looks(told)),
            ]
        )
    )
    out.print()
    rows = [(each.name, state(each.status.value), each.sentence) for each in found.assumptions]
    out.print(
        table(("assumption", "", "what was measured, and what the judge does"), rows, wide=(_SENTENCE,))
    )


_SENTENCE = "what was measured, and what the judge does"


def _spread(found: Estimate | None, of: str) -> str:
    if found is None:
        return "not known yet"
    return f"{100 * found.value:.2f} % {_between(found)} (n = {found.n} {of})"


def _between(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return ""
    return f"[{100 * found.low:.2f}, {100 * found.high:.2f}]"


def _parts(told: SeriesReport) -> str | None:
    parts = told.found.parts
    if parts is None:
        return None
    shown = zip(("launches", "blocks", "requests"), parts.shares, strict=True)
    return (
        ", ".join(f"{100 * share:.0f} % from {name}" for name, share in shown) + " (of what varies in a pair)"
    )


def _contrast(told: SeriesReport) -> str | None:
    contrast = told.found.contrast
    if contrast is None:
        return None
    what = "alone" if contrast.what == "alone" else f"beside {' '.join(told.asked.beside)}"
    if contrast.level is None or contrast.level.low is None or contrast.level.high is None:
        level = "not known yet"
    else:
        level = f"{percent(contrast.level.value, 2)} "
        level += percent_interval(contrast.level.low, contrast.level.high, 2)
    return (
        f"{what}: {level}; launches vary by {_spread(contrast.sd_with, 'pairs')}, "
        f"else by {_spread(contrast.sd_without, 'pairs')}"
    )


def _profile(told: SeriesReport) -> str:
    profile = told.profile
    launches = counted(profile.launches, "launch", "launches")
    spread = "" if profile.launch_sd_log is None else f", {100 * profile.launch_sd_log:.2f} %"
    return f"{launches}, {counted(profile.degrees_of_freedom, 'degree')} of freedom{spread}"


def _judged(told: SeriesReport) -> str:
    replay = told.found.judged
    if not replay.experiments:
        were = "was" if replay.pairs_left == 1 else "were"
        return f"no experiment ended; {counted(replay.pairs_left, 'pair')} {were} not enough for one"
    taken = sum(each.pairs for each in replay.experiments)
    ended = counted(len(replay.experiments), "experiment")
    return f"{ended} of {counted(taken, 'pair')}: {_counts(replay.experiments)}"


def _first_looks(told: SeriesReport) -> str | None:
    looks = told.found.judged.first_looks
    if not looks:
        return None
    from agent.judge.aa_statistics import share

    beyond = told.found.judged.first_beyond
    return (
        f"{counted(len(looks), 'pair')} alone: {_counts(looks)}; {beyond} seemed worth more than "
        f"{100 * told.found.plan.min_effect:g} % {_share(share(beyond, len(looks)))}"
    )


def _counts(judged: tuple[Judged, ...]) -> str:
    from agent.judge.aa_statistics import share

    words = ("supported", "refuted", "inconclusive", "confounded", "infeasible")
    counts = {word: sum(each.outcome.value == word for each in judged) for word in words}
    shown = [word for word in words if counts[word] or word == "supported"]
    return ", ".join(f"{counts[word]} {word} {_share(share(counts[word], len(judged)))}" for word in shown)


def _share(found: Estimate) -> str:
    return f"[{100 * (found.low or 0.0):.1f}, {100 * (found.high or 0.0):.1f}] %"
