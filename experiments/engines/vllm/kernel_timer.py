"""Times vLLM's linear kernels before anything is loaded; seen from the parent. Imports no torch.

A process in vLLM's Python (`kernel_timing_process.py`) is asked for one product by one kernel with weights of
one format after the other, weights of 16 bits first. All kernels are timed with the first format, in the
order that was asked for; with the others those alone that took at most `FAR_BEHIND` times as long there as
the fastest, and vLLM's own choice: what is so far behind in one is not worth the seconds in another. Those
whose first timing was soon done come first then, for some kernels are compiled for every shape and format.
Nothing goes by a kernel's name.

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
    KERNEL,
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
"""Most seconds after that for all kernels and formats together, processes that are begun anew among them."""

ANSWER_LIMIT_S = 25.0
"""Most seconds for one product. It takes a fraction of one; what is compiled when it first runs, some
seconds, it is thought: loads with a kernel that is compiled took 60 s longer than others, or more, of all
shapes and batch sizes (docs/results/tables/h200-9b.jsonl)."""

LEAST_LIMIT_S = 1.0
"""An answer that was asked for has so many seconds, though the limit of all ends sooner."""

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
        timed = self._timed(cases, tell)
        left = len(cases) - len(timed)
        cut_off = f"The limit of {self._limit_s:.0f} s was reached with {left} of {len(cases)} left."
        nothing = (untimed(case.knobs, self._order.products, cut_off) for case in cases)
        return KernelTimings(
            rows=self._order.rows,
            method=str(self._told.get("method", "")),
            plain=plain,
            packed=tuple(timed.get(number, other) for number, other in enumerate(nothing)),
            record={**self._told, "vllm": self._found.version},
            cut_off=cut_off if left else None,
        )

    def _timed(self, cases: Sequence[Case], tell: Callable[[int, int, str], None]) -> dict[int, KernelTiming]:
        """A timing of each case by its place; none of those that the limit left no time for."""
        found: dict[int, KernelTiming] = {}
        took_s: dict[str, float] = {}
        first = [number for number, case in enumerate(cases) if case.stored == cases[0].stored]

        def one(number: int) -> None:
            case, left_s = cases[number], self._left_s
            if left_s <= 0:
                return
            in_first = [found[each] for each in first if each in found]
            why = None if number in first else _far_behind(case, in_first)
            if why is not None:
                found[number] = untimed(case.knobs, self._order.products, why)
                return
            tell(1 + len(found), 1 + len(cases), f"{case.backend}, {_words(case.knobs)}")
            found[number] = KernelTiming(case.knobs, self._parts(case.backend, case.quantization))
            took_s.setdefault(case.backend, left_s - self._left_s)

        for number in first:
            one(number)
        others = [number for number in range(len(cases)) if number not in first]
        for number in sorted(others, key=lambda each: took_s.get(cases[each].backend, 0.0)):
            one(number)
        return found

    def _parts(self, backend: str, quantization: Mapping[str, Any] | None) -> tuple[PartTiming, ...]:
        """The parts of one case. After a product of the layers that is refused or fails the others are not
        tried: without it nothing is served."""
        parts: list[PartTiming] = []
        why: str | None = None
        for product in self._order.products:
            if why is None:
                parts.append(self._part(backend, quantization, product))
            else:
                parts.append(PartTiming(product.part, product.count, untimed=f"not tried after: {why}"))
            if why is None and parts[-1].us is None:
                why = parts[-1].refused or parts[-1].untimed
        return tuple(parts)

    def _part(self, backend: str, quantization: Mapping[str, Any] | None, product: Product) -> PartTiming:
        """One product; whatever ends the process, or keeps it from beginning anew, is told of it."""
        request: dict[str, Json] = {
            "backend": backend,
            "quantization": None if quantization is None else dict(quantization),
            "product": asdict(product),
        }
        try:
            process = self._begun()
            limit_s = min(self._answer_limit_s, max(self._left_s, LEAST_LIMIT_S))
            begun_s = self._clock()
            try:
                answer = process.ask(request, limit_s, f"time {product.part}")
            finally:
                self._left_s -= self._clock() - begun_s
        except Infeasible as failure:
            self._close()
            return PartTiming(product.part, product.count, untimed=failure.cause)
        if answer[BROKEN]:
            self._close()
        part = answer["part"]
        return PartTiming(**{**part, "samples_us": tuple(part["samples_us"])})

    def _begun(self) -> ServerProcess:
        """The process, begun if none is; what it takes to begin one anew is of the limit. Raises `Infeasible`
        where it can't be."""
        if self._process is not None:
            return self._process
        self._sockets = ScratchFolder(SOCKETS, Path(tempfile.gettempdir()))
        sockets = str(self._sockets.path)
        begun_s = self._clock()
        try:
            self._process = ServerProcess(
                "vLLM's kernel timing",
                python_command(self._found.python, PROCESS_MODULE),
                lambda temporary: driver_environment(self._order.device, self._cache_dir, temporary, sockets),
                self._log_path,
                self._cache_dir,
            )
        except OSError as cause:
            raise Infeasible("crashed", f"vLLM's Python can't be started: {cause}.") from None
        order: dict[str, Json] = {
            "device": "cpu" if self._order.device == "cpu" else "cuda:0",  # all that it sees
            "dtype": self._order.dtype,
            "rows": self._order.rows,
            "folder": sockets,
        }
        again = bool(self._told)
        try:
            self._told = self._process.ask(order, self._begin_limit_s, "begin vLLM's layers")
        finally:
            if again:
                self._left_s -= self._clock() - begun_s
        return self._process

    def _close(self) -> None:
        """End the process and all that it started; idempotent."""
        if self._process is not None:
            self._process.close()
        if self._sockets is not None:
            self._sockets.close()
        self._process = self._sockets = None


def _far_behind(case: Case, in_first: Sequence[KernelTiming]) -> str | None:
    """Why a kernel is not timed with a further format, as a sentence, by what all took with the first; None
    where it is."""
    if case.backend == AUTO:  # that one all others are held against
        return None
    took_us = {str(each.knobs.get(KERNEL, AUTO)): each.products_us for each in in_first}
    own = took_us.get(case.backend)
    fastest = min((each for each in took_us.values() if each is not None), default=0.0)
    if own is None or own <= FAR_BEHIND * fastest:
        return None
    return f"It took {own / fastest:.1f} times as long as the fastest with weights of the first format."


def _words(knobs: Mapping[str, KnobValue]) -> str:
    return ", ".join(f"{knob.rpartition('.')[2]} {knobs[knob]}" for knob in FORMAT if knob in knobs)
