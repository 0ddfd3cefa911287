"""The services of `docker-compose.yml` as processes: its commands, variables, entrypoint and health checks.

What a container would have of its own is put in its place: the files of secrets, the folders, the database's
address and the port. What only a container has (its user, its read-only disk, its network) is not shown here.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.integration.compose.composed import ROOT, image_environment, service
from tests.postgresql import Server, free_port, programs

PATIENCE_S = 240.0
STOP_S = 60.0
"""As the file's `stop_grace_period`."""


class Services:
    """Starts services over one folder; `end` kills what is left of them."""

    def __init__(
        self, folder: Path, server: Server, secrets: Mapping[str, str], more: Mapping[str, str]
    ) -> None:
        self.folder, self._server, self._more = folder, server, dict(more)
        self.port = free_port()
        self.data = folder / "data"
        self._here: list[tuple[str, str]] = [
            ("@database/", f"@{server.address}:{server.port}/"),
            ("/tmp/pgpass", str(folder / "pgpass")),
            # The dashboard asks for its token on all but a loopback address as it is written; this is one.
            ("0.0.0.0", "127.1"),
        ]
        (self.data / "home").mkdir(parents=True)
        for name, content in secrets.items():
            path = folder / name
            path.write_text(content)
            self._here.append((f"/run/secrets/{name}", str(path)))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self, name: str) -> dict[str, str]:
        """The variables of a service: the image's, then the file's, then those of the test."""
        told = {**image_environment(), **service(name)["environment"]}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        known = {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each), "PATH": path}
        kept = {variable: self._at(value) for variable, value in told.items()}
        del kept["AUTOINFER_QUANTIZE_PYTHON"], kept["PATH"]  # of the image's own folders
        return known | kept | self._more

    def command(self, name: str, words: list[str]) -> list[str]:
        """The words that a service or its health check is run by, behind the entrypoint for a service."""
        port = str(self.port)
        return [port if word == "8420" else self._at(word).replace(":8420", f":{port}") for word in words]

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start a service as its container would."""
        words = [str(ROOT / "deploy" / "entrypoint.sh"), *self.command(name, service(name)["command"])]
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                words,
                env=self.environment(name),
                cwd=self.data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.running[name]

    def healthy(self, name: str) -> "subprocess.CompletedProcess[str]":
        """Run the health check of a service, beside it, as `docker exec` would: without the entrypoint."""
        test = service(name)["healthcheck"]["test"]
        assert test[0] == "CMD"
        words = self.command(name, test[1:])
        environment = self.environment(name)
        if name == "database":
            bindir = programs()
            assert bindir is not None
            words[0] = str(bindir / words[0])
            environment["PGPORT"] = str(self._server.port)
        return subprocess.run(
            words,
            env=environment,
            cwd=self.data,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    def stop(self, name: str) -> int:
        """End a service as docker compose does, in the time that it gives, and return the exit code."""
        number = getattr(signal, service(name).get("stop_signal", "SIGTERM"))
        process = self.running.pop(name)
        process.send_signal(number)
        return process.wait(STOP_S)

    def log(self, name: str) -> Path:
        """What a service wrote to its terminal."""
        return self.folder / f"{name}.log"

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()

    def _at(self, text: str) -> str:
        for there, here in self._here:
            text = text.replace(there, here)
        return str(self.data) + text.removeprefix("/data") if text.startswith("/data") else text
