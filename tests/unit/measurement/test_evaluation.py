import pytest

from configs.errors import UsageError
from experiments.corpora.instructions import grade, held_out_items
from experiments.corpora.standard_library import Document
from experiments.measurement.evaluation import material_digest, scoring_documents, scoring_tasks
from tests.unit.measurement.tiny_tokenizer import END, tiny_tokenizer

TEXTS = [
    Document("plain", "text of name " * 40),
    Document("short", "text"),
    Document("wide", "naïve – 数 😀 text " * 40),
    Document("long", "return parameters " * 90),
]


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("tokens", [64, 100, 5000])
def test_the_bytes_are_those_of_the_text_that_is_scored(end: bool, tokens: int) -> None:
    tokenizer = tiny_tokenizer(end)
    scored = scoring_documents(tokenizer, TEXTS, 3, tokens)
    assert [document.item for document in scored] == ["plain", "wide", "long"]
    for document in scored:
        assert len(document.token_ids) - 1 <= tokens
        text = tokenizer.decode(list(document.token_ids[1:]), skip_special_tokens=False)
        if document.item == "wide" and text.endswith("\N{REPLACEMENT CHARACTER}"):
            assert 0 <= document.text_bytes - len(text.rstrip("\N{REPLACEMENT CHARACTER}").encode()) <= 4
        else:
            assert document.text_bytes == len(text.encode())
        if end:
            assert document.token_ids[0] == tokenizer.token_to_id(END)


def test_too_few_documents_are_told() -> None:
    with pytest.raises(UsageError, match="gives 3 documents of at least 64 tokens, not 4"):
        scoring_documents(tiny_tokenizer(), TEXTS, 4, 100)


def test_an_item_s_answer_ends_with_the_message_and_is_what_grading_accepts() -> None:
    tokenizer = tiny_tokenizer()
    items = held_out_items(28)
    for item, task in zip(items, scoring_tasks(tokenizer, items), strict=True):
        answer = tokenizer.decode(list(task.answer_ids), skip_special_tokens=False)
        prompt = tokenizer.decode(list(task.prompt_ids), skip_special_tokens=False)
        assert task.item == item.id
        assert task.answer_ids[-1] == tokenizer.token_to_id("<|im_end|>")
        assert grade(item, answer)
        assert not grade(item, answer.replace("<|im_end|>", "x<|im_end|>"))
        assert prompt.endswith("<|im_start|>assistant\n")
        assert item.prompt_messages[0]["content"] in prompt


def test_the_digest_changes_with_anything_that_is_scored() -> None:
    tokenizer = tiny_tokenizer()
    documents = scoring_documents(tokenizer, TEXTS, 3, 100)
    tasks = scoring_tasks(tokenizer, held_out_items(7))
    digests = {
        material_digest(documents, tasks),
        material_digest(documents[:2], tasks),
        material_digest(documents, tasks[:6]),
        material_digest(scoring_documents(tokenizer, TEXTS, 3, 99), tasks),
    }
    assert len(digests) == 4
    assert material_digest(list(documents), list(tasks)) in digests
