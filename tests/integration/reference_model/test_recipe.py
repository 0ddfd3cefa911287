import json
from functools import cache
from pathlib import Path

import pytest

from experiments.corpora.standard_library import SLICE_BYTES, training_documents
from experiments.reference_model import recipe
from experiments.reference_model.architecture import TINY_SHAPE
from experiments.reference_model.card import CardScale, write_card
from experiments.reference_model.random_weights import write_random_checkpoint
from experiments.reference_model.scores import load_checkpoint
from experiments.reference_model.tokenizer import train_tokenizer
from experiments.reference_model.training import Progress


@pytest.mark.bench_only
def test_a_few_steps_on_a_cpu_write_a_checkpoint_that_loads_with_a_card(tmp_path: Path) -> None:
    seen: list[Progress] = []
    folder = recipe.train(
        tmp_path / "out",
        seed=1,
        steps=3,
        device="cpu",
        progress=seen.append,
        shape=TINY_SHAPE,
        with_card=False,
    )
    assert seen[-1].step == 3
    assert seen[-1].loss > 0
    assert load_checkpoint(folder).model.config.num_hidden_layers == TINY_SHAPE.layers
    card = write_card(folder, CardScale(held_out_bytes=2 * SLICE_BYTES, items=7, acceptance=False))
    assert card["training"]["seed"] == 1
    assert card["scores"]["held_out"]["bits_per_byte"] > 1
    assert "held-out bits per byte" in (folder / "README.md").read_text(encoding="utf-8")
    assert json.loads((folder / "card.json").read_text(encoding="utf-8")) == card


def test_random_weights_follow_their_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = cache(lambda: train_tokenizer(document.text for document in training_documents()))
    monkeypatch.setattr("experiments.reference_model.random_weights.train_tokenizer", lambda texts: once())
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_random_checkpoint(tmp_path / name, seed, TINY_SHAPE)
    first, again, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert first == again
    assert first != other


def test_two_lengths_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="steps or minutes"):
        recipe.train(tmp_path, seed=1, steps=1, minutes=1.0, device="cpu", shape=TINY_SHAPE)
