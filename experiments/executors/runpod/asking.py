"""What is asked of RunPod for a job: the pod, and the most that it may cost an hour."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from configs.errors import UsageError
from configs.prices import load_prices
from experiments.executors.runpod.account import HELP, Account
from experiments.executors.runpod.api import NewPod, RunPodApi
from experiments.executors.runpod.board import Asked, limit_of
from experiments.executors.runpod.gpus import TYPES
from experiments.executors.runpod.pod_environment import BOARD, KEY, LIMIT, URL

DISK_GB = 150
"""The disk of a pod with a GPU: the image with vLLM, a model, and what is made of it."""

CPU_DISK_GB = 40
"""That of one without: RunPod refuses more than 10 GB a core of the flavor (its own `flash`, and SkyPilot's
pull request 6450, which met it)."""

DISK_USD_PER_GB_HR = 0.10 / 730
"""RunPod's price of a running pod's disk, 0.10 USD a GB and month (its documentation, August 2026)."""

CPU_USD_PER_HR = 0.20
"""What a pod without a GPU may cost where the catalog tells no price: that of four cores is below (an
assumption; the pod's own price is compared with it)."""

POD_COMMAND = "python -m experiments.executors.runpod.pod"

HOUR_S = 3600.0

S3_SECRETS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "autoinfer_s3_key_id",
    "AWS_SECRET_ACCESS_KEY": "autoinfer_s3_secret",
}
"""Variables with the credentials of the shared store in a pod, and the names of RunPod's secrets."""

S3_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_REGION")
"""Variables that say where the shared store is, which a pod has as this machine has them."""


def disk_gb(gpu: str | None) -> int:
    """The disk of a pod with such a GPU, or with none."""
    return CPU_DISK_GB if gpu is None else DISK_GB


def least_usd_per_hr(gpu: str | None) -> float:
    """What a pod costs at least: its disk."""
    return disk_gb(gpu) * DISK_USD_PER_GB_HR


def most_usd_per_hr(api: RunPodApi, gpu: str | None, cloud: str) -> tuple[float, str]:
    """The most that a pod with such a GPU may cost an hour, its disk included, and what that rests on."""
    disk = least_usd_per_hr(gpu)
    if gpu is None:
        cores = api.cpu_usd_per_hr(NewPod.cpu_flavor, NewPod.cores)
        usd, by = (CPU_USD_PER_HR, "assumed") if cores is None else (cores, "by RunPod's catalog")
        return usd + disk, f"{usd + disk:.2f} USD an hour without a GPU, with disk, {by}"
    listed = api.usd_per_hr(TYPES[gpu].id, cloud)
    if listed is not None:
        return listed + disk, f"{listed + disk:.2f} USD an hour for {gpu} by RunPod's catalog, with disk"
    prices = load_prices("runpod")
    usd = prices.gpu_rate(gpu) * HOUR_S + disk
    return usd, f"{usd:.2f} USD an hour for {gpu}, with disk, by {prices.basis}"


def new_pod(name: str, key: str, account: Account, asked: Asked) -> NewPod:
    """The pod of a run. What is secret stands in it by the name of RunPod's secret alone."""
    environment = {
        BOARD: account.board_from_pod,
        KEY: key,
        LIMIT: str(limit_of(asked)),
        URL: account.url,
        "PGPASSWORD": _secret(account.secret),
    }
    if account.hub_secret is not None:
        environment["HF_TOKEN"] = _secret(account.hub_secret)
    if asked.shared_artifacts is not None:
        environment |= {variable: _secret(secret) for variable, secret in S3_SECRETS.items()}
        environment |= s3_place()
    return NewPod(
        name=name,
        image=account.image,
        args=POD_COMMAND,
        env=environment,
        gpu_id=None if asked.gpu is None else TYPES[asked.gpu].id,
        cloud=account.cloud,
        cuda=account.cuda,
        disk_gb=disk_gb(asked.gpu),
    )


def s3_place(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that say where the shared store is; raises `UsageError` for one with a password in it."""
    found = {name: environment[name] for name in S3_VARIABLES if environment.get(name)}
    if any(urlsplit(value).password is not None for value in found.values()):
        raise UsageError("AWS_ENDPOINT_URL has a password in it, which RunPod would show.", HELP)
    return found


def _secret(name: str) -> str:
    """A value of RunPod's secret as a variable asks for it."""
    return f"{{{{ RUNPOD_SECRET_{name} }}}}"
