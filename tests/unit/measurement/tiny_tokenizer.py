"""A byte-level tokenizer that knows every byte and a few merges."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from experiments.corpora.instructions import IM_END, IM_START
from experiments.measurement.prompts import END_OF_TEXT as END


def tiny_tokenizer(end: bool = True) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[*([END] if end else []), IM_START, IM_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["text text def return name parameters"] * 3, trainer)
    return tokenizer
