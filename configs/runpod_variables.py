"""Names of the environment variables that say how RunPod is reached: no settings, because they are secrets or
stand beside one, and are written to no file."""

from __future__ import annotations

RUNPOD_IMAGE = "AUTOINFER_RUNPOD_IMAGE"
RUNPOD_BOARD = "AUTOINFER_RUNPOD_BOARD"
RUNPOD_BOARD_FROM_POD = "AUTOINFER_RUNPOD_BOARD_FROM_POD"
RUNPOD_SECRET = "AUTOINFER_RUNPOD_SECRET"
RUNPOD_CLOUD = "AUTOINFER_RUNPOD_CLOUD"
RUNPOD_URL = "AUTOINFER_RUNPOD_URL"

RUNPOD_VARIABLES = (
    RUNPOD_IMAGE,
    RUNPOD_BOARD,
    RUNPOD_BOARD_FROM_POD,
    RUNPOD_SECRET,
    RUNPOD_CLOUD,
    RUNPOD_URL,
)
