"""What is recorded of a run that has ended, by the last status that its executor told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from experiments.disk import DISK_FULL, TO_FREE_SPACE
from experiments.executors.asked_gpu import AskedGpu
from experiments.executors.port import RunState, Status
from experiments.remote.flight import Flight
from experiments.remote.got_gpu import compared, gpus_of_launches


def conclusion(flight: Flight, status: Status, asked: AskedGpu | None, executor: str) -> Callable[[], None]:
    """What writes the end of a flight: its result, where the GPU is the one that was `asked` for of the
    executor of this name, or why there is none."""
    reporter, result = flight.reporter, status.result
    match status.state:
        case RunState.DONE:
            assert result is not None
            told = () if flight.extras is None else flight.extras.got
            flight.got = tuple(dict.fromkeys((*gpus_of_launches(result), *told)))
            kept = compared(asked, executor, flight.got, result)
            return lambda: reporter.record(flight.spec(), kept, status.progress)
        case RunState.CANCELLED:
            return reporter.cancelled
        case RunState.TIMED_OUT:
            return partial(flight.reached_limit, status.failure)
        case RunState.FAILED:
            cause = _where(status.failure_kind, status.failure or "The run failed.", flight.run.target)
            return partial(reporter.fail, status.failure_kind, cause)
        case _:
            return partial(reporter.give_up, status.failure or "The run ended without a result.")


def _where(kind: str, cause: str, target: str) -> str:
    """The cause, of a full disk with whose it is, and with what helps there instead of here."""
    if kind != DISK_FULL:
        return cause
    return (
        f"A disk is full on a rented machine of {target}: "
        f"{cause.removesuffix(TO_FREE_SPACE).strip()} Its disk comes with the machine: take a target "
        "with a larger one, or a smaller model."
    )
