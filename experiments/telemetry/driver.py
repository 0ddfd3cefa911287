"""The NVIDIA driver's library, asked so that every quirk of it reads as "not available".

The package is `nvidia-ml-py`, whose module is still called `pynvml`. NVML raises an error of its own for
whatever a device, a driver or a permission does not give, states some missing values as the largest integer
of their width, and loses devices while it runs. One question, one answer or None.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

NOT_AVAILABLE = frozenset({2**32 - 1, 2**64 - 1})
"""What NVML puts where a number is not known (`NVML_VALUE_NOT_AVAILABLE`, as 32 or 64 bits)."""

NO_PACKAGE = "The Python package nvidia-ml-py is not installed, so that no GPU can be seen."
NO_DRIVER = "No NVIDIA driver answers on this machine."


class NoDriver(Exception):
    """There is no library or no driver; the message is a sentence for a page."""


class Driver:
    """An initialised library; `nvml` is the module, or what stands for it in a test."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml

    def ask(self, question: str, *arguments: Any) -> Any:
        """What the driver answers to the function `nvml<question>`; None for whatever it does not give."""
        return answer_of(lambda: getattr(self.nvml, f"nvml{question}")(*arguments))

    def number(self, question: str, *arguments: Any) -> int | None:
        """The answer where it is a number that is meant as one."""
        return as_number(self.ask(question, *arguments))

    def text(self, question: str, *arguments: Any) -> str | None:
        """The answer as text, which older packages give as bytes; None for an empty one."""
        found = self.ask(question, *arguments)
        if isinstance(found, bytes):
            found = found.decode(errors="replace")
        return found if isinstance(found, str) and found else None

    def trouble(self, question: str, *arguments: Any) -> int | None:
        """The number of the error that a question ends with; None for an answer, and for one without a
        number."""
        try:
            getattr(self.nvml, f"nvml{question}")(*arguments)
        except Exception as error:  # as in `answer_of`
            return as_number(getattr(error, "value", None))
        return None

    def constant(self, name: str) -> Any:
        """A constant of the library, `NVML_<name>`; None where this version has none of that name."""
        return getattr(self.nvml, f"NVML_{name}", None)

    def close(self) -> None:
        """Let the library go."""
        self.ask("Shutdown")


def open_driver(load: Callable[[], Any] = lambda: importlib.import_module("pynvml")) -> Driver:
    """Initialise the library; raises `NoDriver` where the package or the driver is missing."""
    try:
        nvml = load()
    except ImportError:
        raise NoDriver(NO_PACKAGE) from None
    try:
        nvml.nvmlInit()
    except Exception as error:  # the library raises its own error for every state of the driver
        raise NoDriver(_why(error)) from None
    return Driver(nvml)


def answer_of(question: Callable[[], Any]) -> Any:
    """What the question gives; None for any error: NVML raises its own for every state of a device."""
    try:
        return question()
    except Exception:
        return None


def as_number(value: Any) -> int | None:
    """A number that is meant as one; None for what NVML states where it knows none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value in NOT_AVAILABLE:
        return None
    return value


def _why(error: Exception) -> str:
    name = type(error).__name__
    if "LibraryNotFound" in name or "DriverNotLoaded" in name or "LibraryNotFound" in str(error):
        return NO_DRIVER
    told = " ".join(str(error).split())[:200].rstrip(".")
    return f"The NVIDIA driver refuses to answer: {told or name}."
