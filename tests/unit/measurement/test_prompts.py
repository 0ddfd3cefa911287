from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from configs.errors import UsageError
from experiments.corpora.standard_library import Document
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import PAGE_TOKENS, PromptSource, load_tokenizer
from tests.unit.measurement.tiny_tokenizer import END, tiny_tokenizer

DOCUMENTS = [Document(f"d{number}", f"text {number} " * (number + 1)) for number in range(9)]


def source(tokenizer: Tokenizer | None = None) -> PromptSource:
    return PromptSource(tokenizer or tiny_tokenizer(), DOCUMENTS)


@given(st.integers(1, 400), st.integers(1, 4), st.integers(0, 2**40), st.integers(0, 5), st.integers(0, 30))
def test_prompts_have_their_length_and_are_decided_by_what_they_are_for(
    tokens: int, count: int, seed: int, pair: int, block: int
) -> None:
    workload = Workload(prompt_tokens=tokens, prompts_per_block=count, new_tokens=7)
    requests = source().block(workload, seed, pair, block)
    assert requests == source().block(workload, seed, pair, block)
    assert [len(request.prompt_ids) for request in requests] == [tokens] * count
    assert all(request.new_tokens == 7 for request in requests)
    assert len({request.item for request in requests}) == count


def test_blocks_pairs_and_seeds_have_prompts_of_their_own() -> None:
    workload = Workload(prompts_per_block=4)
    variants = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]
    prompts = {
        variant: tuple(r.prompt_ids for r in source().block(workload, *variant)) for variant in variants
    }
    assert len(set(prompts.values())) == len(variants)


def test_no_two_prompts_of_a_launch_begin_alike_also_where_documents_come_again() -> None:
    """A cache of prefixes would find what was read before, and be measured to help where it can't."""
    begins = [
        request.prompt_ids[:PAGE_TOKENS]
        for tokens in (64, 128)
        for workload in (Workload(prompt_tokens=tokens, prompts_per_block=12, warmup_requests=12),)
        for requests in (
            source().warm_up(workload, 0),
            *(source().block(workload, 0, pair, block) for pair in range(2) for block in range(3)),
        )
        for request in requests
    ]
    assert len(begins) == 2 * 7 * 12
    assert len(set(begins)) == len(begins)


@pytest.mark.parametrize("tokens", [2, 8, PAGE_TOKENS])
def test_a_prompt_shorter_than_a_page_is_text_and_no_name(tokens: int) -> None:
    workload = Workload(prompt_tokens=tokens, prompts_per_block=40)
    numbers = tiny_tokenizer().encode("# 0.0.0 of").ids
    requests = source().block(workload, 0, 0, 0)
    assert all(request.prompt_ids[1] != numbers[0] for request in requests)


def test_warm_up_is_no_measured_block_and_has_its_own_count() -> None:
    workload = Workload(warmup_requests=3, prompts_per_block=2)
    warm_up = source().warm_up(workload, 0)
    measured = {request.item for block in range(50) for request in source().block(workload, 0, 0, block)}
    assert len(warm_up) == 3
    assert not {request.item for request in warm_up} & measured


def test_a_prompt_begins_with_the_token_between_texts_and_goes_on_over_documents() -> None:
    tokenizer = tiny_tokenizer()
    [request] = source(tokenizer).block(Workload(prompt_tokens=300, prompts_per_block=1), 0, 0, 0)
    end = tokenizer.token_to_id(END)
    assert request.prompt_ids[0] == end
    assert request.prompt_ids.count(end) > 1


def test_a_tokenizer_without_such_a_token_serves_too() -> None:
    [request] = source(tiny_tokenizer(end=False)).block(
        Workload(prompt_tokens=300, prompts_per_block=1), 0, 0, 0
    )
    assert len(request.prompt_ids) == 300


def test_a_missing_or_broken_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no tokenizer\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match="can't be read as a tokenizer"):
        load_tokenizer(tmp_path)
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path).encode("text").ids
