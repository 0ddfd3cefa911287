"""The closed vocabularies of the database: states, kinds and outcomes, stored as the words written here."""

from __future__ import annotations

from enum import StrEnum


class CampaignState(StrEnum):
    """Where a campaign stands; `stopping` finishes what runs and takes nothing new."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"


class HypothesisState(StrEnum):
    """The life of a hypothesis, from a proposal to what was decided about it."""

    PROPOSED = "proposed"
    QUEUED = "queued"
    TESTING = "testing"
    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    CONFOUNDED = "confounded"
    INFEASIBLE = "infeasible"
    WITHDRAWN = "withdrawn"


class ExperimentKind(StrEnum):
    """Why an experiment is run."""

    BASELINE = "baseline"
    """Find and measure trial 0 of a campaign."""
    TEST = "test"
    """Test one hypothesis."""
    REPRODUCE = "reproduce"
    """Run an earlier experiment again in fresh processes."""
    PROMOTE = "promote"
    """Test the arms of an earlier experiment on another target."""
    NOISE = "noise"
    """A/A launches that tell how much launches vary on this target."""


class ExperimentState(StrEnum):
    """Where an experiment stands."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Arm(StrEnum):
    """The two sides of an experiment."""

    CONTROL = "control"
    CANDIDATE = "candidate"


class StageOutcome(StrEnum):
    """How a run of a stage ended; `reused` means that the artifact was there already."""

    DONE = "done"
    REUSED = "reused"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class VerdictOutcome(StrEnum):
    """What the judge decided about an experiment."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"
    CONFOUNDED = "confounded"
    INFEASIBLE = "infeasible"


class FindingStatus(StrEnum):
    """Whether a finding may still be believed."""

    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    SUPERSEDED = "superseded"
    STALE = "stale"
    WITHDRAWN = "withdrawn"
    """The user took back what they had written."""


class EvidenceRelation(StrEnum):
    """What a verdict says about a finding."""

    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    REPRODUCES = "reproduces"
    """It says again what an earlier verdict of its own campaign said: a rerun, which is no replication."""
    REPLICATES = "replicates"
    """It is the first of another campaign to say what was said before: an independent replication."""
    INFORMS = "informs"
    """An inconclusive verdict: its estimate is pooled with the others, but it decides nothing."""


AGREEING = frozenset({EvidenceRelation.SUPPORTS, EvidenceRelation.REPRODUCES, EvidenceRelation.REPLICATES})
"""What a verdict says that says the same as its finding."""


class DirectiveKind(StrEnum):
    """How the user steers the campaign."""

    FOCUS = "focus"
    BOOST = "boost"
    BAN = "ban"
    CAP = "cap"
    """At most so many tests, so much time or such a share of the tests goes to a lever."""
    RESERVE = "reserve"
    """At least such a share of the tests goes to a lever."""
    NOTE = "note"
    PRIORITY = "priority"
    PIN = "pin"
    QUESTION = "question"
    """The question of the night: what settles this hypothesis is tested before all else."""
    APPROVAL = "approval"
    """What is expected to cost more than the campaign spends unasked may be tested."""


class WorkerState(StrEnum):
    """What a worker is doing, as far as its last heartbeat tells."""

    IDLE = "idle"
    BUSY = "busy"
    STOPPED = "stopped"
    LOST = "lost"


class JobState(StrEnum):
    """The life of a job in the durable queue."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL_JOB_STATES = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
"""The states that a job never leaves."""


class RemoteRunState(StrEnum):
    """How far a run on a remote target has come, as far as this database knows."""

    INTENDED = "intended"
    """It is about to be submitted under its key, or was and the answer is not stored."""
    SUBMITTED = "submitted"
    """The executor gave its ref."""
    ENDED = "ended"
    """Nothing of it runs any more, and what it cost is settled."""


class BudgetScope(StrEnum):
    """What a budget in US dollars bounds."""

    CAMPAIGN = "campaign"
    DAY = "day"
    """Every day, of UTC."""
    TARGET = "target"
