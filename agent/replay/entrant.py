"""A planner at work: what goes wrong in it becomes a sentence that names it, what it says is checked."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent.replay.calibration import Forecast
from agent.replay.port import Forecaster, Planner, PlannerFactory, Problem, Told
from configs.errors import AutoinferError
from experiments.space.configuration import Configuration


class Entrant:
    """The planner of a name for a problem and a seed, and, where it predicts, a second one that is told of
    trial 0 alone, whose predictions are the prior of the first.

    Every method raises `AutoinferError` for what the planner raises, and for what it may not say.
    """

    def __init__(self, name: str, factory: PlannerFactory, problem: Problem, seed: int) -> None:
        """Errors that are sentences, such as that of a package that is missing, are the planner's own."""
        self.name, self._problem = name, problem
        self._planner = self._made(factory, seed)
        self._prior = self._made(factory, seed) if isinstance(self._planner, Forecaster) else None

    def ask(self, history: Sequence[Told]) -> Configuration | None:
        """Its next configuration, which the problem has; None where it stops."""
        with self._blamed("ask"):
            asked = self._planner.ask(tuple(history))
        if asked is not None and not (
            isinstance(asked, Configuration) and asked in self._problem.configurations
        ):
            raise AutoinferError(
                f"The planner {self.name} asked for what the table does not have: {asked}.",
                "A planner may ask for the problem's configurations alone.",
            )
        return asked

    def tell(self, told: Told) -> None:
        """Tell it of a trial."""
        with self._blamed("tell"):
            self._planner.tell(told)
            if self._prior is not None and told.trial == 0:
                self._prior.tell(told)

    def forecasts(self, configuration: Configuration) -> tuple[Forecast, Forecast] | None:
        """What it expects of a configuration now, and what it expected when it knew trial 0 alone; None of a
        planner that predicts nothing."""
        if self._prior is None:
            return None
        return self._forecast(self._planner, configuration), self._forecast(self._prior, configuration)

    def _forecast(self, planner: Planner, configuration: Configuration) -> Forecast:
        assert isinstance(planner, Forecaster)  # or there was no prior
        with self._blamed("predict"):
            mean, sd = map(float, planner.predict(configuration))
        if not (math.isfinite(mean) and math.isfinite(sd) and sd > 0):
            raise AutoinferError(
                f"The planner {self.name} predicts a mean of {mean:g} and a standard deviation of {sd:g}.",
                "Give two numbers, the second above 0, or leave predict out.",
            )
        return mean, sd

    def _made(self, factory: PlannerFactory, seed: int) -> Planner:
        try:
            return factory(self._problem, seed)
        except AutoinferError:
            raise
        except (Exception, SystemExit) as fault:
            raise self._fault("be made", fault) from fault

    @contextmanager
    def _blamed(self, method: str) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as fault:
            raise self._fault(method, fault) from fault

    def _fault(self, where: str, fault: BaseException) -> AutoinferError:
        last = traceback.extract_tb(fault.__traceback__)[-1]
        return AutoinferError(
            f"The planner {self.name} failed to {where}: {type(fault).__name__}: {fault} "
            f"({Path(last.filename).name}, line {last.lineno}).",
            "Mend it, or leave it out with --planner NAME of the others.",
        )
