"""A whole campaign on the simulated engine: a checkpoint folder, a space, a spec, and a loop's process.

`python -P -m tests.simulated.campaign FOLDER` drives the newest campaign of FOLDER to its end.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from unittest.mock import patch

import numpy
from safetensors.numpy import save_file

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.loop import CampaignLoop, LoopTimes
from agent.campaign.resources.worker_process import WorkerProcess, Workers
from agent.ground.target import Target, find_target
from configs.campaign import CampaignSpec, load_campaign
from configs.checkpoints import profile_of_checkpoint
from configs.cpu import probe_cpu
from configs.language_model import Endpoint
from configs.targets import devices_of
from db.models import Campaign
from db.session import Database, open_database
from experiments.engines.reference.expected_tensors import expected_tensors
from experiments.telemetry.identity import DeviceIdentity
from knowledge.queries.devices import devices_of_campaign
from tests.new_database import database_url, new_database

SPACE = """
name: simulated
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 9.9, 7.0], default: 10.0, help: The answer.}
  - {name: simulated.threads, lever: threads, values: [1, 2], default: 1, help: Changes nothing.}
  - {name: simulated.bits, lever: weights, values: [1000.0, 1100.0], default: 1000.0, help: The quality.}
  - {name: simulated.fails, lever: luck, values: [never, load], default: never, help: Where it dies.}
"""

SMALL_SPACE = """
name: simulated
knobs:
  - {name: simulated.tpot_ms, lever: kernel, values: [10.0, 7.0], default: 10.0, help: The answer.}
  - {name: simulated.threads, lever: threads, values: [1, 2], default: 1, help: Changes nothing.}
"""
"""For campaigns whose jobs are slow to start: something to support and something to refute."""

CONFIG = {
    "model_type": "qwen3_5_text",
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
    "tie_word_embeddings": True,
    "layer_types": ["linear_attention", "full_attention"],
}

TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "model": {"type": "WordLevel", "vocab": {"word": 0}, "unk_token": "word"},
}

LEASE_S = 1.0

ENTRY_POINTS = """
[autoinfer.engines]
simulated = tests.simulated.engine:SimulatedEngine
checked = tests.simulated.checked_engine:CheckedEngine
"""


@contextmanager
def registered_here(folder: Path) -> Iterator[None]:
    """The simulated engine has an entry point, as if a package had brought it."""
    site = folder / "site"
    info = site / "simulated_engine-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simulated-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    sys.path.insert(0, str(site))
    try:
        yield
    finally:
        sys.path.remove(str(site))


def write_whole_checkpoint(folder: Path, **changes: object) -> None:
    """Files that a campaign takes for a whole checkpoint without an MTP head, whose weights are all zero."""
    config = {**CONFIG, **changes}
    layers = cast(Sequence[str], config["layer_types"])
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": len(layers)}))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    profile = profile_of_checkpoint(config | {"num_hidden_layers": len(layers)}, "simulated", "config.json")
    tensors = {name: numpy.zeros(shape, numpy.float16) for name, shape in expected_tensors(profile)}
    save_file(tensors, folder / "model.safetensors")


def simulated_spec(folder: Path, space_text: str = SPACE, **changes: object) -> CampaignSpec:
    """The packaged campaign on the simulated engine, small."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir(exist_ok=True)
    write_whole_checkpoint(checkpoint)
    space = folder / "space.yaml"
    space.write_text(space_text)
    small: dict[str, object] = {
        "model": str(checkpoint),
        "engine": "simulated",
        "space": str(space),
        "budget": "5m",
        "baseline.sweep": ["simulated.threads"],
        "plan.workload.evaluation_documents": 10,
        "plan.workload.evaluation_items": 200,
        "plan.workload.new_tokens": 8,
    }
    return load_campaign("default", small | changes)


def made_up_target(target: str, **_: object) -> Target:
    """A target whose devices nobody has: names alone, on which the simulated engine runs as on any."""
    named = devices_of(target)
    if named == ("cpu",):
        return find_target(target)
    return Target(named[0], probe_cpu(), DeviceIdentity("Made-up device", 24 * 10**9), named[1:])


def start(folder: Path, opened: Database | None = None, **changes: object) -> tuple[Database, int]:
    """A database with a campaign that nobody drives yet; a target other than `cpu` is made up."""
    spec = simulated_spec(folder, **changes)
    database = new_database(folder) if opened is None else opened
    with registered_here(folder), patch("agent.campaign.beginning.survey.find_target", made_up_target):
        ground = survey(spec)
    with database.write() as session:
        return database, create_campaign(session, spec, ground)


def worker_process(
    folder: Path, device: str = "cpu", beside: Sequence[str] = (), lease_s: float = LEASE_S
) -> WorkerProcess:
    argv = [sys.executable, "-P", "-m", "tests.simulated.worker_main", database_url(folder), str(folder)]
    words = [str(lease_s), str(os.getpid()), device, *([f"beside={json.dumps(beside)}"] if beside else [])]
    return WorkerProcess([*argv, *words], folder / "worker.log")


def workers_of(database: Database, folder: Path, campaign_id: int, lease_s: float = LEASE_S) -> Workers:
    """A worker for each device of the campaign."""
    with database.read() as session:
        devices = devices_of_campaign(session.get_one(Campaign, campaign_id))
    return Workers({device: worker_process(folder, device, lease_s=lease_s) for device in devices})


def drive(
    database: Database,
    folder: Path,
    campaign_id: int,
    announce: Callable[[], None] = lambda: None,
    endpoint: Endpoint | None = None,
    *,
    builds_ahead: bool = False,
    lease_s: float = LEASE_S,
) -> str:
    """Drive the campaign to its end with workers of its own; returns why it stopped."""
    workers = workers_of(database, folder, campaign_id, lease_s)
    times = LoopTimes(lease_s=lease_s, busy_poll_s=0.5, idle_poll_s=0.02)  # the worker rings when a job ends
    try:
        return CampaignLoop(
            database,
            campaign_id,
            workers=workers,
            times=times,
            announce=announce,
            builds_ahead=builds_ahead,
            endpoint=endpoint,
        ).run()
    finally:
        workers.stop()


if __name__ == "__main__":
    where = Path(sys.argv[1])
    drive(open_database(database_url(where)), where, 1)
