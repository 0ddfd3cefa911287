"""What this machine is told about RunPod, by its environment: nothing of it is stored or shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from configs.errors import UsageError
from configs.runpod_variables import (
    RUNPOD_BOARD,
    RUNPOD_BOARD_FROM_POD,
    RUNPOD_CLOUD,
    RUNPOD_CUDA,
    RUNPOD_HUB_SECRET,
    RUNPOD_IMAGE,
    RUNPOD_SECRET,
    RUNPOD_URL,
)
from experiments.executors.runpod.api import API_URL

HELP = "See docs/runpod.md."

OLDEST_CUDA = "13.0"
"""Of the driver that vLLM 0.26 to 0.33 needs: its PyTorch comes with CUDA 13.0 (their metadata on PyPI)."""

_CUDA = re.compile(r"\d+\.\d+", re.ASCII)
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,60}", re.ASCII)


@dataclass(frozen=True)
class Account:
    """The key; the image of pods; the board as it is reached from here, and, without a password, from a pod;
    the name of RunPod's secret with the password of the board, and of the one with a token of the hub, None
    for none; RunPod's cloud, the oldest CUDA that a GPU's
    driver may be of, and RunPod's address."""

    key: str = field(repr=False)
    image: str
    board: str = field(repr=False)
    board_from_pod: str
    secret: str = "autoinfer_board"
    hub_secret: str | None = None
    cloud: str = "SECURE"
    cuda: str = OLDEST_CUDA
    url: str = API_URL


def account_from(environment: Mapping[str, str] | None = None) -> Account:
    """Read it from the environment; raises `UsageError` that names what is missing."""
    told = os.environ if environment is None else environment
    missing = [
        name
        for name in (
            "RUNPOD_API_KEY",
            RUNPOD_IMAGE,
            RUNPOD_BOARD,
            RUNPOD_BOARD_FROM_POD,
        )
        if not told.get(name)
    ]
    if missing:
        raise UsageError(f"For RunPod the environment lacks {', '.join(missing)}.", HELP)
    board = told[RUNPOD_BOARD_FROM_POD]
    if urlsplit(board).password is not None:
        raise UsageError(
            "The password of the board is in AUTOINFER_RUNPOD_BOARD_FROM_POD, which RunPod shows.",
            "Leave it out, and put it into a secret of RunPod. " + HELP,
        )
    secret = told.get(RUNPOD_SECRET, Account.secret)
    hub_secret = told.get(RUNPOD_HUB_SECRET) or None
    for variable, name in ((RUNPOD_SECRET, secret), (RUNPOD_HUB_SECRET, hub_secret)):
        if name is not None and not _SECRET.fullmatch(name):
            raise UsageError(f"{variable} is the name of a secret of RunPod, not its value.", HELP)
    cloud = told.get(RUNPOD_CLOUD, Account.cloud).upper()
    if cloud not in ("SECURE", "COMMUNITY"):
        raise UsageError(f"RunPod has no cloud {cloud!r}.", "It has SECURE and COMMUNITY.")
    cuda = told.get(RUNPOD_CUDA, Account.cuda)
    if not _CUDA.fullmatch(cuda):
        raise UsageError("AUTOINFER_RUNPOD_CUDA is no version of CUDA.", "Write it like 13.0.")
    return Account(
        key=told["RUNPOD_API_KEY"],
        image=told[RUNPOD_IMAGE],
        board=told[RUNPOD_BOARD],
        board_from_pod=board,
        secret=secret,
        hub_secret=hub_secret,
        cloud=cloud,
        cuda=cuda,
        url=told.get(RUNPOD_URL, API_URL),
    )
