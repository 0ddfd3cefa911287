"""Where a GPU has no room for a model that writes its calibration text, that is said before it is tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plan.card import card_asked
from agent.plan.levers import LeverRow, Standing
from agent.plan.model import find_model
from agent.plan.plan import make_plan
from configs.campaign import load_campaign
from configs.models import load_model_profile
from configs.quantities import format_bytes
from experiments.space.configuration import Configuration
from experiments.space.legality import KINDS_OF
from experiments.space.writing_rules import (
    ROWS_AT_ONCE,
    WHOLE_QUANTIZED,
    writing_bytes,
    writing_refused,
)
from experiments.stages.pruning.stage import DepthPruning
from experiments.stages.quantize.stage import WeightQuantization

FOUR = load_model_profile("qwen3.5-4b")


def corpus(card: str, value: str = "self", **more: object) -> LeverRow:
    spec = load_campaign(
        "default", {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": [], **more}
    )
    made = make_plan(spec, find_model("qwen3.5-4b"), card_asked(card))
    return next(row for row in made.levers if (row.knob, row.value) == ("quantization.corpus", value))


@pytest.mark.parametrize("card", ["rtx-4060", "8GB"])
def test_a_4b_writes_nothing_on_8_gb_and_the_other_corpora_are_legal(card: str) -> None:
    """Its weights alone are 8.4 GB in 16 bits; what it is served in takes 3.3."""
    row = corpus(card)
    assert row.standing is Standing.NO
    assert str(row.why).startswith("For quantization.corpus=self the whole model writes in 16 bits, 32 ")
    assert str(row.why).endswith("where there are 8.0 GB: take another corpus, which no model has to write.")
    for other in ("raw", "instruct", "blend:0.5"):
        assert corpus(card, other).standing is Standing.YES


def test_on_16_gb_it_writes_and_what_launches_may_take_bounds_it_too() -> None:
    assert corpus("rtx-4080").standing is Standing.YES
    assert "where there are 8.0 GB" in str(corpus("rtx-4080", memory="8GB").why)


def test_rows_of_a_batch_take_room_up_to_as_many_as_are_written_at_once() -> None:
    few, many, more = (writing_bytes(FOUR, samples, 256) for samples in (32, ROWS_AT_ONCE, 128))
    assert 2 * FOUR.text_parameters < few < many == more
    assert many - few == few - 2 * FOUR.text_parameters
    asked = {"quantization.corpus": "self", "quantization.samples": 32, "quantization.sample_tokens": 256}
    assert writing_refused(asked, FOUR, few) is None
    assert "32 samples at once" in str(writing_refused(asked, FOUR, few - 1))
    assert writing_refused(asked, FOUR, None) is None
    assert writing_refused({**asked, "quantization.corpus": "raw"}, FOUR, 1) is None


PRUNED = {
    "quantization.corpus": "self",
    "quantization.samples": 32,
    "quantization.sample_tokens": 256,
    "pruning.layers_removed": 8,
}


def test_what_is_pruned_before_is_gone_by_the_time_that_it_writes() -> None:
    whole, pruned = (
        writing_bytes(each, 32, 256) for each in (FOUR, FOUR.without_layers(frozenset(range(0, 32, 4))))
    )
    assert writing_refused(PRUNED, FOUR, pruned) is None
    told = str(writing_refused(PRUNED, FOUR, pruned - 1))
    assert "the model without 8 of its 32 layers writes in 16 bits" in told
    assert f"takes {format_bytes(pruned)} at least" in told
    for knob, value in WHOLE_QUANTIZED.items():
        assert writing_refused({**PRUNED, knob: value}, FOUR, whole) is None
        assert "the whole model writes" in str(writing_refused({**PRUNED, knob: value}, FOUR, whole - 1))


@given(st.integers(1, 12), st.sampled_from(["any", "gdn", "attention"]), st.data())
def test_nothing_is_refused_that_any_choice_of_layers_would_let_write(
    count: int, restrict: str, data: st.DataObject
) -> None:
    """Which layers go is known after their ranking only; one of each kind stays."""
    left = [at for kind in KINDS_OF[restrict] for at in of_kind(kind)[1:]]
    gone = data.draw(st.permutations(left))[:count]
    needed = writing_bytes(FOUR.without_layers(frozenset(gone)), 32, 256)
    asked = {**PRUNED, "pruning.layers_removed": count, "pruning.restrict": restrict}
    assert writing_refused(asked, FOUR, needed) is None


def of_kind(kind: str) -> list[int]:
    return [at for at, each in enumerate(FOUR.layer_types) if each == kind]


@pytest.mark.parametrize(
    "order", [{}, {"pruning.order": "before_quantization"}, {"pruning.order": "after_quantization"}]
)
@pytest.mark.parametrize(
    "ranked_on", [{}, {"pruning.ranked_on": "original"}, {"pruning.ranked_on": "quantized"}]
)
def test_the_whole_model_is_quantized_by_the_stages_where_the_rule_says_so(
    order: dict[str, str], ranked_on: dict[str, str]
) -> None:
    asked = Configuration.of({"pruning.method": "depth", "quantization.method": "awq", **order, **ranked_on})
    pruning, quantizing = DepthPruning(), WeightQuantization()
    ranked = pruning.beside(asked)
    whole = quantizing.place(asked) < pruning.place(asked) or (
        ranked is not None and quantizing.asked(ranked)
    )
    assert whole == any(asked.get(knob) == value for knob, value in WHOLE_QUANTIZED.items())


@pytest.mark.parametrize(("size", "gigabytes"), [("4b", "10.4"), ("9b", "19.9")])
def test_what_the_documentation_says_of_it_is_counted(size: str, gigabytes: str) -> None:
    needed = writing_bytes(load_model_profile(f"qwen3.5-{size}"), 32, 256)
    assert f"{needed / 1e9:.1f}" == gigabytes
