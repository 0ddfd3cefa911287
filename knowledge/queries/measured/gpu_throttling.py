"""In how many timed blocks of a campaign a GPU was held down, whatever pauses were made, and what to do.

A block counts as it does for the verdict: the attempt that counts, in the last attempt of its experiment. One
that was run anew and then undisturbed is none of these. The power limit alone is told apart, for it is how
many GPUs run at full load. Further workloads are left out, as they are no part of a verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Text, cast, func, or_, select
from sqlalchemy.orm import Session, aliased

from configs.targets import is_rented
from db.labels import Noun, format_label
from db.models import Campaign, Environment, Experiment, Launch, Verdict
from db.states import ExperimentState
from experiments.measurement.evidence import Stage
from experiments.measurement.gpu_block import (
    HARDWARE_SLOWDOWN,
    HEAT,
    POWER_BRAKE,
    THROTTLING,
    held_down_by,
)
from experiments.telemetry.gpus import THROTTLE_REASONS
from knowledge.figures import clock_mhz, counted, listed
from knowledge.queries.devices import devices_of_experiments
from knowledge.queries.measured.gpu_blocks import numbers, told_of_blocks
from knowledge.queries.view import View

MOST_NAMED = 5
"""Experiments named in a sentence; the others are counted."""


@dataclass(frozen=True)
class BlocksOfGpu:
    """What a GPU did in timed blocks: how many there are, and those in which it was held down by cause.

    A block with several causes counts for each, but `slowed` ones are those for which the hardware names
    neither heat nor the power brake. Temperatures and clocks (in MHz, the lowest reading and the lowest
    median of a block) are of blocks in which it was held down; `most_mhz` are the highest that drivers told.
    """

    blocks: int = 0
    held_down: int = 0
    heated: int = 0
    braked: int = 0
    slowed: int = 0
    power_limited: int = 0
    temperature_c: float | None = None
    sm_mhz_min: float | None = None
    sm_mhz_median_min: float | None = None
    most_mhz: frozenset[float] = frozenset()

    def __add__(self, other: BlocksOfGpu) -> BlocksOfGpu:
        """Both together."""
        return BlocksOfGpu(
            blocks=self.blocks + other.blocks,
            held_down=self.held_down + other.held_down,
            heated=self.heated + other.heated,
            braked=self.braked + other.braked,
            slowed=self.slowed + other.slowed,
            power_limited=self.power_limited + other.power_limited,
            temperature_c=max(_known(self.temperature_c, other.temperature_c), default=None),
            sm_mhz_min=min(_known(self.sm_mhz_min, other.sm_mhz_min), default=None),
            sm_mhz_median_min=min(_known(self.sm_mhz_median_min, other.sm_mhz_median_min), default=None),
            most_mhz=self.most_mhz | other.most_mhz,
        )


class GpuThrottlingView(View):
    """That a GPU was held down by heat, by its hardware or by its host's power brake in timed blocks of a
    campaign; counts are of blocks.

    `headline` and `where` together say it in a sentence, `means` what the times are worth, `to_do` what to
    do, with commands between backticks. `blocks` are all with a GPU's reading, `held_down` those in which it
    was, by cause `by_heat`, `by_power_brake` and `by_hardware_slowdown` (which names neither),
    `power_limited` those in which its power limit alone held the clocks. The highest temperature, the lowest
    SM clock and the lowest median of a block are of those held down, `max_sm_mhz` is the highest clock that
    the driver told, None where it told none or several.
    """

    headline: str
    where: str
    means: str
    to_do: str
    blocks: int
    held_down: int
    by_heat: int
    by_power_brake: int
    by_hardware_slowdown: int
    power_limited: int
    temperature_c: float | None
    sm_mhz_min: float | None
    sm_mhz_median_min: float | None
    max_sm_mhz: float | None
    experiments: tuple[str, ...]
    devices: tuple[str, ...]

    @property
    def told(self) -> str:
        """That it was, and where, in a sentence."""
        return f"{self.headline}{self.where}"

    @property
    def sentence(self) -> str:
        """All that is said of it, with commands between backticks."""
        return f"{self.told} {self.means} {self.to_do}"

    @property
    def apart(self) -> str | None:
        """The counts by cause where there are several, and what is no disturbance; None where `told` has
        said it all."""
        causes = [
            f"{count} by {words}"
            for count, words in (
                (self.by_heat, "heat"),
                (self.by_power_brake, "the power brake of the host"),
                (self.by_hardware_slowdown, "a slowdown for which the hardware names neither"),
            )
            if count
        ]
        said = [f"Of the {self.held_down} blocks, {listed(causes)}."] if len(causes) > 1 else []
        if self.power_limited:
            said.append(
                f"In {counted(self.power_limited, 'other')} its power limit alone held the clocks down, as "
                "many GPUs run at full load."
            )
        return " ".join(said) or None


def blocks_of_gpu(stored: object, max_sm_mhz: float | None = None) -> BlocksOfGpu:
    """What a GPU did in the timed blocks of a launch, as they are stored in its environment; `max_sm_mhz` is
    the highest SM clock that the driver told."""
    told = told_of_blocks(stored)
    causes = [held_down_by(str(each["throttled"])) if each.get("throttled") else None for each in told]
    held = [(each, bits) for each, bits in zip(told, causes, strict=True) if bits]
    blocks = [each for each, _ in held]
    return BlocksOfGpu(
        blocks=len(told),
        held_down=len(held),
        heated=sum(bool(bits & HEAT) for _, bits in held),
        braked=sum(bool(bits & POWER_BRAKE) for _, bits in held),
        slowed=sum(bits == HARDWARE_SLOWDOWN for _, bits in held),
        power_limited=sum(bits == 0 for bits in causes),
        temperature_c=max(numbers(blocks, "temperature_c"), default=None),
        sm_mhz_min=min(numbers(blocks, "sm_mhz", "min"), default=None),
        sm_mhz_median_min=min(numbers(blocks, "sm_mhz", "median"), default=None),
        most_mhz=frozenset({max_sm_mhz}) if held and max_sm_mhz is not None else frozenset(),
    )


def throttling(
    found: Mapping[str, BlocksOfGpu],
    *,
    rented: bool = False,
    devices: Collection[str] = (),
    judged: str | None = None,
) -> GpuThrottlingView | None:
    """The view of a campaign by experiment; None where no GPU was held down, or none was read.

    `devices` are those of the experiments in which it was, `judged` is the first of these that has a verdict
    and so can be run again.
    """
    whole = sum(found.values(), BlocksOfGpu())
    if not whole.held_down:
        return None
    labels = tuple(label for label, each in found.items() if each.held_down)
    max_mhz = next(iter(whole.most_mhz)) if len(whole.most_mhz) == 1 else None
    return GpuThrottlingView(
        headline=_headline(whole, () if rented else tuple(devices)),
        where=_where(whole, labels, max_mhz),
        means="Both arms of a test took turns on it, so that a verdict compares them on the GPU as it was; "
        "the times are those of a slowed GPU, and at full clocks an effect may differ.",
        to_do=_to_do(whole, rented, judged),
        blocks=whole.blocks,
        held_down=whole.held_down,
        by_heat=whole.heated,
        by_power_brake=whole.braked,
        by_hardware_slowdown=whole.slowed,
        power_limited=whole.power_limited,
        temperature_c=whole.temperature_c,
        sm_mhz_min=whole.sm_mhz_min,
        sm_mhz_median_min=whole.sm_mhz_median_min,
        max_sm_mhz=max_mhz,
        experiments=labels,
        devices=tuple(devices),
    )


@dataclass(frozen=True)
class _Known:
    """What was read of a campaign's experiments that are done, which never changes: whether a launch of it
    names a cause, and what the GPU did."""

    names: Mapping[int, bool] = field(default_factory=dict)
    blocks: Mapping[int, BlocksOfGpu] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[Engine | Connection, dict[int, _Known]] = WeakKeyDictionary()
"""By database and campaign."""


def gpu_throttling(session: Session, campaign_id: int) -> GpuThrottlingView | None:
    """In how many timed blocks of a campaign, which must exist, a GPU was held down; None where it was in
    none. Of an experiment that runs it is known once its launches are stored, at its end."""
    cache = _KNOWN.setdefault(session.get_bind(), defaultdict(_Known))
    known = cache[campaign_id]
    query = select(Experiment.id, Experiment.state).where(Experiment.campaign_id == campaign_id)
    states = {number_: state for number_, state in session.execute(query)}  # noqa: C416 - rows, not pairs
    done = {number_ for number_, state in states.items() if state is ExperimentState.DONE}
    names = {**known.names, **_naming_a_cause(session, states.keys() - known.names.keys())}
    found: dict[int, BlocksOfGpu] = {}
    if any(names.values()):
        found = {**known.blocks, **_blocks(session, states.keys() - known.blocks.keys())}
    cache[campaign_id] = _Known(
        {each: told for each, told in names.items() if each in done},
        {each: told for each, told in found.items() if each in done} or known.blocks,
    )
    held = sorted(each for each, told in found.items() if told.held_down)
    if not held:
        return None
    return throttling(
        {format_label(Noun.EXPERIMENT, each): found[each] for each in sorted(found)},
        rented=is_rented(str(session.get_one(Campaign, campaign_id).spec.get("target", ""))),
        devices=sorted(set(devices_of_experiments(session, held).values())),
        judged=_first_judged(session, held),
    )


def _naming_a_cause(session: Session, experiment_ids: Collection[int]) -> dict[int, bool]:
    """Whether the environment of a launch names heat, the hardware or the power brake, by experiment; one
    statement, which is quick, as nothing is parsed."""
    words = [words for bit, words in THROTTLE_REASONS.items() if bit & THROTTLING]
    query = (
        select(Launch.experiment_id)
        .join(Environment, Environment.digest == Launch.environment_digest)
        .where(
            Launch.experiment_id.in_(experiment_ids),
            or_(*(cast(Environment.data, Text).contains(each) for each in words)),
        )
        .distinct()
    )
    naming = set(session.scalars(query))
    return {each: each in naming for each in experiment_ids}


def _blocks(session: Session, experiment_ids: Collection[int]) -> dict[int, BlocksOfGpu]:
    """What a GPU did in the last attempt of each experiment, by experiment; one statement."""
    other = aliased(Launch)
    last = (
        select(func.max(other.attempt)).where(other.experiment_id == Launch.experiment_id).scalar_subquery()
    )
    query = (
        select(
            Launch.experiment_id,
            Environment.data["blocks"],
            Environment.data["machine"]["gpu"]["max_sm_mhz"].as_float(),
        )
        .join(Environment, Environment.digest == Launch.environment_digest)
        .where(
            Launch.experiment_id.in_(experiment_ids),
            Launch.stage != Stage.FURTHER.value,
            Launch.attempt == last,
            cast(Environment.data, Text).contains('"throttled"'),  # else no GPU was read
        )
    )
    found = dict.fromkeys(experiment_ids, BlocksOfGpu())
    for number_, blocks, max_mhz in session.execute(query):
        found[number_] += blocks_of_gpu(blocks, max_mhz)
    return found


def _first_judged(session: Session, experiment_ids: Collection[int]) -> str | None:
    query = select(func.min(Verdict.experiment_id)).where(Verdict.experiment_id.in_(experiment_ids))
    found = session.scalar(query)
    return None if found is None else format_label(Noun.EXPERIMENT, found)


def _headline(whole: BlocksOfGpu, devices: tuple[str, ...]) -> str:
    causes = [
        words
        for count, words in (
            (whole.heated, "heat"),
            (whole.braked, "the power brake of its host"),
            (whole.slowed, "its hardware"),
        )
        if count
    ]
    who = f"The GPU ({devices[0]}) was" if len(devices) == 1 else "The GPU was"
    if len(devices) > 1:
        who = f"GPUs ({listed(list(devices))}) were"
    within = f"{whole.held_down} of {counted(whole.blocks, 'timed block')}"
    return f"{who} held down by {listed(causes)} in {within}, even after pauses"


def _where(whole: BlocksOfGpu, labels: tuple[str, ...], max_mhz: float | None) -> str:
    figures = []
    if whole.temperature_c is not None:
        figures.append(f"up to {whole.temperature_c:.0f} °C")
    if whole.sm_mhz_median_min is not None:
        figures.append(f"a block's median SM clock down to {clock_mhz(whole.sm_mhz_median_min, max_mhz)}")
    beside = f" ({', '.join(figures)})" if figures else ""
    named = list(labels[:MOST_NAMED])
    if len(labels) > MOST_NAMED:
        named.append(f"{len(labels) - MOST_NAMED} more")
    return f"{beside}: {listed(named)}."


def _to_do(whole: BlocksOfGpu, rented: bool, judged: str | None) -> str:
    again = ", then run them again" + (f" (`autoinfer reproduce {judged}`)" if judged else "")
    if rented:
        return f"Rent another machine{again}."
    acts = []
    if whole.heated:
        acts.append("see to its cooling or lower its power limit (`sudo nvidia-smi -pl WATTS`)")
    if whole.braked:
        acts.append("see to its host's power supply")
    if whole.slowed:
        acts.append("ask the driver why (`nvidia-smi -q -d PERFORMANCE`)")
    told = listed(acts)
    return f"{told[0].upper()}{told[1:]}{again}."


def _known(*values: float | None) -> Iterable[float]:
    return [each for each in values if each is not None]
