"""What some executors can do beside the eight verbs of the port; whoever uses it asks by `isinstance`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from experiments.executors.process_group import ProcessGroup


@runtime_checkable
class RunsHere(Protocol):
    """An executor whose runs are process groups on this host, whose end can be waited for."""

    def group(self, ref: str) -> ProcessGroup | None:
        """The process group of a run."""
        ...

    def wait(self, ref: str, timeout_s: float) -> None:
        """Block until the run ends or the time is over."""
        ...

    def close(self) -> None:
        """End what was started and still runs."""
        ...


@runtime_checkable
class EndsMeasuring(Protocol):
    """An executor whose runs can be asked to end with what they measured."""

    def end_measuring(self, ref: str, why: str) -> None:
        """Ask a run to, `why` in a sentence."""
        ...
