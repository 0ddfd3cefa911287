from hypothesis import given
from hypothesis import strategies as st

from experiments.corpora.installed_packages import installed_package_texts
from experiments.corpora.passages import PASSAGE_LINES, passage_hashes, shares_passage
from experiments.corpora.standard_library import (
    SLICE_BYTES,
    SLICE_MIN_BYTES,
    Document,
    all_modules,
    fingerprint,
    held_out_documents,
    held_out_modules,
    held_out_passages,
    is_held_out,
    slice_module,
    training_documents,
)


def test_no_module_is_on_both_sides() -> None:
    training = {document.name for document in training_documents()}
    held_out = {document.name for document in held_out_modules()}
    assert training
    assert held_out
    assert not training & held_out


def test_the_split_follows_the_name_alone_and_never_changes() -> None:
    assert is_held_out("doctest")
    assert is_held_out("email.message")
    assert not is_held_out("json.decoder")
    assert not is_held_out("argparse")


def test_no_training_document_shares_a_passage_with_a_held_out_module() -> None:
    hashes = held_out_passages()
    assert not [document.name for document in training_documents() if shares_passage(document.text, hashes)]


def test_a_vendored_copy_is_recognised_although_it_is_indented_and_has_another_header() -> None:
    copied = next(document for document in held_out_modules() if document.name == "heapq")
    lines = "\n".join(f"    {line}" for line in copied.text.splitlines())
    assert shares_passage(f"# Copyright somebody else\nclass Vendored:\n{lines}\n", held_out_passages())


def test_a_vendored_copy_in_an_installed_package_is_not_taken() -> None:
    hashes = held_out_passages()
    for text in installed_package_texts(hashes, ("networkx",)):
        assert text.licence
        assert not any(shares_passage(document.text, hashes) for document in text.documents)
    everything = frozenset(
        value
        for text in installed_package_texts(frozenset(), ("networkx",))
        for document in text.documents
        for value in passage_hashes(document.text)
    )
    left = [
        document for text in installed_package_texts(everything, ("networkx",)) for document in text.documents
    ]
    assert not [document.name for document in left if passage_hashes(document.text)]


def test_comments_alone_are_no_passage() -> None:
    header = "\n".join(f"# line {number} of a licence that many files begin with" for number in range(20))
    assert not passage_hashes(header)
    code = "\n".join(f"variable_number_{number} = compute({number})" for number in range(PASSAGE_LINES))
    assert len(passage_hashes(f"{header}\n{code}")) == 1


def test_held_out_documents_come_in_one_order_and_a_smaller_set_is_a_prefix() -> None:
    documents = held_out_documents()
    assert documents == held_out_documents()
    few = held_out_documents(20_000)
    assert documents[: len(few)] == few
    assert sum(len(document.text.encode()) for document in few) <= 20_000
    assert len({document.name for document in documents}) == len(documents)
    assert len({document.name.split("#")[0] for document in held_out_documents(65_536)}) >= 8


def test_held_out_documents_keep_to_their_size() -> None:
    sizes = [len(document.text.encode()) for document in held_out_documents()]
    assert min(sizes) >= SLICE_MIN_BYTES
    assert max(sizes) <= SLICE_BYTES


@given(st.lists(st.text(alphabet="ab é\t", max_size=300), max_size=200))
def test_slices_joined_are_the_module_where_nothing_is_too_short(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    pieces = slice_module(Document("module", text))
    joined = "".join(piece.text for piece in pieces)
    left_over = len(text.encode()) - len(joined.encode())
    assert joined in text or left_over
    assert 0 <= left_over < SLICE_MIN_BYTES


def test_too_small_a_budget_is_refused_with_the_least_that_works() -> None:
    import pytest

    with pytest.raises(ValueError, match=str(SLICE_BYTES)):
        held_out_documents(10)


def test_the_fingerprint_sees_every_name_and_every_byte() -> None:
    one = (Document("a", "text"),)
    assert fingerprint(one) == fingerprint(list(one))
    assert (
        len({fingerprint(one), fingerprint((Document("at", "ext"),)), fingerprint((Document("a", "texT"),))})
        == 3
    )


def test_documents_come_from_the_library_and_not_from_packages() -> None:
    names = {document.name for document in all_modules()}
    assert {"json", "argparse", "email.message"} <= names
    assert not any(name.startswith(("numpy", "site-packages", "test.")) for name in names)
