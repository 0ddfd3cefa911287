"""What does not fit is told with what is missing, and only with what would indeed fit."""

from __future__ import annotations

from agent.plan.card import listed_cards
from agent.plan.fitting import longest_context, sentence, smallest_card, ways_out
from agent.plan.memory import Room
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space

LEVERS = load_space("levers")
DEFAULT = LEVERS.configuration({})


def needed(configuration: Configuration) -> int:
    """100 bytes, less where weights are quantized, layers go or values are short; as a test has it."""
    size = 100
    size -= 40 if configuration.get("quantization.method") != "none" else 0
    size -= 10 if configuration.get("quantization.lm_head") == "quantized" else 0
    size -= 20 if configuration.get("serving.dtype") == "bfloat16" else 0
    return size


def ways(usable: int, refused: str | None = None) -> list[tuple[str, int]]:
    room = Room("One launch", needed(DEFAULT), usable)
    found = ways_out(
        LEVERS,
        DEFAULT,
        needed,
        room,
        lambda each: refused if refused and each.get("quantization.method") == refused else None,
    )
    return [(way.words, way.needed_bytes) for way in found]


def test_the_change_that_changes_least_comes_first() -> None:
    assert ways(85) == [("serving.dtype=bfloat16", 80), ("quantization.method=awq", 60)]


def test_where_one_change_is_too_little_two_are_tried() -> None:
    assert ways(50)[0][1] <= 50
    assert all("quantization.method" in words and "," in words for words, _ in ways(50))


def test_a_way_that_is_refused_is_none() -> None:
    assert ways(65, refused="awq") == [("quantization.method=rtn", 60)]


def test_where_nothing_fits_no_way_is_named() -> None:
    assert ways(10) == []


def test_the_sentence_has_what_is_missing_and_what_would_fit() -> None:
    room = Room("One launch", 24_700_000_000, 21_600_000_000)
    larger = next(each for each in listed_cards() if each.name == "rtx-5090")
    assert sentence(room, "NVIDIA L4", (), 1024, larger) == (
        "One launch does not fit: 3.1 GB missing, it needs 24.7 GB, and 21.6 GB of NVIDIA L4 may be taken; "
        "would fit: a context of at most 1,024 tokens; a card such as NVIDIA GeForce RTX 5090 (32 GB)."
    )
    assert sentence(room, "it").endswith("would fit: nothing that this space has.")
    assert sentence(Room("One launch", 1, 2), "it") == (
        "One launch fits: it needs 0 MB, and 0 MB of it may be taken."
    )


def test_the_longest_context_is_the_last_that_fits() -> None:
    assert longest_context(lambda tokens: 10 + tokens, 1000, 110) == 100
    assert longest_context(lambda tokens: 10 + tokens, 1000, 9) == 0


def test_the_smallest_card_is_the_first_on_which_it_fits() -> None:
    for gigabytes, name in ((7, "rtx-3070"), (10, "rtx-3060"), (20, "a10"), (25, "rtx-5090"), (100, "h200")):
        card = smallest_card(gigabytes * 10**9, listed_cards())
        assert card is not None
        assert card.name == name
    assert smallest_card(10**12, listed_cards()) is None
