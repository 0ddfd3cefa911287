from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from experiments.corpora.calibration.packing import pack

TEXTS = st.lists(st.lists(st.integers(1, 9), max_size=30), max_size=20)
BETWEEN = st.sampled_from([(), (0,)])


@given(TEXTS, st.integers(0, 8), st.integers(2, 20), BETWEEN, st.booleans())
def test_documents_are_never_more_than_asked_and_all_of_one_length(
    texts: list[list[int]], samples: int, sample_tokens: int, between: tuple[int, ...], carry: bool
) -> None:
    documents = pack(texts, samples, sample_tokens, between, carry=carry)
    assert len(documents) <= samples
    assert {len(document) for document in documents} <= {sample_tokens}
    assert all(document[: len(between)] == between for document in documents)


@given(TEXTS, st.integers(2, 20), BETWEEN)
def test_carried_text_is_all_there_in_its_order(
    texts: list[list[int]], sample_tokens: int, between: tuple[int, ...]
) -> None:
    documents = pack(texts, 1000, sample_tokens, between, carry=True)
    kept = [token for document in documents for token in document if token != 0]
    given_tokens = [token for text in texts for token in text]
    assert kept == given_tokens[: len(kept)]
    assert len(given_tokens) - len(kept) < sample_tokens


@given(TEXTS, st.integers(2, 20), BETWEEN)
def test_without_carrying_every_document_begins_where_a_text_begins(
    texts: list[list[int]], sample_tokens: int, between: tuple[int, ...]
) -> None:
    for document in pack(texts, 1000, sample_tokens, between, carry=False):
        room = document[len(between) :]
        assert any(text and tuple(text[: len(room)]) == room[: len(text)] for text in texts)


@given(TEXTS, st.integers(1, 8), st.integers(2, 20), BETWEEN, st.booleans())
def test_fewer_documents_are_a_prefix_of_more(
    texts: list[list[int]], samples: int, sample_tokens: int, between: tuple[int, ...], carry: bool
) -> None:
    more = pack(texts, samples + 3, sample_tokens, between, carry=carry)
    assert pack(texts, samples, sample_tokens, between, carry=carry) == more[:samples]


def test_endless_texts_are_read_no_further_than_needed() -> None:
    read = []

    def endless() -> Iterator[list[int]]:
        while True:
            read.append(1)
            yield [1, 2, 3]

    assert pack(endless(), 2, 8, (0,), carry=False) == [(0, 1, 2, 3, 0, 1, 2, 3)] * 2
    assert len(read) == 4
