"""A plan: everything that can be told of a campaign before it begins, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from agent.ground.legal import Legal, gpu_served
from agent.ground.positions import space_on
from agent.ground.sweep import passed_over
from agent.plan.at_once import (
    IN_TURN,
    THIS_IN_TURN,
    at_once_told,
    launches_at_once,
    launches_of_test,
    launches_on,
    usable_on,
)
from agent.plan.building import build_of
from agent.plan.card import Card, limited, listed_cards
from agent.plan.duration import Duration, advice, duration, kernels_seconds, loaded_together
from agent.plan.fewer_at_once import fewer_at_once, fewer_told
from agent.plan.fitting import longest_context, sentence, smallest_card, ways_out
from agent.plan.floor import FloorRow, floors
from agent.plan.further import further_of, unserved_further
from agent.plan.legal_planned import planned_legal
from agent.plan.levers import (
    OUT_OF_MEMORY,
    Check,
    LeverRow,
    beside,
    lever_rows,
    refusal_of,
    refused_at_all,
    refused_by,
)
from agent.plan.load_and_request import (
    Stored,
    changed_load_takes_more_s,
    expected_load,
    expected_request,
    first_load_takes_more_s,
    longest_load_takes_more_s,
    weights_read,
)
from agent.plan.memory import Room
from agent.plan.model import ModelFound
from agent.plan.start import Start, figures, first_served, swept_from
from agent.plan.starting import start_on
from agent.plan.tools_there import MadeOn, tools_told
from configs.campaign import CampaignSpec
from experiments.engines.launch_memory import Part, needed_bytes, weight_bytes
from experiments.engines.port import Infeasible
from experiments.engines.stored_bytes import step_rows
from experiments.job.named import serves_packed
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import written

WH_PER_S = 1 / 3600


@dataclass(frozen=True)
class MemoryPlan:
    """What a launch takes by part, whether one and a test's two fit, each in a sentence; how many may be up
    at once (None: as many as a step asks for), and what to say where they run in turn."""

    parts: tuple[Part, ...]
    rooms: tuple[Room, ...]
    sentences: tuple[str, ...]
    at_once: int | None = None
    in_turn_told: str | None = None


@dataclass(frozen=True)
class NotLegal:
    """Why a configuration can't be here, in a sentence, and the change of another knob, `KNOB=VALUE`, with
    which it can; None where no single one does."""

    why: str
    beside: str | None = None


@dataclass(frozen=True)
class Plan:
    """A campaign before it begins: on what, whether it fits, what it may turn, and how long until it says
    something."""

    model: ModelFound
    card: Card
    spec: CampaignSpec
    configuration: Configuration
    start: Start
    memory: MemoryPlan
    levers: tuple[LeverRow, ...]
    first_verdict: Duration
    notes: tuple[str, ...] = ()
    served_by: str | None = None
    """The engine with its version, in words; None where nobody looked."""
    raises_budget: bool = False
    """Whether a campaign takes a budget that reaches verdicts where the packaged one may not."""
    unfit: str | None = None
    """Why no campaign begins with the checkpoint that is here, in a sentence; None where nothing is known."""
    not_legal: NotLegal | None = None
    """What is against the knobs that were set; None where nothing is, and where none were."""

    @property
    def advice(self) -> str | None:
        """What to say of the budget; None where it does."""
        return advice(self.first_verdict, self.spec.budget.wall_s, raised=self.raises_budget)

    @property
    def floors(self) -> tuple[FloorRow, ...]:
        """The least time of a step for each format of weights, half-way through a request; of weights that
        are quantized as they are stored, where the engine computes with them so, for that one, and none where
        their bytes by part are not known."""
        as_stored = self.model.quantized and serves_packed(self.spec.engine)
        if as_stored and not self.model.profile.is_stored_quantized:
            return ()
        workload, listed = self.spec.plan.workload, self.card.listed
        return floors(
            self.model.profile,
            None if listed is None else listed.bandwidth_bytes_per_s,
            on_gpu=self.card.is_gpu,
            context_tokens=workload.prompt_tokens + workload.new_tokens // 2,
            sequences=workload.concurrency,
            rows=self.step_rows,
            as_stored=as_stored,
        )

    @property
    def step_rows(self) -> int:
        """Rows of a step under the configuration: a token of each request at once, and the drafts that it
        verifies."""
        return step_rows(self.configuration, self.spec.plan.workload.concurrency)

    @property
    def most_energy_wh(self) -> float | None:
        """Watt-hours of the card until the first verdict at most, at its power limit; None where that is not
        listed."""
        listed = self.card.listed
        return None if listed is None else listed.power_limit_w * self.first_verdict.most_s * WH_PER_S


def make_plan(
    spec: CampaignSpec,
    model: ModelFound,
    card: Card,
    knobs: dict[str, KnobValue] | None = None,
    *,
    cores: int | None = None,
    check: Check | None = None,
    stored: Stored | None = None,
    notes: Sequence[str] = (),
    in_turn: bool = False,
    begun_from: Start | None = None,
    served_by: str | None = None,
    made_on: MadeOn | None = None,
) -> Plan:
    """The plan of a campaign for a model on a card, with `knobs` in place of those that it begins from.

    `check` is the engine's own, for a target that is here, `begun_from` what a campaign was found to begin
    from, `served_by` the engine in words; `cores` are those of the target; `in_turn` says that launches run
    so whatever the memory says. Raises `UsageError` for knobs that the space does not have.
    """
    whole = space_on(spec, model.profile, model.packing)
    legal = planned_legal(spec, model, card, cores)
    card = limited(card, spec.memory)
    context = Workload.model_validate(spec.plan.workload.model_dump()).context_tokens
    start = begun_from or first_served(
        start_on(spec, model, card, legal, context), lambda each: refusal_of(check, each.configuration)
    )
    begun = start.configuration
    configuration = whole.with_change(begun, knobs) if knobs else begun
    told = list(notes)
    of_values, refused = refused_at_all(check, begun)
    if refused is not None:
        told.append(f"The engine {spec.engine} can't serve what a campaign begins from: {refused}")
    found_note = (None if model.checkpoint is None else model.checkpoint.note) or ""
    passed = passed_over(legal.space, begun, legal.withheld, spec.baseline.sweep)
    if passed is not None and passed not in found_note:  # a campaign's ground says so itself
        told.append(passed)
    if found_note:
        told.append(found_note)
    told += tools_told(spec, legal, made_on)
    if not start.fits:
        told += fewer_told(fewer_at_once(spec, model, card, cores))
    memory = _memory(spec, model, card, legal, start, configuration, context, in_turn=in_turn)
    told += [
        f"No campaign begins with further_workloads.{place}: {why}"
        for place, _, why in unserved_further(spec, model, card, begun, memory.at_once)
    ]
    return Plan(
        model,
        card,
        spec,
        configuration,
        start,
        memory,
        lever_rows(whole, legal, _with_memory(of_values, spec, model, card, begun, context), begun),
        _duration(
            spec,
            model,
            card,
            legal,
            start,
            configuration,
            stored or Stored(),
            at_once=memory.at_once,
            cores=cores,
        ),
        tuple(told),
        served_by=served_by,
        not_legal=_not_legal(legal, knobs, configuration, of_values) if knobs else None,
    )


def _with_memory(
    check: Check | None,
    spec: CampaignSpec,
    model: ModelFound,
    card: Card,
    begun: Configuration,
    context_tokens: int,
) -> Check | None:
    """The engine's check, with what the plan counts of memory after it; where not even `begun` fits, values
    say nothing of memory."""
    usable, parts = usable_on(card), launches_on(spec, model, card)

    def needed(each: Configuration) -> int:
        return needed_bytes(parts(each, context_tokens))

    if needed(begun) > usable:
        return check

    def checked(each: Configuration) -> None:
        if check is not None:
            check(each)
        if (bytes_needed := needed(each)) > usable:
            told = f"By count it does not fit: {figures(bytes_needed, usable)}."
            raise Infeasible(OUT_OF_MEMORY, told, bytes_needed - usable)

    return checked


def _not_legal(
    legal: Legal, knobs: Mapping[str, KnobValue], configuration: Configuration, check: Check | None
) -> NotLegal | None:
    """What is against a configuration with these knobs set: its model, its target, or its engine; memory is
    told by its parts."""
    never = legal.why_not_admitted(configuration)
    why = never or legal.refused(configuration)
    if why is None:
        refused = refused_by(check, configuration)
        return None if refused is None or refused.kind == OUT_OF_MEMORY else NotLegal(refused.cause)
    # in its own words, which tell what it lacks, and the ones that can't be here at all first
    for told in (legal.why_never, legal.why_not) if never else ():
        for knob, value in knobs.items():
            if (own := told({knob: value})) is not None:
                return NotLegal(f"{knob}={written(value)}: {own}")
    served = (each for each in beside(legal, configuration, knobs) if refused_by(check, each.made) is None)
    return NotLegal(why, next((each.words for each in served), None))


def _memory(
    spec: CampaignSpec,
    model: ModelFound,
    card: Card,
    legal: Legal,
    start: Start,
    configuration: Configuration,
    context: int,
    *,
    in_turn: bool,
) -> MemoryPlan:
    parts_at = launches_on(spec, model, card)

    @cache  # the baseline is beside each way out
    def needed_at(each: Configuration, tokens: int) -> int:
        return needed_bytes(parts_at(each, tokens))

    usable = usable_on(card)
    baseline = start.configuration
    fits = [
        _fit(what, Needs(needed_at, beside), configuration, context, usable, card, legal)
        for what, beside in (("One launch", None), ("A test, the baseline and this at once,", baseline))
    ]
    rooms, sentences = (tuple(each) for each in zip(*fits, strict=True))
    at_once = IN_TURN if in_turn else launches_at_once(spec, model, card, baseline, context)
    asked = spec.launches == "in_turn"
    told = at_once_told(at_once, needed_at(baseline, context), usable, asked=asked) if rooms[0].fits else None
    if at_once != IN_TURN and rooms[0].fits and card.is_gpu:
        tested = launches_of_test(spec, model, card, (baseline, configuration), context)
        told = THIS_IN_TURN if tested == IN_TURN else None
    return MemoryPlan(parts_at(configuration, context), rooms, sentences, at_once, told)


@dataclass(frozen=True)
class Needs:
    """Bytes of a launch at a context, with those of another one beside it where there is one."""

    needed_at: Callable[[Configuration, int], int]
    beside: Configuration | None

    def at(self, configuration: Configuration, context: int) -> int:
        """Bytes of both."""
        other = 0 if self.beside is None else self.needed_at(self.beside, context)
        return self.needed_at(configuration, context) + other


def _fit(
    what: str,
    needs: Needs,
    configuration: Configuration,
    context: int,
    usable: int,
    card: Card,
    legal: Legal,
) -> tuple[Room, str]:
    """Whether it fits, and the sentence that says so, with what would fit where it does not."""
    room = Room(what, needs.at(configuration, context), usable)
    if room.fits:
        return room, sentence(room, card.name)
    ways = ways_out(legal.space, configuration, lambda each: needs.at(each, context), room, legal.refused)
    longest = longest_context(lambda tokens: needs.at(configuration, tokens), context, usable)
    if room.needed_bytes <= usable_on(limited(card, card.memory_bytes)):
        return room, sentence(room, card.name, ways, longest, limit_bytes=room.needed_bytes)
    larger = smallest_card(room.needed_bytes, listed_cards()) if card.is_gpu else None
    return room, sentence(room, card.name, ways, longest, larger)


def _duration(
    spec: CampaignSpec,
    model: ModelFound,
    card: Card,
    legal: Legal,
    start: Start,
    configuration: Configuration,
    stored: Stored,
    *,
    at_once: int | None,
    cores: int | None,
) -> Duration:
    """The time to the first verdict; the test is taken to be of `configuration` where that differs from what
    the campaign begins from."""
    baseline, begun, in_turn = spec.baseline, start.configuration, at_once == IN_TURN
    request = expected_request(
        model.profile,
        spec.plan.workload,
        card.listed,
        on_gpu=card.is_gpu,
        weights=weights_read(model.profile, begun, spec.plan.workload, packed=serves_packed(spec.engine)),
    )
    held = weight_bytes(model.profile, begun)
    as_files = begun.get("quantization.method", "none") == "none"
    size = model.stored_bytes or (model.file_bytes if as_files else None) or held
    version = gpu_served(spec, card.compute_capability).version
    return duration(
        spec.plan,
        len(swept_from(start, spec, legal)),
        baseline.sweep_blocks,
        (baseline.noise_launches, baseline.noise_blocks),
        spec.budget.wall_s,
        expected_load(spec.engine, size, on_gpu=card.is_gpu, made_up=spec.latency_only, version=version),
        request,
        stored,
        in_turn=in_turn,
        together=card.is_gpu and not in_turn,
        pairs_together=loaded_together(spec.plan, at_once, cores, latency_only=spec.latency_only),
        first_load_more_s=first_load_takes_more_s(spec.engine, on_gpu=card.is_gpu, version=version),
        changed_load_more_s=changed_load_takes_more_s(spec.engine, on_gpu=card.is_gpu, version=version),
        longest_load_more_s=longest_load_takes_more_s(spec.engine, on_gpu=card.is_gpu, version=version),
        kernels_s=kernels_seconds(
            spec.engine,
            baseline.time_kernels,
            spec.plan.workload.concurrency,
            stored.timed,
            on_gpu=card.is_gpu,
        ),
        compiles_s=0.0
        if stored.timed is None
        else stored.timed.pair_compiles_s(begun, configuration, in_turn=in_turn),
        further=further_of(spec),
        scored=not spec.latency_only,
        build=build_of(begun, model.profile, stored.built_s, made_up=spec.latency_only),
    )
