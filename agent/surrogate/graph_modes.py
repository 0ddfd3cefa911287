"""What a mode of CUDA graphs does to a decode step: the processor's launches beside the GPU's kernels. Pure.

Where a step is one graph the GPU waits for no launch. Where it is none the processor launches each kernel,
and where graphs end at each layer of attention and of GatedDeltaNet, as vLLM's piecewise ones do, it prepares
and launches what lies between two of them. It does so while the GPU works on what was launched before, so
such a step takes the longer of the two: with slow kernels nothing is lost, and nothing is ever won over one
graph.
"""

from __future__ import annotations

import math
from statistics import NormalDist

GRAPH_MODE = "serving.graph_mode"
"""The knob."""

NO_GRAPHS = ("eager", "none")
"""Its values under which every kernel is launched by the processor."""

PIECEWISE = "piecewise"
"""That under which graphs end at each layer of attention and of GatedDeltaNet."""

WHOLE_STEPS = ("full", "full_decode_only", "full_and_piecewise")
"""Those under which a step of decoding is one graph: what else they capture are
steps that read prompts (vLLM, *CUDA Graphs*, design documents)."""

LAUNCH_MS = 0.025
"""Milliseconds that a launch takes the processor where no graph replays it, about: with some 215 launches a
step of the packaged model took 8.4 ms on the host of an H200, beside other work (the case `none` in
docs/results/tables/h200-levers-once.jsonl)."""

LAYER_MS = 0.33
"""Milliseconds that the processor needs for one layer with piecewise graphs, about, whatever the weights are:
a lone request's token of the 9B shape, of 32 layers, took 9.8 ms on the host of an H200 with vLLM 0.33
(E-0003 of docs/results/h200-campaign-vllm-0.33-humming.md), 9.3 to 12.7 with 0.26, in 16 bits and in 4
(docs/results/tables/h200-9b-http.csv)."""

PROCESSOR_SD_LOG = 0.3
"""How far either may be off, in either direction: processors differ."""

SHARE_REMOVED = 0.7
"""Share of the time outside kernels that graphs are expected to remove; judgement."""

OUTSIDE_SD = 0.5
"""Standard deviation of what they do to the time outside kernels, on the log scale of that part."""

LEAST_SD_LOG = 0.01
"""No mode is expected more closely than this …"""

SAME_STEP_SD_LOG = 0.02
"""… and none that replays the same step: other sizes of caches and graphs."""


def fewer_launches(mode: str, before: str) -> bool:
    """Whether a mode may need fewer launches a step than what ran before, as far as that is known."""
    if mode in NO_GRAPHS or before in WHOLE_STEPS:
        return False
    return mode != PIECEWISE or before != PIECEWISE


def of_graph_mode(
    mode: str, before: str, *, step_ms: float, outside: float, launches: float, layers: int
) -> tuple[float, float]:
    """Mean and standard deviation of the log of a step with `mode` over the one with what ran `before`.

    That step took `step_ms`, of which in the share `outside` no kernel ran, and had as many `launches` of
    kernels; `layers` are the model's (0: not known).
    """
    if mode in NO_GRAPHS and before not in NO_GRAPHS:
        return waiting(LAUNCH_MS * launches, step_ms)
    if before in WHOLE_STEPS and mode in WHOLE_STEPS:
        return 0.0, SAME_STEP_SD_LOG
    if before in WHOLE_STEPS and mode == PIECEWISE and layers:
        return waiting(LAYER_MS * layers, step_ms)
    of_outside = max(LEAST_SD_LOG, OUTSIDE_SD * outside)
    removes = before in NO_GRAPHS or (before == PIECEWISE and mode in WHOLE_STEPS)
    if removes and mode not in NO_GRAPHS:
        return math.log1p(-SHARE_REMOVED * outside), of_outside
    return 0.0, of_outside


def waiting(processor_ms: float, step_ms: float) -> tuple[float, float]:
    """The same of a step of `step_ms` for which the processor needs `processor_ms`, about: the longer of the
    two, of the second as well as that is known. Of a normal of which what is below 0 counts as 0."""
    if processor_ms <= 0:
        return 0.0, SAME_STEP_SD_LOG
    behind = math.log(processor_ms / step_ms)
    normal = NormalDist()
    above, density = normal.cdf(behind / PROCESSOR_SD_LOG), normal.pdf(behind / PROCESSOR_SD_LOG)
    mean = behind * above + PROCESSOR_SD_LOG * density
    square = (behind**2 + PROCESSOR_SD_LOG**2) * above + behind * PROCESSOR_SD_LOG * density
    return mean, max(SAME_STEP_SD_LOG, math.sqrt(max(0.0, square - mean**2)))
