"""RunPod's REST API, version 2, as far as pods go: typed, over the standard library's HTTP.

Source of shapes and status codes: RunPod's published OpenAPI document of `/v2` (August 2026). Version 1
(`rest.runpod.io`) is retired in 2026 and is not spoken. The pod itself uses this too, to end itself.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from configs.errors import AutoinferError, ProviderUnreachable, UsageError
from configs.quantities import format_duration

API_URL = "https://api.runpod.io"

TIMEOUT_S = 30.0
"""How long an answer may take."""

LATER_S = 10.0
"""How long to ask nothing where RunPod asks for fewer requests and does not say for how long."""

LIVE = frozenset({"PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR"})
"""Statuses of a pod that still exists: one that has exited keeps its place until it is terminated."""

STARTS = frozenset({"PROVISIONING", "STARTING"})

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class RunPodUnreachable(ProviderUnreachable):
    """RunPod did not answer, or asked to be asked less often; what was asked may or may not have happened."""


class ImageUntried(ProviderUnreachable):
    """No pod has begun with the image yet, and one is being waited for; nothing was started."""


class NoCapacity(ProviderUnreachable):
    """RunPod has no such GPU free now; nothing was started."""


class Refused(AutoinferError):
    """RunPod refused a request, and nothing happened; `status` is HTTP's."""

    def __init__(self, message: str, hint: str, status: int) -> None:
        super().__init__(message, hint)
        self.status = status


@dataclass(frozen=True)
class Pod:
    """A pod as RunPod tells it; `usd_per_hr` is what it costs now."""

    id: str
    name: str
    status: str
    usd_per_hr: float

    @property
    def lives(self) -> bool:
        """Whether it still exists."""
        return self.status in LIVE


@dataclass(frozen=True)
class NewPod:
    """What is asked for: one GPU of a type by RunPod's id, whose driver is of the CUDA `cuda` at least, or so
    many cores where that is None."""

    name: str
    image: str
    args: str
    env: dict[str, str] = field(repr=False)
    gpu_id: str | None
    cloud: str
    cuda: str
    disk_gb: int
    cpu_flavor: str = "cpu3c"
    cores: int = 4

    def body(self) -> dict[str, object]:
        """As the API takes it."""
        machine: dict[str, object] = (
            {"cpu": {"id": self.cpu_flavor, "vcpuCount": self.cores}}
            if self.gpu_id is None
            else {"gpu": {"id": self.gpu_id, "count": 1, "minCudaVersion": self.cuda}}
        )
        return {
            "name": self.name,
            "image": self.image,
            "args": self.args,
            "env": self.env,
            "disk": self.disk_gb,
            "cloud": self.cloud,
            **machine,
        }


