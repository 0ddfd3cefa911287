"""A campaign's file, a provider in files whose machines are processes, and the real command over both."""

import json
import os
import subprocess
from pathlib import Path

import psutil

from db.session import Database, open_database
from tests.integration.cli.command import ROOT, Autoinfer
from tests.simulated.campaign import ENTRY_POINTS, SMALL_SPACE, simulated_spec
from tests.simulated.rented_cloud import RentedCloud
from tests.waiting import wait_for

TARGET = "cloud:L4"

EXECUTORS = """
[autoinfer.executors]
cloud = tests.simulated.rented_cloud:RentedCloud
here = tests.simulated.places:executor_here
"""


class RentedPlace:
    """A data folder, a campaign's file, and the command; `line` runs the campaign with `words`."""

    def __init__(self, folder: Path, words: str, **changes: object) -> None:
        self.data = folder / "data"
        self.file = folder / "campaign.yaml"
        made = simulated_spec(folder, SMALL_SPACE, **changes)
        self.file.write_text(made.model_dump_json(exclude_none=True))  # which is YAML too
        info = folder / "site" / "rented_cloud-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rented-cloud\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRY_POINTS + EXECUTORS)
        self.path = os.pathsep.join((str(folder / "site"), str(ROOT)))
        self.cloud = RentedCloud(self.data / "jobs", target=TARGET)
        self.autoinfer = Autoinfer(self.data, limit_s=180)
        self.started: list[subprocess.Popen[str]] = []
        self.line = f"run {self.file} {words}"
        self.outcome: dict[str, object] = {}
        """What the campaign said at its end."""

    def run(self, line: str) -> subprocess.Popen[str]:
        """Start the command; `end` kills what is left of it."""
        process = self.autoinfer.start(f"{line} --json", PYTHONPATH=self.path)
        self.started.append(process)
        return process

    def killed_and_gone_on_with(self, submits: int) -> None:
        """Run the campaign, kill all that it started while the run of its so manieth submit flies, and go on
        with it to its end."""
        first = self.run(f"{self.line} --budget-usd 5")
        wait_for(lambda: len(self.cloud.submits()) >= submits and len(self.cloud.reconcile()) == 1, 120)
        for process in [psutil.Process(first.pid), *psutil.Process(first.pid).children()]:
            process.kill()  # the command, its workers and pages: what is rented is no child of it
        first.communicate()
        assert len(self.cloud.reconcile()) == 1, "what is rented runs on"
        self.in_one_go()

    def in_one_go(self) -> None:
        """Run the campaign, or go on with it, to its end."""
        running = self.run(f"{self.line} --budget-usd 5")
        out, err = running.communicate(timeout=200)
        assert running.returncode == 0, err
        self.outcome = json.loads(out.splitlines()[-1])

    def run_is_there(self) -> None:
        """Wait for a machine of the provider, and stop it where it is: else its job could be done before it
        is ended."""
        wait_for(lambda: len(self.cloud.reconcile()) == 1)
        self.cloud.freeze(*self.cloud.reconcile())

    def database(self) -> Database:
        return open_database(f"sqlite:///{self.data / 'autoinfer.db'}")

    def reserved_usd(self) -> float:
        [budget] = self.autoinfer("budget list --json").json()["budgets"]
        return float(budget["reserved_usd"])

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate()
        for ref in self.cloud.reconcile():
            self.cloud.cancel(ref)
