"""How the best of a campaign is told: figures of one experiment that add up, and a note where its weights are
stored otherwise than they are served."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from agent.campaign.learning.outcome import arms_ms, weights_note
from cli.running.telling import _best_words
from experiments.measurement.evidence import Arm, Json, LaunchRecord, Metric, Stage
from experiments.space.configuration import Configuration
from knowledge.figures import against_control
from tests.simulated.by_hand import launch as timed

REASON = "quantized weights are served dequantized"


def launch(arm: Arm, resolved: Mapping[str, Json]) -> LaunchRecord:
    return LaunchRecord(arm, 0, Stage.QUICK, "digest", resolved, {}, 1.0, ())


def weights(representative: bool, reason: str | None = REASON) -> Mapping[str, Json]:
    told: dict[str, Json] = {"latency_representative": representative}
    return {"weights": told if reason is None else told | {"latency_reason": reason}}


@pytest.mark.parametrize(
    ("control", "candidate", "note"),
    [
        (weights(True), weights(False), REASON),
        (weights(False), weights(False), REASON),
        (weights(False), weights(True), None),
        (weights(True), weights(False, None), "the engine does not serve these weights as stored"),
        ({}, {}, None),
        ({}, {"weights": "float32"}, None),
    ],
)
def test_it_is_the_candidate_that_speaks(
    control: Mapping[str, Json], candidate: Mapping[str, Json], note: str | None
) -> None:
    assert weights_note([launch(Arm.CONTROL, control), launch(Arm.CANDIDATE, candidate)]) == note


@pytest.mark.parametrize("note", [REASON, None])
def test_the_line_on_the_terminal_ends_with_the_note(note: str | None) -> None:
    best = {
        "configuration": {"quantization.method": "awq"},
        "tpot_ms": 4.0,
        "control_tpot_ms": 5.0,
        "speedup": 1.25,
        "speedup_interval": None,
        "speedup_basis": "E-007",
        "bits_per_byte": None,
        "note": note,
        "experiment": "E-007",
    }
    words = _best_words(best, {"bits_per_byte": None})
    assert words.endswith(f"E-007; {REASON}" if note else "E-007")
    assert words.startswith("4.00 ms a token against 5.00 ms, 1.250× as fast as the baseline (")


def test_the_control_of_a_chains_last_step_is_not_taken_for_the_baseline() -> None:
    step = {"tpot_ms": 4.0, "control_tpot_ms": 4.5, "speedup_basis": "chain"}
    assert against_control(step) == "4.00 ms a token against 4.50 ms before its last step"
    assert against_control({"tpot_ms": 4.0, "speedup_basis": "E-007"}) == "4.00 ms a token", (
        "an older version"
    )


def test_the_arms_of_an_experiment_are_taken_where_they_ran_side_by_side() -> None:
    control, candidate = Configuration.of({"a": 1}), Configuration.of({"a": 2})
    pairs = [
        timed(arm, configuration, slower * ms, index)
        for index, slower in enumerate((1.0, 2.0))
        for arm, configuration, ms in ((Arm.CONTROL, control, 6.4), (Arm.CANDIDATE, candidate, 2.4))
    ]
    screened = timed(Arm.CANDIDATE, candidate, 50.0, 0, Stage.SCREEN)
    alone = timed(Arm.CANDIDATE, candidate, 50.0, 2, Stage.VALIDATION)
    found = arms_ms([*pairs, screened, alone], Metric.TPOT_MS)
    assert found[Arm.CONTROL] == pytest.approx(6.4 * math.sqrt(2), rel=2e-3)
    assert found[Arm.CANDIDATE] == pytest.approx(2.4 * math.sqrt(2), rel=2e-3)
    assert arms_ms([screened, alone], Metric.TPOT_MS) == {Arm.CONTROL: None, Arm.CANDIDATE: None}
