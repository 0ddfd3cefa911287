"""With which versions of its packages an engine would serve on this machine; imports none of them."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping

from configs.registry import Port, names
from configs.targets import kind_of
from experiments.job.named import load_engine
from experiments.measurement.environment import package_version

PYTHON = "python"
"""The name under which a launch tells the version of its Python, beside those of its packages."""

OWN_PACKAGES = (PYTHON, "torch", "transformers", "numpy")
"""What an engine without an environment of its own computes with."""


def versions_here(engine: str, device: str, packages: Iterable[str]) -> dict[str, str]:
    """The versions of these packages, and of Python, with which an engine would serve on a device here; what
    it lacks or does not tell is left out, and so is all of an engine that is not registered here."""
    if engine not in names(Port.ENGINE):
        return {}
    elsewhere = getattr(load_engine(engine), "tool_versions", None)
    told: Mapping[str, str | None]
    if elsewhere is None:
        told = {
            name: platform.python_version() if name == PYTHON else package_version(name) for name in packages
        }
    else:
        told = {name.rpartition(": ")[2]: version for name, version in elsewhere(device).items()}
    return {name: version for name, version in told.items() if version is not None}


def no_engine_here(engine: str, device: str) -> str | None:
    """Why no version of an engine would serve on a device here, and what to do, in a sentence; None where one
    would, and of an engine that does not say."""
    found = load_engine(engine) if engine in names(Port.ENGINE) else None
    asked = getattr(found, "version_on", None)
    if asked is None or asked(device) is not None:
        return None
    told = getattr(found, "why_no_version_on", None)
    return (told and told(device)) or f"No {engine} for {kind_of(device)} is installed here."
