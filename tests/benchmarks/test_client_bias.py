"""`vllm bench serve` and our client against the server whose times are known, once and small.

What must hold whatever the machine does: nothing is told shorter than the server's record of the very same
request has it, for a request is sent before it arrives and a token read after it was handed over. How far the
two lie apart is printed and not asserted (docs/results/client-bias.md). Skipped where there is no vLLM.
"""

from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from experiments.engines.vllm.environment import VllmEnvironment, installed, vllm_python
from tests.benchmarks.client_bias import measure, pace_of
from tests.benchmarks.client_bias_tables import ARMS, biases, table, ways_table
from tests.benchmarks.serving_arms import Load
from tests.benchmarks.serving_comparison import WITHIN


def environment() -> VllmEnvironment | None:
    try:
        python = vllm_python()
    except Infeasible:
        return None
    return None if python is None else installed(python)


FOUND = environment()

pytestmark = [
    pytest.mark.bench_only,
    pytest.mark.skipif(FOUND is None, reason="vLLM is not installed"),
    pytest.mark.timeout(300),
]


def test_neither_client_tells_less_than_the_server_noted(tmp_path: Path) -> None:
    assert FOUND is not None
    kept: list[int] = []
    load = Load(requests=8, concurrency=4, prompt_tokens=64, new_tokens=24)
    asked = [(load, pace_of(4, None, None))]
    found = measure(FOUND, asked, 1, tmp_path, float("inf"), lambda so_far: kept.append(len(so_far["runs"])))
    print(table(biases(found["runs"]), WITHIN))
    print(ways_table(found["runs"]))
    assert kept == [1, 2]
    assert [run["arm"] for run in found["runs"]] == list(ARMS)
    for run in found["runs"]:
        for name in ("ttft_ms", "mean_ttft_ms", "e2el_ms", "mean_e2el_ms"):
            assert run["told"][name] > run["recorded"][name], name
