"""Whether what makes quantized and pruned checkpoints computes on a target's device, said before anything is
measured: their stages run there, in Pythons of their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.ground.legal import UNPRUNED, Legal
from agent.ground.target import Target
from configs.campaign import CampaignSpec
from configs.targets import CPU, LOCAL, executor_of
from experiments.engines.port import Infeasible
from experiments.space.budget import METHOD as PRUNING
from experiments.space.configuration import KnobValue
from experiments.space.knob import is_among
from experiments.space.legality import QUANTIZATION, UNQUANTIZED
from experiments.stages.quantize.environment import INSTALL_FOR_GPUS, needed_python
from experiments.torch_build import install_into, torch_build

CORPUS, WRITTEN_BY_THE_MODEL = "quantization.corpus", "self"
"""The knob of the calibration text, and its value for which the model writes it, by this Python's PyTorch."""


@dataclass(frozen=True)
class MadeOn:
    """The device of this machine on which a campaign's checkpoints are made: its name, and the newest CUDA
    that its driver knows (12080 for 12.8; None of a processor, and where it does not say)."""

    device: str
    cuda_driver: int | None = None

    @classmethod
    def of(cls, spec: CampaignSpec, target: Target, *, worked_here: bool = True) -> MadeOn | None:
        """That of a target; None where they are made elsewhere, by other Pythons of which nothing is known
        here: on what is rented, by another executor, or by workers of other hosts alone (not `worked_here`).
        """
        if not worked_here or target.place is not None or executor_of(spec.target, spec.executor) != LOCAL:
            return None
        return cls(target.device, None if target.gpu is None else target.gpu.cuda_driver)


@dataclass(frozen=True)
class MissingTool:
    """What is not there to make values, by knob: `told` says what can't be tested, why, and what to do, in a
    sentence; `command` installs it."""

    values: Mapping[str, tuple[KnobValue, ...]]
    told: str
    command: str


def missing_tools(spec: CampaignSpec, legal: Legal, made_on: MadeOn | None) -> tuple[MissingTool, ...]:
    """What is not there to make legal values on the GPU; nothing where all can be made, of a processor and of
    what is elsewhere (None), and of made-up weights, which are made in any format as they are."""
    if made_on is None or made_on.device == CPU or spec.latency_only:
        return ()
    missing = []
    quantized, pruned = more_than(legal, QUANTIZATION, UNQUANTIZED), more_than(legal, PRUNING, UNPRUNED)
    if quantized and (why := cannot_quantize(made_on)) is not None:
        told = f"No hypothesis that quantizes can be tested yet: {why}"
        missing.append(MissingTool({QUANTIZATION: quantized}, told, INSTALL_FOR_GPUS))
    if pruned and (why := _cannot_rank(made_on)) is not None:
        writes = _writes(legal)
        nor = f", nor one with {CORPUS}={WRITTEN_BY_THE_MODEL}" if writes else ""
        values = {PRUNING: pruned, **({CORPUS: (WRITTEN_BY_THE_MODEL,)} if writes else {})}
        told = f"No hypothesis that takes layers out can be tested yet{nor}: {why}"
        missing.append(MissingTool(values, told, install_into(Path(sys.executable))))
    return tuple(missing)


def tools_told(spec: CampaignSpec, legal: Legal, made_on: MadeOn | None) -> tuple[str, ...]:
    """What `missing_tools` tells, a sentence each."""
    return tuple(each.told for each in missing_tools(spec, legal, made_on))


def cannot_quantize(made_on: MadeOn | None) -> str | None:
    """Why nothing here quantizes on the device, in a sentence; None where it does, and where it would be done
    elsewhere."""
    if made_on is None:
        return None
    try:
        needed_python(made_on.device, made_on.cuda_driver)
    except Infeasible as missing:
        return missing.cause
    return None


def more_than(legal: Legal, name: str, nothing: str) -> tuple[KnobValue, ...]:
    """The legal values of a knob but the one that leaves the checkpoint as it is."""
    values = (each for knob in legal.space.knobs if knob.name == name for each in knob.values)
    return tuple(each for each in values if each != nothing)


def _writes(legal: Legal) -> bool:
    quantizes = bool(more_than(legal, QUANTIZATION, UNQUANTIZED))
    corpora = (knob.values for knob in legal.space.knobs if knob.name == CORPUS)
    return quantizes and any(is_among(WRITTEN_BY_THE_MODEL, values) for values in corpora)


def _cannot_rank(made_on: MadeOn) -> str | None:
    """Why the PyTorch of this Python, by which layers are ranked, can't compute on the GPU."""
    python = Path(sys.executable)
    build = torch_build(python)
    if build is None:
        return f"ranking layers needs PyTorch, which is not at {python}; install it: {install_into(python)}."
    return build.refusal(
        f"Ranking layers on {made_on.device} can't be", made_on.cuda_driver, install_into(python)
    )
