"""Finds the packaged reference model and names a checkpoint by its content; imports no torch."""

import hashlib
from functools import lru_cache
from pathlib import Path

from configs.errors import AutoinferError
from experiments.shapes.marker import SHAPE_FILE, is_shape

FINGERPRINTED_FILES = (
    "chat_template.jinja",
    "config.json",
    "model.safetensors",
    SHAPE_FILE,
    "tokenizer.json",
    "tokenizer_config.json",
)
"""The files that decide what a checkpoint computes, and how a conversation is written for it; the card and
the like don't."""

GIVE = "Give the folder that holds config.json and *.safetensors"

READ_BYTES = 1 << 20
"""Bytes of a file that are hashed at a time: weights may be larger than memory."""


class CheckpointMissing(AutoinferError):
    """A folder that should hold a checkpoint lacks a file of it; the message names the folder."""


def reference_model_path() -> Path:
    """Return the folder of the packaged weights.

    Raises:
        CheckpointMissing: the installation came without them.
    """
    folder = Path(__file__).parent / "weights"
    if not (folder / "model.safetensors").is_file():
        raise CheckpointMissing(
            f"The reference model's weights are not in {folder}.",
            "Install autoinfer again, or train them with `autoinfer reference train`.",
        )
    return folder


def checkpoint_fingerprint(folder: Path) -> str:
    """Return the SHA-256 over the files that decide what a checkpoint computes, as hexadecimal.

    Sharded checkpoints count with every `*.safetensors` file, a shape, which has none, with what says so. The
    result is kept while the files' sizes and
    times stay the same.

    Raises:
        CheckpointMissing: there is no `config.json`, or no weights.
    """
    return _fingerprint(fingerprinted_files(folder))


def fingerprinted_files(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return path, size in bytes and time of change in ns of each file that the fingerprint is over.

    Raises:
        CheckpointMissing: as `checkpoint_fingerprint`.
    """
    if (missing := no_checkpoint(folder)) is not None:
        raise missing
    weights = sorted(folder.glob("*.safetensors"))
    names = {*FINGERPRINTED_FILES, *(path.name for path in weights)}
    paths = [folder / name for name in sorted(names) if (folder / name).is_file()]
    return tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths)


def no_checkpoint(folder: Path) -> CheckpointMissing | None:
    """What a folder lacks to be a checkpoint, with what to give in its place; None where it has a
    `config.json`, and weights or what makes it a shape."""
    there = {
        "config.json": (folder / "config.json").is_file(),
        "*.safetensors": any(folder.glob("*.safetensors")) or is_shape(folder),
    }
    lacking = [name for name, is_there in there.items() if not is_there]
    if not lacking:
        return None
    return CheckpointMissing(
        f"{folder} is no checkpoint: it lacks {' and '.join(lacking)}.", _what_to_give(folder)
    )


def _what_to_give(folder: Path) -> str:
    """What to do about a folder that is no checkpoint: where one is in it, or what it has in place of one."""
    depths = ("*/config.json", "*/*/config.json", "*/*/*/config.json")  # the hub's cache has them at two
    found = sorted({each.parent for depth in depths for each in folder.glob(depth)})
    inner = [each for each in found if any(each.glob("*.safetensors"))]
    if inner:
        which = f": {inner[0]} does" if len(inner) == 1 else f", such as {inner[0]}"
        return f"{GIVE}{which}."
    if packed := sorted(folder.glob("*.gguf")):
        return (
            f"It holds a GGUF file ({packed[0].name}), and safetensors alone are read: take the model that "
            "it was made from."
        )
    if pickled := sorted((*folder.glob("pytorch_model*.bin"), *folder.glob("*.pth"))):
        return (
            f"Its weights are pickled ({pickled[0].name}), and safetensors alone are read: load it with "
            "transformers and save it anew with save_pretrained."
        )
    return f"{GIVE}."


@lru_cache(maxsize=64)
def _fingerprint(stats: tuple[tuple[str, int, int], ...]) -> str:
    """Hash the files named in `stats`; sizes and times are there to make the cache forget changed files."""
    digest = hashlib.sha256()
    for name, size_bytes, _ in stats:
        path = Path(name)
        digest.update(f"{path.name}:{size_bytes}\n".encode())
        with path.open("rb") as file:
            while read := file.read(READ_BYTES):
                digest.update(read)
    return digest.hexdigest()
