import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.reference.drafting.ngram import NgramDrafter, lookup
from experiments.engines.reference.drafting.port import Outcome


@pytest.mark.parametrize(
    ("tokens", "longest", "drafts"),
    [
        ([1, 2, 3, 1, 2], 2, (3, 1)),  # what followed, which may be the match itself
        ([1, 2, 3, 9, 1, 2, 4, 1, 2], 2, (4, 1)),  # the latest place counts
        ([5, 1, 2, 3, 9, 6, 1, 2, 4, 5, 1, 2], 3, (3, 9)),  # but a longer match counts more
        ([1, 2, 3, 4], 4, ()),
        ([7, 7, 7], 2, (7,)),
        ([1, 2], 2, ()),
        ([1], 3, ()),
        ([1, 2, 1, 3, 1], 4, ()),  # one token alone foretells little
    ],
)
def test_drafts_are_what_followed_the_last_tokens_before(
    tokens: list[int], longest: int, drafts: tuple[int, ...]
) -> None:
    assert lookup(tokens, longest, 2) == drafts


@given(
    prompt=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    said=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=10),
    longest=st.integers(2, 4),
    draft_tokens=st.integers(1, 7),
)
def test_the_growing_index_gives_what_a_search_gives(
    prompt: list[int], said: list[list[int]], longest: int, draft_tokens: int
) -> None:
    drafter = NgramDrafter(longest, draft_tokens)
    for _ in range(2):  # a second sequence knows nothing of the first
        text = [*prompt, 0]
        drafter.begin(prompt, 0, None)
        for tokens in said:
            assert tuple(drafter.propose()) == lookup(text, longest, draft_tokens)
            drafter.advance(Outcome(tuple(tokens), (), None))
            text += tokens
        assert tuple(drafter.propose()) == lookup(text, longest, draft_tokens)
