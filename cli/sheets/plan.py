"""A plan as it is printed: the model and the card, memory by part, levers with reasons, time and cost."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agent.plan.further import further_of
from agent.plan.levers import Standing, count_words
from cli.console.output import console, fields, say, state, table
from cli.console.words import configuration_words, value_words
from cli.sheets.prices import prices_document, print_prices
from configs.asked_over import asked_over_words
from configs.quantities import format_bytes, format_duration, format_energy
from configs.targets import is_rented
from experiments.space.knob import same_value
from knowledge.figures import in_places, listed
from knowledge.figures import size as size_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from agent.plan.levers import LeverRow
    from agent.plan.model import ModelFound
    from agent.plan.plan import Plan
    from cli.executors.prices import Quoted

GB = 1e9

NOT_OFFERED = "not offered by itself, and why"

FEWEST_ALIKE = 3
"""Reasons against values of one knob that are told as one where they differ by figures, or by the value that
they name, alone."""

_FIGURE = re.compile(r"[\d.,]*\d")

NO_PRICE = "nothing: this machine's own time"
NOT_HERE_PRICE = "nothing where the card is your own"
RENTED = "dollars; each job is quoted before it is submitted"


def print_plan(plan: Plan, quoted: Quoted | None = None) -> None:
    """Print one plan, its levers last but for the sums; `quoted` is what its rented machines cost."""
    out = console()
    out.print(fields(_head(plan)))
    out.print()
    say(*_begins(plan))
    rows = [(part.name, f"{part.bytes / GB:.2f}", part.basis) for part in plan.memory.parts]
    rows.append(("one launch", f"{sum(part.bytes for part in plan.memory.parts) / GB:.2f}", ""))
    out.print(table(("memory", ">GB", "basis"), rows, wide=("basis",)))
    out.print()
    # of two launches nothing is to be said where one is too much
    fits = plan.memory.sentences if plan.memory.rooms[0].fits else plan.memory.sentences[:1]
    say(*fits, *_in_turn(plan), "")
    _print_floors(plan)
    out.print(lever_table(plan.levers))
    out.print()
    if quoted is not None:
        print_prices(quoted, plan.spec.budget.wall_s)
    out.print(fields(verdict_rows(plan)))
    for note in plan.notes:
        say("", note)


def _begins(plan: Plan) -> tuple[str, ...]:
    """What to say of what the campaign begins from; nothing of the engine's own default."""
    return () if plan.start.told is None else (plan.start.told, "")


FLOOR_NOT_KNOWN = (
    "floor: not known before the weights are here: they are quantized as they are stored, and how many bytes "
    "each part has their files alone tell"
)


FLOOR_OF_A_STEP = {
    "ttft_ms": "The first token has no such floor: reading a prompt is arithmetic more than bytes. With vLLM "
    "the profile of a lone prompt tells the least that it can take.",
    "e2el_ms": "A request has such a step for each token after its first.",
}
"""What a step's floor is to a campaign that is about more than a token, by its metric."""


PROMPT_OF_EXPERTS = (
    "The first token has no such floor: a prompt's tokens are sent to other experts each, and all of these "
    "are read. With vLLM the profile of a lone prompt tells the least that it can take."
)
"""The same of the first token of a Mixture of Experts."""


def _print_floors(plan: Plan) -> None:
    if not plan.floors:
        say(FLOOR_NOT_KNOWN, "")
        return
    rows = [
        (
            each.words,
            in_places(each.weight_bytes / GB),
            in_places(each.cache_bytes / GB),
            "—" if each.floor_ms is None else in_places(each.floor_ms),
        )
        for each in plan.floors
    ]
    out = console()
    out.print(table(("a step's floor, by weights", ">weights, GB", ">caches, GB", ">at least, ms"), rows))
    out.print(_floor_basis(plan), style="dim")
    metric, experts = plan.spec.plan.metric, plan.model.profile.experts
    counts = FLOOR_OF_A_STEP.get(metric) if experts is None or metric != "ttft_ms" else PROMPT_OF_EXPERTS
    if counts is not None:
        out.print(counts, style="dim")
    out.print()


def _floor_span(plan: Plan) -> str:
    """The floors of the largest and the smallest weights: `4.90 … 1.94`."""
    found = [each.floor_ms for each in plan.floors if each.floor_ms is not None]
    return f"{in_places(max(found))} … {in_places(min(found))}" if found else "—"


def _floor_basis(plan: Plan) -> str:
    told = _experts_read(plan)
    if plan.card.listed is None:
        return f"no bandwidth is listed for it, so the least time is not known before it is measured{told}"
    listed = f"{plan.card.listed.bandwidth_bytes_per_s / GB:,.0f} GB/s that its vendor lists"
    return f"bytes over the {listed}{told}"


