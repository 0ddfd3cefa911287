import errno

import pytest

from cli.console.failures import in_words
from configs.errors import AutoinferError, DiskFull, UsageError


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError("No.", "Do."), 2), (DiskFull("Full.", "Free."), 1), (AutoinferError("x", "y", 7), 7)],
)
def test_our_errors_keep_their_sentence_hint_and_code(error: AutoinferError, code: int) -> None:
    assert in_words(error, "autoinfer") == (error.message, error.hint, code)


def test_a_full_disk_and_a_refused_permission_are_told_with_their_place() -> None:
    full = in_words(OSError(errno.ENOSPC, "No space left on device", "/data/x"), "autoinfer")
    refused = in_words(PermissionError(errno.EACCES, "Permission denied", "/data/x"), "autoinfer")
    assert full[0] == "No space is left on the disk (/data/x)."
    assert refused[0] == "You may not read or write there (/data/x)."
    assert full[2] == refused[2] == 1


def test_a_full_disk_that_a_library_met_is_no_fault_of_our_own() -> None:
    met = RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
    message, hint, code = in_words(met, "autoinfer")
    assert (message, code) == ("No space is left on the disk.", 1)
    assert hint == "Free some space and try again."


def test_a_fault_of_our_own_is_said_to_be_one() -> None:
    message, hint, code = in_words(ZeroDivisionError("division by zero"), "autoinfer")
    assert message == "autoinfer failed by a fault of its own: ZeroDivisionError: division by zero"
    assert "--debug" in hint
    assert code == 1


def test_a_long_text_of_an_unexpected_error_is_cut_to_its_beginning() -> None:
    message, _, _ = in_words(RuntimeError("x" * 5000 + "\nmore"), "autoinfer")
    assert len(message) < 400
    assert "more" not in message
