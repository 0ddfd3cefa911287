"""A folder with a tiny tokenizer and no weights: enough of a checkpoint for every corpus but `self`."""

from pathlib import Path

from tests.unit.measurement.tiny_tokenizer import tiny_tokenizer


def tokenizer_folder(folder: Path, *, end: bool = True, template: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tiny_tokenizer(end).save(str(folder / "tokenizer.json"))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder
