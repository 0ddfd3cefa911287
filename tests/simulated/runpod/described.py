"""Pods and requests as RunPod's OpenAPI document of `/v2` (August 2026) has them: every field that it calls
required, and what it refuses."""

import time

ACTIONS = {
    "PROVISIONING": ["stop", "terminate"],
    "STARTING": ["stop", "terminate"],
    "RUNNING": ["stop", "restart", "terminate"],
    "EXITED": ["start", "terminate"],
    "ERROR": ["start", "terminate"],
    "TERMINATED": [],
}
"""What may be done with a pod by its status."""

TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
}

FIELDS = {
    "args": str,
    "cloud": str,
    "cpu": dict,
    "dataCenterIds": list,
    "disk": int,
    "env": dict,
    "globalNetworking": bool,
    "gpu": dict,
    "image": str,
    "mounts": dict,
    "name": str,
    "ports": list,
    "registry": str,
    "startJupyter": bool,
    "startSsh": bool,
    "templateId": str,
}
"""What a request for a pod may have, and of which type."""


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def violations(body: dict) -> list[str]:
    """What of a request for a pod is not as the document has it (status 422)."""
    found = [f"additional properties {name!r} not allowed" for name in sorted(set(body) - set(FIELDS))]
    found += [
        f"{name}: got {type(value).__name__}, want {FIELDS[name].__name__}"
        for name, value in body.items()
        if name in FIELDS and type(value) is not FIELDS[name]
    ]
    found += [f"missing property {name!r}" for name in ("name", "image") if not body.get(name)]
    found += [
        f"env/{name}: want string"
        for name, value in body.get("env", {}).items()
        if not isinstance(value, str)
    ]
    if body.get("cloud", "SECURE") not in ("SECURE", "COMMUNITY"):
        found.append("cloud: value must be one of 'SECURE', 'COMMUNITY'")
    if body.get("disk", 1) < 1:
        found.append("disk: minimum 1")
    cpu = body.get("cpu", {"id": "cpu3c", "vcpuCount": 2})
    if set(cpu) != {"id", "vcpuCount"} or cpu["vcpuCount"] < 2:
        found.append("cpu: want id and vcpuCount of 2 at least")
    if set(body.get("gpu", {"id": ""})) - {"id", "count", "allowedCudaVersions", "minCudaVersion"}:
        found.append("gpu: additional properties not allowed")
    return found


def pod_described(pod_id: str, asked: dict, status: str, usd_per_hr: float, since: str) -> dict:
    """A pod as it is told; a GPU's has no `cpu`, and the reverse."""
    machine = (
        {"gpu": {name: asked["gpu"].get(name, 1) for name in ("id", "count")}}
        if "gpu" in asked
        else {"cpu": {"memory": 8, **asked.get("cpu", {"id": "cpu3c", "vcpuCount": 4})}}
    )
    return {
        "id": pod_id,
        "name": asked["name"],
        "status": status,
        "actions": ACTIONS[status],
        "image": asked.get("image", ""),
        "args": asked.get("args", ""),
        "disk": asked.get("disk", 20),
        "env": asked.get("env", {}),
        "ports": asked.get("ports", []),
        "registry": None,
        "mounts": {},
        **machine,
        "cloud": asked.get("cloud", "SECURE"),
        "dataCenterId": "US-KS-2",
        "cudaVersion": "12.8" if "gpu" in asked else None,
        "ssh": {"proxy": None, "direct": None},
        "template": None,
        "cost": 0.0 if status in ("EXITED", "TERMINATED") else usd_per_hr,
        "locked": False,
        "globalNetworking": {"enabled": False},
        "runtime": {} if status == "RUNNING" else None,
        "createdAt": since,
        "startedAt": since if status == "RUNNING" else None,
    }


def gpu_described(gpu_id: str, secure: float, availability: str | None) -> dict:
    """A type of the catalog; its availability only where that was asked for."""
    told = {
        "id": gpu_id,
        "name": gpu_id,
        "pool": None,
        "manufacturer": "NVIDIA",
        "memory": 24,
        "secure": True,
        "community": True,
        "price": {"secure": secure, "community": secure / 2},
        "maxCount": {"secure": 8, "community": 4},
    }
    return told if availability is None else told | {"availability": availability}


def cpu_described(flavor: str, a_core: float) -> dict:
    return {
        "id": flavor,
        "name": "Compute-Optimized",
        "group": "Gen 3",
        "vcpu": {"min": 2, "max": 32},
        "ramGbPerVcpu": 2.0,
        "price": {"securePerVcpu": a_core, "serverlessPerVcpu": a_core},
    }
