"""A campaign's best as a recipe: read from the database, with the command that its engine gives for it."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.ground.stored_spec import FOUND, asked_of
from agent.recipe.checkpoints import is_built, known_chain, stages_on
from agent.recipe.promising import baseline_of, promise_of, rests_on
from agent.recipe.recipe import FORMAT, Build, Recipe, Serve
from configs.errors import AutoinferError, UsageError
from configs.targets import device_there
from db.labels import Noun, format_label
from db.models import Artifact, Campaign, Configuration, Experiment, Launch, Verdict
from db.models.base import JsonObject
from db.noise import SERIES_NAME
from db.states import Arm, VerdictOutcome
from experiments.artifacts.stored import StoredArtifact
from experiments.engines.port import Infeasible
from experiments.engines.serve_command import Servable, ServeCommand
from experiments.job.assembly import checkpoint_path
from experiments.job.named import load_engine
from experiments.space.configuration import Configuration as Point
from knowledge.latency_only import UNKNOWN_QUALITY, latency_only
from knowledge.queries.measured.stages import stage_reports
from knowledge.report.evidence import machines
from knowledge.stored import engine_of, workload_of

CHECKPOINT = "checkpoint"
"""The folder beside a recipe that its checkpoint is built into; also the kind of its artifacts."""


def recipe_of(session: Session, campaign_id: int, cache_dir: Path) -> Recipe:
    """The recipe of the campaign's best; `cache_dir` keeps what stages keep between calls.

    Raises `UsageError` where there is nothing to deploy: an A/A series, made-up weights, no baseline, no
    best, a gain without an interval or an engine that can't be deployed; `AutoinferError` where the engine
    refuses the configuration on this machine.
    """
    campaign = session.get_one(Campaign, campaign_id)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    if campaign.name == SERIES_NAME:
        raise UsageError(f"{label} is an A/A series: there is nothing to deploy.", "Name a campaign.")
    if latency_only(campaign.spec):
        raise UsageError(
            f"{label} has made-up weights: {UNKNOWN_QUALITY}, so there is nothing to deploy.",
            "Run a campaign on the model's own weights: autoinfer run --model HF_ID",
        )
    from_baseline = baseline_of(campaign)
    experiment = _best(session, campaign)
    candidate, baseline = (
        session.get_one(Configuration, each).knobs
        for each in (experiment.candidate_configuration_id, from_baseline)
    )
    before, after = Point.of(baseline), Point.of(candidate)
    ran = machines(session, campaign_id, experiment.id)
    machine = max(ran, key=lambda each: each.launches, default=None)
    command, builds = _served(session, campaign, experiment, after, cache_dir)
    return Recipe(
        format=FORMAT,
        autoinfer=version("autoinfer"),
        campaign=label,
        experiment=format_label(Noun.EXPERIMENT, experiment.id),
        seal=experiment.preregistration_digest or "",
        rests_on=rests_on(session, experiment),
        model=campaign.model,
        model_fingerprint=campaign.model_fingerprint,
        hub=(campaign.spec.get(FOUND) or {}).get("hub"),
        target=campaign.target,
        engine=engine_of(campaign.spec),
        seed=campaign.seed,
        baseline=dict(before),
        configuration=dict(after),
        changed={each.knob: each.after for each in before.changes_to(after) if each.after is not None},
        serve=Serve(
            words=command.words,
            environment=dict(command.environment),
            first_line=command.first_line,
            shell=command.shell,
            note=command.note,
        ),
        builds=builds,
        promise=promise_of(session, experiment),
        workload=dict(workload_of(experiment.plan)),
        resolved=_resolved(session, experiment),
        versions={} if machine is None else dict(machine.packages),
        machine={}
        if machine is None
        else machine.model_dump(mode="json", exclude={"experiments", "launches", "packages"}),
    )


def _best(session: Session, campaign: Campaign) -> Experiment:
    label = format_label(Noun.CAMPAIGN, campaign.id)
    query = (
        select(Experiment, Verdict)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.id == campaign.best_experiment_id)
    )
    row = session.execute(query).first()
    if row is None or row.Verdict.outcome is not VerdictOutcome.SUPPORTED:
        raise UsageError(
            f"Nothing of {label} beats its baseline, so there is nothing to deploy.",
            f"See what it found: autoinfer report {label}",
        )
    found: Experiment = row.Experiment
    return found


def _served(
    session: Session, campaign: Campaign, experiment: Experiment, configuration: Point, cache_dir: Path
) -> tuple[ServeCommand, tuple[Build, ...]]:
    """The engine's command, its checkpoint named as it is found elsewhere, and what that is built from."""
    name = engine_of(campaign.spec)
    engine = load_engine(name)
    if not isinstance(engine, Servable):
        raise UsageError(f"The engine {name} can be measured and not deployed: it names no command.", "")
    original = checkpoint_path(str(asked_of(campaign)["model"]))
    device = device_there(str(campaign.spec.get("target", "cpu")).split(",")[0])
    stages = stages_on(device, cache_dir)
    chain = (
        known_chain(
            original,
            campaign.model_fingerprint,
            configuration,
            stages,
            lambda digest: _stored(session, digest),
        )
        if is_built(configuration, stages)
        else ()
    )
    folder = chain[-1].path if chain else original
    at = folder if folder.is_dir() else original
    try:
        command = engine.serve_command(configuration, at, device, _resolved(session, experiment))
    except Infeasible as refusal:
        raise AutoinferError(
            f"The engine {name} can't serve this here ({refusal.kind}): {refusal.cause}",
            f"Export the recipe where the campaign ran, on {campaign.target}.",
        ) from None
    note = (
        command.note if at == folder else f"{command.note} Its checkpoint was not here when this was written."
    )
    hub = (campaign.spec.get(FOUND) or {}).get("hub")
    shown = CHECKPOINT if chain else str(hub["repo"]) if hub else str(at)
    words = tuple(shown if word == str(at) else word for word in command.words)
    if hub and not chain:
        words = (*words, "--revision", str(hub["commit"]))
    line = (
        None
        if command.first_line is None
        else command.first_line.replace(json.dumps(str(at)), json.dumps(shown))
    )
    told = stage_reports(session, [experiment.id]).get(experiment.id, ())
    reports = {each.artifact: each for each in told}
    return ServeCommand(words, note, line, command.environment), tuple(
        Build(
            digest=each.digest,
            kind=each.kind,
            inputs=dict(each.inputs),
            tool_versions=dict(each.tool_versions),
            bytes=each.bytes,
            corpus=reports[each.digest].corpus if each.digest in reports else None,
            corpus_fingerprint=reports[each.digest].corpus_fingerprint if each.digest in reports else None,
        )
        for each in chain
    )


def _stored(session: Session, digest: str) -> StoredArtifact | None:
    row = session.get(Artifact, digest)
    if row is None:
        return None
    return StoredArtifact(
        digest=row.digest,
        kind=row.kind,
        inputs=row.inputs,
        parents=tuple(row.inputs.get("parents") or ()),
        tool_versions=row.tool_versions,
        path=Path(row.path),
        bytes=row.bytes,
        build_s=row.build_s,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
    )


def _resolved(session: Session, experiment: Experiment) -> JsonObject:
    found = session.scalar(
        select(Launch.resolved)
        .where(Launch.experiment_id == experiment.id, Launch.arm == Arm.CANDIDATE)
        .order_by(Launch.id.desc())
        .limit(1)
    )
    return found or {}
