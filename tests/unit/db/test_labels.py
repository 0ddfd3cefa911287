"""Labels are shown in one way and read leniently."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label, parse_label_of


@pytest.mark.parametrize(
    ("noun", "number", "label"),
    [
        (Noun.CAMPAIGN, 3, "C-3"),
        (Noun.HYPOTHESIS, 21, "H-021"),
        (Noun.EXPERIMENT, 20, "E-0020"),
        (Noun.FINDING, 6, "F-006"),
        (Noun.HYPOTHESIS, 12345, "H-12345"),
    ],
)
def test_a_label_is_a_letter_and_a_padded_number(noun: Noun, number: int, label: str) -> None:
    assert format_label(noun, number) == label


@given(st.sampled_from(Noun), st.integers(0, 10**14))
def test_a_label_names_what_it_was_made_from(noun: Noun, number: int) -> None:
    assert parse_label(format_label(noun, number)) == (noun, number)
    assert parse_label_of(noun, format_label(noun, number).lower()) == number


def test_case_padding_and_blanks_around_do_not_matter() -> None:
    assert parse_label(" h-21 ") == (Noun.HYPOTHESIS, 21)


@given(st.text().filter(lambda text: not re.fullmatch(r"\s*[CHEFDJchefdj]-[0-9]+\s*", text)))
def test_anything_else_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_label(text)
    assert refusal.value.exit_code == 2
    assert repr(text) in refusal.value.message
    assert "H-001" in refusal.value.hint


def test_the_bare_number_is_enough_where_the_noun_is_known() -> None:
    assert parse_label_of(Noun.EXPERIMENT, "20") == 20


def test_a_label_of_another_noun_is_refused_with_both_nouns_named() -> None:
    with pytest.raises(UsageError, match="names a hypothesis, but an experiment") as refusal:
        parse_label_of(Noun.EXPERIMENT, "H-021")
    assert "E-0001" in refusal.value.hint


@pytest.mark.parametrize("text", ["٣", "H-٣", "²", "-1", "H--1", "H-1x", "", "9" * 16])
def test_odd_numbers_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_label_of(Noun.HYPOTHESIS, text)
