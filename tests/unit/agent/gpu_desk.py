"""The desk of a campaign on the shape of Qwen3.5-9B on an H200, with a recorded profile."""

from __future__ import annotations

from typing import Any

from agent.campaign.decision.desk import Desk
from agent.campaign.known.facts import Facts
from agent.campaign.known.measured import Baseline
from agent.ground.legal import Legal
from configs.campaign import load_campaign
from configs.models import load_model_profile
from db.states import CampaignState
from experiments.space.loading import load_space
from tests.recorded.vllm_kernels import PROFILED, recorded_parts

SPACE, SHAPE = load_space("vllm"), load_model_profile("qwen3.5-9b")
BASELINE = SPACE.configuration({})
BANDWIDTH = float(PROFILED["bf16"]["copy_bytes_per_s"])


def gpu_desk(
    tpot_ms: float, ttft_ms: float, *, workload: dict[str, Any], metric: str = "tpot_ms", **facts: Any
) -> Desk:
    """With the packaged campaign's plan but for its workload and metric; `facts` are those of `Facts` that
    differ from a campaign that has measured its baseline alone."""
    spec = load_campaign("shape")
    asked = spec.plan.workload.model_copy(update=workload)
    plan = spec.plan.model_copy(update={"metric": metric, "workload": asked})
    known: dict[str, Any] = {
        "id": 1,
        "spec": spec.model_copy(update={"plan": plan}),
        "state": CampaignState.RUNNING,
        "model_fingerprint": "f",
        "target_key": "cuda",
        "model_layers": SHAPE.layer_types,
        "cores": 8,
        "spent_s": 0.0,
        "baseline": BASELINE,
        "naive": BASELINE,
        "baseline_experiment_id": 1,
        "trials": (),
        "queue": (),
        "under_test": (),
        "proposed": (),
        "gpu_name": "NVIDIA H200",
    }
    parts = tuple(recorded_parts("bf16"))
    measured = Baseline({BASELINE.digest: tpot_ms}, {BASELINE.digest: ttft_ms}, parts, 1.0, BANDWIDTH)
    return Desk(Facts(**(known | facts)), Legal(SPACE, profile=SHAPE), measured, ())
