"""A planner at work: what goes wrong in it becomes a sentence that names it, what it says is checked, what it
prints goes to the standard error."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from agent.replay.calibration import Forecast
from agent.replay.port import Forecaster, Planner, PlannerFactory, Problem, Told
from configs.errors import AutoinferError
from experiments.space.configuration import Configuration

FARTHEST_LOG = 1000.0
"""Beyond any log of milliseconds, and above any spread of one: the scores of predictions stay finite."""

LEAST_SD_LOG = 1e-9
"""Below what any clock tells apart."""

LONGEST_FAULT = 300
"""Characters of what a planner raised that are told."""


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
        if not (abs(mean) <= FARTHEST_LOG and LEAST_SD_LOG <= sd <= FARTHEST_LOG):
            raise AutoinferError(
                f"The planner {self.name} predicts a mean of {mean:g} and a standard deviation of {sd:g}.",
                f"Give the natural log of milliseconds: a mean of at most ±{FARTHEST_LOG:g}, a standard "
                f"deviation of {LEAST_SD_LOG:g} to {FARTHEST_LOG:g}; or leave predict out.",
            )
        return mean, sd

    def _made(self, factory: PlannerFactory, seed: int) -> Planner:
        try:
            with redirect_stdout(sys.stderr):
                return factory(self._problem, seed)
        except AutoinferError:
            raise
        except (Exception, SystemExit) as fault:
            raise self._fault("be made", fault) from fault

    @contextmanager
    def _blamed(self, method: str) -> Iterator[None]:
        try:
            with redirect_stdout(sys.stderr):  # the standard output is the document's
                yield
        except (Exception, SystemExit) as fault:
            raise self._fault(method, fault) from fault

    def _fault(self, where: str, fault: BaseException) -> AutoinferError:
        last = traceback.extract_tb(fault.__traceback__)[-1]
        why = " ".join(f"{type(fault).__name__}: {fault}".split())[:LONGEST_FAULT]
        return AutoinferError(
            f"The planner {self.name} failed to {where}: {why} "
            f"({Path(last.filename).name}, line {last.lineno}).",
            "Mend it, or leave it out with --planner NAME of the others.",
        )
