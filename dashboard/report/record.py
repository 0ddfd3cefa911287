"""What a report rests on: seals, costs, environment, how to repeat it, raw samples."""

from __future__ import annotations

import json

from configs.quantities import format_energy, format_usd
from dashboard.rendering.figures import seconds, whole
from dashboard.report import words
from dashboard.report.document import Block, Listing, Paragraph, Row, Section, table
from knowledge.figures import counted, size
from knowledge.queries.spent.energy import DeviceEnergyView, EnergyView
from knowledge.report.evidence import SPEC_FILE
from knowledge.report.view import ReportView
from knowledge.telling.energy_words import energy_told

COVERS = (
    "A seal is one SHA-256 over everything that decides what is measured and how it is judged: metric, "
    "prediction, "
    "smallest effect, levels, margins, workload and stopping; both arms and the reference of quality; "
    "judge with "
    "version, engine, model, device, seed, noise profile, and the texts that prompts and documents are cut "
    "from. It is "
    "written down before the first launch. Not sealed are ids and the words of a hypothesis. Held means "
    "that every stored "
    "copy (job, plan, arms, hypothesis, verdict, log) still says what was sealed; who rewrites all of them "
    "and makes the "
    "hash anew is not found."
)
"""What a seal covers; see docs/discovery.md."""


SAMPLES = (
    "Samples by run, of every metric and every launch, those that score quality too. A verdict counts fewer: "
    "the samples of its own metric in the launches that it compares."
)
"""The caption of the samples: `autoinfer show` tells what a verdict counts."""


def seals(view: ReportView) -> Section:
    """The preregistrations."""
    title = "Preregistration"
    if not view.seals:
        return Section(title, (Paragraph("No test was preregistered, because none was dispatched."),))
    rows = [
        Row(
            (
                each.experiment,
                each.hypothesis or words.NONE,
                f"`{each.digest}`",
                words.instant(each.sealed_at),
                words.instant(each.began_at),
                "held"
                if each.holds
                else each.broken or "not checked: what was sealed was deleted here with its job",
            )
        )
        for each in view.seals
    ]
    return Section(
        title,
        (
            Paragraph(COVERS),
            table(
                "Seals, times in UTC. A run began when a worker took it up, before its first launch.",
                ("Run", "Hypothesis", "SHA-256", "Sealed", "Began", "Now"),
                rows,
            ),
        ),
    )


def costs(view: ReportView) -> Section:
    """Device seconds and dollars."""
    found = view.costs
    if not found.total.experiments:
        return Section("Costs", (Paragraph("Nothing was spent: no experiment began."),))
    rows = [
        Row((each.name, whole(each.experiments), seconds(each.spent_s), f"{each.spent_s:.1f}"))
        for each in (*found.outcomes, found.total)
    ]
    blocks: list[Block] = [
        Paragraph(found.basis),
        table("Device time by outcome.", ("Outcome", ">Experiments", ">Time", ">Seconds"), rows),
    ]
    if found.saved is not None:
        blocks.append(Paragraph(found.saved))
    blocks += _energy(found.energy)
    money = found.money
    if money.total.runs:
        blocks += [
            Paragraph(money.basis),
            table(
                "Dollars by target.",
                ("Target", ">Runs", ">Quoted at most", ">Estimated", ">Actual", "Actual rests on"),
                [
                    Row(
                        (
                            each.name,
                            whole(each.runs),
                            format_usd(each.quoted_usd),
                            format_usd(each.estimated_usd),
                            format_usd(each.actual_usd),
                            each.rests_on,
                        )
                    )
                    for each in (*money.targets, money.total)
                ],
            ),
        ]
    else:
        blocks.append(Paragraph("No rented machine was paid for: $0."))
    return Section("Costs", tuple(blocks))


def _energy(found: EnergyView | None) -> list[Block]:
    """What cards took, and of several each."""
    told = energy_told(found)
    if found is None or told is None:
        return []
    if found.energy_wh is None:
        return [Paragraph(f"{told}.")]
    rows = [
        Row(
            (
                each.device,
                format_energy(each.energy_wh),
                _power(each),
                seconds(each.covered_s),
                seconds(each.job_s),
            )
        )
        for each in found.devices
    ]
    head = ("Card", ">Energy", ">Mean power", ">Read for", ">Of")
    return [Paragraph(f"{told}. {found.basis}"), table("Energy by card.", head, rows)]


