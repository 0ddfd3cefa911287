"""Columns of a table that trained weights alone have: quality, builds, samples, and the control. Pure.

Seconds of builds, of compiling and of evaluating are those of the processor, all cores together: they were
done beside other work, which the clock would count too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from statistics import fmean, median

from agent.tables.cell import after_first, figures
from agent.tables.journal import Line
from agent.tables.prepared import COMPILE, DRAFTING, QUALITY, Prepared

DIGITS, NAME_DIGITS = 4, 12


def trained_columns(
    cells: Sequence[Line], controls: Mapping[str, Line], prepared: Prepared, load: str
) -> dict[str, object]:
    """The columns of a load's row from its cells; `controls` are the control's cells by batch."""
    ready = prepared.ready.get(load)
    if ready is None:
        return {}
    quality = prepared.quality[ready[QUALITY]]
    drafting = prepared.drafting.get(ready[DRAFTING], {})
    evaluated = (quality["load_processor_s"], quality["processor_s"], drafting.get("processor_s"))
    evaluate_s = sum(seconds or 0.0 for seconds in evaluated)
    told: dict[str, object] = {
        "baseline": "yes" if any(cell.get("control") == load for cell in cells) else "no",
        "quality": quality["bits_per_byte"],
        "kl_nats": quality["kl_nats"],
        "tasks_solved": quality["tasks_solved"],
        "checked_tokens": drafting.get("checked_tokens"),
        "divergences": drafting.get("divergences"),
        "near_ties": drafting.get("near_ties"),
        "build": ready["checkpoint"][:NAME_DIGITS] if ready["builds"] else None,
        "build_s": round(sum(prepared.builds[each]["processor_s"] for each in ready["builds"]), 2),
        "compile_build": ready[COMPILE],
        "compile_s": prepared.compiled[ready[COMPILE]]["processor_s"] if ready[COMPILE] else None,
        "evaluate_s": round(evaluate_s, 2),
    }
    if not cells:
        return told
    serve_s = fmean(cell["run_s"] for cell in cells)
    told |= {"serve_s": round(serve_s, 3), "run_s": round(serve_s + evaluate_s, 3)}
    requests = [request for cell in cells for request in cell["requests"]]
    tokens = sum(after_first(request)[1] for request in requests)
    steps = sum(request.get("steps") or after_first(request)[1] for request in requests)
    told["tokens_a_step"] = round(tokens / steps, DIGITS)
    measured = [figures(cell["requests"]) for cell in cells]
    whole_s = sum(value for each in measured for value in each.e2el_ms) / 1e3
    told["tokens_per_s"] = round((tokens + len(requests)) / whole_s, 2)
    told["tpot_over_control"] = _over_control(cells, controls)
    told["tpot_paced_ms"] = _paced(cells, controls)
    return told


def over_control(cell: Line, control: Line) -> float:
    """Median TPOT of a launch over that of the control beside it."""
    return _tpot_ms(cell) / _tpot_ms(control)


def _over_control(cells: Sequence[Line], controls: Mapping[str, Line]) -> float | None:
    """The geometric mean over a load's batches."""
    ratios = [over_control(cell, controls[cell["batch"]]) for cell in cells if cell["batch"] in controls]
    return round(exp(fmean(map(log, ratios))), DIGITS) if ratios else None


def _paced(cells: Sequence[Line], controls: Mapping[str, Line]) -> str | None:
    """The samples at one pace: over the control's median in their batch, times what that is in the middle of
    all batches. None where no batch has a control."""
    if not controls:
        return None
    typical_ms = median(map(_tpot_ms, controls.values()))
    samples = [
        value * typical_ms / _tpot_ms(controls[cell["batch"]])
        for cell in cells
        if cell["batch"] in controls
        for value in figures(cell["requests"]).tpot_ms
    ]
    return " ".join(f"{value:.3f}" for value in samples) or None


def _tpot_ms(cell: Line) -> float:
    return median(figures(cell["requests"]).tpot_ms)
