"""What a campaign will write is known before it begins: references by their tensors, checkpoints by bytes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.disk_needs import (
    built_for,
    checkpoint_bytes,
    disk_needs,
    loaded_by,
    records_need,
)
from agent.campaign.beginning.survey import survey
from agent.ground.legal import legal_here
from agent.plan.disk import Need
from agent.plan.model import find_model
from configs.campaign import CampaignSpec, load_campaign
from db.session import open_database
from experiments.artifacts.stored import StoredArtifact
from experiments.engines.reference.reference_files import reference_bytes
from experiments.engines.reference.references import ReferenceWriter
from experiments.space.configuration import Configuration, KnobValue
from experiments.stages.copied_files import copied_bytes
from tests.unit.agent.test_questions import AWQ, asking, question

QUANTIZED: dict[str, KnobValue] = {
    "quantization.method": "rtn",
    "quantization.bits": 4,
    "quantization.group_size": 128,
    "quantization.symmetric": True,
}
PRUNED: dict[str, KnobValue] = {"pruning.method": "depth", "pruning.layers_removed": 2}


def needs_of(
    spec: CampaignSpec, *there: StoredArtifact, begun: Configuration | None = None
) -> dict[str, Need]:
    ground, model = survey(spec), find_model(spec.model)
    legal = legal_here(spec, ground.checkpoint, ground.cores)
    loaded = loaded_by(spec, legal, begun or ground.begins_from(legal.space))
    return {each.what: each for each in disk_needs(spec, ground, model, loaded, Path("artifacts"), there)}


def artifact(kind: str, size: int, **inputs: object) -> StoredArtifact:
    moment = datetime.now(UTC)
    return StoredArtifact("0" * 64, kind, inputs, (), {}, Path("x"), size, 1.0, moment, moment)  # type: ignore[arg-type]


@pytest.mark.parametrize("vocabulary", [4096, 20_000], ids=["full", "top"])
def test_the_bytes_of_a_reference_are_those_of_its_files(tmp_path: Path, vocabulary: int) -> None:
    rows = {"one": 200, "two": 312}
    with ReferenceWriter(tmp_path / "reference", vocabulary, rows):
        pass
    files = [*(tmp_path / "reference").glob("*.npy")]
    headers = 128 * len(files)
    assert sum(each.stat().st_size for each in files) == reference_bytes(vocabulary, 512) + headers


def test_the_default_campaign_needs_the_distributions_of_its_baseline_first() -> None:
    found = needs_of(load_campaign("default"))
    first = [each for each in found.values() if each.first and each.bytes]
    assert [each.what for each in first] == ["the token distributions of the baseline"]
    assert first[0].bytes == 32 * 384 * 4096 * 2


def test_a_reference_that_is_there_is_not_needed_once_more() -> None:
    spec = load_campaign("default")
    ground = survey(spec)
    legal = legal_here(spec, ground.checkpoint, ground.cores)
    begun = dict(ground.begins_from(legal.space))
    mine = artifact("evaluation", 1, model=ground.fingerprint, engine="reference", configuration=begun)
    what = "the token distributions of the baseline"
    assert needs_of(spec, mine)[what].bytes == 0
    assert needs_of(spec, replace(mine, inputs={**mine.inputs, "model": "another"}))[what].bytes > 0


def test_each_checkpoint_and_each_control_of_the_questions_counts_once() -> None:
    g32 = {**AWQ, "quantization.group_size": 32}
    spec = asking(
        question("one", AWQ), question("two", g32, control=AWQ), question("three", {**g32}, control=AWQ)
    )
    found = needs_of(spec)
    ground = survey(spec)
    legal = legal_here(spec, ground.checkpoint, ground.cores)
    begun = ground.begins_from(legal.space)
    arms = {each for arm in loaded_by(spec, legal, begun).arms for each in built_for(arm)}
    assert len(arms) == 2
    need = found["2 checkpoints that its questions build"]
    assert need.bytes == sum(checkpoint_bytes(find_model("reference"), each) for each in arms)
    assert not need.first
    of_controls = found["those of its validation and of 1 controls of questions"]
    one = found["the token distributions of the baseline"].bytes
    assert of_controls.bytes == 3 * one  # the validation's, and both of the control
    there = artifact("checkpoint", need.bytes, model=ground.fingerprint)
    assert needs_of(spec, there)["2 checkpoints that its questions build"].bytes == 0


def test_what_is_begun_from_a_checkpoint_that_is_built_needs_that_first() -> None:
    need = needs_of(load_campaign("default"), begun=Configuration.of(QUANTIZED))[
        "the checkpoint that it begins from"
    ]
    assert need.first
    assert need.bytes == checkpoint_bytes(find_model("reference"), Configuration.of(QUANTIZED))


def test_the_bytes_of_a_checkpoint_are_those_of_the_files_with_what_is_stored_otherwise() -> None:
    model = find_model("reference")
    assert model.file_bytes is not None
    assert model.folder is not None
    beside = copied_bytes(model.folder)
    assert beside > (model.folder / "tokenizer.json").stat().st_size
    assert checkpoint_bytes(model, Configuration.of({})) == model.file_bytes + beside
    pruned, quantized = (checkpoint_bytes(model, Configuration.of(each)) for each in (PRUNED, QUANTIZED))
    assert beside < quantized < pruned < model.file_bytes + beside


@pytest.mark.parametrize(
    ("knobs", "steps"),
    [
        ({}, 0),
        (QUANTIZED, 1),
        (PRUNED, 1),
        (QUANTIZED | PRUNED, 2),
        (QUANTIZED | PRUNED | {"pruning.ranked_on": "quantized"}, 3),
        (QUANTIZED | PRUNED | {"pruning.order": "after_quantization"}, 2),
    ],
)
def test_what_is_pruned_and_quantized_is_built_in_steps(knobs: dict[str, KnobValue], steps: int) -> None:
    assert len(set(built_for(Configuration.of(knobs)))) == steps


def test_records_are_expected_by_those_of_earlier_campaigns(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = open_database(f"sqlite:///{path}", create=True)
    spec = load_campaign("default")
    ground = survey(spec)

    def need(session: Session) -> int:
        return records_need(session, path).bytes

    with database.read() as session:
        assert need(session) == 0
    with database.write() as session:
        create_campaign(session, spec, ground)
        create_campaign(session, spec, ground)
    with database.read() as session:
        assert need(session) == path.stat().st_size // 2
    database.close()
