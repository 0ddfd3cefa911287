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

LAUNCH_MS = 0.04
"""Milliseconds that a launch takes the processor where no graph replays it, about: with some 215 launches a
step of the packaged model took 8.3 to 10.1 ms on the host of an H200, beside other work (the case `none` in
docs/results/tables/h200-levers-once.jsonl)."""

LAYER_MS = 0.33
"""Milliseconds that the processor needs for one layer with piecewise graphs, about, whatever the weights are:
a lone request's token of the 9B shape, of 32 layers, took 9.8 ms on the host of an H200 with vLLM 0.33
(E-0003 of docs/results/h200-campaign-vllm-0.33-humming.md), 9.3 to 12.7 with 0.26, in 16 bits and in 4
(docs/results/tables/h200-9b-http.csv)."""

PROCESSOR_SD_LOG = 0.3
"""How far either may be off, in either direction: processors differ."""

NINE_IN_TEN = NormalDist().inv_cdf(0.9)
"""Standard deviations above which one in ten lies, and below which nine do."""

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
    from_none = before in NO_GRAPHS and mode not in NO_GRAPHS
    from_pieces = before == PIECEWISE and mode in WHOLE_STEPS
    if not (from_none or from_pieces):
        return 0.0, of_outside
    removed = math.log1p(-SHARE_REMOVED * outside)
    if mode != PIECEWISE or not layers:
        return removed, of_outside
    waits, open_ = waiting(LAYER_MS * layers, step_ms * math.exp(removed))
    return removed + waits, math.hypot(of_outside, open_)


def waiting(processor_ms: float, step_ms: float) -> tuple[float, float]:
    """The same of a step of `step_ms` for which the processor needs `processor_ms`, about: the longer of the
    two, of the second as well as that is known.

    The mean is that of a normal of which what is below 0 counts as 0. The deviation is no more than leaves
    nine in ten above 0: what is believed is a normal again, by which nothing is to be won.
    """
    if processor_ms <= 0:
        return 0.0, SAME_STEP_SD_LOG
    behind = math.log(processor_ms / step_ms)
    normal = NormalDist()
    above, density = normal.cdf(behind / PROCESSOR_SD_LOG), normal.pdf(behind / PROCESSOR_SD_LOG)
    mean = max(0.0, behind * above + PROCESSOR_SD_LOG * density)
    square = (behind**2 + PROCESSOR_SD_LOG**2) * above + behind * PROCESSOR_SD_LOG * density
    sd = math.sqrt(max(0.0, square - mean**2))
    return mean, max(SAME_STEP_SD_LOG, min(sd, mean / NINE_IN_TEN))
