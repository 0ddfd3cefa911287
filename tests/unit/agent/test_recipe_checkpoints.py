"""The checkpoint of a recipe: built by the stages a configuration asks for, once, and only if it is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.recipe.checkpoints import build_checkpoint, is_built, known_chain
from configs.errors import AutoinferError
from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.store import ArtifactStore
from experiments.artifacts.stored import StoredArtifact
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json, Stage
from experiments.space.configuration import Configuration

ASKED = Configuration.of({"pruning.method": "depth", "quantization.method": "rtn"})
PLAIN = Configuration.of({"serving.threads": 1})


@dataclass
class Writing:
    """A stage that writes what it was given into a file."""

    stage: Stage
    knob: str
    order: int
    fails: bool = False
    built: list[str] = field(default_factory=list)

    def asked(self, configuration: Configuration) -> bool:
        return self.knob in configuration

    def place(self, configuration: Configuration) -> int:
        return self.order

    def beside(self, configuration: Configuration) -> Configuration | None:
        return None

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey:
        return ArtifactKey(
            "checkpoint", {"stage": self.stage.value, "model": model_fingerprint}, tuple(parents)
        )

    def build(
        self,
        configuration: Configuration,
        checkpoint: Path,
        folder: Path,
        beside: Path | None = None,
        tell: Callable[[int, int, str], None] = lambda *_: None,
    ) -> Mapping[str, Json]:
        if self.fails:
            raise Infeasible("out_of_memory", "There is no room.")
        self.built.append(self.stage.value)
        before = (checkpoint / "weights").read_text()
        (folder / "weights").write_text(f"{before}, {self.stage.value}d")
        return {"stage": self.stage.value}


@pytest.fixture
def original(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_text("whole")
    return folder


def stages(*, fails: bool = False) -> tuple[Writing, ...]:
    return Writing(Stage.QUANTIZE, "quantization.method", 1, fails), Writing(Stage.PRUNE, "pruning.method", 0)


def test_stages_run_in_their_order_and_what_is_there_is_used(original: Path, tmp_path: Path) -> None:
    made, said = stages(), list[str]()
    with ArtifactStore(tmp_path / "store") as store:
        first = build_checkpoint(original, "f", ASKED, made, store, said.append)
        again = build_checkpoint(original, "f", ASKED, made, store, said.append)
    assert (first.path / "weights").read_text() == "whole, pruned, quantized"
    assert (first.path / "quantize-report.json").is_file(), "as a job leaves it"
    assert again.digest == first.digest
    assert [each.built for each in made] == [["quantize"], ["prune"]]
    assert [each.rpartition(" ")[2] for each in said] == ["built", "built", "already", "already"]


def test_the_chain_of_a_checkpoint_is_found_by_its_digests_alone(original: Path, tmp_path: Path) -> None:
    made = stages()
    with ArtifactStore(tmp_path / "store") as store:
        last = build_checkpoint(original, "f", ASKED, made, store, lambda _: None)
        stored = {each.digest: each for each in store.list()}
        chain = known_chain(original, "f", ASKED, made, stored.get)
    assert [each.inputs["stage"] for each in chain] == ["prune", "quantize"]
    assert chain[-1].digest == last.digest
    assert chain[0].digest in chain[1].parents
    assert known_chain(original, "f", PLAIN, made, stored.get) == ()


def test_a_checkpoint_that_nothing_was_measured_with_is_no_part_of_a_recipe(original: Path) -> None:
    def none(digest: str) -> StoredArtifact | None:
        return None

    with pytest.raises(AutoinferError, match="nothing was measured with that") as caught:
        known_chain(original, "f", ASKED, stages(), none)
    assert "with the versions that it ran with" in caught.value.hint


def test_what_can_t_be_built_here_says_why(original: Path, tmp_path: Path) -> None:
    with ArtifactStore(tmp_path / "store") as store, pytest.raises(AutoinferError, match="There is no room"):
        build_checkpoint(original, "f", ASKED, stages(fails=True), store, lambda _: None)


def test_a_configuration_that_changes_no_weights_has_nothing_to_build() -> None:
    assert is_built(ASKED, stages())
    assert not is_built(PLAIN, stages())
