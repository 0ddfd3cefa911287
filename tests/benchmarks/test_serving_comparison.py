"""On a real vLLM: what `vllm bench serve` says of its requests is what autoinfer would say of the same ones.

That is exact, whatever the machine does meanwhile. How far its figures lie from ours, measured in turns on
one engine, is printed and not asserted: engine, server and clients share the processors here. The command for
a GPU is in `serving_comparison.py`. Skipped where there is no vLLM for CPUs.
"""

from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from experiments.engines.vllm.environment import needed_environment
from experiments.reference_model.load import reference_model_path
from tests.benchmarks.serving_arms import as_we_define_them
from tests.benchmarks.serving_comparison import ARMS, BENCH, IDS, WITHIN, Asked, compare, compared, table

CONCURRENCIES = (1, 4)


def why_not() -> str:
    try:
        needed_environment("cpu")
    except Infeasible as reason:
        return reason.cause
    return ""


pytestmark = [
    pytest.mark.bench_only,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.timeout(900),
]


def test_vllms_own_benchmark_and_autoinfer_mean_the_same_by_every_figure(tmp_path: Path) -> None:
    asked = Asked(
        device="cpu",
        checkpoint=reference_model_path(),
        tokenizer=reference_model_path(),
        knobs={"serving.graph_mode": "eager", "serving.max_sequences": 4, "serving.max_model_len": 512},
        concurrencies=CONCURRENCIES,
        prompt_tokens=96,
        new_tokens=24,
        rounds=1,
        arms=(*ARMS, IDS),
    )
    kept: list[int] = []
    found = compare(
        asked, tmp_path, tmp_path / "cache", float("inf"), lambda so_far: kept.append(len(so_far["runs"]))
    )
    print(table(compared(found["runs"]), WITHIN))
    assert kept == list(range(1, len(found["runs"]) + 1))
    assert [run["arm"] for run in found["runs"]] == [*ARMS, IDS, BENCH] * len(CONCURRENCIES)
    for run in found["runs"]:
        assert all(value > 0 for value in run["figures"].values())
        if run["arm"] != BENCH:
            continue
        ours = as_we_define_them(run["saved"])
        for name, theirs in run["figures"].items():
            # its clock for throughput begins when requests are made and ends when their tasks have
            exact = 1e-6 if name.endswith("_ms") else 0.02
            assert getattr(ours, name) == pytest.approx(theirs, rel=exact), name
