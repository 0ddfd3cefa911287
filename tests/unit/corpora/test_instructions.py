import subprocess
import sys

import pytest

from experiments.corpora.instructions import (
    IM_END,
    KINDS,
    InstructionItem,
    grade,
    held_out_items,
    items_from,
    render_answer,
    render_prompt,
    training_items,
)
from experiments.corpora.signatures import signatures
from experiments.corpora.standard_library import Document, held_out_modules, is_held_out


@pytest.mark.parametrize("item", held_out_items(70), ids=lambda item: item.id)
def test_the_right_answer_passes_and_a_wrong_one_fails(item: InstructionItem) -> None:
    assert grade(item, item.answer)
    assert grade(item, f"  {render_answer(item)}and anything after it")
    assert not grade(item, f"{item.answer}x")
    assert not grade(item, "")
    assert not grade(item, f"so: {item.answer}")


def test_held_out_items_are_always_the_same_and_fewer_are_a_prefix() -> None:
    assert held_out_items(50)[:20] == held_out_items(20)
    assert len({item.id for item in held_out_items(300)}) == 300


def test_every_kind_has_its_share() -> None:
    items = held_out_items(70)
    assert {kind: sum(item.kind == kind for item in items) for kind in KINDS} == dict.fromkeys(KINDS, 10)


def test_held_out_items_are_about_held_out_modules_and_training_items_are_not() -> None:
    assert all(is_held_out(item.id.split("/")[1].rpartition(".")[0]) for item in held_out_items(200))
    assert not any(is_held_out(item.id.split("/")[1].rpartition(".")[0]) for item in training_items(1, 200))


def test_training_items_follow_their_seed() -> None:
    assert training_items(1, 30) == training_items(1, 30)
    assert training_items(1, 30) != training_items(2, 30)


def test_no_held_out_question_with_its_answer_is_in_a_training_set() -> None:
    asked = {(item.prompt_messages[0]["content"], item.answer) for item in training_items(5, 3000)}
    held_out = [item for item in held_out_items(300) if item.kind in ("summary", "match")]
    shared = [item for item in held_out if (item.prompt_messages[0]["content"], item.answer) in asked]
    assert not shared


def test_a_function_is_read_as_its_line_tells_it() -> None:
    line = "def put(self, key, value=None, *, wait: float = 0.5):"
    text = f'class A:\n    {line}\n        """Store a value for good."""\n'
    (signature,) = signatures([Document("m", text)])
    assert [(parameter.name, parameter.default) for parameter in signature.parameters] == [
        ("key", None),
        ("value", "None"),
        ("wait", "0.5"),
    ]
    assert signature.summary == "Store a value for good."


def test_functions_that_cannot_be_called_by_keyword_are_left_out() -> None:
    text = "def a(*args): pass\ndef b(x, /): pass\ndef c(**k): pass\nthis is no python"
    assert not list(signatures([Document("m", text)]))
    assert not list(signatures([Document("m", text.rsplit("\n", 1)[0])]))


def test_asking_for_more_items_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="ask for fewer"):
        items_from([Document("m", "def only(): pass\n")], 0, 50)


def test_a_prompt_ends_where_the_answer_begins() -> None:
    (item,) = held_out_items(1)
    prompt = render_prompt(item)
    assert prompt.endswith("<|im_start|>assistant\n")
    assert prompt.count(IM_END) == 1


def test_the_corpora_need_no_torch() -> None:
    code = (
        "import sys; import experiments.corpora.instructions, experiments.corpora.standard_library, "
        "experiments.reference_model.load; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_held_out_modules_give_enough_functions_for_the_card() -> None:
    assert len(list(signatures(held_out_modules()))) >= 500
