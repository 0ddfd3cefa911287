"""What a job is asked to do: typed data, never code. Versioned, because workers may be older or newer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from experiments.measurement.evidence import Metric
from experiments.measurement.plan import FurtherWorkload, StoppingPlan, Workload
from experiments.space.configuration import KnobValue

SPEC_VERSION: Literal[1] = 1
"""Raised when a spec's meaning changes; a worker leaves jobs of every version but its own in the queue."""

BUILD: Literal["build"] = "build"
"""The kind of a job that builds for others and measures nothing."""

Knobs = dict[str, KnobValue]


class _JobSpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: Literal[1] = SPEC_VERSION
    campaign_id: int
    engine: str
    """Entry-point name of the engine."""
    judge: str = "launch-interval"
    """Entry-point name of the judge that steers the experiment."""
    model: str
    """`reference`, or a folder with a checkpoint."""
    model_fingerprint: str
    device: str
    """`cpu`, `cuda:0` …"""
    seed: int
    at_once: int | None = Field(default=None, ge=1)
    """The most launches that may be up at once, where the device's memory has no room for as many as a step
    asks for; 1: in turn, the launches of a pair as neighbours in time. None: as many as asked for."""

    @property
    def in_turn(self) -> bool:
        """Whether one launch is up at a time."""
        return self.at_once == 1


class _ExperimentJob(_JobSpec):
    experiment_id: int


class BaselineJob(_ExperimentJob):
    """Find and measure trial 0: sweep, choose, measure noise launches, profile, evaluate quality.

    Every configuration of `sweep` gets one launch, all interleaved block by block; the one with the
    lowest median of `metric` becomes the baseline (control arm). `naive` is the engine's own default
    and is one of the sweep, unless `naive_refused` tells why not. Then `noise_launches` fresh A/A launches
    of the baseline, in one window. Before all of it products of packed weights may be timed alone
    (`kernels`).
    """

    kind: Literal["baseline"] = "baseline"
    sweep: tuple[Knobs, ...] = Field(min_length=1)
    naive: Knobs
    naive_refused: str | None = None
    """Why that default is not one of the sweep, as a clause, where the campaign begins from another."""
    metric: Metric = Metric.TPOT_MS
    workload: Workload = Workload()
    sweep_blocks: int = Field(default=2, ge=2)
    noise_launches: int = Field(default=3, ge=2)
    noise_blocks: int = Field(default=3, ge=2)
    kernels: tuple[Knobs, ...] = ()
    """Configurations of packed weights whose products are timed alone before anything is loaded, where the
    engine can do that; none where it is not asked for."""


class NoiseState(BaseModel):
    """The target's noise profile at the time of dispatch (see `evidence.NoiseProfile`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    target_key: str
    launches: int = 0
    degrees_of_freedom: int = 0
    launch_sd_log: float | None = None


class TestJob(_ExperimentJob):
    """Test one hypothesis: control against candidate, steered by the judge under a frozen plan."""

    __test__ = False  # not a test class for pytest
    kind: Literal["test"] = "test"
    control: Knobs
    candidate: Knobs
    reference: Knobs | None = None
    """What the candidate's quality is compared with: the campaign's baseline, so that small losses don't
    add up over a chain of supported changes. None means the control, and so does a claim on quality itself.
    Its evaluation is an artifact, and its record stands under arm `control`, stage `evaluate`."""
    plan: StoppingPlan
    preregistration_digest: str
    """The seal (`experiments.job.seal`), written before the first sample."""
    judge_version: str | None = None
    """The version of the judge that is sealed; None in jobs from before it was."""
    pinned_keys: tuple[str, ...] = ()
    """The resolved keys that the changed knobs fix, as the space declares them."""
    texts: str | None = None
    """Fingerprint of the text that prompts, documents and items are cut from, as the campaign's baseline was
    measured with; None in jobs from before it was sealed."""
    noise: NoiseState
    reproduces_experiment_id: int | None = None
    target: str | None = None
    """The target where it runs in place of the campaign's own, as measurements are kept by it: what its
    quality is compared with is scored there too. None on the campaign's own."""
    within_s: float | None = Field(default=None, gt=0)
    """Seconds after which it ends with what was measured until then, from when its checkpoints are there;
    None for the limits of its stages alone."""
    further: tuple[FurtherWorkload, ...] = ()
    """Workloads that are measured beside the plan's, of both arms, in launches whose judged blocks are over.
    Nothing is judged by them, so that they are not sealed; none where the job has a limit of its own."""

    @property
    def further_here(self) -> tuple[FurtherWorkload, ...]:
        """Those that are measured: none where time spent on them would be taken from what is judged."""
        return self.further if self.within_s is None else ()


class AaJob(_ExperimentJob):
    """Time one pair of fresh launches of the same configuration against each other, as a test times its arms.

    `pair` is the place in the series and decides which arm has the first seat and leads; `prompts` chooses
    the texts, so that pairs that are compared get the same ones. `alone`: one launch is ended before the
    other is started, as it is where launches are in turn anyway. `beside` is the command, in words, that runs
    meanwhile, and that a worker runs only where it was started with the same one (`Place`).
    """

    kind: Literal["aa"] = "aa"
    configuration: Knobs
    metric: Metric = Metric.TPOT_MS
    workload: Workload = Workload()
    blocks: int = Field(ge=2)
    pair: int = Field(ge=0)
    prompts: int = Field(ge=0)
    alone: bool = False
    beside: tuple[str, ...] = ()

    @property
    def in_turn(self) -> bool:
        """Whether one launch is up at a time."""
        return self.alone or self.at_once == 1

    @property
    def as_tests_run(self) -> bool:
        """Whether the launches ran as those of a test do, side by side or in turn, so that they tell the
        target's noise."""
        return not self.beside


class BuildJob(_JobSpec):
    """Build the checkpoint of a configuration, on a device that has nothing else to do; nothing is measured.

    It is of no experiment: what it leaves is an artifact, which the test that needs it finds.
    """

    kind: Literal["build"] = BUILD
    configuration: Knobs
    purpose: str | None = None
    """What needs it first, such as `H-003` or `the question g32_bits`; the checkpoint is the same for all."""
    workload: Workload = Workload()


ExperimentJob: TypeAlias = BaselineJob | TestJob | AaJob
"""Jobs that measure something for an experiment."""

AnyJob: TypeAlias = ExperimentJob | BuildJob
JobSpec = Annotated[AnyJob, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[AnyJob] = TypeAdapter(JobSpec)


def job_data(spec: AnyJob) -> dict[str, Any]:
    """A job spec as JSON data with the fields that it was given alone, from which `parse_job` reads it again:
    what a version added after a job was stored stays out of it, because its seal does not cover it."""
    given = spec.model_dump(mode="json", exclude_unset=True)
    return {"version": spec.version, "kind": spec.kind, **given}


def parse_job(data: object) -> AnyJob:
    """A job spec from JSON data; raises `pydantic.ValidationError` for anything else, other versions too."""
    return _ADAPTER.validate_python(data)
