"""The command that serves is that of the launch that was measured: its order, word by word."""

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from configs.asked_over import HTTP
from experiments.engines.messages import message_of
from experiments.engines.port import Infeasible
from experiments.engines.reference import checkpoint
from experiments.engines.reference.engine import ReferenceEngine, order_for
from experiments.engines.reference.launch import ReferenceLaunch, server_environment
from experiments.engines.reference.protocol import LaunchOrder
from experiments.engines.reference.serve_command import CACHE, reference_serve
from experiments.engines.reference.server import Server
from experiments.engines.serve_command import Servable, ServeCommand
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.order import order_for as vllm_order_for
from experiments.engines.vllm.serve_command import MEASURED_ONLY, vllm_serve
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue

KNOBS: list[dict[str, KnobValue]] = [
    {},
    {"serving.graph_mode": "full_decode_only", "serving.async_scheduling": "off"},
    {"serving.graph_mode": "full_and_piecewise", "serving.max_graph_tokens": 512},
    {"serving.chunked_prefill": "on", "serving.max_batch_tokens": 4096},
    {"serving.chunked_prefill": "off", "serving.prefix_caching": "on", "serving.weight_dtype": "fp8"},
    {"drafting.method": "mtp", "drafting.draft_tokens": 2, "serving.graph_mode": "eager"},
    {"drafting.method": "ngram", "drafting.draft_tokens": 3, "serving.linear_backend": "marlin"},
]


def an_order(device: str) -> LaunchOrder:
    """An order of the reference engine for a device that need not be there."""
    path = reference_model_path()
    configuration = Configuration.of({"serving.threads": 1, "serving.dtype": "float32"})
    return replace(order_for(configuration, path, "cpu", path), device=device)


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


def test_vllm_serve_reads_as_many_tokens_a_step_as_were_measured_whatever_the_card() -> None:
    """Of itself vLLM's server takes 2,048, or 8,192 on an H200; launches of before 2026-11-28 read 2,048."""
    engine, checkpoint = VllmEngine(), reference_model_path()
    for told, tokens in ((2048, "2048"), (8192, "8192"), ("unknown", None)):
        resolved = {"max_batch_tokens": told}
        command = engine.serve_command(Configuration.of({}), checkpoint, "cpu", resolved)
        assert arguments_in(command.words).get("max_num_batched_tokens") == tokens


def test_vllm_serve_is_run_with_the_variables_of_the_launch() -> None:
    asked = {"drafting.method": "mtp", "drafting.draft_tokens": 1, "serving.gdn_decode_kernel": "triton"}
    command = vllm_serve(vllm_order_for(Configuration.of(asked), "model", "cuda:0", 1))
    assert command.environment == {"VLLM_GDN_DECODE_KERNEL": "triton"}
    assert command.shell.startswith("VLLM_GDN_DECODE_KERNEL=triton vllm serve model ")


def test_what_vllm_serve_does_otherwise_than_a_launch_over_http_is_told() -> None:
    command = VllmEngine(way=HTTP).serve_command(Configuration.of({}), reference_model_path(), "cpu")
    assert "--generation-config" not in command.words
    assert "generation_config.json" in command.note
    assert "tokenizer" not in command.note, "a launch over HTTP loads one, as the server does"


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("mtp", "my/DFlash-recipe", True),
        ("mtp", "my/recipe", False),
        ("ngram", "my/DFlash-recipe", False),
        ("none", "my/DFlash-recipe", False),
    ],
)
def test_a_path_from_which_vllm_would_take_another_way_to_draft_is_told(
    method: str, path: str, told: bool
) -> None:
    knobs: dict[str, KnobValue] = {"drafting.method": method}
    if method != "none":
        knobs["drafting.draft_tokens"] = 1
    command = vllm_serve(vllm_order_for(Configuration.of(knobs), path, "cuda:0", 1))
    assert ("Move what drafts first" in command.note) == told


def test_the_reference_engine_s_command_is_its_order_and_the_environment_of_its_server() -> None:
    configuration = Configuration.of({"serving.threads": 1, "serving.dtype": "float32"})
    checkpoint = reference_model_path()
    command = ReferenceEngine().serve_command(configuration, checkpoint, "cpu")
    assert command.first_line is not None
    order = message_of(LaunchOrder, json.loads(command.first_line))
    assert (order.checkpoint, order.folder) == ("packaged", checkpoint)
    assert command == reference_serve(order)
    assert command.environment.items() <= server_environment(order, "").items()
    assert order.cache_dir == CACHE
    again = order_for(configuration, checkpoint, "cpu", checkpoint)
    assert (order.threads, order.dtype, order.compile) == (again.threads, again.dtype, again.compile)


@pytest.mark.parametrize(
    ("device", "visible", "seen"),
    [("cpu", None, ""), ("cpu", "4,7", ""), ("cuda:1", None, "1"), ("cuda:1", "4,7", "7")],
)
def test_the_reference_engine_s_server_sees_its_own_device_alone_by_the_number_that_the_driver_counts_by(
    device: str, visible: str | None, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    order = an_order(device)
    environment = server_environment(order, "")
    assert environment["CUDA_VISIBLE_DEVICES"] == seen
    assert environment.get("CUDA_DEVICE_ORDER") == (None if device == "cpu" else "PCI_BUS_ID")
    told = reference_serve(order).environment
    assert ("CUDA_VISIBLE_DEVICES" in told) == (device != "cpu"), "by hand it must see the same device"
    assert told.items() <= environment.items()


def test_a_gpu_that_the_user_hid_is_refused_by_the_launch_and_nothing_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    order = replace(an_order("cuda:1"), cache_dir=str(tmp_path / "cache"))
    with pytest.raises(Infeasible, match="There is no device cuda:1: CUDA_VISIBLE_DEVICES shows 1 of them"):
        ReferenceLaunch(Configuration.of({}), order, tmp_path / "log", 1.0, 1.0)
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_server_takes_the_one_device_that_it_sees_and_is_told_of_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[str] = []

    def take(files: object, dtype: object, device: object) -> None:
        taken.append(str(device))
        raise Infeasible("crashed", "this machine has no such GPU")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(checkpoint, "load_model", take)
    for method in ("set_num_threads", "set_num_interop_threads"):
        monkeypatch.setattr(torch, method, lambda _: None)
    with pytest.raises(Infeasible, match="no such GPU"):
        Server(an_order("cuda:1"))
    assert taken == ["cuda:0"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Infeasible, match="sees no GPU for cuda:1"):
        Server(an_order("cuda:1"))


def test_a_shell_reads_the_words_as_they_are() -> None:
    command = ServeCommand(("vllm", "serve", "a b", "--x", '{"y": "$HOME"}'), "", environment={"A": "1 2"})
    assert shlex.split(command.shell) == ["A=1 2", *command.words]
    with_line = ServeCommand(("serve",), "", first_line="it's {}")
    assert shlex.split(with_line.shell)[:4] == ["{", "printf", "%s\\n", "it's {};"]
    read_on = ServeCommand(("cat",), "", first_line="it's {}").shell
    ran = subprocess.run(
        ["/bin/sh", "-c", read_on], input="a request\n", capture_output=True, text=True, check=True
    )
    assert ran.stdout == "it's {}\na request\n", "what is asked after its order reaches it too"


def test_both_packaged_engines_can_be_deployed() -> None:
    assert isinstance(ReferenceEngine(), Servable)
    assert isinstance(VllmEngine(), Servable)
