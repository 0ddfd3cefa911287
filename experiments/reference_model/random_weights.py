"""A checkpoint of the reference shape with random weights, for what needs a model but no sense in it."""

from pathlib import Path

from experiments.corpora.standard_library import training_documents
from experiments.reference_model.architecture import REFERENCE_SHAPE, Shape
from experiments.reference_model.checkpoint import fresh_network, write_checkpoint
from experiments.reference_model.tokenizer import train_tokenizer


def write_random_checkpoint(path: Path, seed: int, shape: Shape = REFERENCE_SHAPE) -> None:
    """Write a loadable checkpoint with weights drawn from `seed`, MTP head and trained tokenizer included.

    Takes a few seconds, nearly all of them for the tokenizer.
    """
    tokenizer = train_tokenizer(document.text for document in training_documents())
    write_checkpoint(fresh_network(shape, seed), shape, tokenizer, path)
