"""What a campaign will write to this machine's disks, from what is known before it begins.

Counted are the references that arms are compared with, by the tensors of their documents; the checkpoints
that are built, by the bytes of the model's files and the shape; and the records, by those of earlier
campaigns in the same database. What the agent proposes by itself is not known yet, and not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.known.weights import PRUNING, QUANTIZATION, weights_of
from agent.campaign.queue.questions import arms_of
from agent.ground.legal import Legal
from agent.plan.disk import Need
from agent.plan.ground import Ground
from agent.plan.model import ModelFound
from agent.plan.stored_builds import CHECKPOINT_KIND
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from db.models import Campaign
from experiments.artifacts.stored import StoredArtifact
from experiments.corpora.standard_library import held_out_documents
from experiments.engines.launch_memory import after_pruning, weight_bytes
from experiments.engines.reference.reference_files import reference_bytes
from experiments.job.evaluation import EVALUATION_KIND
from experiments.measurement.evaluation import scoring_documents
from experiments.measurement.evidence import QUALITY_METRICS, Metric
from experiments.measurement.prompts import load_tokenizer
from experiments.space.configuration import Configuration
from experiments.stages.copied_files import copied_bytes

PARTS = (0, 1)
"""Parts of the documents that a claim is scored on: the first, and that of its validation."""


@dataclass(frozen=True)
class Loaded:
    """What a campaign loads, as far as it is known: what it begins from, the controls of its own that
    questions of quality are compared with, and all arms of its questions."""

    begun: Configuration
    references: frozenset[Configuration]
    arms: tuple[Configuration, ...]


def loaded_by(spec: CampaignSpec, legal: Legal, begun: Configuration) -> Loaded:
    """What the campaign loads that begins from `begun`; questions that can't be here load nothing."""
    references, arms = set[Configuration](), list[Configuration]()
    for question in spec.questions:
        try:
            both = arms_of(question, legal, begun)
        except UsageError:
            continue
        arms += both
        if Metric(question.metric) in QUALITY_METRICS:
            references.add(both[0])
    return Loaded(begun, frozenset(references - {begun}), tuple(arms))


def disk_needs(
    spec: CampaignSpec,
    ground: Ground,
    model: ModelFound,
    loaded: Loaded,
    artifacts_dir: Path,
    there: Iterable[StoredArtifact] = (),
) -> tuple[Need, ...]:
    """What the artifacts of a campaign take in `artifacts_dir`, less those of this model that are `there`."""
    mine = [each for each in there if each.inputs.get("model") == ground.fingerprint]
    return (
        *(() if spec.latency_only else _references(spec, ground, model, loaded, artifacts_dir, mine)),
        *_checkpoints(model, loaded, artifacts_dir, mine),
    )


def records_need(session: Session, database: Path) -> Need:
    """What the records of a campaign take in the database's file: as much as those of the campaigns that are
    there, on average; nothing is known of the first."""
    campaigns = session.scalar(select(func.count()).select_from(Campaign)) or 0
    size = database.stat().st_size // campaigns if campaigns else 0
    return Need("the records, as many as earlier campaigns have here", size, database.parent, first=True)


def checkpoint_bytes(model: ModelFound, configuration: Configuration) -> int:
    """Bytes of the files of a checkpoint that is built of the model: those of its own, with the weights that
    the configuration stores otherwise or leaves out, and the tokenizer and settings that go along.

    Not counted are the names and sizes of packed tensors and the stage's reports: on the packaged model half
    a per cent, which `tests/integration/stages/test_foreseen_bytes.py` holds, and less on a larger one.
    """
    profile = model.profile
    before = weight_bytes(profile, {})
    after = weight_bytes(after_pruning(profile, configuration), configuration)
    beside = 0 if model.checkpoint is None else copied_bytes(model.checkpoint.folder)
    return max(0, round((model.file_bytes or before) - before + after)) + beside


def built_for(configuration: Configuration) -> tuple[Configuration, ...]:
    """The checkpoints that are built for one configuration, each as a configuration that has it alone: what
    is both pruned and quantized is built in two steps, and what is ranked on the quantized model needs that
    too."""
    knobs = dict(weights_of(configuration))
    if not knobs:
        return ()
    both = all(knobs.get(f"{each}method", "none") != "none" for each in (PRUNING, QUANTIZATION))
    steps = [knobs]
    if both:
        pruned, quantized = (
            {name: value for name, value in knobs.items() if name.startswith(each)}
            for each in (PRUNING, QUANTIZATION)
        )
        after = knobs.get("pruning.order") == "after_quantization"
        steps.append(quantized if after else pruned)
        if not after and knobs.get("pruning.ranked_on") == "quantized":
            steps.append(quantized)
    return tuple(Configuration.of(each) for each in steps)


def _references(
    spec: CampaignSpec,
    ground: Ground,
    model: ModelFound,
    loaded: Loaded,
    folder: Path,
    mine: Iterable[StoredArtifact],
) -> tuple[Need, ...]:
    workload, documents = spec.plan.workload, held_out_documents()
    tokenizer = load_tokenizer(ground.checkpoint)
    asked = (workload.evaluation_documents, workload.evaluation_tokens_per_document)
    first, validation = (
        sum(len(each.token_ids) - 1 for each in scoring_documents(tokenizer, documents, *asked, part))
        for part in PARTS
    )
    there = any(
        each.kind == EVALUATION_KIND
        and each.inputs.get("engine") == spec.engine
        and each.inputs.get("configuration") == dict(loaded.begun)
        for each in mine
    )

    def size(rows: int) -> int:
        return reference_bytes(model.profile.vocabulary, rows)

    count = len(loaded.references)
    later = size(validation) + count * size(first + validation)
    further = f" and of {count} controls of questions" if count else ""
    return (
        Need("the token distributions of the baseline", 0 if there else size(first), folder, first=True),
        Need(f"those of its validation{further}", later, folder, first=False),
    )


def _checkpoints(
    model: ModelFound, loaded: Loaded, folder: Path, mine: Iterable[StoredArtifact]
) -> tuple[Need, ...]:
    there = sum(each.bytes for each in mine if each.kind == CHECKPOINT_KIND)
    first = dict.fromkeys(built_for(loaded.begun))
    later = dict.fromkeys(built for arm in loaded.arms for built in built_for(arm) if built not in first)
    sizes = [sum(checkpoint_bytes(model, each) for each in some) for some in (first, later)]
    what = f"{len(later)} checkpoints that its questions build"
    return (
        Need("the checkpoint that it begins from", max(0, sizes[0] - there), folder, first=True),
        Need(what, max(0, sizes[1] - max(0, there - sizes[0])), folder, first=False),
    )
