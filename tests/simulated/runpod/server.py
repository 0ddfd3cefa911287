"""A fake of RunPod's REST API on loopback, whose pods are real processes of this machine.

From RunPod's published OpenAPI document of `/v2` (August 2026): paths, methods, bodies with every field that
it requires (`described`), what it refuses with 422, statuses of pods, status codes, problem documents,
`Retry-After`, the catalog's prices and availability, and a pod's `cost`. From its guides: `RUNPOD_POD_ID` and
`RUNPOD_API_KEY` in every pod, and `{{ RUNPOD_SECRET_name }}` in variables. Assumed: that the key of a pod may
end that pod, that two pods may have one name, the words for no capacity, and that the list may be behind.
"""

import json
import re
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil

from experiments.own_processes import runs
from tests.simulated.runpod.described import (
    TITLES,
    cpu_described,
    gpu_described,
    now,
    pod_described,
    violations,
)
from tests.simulated.runpod.machine import Machine, end, everything_of
from tests.waiting import PATIENCE_S

ACCOUNT_KEY = "rpa_the-key-of-the-account"
SECRET = "the-password-of-the-pods"
SECRETS = {
    "autoinfer_board": SECRET,
    "autoinfer_s3_key_id": "key-id-of-the-pods",
    "autoinfer_s3_secret": "s3-secret-of-the-pods",
}
"""What the account has put into RunPod's secrets."""
NO_CAPACITY = "There are no instances currently available"


@dataclass
class FakePod:
    id: str
    asked: dict
    status: str = "PROVISIONING"
    first: psutil.Process | None = None
    ended: list[psutil.Process] = field(default_factory=list)
    """What the host killed of it."""
    log: Path = Path()
    key: str = field(default_factory=lambda: f"pod_{uuid.uuid4().hex}")
    since: str = field(default_factory=now)

    @property
    def name(self) -> str:
        return str(self.asked["name"])

    @property
    def env(self) -> dict[str, str]:
        return self.asked.get("env", {})


class FakeRunPod:
    """The service; its attributes say what goes wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine = Machine()
        self.pods: dict[str, FakePod] = {}
        self.ever: list[FakePod] = []
        self.lock = threading.RLock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.reset()

    def reset(self) -> None:
        with self.lock:
            for pod in list(self.pods.values()):
                self.terminate(pod)
            self.ever.clear()
            self.requests: list[tuple[str, str, str]] = []
            self.prices = {"NVIDIA L4": 0.5}
            self.core_price = 0.03
            self.hold = False
            """Pods stay where they are provisioned."""
            self.capacity = True
            self.rest_refuses_pods = False
            """The key in a pod is for RunPod's own command alone."""
            self.garbled = False
            """Requests are answered by something else, such as a page that says that all is being renewed."""
            self.cut = False
            """The network: requests get no answer."""
            self.lose_answers = 0
            """So many pods are made and nobody is told."""
            self.behind = False
            """New pods are not in the list."""
            self.limited: list[int] = []
            """Each answers one request with 429, to be asked again after so many seconds."""
            self.fails_to_end = False
            self.status_after_create: int | None = None
            self.environment: dict[str, str] = {}

    def close(self) -> None:
        self.reset()
        self.server.shutdown()
        self.server.server_close()
        self.machine.close()

    def named(self, name: str) -> list[FakePod]:
        return [pod for pod in self.pods.values() if pod.name == name]

    def start(self, pod: FakePod) -> None:
        """The host has the image: the container begins."""
        disk = self.folder / pod.id
        disk.mkdir(exist_ok=True)
        pod.log = disk / "container.log"
        environment = {
            name: re.sub(r"\{\{ RUNPOD_SECRET_(\w+) \}\}", lambda found: SECRETS[found[1]], value)
            for name, value in pod.env.items()
        }
        environment |= {"RUNPOD_POD_ID": pod.id, "RUNPOD_API_KEY": pod.key}
        environment |= {"FAKE_DISK": str(disk), "TMPDIR": str(disk)}
        pod.first = self.machine.start(environment | self.environment, pod.log)
        pod.status = "RUNNING"

    def living(self, name: str) -> int:
        """How many processes of the pods of a name live, of those too that the host has killed. Those of a
        pod that RunPod tells no more are waited for: it leaves the list before the host has ended it."""
        found = {each: pod for pod in self.ever if pod.name == name for each in self.processes(pod)}
        let_go = [each for each, pod in found.items() if pod.status == "TERMINATED"]
        psutil.wait_procs(let_go, timeout=PATIENCE_S)
        return sum(runs(each) for each in found)

    def processes(self, pod: FakePod) -> list[psutil.Process]:
        return [*pod.ended, *(everything_of(pod.first) if pod.first is not None else [])]

    def halt(self, pod: FakePod) -> None:
        """End what runs in a pod."""
        if pod.first is not None:
            found = everything_of(pod.first)
            pod.ended += found
            end(found)

    def stop(self, pod: FakePod, status: str = "EXITED") -> None:
        """RunPod lets a pod go from its machine and keeps its place, or says that it can't go on."""
        pod.status = status
        self.halt(pod)

    def crash(self, name: str) -> None:
        """The host of the pods of a name fails: the pods are gone."""
        for pod in self.named(name):
            self.terminate(pod)

    def terminate(self, pod: FakePod) -> None:
        with self.lock:
            self.pods.pop(pod.id, None)
        pod.status = "TERMINATED"
        self.halt(pod)

    def create(self, body: dict) -> FakePod:
        pod = FakePod(f"p{uuid.uuid4().hex[:12]}", body)
        with self.lock:
            self.pods[pod.id] = pod
            self.ever.append(pod)
        if not self.hold:
            self.start(pod)
        return pod

    def told(self, pod: FakePod) -> dict:
        gpu = pod.asked.get("gpu")
        price = 4 * self.core_price if gpu is None else self.prices[gpu["id"]]
        return pod_described(pod.id, pod.asked, pod.status, price, pod.since)