class RunPodApi:
    """Asks RunPod. `key` goes into the header alone, and only over TLS or to this machine.

    Raises `UsageError` for an address that is neither.
    """

    def __init__(self, key: str, url: str = API_URL, timeout_s: float = TIMEOUT_S) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise UsageError(f"RunPod's address {url!r} is not encrypted.", "Write one with https://.")
        self._key = key
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._not_before_s = float("-inf")
        # Redirects would carry the key elsewhere.
        self._opener = urllib.request.build_opener(_NoRedirect)

    def create(self, asked: NewPod) -> Pod:
        """Make a pod.

        Raises `NoCapacity`, `Refused` when nothing was made, and `RunPodUnreachable`, after which it may
        exist all the same.
        """
        try:
            return _pod(self._ask("POST", "/v2/pods", asked.body()))
        except Refused as refused:
            if refused.status == 400 and self._lacks_capacity(asked, refused):
                raise NoCapacity(
                    f"RunPod has no {asked.gpu_id or 'machine'} free now: {refused.message}",
                    "It is asked again.",
                ) from None
            raise

    def pods(self) -> list[Pod]:
        """Every pod of the account that still exists."""
        told = self._ask("GET", "/v2/pods")
        return [pod for pod in map(_pod, _list(told, "pods")) if pod.lives]

    def terminate(self, pod_id: str) -> None:
        """End a pod for good; one that is gone already is gone."""
        try:
            self._ask("DELETE", f"/v2/pods/{urllib.parse.quote(pod_id, safe='')}")
        except Refused as refused:
            if refused.status != 404:
                raise

    def terminate_as_pod(self, pod_id: str) -> None:
        """End the pod that this runs in, by the key that RunPod gave it.

        That key is documented for RunPod's own command in a pod, which speaks GraphQL; so where REST refuses
        the key, the pod's end is asked for as that command does. Raises what `terminate` raises.
        """
        try:
            self.terminate(pod_id)
        except Refused as refused:
            if refused.status not in (401, 403):
                raise
            told = self._ask("POST", "/graphql", {"query": _POD_TERMINATE, "variables": {"podId": pod_id}})
            if not isinstance(told, dict) or told.get("errors"):
                raise refused from None

    def usd_per_hr(self, gpu_id: str, cloud: str) -> float | None:
        """The list price of one GPU; None where the catalog does not tell it."""
        return self._listed(f"/v2/catalog/gpus/{urllib.parse.quote(gpu_id, safe='')}", cloud.lower())

    def cpu_usd_per_hr(self, flavor: str, cores: int) -> float | None:
        """The list price of so many cores of a flavor; None where the catalog does not tell it."""
        path = f"/v2/catalog/cpus/{urllib.parse.quote(flavor, safe='')}"
        a_core = self._listed(path, "securePerVcpu")
        return None if a_core is None else a_core * cores

    def _listed(self, path: str, name: str) -> float | None:
        """An amount of what the catalog lists at `path`, in dollars an hour."""
        try:
            told = self._ask("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise
        price = told.get("price") if isinstance(told, dict) else None
        amount = price.get(name) if isinstance(price, dict) else None
        return float(amount) if isinstance(amount, int | float) and 0 < amount < 1000 else None

    def _lacks_capacity(self, asked: NewPod, refused: Refused) -> bool:
        """Whether a 400 is about stock: RunPod says so in words alone, so its catalog is asked too."""
        words = refused.message.lower()
        if "capacity" in words or "available" in words:
            return True
        if asked.gpu_id is None:
            return False
        path = f"/v2/catalog/gpus/{urllib.parse.quote(asked.gpu_id, safe='')}"
        path += f"?include=AVAILABILITY&product=POD&minCudaVersion={asked.cuda}"
        try:
            told = self._ask("GET", path)
        except AutoinferError:
            return False
        return isinstance(told, dict) and told.get("availability") == "NONE"

    def _ask(self, method: str, path: str, body: dict[str, object] | None = None) -> Any:
        wait_s = self._not_before_s - time.monotonic()
        if wait_s > 0:
            raise RunPodUnreachable(
                f"RunPod asks for fewer requests for another {format_duration(wait_s)}.", _AGAIN
            )
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._key}",
                "Content-Type": "application/json",
                "User-Agent": "autoinfer",
            },
        )
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                data = answer.read()
            return json.loads(data) if data else {}
        except urllib.error.HTTPError as error:
            with error:
                raise self._fault(error) from None
        except (OSError, ValueError, EOFError) as error:
            raise RunPodUnreachable(f"RunPod can't be reached: {_reason(error)}.", _AGAIN) from None
        except Exception as error:  # http.client's own, such as an answer that was cut off
            raise RunPodUnreachable(f"RunPod's answer was cut off: {_reason(error)}.", _AGAIN) from None

    def _fault(self, error: urllib.error.HTTPError) -> AutoinferError:
        detail = _detail(error)
        if error.code == 429:
            try:
                later_s = max(0.0, float(error.headers.get("Retry-After", "")))
            except ValueError:
                later_s = LATER_S
            self._not_before_s = time.monotonic() + later_s
            return RunPodUnreachable(f"RunPod asks for fewer requests: {detail}.", _AGAIN)
        if error.code >= 500 or error.code == 408:
            return RunPodUnreachable(f"RunPod failed with {error.code}: {detail}.", _AGAIN)
        hint = _HINTS.get(error.code, "")
        return Refused(f"RunPod refused: {detail}.", hint, error.code)


_POD_TERMINATE = "mutation ($podId: String!) { podTerminate(input: {podId: $podId}) }"

_AGAIN = "It is asked again."

_HINTS = {
    401: "Put a key that is valid into RUNPOD_API_KEY.",
    402: "Add money to the account there.",
    403: "Give the key the right to read and write pods.",
}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _pod(told: Any) -> Pod:
    """Raises `RunPodUnreachable` for what is no pod: what happened is not known then."""
    try:
        return Pod(str(told["id"]), str(told["name"]), str(told["status"]), float(told.get("cost") or 0.0))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunPodUnreachable("RunPod's answer tells no pod.", _AGAIN) from None


def _list(told: Any, name: str) -> list[Any]:
    found = told.get(name) if isinstance(told, dict) else None
    if not isinstance(found, list):
        raise RunPodUnreachable(f"RunPod's answer has no list of {name}.", _AGAIN)
    return found


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        told = json.loads(error.read())
        words = [
            str(told.get("detail") or told.get("title") or error.code),
            *map(str, told.get("errors") or ()),
        ]
        return "; ".join(words).rstrip(".")[:500]
    except Exception:
        return f"HTTP {error.code}"


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error
    return (str(reason).rstrip(".") or type(error).__name__)[:200]
