"""`autoinfer plan`: what a campaign would meet, told before it begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Baseline, Concurrency, Json, Memory, NewTokens, PromptTokens

if TYPE_CHECKING:
    from pathlib import Path

    from agent.plan.load_and_request import Stored
    from agent.plan.model import ModelFound
    from agent.plan.plan import Plan
    from cli.running.asked import Asked
    from configs.campaign import CampaignSpec

DUMMY = "dummy"
"""Stands for weights that are made up."""

ALL = "all"
"""Stands for every packaged card."""


def plan(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[CAMPAIGN]", help="Whose workload, plan and space: a packaged name or a YAML file."
        ),
    ] = "default",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="HF_ID[@REVISION]|DIR|NAME",
            help="A model of the hub, a folder, `reference`, or a packaged shape such as qwen3.5-9b.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="DEVICE[,DEVICE]",
            help="cpu, cuda:0; cuda:0,cuda:1 …, cuda:all; or rented: modal:H100!.",
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            metavar="NAME|SIZE|all",
            help="A card that need not be here: a packaged name such as l4, a size such as 16GB, or all.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights", metavar="dummy", help="Plan for made-up weights, which give times alone: a shape."
        ),
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter", metavar="DIR|HF_ID", help="A drafter for the model: a folder, or a model of the hub."
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="NAME", help="What serves it; the device's own if not given."),
    ] = None,
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME|FILE", help="The knobs; the engine's if not given.")
    ] = None,
    baseline: Baseline = None,
    memory: Memory = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KNOB=VALUE", help="A knob of the configuration; may be given again."),
    ] = None,
    concurrency: Concurrency = None,
    prompt_tokens: PromptTokens = None,
    new_tokens: NewTokens = None,
    context: Annotated[
        int | None,
        typer.Option(
            "--context",
            min=1,
            metavar="TOKENS",
            help="Tokens of a sequence, as serving.max_model_len counts, in place of --prompt-tokens.",
        ),
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="Wall-clock time, such as 30m or 8h.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what a campaign would meet, and measure nothing: memory by part and what would fit, every knob and
    value that is legal and why the others aren't, the time to a first verdict and its cost.

    Of a model of the hub no weights are fetched. Of a rented target the provider is asked for its prices;
    nothing is submitted.
    """
    from agent.ground.positions import TooMuch
    from agent.plan.workload_options import check_questions_served, in_options, of_workload, with_context
    from cli.console.output import print_json
    from cli.executors.prices import quoted_for
    from cli.running.asked import campaign_asked
    from cli.sheets.plan import as_document, print_cards, print_plan
    from configs.errors import UsageError
    from configs.quantities import parse_bytes

    if hardware is not None and target is not None:
        raise UsageError("--hardware and --target name two places.", "Leave one of the two out.")
    if weights not in (None, DUMMY):
        raise UsageError(
            f"There are no weights {weights!r} to plan for.",
            f"Write {DUMMY}, or leave it out for those of the model.",
        )
    if context is not None and prompt_tokens is not None:
        raise UsageError(
            "--context and --prompt-tokens both say how long prompts are.", "Leave one of the two out."
        )
    workload = of_workload(concurrency, prompt_tokens, new_tokens)
    asked = campaign_asked(
        name,
        {
            "model": model,
            "weights": weights,
            # a card that is not here is planned for as if it were this machine's first
            "target": "cuda:0" if hardware is not None else target,
            "drafter": drafter,
            "engine": engine,
            "space": space,
            "budget": budget,
            **workload,
            "memory": None if memory is None else parse_bytes(memory),
        },
        baseline or (),
    )
    if context is not None:
        asked = replace(asked, spec=with_context(asked.spec, context))
    check_questions_served(asked.spec, workload)
    try:
        plans = _plans(ctx, asked, hardware, set_ or [], dummy=asked.spec.latency_only)
    except TooMuch as refused:
        raise in_options(refused, workload, context) from None
    _check_legal(plans)
    found = [replace(_with_what_is_unfit(each), raises_budget=asked.raises_budget) for each in plans]
    quoted = None if hardware is not None else quoted_for(ctx, found[0])
    if as_json:
        documents = [as_document(each, quoted) for each in found]
        print_json({"plans": documents} if hardware == ALL else documents[0])
    elif hardware == ALL:
        print_cards(found)
    else:
        print_plan(found[0], quoted)