def _handler(fake: FakeRunPod) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.serve("GET")

        def do_POST(self) -> None:
            self.serve("POST")

        def do_DELETE(self) -> None:
            self.serve("DELETE")

        def serve(self, method: str) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            path = unquote(urlsplit(self.path).path)
            key = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            fake.requests.append((method, path, key))
            self.close_connection = True
            with suppress(BrokenPipeError, ConnectionResetError):
                self.answer(method, path, key, body)

        def answer(self, method: str, path: str, key: str, body: dict) -> None:
            if fake.cut:
                return None
            if fake.garbled:
                return self.send(200, b"<html>Back soon</html>")
            pod = fake.pods.get(path.split("/")[3]) if path.startswith("/v2/pods/") else None
            if path == "/graphql" and method == "POST":
                return self.graphql(key, body)
            if fake.rest_refuses_pods and pod is not None and key == pod.key:
                return self.problem(403, "access denied")
            if key != ACCOUNT_KEY and not (pod is not None and key == pod.key and method == "DELETE"):
                return self.problem(401, "invalid bearer token")
            if fake.limited and key == ACCOUNT_KEY:
                return self.problem(429, "rate limit exceeded for the minute window", fake.limited.pop(0))
            if path == "/v2/pods" and method == "GET":
                known = [] if fake.behind else [fake.told(each) for each in list(fake.pods.values())]
                return self.send(200, {"pods": known})
            if path == "/v2/pods" and method == "POST":
                return self.create(body)
            if path.startswith("/v2/catalog/cpus/") and method == "GET":
                return self.send(200, cpu_described(path.rpartition("/")[2], fake.core_price))
            if path.startswith("/v2/catalog/gpus/") and method == "GET":
                gpu = path.rpartition("/")[2]
                if gpu not in fake.prices:
                    return self.problem(404, "resource not found")
                level = ("HIGH" if fake.capacity else "NONE") if "include=AVAILABILITY" in self.path else None
                return self.send(200, gpu_described(gpu, fake.prices[gpu], level))
            if pod is None:
                return self.problem(404, "pod not found")
            if method == "DELETE":
                if not fake.fails_to_end:
                    fake.terminate(pod)
                return self.send(204, None)
            return self.send(200, fake.told(pod))

        def graphql(self, key: str, body: dict) -> None:
            """The one request that RunPod's own command in a pod makes to end it."""
            pod = fake.pods.get(body["variables"]["podId"])
            if "podTerminate(input: {podId: $podId})" not in body["query"] or pod is None or key != pod.key:
                return self.send(200, {"errors": [{"message": "Something went wrong."}]})
            fake.terminate(pod)
            return self.send(200, {"data": {"podTerminate": None}})

        def create(self, body: dict) -> None:
            if errors := violations(body):
                return self.problem(422, "Request validation failed.", errors=errors)
            if ("gpu" in body) == ("cpu" in body):
                return self.problem(400, "exactly one of gpu or cpu must be set")
            if "cpu" in body and body.get("disk", 20) > 10 * body["cpu"]["vcpuCount"]:
                return self.problem(400, "disk is larger than 10 GB a core")
            if not fake.capacity:
                return self.problem(400, NO_CAPACITY)
            if fake.status_after_create is not None:
                return self.problem(fake.status_after_create, "refused by the test")
            pod = fake.create(body)
            if fake.lose_answers:
                fake.lose_answers -= 1
                return None
            return self.send(201, fake.told(pod))

        def problem(
            self, status: int, detail: str, after_s: int | None = None, errors: list | None = None
        ) -> None:
            told = {"title": TITLES.get(status, "Internal Server Error"), "status": status, "detail": detail}
            self.send(status, told | ({"errors": errors} if errors else {}), after_s)

        def send(self, status: int, body: dict | bytes | None, after_s: int | None = None) -> None:
            data = json.dumps(body).encode() if isinstance(body, dict) else body or b""
            self.send_response(status)
            if after_s is not None:
                self.send_header("Retry-After", str(after_s))
            kind = "application/json" if status < 400 else "application/problem+json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler
