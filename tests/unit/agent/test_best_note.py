"""A best whose weights are stored otherwise than they are served says so, wherever it is told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agent.campaign.outcome import weights_note
from cli.telling import _best_words
from experiments.measurement.evidence import Arm, Json, LaunchRecord, Stage

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
        "speedup": 1.25,
        "speedup_interval": None,
        "bits_per_byte": None,
        "note": note,
        "experiment": "E-007",
    }
    words = _best_words(best, {"bits_per_byte": None})
    assert words.endswith(f"E-007; {REASON}" if note else "E-007")
