"""A table as a page in Markdown: times of each load, a step's parts, what failed, what loads do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agent.tables.aa import MOST, Repeated, launch_noise, repeated_by_workload
from agent.tables.export import RUN_MARK, Exported
from agent.tables.grid import ADDED_LATER, DUMMY
from agent.tables.journal import Line, scope_of
from agent.tables.markdown import MISSING, markdown_table
from agent.tables.origins import RUN, run_groups, with_origins
from agent.tables.profile_sections import prompt_section, step_section
from agent.tables.same import same_rows
from configs.asked_over import IN_ENGINE, asked_over_words
from configs.errors import UsageError
from experiments.space.configuration import Configuration, KnobValue
from knowledge.figures import counted

PLAIN: Mapping[str, KnobValue] = {
    "quantization.bits": 4,
    "quantization.symmetric": True,
    "quantization.out_proj_bits": 4,
    "quantization.lm_head": "high",
    "quantization.corpus": "raw",
    "quantization.samples": 32,
    "serving.linear_backend": "auto",
    **ADDED_LATER,
}
"""Values of knobs that only some loads have, which say nothing where they stand."""

WHOSE_DIFFERENCE = "so a difference between loads of two of them may be the machine's"
"""Of runs of which it is not told that one GPU had them all."""

LEFT_OUT = "Launches of other runs, which are in no row above:"
"""What stands over them."""


@dataclass(frozen=True)
class _Load:
    digest: str
    stored_as: str
    configuration: Configuration


def page(lines: Sequence[Line], table: Exported, title: str, commands: Sequence[str]) -> str:
    """The page of an archive's lines and the CSV that was made of them.

    Raises `UsageError` where no workload of any load was measured.
    """
    if all(row["feasible"] != "yes" for row in table.rows):
        raise UsageError(
            "Nothing of this table has been measured, so there is no page of it.",
            "Measure on with: autoinfer table measure GRID --out DIR",
        )
    loads = _loads(lines)
    first = next(iter(loads.values()))
    words = {digest: _words(first, load) for digest, load in loads.items()}
    sections = [
        f"# {title}",
        _about(lines, words, commands),
        "## Times",
        _times(table, words),
        "## Times to the first token",
        _first_tokens(table, words),
        "## Where a step's time goes",
        step_section(lines, words),
        *prompt_section(lines, words),
        "## What failed",
        _failures(lines, words),
        "## A load beside a measurement",
        _same(lines, words),
        *_launches(lines),
    ]
    return "\n\n".join(sections) + "\n"


def _loads(lines: Iterable[Line]) -> dict[str, _Load]:
    found: dict[str, _Load] = {}
    for line in lines:
        if "load" in line:
            load = _Load(line["load"], line["stored_as"], Configuration.of(line["configuration"]))
            found.setdefault(line["load"], load)
    return found


def _words(first: _Load, load: _Load) -> str:
    """How a load differs from the first one."""
    changes = [
        f"{change.knob.partition('.')[2]} {change.after}"
        for change in first.configuration.changes_to(load.configuration)
        if change.after is not None and PLAIN.get(change.knob) != change.after
    ]
    stored = [] if load.stored_as in (first.stored_as, "bfloat16") else [f"stored as {load.stored_as}"]
    return ", ".join([*changes, *stored]) or "the grid's first"


def _about(lines: Sequence[Line], words: Mapping[str, str], commands: Sequence[str]) -> str:
    identities = [line["identity"] for line in lines]
    cells = [line for line in lines if line["kind"] == "cell" and not line.get("same")]
    measured = {line["load"] for line in cells}
    failed = {line["load"] for line in lines if line["kind"] == "failure"} - measured
    keys = {line["workload"]["key"] for line in cells}
    whole = {load for load in measured if {x["workload"]["key"] for x in cells if x["load"] == load} == keys}
    days = sorted({line["time"][:10] for line in lines})
    facts = [
        f"- {_each(identities, 'name')}, driver {_each(identities, 'driver')}, vLLM "
        f"{_each(identities, 'engine_version')}; {', '.join(days)}",
        *_asked(lines),
        f"- {counted(len(whole), 'load')} measured in all workloads, {len(measured - whole)} in some, "
        f"{len(failed)} that failed; raw times are in the journal beside",
        *(_runs(lines, words) or [f"- `{command}`" for command in commands]),
    ]
    if any(line.get("weights") == DUMMY for line in lines):
        facts.append(
            "- **Times alone: the weights are made up.** Nothing here says what a model answers, and with "
            "drafting only the time of a step is told, not how many drafts would be accepted"
        )
    return "\n".join(facts)


def _runs(lines: Sequence[Line], words: Mapping[str, str]) -> list[str]:
    """Each run with its command, when it measured, and what; nothing where one run measured everything."""
    placed = with_origins(lines)
    cells = [(origin, line) for origin, line in placed if line["kind"] == "cell"]
    if len({origin.run for origin, _ in cells}) < 2:
        return []
    uuids = {origin.uuid for origin, _ in cells}
    told = "on one GPU" if len(uuids) == 1 and None not in uuids else WHOSE_DIFFERENCE
    if len(run_groups(lines)) > 1:
        told += f": compare rows of the same `{RUN}`"
    begun = [(origin.run, line) for origin, line in placed if line["kind"] == "begin"]
    facts = [f"- measured in {counted(len(begun), 'run')}, {told}"]
    for run, begin in begun:
        own = [line for origin, line in cells if origin.run == run]
        until = f" to {own[-1]['time'][11:16]}" if own else ""
        loads = "; ".join(words[load] for load in dict.fromkeys(line["load"] for line in own))
        when = f"{begin['time'][:10]}, {begin['time'][11:16]}{until} UTC"
        facts.append(f"- run {run}, {when}: `{begin['command']}`: {loads or 'nothing'}")
    return facts


def _asked(lines: Sequence[Line]) -> list[str]:
    """How vLLM was asked, where that was not in its own process alone."""
    ways = sorted({scope_of(line)[-1] for line in lines if line["kind"] == "cell"})
    return [f"- asked {' and '.join(map(asked_over_words, ways))}"] if ways and ways != [IN_ENGINE] else []


def _each(identities: Iterable[Mapping[str, Any]], name: str) -> str:
    return ", ".join(sorted({str(each[name]) for each in identities if each.get(name)})) or MISSING


Cells: TypeAlias = Mapping[tuple[int, int], Mapping[str, object]]
"""Rows of a load by prompt tokens and requests at once."""


def _by_load(rows: Iterable[Mapping[str, object]]) -> dict[str, Cells]:
    """The rows of each load that ran; the fastest step first."""
    found: dict[str, dict[tuple[int, int], Mapping[str, object]]] = {}
    for row in rows:
        if row["feasible"] == "yes":
            found.setdefault(str(row["load"]), {})[_place(row)] = row
    first = min(place for cells in found.values() for place in cells)
    order = sorted(found, key=lambda load: _number(found[load].get(first, {}).get("step_ms_median")))
    return {load: found[load] for load in order}


def _place(row: Mapping[str, object]) -> tuple[int, int]:
    return int(str(row["prompt_tokens"])), int(str(row["concurrency"]))


def _tables(table: Exported, words: Mapping[str, str], metric: str, what: str, column: str) -> str:
    """A row for each load, the fastest step first; a column for each workload, and of a step a last one with
    its floor. `what` ran of each is in `column`. Below, the same of the launches that were left out."""
    measured = [row for row in table.rows if row["feasible"] == "yes"]
    places = sorted({_place(row) for row in measured})
    floors = metric == "step_ms"

    def body(rows: Iterable[Mapping[str, object]]) -> list[list[str]]:
        return [
            [
                words[load],
                *([_run_of(cells)] if RUN in table.columns else []),
                str(next(iter(cells.values())).get(column) or MISSING),
                *(_spread(cells.get(place), metric) for place in places),
                *([_two(cells.get(places[0], {}).get("floor_ms"))] if floors else []),
            ]
            for load, cells in _by_load(rows).items()
        ]

    head = [
        "load",
        *([RUN] if RUN in table.columns else []),
        what,
        *(f"{tokens} in, {at_once} at once" for tokens, at_once in places),
        *(["floor"] if floors else []),
    ]
    texts = [markdown_table(head, body(measured))]
    if table.left_out:
        runs = dict.fromkeys(row[RUN] for row in table.left_out)
        left = [body(row for row in table.left_out if row[RUN] == run) for run in runs]
        texts += [LEFT_OUT, markdown_table(head, [each for rows in left for each in rows])]
    return "\n\n".join(texts)


def _run_of(cells: Cells) -> str:
    """The runs that rows of a load are of."""
    runs = {run for row in cells.values() for run in str(row[RUN]).split(RUN_MARK)}
    return ", ".join(sorted(runs, key=int))


def _times(table: Exported, words: Mapping[str, str]) -> str:
    told = (
        "Milliseconds of a step, median and standard deviation of requests, those of several launches taken "
        "together; without drafting that is TPOT. The floor is of the first column: the bytes that a step "
        "must move over the listed bandwidth of the memory."
    )
    return f"{told}\n\n{_tables(table, words, 'step_ms', 'kernel', 'resolved.linear_kernel')}"


def _first_tokens(table: Exported, words: Mapping[str, str]) -> str:
    told = (
        "Milliseconds from a request to its first token (TTFT), median and standard deviation of requests: "
        "with several at once a prompt waits for those before it."
    )
    return f"{told}\n\n{_tables(table, words, 'ttft_ms', 'GDN prefill', 'resolved.gdn_prefill')}"


def _spread(row: Mapping[str, object] | None, metric: str) -> str:
    """The median of a metric and the standard deviation beside it."""
    if row is None or not isinstance(row.get(f"{metric}_median"), float):
        return MISSING
    sd = row.get(f"{metric}_sd")
    return _two(row[f"{metric}_median"]) + (f" ± {sd:.2f}" if isinstance(sd, float) else "")


def _failures(lines: Sequence[Line], words: Mapping[str, str]) -> str:
    causes = {
        (line["load"], _failed_part(line)): line["failure"]
        for line in lines
        if line["kind"] in ("failure", "profile") and "failure" in line
    }
    if not causes:
        return "Nothing in the journal failed."
    body = [
        [words[load], part, failure["kind"], failure["cause"].replace("|", "\\|")]
        for (load, part), failure in causes.items()
    ]
    return markdown_table(["load", "what", "kind", "cause"], body)


def _failed_part(line: Line) -> str:
    """What of a load failed, in words: itself, its profile, a cell, or a cell of `same` and what went on
    beside it."""
    if line["kind"] == "profile":
        return "its profile"
    if not line.get("workload"):
        return "the load"
    same = line.get("same")
    return str(line["workload"]["key"]) + (f", again while {same['beside']}" if same else "")


def _same(lines: Sequence[Line], words: Mapping[str, str]) -> str:
    rows = same_rows(lines)
    if not rows:
        return "Not measured here."
    alone = {(row.launch, row.workload): row for row in reversed(rows)}
    body = [
        [
            words[row.load],
            row.workload,
            row.beside if row.held else f"{row.beside}, not all the time",
            ", ".join(f"{each:.3f}" for each in row.tpot_ms),
            f"{row.against(alone[row.launch, row.workload]):.4f}",
        ]
        for row in rows
    ]
    told = "The same cells again while nothing loads and while another configuration does; TPOT, ms."
    head = ["load", "workload", "meanwhile", "each repetition", "over the first"]
    return f"{told}\n\n{markdown_table(head, body)}"


def _launches(lines: Sequence[Line]) -> list[str]:
    """How far launches of one configuration lie apart, by workload, those that were measured together and
    those that were not; nothing where none was launched twice."""
    found = []
    for together, heading, told in (
        (
            True,
            "Launches of the same configuration",
            "By how much a step of the slower of two launches of the same configuration takes longer: the "
            "median pair of launches, what most keep within, and the furthest. A difference between two rows "
            "above that is no larger tells little.",
        ),
        (
            False,
            "Launches of the same configuration in two runs",
            "By how much a step of the slower of two launches of the same configuration takes longer that no "
            "run and, as far as is told, no GPU had both of: what launches differ by and what GPUs and hosts "
            "do, together.",
        ),
    ):
        compared = repeated_by_workload(lines, together=together)
        if compared:
            found += [f"## {heading}", f"{told}\n\n{_noise(compared, with_sd=together)}"]
    return found


def _noise(compared: Mapping[str, Sequence[Repeated]], *, with_sd: bool) -> str:
    """The noise of each workload; the deviation `with_sd` is that of a launch alone."""
    head = ["workload", "loads", "median", f"{MOST:.0%} within", "furthest", "sd of a launch"]
    body = []
    for workload, loads in compared.items():
        noise = launch_noise(loads)
        shares = (noise.median_share, noise.most_share, noise.furthest_share, noise.launch_sd)
        body.append([workload, str(noise.loads), *(f"{share:.1%}" for share in shares)])
    shown = len(head) if with_sd else len(head) - 1
    return markdown_table(head[:shown], [row[:shown] for row in body])


def _number(value: object) -> float:
    return value if isinstance(value, float) else float("inf")


def _two(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else MISSING
