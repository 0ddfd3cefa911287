"""What a pod is told: its environment variables, and the signal that tells the process of its job that its
limit is over."""

from __future__ import annotations

import signal

from configs.runpod_variables import RUNPOD_URL

BOARD, KEY, LIMIT, URL = (
    "AUTOINFER_POD_BOARD",
    "AUTOINFER_POD_KEY",
    "AUTOINFER_POD_LIMIT_S",
    RUNPOD_URL,
)
"""Environment variables of a pod, beside RunPod's own `RUNPOD_POD_ID` and `RUNPOD_API_KEY`."""

LIMIT_SIGNAL = signal.SIGUSR1
"""Sent to the process that runs the job when the limit is over; one that does not listen yet ends by it."""
