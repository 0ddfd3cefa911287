"""The page docs/results/verdicts.md, from what was measured: figures with counts, missed targets as well."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from agent.judge.launch_interval import LaunchIntervalJudge
from agent.plan.length import LEAST_PAIRS
from configs.cpu import probe_cpu
from experiments.measurement.judging import Outcome
from tests.proofs.counting import LEVEL, Share, percent, plain
from tests.proofs.hypothesis_streams import LAUNCH_SDS, LENGTH, USUAL, Kind, Mixture
from tests.proofs.markdown import paragraph, table
from tests.proofs.page_discoveries import discoveries_part, mixture_words, shared_part
from tests.proofs.page_later import later_part
from tests.proofs.real_equal_arms import RealSeries, held, supported
from tests.proofs.simulated_rates import FREEDOM
from tests.proofs.targets import LATER_TEST, Power, Results, Stopping, Target, all_of, targets


@dataclass(frozen=True)
class Made:
    """How the page was made."""

    command: str
    seed: int
    quick: bool
    wall_s: float
    processor_s: float
    processes: int


def page(results: Results, made: Made) -> str:
    """The whole page in Markdown."""
    parts = [
        _head(made),
        _summary(targets(results)),
        _equal_arms(results),
        _real(results.series),
        _power(results),
        later_part(results),
        _stopping(results),
        discoveries_part(results),
        shared_part(results),
    ]
    return "\n\n".join(parts) + "\n"


def _head(made: Made) -> str:
    cpu, judge = probe_cpu(), LaunchIntervalJudge()
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy"))
    lines = [
        f"- {datetime.now(UTC):%d %B %Y}; judge `{judge.name}` {judge.version}; "
        f"Python {platform.python_version()}, {versions}",
        f"- Machine: {cpu.name}, {cpu.cores} cores ({platform.system()})",
        f"- Command: `{made.command}` (`make verdicts`); seed {made.seed}",
        f"- Took {made.wall_s:.0f} s, {made.processor_s:.0f} s of processor time, {made.processes} processes",
    ]
    intro = (
        "Made by a command from what it measured, never by hand. "
        "[How an experiment is judged](../judging.md) explains the terms. Shares come with their count and "
        "the exact binomial interval (Clopper–Pearson, "
        f"{plain(LEVEL)})."
    )
    quick = (
        "**A quick run: too few experiments for the figures to mean much. It shows that the command works.**"
    )
    parts = ["# What the verdicts are worth", paragraph(intro), *([quick] if made.quick else [])]
    return "\n\n".join([*parts, "\n".join(lines)])


def _summary(found: Iterable[Target]) -> str:
    rows = []
    for each in found:
        state = "–" if each.met is None else "yes" if each.met else "**no**"
        why = f"; {each.why}" if each.why and not each.met else ""
        rows.append((each.what, each.asked, f"{each.measured}{why}", state))
    return "## Targets\n\n" + table(("what", "target", "measured", "met"), rows)


def _equal_arms(results: Results) -> str:
    columns = ("equal arms", "called supported", "refuted", "interval holds at every look", "at the verdict")
    rows = [
        (
            name,
            str(each.share(each.supported)),
            percent(each.share(each.refuted).value),
            str(each.share(each.held_everywhere)),
            percent(each.share(each.held_at_verdict).value),
        )
        for name, each in {"everything at once": results.equal, **results.conditions}.items()
    ]
    text = (
        f"The default plan (but {results.plan.workload.evaluation_items} task items). Each experiment draws "
        f"a noise profile of {FREEDOM} degrees of freedom and goes through the whole stepping procedure. "
        "*Everything at once*: launches vary by 1 % with tails of t(5) and remember the one before (AR(1), "
        "0.2), the machine drifts by 0.2 % a block, blocks vary together by 1 % (AR(1), 0.8), one request of "
        "a hundred takes 65 % longer. The other rows have one hard condition each; launches that remember "
        "each other, or vary more than the profile says, break what the interval assumes. *At every look*: "
        "an experiment counts as missed if any of its looks missed."
    )
    return f"## Equal arms, simulated\n\n{paragraph(text)}\n\n{table(columns, rows)}"


def _real(series: Sequence[RealSeries]) -> str:
    title = "## Equal arms on the reference engine"
    if not series:
        text = (
            "**Not measured**: no series was given. `autoinfer aa --launches 200` measures "
            "one (where an experiment takes four pairs it makes 25, and 800 launches make the 100 that the "
            'target asks for); then `make verdicts VERDICTS_ARGS="--real-aa DATABASE"`.'
        )
        return f"{title}\n\n{paragraph(text)}"
    told = [
        f"- *{each.label}*: {each.launches} launches of `{each.model}` (engine {each.engine}) with "
        f"{each.configuration}, {each.workload}, on {each.target} ({each.host}). Launches vary by "
        f"{percent(each.launch_sd_log)} ({percent(each.launch_sd_bounds[0])} to "
        f"{percent(each.launch_sd_bounds[1])}, {each.freedom} degrees of freedom)."
        for each in series
    ]
    rows = [(each.label, *_shares([each])) for each in series]
    if len(series) > 1:
        rows.append(("all", *_shares(series)))
    first = series[0]
    refuted = sum(each.experiments_refuted for each in series)
    after = (
        f"All on {first.metric}, judged by {first.judge} with min_effect {plain(first.min_effect)}. *Whole "
        "experiments* take consecutive pairs, as many as the judge asks for, and each pair is used once; "
        f"{refuted} of them were refuted. *At every look*: after each pair of an experiment, with the noise "
        "profile of the pairs before it. *First looks*: each pair as the first of an experiment; none can be "
        "supported without a validation. *Beyond*: the whole interval lay beyond min_effect."
    )
    columns = (
        "equal arms",
        "whole experiments called supported",
        "their interval holds at every look",
        "first looks: interval holds",
        "first looks: beyond",
    )
    parts = [title, "\n".join(paragraph(each) for each in told), table(columns, rows), paragraph(after)]
    return "\n\n".join(parts)


def _shares(series: Sequence[RealSeries]) -> tuple[str, str, str, str]:
    looks = sum(each.first_looks for each in series)
    return (
        str(supported(series)),
        str(held(series)),
        str(Share(sum(each.first_held for each in series), looks)),
        str(Share(sum(each.beyond for each in series), looks)),
    )


def _power(results: Results) -> str:
    source = (
        f"as measured by {results.series[0].label} on {results.series[0].target}"
        if results.series
        else "assumed, for no series was given"
    )
    columns = (
        "full_pairs",
        "validation_pairs",
        "support at",
        "found",
        "refuted",
        "pairs measured",
        "the whole plan's interval reaches",
    )
    first = results.power[0]
    text = (
        f"Found means supported within the plan, at min_effect {plain(first.plan.min_effect)}. Launches vary "
        f"by {percent(results.noise.launch_sd)} beyond what is timed within them, blocks by "
        f"{percent(results.noise.block_sd)} and requests by {percent(results.noise.request_sd)}, {source}. "
        "The judge asks for more blocks a pair where that is what narrows the interval. The gain lies "
        f"{percent(first.beyond)} beyond min_effect (log scale): support needs an interval that reaches less "
        "far. A campaign tests at the level that its online control gives: the first test's, and that of "
        f"test {LATER_TEST} where nothing was supported before, are shown. A campaign of minutes, such as "
        f"the default one, pays for {LEAST_PAIRS} exploratory pairs a test; one of some hours "
        "for the whole plan."
    )
    parts = [f"## A true gain of {plain(first.gain)}", paragraph(text), table(columns, _rows(results.power))]
    if results.calm:
        calm = results.calm[0].noise
        text = (
            "On a calm machine, for comparison: launches that vary by "
            f"{percent(calm.launch_sd)}, blocks by {percent(calm.block_sd)}, requests by "
            f"{percent(calm.request_sd)} (assumed)."
        )
        parts += [paragraph(text), table(columns, _rows(results.calm))]
    return "\n\n".join(parts)


def _rows(power: Sequence[Power]) -> list[tuple[str, ...]]:
    return [
        (
            str(each.plan.full_pairs),
            str(each.plan.validation_pairs),
            f"{percent(each.plan.support_level)}{f' ({each.who})' if each.who else ''}",
            str(each.supported),
            percent(each.found.share(each.found.refuted).value),
            f"{each.found.pairs / each.found.experiments:.1f}",
            f"±{percent(each.reach)}",
        )
        for each in power
    ]


def _stopping(results: Results) -> str:
    everything = all_of(results.streams)
    kinds = [("all that run", [each for each in everything if each.kind is not Kind.INFEASIBLE])]
    kinds += [(kind.value, [each for each in everything if each.kind is kind]) for kind in USUAL]
    columns = ("hypothesis", "n", "saved", "truth found: stopping early", "full schedule", "full, by t")
    rows = [
        (
            name,
            str(len(tested)),
            percent(Stopping(tested).saved),
            *(percent(share.value) for share in Stopping(tested).right()),
        )
        for name, tested in kinds
        if tested
    ]
    mixture = mixture_words(Mixture.USUAL)
    pairs = results.plan.full_pairs + results.plan.validation_pairs
    text = (
        f"{len(results.streams)} frozen streams of {LENGTH} hypotheses "
        "(`tests/proofs/hypothesis_streams.py`), "
        f"a machine each, whose launches vary by {', '.join(map(plain, LAUNCH_SDS))}. The mixture is a "
        f"judgement, with most ideas doing nothing: {mixture}. Levels of support are set by the online "
        "control, as in a campaign. Where the judge stops, the same experiment goes on to all "
        f"{pairs} pairs of its plan and its evaluation, and is judged again: by the same judge, and by "
        f"Student's t interval at {plain(results.plan.alpha)} and one look, as a schedule that never looks "
        "may. The seconds are those of the simulated launches, requests and evaluations."
    )
    stopping = Stopping(everything)
    early = sum(each.early is not Outcome.INCONCLUSIVE for each in everything)
    full = sum(each.full is not Outcome.INCONCLUSIVE for each in everything)
    after = (
        f"Wrongly stopped, of the truths that the full schedule found: {stopping.wrongly()}; of those that "
        f"it finds by Student's t: {stopping.wrongly(by_t=True)}. What does not run counts in neither. "
        "The second compares two intervals besides: "
        "one that may be looked at always, at the level of the online control, with one for a single look "
        f"and a single test. Decided (not inconclusive): {early} stopping early, {full} on the full "
        f"schedule, of {len(everything)}."
    )
    return f"## Stopping early\n\n{paragraph(text)}\n\n{table(columns, rows)}\n\n{paragraph(after)}"
