"""The command that serves is that of the launch that was measured: its order, word by word."""

import json
import shlex
from dataclasses import replace

import pytest

from experiments.engines.messages import message_of
from experiments.engines.reference.engine import ReferenceEngine, order_for
from experiments.engines.reference.launch import server_environment
from experiments.engines.reference.protocol import LaunchOrder
from experiments.engines.reference.serve_command import CACHE, reference_serve
from experiments.engines.serve_command import Servable, ServeCommand
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.order import order_for as vllm_order_for
from experiments.engines.vllm.serve_command import MEASURED_ONLY, vllm_serve
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue

KNOBS: list[dict[str, KnobValue]] = [
    {},
    {"serving.graph_mode": "full_decode_only", "serving.async_scheduling": "off"},
    {"serving.chunked_prefill": "off", "serving.prefix_caching": "on", "serving.weight_dtype": "fp8"},
    {"drafting.method": "mtp", "drafting.draft_tokens": 2, "serving.graph_mode": "eager"},
    {"drafting.method": "ngram", "drafting.draft_tokens": 3, "serving.linear_backend": "marlin"},
]


def arguments_in(words: tuple[str, ...]) -> dict[str, object]:
    """What `vllm serve` is told by these words: vLLM's own names, values as JSON has them."""
    assert words[:2] == ("vllm", "serve")
    found: dict[str, object] = {"model": words[2]}
    rest = list(words[3:])
    while rest:
        flag = rest.pop(0)
        assert flag.startswith("--")
        name = flag[2:].replace("-", "_")
        if rest and not rest[0].startswith("--"):
            value = rest.pop(0)
            found[name] = json.loads(value) if value[0] in "{[" else value
        else:
            found[name.removeprefix("no_")] = not name.startswith("no_")
    return found


@pytest.mark.parametrize("knobs", KNOBS)
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_vllm_serve_has_every_argument_of_the_launch_but_those_of_measuring(
    knobs: dict[str, KnobValue], device: str
) -> None:
    order = vllm_order_for(Configuration.of(knobs), "some/model", device, 2**30)
    told = arguments_in(vllm_serve(order, {"language_model_only": True}).words)
    launched = {name: each for name, each in order.arguments.items() if name not in MEASURED_ONLY - {"model"}}
    as_words = {name: each if isinstance(each, bool | dict) else str(each) for name, each in launched.items()}
    assert told == {**as_words, "language_model_only": True}


def test_the_reference_engine_s_command_is_its_order_and_the_environment_of_its_server() -> None:
    configuration = Configuration.of({"serving.threads": 1, "serving.dtype": "float32"})
    checkpoint = reference_model_path()
    command = ReferenceEngine().serve_command(configuration, checkpoint, "cpu")
    assert command.first_line is not None
    order = message_of(LaunchOrder, json.loads(command.first_line))
    assert order.checkpoint == str(checkpoint)
    assert command == reference_serve(order)
    assert command.environment.items() <= server_environment(order, "").items()
    assert order.cache_dir == CACHE
    again = order_for(configuration, checkpoint, "cpu", checkpoint)
    assert (order.threads, order.dtype, order.compile) == (again.threads, again.dtype, again.compile)


@pytest.mark.parametrize(("device", "seen"), [("cpu", ""), ("cuda:1", None)])
def test_what_serves_on_a_processor_sees_no_gpu(
    device: str, seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    checkpoint = reference_model_path()
    configuration = Configuration.of({"serving.threads": 1, "serving.dtype": "float32"})
    order = replace(order_for(configuration, checkpoint, "cpu", checkpoint), device=device)
    assert server_environment(order, "").get("CUDA_VISIBLE_DEVICES") == seen


def test_a_shell_reads_the_words_as_they_are() -> None:
    command = ServeCommand(("vllm", "serve", "a b", "--x", '{"y": "$HOME"}'), "", environment={"A": "1 2"})
    assert shlex.split(command.shell) == ["A=1 2", *command.words]
    with_line = ServeCommand(("serve",), "", first_line="it's {}")
    assert shlex.split(with_line.shell) == ["printf", "%s\\n", "it's {}", "|", "serve"]


def test_both_packaged_engines_can_be_deployed() -> None:
    assert isinstance(ReferenceEngine(), Servable)
    assert isinstance(VllmEngine(), Servable)
