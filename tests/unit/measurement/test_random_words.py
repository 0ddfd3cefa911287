"""Random prompts that a server can be sent as texts."""

import random
import shutil
from pathlib import Path

from experiments.checkpoints.tokenizer_file import TOKENIZER_FILE
from experiments.measurement.prompts import load_tokenizer
from experiments.measurement.random_words import random_words
from experiments.reference_model.load import reference_model_path


def test_any_words_in_any_order_are_read_back_as_the_tokens_they_are() -> None:
    words = random_words(reference_model_path(), 4096)
    tokenizer = load_tokenizer(reference_model_path())
    assert len(words) > 1000
    for seed in range(20):
        ids = random.Random(seed).choices(words, k=512)
        assert tokenizer.encode(tokenizer.decode(ids)).ids == ids


def test_words_beyond_the_models_vocabulary_are_left_out() -> None:
    assert max(random_words(reference_model_path(), 2000)) < 2000


def test_without_a_tokenizer_or_enough_words_it_is_every_token(tmp_path: Path) -> None:
    assert random_words(tmp_path / "none", 50) == range(50)
    (tmp_path / TOKENIZER_FILE).write_text("[]")
    assert random_words(tmp_path, 50) == range(50)
    few = tmp_path / "few"
    few.mkdir()
    shutil.copy(reference_model_path() / TOKENIZER_FILE, few)
    assert random_words(few, 300) == range(300)