def _plans(
    ctx: typer.Context,
    asked: Asked,
    hardware: str | None,
    assignments: list[str],
    *,
    dummy: bool,
) -> list[Plan]:
    from agent.campaign.beginning.named import check_names, engine_of
    from agent.ground.model_told import with_the_model
    from agent.ground.positions import space_before
    from agent.ground.shape import check_serves_shapes
    from agent.ground.target import find_target
    from agent.plan.begin import ENGINE_IS_THERE, devices_told, engine_check, space_that_is_here
    from agent.plan.card import card_asked, card_of, listed_cards
    from agent.plan.model import ModelFound
    from agent.plan.plan import make_plan
    from agent.plan.tools_there import MadeOn
    from cli.console.opening import settings_of
    from configs.errors import AutoinferError
    from configs.targets import devices_of
    from experiments.job.named import asked_in_the_way, newer_told, version_told
    from experiments.shapes.folder import LATENCY_ONLY
    from experiments.space.loading import parse_assignments_in

    settings_of(ctx)  # names the engines' Pythons, by which their versions are found
    try:
        target = find_target(asked.spec.target) if hardware is None else None
    except AutoinferError as missing:
        raise with_the_model(missing, asked.spec.model, shapes=True) from None
    spec, notes = space_that_is_here(asked.spec)
    check_names(spec, space_before(spec), asked.where)
    engine = engine_of(spec, asked.where)
    asked_in_the_way(engine, spec.plan.workload.asked_over)
    if dummy:
        check_serves_shapes(engine)
    found = _found(spec.model)
    rented = target is not None and target.place is not None  # which version is there is not known
    served_by = spec.engine if rented else version_told(spec.engine, devices_of(spec.target)[0])
    if dummy:
        found = ModelFound(found.asked, found.profile.as_stored(None))
        notes = (
            *notes,
            f"This is {LATENCY_ONLY}. A campaign on them says what is fastest by time alone.",
        )
    knobs = parse_assignments_in(spec.space, assignments)
    if target is None:
        if (newer := newer_told(spec.engine, devices_of(spec.target)[0])) is not None:
            notes = (*notes, newer)
        cards = [each.name for each in listed_cards()] if hardware == ALL else [str(hardware)]
        return [
            make_plan(
                spec,
                found,
                card_asked(each),
                knobs,
                notes=notes,
                served_by=served_by,
            )
            for each in cards
        ]
    check, note = (
        engine_check(spec, found.folder, target.device) if target.place is None else (None, ENGINE_IS_THERE)
    )
    return [
        make_plan(
            spec,
            found,
            card_of(target),
            knobs,
            cores=target.cpu.cores,
            check=check,
            stored=_stored(ctx, target.key, found.folder, spec),
            notes=[*notes, *devices_told(target), *([note] if note else [])],
            served_by=served_by,
            made_on=MadeOn.of(spec, target),
        )
    ]


def _check_legal(plans: list[Plan]) -> None:
    """Raise `UsageError` for knobs that were set and are not legal in any of the plans, with what the first
    can be had with."""
    from configs.errors import UsageError

    first = plans[0].not_legal
    if first is None or any(each.not_legal is None for each in plans):
        return
    instead = "Set another value; which are legal, and why the others are not, the plan tells without --set."
    if first.beside is not None:
        instead = f"It can be had with --set {first.beside}, or set another value."
    raise UsageError(f"What is planned is not legal here: {first.why}", instead)


def _found(asked: str) -> ModelFound:
    """The model; where it is not to be had, the error names the packaged shape that a plan can be made of."""
    from agent.ground.stored_spec import REFERENCE
    from agent.plan.model import find_model
    from configs.catalog import Kind, packaged_names
    from configs.errors import AutoinferError

    try:
        return find_model(asked)
    except AutoinferError as missing:
        shapes = [each for each in packaged_names(Kind.MODELS) if each != REFERENCE]
        of_the_hub, name = "/" in asked, asked.partition("@")[0].rpartition("/")[2].lower()
        if name in shapes:
            more = f"Its shape is packaged, so that a plan needs no more: --model {name}"
        elif not of_the_hub:
            more = f"A plan takes a packaged shape too: {', '.join(shapes)}"
        else:
            raise
        hint = f"{missing.hint}\n  {more}"
        raise AutoinferError(missing.message, hint, missing.exit_code, quotes=missing.quotes) from None


def _with_what_is_unfit(plan: Plan) -> Plan:
    """The plan with what is wrong with the checkpoint, said once where its engine found the same."""
    from agent.plan.begin import unfit_checkpoint

    found = plan.model.checkpoint
    whole = plan.model.whole or (found is not None and found.source is None)  # else it is yet to be fetched
    why = unfit_checkpoint(None if found is None or not whole else found.folder)
    if why is None:
        return plan
    said = any(why in note for note in plan.notes)
    told = () if said else (f"No campaign begins with this checkpoint: {why}",)
    return replace(plan, unfit=why, notes=(*plan.notes, *told))


def _stored(ctx: typer.Context, target_key: str, folder: Path | None, spec: CampaignSpec) -> Stored | None:
    """What the database tells of earlier runs; None where there is none yet."""
    from agent.plan.begin import known_times
    from cli.console.opening import reading
    from configs.errors import DatabaseMissing

    try:
        with reading(ctx) as session:
            return known_times(session, target_key, folder, spec.engine, spec.plan.workload)
    except DatabaseMissing:
        return None
