"""The reference model's tokenizer: byte-level BPE of 4,096 entries, trained on the standard library."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from experiments.corpora.instructions import IM_END, IM_START
from experiments.reference_model.architecture import MAX_POSITIONS, VOCABULARY

END_OF_TEXT = "<|endoftext|>"
"""Special token between documents; every text that is scored on its own begins after one."""

SPECIAL_TOKENS = (END_OF_TEXT, IM_START, IM_END)
"""The special tokens, in order of their ids from 0."""

WORD_PATTERN = r"(?:\r?\n)+[ \t]*|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"
"""What BPE may not merge across. A line break takes the next line's indentation along, which makes one token
of what Python writes most often; digits stand alone."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML, as Qwen's models use it."""


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train the byte-level BPE on these texts; takes seconds on the standard library."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def end_of_text_id(tokenizer: Tokenizer) -> int:
    """Return the id of the token between documents."""
    token = tokenizer.token_to_id(END_OF_TEXT)
    if token is None:
        raise ValueError(f"the tokenizer has no {END_OF_TEXT}; it was not made by `train_tokenizer`")
    return token


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the files that transformers' `AutoTokenizer` loads, chat template included."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": IM_END,
        "pad_token": END_OF_TEXT,
        "additional_special_tokens": [IM_START],
        "model_max_length": MAX_POSITIONS,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def special_token_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids that the model's configuration and generation stop at."""
    ids = {"eos_token_id": tokenizer.token_to_id(IM_END), "pad_token_id": tokenizer.token_to_id(END_OF_TEXT)}
    return {name: token for name, token in ids.items() if token is not None}
