"""A reason in short keeps a whole statement, with its figure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.telling.statements import first_statement


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        (
            "TPOT changed by −2.0 % (95 % interval −4 to +1 %; 3 pairs), below 3 %; about 9 pairs would do.",
            "TPOT changed by −2.0 % (95 % interval −4 to +1 %; 3 pairs), below 3 %",
        ),
        (
            "The data do not settle it; bits per byte rose by 0.4 %; so nothing was timed.",
            "The data do not settle it; bits per byte rose by 0.4 %",
        ),
        ("With bits=4 and g32 in H-012; it does not start; 12.5 GB are missing; so", None),
        ("It broke; see the log; nothing else is known", "It broke"),
        ("a) it is 3 % slower; b", "a) it is 3 % slower"),
        ("One statement of 4.2 ms.", "One statement of 4.2 ms."),
        ("", ""),
    ],
)
def test_it_ends_after_the_first_statement_with_a_figure(reason: str, short: str | None) -> None:
    expected = (
        "With bits=4 and g32 in H-012; it does not start; 12.5 GB are missing" if short is None else short
    )
    assert first_statement(reason) == expected


@given(st.text(alphabet="ab 4;()[]"))
def test_it_is_the_beginning_of_the_text_and_cut_twice_it_stays(text: str) -> None:
    short = first_statement(text)
    assert text.startswith(short)
    assert first_statement(short) == short