def _experts_read(plan: Plan) -> str:
    """What a step reads of the experts of a Mixture of Experts, as the rest of a sentence."""
    experts, rows = plan.model.profile.experts, plan.step_rows
    if experts is None:
        return ""
    read = f"; of the {experts.count} experts of a layer a step reads"
    if rows == 1:
        return f"{read} {experts.per_token}"
    return f"{read} about {experts.read(rows):.0f}, if tokens are sent to all of them alike"


def print_cards(plans: Sequence[Plan]) -> None:
    """Print the same for several cards: what fits by their memory, a floor for each, and the notes that hold
    on all of them."""
    out = console()
    say(*_not_legal_on(plans))
    out.print(fields(_head(plans[0])[:1] + _head(plans[0])[2:4]))
    out.print()
    columns = ("memory, GB", ">usable", ">default", ">launch", "a test fits", "begins from")
    out.print(table(columns, _rows_by_memory(plans), wide=("begins from",)))
    out.print("usable, and a launch with the engine's default and with what begins, in GB too", style="dim")
    out.print()
    rows = [
        (
            plan.card.name,
            f"{plan.card.memory_bytes / GB:.0f}",
            "—" if plan.card.listed is None else f"{plan.card.listed.bandwidth_bytes_per_s / GB:,.0f}",
            _floor_span(plan),
        )
        for plan in plans
    ]
    out.print(table(("card", ">memory, GB", ">GB/s", ">floor of a step, ms"), rows))
    for note in plans[0].notes:
        if all(note in plan.notes for plan in plans):
            say("", note)


def _not_legal_on(plans: Sequence[Plan]) -> list[str]:
    """On how many cards what was set is not legal, why on the first of them, and which these, or the others,
    are, whichever are fewer; nothing where it is on all."""
    refused = [each for each in plans if each.not_legal is not None]
    if not refused:
        return []
    legal = [each.card.name for each in plans if each.not_legal is None]
    first, names = refused[0], [each.card.name for each in refused]
    which = f"it is on {listed(legal)}" if len(legal) < len(names) else f"these are {listed(names)}"
    why = "" if first.not_legal is None else first.not_legal.why.rstrip(".")
    told = f"What is planned is not legal on {len(names)} of {len(plans)} cards; on {first.card.name}: {why}"
    return [f"{told}; {which}.", ""]


def _rows_by_memory(plans: Sequence[Plan]) -> list[tuple[str, ...]]:
    """A row for all cards of as much memory; where some of them take something else, one with their names."""
    alike: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for plan in plans:
        one, test = plan.memory.rooms
        told = (
            f"{one.usable_bytes / GB:.1f}",
            f"{plan.start.default_bytes / GB:.1f}",
            f"{one.needed_bytes / GB:.1f}" if one.fits else "—",
            "yes" if test.fits else "in turn" if plan.memory.in_turn_told else "no",
            _begins_from(plan),
        )
        names = alike.setdefault(f"{plan.card.memory_bytes / GB:.0f}", {}).setdefault(told, [])
        names.append(plan.card.name)
    rows: list[tuple[str, ...]] = []
    for memory, groups in alike.items():
        most, *others = sorted(groups.items(), key=lambda each: -len(each[1]))
        rows.append((memory, *most[0]))
        rows += [(f"{memory}: {name}", *told) for told, names in others for name in names]
    return rows


def _begins_from(plan: Plan) -> str:
    """What a campaign on the card begins from, or why there can't be one."""
    one = plan.memory.rooms[0]
    if one.fits:
        return plan.start.words or "the default"
    told = plan.memory.sentences[0].partition("would fit: ")[2]
    return f"nothing fits; would fit: {told}"


def print_start(plan: Plan) -> None:
    """Print what a campaign begins with, in short: whether it fits, what it can't turn, how long it takes."""
    out = console()
    one, test = plan.memory.rooms
    if plan.start.told is not None:
        out.print(f"baseline: {plan.start.told}", style=state("warn").style)
    if test.fits:
        needed = f"{format_bytes(one.needed_bytes)}, a test {format_bytes(test.needed_bytes)} of the"
        out.print(f"memory: a launch takes {needed} {format_bytes(test.usable_bytes)} that may be taken")
    elif plan.memory.in_turn_told is not None:
        taken = f"{format_bytes(one.needed_bytes)} of the {format_bytes(one.usable_bytes)}"
        out.print(f"memory: a launch takes {taken} that may be taken")
    else:
        out.print(f"memory: {plan.memory.sentences[0 if not one.fits else 1]}")
    if plan.memory.in_turn_told is not None:
        out.print(f"launches: {plan.memory.in_turn_told}")
    found = plan.first_verdict
    out.print(
        f"first verdict in {format_duration(found.least_s)} to {format_duration(found.most_s)}: "
        f"{'; '.join(found.basis)}"
    )
    out.print(f"cost: {_price(plan)}{_energy(plan)}")
    if plan.advice:
        out.print(f"budget: {plan.advice}")
    if all(row.standing is Standing.YES for row in plan.levers):
        out.print(f"levers: {count_words(plan.levers)}.")
    else:
        out.print(f"levers: {count_words(plan.levers)}; the others, and why:")
        out.print(lever_table(plan.levers, only_missing=True))
    for note in plan.notes:
        out.print(note)


