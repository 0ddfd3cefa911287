"""What this machine and the function on Modal tell each other: typed data as JSON, and its place. Pure.

Three of Modal's Dicts hold it, whose entries last seven days after they were last touched, as results do:

    autoinfer-claims   KEY -> the call that works on the job, put by its first act and never overwritten;
                       `start:CALL:N` -> the same, once for each time the call was started; and
                       `cancelled:CALL` -> the same, where somebody asked for its end
    autoinfer-heads    CALL -> `Head`: what stands where, of every call, small: all are read at once
    autoinfer-pieces   `CALL:START:N` -> `Piece`: what the job told since the piece before
"""

from __future__ import annotations

import zlib
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from experiments.job.result import BROKE
from experiments.job.spec import SPEC_VERSION
from experiments.measurement.evidence import Stage

APP_NAME = "autoinfer"
FUNCTION_PREFIX = "job_v"
FUNCTION_NAME = f"{FUNCTION_PREFIX}{SPEC_VERSION}"
"""The deployed function; its name carries the version of the specs it takes: another one is not found."""

CLAIMS, HEADS, PIECES = "autoinfer-claims", "autoinfer-heads", "autoinfer-pieces"
DEPLOYMENT = "deployment"
"""Key among the claims under which `deploy` writes what it deployed."""

CANCELLED = "cancelled"
"""Stands in a claim, in place of a call, where the job was cancelled before any call had begun it."""

MODELS_VOLUME, WORK_VOLUME = "autoinfer-models", "autoinfer-work"
MODELS_FOLDER, WORK_FOLDER = "/models", "/autoinfer"
"""Where the volumes are in a container: checkpoints by fingerprint; artifacts and caches."""

FINGERPRINT_CHARACTERS = 16
"""Of a checkpoint's fingerprint, which name its folder in the volume of models."""

KEPT_DAYS = 7
"""How long Modal keeps a result and an untouched entry of a Dict (its documentation, version 1.6)."""


class _Told(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Asked(_Told):
    """One job: `key` names job and attempt, `gpu` is the type asked for (None: no GPU), `spec` a job spec.

    `within_s`: seconds after its first container began within which a call that was started again must end,
    for Modal's own time limit begins anew with each start, and a quote is for one; None for no such end."""

    version: int
    key: str
    gpu: str | None
    spec: dict[str, object]
    limits_s: dict[Stage, float]
    load_limit_s: float
    run_generated_code: bool = False
    within_s: float | None = None
    limit_s: float | None = None
    """Seconds from a start's begin after which the body ends the job; None: Modal's limit alone."""
    shape: dict[str, str] = {}
    """The files of a checkpoint that has no weights."""

    def packed(self) -> bytes:
        """As the function's one argument: compressed, so that it goes with the call itself."""
        return zlib.compress(self.model_dump_json().encode())

    @classmethod
    def unpacked(cls, packed: bytes) -> Asked:
        """The opposite of `packed`; raises `ValueError` for anything else."""
        try:
            return cls.model_validate_json(zlib.decompress(packed))
        except zlib.error as error:
            raise ValueError(f"the request is no compressed JSON ({error})") from None


class Head(_Told):
    """Where a call stands: its `start`-th start has told `pieces` pieces; times in seconds since the epoch.

    `start` is 0 while it waits for a container; then whoever made the call wrote this.
    """

    call_id: str
    key: str
    gpu: str | None
    got_gpu: str | None = None
    start: int = 0
    pieces: int = 0
    submitted_at_s: float = 0.0
    began_at_s: float = 0.0
    first_began_at_s: float = 0.0
    told_at_s: float = 0.0
    ended: bool = False


class Piece(_Told):
    """What a job told since the piece before: lines of its records, text of its log, lines of its extras."""

    records: str = ""
    log: str = ""
    extras: str = ""


class Outcome(StrEnum):
    """How a call ended, in its own words."""

    DONE = "done"
    """The records came to their end; they may tell an infeasible configuration."""
    FAILED = "failed"
    LOST = "lost"
    DUPLICATE = "duplicate"
    """Another call works on the job; this one did nothing."""
    CANCELLED = "cancelled"
    TIMED_OUT = "timed-out"
    """The body ended the job at the limit of the whole of it."""
    OTHER_GPU = "other-gpu"
    """Modal gave another GPU than was asked for; nothing was measured."""


class Envelope(_Told):
    """What the function returns, always: it never raises, for a builtin `TimeoutError` would look as if the
    call had not ended. `sentence` says why it is not done, `failure_kind` of what kind that is; `owner` is
    the call a duplicate gave way to."""

    outcome: Outcome
    call_id: str
    start: int = 1
    pieces: int = 0
    got_gpu: str | None = None
    sentence: str = ""
    failure_kind: str = BROKE
    owner: str | None = None
    began_at_s: float = 0.0
    ended_at_s: float = 0.0


class Deployment(_Told):
    """What was deployed, when, and as which version; `code` is a fingerprint of the code that went up."""

    version: int
    autoinfer: str
    code: str
    vllm: str
    startup_s: int
    deployed_at: str = Field(description="ISO 8601, UTC")


def piece_key(call_id: str, start: int, number: int) -> str:
    """The key of a piece, counted from 0."""
    return f"{call_id}:{start}:{number}"


def start_key(call_id: str, start: int) -> str:
    """The claim on the `start`-th start of a call, counted from 1."""
    return f"start:{call_id}:{start}"


def cancelled_key(call_id: str) -> str:
    """The claim that says that somebody asked for a call's end."""
    return f"cancelled:{call_id}"


def model_folder(fingerprint: str) -> str:
    """The folder of a checkpoint in the volume of models."""
    return fingerprint[:FINGERPRINT_CHARACTERS]
