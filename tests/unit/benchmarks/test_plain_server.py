"""What a plain server is beside a campaign's is told by rounds, and what each said that it captures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from experiments.engines.vllm.engine import VllmEngine
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from tests.device import plain_server
from tests.device.plain_server import (
    CACHE_BYTES,
    CAMPAIGN,
    GRAPHS,
    PLAIN,
    SAID,
    SAMPLER,
    SERVERS,
    environment_of,
    main,
    table,
    words,
)

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


def test_a_campaigns_server_is_given_what_a_launch_of_the_space_s_beginning_is() -> None:
    begun = {"serving.max_sequences": 16, "serving.max_model_len": 4096, "serving.prefix_caching": "off"}
    for name, knobs in ((CAMPAIGN, {}), (GRAPHS, {"serving.max_graph_tokens": 512})):
        launch = VllmEngine().serve_command(
            Configuration.of({**begun, **knobs}), reference_model_path(), "cpu"
        )
        given = words(Path("shape"), Path("tokenizer"), SERVERS[name])
        for option in ("--max-num-seqs", "--max-model-len", "--compilation-config"):
            assert of(option, given) == of(option, launch.words), option
        assert "--no-enable-prefix-caching" in given
        assert "--no-enable-prefix-caching" in launch.words


def test_each_server_has_a_cache_of_its_own_whatever_the_others_hold() -> None:
    for more in SERVERS.values():
        given = words(Path("shape"), Path("tokenizer"), more)
        assert of("--kv-cache-memory-bytes", given) == str(CACHE_BYTES)
    assert "--max-num-seqs" not in words(Path("shape"), Path("tokenizer"), SERVERS[PLAIN])


@pytest.mark.parametrize("pytorch", [False, True])
def test_the_plain_server_alone_is_left_vllms_own_sampler_where_it_may_be(pytorch: bool) -> None:
    launch = {SAMPLER: "0", "PATH": "bin"}
    found = {name: environment_of(name, launch, pytorch_sampler=pytorch) for name in SERVERS}
    assert found[CAMPAIGN] == found[GRAPHS] == launch
    assert found[PLAIN] == (launch if pytorch else {"PATH": "bin"})


def of(option: str, given: Sequence[str]) -> str | None:
    return given[given.index(option) + 1] if option in given else None


def test_a_log_tells_the_tokens_of_a_step_and_how_far_graphs_go() -> None:
    assert found() == [("max_num_batched_tokens", 8192), ("max_cudagraph_capture_size", 32)]


def test_what_can_not_be_read_or_served_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTOINFER_VLLM_PYTHON", str(tmp_path / "none"))
    monkeypatch.setattr(plain_server.signal, "signal", lambda *_: None)  # this process keeps its own
    assert main(["--table", str(tmp_path / "nothing.json")]) == 1
    assert main(["--device", "cpu", "--out", str(tmp_path / "out")]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "nothing.json" in first
    assert "AUTOINFER_VLLM_PYTHON" in second


def test_servers_are_held_against_a_campaigns_by_rounds() -> None:
    plain, campaign, graphs = table(told(0.060)).splitlines()[2:]
    assert plain == "| `plain` | nothing | not told | 512 | 63.0 | -25.0 % (-25.0 to -25.0) |"
    assert campaign == f"| `campaign` | `{' '.join(SERVERS[CAMPAIGN])}` | 8192 | 32 | 84.0 | — |"
    assert graphs.endswith("| not told | not told | 42.0 | -50.0 % (-50.0 to -50.0) |")
