"""What a report rests on: seals, machines, artifacts, raw samples, and the commands that repeat it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from configs.campaign import CampaignSpec
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import (
    Artifact,
    Campaign,
    Environment,
    Event,
    Experiment,
    ExperimentArtifact,
    Job,
    Launch,
    Measurement,
    Verdict,
)
from db.models.base import JsonObject
from db.states import VerdictOutcome
from experiments.measurement.evidence import Stage
from experiments.sealing import tampered
from knowledge.latency_only import latency_only
from knowledge.queries.present.now_best import BestView
from knowledge.report.view import BuiltView, CommandView, MachineView, SamplesView, SealView, TrialView
from knowledge.samples_digest import samples_digest
from knowledge.stored import number, versions_of

DEPLOY = "autoinfer export"
"""How the command begins that writes what to deploy."""

SPEC_FILE = "campaign.yaml"
"""What the campaign's specification is to be saved as, to run it again."""


def seals(session: Session, campaign_id: int) -> tuple[SealView, ...]:
    """The preregistrations of a campaign, oldest first, each held against every stored copy."""
    kept = set(
        session.scalars(
            select(Job.experiment_id).where(Job.campaign_id == campaign_id, Job.experiment_id.is_not(None))
        )
    )
    told = _sealed_at(session, campaign_id)
    query = (
        select(Experiment)
        .where(Experiment.campaign_id == campaign_id, Experiment.preregistration_digest.is_not(None))
        .order_by(Experiment.id)
    )
    found = []
    for experiment in session.scalars(query).all():
        broken = tampered(session, experiment) if experiment.id in kept else None
        found.append(
            SealView(
                experiment=format_label(Noun.EXPERIMENT, experiment.id),
                hypothesis=None
                if experiment.hypothesis_id is None
                else format_label(Noun.HYPOTHESIS, experiment.hypothesis_id),
                kind=experiment.kind,
                digest=experiment.preregistration_digest or "",
                sealed_at=told.get(experiment.id, experiment.created_at),
                began_at=experiment.started_at,
                holds=broken is None if experiment.id in kept else None,
                broken=broken,
            )
        )
    return tuple(found)


def machines(session: Session, campaign_id: int, experiment_id: int | None = None) -> tuple[MachineView, ...]:
    """The machines and versions that launches of a campaign, or of one experiment of it, ran on, the first
    first; one statement."""
    machine = Environment.data["machine"]
    query = (
        select(
            Launch.experiment_id,
            *(machine[name] for name in ("cpu", "gpu", "packages")),
            machine["git_changed"].as_boolean(),
            *(
                machine[name].as_string()
                for name in ("memory_bytes", "os", "kernel", "python", "git_revision")
            ),
            Launch.resolved["versions"],
        )
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .join(Environment, Environment.digest == Launch.environment_digest)
        .where(
            Experiment.campaign_id == campaign_id,
            Launch.stage != Stage.FURTHER.value,
            *(() if experiment_id is None else (Launch.experiment_id == experiment_id,)),
        )
        .order_by(Launch.id)
    )
    found: dict[str, MachineView] = {}
    seen: dict[str, list[int]] = defaultdict(list)
    for (
        experiment_id,
        cpu,
        gpu,
        packages,
        changed,
        memory,
        os,
        kernel,
        python,
        revision,
        told,
    ) in session.execute(query):
        cpu, gpu = (each if isinstance(each, dict) else {} for each in (cpu, gpu))
        versions = {**(packages or {}), **versions_of({"versions": told})}
        view = MachineView(
            launches=0,
            experiments=(),
            cpu=_text(cpu.get("name")),
            cores=_count(cpu.get("cores")),
            memory_bytes=_count(None if memory is None else float(memory)),
            gpu=_text(gpu.get("name")),
            gpu_memory_bytes=_count(gpu.get("memory_bytes")),
            driver=_text(gpu.get("driver")),
            os=os,
            kernel=kernel,
            python=python,
            packages={name: str(each) for name, each in sorted(versions.items()) if each is not None},
            git_revision=revision,
            git_changed=changed if isinstance(changed, bool) else None,
        )
        key = view.model_dump_json()
        found.setdefault(key, view)
        seen[key].append(experiment_id)
    return tuple(
        view.model_copy(
            update={
                "launches": len(seen[key]),
                "experiments": tuple(format_label(Noun.EXPERIMENT, each) for each in sorted(set(seen[key]))),
            }
        )
        for key, view in found.items()
    )


def artifacts(session: Session, campaign_id: int) -> tuple[BuiltView, ...]:
    """The artifacts that experiments of a campaign built or used, by kind and digest; one statement."""
    query = (
        select(Artifact, ExperimentArtifact.experiment_id)
        .join(ExperimentArtifact, ExperimentArtifact.artifact_digest == Artifact.digest)
        .join(Experiment, Experiment.id == ExperimentArtifact.experiment_id)
        .where(Experiment.campaign_id == campaign_id)
        .order_by(Artifact.kind, Artifact.digest, ExperimentArtifact.experiment_id)
    )
    found: dict[str, Artifact] = {}
    users: dict[str, list[str]] = defaultdict(list)
    for artifact, experiment_id in session.execute(query):
        found[artifact.digest] = artifact
        users[artifact.digest].append(format_label(Noun.EXPERIMENT, experiment_id))
    return tuple(
        BuiltView(
            digest=each.digest,
            kind=each.kind,
            inputs=each.inputs,
            tool_versions=each.tool_versions,
            bytes=each.bytes,
            build_s=each.build_s,
            experiments=tuple(users[each.digest]),
        )
        for each in found.values()
    )