def _power(device: DeviceEnergyView) -> str:
    return words.NONE if device.power_w is None else f"{whole(round(device.power_w))} W"


def environment(view: ReportView) -> Section:
    """Hardware, driver and versions."""
    if not view.machines:
        return Section("Environment", (Paragraph("Nothing was launched, so no environment was recorded."),))
    rows = []
    for place, each in enumerate(view.machines, start=1):
        facts = [
            ("Launches", f"{whole(each.launches)}, of {_runs(each.experiments)}"),
            (
                "Processor",
                None
                if each.cpu is None
                else f"{each.cpu}, {each.cores} cores, {words.gib(each.memory_bytes)}",
            ),
            ("GPU", None if each.gpu is None else f"{each.gpu}, {words.gib(each.gpu_memory_bytes)}"),
            ("Driver", each.driver),
            ("System", " ".join(filter(None, (each.os, each.kernel))) or None),
            ("Python", each.python),
            (
                "Packages",
                ", ".join(
                    f"`{name}=={version}`" for name, version in each.packages.items() if name != "python"
                )
                or None,
            ),
            (
                "Revision of autoinfer",
                None
                if each.git_revision is None
                else f"`{each.git_revision}`{', with changes' if each.git_changed else ''}",
            ),
        ]
        rows += [Row((str(place), name, said)) for name, said in facts if said]
    blocks: list[Block] = [
        table(
            "What launches ran on; one number for each machine and set of versions.",
            ("Machine", "What", "Value"),
            rows,
        )
    ]
    if view.throttling is not None:
        blocks += [Paragraph(each) for each in (view.throttling.told, view.throttling.apart) if each]
    return Section("Environment", tuple(blocks))


def _runs(labels: tuple[str, ...]) -> str:
    return labels[0] if len(labels) == 1 else f"{len(labels)} runs, {labels[0]} to {labels[-1]}"


def reproduction(view: ReportView) -> Section:
    """How to do it again."""
    blocks: list[Block] = [
        table(
            "Commands.",
            ("What", "Command"),
            [Row((each.what, f"`{each.command}`")) for each in view.commands],
        ),
    ]
    if view.artifacts:
        blocks.append(
            table(
                "Artifacts, each under the SHA-256 of what it was made from and with.",
                ("Kind", "Digest", ">Size", ">Built in", "Used by"),
                [
                    Row(
                        (
                            each.kind,
                            f"`{each.digest}`",
                            size(each.bytes),
                            seconds(each.build_s),
                            _runs(each.experiments),
                        )
                    )
                    for each in view.artifacts
                ],
            )
        )
    blocks += [
        Paragraph(f"`{SPEC_FILE}`, the specification as it was run (JSON, which is YAML too):"),
        Listing(json.dumps(view.spec, indent=2, ensure_ascii=False)),
    ]
    return Section("Reproduction", tuple(blocks))


def samples(view: ReportView) -> Section:
    """Raw samples: their digests, and how to get them."""
    if not view.samples:
        return Section("Raw samples", (Paragraph("There are none: nothing was timed or scored."),))
    total = sum(each.samples for each in view.samples)
    rows = [
        Row(
            (
                each.experiment,
                each.kind.value,
                words.NONE if each.seed is None else str(each.seed),
                whole(each.launches),
                whole(each.samples),
                f"`{each.digest}`",
            )
        )
        for each in view.samples
    ]
    return Section(
        "Raw samples",
        (
            Paragraph(
                f"Every figure above leads back to {counted(total, 'raw sample')} in the database. Those "
                "of a run are "
                f"written by `{view.samples[0].command}`, its own label in place of "
                f"{view.samples[0].experiment}. The digest is over a line of JSON for each "
                "sample in the order taken: arm, index of the launch, stage, block, position, item, "
                "number, metric, unit, value."
            ),
            table(SAMPLES, ("Run", "Kind", ">Seed", ">Launches", ">Samples", "SHA-256"), rows),
        ),
    )
