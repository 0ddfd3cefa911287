"""Where a step's time goes, and that to a lone prompt's first token, on a table's page. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agent.tables.journal import Line
from agent.tables.markdown import MISSING, markdown_table
from agent.tables.origins import RUN, main_last, run_groups
from knowledge.queries.measured.step_profile import GB, TERA, StepProfileView, profile_view

PARTS = (
    "gate_up_proj",
    "down_proj",
    "in_proj_qkvz",
    "out_proj",
    "qkv_proj",
    "o_proj",
    "lm_head",
    "in_proj_ba",
    "gdn_state",
    "conv1d",
    "attention",
    "small",
    "sampling",
    "outside",
)
"""Columns of the parts; what else there is has a column of its own, `others`."""

FLOOR = "its floor"
"""The row below a load with the least time that each of its parts can take."""

US_PER_MS = 1e3


def step_section(lines: Sequence[Line], words: Mapping[str, str]) -> str:
    """The time of each part of a step by load, microseconds, of the last profile that each has, one of the
    main runs where there is one."""
    placed = [each for each in main_last(lines) if each[1]["kind"] == "profile" and "parts" in each[1]]
    found = {line["load"]: profile_view(line) for _, line in placed}
    runs = {line["load"]: origin.run for origin, line in placed}
    if not found:
        return "No profile was kept."
    told = (
        "Microseconds of a step of one request at the shortest prompt, by part (docs/profile.md). `outside` "
        f"is what no kernel ran for{_beside(lines)}. `small` are norms, gates, activations and copies."
        f"{_floor_told(found.values())}{_scaled_told(found, words)}"
    )
    return f"{told}\n\n{_part_rows('step', found, words, _shown(runs, lines))}"


def prompt_section(lines: Sequence[Line], words: Mapping[str, str]) -> tuple[str, ...]:
    """The time to a lone prompt's first token by part and load, microseconds, of the last profile that each
    has, one of the main runs where there is one; below, why there is none of the other loads. Nothing where
    no prompt was to be profiled."""
    placed = [each for each in main_last(lines) if each[1]["kind"] == "profile" and each[1].get("prompt")]
    kept = [(origin, line) for origin, line in placed if line["prompt"].get("parts")]
    found = {line["load"]: _prompt(line) for _, line in kept}
    runs = _shown({line["load"]: origin.run for origin, line in kept}, lines)
    causes = {line["load"]: line["prompt"].get("failure") for _, line in placed}
    failed = [
        f"- {words[load]}: no lone prompt was profiled. {cause}"
        for load, cause in causes.items()
        if cause and load not in found
    ]
    texts = [
        *([_prompts(lines, found, words, runs)] if found else []),
        *(["\n".join(failed)] if failed else []),
    ]
    return ("## Where the time to a first token goes", "\n\n".join(texts)) if texts else ()


def _prompt(line: Line) -> StepProfileView:
    return profile_view({"bandwidth_bytes_per_s": line.get("bandwidth_bytes_per_s"), **line["prompt"]})


def _shown(runs: Mapping[str, int], lines: Sequence[Line]) -> Mapping[str, int] | None:
    """The runs by load where a journal's lines are of several that were not measured together."""
    return runs if len(run_groups(lines)) > 1 else None


def _prompts(
    lines: Sequence[Line],
    found: Mapping[str, StepProfileView],
    words: Mapping[str, str],
    runs: Mapping[str, int] | None,
) -> str:
    tokens = next(iter(found.values())).prompt_tokens
    told = (
        f"Microseconds to the first token of a lone prompt of {tokens:,} tokens within the engine, by part: "
        "HTTP and the tokenizer are not in it. `outside` is what no kernel ran for, launches by the "
        f"processor among it{_beside(lines)}.{_floor_told(found.values())}{_scaled_told(found, words)}"
    )
    return f"{told}\n\n{_part_rows('first token', found, words, runs)}"


def _part_rows(
    what: str,
    profiles: Mapping[str, StepProfileView],
    words: Mapping[str, str],
    runs: Mapping[str, int] | None,
) -> str:
    """Parts by load, the fastest first, each with its run where there are several, and its floor below it
    where that is known."""
    body = []
    for load, profile in sorted(profiles.items(), key=lambda each: each[1].step_ms):
        times = _columns({row.part: row.time_ms for row in profile.parts}, no_others="0")
        run = [] if runs is None else [str(runs[load])]
        body.append([words[load], *run, _us(profile.step_ms), *times, f"{profile.launches:,.0f}"])
        if profile.floor_ms is not None:
            known = {row.part: row.floor_ms for row in profile.parts if row.floor_ms}
            floors = _columns(known, no_others=MISSING)
            body.append([FLOOR, *run, _us(profile.floor_ms), *floors, MISSING])
    run_column = [] if runs is None else [RUN]
    return markdown_table(["load", *run_column, what, *PARTS, "others", "launches"], body)


def _columns(ms: Mapping[str, float], no_others: str) -> list[str]:
    """A cell of each part, and one of all others together."""
    others = [time for part, time in ms.items() if part not in PARTS]
    return [
        *(_us(ms[part]) if part in ms else MISSING for part in PARTS),
        _us(sum(others)) if others else no_others,
    ]


def _floor_told(profiles: Collection[StepProfileView]) -> str:
    """What the floors of these rest on; nothing where none has one."""
    profiles = [each for each in profiles if each.floor_ms is not None]
    bandwidths = [each.bandwidth_bytes_per_s / GB for each in profiles if each.bandwidth_bytes_per_s]
    rates = [each.operations_per_s / TERA for each in profiles if each.operations_per_s]
    told = [f"its bytes at {_span(bandwidths)} GB/s"] if bandwidths else []
    told += [f"its products at {_span(rates)} TFLOP/s"] if rates else []
    if not told:
        return ""
    longer = ", whichever takes longer" if len(told) > 1 else ""
    return (
        f" Below each load `{FLOOR}`: the least time of each part, by {' or '.join(told)}{longer} "
        "(docs/profile.md), as measured in the same launches."
    )


def _scaled_told(profiles: Mapping[str, StepProfileView], words: Mapping[str, str]) -> str:
    """Which loads' parts are scaled down, and from what; nothing where none is known to be."""
    told = [
        f"{words[load]} (of {_us(profile.scaled_from_ms)})"
        for load, profile in profiles.items()
        if profile.scaled_from_ms is not None
    ]
    if not told:
        return ""
    return (
        " Where kernels took longer as they were recorded than all took untouched, they are scaled down to "
        f"that and tell shares, with nothing outside them: {'; '.join(told)}."
    )


def _span(values: Collection[float]) -> str:
    """The least and the most of them, or the one that all are when rounded."""
    return " to ".join(dict.fromkeys(f"{value:,.0f}" for value in (min(values), max(values))))


def _us(ms: float) -> str:
    return f"{US_PER_MS * ms:,.0f}"


def _beside(lines: Sequence[Line]) -> str:
    ahead = any(line.get("loads_ahead") for line in lines if line["kind"] == "begin")
    return "; other loads may have come up meanwhile" if ahead else ""
