"""Where pruning stands among the stages, which model it needs beside its own, and what its key depends on."""

import pytest

from experiments.engines.port import Infeasible
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from experiments.stages.pruning.stage import DepthPruning

STAGE = DepthPruning()

DEPTH = {
    "pruning.method": "depth",
    "pruning.layers_removed": 1,
    "pruning.criterion": "block_influence",
    "pruning.restrict": "gdn",
}
QUANTIZED: dict[str, KnobValue] = {"quantization.method": "rtn", "quantization.group_size": 32}
BASE: dict[str, KnobValue] = {"serving.threads": 1, "drafting.method": "mtp", "drafting.draft_tokens": 2}


def configuration(order: str = "before_quantization", ranked_on: str = "original") -> Configuration:
    return Configuration.of(
        BASE | DEPTH | QUANTIZED | {"pruning.order": order, "pruning.ranked_on": ranked_on}
    )


def test_it_stands_before_or_after_quantization_and_first_where_there_is_none() -> None:
    assert STAGE.place(configuration("before_quantization")) == 0
    assert STAGE.place(configuration("after_quantization")) == 2
    assert STAGE.place(Configuration.of(BASE | DEPTH)) == 0


def test_ranking_on_the_quantized_model_needs_it_with_all_its_layers() -> None:
    beside = STAGE.beside(configuration("before_quantization", "quantized"))
    assert beside == Configuration.of({"serving.threads": 1, "pruning.method": "none"} | QUANTIZED)
    assert not STAGE.asked(beside)
    assert STAGE.beside(beside) is None


@pytest.mark.parametrize("ranked_on", ["original", "quantized"])
def test_pruning_the_quantized_model_needs_the_original(ranked_on: str) -> None:
    beside = STAGE.beside(configuration("after_quantization", ranked_on))
    assert beside == Configuration.of(
        {"serving.threads": 1, "pruning.method": "none", "quantization.method": "none"}
    )
    assert STAGE.beside(beside) is None


def test_no_other_model_is_needed_otherwise() -> None:
    assert STAGE.beside(configuration("before_quantization", "original")) is None
    assert STAGE.beside(Configuration.of(BASE | DEPTH)) is None
    assert STAGE.beside(Configuration.of(BASE | QUANTIZED)) is None


def digest(configuration: Configuration, parents: tuple[str, ...] = (), model: str = "f") -> str:
    return STAGE.key(configuration, reference_model_path(), parents, model).digest


def test_it_is_asked_for_by_its_method_alone_and_only_what_changes_the_bytes_changes_it() -> None:
    assert not STAGE.asked(Configuration.of(BASE))
    assert not STAGE.asked(Configuration.of({"pruning.method": "none"}))
    assert STAGE.asked(Configuration.of({"pruning.method": "depth"}))
    plain = digest(Configuration.of(DEPTH))
    assert plain == digest(Configuration.of(DEPTH | BASE)), "serving and drafting don't matter"
    assert plain == digest(configuration()), "it is the same checkpoint, whether quantized afterwards or not"
    assert plain == digest(Configuration.of({"pruning.method": "depth", "pruning.restrict": "gdn"}))
    others = [
        digest(Configuration.of(DEPTH | {"pruning.restrict": "any"})),
        digest(Configuration.of(DEPTH | {"pruning.criterion": "greedy_kl"})),
        digest(Configuration.of(DEPTH), parents=("parent",)),
        digest(Configuration.of(DEPTH), model="another"),
        *(
            digest(configuration(order, ranked_on), parents=("quantized",))
            for order, ranked_on in (
                ("before_quantization", "quantized"),
                ("after_quantization", "original"),
                ("after_quantization", "quantized"),
            )
        ),
    ]
    assert len({plain, *others}) == 1 + len(others)


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"pruning.order": "meanwhile"}, "no pruning.order 'meanwhile'"),
        ({"pruning.ranked_on": "moon"}, "no pruning.ranked_on 'moon'"),
    ],
)
def test_unknown_values_are_told(knobs: dict[str, KnobValue], sentence: str) -> None:
    with pytest.raises(Infeasible, match=sentence) as told:
        STAGE.beside(Configuration.of({**configuration(), **knobs}))
    assert told.value.kind == "illegal"
