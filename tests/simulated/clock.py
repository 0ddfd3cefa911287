"""The machine's clock set while something runs, and the machine booted anew, as far as a process can tell."""

import psutil
import pytest

HOUR_S = 3600.0


def set_clock(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    """Set the clock, and with it what the system tells of its boot and of starts of processes."""
    boot_time, create_time = psutil.boot_time, psutil.Process.create_time
    monkeypatch.setattr(psutil, "boot_time", lambda: boot_time() + by_s)
    monkeypatch.setattr(psutil.Process, "create_time", lambda process: create_time(process) + by_s)


def boot_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel be one that was booted later."""
    monkeypatch.setattr("experiments.executors.process_group.kernel_here", lambda: ("another boot", "1"))


def tell_no_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing tell which boot it is, as on other systems than Linux."""
    monkeypatch.setattr("experiments.executors.process_group.kernel_here", lambda: ("", ""))
