from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.reference.score import BATCH_TOKENS, batches

LENGTHS = st.lists(st.integers(1, 3000), max_size=60)


@given(LENGTHS)
def test_every_sequence_is_in_exactly_one_batch(lengths: list[int]) -> None:
    assert sorted(index for group in batches(lengths) for index in group) == list(range(len(lengths)))


@given(LENGTHS)
def test_a_batch_with_its_padding_fits_unless_it_is_one_long_sequence(lengths: list[int]) -> None:
    for group in batches(lengths):
        padded = max(lengths[index] for index in group) * len(group)
        assert padded <= BATCH_TOKENS or len(group) == 1


@given(LENGTHS)
def test_sequences_of_like_length_go_together(lengths: list[int]) -> None:
    in_order = [lengths[index] for group in batches(lengths) for index in group]
    assert in_order == sorted(lengths, reverse=True)
