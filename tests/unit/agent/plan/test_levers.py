"""Each value of the space is legal, or told with the reason why it is not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from agent.campaign.legal import Legal, legal_here
from agent.plan.levers import LeverRow, Standing, lever_rows, witnesses
from configs.campaign import load_campaign
from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from experiments.space.gpu_rules import not_served_by
from experiments.space.knob import Knob
from experiments.space.legality import ModelFacts, legal_levers
from experiments.space.loading import load_space
from experiments.space.space import Space

LEVERS = load_space("levers")


def rows_of(name: str = "levers", check: object = None) -> dict[tuple[str, object], LeverRow]:
    spec = load_campaign(name, {"space": "levers"})
    legal = legal_here(spec, reference_model_path(), 2)
    found = lever_rows(LEVERS, legal, check)  # type: ignore[arg-type]
    return {(row.knob, row.value): row for row in found}


def test_every_value_has_one_row_and_every_other_than_yes_a_reason() -> None:
    found = rows_of()
    assert Counter(knob for knob, _ in found) == {knob.name: len(knob.values) for knob in LEVERS.knobs}
    assert all((row.standing is Standing.YES) == (row.why is None) for row in found.values())


def test_reasons_come_from_model_target_and_budget() -> None:
    found = rows_of()
    assert found["serving.threads", 8].why == "The target has 2 cores for us."
    assert found["drafting.method", "draft_model"].standing is Standing.WHEN_GIVEN
    dflash = found["drafting.method", "dflash"]
    assert dflash.standing is Standing.WITH_PRUNING
    assert "must be pruned" in str(dflash.why)
    assert found["drafting.draft_tokens", 7].standing is Standing.YES, "n-grams draft as many"


def test_without_a_parameter_budget_nothing_must_be_paid_for() -> None:
    assert rows_of("default")["drafting.method", "dflash"].standing is Standing.YES


def test_what_the_engine_refuses_is_told_in_its_words() -> None:
    def check(configuration: Configuration) -> None:
        if configuration["serving.compile"] == "cpp_wrapper":
            raise Infeasible("unsupported", "There is no compiler.")

    found = rows_of("default", check)
    assert found["serving.compile", "cpp_wrapper"] == LeverRow(
        "serving.compile", "compile", "cpp_wrapper", Standing.NO, "There is no compiler."
    )
    assert found["serving.compile", "default"].standing is Standing.YES


def test_a_witness_is_legal_and_has_the_value() -> None:
    for knob in LEVERS.knobs:
        for value in knob.values:
            (first, *_) = witnesses(LEVERS, knob.name, value)
            assert first[knob.name] == value
            assert LEVERS.is_legal(first)


@pytest.mark.parametrize(
    ("capability", "size", "against"),
    [("9.0", "9b", set()), ("8.9", "9b", {"machete"}), (None, "9b", set()), ("9.0", "odd", {"marlin"})],
)
def test_a_kernel_that_a_gpu_or_a_shape_can_not_have_is_told(
    capability: str | None, size: str, against: set[str], tmp_path: Path
) -> None:
    backend = Knob("serving.linear_backend", ("auto", "machete", "marlin"), "auto", "linear_backend")
    profile = load_model_profile("qwen3.5-9b")
    if size == "odd":
        profile = profile.model_copy(update={"intermediate": 12_320})
    space = Space((backend,))
    why = not_served_by(space, profile, capability)
    assert {value for _, value in why} == against
    left, withheld = legal_levers(space, ModelFacts.of(profile, not_served=why))
    found = lever_rows(space, Legal(left, withheld))
    assert {row.value for row in found if row.standing is Standing.NO} == against
    assert all(str(profile.intermediate) in reason or "9.0" in reason for reason in why.values())
