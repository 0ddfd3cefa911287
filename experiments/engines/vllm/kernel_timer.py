"""Times vLLM's linear kernels before anything is loaded; seen from the parent. Imports no torch.

A process in vLLM's Python (`kernel_timing_process.py`) is asked for one kernel with weights of one format
after the other, weights of 16 bits first. All kernels are timed with the first format; with the others those
alone that took at most `FAR_BEHIND` times as long there as the fastest, and vLLM's own choice: what is so far
behind in one is not worth the seconds in another. What comes first is the order that was asked for, and
nothing of a kernel's name.

The process is ended whole when the limit is reached, when one answer takes too long, and at the end. After a
kernel that left it broken another one is begun, as long as there is time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.engines.kernel_timings import (
    FORMAT,
    KernelTiming,
    KernelTimings,
    PartTiming,
    Product,
    untimed,
)
from experiments.engines.one_answer import python_command
from experiments.engines.port import Infeasible
from experiments.engines.server_process import SOCKETS, ServerProcess
from experiments.engines.vllm.driver_process import driver_environment
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.kernel_timing_process import BROKEN
from experiments.measurement.evidence import Json
from experiments.scratch import ScratchFolder
from experiments.space.configuration import KnobValue

PROCESS_MODULE = "experiments.engines.vllm.kernel_timing_process"

BEGIN_LIMIT_S = 90.0
"""Most seconds until the process has imported vLLM: 15 to 17 on an H200's host, more on a busy machine."""

LIMIT_S = 60.0
"""Most seconds of timing after that, all kernels and formats together, begun anew or not."""

ANSWER_LIMIT_S = 20.0
"""Most seconds for one kernel with one format. Six products take a second or two; what is compiled when it
first runs, some ten."""

FAR_BEHIND = 2.0
"""How many times the fastest's a kernel's products may take with the first format to be timed with others."""

AUTO = "auto"


@dataclass(frozen=True)
class Case:
    """One kernel with one format: the knobs that tell it, vLLM's backend, and the `quantization_config` that
    a checkpoint of the format has."""

    knobs: Mapping[str, KnobValue]
    backend: str
    quantization: Mapping[str, Any]

    @property
    def stored(self) -> tuple[KnobValue | None, ...]:
        """The format."""
        return tuple(self.knobs.get(knob) for knob in FORMAT)


@dataclass(frozen=True)
class Order:
    """What is timed, and where: products, rows of an input, the type of activations, `cpu` or `cuda:N`."""

    products: tuple[Product, ...]
    rows: int
    dtype: str
    device: str


