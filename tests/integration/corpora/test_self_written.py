"""`self` for real: the model writes in a process of its own; what it samples is held against its logits."""

import random
from collections import Counter
from pathlib import Path

import pytest
import torch

from experiments.corpora.calibration import calibration_corpus
from experiments.corpora.calibration.self_written import _request
from experiments.corpora.calibration.source import Ask
from experiments.corpora.calibration.writing import Sampling, sample, write
from experiments.corpora.calibration.writing_process import answer
from experiments.corpora.passages import shares_passage
from experiments.corpora.standard_library import held_out_passages
from experiments.engines.port import NOT_INSTALLED, Infeasible
from experiments.measurement.prompts import end_of_text_id, load_tokenizer
from experiments.reference_model.load import reference_model_path
from tests.integration.engines.checkpoints import VOCABULARY, tiny_model, write_checkpoint
from tests.integration.one_thread import one_thread
from tests.unit.measurement.tiny_tokenizer import tiny_tokenizer

__all__ = ["one_thread"]  # the fixture


def sampling(tokens: int, ends: frozenset[int] = frozenset(), vocabulary: int = VOCABULARY) -> Sampling:
    return Sampling(tokens, ends, vocabulary, temperature=0.7, seed="3")


def test_rows_of_different_beginnings_are_written_as_if_each_were_alone() -> None:
    model = tiny_model()
    beginnings = [[[9, 8, 7]], [[1, 2, 3, 4, 5, 6, 7]], [[5] * 40]]
    documents, written = write(model, beginnings, sampling(24))
    assert [len(ids) for ids in documents] == [24] * 3
    assert written == [21, 17, 0]
    assert documents[2] == [5] * 24
    for row, (ids, (beginning,)) in enumerate(zip(documents, beginnings, strict=True)):
        assert ids[: len(beginning)] == beginning[:24]
        rng = random.Random(f"3/{row}")
        numbers = [rng.random() for _ in range(24 - 3)]  # the shortest beginning has three tokens
        with torch.inference_mode():
            logits = model(torch.tensor([ids])).logits[0]
        for place in range(len(beginning), 24):
            (expected,) = sample(logits[place - 1 : place], 0.7, [numbers[place - 3]])
            assert ids[place] == expected


def test_where_a_row_ends_its_text_the_next_beginning_follows() -> None:
    model = tiny_model()
    every = frozenset(range(VOCABULARY))
    ((ids,), (written,)) = write(model, [[[1, 2], [3, 4], [5, 6]]], sampling(12, every))
    places = [place for place in range(12) if place % 3 == 2]
    assert [ids[place] for place in range(12) if place not in places] == [1, 2, 3, 4, 5, 6, 1, 2]
    assert written == len(places)


def test_what_the_tokenizer_does_not_know_is_never_written() -> None:
    documents, _ = write(tiny_model(), [[[1]]] * 4, sampling(30, vocabulary=20))
    assert max(token for ids in documents for token in ids) < 20


def test_sampling_follows_the_temperature() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2, 0.0]]))
    numbers = [(step + 0.5) / 1000 for step in range(1000)]
    drawn = Counter(sample(logits.expand(1000, 4), 1.0, numbers))
    assert {token: count / 1000 for token, count in drawn.items()} == {0: 0.5, 1: 0.3, 2: 0.2}
    sharp = torch.softmax(logits / 0.5, -1)[0]
    drawn = Counter(sample(logits.expand(1000, 4), 0.5, numbers))
    assert drawn[0] / 1000 == pytest.approx(float(sharp[0]), abs=0.001)


@pytest.mark.bench_only
def test_the_reference_model_writes_the_same_text_again_and_none_of_it_is_evaluation_text() -> None:
    checkpoint = reference_model_path()
    one, again = (
        calibration_corpus("self", checkpoint, samples=4, sample_tokens=32, seed=5) for _ in range(2)
    )
    assert one == again
    assert [len(ids) for ids in one.documents] == [32] * 4
    tokenizer = load_tokenizer(checkpoint)
    texts = [tokenizer.decode(list(ids), skip_special_tokens=False) for ids in one.documents]
    assert all(ids[0] == end_of_text_id(tokenizer) for ids in one.documents)
    assert sum(text.startswith("<|endoftext|><|im_start|>user\n") for text in texts) == 2
    assert not any(shares_passage(text, held_out_passages()) for text in texts)
    assert "its own" in one.described


def tiny_checkpoint(folder: Path) -> Path:
    write_checkpoint(folder, tiny_model())
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def test_a_broken_checkpoint_and_a_missing_gpu_are_told(tmp_path: Path) -> None:
    broken = tiny_checkpoint(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    with pytest.raises(Infeasible) as caught:
        calibration_corpus("self", broken, samples=1, sample_tokens=20, seed=0)
    assert caught.value.kind == "checkpoint"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_gpu_is_told(tmp_path: Path) -> None:
    request = _request(Ask(tiny_checkpoint(tmp_path), 1, 20, 0, "cuda:0"), [[[1]]], 0)
    why = "PyTorch .* is a build for CPUs" if torch.version.cuda is None else "there is no such GPU here"
    with pytest.raises(Infeasible, match=f"^Writing calibration text on cuda:0 can't be: {why}") as caught:
        answer(request | {"threads": 1})
    assert caught.value.kind == NOT_INSTALLED


def test_the_process_answers_with_tokens_that_the_tokenizer_knows(tmp_path: Path) -> None:
    request = _request(Ask(tiny_checkpoint(tmp_path), 2, 30, 0), [[[1, 2]], [[3]]], 0)
    one, again = (answer(request | {"threads": 1}) for _ in range(2))
    assert one == again
    documents = one["documents"]
    assert isinstance(documents, list)
    assert max(token for ids in documents for token in ids) < tiny_tokenizer().get_vocab_size()
    assert answer(request | {"threads": 1, "seed": "another"}) != one
