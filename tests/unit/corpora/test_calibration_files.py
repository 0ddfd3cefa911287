"""`user:PATH` and `hf:NAME`: what is read, and what is said of what can't be."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.corpora.calibration import calibration_corpus, calibration_identity, corpus_source
from experiments.corpora.calibration.hub import HubDataset, Row, load_rows
from experiments.corpora.calibration.source import Ask
from experiments.corpora.calibration.user_file import PIECE_CHARS, UserFile, pieces
from experiments.corpora.instructions import held_out_items
from experiments.corpora.standard_library import held_out_modules
from experiments.engines.port import Infeasible
from experiments.measurement.prompts import load_tokenizer
from tests.unit.corpora.calibration_folder import tokenizer_folder

MESSAGES = [{"role": "user", "content": "What is two and two?"}, {"role": "assistant", "content": "Four."}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tokenizer_folder(tmp_path_factory.mktemp("checkpoint"))


def written(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def text_of(path: Path, folder: Path, samples: int = 1, tokens: int = 20) -> str:
    corpus = calibration_corpus(f"user:{path}", folder, samples=samples, sample_tokens=tokens, seed=0)
    assert [len(ids) for ids in corpus.documents] == [tokens] * samples
    return load_tokenizer(folder).decode(
        [token for ids in corpus.documents for token in ids], skip_special_tokens=False
    )


def refusal(spec: str | Path, folder: Path, samples: int = 2, tokens: int = 20) -> str:
    spec = f"user:{spec}" if isinstance(spec, Path) else spec
    with pytest.raises(Infeasible) as caught:
        calibration_corpus(spec, folder, samples=samples, sample_tokens=tokens, seed=0)
    assert caught.value.kind == "illegal"
    assert caught.value.cause.endswith(".")
    return caught.value.cause


@pytest.mark.parametrize(
    "record",
    [
        {"text": "some running text that is long enough"},
        {"messages": MESSAGES},
        {"prompt": "What is two and two?", "answer": "Four."},
        {"question": "What is two and two?", "answer": "Four.", "text": "not this"},
        {"instruction": "What is two and two?", "output": "Four."},
    ],
)
@pytest.mark.parametrize("name", ["texts.jsonl", "texts.txt"])
def test_each_form_of_a_record_is_read_by_name_and_by_look(
    tmp_path: Path, folder: Path, name: str, record: dict[str, object]
) -> None:
    text = text_of(written(tmp_path / name, record), folder)
    assert text.startswith("<|endoftext|>")
    if "messages" in record or "answer" in record or "output" in record:
        assert text.startswith("<|endoftext|><|im_start|>user\nWhat")
    else:
        assert "some running" in text


def test_plain_text_is_read_as_it_is(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes("\ufeffÄpfel und Birnen.\r\nEine zweite Zeile.\n".encode())
    assert text_of(path, folder, 1, 36).startswith("<|endoftext|>Äpfel und Birnen.\nEine")
    path.write_text("{not JSON, but code in braces that goes on}")
    assert "{not JSON" in text_of(path, folder)


@given(st.text(alphabet="ab\n é", max_size=40).map(lambda text: text * 400))
def test_pieces_joined_are_the_text_and_end_with_lines(text: str) -> None:
    found = list(pieces(text))
    assert "".join(found) == text
    assert all(piece.endswith("\n") and len(piece) >= PIECE_CHARS for piece in found[:-1])


def test_all_of_a_file_is_drawn_from_and_the_seed_decides(tmp_path: Path, folder: Path) -> None:
    path = written(tmp_path / "a.jsonl", *({"text": f"record {number} " * 9} for number in range(50)))
    corpora = [
        calibration_corpus(f"user:{path}", folder, samples=3, sample_tokens=50, seed=seed)
        for seed in (1, 1, 2)
    ]
    assert corpora[0] == corpora[1]
    assert corpora[0].fingerprint != corpora[2].fingerprint


def test_the_content_is_the_identity_and_not_the_place(tmp_path: Path) -> None:
    def identity(path: Path) -> object:
        return calibration_identity(f"user:{path}", samples=1, sample_tokens=8, seed=0, model_fingerprint="m")

    one, same = (written(tmp_path / name, {"text": "one"}) for name in ("a.jsonl", "b.jsonl"))
    other = written(tmp_path / "c.jsonl", {"text": "two"})
    assert identity(one) == identity(same) != identity(other)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[1]", "is no JSON object with text, messages, or prompt and answer"),
        ("7", "is no JSON object"),
        (
            '{"body": "x", "title": "y"}',
            "holds body, title where text, messages, or prompt and answer is wanted",
        ),
        ("{}", "holds nothing where text"),
        ('{"text": 5}', "has a int in text where text is wanted"),
        ('{"text": null}', "has nothing in text"),
        ('{"text": "a\\u0000b"}', "has a NUL character in text"),
        ('{"text": "a\\ud800b"}', "half of a surrogate pair"),
        ('{"prompt": "x"}', "has prompt but no answer"),
        ('{"messages": []}', "messages that are no list with entries"),
        ('{"messages": [{"role": "user"}]}', "message, number 1, without role and content"),
        ('{"messages": [{"role": "user", "content": []}]}', "the content of message 1"),
    ],
)
def test_the_broken_line_is_named(tmp_path: Path, folder: Path, line: str, sentence: str) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(f'{{"text": "fine"}}\n\n{line}\n')
    cause = refusal(path, folder)
    assert cause.startswith(f"Line 3 of the corpus {path} ")
    assert sentence in cause


STRICT = (
    "{% for m in messages %}{% if m['role'] not in ['user', 'assistant'] %}"
    "{{ raise_exception('Unexpected message role.') }}{% endif %}"
    "{{ m['role'] }}: {{ m['content'] }} {% endfor %}"
)
"""A template that knows two roles, in the words of Qwen's own."""


