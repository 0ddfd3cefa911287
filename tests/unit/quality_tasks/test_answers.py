"""From tokens to the text that a task scores, and programs that a model wrote."""

import json
import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible
from experiments.measurement.prompts import load_tokenizer
from experiments.quality_tasks.code_runs import LimitedCodeEval, passes
from experiments.quality_tasks.items import Questions, TaskItem, answer_of, end_tokens, requests_for
from experiments.reference_model.load import reference_model_path
from tests.waiting import PATIENCE_S

UNTIL = ("Question:", "\n\n")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(reference_model_path())


def answer(
    tokenizer: Tokenizer, text: str, *, thinking: bool = False, until: tuple[str, ...] = UNTIL
) -> tuple[str, bool]:
    item = TaskItem("lm-eval/t/0", "?", until, 99, "")
    ids = tuple(tokenizer.encode(text, add_special_tokens=False).ids)
    ends = end_tokens(reference_model_path(), tokenizer)
    said = answer_of(item, GenerationTrace(ids, (0.0,) * len(ids)), tokenizer, ends, thinking=thinking)
    assert said.tokens == len(ids)
    return said.text, said.finished


def test_an_answer_ends_with_the_message(tokenizer: Tokenizer):
    assert answer(tokenizer, "it is 7<|im_end|>") == ("it is 7", True)


def test_an_answer_is_cut_at_the_first_of_its_stop_texts(tokenizer: Tokenizer):
    assert answer(tokenizer, "7\n\nQuestion: more") == ("7", True)
    assert answer(tokenizer, "7 Question: more\n\n") == ("7 ", True)


def test_an_answer_that_ran_out_of_tokens_is_said_to_be_unfinished(tokenizer: Tokenizer):
    assert answer(tokenizer, "and so on") == ("and so on", False)


def test_a_thought_is_taken_away_before_the_answer_is_cut(tokenizer: Tokenizer):
    assert answer(tokenizer, "3+4\n\nso</think>\n\n7<|im_end|>", thinking=True) == ("7", True)


def test_a_thought_that_never_ended_leaves_no_answer(tokenizer: Tokenizer):
    assert answer(tokenizer, "perhaps 7", thinking=True, until=()) == ("", False)


def test_the_tokens_that_end_an_answer_are_those_that_the_checkpoint_names(
    tokenizer: Tokenizer, tmp_path: Path
):
    ours = {tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")}
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"eos_token_id": 1234}}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1235, 1236]}))
    assert set(end_tokens(tmp_path, tokenizer)) == ours | {1234, 1235, 1236}


def test_a_request_asks_for_the_prompt_s_tokens_and_ends_at_the_end_tokens(tokenizer: Tokenizer):
    item = TaskItem("lm-eval/t/0", "<|im_start|>user\nhello<|im_end|>\n", (), 12, "")
    [request] = requests_for(Questions((item,), templated=True), tokenizer, (1, 2))
    assert tokenizer.decode(request.prompt_ids, skip_special_tokens=False) == item.prompt
    assert (request.new_tokens, request.stop_ids) == (12, (1, 2))


def test_a_generation_keeps_tokens_up_to_the_first_that_ends_it():
    request = GenerationRequest("a", (1,), 4, stop_ids=(9,))
    assert request.kept([5, 9, 6]) == (5, 9)
    assert request.kept([5, 6, 7, 8, 9]) == (5, 6, 7, 8)
    assert request.kept([6, 9], before=3) == (6,)
    assert request.ended_by([5, 9])
    assert not request.ended_by([5, 6])
    assert request.ended_by([5, 6, 7, 8])


ADD = "def add(a, b):\n    return a + b\n"


@pytest.mark.parametrize(
    ("program", "right"),
    [
        (ADD + "assert add(2, 3) == 5", True),
        (ADD + "assert add(2, 3) == 6", False),
        ("import os\nos._exit(0)", False),
        ("raise SystemExit(0)", False),
        ("def add(", False),
        ("x = bytearray(8 * 1024**3)", False),
        ("import os\nassert 'AUTOINFER_SECRET' not in os.environ", True),
    ],
)
def test_a_program_passes_when_it_runs_to_its_end(program: str, right: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AUTOINFER_SECRET", "kept")
    assert passes(program) is right


def test_a_program_that_does_not_end_is_ended():
    begun = time.monotonic()
    assert not passes("while True: pass", limit_s=0.5)
    assert time.monotonic() - begun < PATIENCE_S


def test_programs_run_only_with_permission():
    check, program = "assert add(2, 3) == 5", [ADD]
    scores, _ = LimitedCodeEval(allowed=True).compute(references=[check], predictions=[program], k=[1])
    assert scores == {"pass@1": 1.0}
    with pytest.raises(Infeasible, match="AUTOINFER_RUN_GENERATED_CODE"):
        LimitedCodeEval(allowed=False).compute(references=[check], predictions=[program], k=[1])
