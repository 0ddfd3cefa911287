"""What a plain server is beside a campaign's is told by rounds, and what each said that it captures."""

from __future__ import annotations

from tests.device.plain_server import CAMPAIGN, GRAPHS, PLAIN, SAID, SERVERS, table

LINES = """
(MainProcess pid=1) INFO [scheduler.py:310] Chunked prefill is enabled with max_num_batched_tokens=8192.
(EngineCore pid=2) INFO [core.py:139] Initializing … 'max_cudagraph_capture_size': 32, 'cudagraph_mode': 1}
"""


def told(plain_s: float) -> dict[str, object]:
    rounds = [
        {PLAIN: [plain_s * f] * 3, CAMPAIGN: [0.080 * f] * 3, GRAPHS: [0.040 * f] * 3} for f in (1, 1.1)
    ]
    said = {PLAIN: {"max_cudagraph_capture_size": 512}, CAMPAIGN: dict(found()), GRAPHS: {}}
    return {"rounds": rounds, "said": said, "given": {name: [*more] for name, more in SERVERS.items()}}


def found() -> list[tuple[str, int]]:
    return [(name, int(value)) for name, value in SAID.findall(LINES)]


def test_a_log_tells_the_tokens_of_a_step_and_how_far_graphs_go() -> None:
    assert found() == [("max_num_batched_tokens", 8192), ("max_cudagraph_capture_size", 32)]


def test_servers_are_held_against_a_campaigns_by_rounds() -> None:
    plain, campaign, graphs = table(told(0.060)).splitlines()[2:]
    assert plain == "| `plain` | nothing | not told | 512 | 63.0 | -25.0 % (-25.0 to -25.0) |"
    assert campaign == "| `campaign` | `--max-num-seqs 16` | 8192 | 32 | 84.0 | — |"
    assert graphs.endswith("| not told | not told | 42.0 | -50.0 % (-50.0 to -50.0) |")