def test_a_role_that_the_chat_template_refuses_is_told_with_its_line(tmp_path: Path) -> None:
    strict = tokenizer_folder(tmp_path / "model", template=STRICT)
    asked = [MESSAGES[0], {"role": "tool", "content": "4"}, MESSAGES[1]]
    path = written(tmp_path / "chat.jsonl", {"text": " "}, {"messages": asked})
    assert refusal(path, strict) == (
        f"Line 2 of the corpus {path} has a message, number 2, with the role 'tool', that the chat template "
        f"in {strict / 'chat_template.jinja'} refuses (Unexpected message role): correct it there."
    )


def test_a_row_whose_role_the_chat_template_refuses_is_told_with_its_number(tmp_path: Path) -> None:
    strict = tokenizer_folder(tmp_path / "model", template=STRICT)
    rows: list[Row] = [{"text": " "}, {"messages": [{"role": "critic", "content": "No."}]}]
    source = HubDataset("a/b", "0" * 40, "train", lambda *_: rows)
    with pytest.raises(Infeasible, match=r"Row 2 of the data set hf:a/b.* with the role 'critic'") as caught:
        source.draw(Ask(strict, 1, 20, 0))
    assert caught.value.kind == "illegal"


def test_a_chat_template_that_refuses_every_conversation_is_the_checkpoints_fault(tmp_path: Path) -> None:
    broken = tokenizer_folder(tmp_path / "model", template="{{ raise_exception('no') }}")
    path = written(tmp_path / "chat.jsonl", {"messages": MESSAGES})
    with pytest.raises(Infeasible, match=r"chat_template\.jinja can't write a conversation: no\.$") as caught:
        calibration_corpus(f"user:{path}", broken, samples=1, sample_tokens=20, seed=0)
    assert caught.value.kind == "checkpoint"