class KernelTimer:
    """Asks the process; not for several threads. `clock` gives seconds."""

    def __init__(
        self,
        order: Order,
        found: VllmEnvironment,
        log_path: Path,
        cache_dir: Path,
        *,
        limit_s: float = LIMIT_S,
        begin_limit_s: float = BEGIN_LIMIT_S,
        answer_limit_s: float = ANSWER_LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._order, self._found = order, found
        self._log_path, self._cache_dir = log_path, cache_dir
        self._limit_s, self._begin_limit_s, self._answer_limit_s = limit_s, begin_limit_s, answer_limit_s
        self._clock = clock
        self._left_s = limit_s
        self._process: ServerProcess | None = None
        self._sockets: ScratchFolder | None = None
        self._told: Mapping[str, Json] = {}

    def time(
        self, cases: Sequence[Case], tell: Callable[[int, int, str], None] = lambda done, planned, text: None
    ) -> KernelTimings:
        """Time the cases; `tell` is called with what is done, of how much, and what is next.

        Raises `Infeasible` where not even weights of 16 bits could be timed, with the cause.
        """
        try:
            return self._time(cases, tell)
        finally:
            self._close()

    def _time(self, cases: Sequence[Case], tell: Callable[[int, int, str], None]) -> KernelTimings:
        tell(0, 1 + len(cases), "weights of 16 bits")
        plain = KernelTiming({}, self._parts(AUTO, None))
        if plain.products_us is None:
            cause = plain.refused or plain.untimed or "no product of the layers"
            raise Infeasible("crashed", f"Not even products with 16-bit weights could be timed: {cause}")
        packed: list[KernelTiming] = []
        cut_off: str | None = None
        for number, case in enumerate(cases):
            if cut_off is None and self._left_s <= 0:
                cut_off = f"The limit of {self._limit_s:.0f} s was reached after {number} of {len(cases)}."
            why = cut_off or _far_behind(case, packed, cases[0].stored)
            if why is None:
                tell(1 + number, 1 + len(cases), f"{case.backend}, {_words(case.knobs)}")
                packed.append(KernelTiming(case.knobs, self._parts(case.backend, case.quantization)))
            else:
                packed.append(untimed(case.knobs, self._order.products, why))
        return KernelTimings(
            rows=self._order.rows,
            method=str(self._told.get("method", "")),
            plain=plain,
            packed=tuple(packed),
            record={**self._told, "vllm": self._found.version},
            cut_off=cut_off,
        )

    def _parts(self, backend: str, quantization: Mapping[str, Any] | None) -> tuple[PartTiming, ...]:
        """The parts of one case; whatever ends the process is told of those that it leaves open."""
        process = self._begun()
        request: dict[str, Json] = {
            "backend": backend,
            "quantization": None if quantization is None else dict(quantization),
            "products": [asdict(each) for each in self._order.products],
        }
        begun_s = self._clock()
        answer_s = min(self._answer_limit_s, max(self._left_s, 1.0))
        try:
            answer = process.ask(request, answer_s, "time it")
        except Infeasible as failure:
            self._close()
            return untimed({}, self._order.products, failure.cause).parts
        finally:
            self._left_s -= self._clock() - begun_s
        if answer[BROKEN]:
            self._close()
        parts = [PartTiming(**{**each, "samples_us": tuple(each["samples_us"])}) for each in answer["parts"]]
        why = parts[-1].refused or parts[-1].untimed
        rest = self._order.products[len(parts) :]
        return (
            *parts,
            *(PartTiming(each.part, each.count, untimed=f"not tried after: {why}") for each in rest),
        )

    def _begun(self) -> ServerProcess:
        """The process, begun if none is; raises `Infeasible` where it can't be."""
        if self._process is not None:
            return self._process
        self._sockets = ScratchFolder(SOCKETS, Path(tempfile.gettempdir()))
        sockets = str(self._sockets.path)
        try:
            self._process = ServerProcess(
                "vLLM's kernel timing",
                python_command(self._found.python, PROCESS_MODULE),
                lambda temporary: driver_environment(self._order.device, self._cache_dir, temporary, sockets),
                self._log_path,
                self._cache_dir,
            )
        except OSError as cause:
            self._close()
            raise Infeasible("crashed", f"vLLM's Python can't be started: {cause}.") from None
        order: dict[str, Json] = {
            "device": "cpu" if self._order.device == "cpu" else "cuda:0",  # all that it sees
            "dtype": self._order.dtype,
            "rows": self._order.rows,
            "folder": sockets,
        }
        self._told = self._process.ask(order, self._begin_limit_s, "begin vLLM's layers")
        return self._process

    def _close(self) -> None:
        """End the process and all that it started; idempotent."""
        if self._process is not None:
            self._process.close()
        if self._sockets is not None:
            self._sockets.close()
        self._process = self._sockets = None


def _far_behind(case: Case, timed: Sequence[KernelTiming], first: tuple[KnobValue | None, ...]) -> str | None:
    """Why a kernel is not timed with a further format, as a sentence; None where it is."""
    if case.stored == first or case.backend == AUTO:  # that one all others are held against
        return None
    in_first = {
        str(each.knobs.get("serving.linear_backend")): each.products_us
        for each in timed
        if tuple(each.knobs.get(knob) for knob in FORMAT) == first
    }
    own = in_first.get(case.backend)
    fastest = min((each for each in in_first.values() if each is not None), default=0.0)
    if own is None or own <= FAR_BEHIND * fastest:
        return None
    return f"It took {own / fastest:.1f} times as long as the fastest with weights of the first format."


def _words(knobs: Mapping[str, KnobValue]) -> str:
    return ", ".join(f"{knob.rpartition('.')[2]} {knobs[knob]}" for knob in FORMAT if knob in knobs)