def _in_turn(plan: Plan) -> tuple[str, ...]:
    return () if plan.memory.in_turn_told is None else (plan.memory.in_turn_told,)


def verdict_rows(plan: Plan) -> list[tuple[str, str | None]]:
    """Time to the first verdict and cost, with what they rest on; of a campaign that can't begin, that."""
    found = plan.first_verdict
    if not plan.start.fits:
        return [("first verdict", "none: no campaign begins here")]
    if plan.unfit is not None:
        return [("first verdict", "none: no campaign begins with this checkpoint")]
    return [
        ("first verdict", f"in {format_duration(found.least_s)} to {format_duration(found.most_s)}"),
        *(("" if place else "which rests on", each) for place, each in enumerate(found.basis)),
        ("cost", _price(plan) + _energy(plan)),
        ("budget", _budget(plan)),
    ]


def _budget(plan: Plan) -> str:
    """The budget, and what to say of it; one that is raised is told in that sentence alone."""
    if plan.raises_budget and plan.advice:
        return plan.advice
    return f"{format_duration(plan.spec.budget.wall_s)}. {plan.advice or ''}".strip()


def _price(plan: Plan) -> str:
    if is_rented(plan.spec.target):
        return RENTED
    return NO_PRICE if plan.card.here else NOT_HERE_PRICE


def _whole_usd(plan: Plan, priced: dict[str, Any] | None) -> float | None:
    """Expected dollars of the whole campaign; None where they are not known."""
    if not is_rented(plan.spec.target):
        return 0.0 if plan.card.here else None
    campaign = None if priced is None else priced.get("campaign")
    return None if campaign is None else float(campaign["expected_usd"])


def _energy(plan: Plan) -> str:
    energy = plan.most_energy_wh
    return "" if energy is None else f"; at most {format_energy(energy)} at the card's power limit"


def _head(plan: Plan) -> list[tuple[str, str | None]]:
    model, card, profile = plan.model, plan.card, plan.model.profile
    size = "" if model.file_bytes is None else f", {size_words(model.file_bytes)} of weight files"
    where = "" if model.whole else ", not here" if model.checkpoint else ", a shape without weights"
    stored = ", quantized as it is stored" if model.quantized else ""
    driver = "" if card.driver is None else f", driver {card.driver}"
    capability = f", compute capability {card.compute_capability}" if card.compute_capability else ""
    told = f"{card.memory_bytes / GB:.0f} GB"
    memory = "" if card.name.endswith(told) else f", {told}"
    workload = plan.spec.plan.workload
    documents = f"; documents of {workload.evaluation_tokens_per_document} tokens are scored"
    scored = "" if plan.spec.latency_only else documents
    return [
        (
            "model",
            f"{model.name}: {_parameters(profile.text_parameters)}{_of_a_token(model)}{stored}{size}{where}",
        ),
        ("on", f"{card.name}{memory}{capability}{driver}"),
        ("served by", f"{plan.served_by or plan.spec.engine}, in the space {plan.spec.space}"),
        (
            "workload",
            f"{workload.concurrency} at once, {workload.prompt_tokens} in, {workload.new_tokens} out, asked "
            f"{asked_over_words(workload.asked_over)}{scored}",
        ),
        ("also measured", "; ".join(each.words for each in further_of(plan.spec)) or None),
        ("configuration", _configuration(plan)),
    ]


def _configuration(plan: Plan) -> str:
    """The configuration, its values marked of which the levers say that they are not known to be served."""
    unsure = {
        row.knob
        for row in plan.levers
        if row.standing is Standing.NOT_KNOWN and same_value(plan.configuration.get(row.knob), row.value)
    }
    told = {
        knob: f"{value_words(value)} ({Standing.NOT_KNOWN.value})" if knob in unsure else value
        for knob, value in plan.configuration.items()
    }
    return configuration_words(told)


def _parameters(count: int) -> str:
    return f"{_count(count)} parameters"


def _count(count: float) -> str:
    return f"{count / 1e9:.2f} billion" if count >= 1e9 else f"{count / 1e6:.1f} million"


def _of_a_token(model: ModelFound) -> str:
    """How many of them a token of a Mixture of Experts is computed with, in words."""
    profile = model.profile
    return "" if profile.experts is None else f", {_count(profile.active_parameters)} of them for each token"