@pytest.mark.parametrize("content", [b"", b" \n\t\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_told(tmp_path: Path, folder: Path, content: bytes) -> None:
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    assert "is empty: give a file with text in it" in refusal(path, folder)


def test_records_without_text_are_told(tmp_path: Path, folder: Path) -> None:
    assert "holds no text" in refusal(written(tmp_path / "a.jsonl", {"text": " "}, {"text": ""}), folder)


def test_too_little_text_says_how_much_there_is_and_what_would_do(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("xyzzy." * 20)  # 120 tokens: the tokenizer knows no merge of these
    cause = refusal(path, folder, samples=8, tokens=32)
    assert "holds 120 tokens, and 8 samples of 32 tokens were asked for (256 in all)" in cause
    assert "ask for at most 3 such samples or samples of at most 16 tokens, or give a longer text" in cause
    calibration_corpus(f"user:{path}", folder, samples=3, sample_tokens=32, seed=0)
    calibration_corpus(f"user:{path}", folder, samples=8, sample_tokens=16, seed=0)
    assert "ask for" in refusal(path, folder, samples=8, tokens=17)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=9),
    st.integers(1, 40),
    st.integers(2, 200),
    st.integers(0, 9),
)
def test_what_a_refusal_advises_works(
    tmp_path: Path, folder: Path, lengths: list[int], samples: int, tokens: int, seed: int
) -> None:
    path = written(tmp_path / "a.jsonl", *({"text": "z" * length} for length in lengths))

    def draw(samples: int, tokens: int) -> None:
        calibration_corpus(f"user:{path}", folder, samples=samples, sample_tokens=tokens, seed=seed)

    try:
        draw(samples, tokens)
    except Infeasible as cause:
        fewer = re.search(r"at most (\d+) such samples", cause.cause)
        shorter = re.search(r"samples of at most (\d+) tokens", cause.cause)
        for ask in [(int(fewer[1]), tokens)] if fewer else []:
            draw(*ask)
        for ask in [(samples, int(shorter[1]))] if shorter else []:
            draw(*ask)
        assert fewer or shorter or sum(lengths) < max(samples, tokens)


def test_what_is_no_text_is_told_with_its_line(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"one\ntwo\x00three")
    assert "is not text: line 2 has a NUL byte" in refusal(path, folder)
    path.write_bytes("one\nzwei\ndrei Ä".encode("latin-1"))
    assert "is not text in UTF-8: line 3 has the byte 0xc4" in refusal(path, folder)


def test_what_cannot_be_opened_is_told(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"There is no corpus at {tmp_path / 'gone.txt'}" in refusal(tmp_path / "gone.txt", folder)
    assert "is a folder" in refusal(tmp_path, folder)
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in refusal(tmp_path / "pipe", folder)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "can't be read" in refusal(tmp_path / "loop", folder)
    assert "can't be read" in refusal(f"user:{'x' * 5000}", folder)
    assert "can't be read" in refusal("user:a\0b", folder)
    monkeypatch.setattr("experiments.corpora.calibration.user_file.FILE_BYTES_MAX", 2**20)
    (tmp_path / "large.txt").write_bytes(b"x" * (2**21))
    assert "has 2 MiB, more than the 1 MiB" in refusal(tmp_path / "large.txt", folder)


def test_a_file_without_permission_is_told(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("text")
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything: refuse as the system would
        monkeypatch.setattr(Path, "read_bytes", _no_permission)
    assert "may not be read by this user: allow it with chmod" in refusal(path, folder)


def _no_permission(path: Path) -> bytes:
    raise PermissionError(13, "Permission denied", str(path))


def test_evaluation_text_in_a_file_is_left_out_and_said(tmp_path: Path, folder: Path) -> None:
    held_out = max(held_out_modules(), key=lambda document: len(document.text))
    question = held_out_items(1)[0]
    asked = {"messages": [*question.prompt_messages, {"role": "assistant", "content": question.answer}]}
    mine = [{"text": f"my own text, number {number}. " * 5} for number in range(20)]
    path = written(tmp_path / "mixed.jsonl", {"text": held_out.text}, asked, *mine)
    drawn = UserFile(path).draw(Ask(folder, 40, 32, 0))
    assert "20 texts" in drawn.described or "left out" in drawn.described
    text = load_tokenizer(folder).decode([token for ids in drawn.documents for token in ids])
    assert question.prompt_messages[0]["content"] not in text
    only = written(tmp_path / "only.jsonl", {"text": held_out.text}, asked)
    assert "holds no text after 2 texts that the evaluation reads were left out" in refusal(only, folder)


# Reading through `datasets` itself is tested where it is installed (the extra `hub`); plain rows stand in for
# those of a loaded data set here.


def rows(*records: Row) -> HubDataset:
    return HubDataset("owner/name", "0" * 40, "train", lambda name, revision, split: iter(records))


def test_rows_of_a_data_set_are_read_as_records(folder: Path) -> None:
    found = rows(*({"text": f"row {number} " * 9, "id": number} for number in range(9)))
    drawn = found.draw(Ask(folder, 3, 40, 0))
    assert [len(ids) for ids in drawn.documents] == [40] * 3
    assert "revision 000000000000" in drawn.described
    chat = rows({"messages": MESSAGES, "text": None}, {"messages": None, "text": "plain text here " * 9})
    both = chat.draw(Ask(folder, 2, 78, 0)).documents
    text = load_tokenizer(folder).decode([token for ids in both for token in ids])
    assert "Four." in text
    assert "plain" in text


def test_a_data_set_is_read_no_further_than_needed(folder: Path) -> None:
    read: list[int] = []

    def endless(name: str, revision: str | None, split: str) -> Iterator[Row]:
        while True:
            read.append(1)
            yield {"text": "word " * 100}

    HubDataset("owner/name", "0" * 40, "train", endless).draw(Ask(folder, 2, 50, 0))
    assert len(read) == 4 * 8 * 2 * 50 // 500 + 1


def test_a_row_that_is_no_text_is_named(folder: Path) -> None:
    with pytest.raises(
        Infeasible, match=r"Row 2 of the data set hf:owner/name@0+:train holds image"
    ) as caught:
        rows({"text": "fine"}, {"image": 1}).draw(Ask(folder, 1, 8, 0))
    assert caught.value.kind == "illegal"


def test_a_data_set_that_is_too_short_says_so(folder: Path) -> None:
    with pytest.raises(Infeasible, match="samples of 64 tokens were asked for"):
        rows({"text": "short"}).draw(Ask(folder, 2, 64, 0))


@pytest.mark.parametrize(
    ("spec", "canonical"),
    [
        ("hf:squad", "hf:squad:train"),
        ("hf:owner/name:test", "hf:owner/name:test"),
        ("hf:owner/name@v1.0:test", "hf:owner/name@v1.0:test"),
        ("hf:/data/set", "hf:/data/set:train"),
    ],
)
def test_name_revision_and_split_are_read_from_the_spec(spec: str, canonical: str) -> None:
    assert corpus_source(spec).canonical == canonical


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_a_machine_that_may_not_download_is_told(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(Infeasible, match=f"{variable} forbids it") as caught:
        calibration_identity("hf:owner/name", samples=1, sample_tokens=8, seed=0, model_fingerprint="m")
    assert caught.value.kind == "unsupported"
    pinned = f"hf:owner/name@{'a' * 40}"
    found = calibration_identity(pinned, samples=1, sample_tokens=8, seed=0, model_fingerprint="m")
    assert found["revision"] == "a" * 40
    with pytest.raises(Infeasible, match="forbids it"):
        next(load_rows("owner/name", "a" * 40, "train"))


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(Infeasible, match=r"autoinfer\[hub\]") as caught:
        next(load_rows(str(tmp_path), None, "train"))
    assert caught.value.kind == "unsupported"


def test_a_network_that_is_not_there_is_told_apart_from_a_data_set_that_is_not(tmp_path: Path) -> None:
    from experiments.corpora.calibration.hub import _refused

    for cause in (ConnectionError("Couldn't reach it"), TimeoutError()):
        assert _refused("x", cause).kind == "unsupported"
        wrapped = RuntimeError("failed")
        wrapped.__cause__ = cause
        assert _refused("x", wrapped).kind == "unsupported"
    absent = _refused("x", FileNotFoundError("Dataset 'x' doesn't exist on the Hub.\nmore"))
    assert (absent.kind, absent.cause) == (
        "illegal",
        "The data set x can't be read: Dataset 'x' doesn't exist on the Hub.",
    )


def test_a_folder_is_known_by_its_files(tmp_path: Path, folder: Path) -> None:
    def identity() -> object:
        return calibration_identity(
            f"hf:{tmp_path}", samples=1, sample_tokens=8, seed=0, model_fingerprint="m"
        )

    written(tmp_path / "train.jsonl", {"text": "one"})
    before = identity()
    (tmp_path / ".cache").write_text("changes nothing")
    assert identity() == before
    written(tmp_path / "train.jsonl", {"text": "two"})
    assert identity() != before
    assert "There is no data set at" in refusal(f"hf:{tmp_path / 'gone'}", folder)


def test_a_folder_is_read_by_datasets(tmp_path: Path, folder: Path) -> None:
    pytest.importorskip("datasets", reason="the extra hub is not installed")
    written(tmp_path / "train.jsonl", *({"question": f"{n}?", "answer": f"{n}." * 9} for n in range(50)))
    corpus = calibration_corpus(f"hf:{tmp_path}", folder, samples=3, sample_tokens=40, seed=0)
    text = load_tokenizer(folder).decode(list(corpus.documents[0]), skip_special_tokens=False)
    assert text.startswith("<|endoftext|><|im_start|>user\n")
    assert "Bad split" in refusal(f"hf:{tmp_path}:validation", folder)
