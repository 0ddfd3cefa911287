"""The page of a campaign beside random search, from what `against_random.sh` left.

    python -m tests.device.campaigns_page OUT --title "A campaign on the 9B shape" --date 2026-11-24 \\
        --command "…" --samples docs/results/campaigns/h200-9b --out docs/results/h200-campaign.md

A campaign that ran alone lies in OUT/own alone, and one that came after it in the same database (`--then
C-2`) is told after it. Everything is read from the databases by `autoinfer … --json`; the samples of times
behind it go to CSV files beside, without the gaps between tokens.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from knowledge.figures import in_places

TIMES = frozenset({"tpot_ms", "ttft_ms", "e2el_ms"})
QUALITY = frozenset({"nll_bits", "kl_nats", "top1_agreement", "task_correct"})
SAMPLED = TIMES | QUALITY
"""Metrics whose samples are kept; what drafts gave step by step is in the database alone."""

COLUMNS = ("experiment", "arm", "launch", "stage", "block", "position", "item", "metric", "value")
ENDED = "done"


def asked(folder: Path, *arguments: str) -> Any:
    """What autoinfer says of the database in `folder`, as JSON; ends with its words where it refuses."""
    command = [sys.executable, "-m", "cli", "--data-dir", str(folder), *arguments, "--json"]
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    if told.returncode:
        sys.exit(told.stderr.strip())
    return json.loads(told.stdout)


@dataclass(frozen=True)
class Course:
    """One campaign: itself, its summary, and its experiments from the first to the last."""

    name: str
    campaign: Any
    summary: Any
    experiments: tuple[Any, ...]

    @classmethod
    def of(cls, folder: Path, name: str, campaign: str = "C-1") -> Course:
        """Read a campaign of a database."""
        rows = asked(folder, "experiments", "--campaign", campaign, "--limit", "5000")["items"]
        shown = [asked(folder, "show", row["id"], "--samples") for row in rows]
        return cls(
            name,
            asked(folder, "show", campaign),
            asked(folder, "summary", "--campaign", campaign),
            tuple(sorted(shown, key=lambda each: str(each["id"]))),
        )

    def since_start_s(self, moment: str) -> float:
        """Seconds from the campaign's start to a moment."""
        began = datetime.fromisoformat(self.campaign["started_at"])
        return (datetime.fromisoformat(moment) - began).total_seconds()

    @property
    def on_several(self) -> bool:
        """Whether its experiments ran on more than one device."""
        return len({each["device"] for each in self.experiments}) > 1

    def table(self) -> list[str]:
        """A line a finished experiment: when it ran, on what, what it changed, what came of it."""
        on = ["on"] if self.on_several else []
        names = ["experiment", "begun after", "ended after", *on, "kind", "change"]
        names += ["predicted, 80 %", "measured, 95 %", "outcome", "why"]
        lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
        for each in self.experiments:
            if each["finished_at"] is None:
                continue
            change = ", ".join(f"`{c['knob']}` {c['before']} → {c['after']}" for c in each["change"]) or "—"
            cells = [
                each["id"],
                _clock(self.since_start_s(each["started_at"])),
                _clock(self.since_start_s(each["finished_at"])),
                *([each["device"].rpartition("/")[2]] if on else []),
                each["kind"],
                change,
                _percent(each["predicted"]),
                _percent(each["effect"]),
                each["outcome"] or each["state"],
                each["failure"] or f"{each['reason'] or ''}{_by_another_judge(each['judged_again'])}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
        return lines

    def floors(self) -> list[str]:
        """What the step of every profiled experiment would take by its bytes alone."""
        return [
            f"Floor of {each['id']} by physics: {in_places(profile['floor_ms'])} of "
            f"{in_places(profile['step_ms'])} ms a step, its bytes at "
            f"{profile['bandwidth_bytes_per_s'] / 1e9:,.0f} GB/s ({profile['bandwidth_method']})."
            for each in self.experiments
            if (profile := each["profile"]) is not None and profile.get("floor_ms") is not None
        ] + [
            f"To the first token of a lone prompt of {prompt['prompt_tokens']:,} tokens {each['id']} takes "
            f"{prompt['step_ms']:.1f} ms within the engine, without HTTP: {prompt['floor_ms']:.1f} by "
            f"physics, its products at {prompt['operations_per_s'] / 1e12:,.0f} TFLOP/s "
            f"({prompt['operations_method']}); no kernel runs in {_outside_ms(prompt):.1f}."
            for each in self.experiments
            if (prompt := each.get("prompt_profile")) is not None and prompt["operations_per_s"]
        ]

    def samples(self) -> list[list[object]]:
        """The samples of `SAMPLED`."""
        return [
            [each["id"], *(sample[column] for column in ("arm", *COLUMNS[2:]))]
            for each in self.experiments
            for sample in each["samples"] or ()
            if sample["metric"] in SAMPLED
        ]


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _outside_ms(profile: Mapping[str, Any]) -> float:
    return sum(part["time_ms"] for part in profile["parts"] if part["part"] == "outside")


def _percent(effect: Any) -> str:
    """An effect, in percent; of shares, of which more is better, in points, as all pages have it."""
    if effect is None or effect.get("relative") is None:
        return "—"
    is_share = effect["metric"] == "task_correct"
    figures = [effect["relative"], effect.get("low"), effect.get("high")]
    signed = [-each if is_share else each for each in figures if each is not None]
    low_first = [signed[0], *sorted(signed[1:])]
    told = [f"{100 * each:+.1f}".replace("-", "−") for each in low_first]
    unit = "points" if is_share else "%"
    return f"{told[0]} {unit}" + (f" [{told[1]}, {told[2]}]" if len(told) == 3 else "")


def _by_another_judge(judged_again: str | None) -> str:
    """What a judge of another version than the sealed one says of the samples, where it differs."""
    differs = (
        judged_again is not None and "is installed" in judged_again and "another verdict" in judged_again
    )
    return f" Judged again: {judged_again}." if differs else ""


def page(
    courses: list[Course], title: str, date: str, command: str, files: list[Path], note: str | None
) -> str:
    """The whole page."""
    first = courses[0].campaign
    gpu = first["gpu"] or {}
    versions = next((each["versions"] for each in courses[0].experiments if each.get("versions")), {})
    ran = (
        ", ".join(f"{name} {version}" for name, version in sorted(versions.items()) if version)
        or "versions not told"
    )
    told = [
        f"# {title}",
        "",
        f"{date}; {first['model']} on {gpu.get('name', first['target'])}, driver "
        f"{gpu.get('driver', 'not told')}; {ran}. Made by `{command}`, then "
        "`python -m tests.device.campaigns_page`. Samples: "
        f"{', '.join(f'`{each}`' for each in files)}.",
        *(["", note] if note else []),
    ]
    for course in courses:
        best, spent = course.summary["best"], course.summary["spent"]
        told += [
            "",
            f"## {course.name}",
            "",
            course.summary["headline"],
            "",
            f"- {best['sentence']}",
            *(f"- {line}" for line in best["lines"]),
            *(f"- {line}" for line in course.floors()),
            f"- {spent['sentence']}",
            f"- Supported: {course.summary['supported']['sentence']}",
            f"- Surprises: {course.summary['surprised']['sentence']}",
            "",
            *course.table(),
        ]
    return "\n".join(told) + "\n"


def main() -> None:
    """Write the page and its samples."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--title", required=True)
    parser.add_argument("--date", required=True)
    parser.add_argument("--command", required=True)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--note", help="what a reader has to know before the figures")
    parser.add_argument("--then", metavar="C-ID", action="append", default=[])
    given = parser.parse_args()
    names = {"own": "By the agent", "random": "By random search"}
    ran = [which for which in names if (given.folder / which).is_dir()]
    courses = [Course.of(given.folder / which, names[which]) for which in ran]
    courses += [
        Course.of(given.folder / "own", f"Then {each}, on what was known by then", each)
        for each in given.then
    ]
    files = []
    given.samples.parent.mkdir(parents=True, exist_ok=True)
    for course, which in zip(courses, [*ran, *map(str.lower, given.then)], strict=True):
        files.append(given.samples.with_name(f"{given.samples.name}-{which}.csv"))
        with files[-1].open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *course.samples()])
    given.out.write_text(page(courses, given.title, given.date, given.command, files, given.note))


if __name__ == "__main__":
    main()