def lever_table(rows: Sequence[LeverRow], *, only_missing: bool = False) -> RenderableType:
    """A line for the legal values of a knob, and one for each reason against others; with `only_missing` the
    latter alone."""
    found: list[tuple[str, ...]] = []
    for knob in dict.fromkeys(row.knob for row in rows):
        own = [row for row in rows if row.knob == knob]
        legal = ", ".join(value_words(row.value) for row in own if row.standing is Standing.YES)
        lines = _reasons([row for row in own if row.standing is not Standing.YES])
        if only_missing:
            found += [(knob if place == 0 else "", line) for place, line in enumerate(lines)]
            continue
        found += [
            (knob if place == 0 else "", (legal or "none") if place == 0 else "", line)
            for place, line in enumerate(lines or [""])
        ]
    if only_missing:
        return table(("knob", NOT_OFFERED), found, wide=(NOT_OFFERED,))
    return table(
        ("knob", "legal", NOT_OFFERED),
        [*found, ("in all", count_words(rows), "")],
        wide=("legal", NOT_OFFERED),
    )


def _reasons(rows: Sequence[LeverRow]) -> list[str]:
    """A line for each reason; of many that differ by figures or their value alone, the first one's."""
    alike: dict[tuple[Standing, str], dict[str, list[str]]] = {}
    for row in rows:
        why, value = row.why or "", value_words(row.value)
        words = _FIGURE.sub("", why.replace(f"{row.knob}={value}", row.knob))
        by_reason = alike.setdefault((row.standing, words), {})
        by_reason.setdefault(why, []).append(value)
    lines: list[str] = []
    for (standing, _), by_reason in alike.items():
        only = "" if standing is Standing.NO else f" ({standing.value})"
        if len(by_reason) < FEWEST_ALIKE:
            lines += [f"{', '.join(values)}{only}: {why}" for why, values in by_reason.items()]
            continue
        why, first = next(iter(by_reason.items()))
        every = ", ".join(value for values in by_reason.values() for value in values)
        lines.append(f"{every}{only}; of {', '.join(first)}: {why}")
    return lines


def as_document(plan: Plan, quoted: Quoted | None = None) -> dict[str, Any]:
    """The same as JSON; sizes in bytes, times in seconds, amounts in dollars."""
    priced = None if quoted is None else prices_document(quoted, plan.spec.budget.wall_s)
    model, card, checkpoint = plan.model, plan.card, plan.model.checkpoint
    found = plan.first_verdict
    return {
        "model": {
            "asked": model.asked,
            **({} if checkpoint is None else checkpoint.as_found() or {}),
            "folder": None if checkpoint is None else str(checkpoint.folder),
            "weights_here": model.whole,
            "text_parameters": model.profile.text_parameters,
            "mtp_parameters": model.profile.mtp_parameters,
            "active_parameters": round(model.profile.active_parameters),
            "stored_quantized": model.quantized,
            "file_bytes": model.file_bytes,
            "unfit": plan.unfit,
        },
        "target": {
            "name": card.name,
            "here": card.here,
            "gpu": card.is_gpu,
            "memory_bytes": card.memory_bytes,
            "free_bytes": card.free_bytes,
            "compute_capability": card.compute_capability,
            "driver": card.driver,
            "listed_as": None if card.listed is None else card.listed.name,
        },
        "engine": plan.spec.engine,
        "served_by": plan.served_by,
        "space": plan.spec.space,
        "workload": plan.spec.plan.workload.model_dump(),
        "further_workloads": [each.model_dump() for each in further_of(plan.spec)],
        "configuration": dict(plan.configuration),
        "begins_from": {
            "configuration": dict(plan.start.configuration),
            "default": plan.start.is_default,
            "fits": plan.start.fits,
            "why_not_the_default": plan.start.refused,
            "told": plan.start.told,
        },
        "memory": {
            "parts": [asdict(part) for part in plan.memory.parts],
            "rooms": [
                {**asdict(each), "fits": each.fits, "missing_bytes": each.missing_bytes}
                for each in plan.memory.rooms
            ],
            "told": list(plan.memory.sentences),
            "launches_at_once": plan.memory.at_once,
            "in_turn": plan.memory.in_turn_told,
        },
        "levers": [asdict(row) for row in plan.levers],
        "floors": [asdict(each) for each in plan.floors],
        "first_verdict": {
            "least_s": found.least_s,
            "most_s": found.most_s,
            "baseline_s": found.baseline_s,
            "budget_s": plan.spec.budget.wall_s,
            "basis": list(found.basis),
            "advice": plan.advice,
        },
        "cost": {
            "usd": _whole_usd(plan, priced),
            "basis": _price(plan),
            "most_energy_wh": plan.most_energy_wh,
            "rented": priced,
        },
        "not_legal": None if plan.not_legal is None else asdict(plan.not_legal),
        "notes": list(plan.notes),
    }
