"""Lines of the log as they are shown."""

from datetime import UTC, datetime

import pytest

from knowledge.queries.log import EventView

WHOLE = (
    "Calibrating on blend:0.5 instead of raw (beside quantization.bits 4, quantization.seed 0) raises tasks "
    "solved by 5.7 points [3.1, 8.3] on model reference, target cuda:NVIDIA H200:151 GB, engine vllm (numpy "
    "2.5.2, vllm 0.26.0), 128 tokens in, 32 tokens out, concurrency 1, over HTTP."
)
SAID = "Calibrating on blend:0.5 instead of raw raises tasks solved by 5.7 points [3.1, 8.3]."


@pytest.mark.parametrize(
    ("kind", "rule", "text", "brief"),
    [
        ("finding.added", "R1-single", WHOLE, SAID),
        ("finding.added", "R1-single", SAID, SAID),
        (
            "finding.added",
            "R0-told",
            "You wrote down: It is fast on model 3.",
            "You wrote down: It is fast on model 3.",
        ),
        ("note.added", None, "It is fast on model 3.", "It is fast on model 3."),
    ],
)
def test_a_finding_s_whole_scope_is_left_to_its_page(kind: str, rule: str, text: str, brief: str) -> None:
    found = EventView(
        id=1,
        at=datetime(2026, 11, 28, tzinfo=UTC),
        kind=kind,
        text=text,
        subject="F-001",
        campaign="C-1",
        data=None if rule is None else {"rule": rule},
    )
    assert found.brief == brief
