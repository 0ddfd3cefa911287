"""What goes with the weights when a stage writes a checkpoint anew, and what tells of the one before."""

from pathlib import Path

from experiments.stages.copied_files import SCORES_FILE, copy_beside

KEPT = ("chat_template.jinja", "generation_config.json", "tokenizer.json")
LEFT = (
    *("README.md", "config.json", "model-00001-of-2.safetensors", "model.safetensors.index.json"),
    *("prune-report.json", "quantize-report.json", "pytorch_model.bin", SCORES_FILE),
)


def test_tokenizer_and_settings_go_along_and_what_tells_of_the_checkpoint_before_does_not(
    tmp_path: Path,
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after, before / "onnx"):
        folder.mkdir()
    for name in (*KEPT, *LEFT):
        (before / name).write_text(name)
    copy_beside(before, after)
    assert sorted(path.name for path in after.iterdir()) == sorted(KEPT)
    assert all((after / name).read_text() == name for name in KEPT)