def samples(session: Session, campaign: Campaign) -> tuple[SamplesView, ...]:
    """The raw samples of the experiments of a campaign that have any, oldest first; every sample is read."""
    # a launch that was asked for further workloads has a row of its own for them
    launched = case((Launch.stage != Stage.FURTHER.value, Launch.id))
    query = (
        select(Experiment, func.count(func.distinct(launched)), func.count())
        .join(Launch, Launch.experiment_id == Experiment.id)
        .join(Measurement, Measurement.launch_id == Launch.id)
        .where(Experiment.campaign_id == campaign.id)
        .group_by(Experiment.id)
        .order_by(Experiment.id)
    )
    counts = session.execute(query).all()
    seeds = _seeds(session, campaign.id)
    found = []
    for experiment, launches, count in counts:
        label = format_label(Noun.EXPERIMENT, experiment.id)
        found.append(
            SamplesView(
                experiment=label,
                kind=experiment.kind,
                seed=seeds.get(experiment.id),
                launches=launches,
                samples=count,
                digest=samples_digest(session, experiment.id),
                command=f"autoinfer show {label} --samples --json",
            )
        )
    return tuple(found)


def judge_versions(session: Session, campaign_id: int) -> tuple[str, ...]:
    """The versions of the judge that gave the verdicts of a campaign; one statement."""
    version = Verdict.judge["version"].as_string()
    query = (
        select(version)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id == campaign_id)
        .distinct()
    )
    return tuple(sorted(each for each in session.scalars(query) if each is not None))


def spec_of(campaign: Campaign) -> JsonObject:
    """The stored specification as `autoinfer run FILE` reads it: without what was found on the machine, with
    the time that was added since."""
    asked = {name: value for name, value in campaign.spec.items() if name in CampaignSpec.model_fields}
    wall_s = campaign.budget.get("wall_s")
    return asked if wall_s is None else {**asked, "budget": {**asked.get("budget", {}), "wall_s": wall_s}}


def revision_command(machines: Sequence[MachineView]) -> tuple[CommandView, ...]:
    """What fetches the revision of autoinfer that most launches ran, and whether others ran another or one
    that was changed; nothing where none is known."""
    launches: Counter[tuple[str, bool]] = Counter()
    for each in machines:
        if each.git_revision:
            launches[each.git_revision, bool(each.git_changed)] += each.launches
    if not launches:
        return ()
    ((revision, changed), most), whole = launches.most_common(1)[0], sum(each.launches for each in machines)
    which = "measured" if most == whole else f"{most} of {whole} launches ran"
    but = "" if most == whole and not changed else f", {'but for its' if changed else 'without'} changes"
    return (
        CommandView(what=f"The revision of autoinfer that {which}{but}", command=f"git checkout {revision}"),
    )


def commands(
    campaign: Campaign,
    best: BestView | None,
    tested: tuple[TrialView, ...],
    sealed: tuple[SealView, ...],
    machines: Sequence[MachineView],
) -> tuple[CommandView, ...]:
    """What writes the recipe of the best, where its weights are its own, and what repeats the campaign, its
    supported tests whose seals hold, and the reading of its samples."""
    label = format_label(Noun.CAMPAIGN, campaign.id)
    broken = {each.experiment for each in sealed if each.broken}
    found = []
    if best is not None and best.experiment is not None and not latency_only(campaign.spec):
        found.append(
            CommandView(
                what="What to deploy, into a folder: the engine's command, model and versions, and a check",
                command=f"{DEPLOY} {label} --recipe",
            )
        )
    found += revision_command(machines)
    found.append(
        CommandView(
            what=f"The whole campaign anew, its specification saved as {SPEC_FILE}",
            command=f"autoinfer run {SPEC_FILE} --new",
        )
    )
    found += [
        CommandView(
            what=f"{each.hypothesis} once more, in fresh processes under the same sealed plan",
            command=f"autoinfer reproduce {each.experiment}",
        )
        for each in tested
        if each.outcome is VerdictOutcome.SUPPORTED and each.experiment not in broken
    ]
    found.append(
        CommandView(what="This report from the database", command=f"autoinfer report {label} --format html")
    )
    return tuple(found)


def _sealed_at(session: Session, campaign_id: int) -> Mapping[int, object]:
    query = select(Event.at, Event.data).where(
        Event.campaign_id == campaign_id, Event.kind == EventKind.HYPOTHESIS_PREREGISTERED.value
    )
    return {
        int(data["experiment_id"]): at
        for at, data in session.execute(query)
        if data and "experiment_id" in data
    }


def _seeds(session: Session, campaign_id: int) -> Mapping[int, int]:
    """The seed of each experiment's job: the campaign's and its own number."""
    seed = Job.spec["seed"].as_string()
    query = select(Job.experiment_id, seed).where(
        Job.campaign_id == campaign_id, Job.experiment_id.is_not(None)
    )
    return {
        experiment: int(told)
        for experiment, told in session.execute(query)
        if experiment and told is not None
    }


def _text(value: object) -> str | None:
    return None if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _count(value: object) -> int | None:
    found = number(value)
    return None if found is None else int(found)
