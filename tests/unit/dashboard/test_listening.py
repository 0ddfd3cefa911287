"""The socket that the dashboard is served on."""

import os

import pytest

from configs.errors import AutoinferError, UsageError
from dashboard.listening import DEFAULT_HOST, listen, taken_over


def test_a_port_in_use_is_refused_when_it_is_asked_for_by_name() -> None:
    with listen(port=0).socket as taken, pytest.raises(AutoinferError, match="is in use") as refused:
        listen(port=taken.getsockname()[1])
    assert "--port" in refused.value.hint


def test_two_that_take_the_first_free_port_get_one_each() -> None:
    with listen().socket as first, listen().socket as second:
        assert first.getsockname()[1] != second.getsockname()[1]


def test_a_socket_that_was_passed_on_keeps_its_address() -> None:
    made = listen(port=0)
    with taken_over(made.socket.detach()).socket as passed_on:
        assert made.address == f"http://{DEFAULT_HOST}:{passed_on.getsockname()[1]}"


def test_what_is_no_socket_is_refused() -> None:
    reading, writing = os.pipe()
    with pytest.raises(UsageError, match="is no open socket"):
        taken_over(reading)
    os.close(writing)
    os.close(reading)
