"""A made-up decode step of a Mixture of Experts on a GPU, by kernels, for tests. H200s measured others."""

from __future__ import annotations

from configs.models import load_model_profile
from experiments.engines.port import PartTime

MIXTURE = load_model_profile("qwen3.5-35b-a3b")

BANDWIDTH = 4e12
"""Bytes a second."""

PARTS = (
    PartTime("experts", "experts", 0.8, 2_000_000_000, launches=120),
    PartTime("in_proj_qkvz", "gemm", 0.4, 1_500_000_000, launches=30),
    PartTime("shared_expert", "gemm", 0.3, 300_000_000, launches=160),
    PartTime("lm_head", "lm_head", 0.3, 1_000_000_000, launches=1),
    PartTime("gdn_state", "gdn_state", 0.2, 0, cache_bytes=100_000_000, launches=30),
    PartTime("outside", "outside", 0.5, 0),
)
"""A step of 2.5 ms, a part at the floor of its bytes in some of them."""
