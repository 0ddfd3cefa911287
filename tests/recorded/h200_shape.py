"""What an H200 was recorded to run of Qwen3.5-9B's shape, as launches; see the JSON beside it."""

import json
from pathlib import Path
from typing import Any

from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Sample, Stage
from experiments.space.configuration import Configuration

LOADS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("vllm_h200_9b_shape.json").read_text(encoding="utf-8")
)["loads"]


def launch(arm: Arm, name: str, configuration: Configuration, index: int = 0) -> LaunchRecord:
    """A recorded load as a launch of an arm: what it resolved, and its requests as samples."""
    position = 0 if arm is Arm.CONTROL else 1
    return LaunchRecord(
        arm=arm,
        index=index,
        stage=Stage.QUICK,
        configuration_digest=configuration.digest,
        resolved=LOADS[name]["resolved"],
        environment={"source": "vllm_h200_9b_shape.json"},
        load_s=0.0,
        samples=tuple(
            Sample(place, position, "512 in, 129 out", place, Metric.TPOT_MS, value)
            for place, value in enumerate(LOADS[name]["tpot_ms"])
        ),
    )
