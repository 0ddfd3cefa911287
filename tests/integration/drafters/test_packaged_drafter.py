"""The packaged drafter: its size, its card, and that the reference model accepts what the card says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.main import call
from experiments.corpora.instructions import held_out_items
from experiments.drafters.dflash.acceptance import measure_acceptance
from experiments.drafters.dflash.card import CARD_FILE, measure
from experiments.drafters.dflash.card_text import render
from experiments.drafters.dflash.drafter import DFlashDrafter
from experiments.drafters.dflash.files import read_drafter
from experiments.drafters.dflash.target import FeatureTap
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from experiments.reference_model.scores import LoadedCheckpoint, content_prompts, greedy
from experiments.stages.pruning.layer_removal import remove_layers

WEIGHT_FILE_MAX_BYTES = 2_000_000
"""What may be committed."""

SMALL_SAMPLE = 0.6
"""Share of the card's figure that a few of its prompts must reach: they vary, and their first tokens repeat
themselves less than the whole continuation does."""


@pytest.fixture(scope="module")
def card() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((packaged_drafter_path() / CARD_FILE).read_text(encoding="utf-8"))
    return found


def test_the_card_speaks_of_the_committed_files(card: dict[str, Any]) -> None:
    weights = packaged_drafter_path() / "model.safetensors"
    assert weights.stat().st_size == card["weight_bytes"] <= WEIGHT_FILE_MAX_BYTES
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == card["weights_sha256"]
    assert card["training"]["target_fingerprint"] == checkpoint_fingerprint(reference_model_path())
    assert card["measured_with"]["target_fingerprint"] == card["training"]["target_fingerprint"]
    assert (packaged_drafter_path() / "README.md").read_text(encoding="utf-8") == render(card)


def test_the_card_gives_acceptance_by_class_and_position(card: dict[str, Any]) -> None:
    assert card["acceptance"].keys() == {"code", "prose", "instruct"}
    for each in card["acceptance"].values():
        rates = each["rate_by_position"]
        assert len(rates) == 7
        assert rates == sorted(rates, reverse=True)
        assert each["tokens_per_step"] == pytest.approx(1 + sum(rates))
        assert each["tokens_per_step"] > 2


def test_drafts_are_accepted_as_the_card_says(reference: LoadedCheckpoint, card: dict[str, Any]) -> None:
    prompts = content_prompts(reference, "code", ())[:4]
    measured = measure_acceptance(read_drafter(packaged_drafter_path()), reference, prompts, tokens=48)
    assert measured.tokens_per_step >= SMALL_SAMPLE * card["acceptance"]["code"]["tokens_per_step"]


@torch.inference_mode()
def test_decoding_with_it_gives_the_same_text_in_fewer_steps(reference: LoadedCheckpoint) -> None:
    prompt = content_prompts(reference, "instruct", held_out_items(10))[:1]
    new_tokens = 40
    alone = greedy(reference, prompt, new_tokens)[0].tolist()
    target = reference.model
    drafter = DFlashDrafter.load(packaged_drafter_path(), target)
    known, read, steps = prompt[0].tolist(), 0, 0
    with FeatureTap(target, drafter.target_layer_ids) as tap:
        known.append(int(target(prompt, use_cache=False).logits[0, -1].argmax()))
        while len(known) < len(alone):
            position = len(known) - 1
            features = tap.features()[0, read:position]
            drafts = drafter.propose(known[-1], features, position)
            said = target(torch.tensor([known + drafts]), use_cache=False).logits[0].argmax(-1).tolist()
            read = position
            for draft in [*drafts, None]:
                known.append(said[len(known) - 1])
                if known[-1] != draft:
                    break
            steps += 1
    assert known[: len(alone)] == alone
    assert steps < new_tokens / 2


@pytest.mark.bench_only  # in the suite one drafts for kept layers in stages/test_seams.py
def test_a_pruned_reference_model_is_measured_with_its_kept_layers(tmp_path: Path) -> None:
    remove_layers(inspect_checkpoint(reference_model_path()), [6], tmp_path / "pruned")
    card = measure(packaged_drafter_path(), tmp_path / "pruned", torch.device("cpu"), rows=1)
    assert card["shape"]["target_layer_ids"] == (1, 3, 5, 7, 9)
    assert card["shape"]["target_layers"] == 11
    assert all(1 <= each["tokens_per_step"] <= 8 for each in card["acceptance"].values())
    assert card["measured_with"]["target_fingerprint"] != card["training"]["target_fingerprint"]


def test_show_prints_the_card(capsys: pytest.CaptureFixture[str], card: dict[str, Any]) -> None:
    assert call(["drafter", "show", str(packaged_drafter_path()), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == card


def test_show_tells_a_drafter_without_a_card_by_its_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_bytes((packaged_drafter_path() / "config.json").read_bytes())
    assert call(["drafter", "show", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "block_tokens: 8" in said
    assert "not measured yet" in said


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (["show", "nowhere"], "There is no drafter at nowhere", 1),
        (["score", "nowhere"], "There is no drafter at nowhere", 1),
        (["train", "--model", "nowhere", "--out", "fresh"], "There is no checkpoint at nowhere", 1),
        (["train", "--device", "abacus", "--out", "fresh"], "There is no device 'abacus'", 2),
    ],
)
def test_what_is_not_there_is_told_in_a_sentence(
    words: list[str],
    sentence: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(["drafter", *words]) == code
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
