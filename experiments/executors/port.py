"""The executor's port: eight verbs that run a job somewhere. Entry-point group `autoinfer.executors`.

One suite of tests (`tests/integration/executors/conformance.py`) holds every executor to this page:

- `submit` is idempotent by key: a second submit with the key of a live or finished job gives its ref, or,
  where a provider can't promise that, a ref whose body ends at its first act.
- `find(key)` gives the ref of what was submitted under a key, so that a ref that was lost is looked up, never
  submitted again.
- what could not be asked because the provider did not answer raises `configs.errors.ProviderUnreachable`: the
  caller asks again. `submit` raises another `AutoinferError` only when nothing was started.
- after any crash, `poll(ref)` of a stored ref tells the truth, and `reconcile` finds what no ref is known of.
- `cancel` returns only when nothing of the job runs any more, and may be called twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from experiments.job.result import BROKE, JobProgress, JobResult
from experiments.job.spec import AnyJob


class RunState(StrEnum):
    """Where a submitted job stands.

    `failed`: the job itself said in a sentence why it can't go on, and trying again would give the same.
    `lost`: its processes ended (killed, crashed) without a result; trying again may help.
    `timed_out`: it was ended at the limit that it was submitted with; with a larger one it may end by itself.
    """

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True)
class Quote:
    """What a job may cost at most and is expected to cost; local time costs 0 USD."""

    expected_s: float
    upper_bound_s: float
    expected_usd: float
    upper_bound_usd: float
    basis: str


@dataclass(frozen=True)
class Status:
    """State of a run; `result` is there when done (a failed configuration is a result too), `failure`
    says in a sentence why a run itself failed, `failure_kind` of what kind that is (of an
    experiment's failure), `progress` is the last thing it told."""

    state: RunState
    progress: JobProgress | None = None
    result: JobResult | None = None
    failure: str | None = None
    failure_kind: str = BROKE


@dataclass(frozen=True)
class LogChunk:
    """Log text from a cursor on, and the cursor to ask from next."""

    text: str
    cursor: int


@dataclass(frozen=True)
class Cost:
    """What a run has cost so far, seconds and US dollars; `billed` where the provider's own bill says so,
    else it is time by rates."""

    wall_s: float
    usd: float
    billed: bool = False


@dataclass(frozen=True)
class RentedMachine:
    """What a target of rented machines is asked to be, known before anything is rented: the packaged hardware
    profile of its GPU, None for none, its processor cores and its memory."""

    hardware: str | None
    cores: int
    memory_bytes: int


class Executor(Protocol):
    """Runs jobs on one kind of place.

    One of this machine is made with `(root, place)` and runs one job at a time for `experiments.worker`. One
    of rented or remote machines is made with `(root, place, target=…)`, what the user named such as
    `modal:H100!`; its runs outlive the process that submitted them, and `experiments.remote` keeps many of
    them in flight. What it may have beside the eight verbs: `threads`, so many calls may be made at once;
    `logs_elsewhere`, its logs are copied to `<root>/<key>/log.txt`, where pages look, and else it keeps them
    there itself; `ahead(refs)`, told which runs are polled next, so that it can ask for all at once;
    `key_of(ref) -> str | None`, so that `autoinfer reconcile` can tell whose a run is; and, of its class,
    `machine(target) -> RentedMachine`, which asks nobody, so that campaigns can be run there; it raises
    `UsageError` for a target that it does not know.

    `limit_s` is the most seconds that a whole job may take, beside the limits of its stages; None for those
    alone. An executor that bounds its quote by it also ends the run there, on the machine itself
    (`RunState.TIMED_OUT`); one that can't ignores it in both.
    """

    name: str

    def quote(self, spec: AnyJob, limit_s: float | None = None) -> Quote:
        """Price and time before anything is submitted."""
        ...

    def submit(self, key: str, spec: AnyJob, limit_s: float | None = None) -> str:
        """Start the job; `key` names job and attempt. Returns a ref that survives this process."""
        ...

    def find(self, key: str) -> str | None:
        """The ref of what was submitted under the key, by whomever; None where nothing is known of it."""
        ...

    def poll(self, ref: str) -> Status:
        """Where the run stands; never blocks for long."""
        ...

    def cancel(self, ref: str) -> None:
        """End the run and everything it started."""
        ...

    def logs(self, ref: str, cursor: int = 0) -> LogChunk | None:
        """What the run has written since `cursor`, in pieces; None where no log of it is kept."""
        ...

    def cost(self, ref: str) -> Cost:
        """What the run has cost so far."""
        ...

    def reconcile(self) -> list[str]:
        """Refs of runs that are alive here, whoever started them."""
        ...
