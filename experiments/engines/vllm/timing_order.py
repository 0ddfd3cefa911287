"""Which product of which kernel is timed next, by what came of those before. Pure; nothing goes by a name.

Weights of 16 bits come first. Of each kernel's first format the first product comes before all others, so
that what is compiled for long begins at once, and then that of each other format by the engine's own choice:
which kernel it takes for a format tells which tests would be confounded. Then the other products, those of
kernels first that had nothing to compile, and then further formats: those kernels alone that took at most
`FAR_BEHIND` times as long with the first as the fastest, those that refused the first, which may take
another, and the engine's own choice; the soonest done first. A kernel that failed with the first is not tried
again. After a product of the layers that was refused or failed the others of that kernel are not tried:
without it nothing is served.

Of a kernel that compiled a product for long that product is asked for once more as soon as may be, of a
process that has not called it by this kernel: whether each load will compile it again is what its tests cost.

What an earlier timing settled is taken from there, and only the rest is handed out; what it compiled is asked
for once more when nothing else is left, for each timing is to come further than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any

from experiments.engines.kernel_timings import (
    FAR_BEHIND,
    FORMAT,
    PRODUCTS,
    KernelTiming,
    KernelTimings,
    PartTiming,
    Product,
    all_left,
    packed_words,
)
from experiments.space.configuration import KnobValue

LONG_S = 3.0
"""Seconds of a first call from which on it is asked whether another process has to wait for them too."""

AUTO = "auto"
"""The backend that leaves the choice to the engine."""


@dataclass(frozen=True)
class Case:
    """One kernel with one format: the knobs that tell it, vLLM's backend, and the `quantization_config` that
    a checkpoint of the format has; None for weights of 16 bits."""

    knobs: Mapping[str, KnobValue]
    backend: str
    quantization: Mapping[str, Any] | None

    @property
    def words(self) -> str:
        """Kernel and format, to be told as what is done now."""
        if self.quantization is None:
            return "time products with weights of 16 bits"
        return f"time the kernel {self.backend}: {packed_words(self.knobs)}"


PLAIN = Case({}, AUTO, None)
"""What all are held against."""


@dataclass(frozen=True)
class Task:
    """One product of one case; `again`: its first call alone, in a process that has not called it yet."""

    case: Case
    product: Product
    again: bool = False

    @property
    def words(self) -> str:
        """What is done now."""
        if self.again:
            return f"ask another process for what the kernel {self.case.backend} compiled"
        return self.case.words


@dataclass
class _Course:
    """What came of one case so far: parts by name, what was begun, the seconds of it, and whether one of them
    was asked for again."""

    parts: dict[str, PartTiming] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    took_s: float = 0.0
    again: bool = False


class TimingOrder:
    """Hands out tasks and takes what came of them; not for several threads."""

    def __init__(
        self, cases: Sequence[Case], products: Sequence[Product], known: KernelTimings | None = None
    ) -> None:
        """`known` is what an earlier timing of the same cases and products came to."""
        self._cases, self._products = tuple(cases), tuple(products)
        self._goes_on = known is not None
        self._called: dict[tuple[object, ...], set[int]] = {}
        self._of = {number: self._course(number, known) for number in range(-1, len(self._cases))}
        self._numbers = {id(case): number for number, case in enumerate(self._cases)} | {id(PLAIN): -1}
        first: dict[str, int] = {}
        for number, case in enumerate(self._cases):
            first.setdefault(case.backend, number)
        self._first = list(first.values())
        self._others = [number for number in range(len(self._cases)) if number not in self._first]

    def next(self, lane: int = 0) -> Task | None:
        """What a lane is to time now; None where nothing is, or not before something under way has ended."""
        if not self._goes_on and (again := self._again(lane)) is not None:
            return again
        for number, product in self._candidates():
            course, case = self._of[number], self._case(number)
            if product.part in course.begun:
                continue
            if product is not self._products[0] and self._products[0].part not in course.parts:
                continue  # whether it can be done at all is not known yet
            course.begun.add(product.part)
            return Task(case, product)
        return self._again(lane) if self._goes_on else None

    def done(self, task: Task, part: PartTiming, took_s: float, lane: int = 0) -> None:
        """What came of a task, the seconds it took, and who did it. What is asked for again and fails says
        nothing."""
        course = self._of[self._numbers[id(task.case)]]
        if task.again:
            if part.refused is None and part.untimed is None:
                course.parts[part.part] = replace(course.parts[part.part], again_s=part.first_call_s)
            return
        course.parts[part.part] = part
        self._called.setdefault(self._compiled(task.case, task.product, part), set()).add(lane)
        course.took_s += took_s
        why = part.refused or part.untimed
        if why is not None and part.kind == PRODUCTS:
            for product in self._products:
                if product.part not in course.begun:
                    self._leave(course, product, f"not tried after: {why}")

    def put_back(self, task: Task) -> None:
        """A task that was handed out and not begun is to be handed out again."""
        course = self._of[self._numbers[id(task.case)]]
        if task.again:
            course.again = False
        else:
            course.begun.discard(task.product.part)

    @property
    def cases_done(self) -> int:
        """Cases of which each product came to something, weights of 16 bits counted as one."""
        return sum(self._whole(number) for number in self._of)

    def plain(self) -> KernelTiming:
        """Weights of 16 bits."""
        return self._timing(-1, "It was not begun.")

    def packed(self, cut_off: str) -> tuple[KernelTiming, ...]:
        """A timing of each case in their order; what is left for want of time is told so."""
        return tuple(self._timing(number, cut_off) for number in range(len(self._cases)))

    @property
    def left(self) -> int:
        """Cases of which a product was neither timed nor given up, weights of 16 bits counted as one."""
        return len(self._of) - self.cases_done

    def _course(self, number: int, known: KernelTimings | None) -> _Course:
        """What is known of a case. What its first calls took stands for the seconds that it took then."""
        if known is None:
            return _Course()
        timings = [known.plain] if number < 0 else known.packed
        knobs = dict(self._case(number).knobs)
        asked = {each.part for each in self._products}
        found = [part for each in timings if dict(each.knobs) == knobs for part in each.parts]
        parts = {part.part: part for part in found if part.part in asked and not part.left}
        return _Course(parts, set(parts), fsum(part.first_call_s for part in parts.values()))

    def _again(self, lane: int) -> Task | None:
        """A product that was compiled for long, one of a case, for a lane that has not called it."""
        for number, case in enumerate(self._cases):
            course = self._of[number]
            if course.again or any(part.again_s is not None for part in course.parts.values()):
                continue
            for product in self._products:
                part = course.parts.get(product.part)
                if part is None or part.us is None or part.first_call_s < LONG_S:
                    continue
                if lane not in self._called.get(self._compiled(case, product, part), ()):
                    course.again = True
                    return Task(case, product, again=True)
        return None

    @staticmethod
    def _compiled(case: Case, product: Product, part: PartTiming) -> tuple[object, ...]:
        """What is compiled for a product: another value of the knob may choose the same class, and another
        product have the same sizes."""
        return product.inputs, product.outputs, part.kernel, *(case.knobs.get(knob) for knob in FORMAT)

    def _candidates(self) -> Iterator[tuple[int, Product]]:
        yield from ((-1, product) for product in self._products)
        yield from ((number, self._products[0]) for number in self._first)
        chosen = (number for number in self._others if self._cases[number].backend == AUTO)
        yield from ((number, self._products[0]) for number in chosen)
        ready_first = sorted(self._first, key=self._first_call_s)
        yield from ((number, product) for number in ready_first for product in self._products[1:])
        known = {self._cases[number].backend: number for number in self._first if self._whole(number)}
        ready = [number for number in self._others if self._cases[number].backend in known]
        for number in sorted(ready, key=lambda each: self._of[known[self._cases[each].backend]].took_s):
            course, why = self._of[number], self._far_behind(number, known)
            for product in self._products:
                if why is None:
                    yield number, product
                elif product.part not in course.begun:
                    self._leave(course, product, why)

    def _first_call_s(self, number: int) -> float:
        """Seconds of a case's first product when it first ran; 0 where that is not known."""
        part = self._of[number].parts.get(self._products[0].part)
        return 0.0 if part is None else part.first_call_s

    def _far_behind(self, number: int, known: Mapping[str, int]) -> str | None:
        """Why a kernel is not timed with a further format, as a sentence, by what is known of the first; None
        where it is."""
        backend = self._cases[number].backend
        if backend == AUTO:  # that one all others are held against
            return None
        took_us = {name: self._timing(each, "").products_us for name, each in known.items()}
        own, first = took_us[backend], self._timing(known[backend], "")
        if first.refused is None and first.untimed is not None:
            return f"It failed with the first format: {first.untimed}"
        fastest = min((each for each in took_us.values() if each is not None), default=0.0)
        if own is None or own <= FAR_BEHIND * fastest:
            return None
        return f"It took {own / fastest:.1f} times as long as the fastest with weights of the first format."

    def _leave(self, course: _Course, product: Product, why: str) -> None:
        course.begun.add(product.part)
        course.parts[product.part] = PartTiming(product.part, product.count, untimed=why)

    def _whole(self, number: int) -> bool:
        return len(self._of[number].parts) == len(self._products)

    def _case(self, number: int) -> Case:
        return PLAIN if number < 0 else self._cases[number]

    def _timing(self, number: int, otherwise: str) -> KernelTiming:
        parts, case = self._of[number].parts, self._case(number)
        nothing = all_left(case.knobs, self._products, otherwise)
        return KernelTiming(case.knobs, tuple(parts.get(each.part, each) for each in nothing.parts))
