"""What a table's journal keeps of a launch's profile."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from experiments.engines.port import GenerationRequest, Infeasible, Launch
from experiments.job.profiling import told_of

KERNELS = "kernels"
"""In the record of a lone prompt: every kernel by name, which a journal has no room for."""

RATES = ("bandwidth_bytes_per_s", "bandwidth_method")
"""What of a device's rates belongs to the floor of a step and of a lone prompt alike."""


def profiled(launch: Launch, request: GenerationRequest) -> dict[str, Any]:
    """The `parts` of a decode step, and what an engine tells beside them: the memory's bandwidth, and under
    `prompt` where a lone prompt's time goes, with the rate of products, or the `failure` for which that is
    not known. Of a profile that failed, the kind and cause of its `failure` alone.

    The launch is timed no more afterwards.
    """
    try:
        parts = [asdict(part) for part in launch.profile(request)]
    except Infeasible as failure:
        return {"failure": {"kind": failure.kind, "cause": failure.cause}}
    record = getattr(launch, "profile_record", None) or {}
    told: dict[str, Any] = told_of(record)
    kept = {name: told[name] for name in (*RATES, "kernels_ms") if name in told}
    if prompt := record.get("prompt"):
        kept["prompt"] = {name: prompt[name] for name in prompt if name != KERNELS} | told["prompt"]
    return {"parts": parts, **kept}
