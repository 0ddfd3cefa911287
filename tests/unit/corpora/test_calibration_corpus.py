"""The corpora that need no model: what holds for all of them, and what each is."""

import json
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.judge.scored_claim import VALIDATION_PART
from configs.campaign import load_campaign
from configs.catalog import Kind, packaged_names
from experiments.corpora import instructions
from experiments.corpora.calibration import (
    CalibrationCorpus,
    calibration_corpus,
    calibration_identity,
    corpus_source,
)
from experiments.corpora.calibration.blend import instruct_places
from experiments.corpora.calibration.chat import load_chat_template
from experiments.corpora.calibration.corpus import token_fingerprint
from experiments.corpora.calibration.held_out import HELD_OUT_QUESTIONS
from experiments.corpora.calibration.instruct import items
from experiments.corpora.instructions import held_out_items, render_answer, render_prompt, training_items
from experiments.corpora.passages import passage_hashes
from experiments.corpora.signatures import signatures
from experiments.corpora.standard_library import Document, held_out_passages
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path
from tests.unit.corpora.calibration_folder import tokenizer_folder

ALWAYS_THERE = ("raw", "instruct", "blend:0.5")

SHARES = st.decimals(0, 1, places=3)

CORPORA_ASKED = settings().max_examples // 10
"""Pairs of corpora, each of which takes a second: as many in `make bench` as a property has in the suite."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tokenizer_folder(tmp_path_factory.mktemp("checkpoint"))


def corpus(spec: str, folder: Path, samples: int = 4, tokens: int = 64, seed: int = 7) -> CalibrationCorpus:
    return calibration_corpus(spec, folder, samples=samples, sample_tokens=tokens, seed=seed)


def identity(spec: str, samples: int = 4, seed: int = 7, model: str = "m") -> Mapping[str, Json]:
    return calibration_identity(spec, samples=samples, sample_tokens=64, seed=seed, model_fingerprint=model)


def refusal(spec: str, folder: Path, samples: int = 4, tokens: int = 64) -> str:
    with pytest.raises(Infeasible) as caught:
        corpus(spec, folder, samples, tokens)
    assert caught.value.kind == "illegal"
    return caught.value.cause


@settings(
    max_examples=CORPORA_ASKED, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(ALWAYS_THERE) | SHARES.map(lambda share: f"blend:{share}"),
    st.integers(1, 9),
    st.integers(2, 200),
    st.integers(0, 2**40),
)
def test_a_corpus_has_its_shape_and_is_decided_by_what_was_asked(
    folder: Path, spec: str, samples: int, tokens: int, seed: int
) -> None:
    once, again = (corpus(spec, folder, samples, tokens, seed) for _ in range(2))
    assert once == again
    assert [len(document) for document in once.documents] == [tokens] * samples
    vocabulary = load_tokenizer(folder).get_vocab_size()
    assert all(0 <= token < vocabulary for document in once.documents for token in document)
    assert f"{samples} samples of {tokens} tokens" in once.described


@pytest.mark.parametrize("spec", ALWAYS_THERE)
def test_another_seed_gives_other_text_and_another_fingerprint(folder: Path, spec: str) -> None:
    one, other = corpus(spec, folder, seed=1), corpus(spec, folder, seed=2)
    assert one.documents != other.documents
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize("spec", ["raw", "instruct"])
def test_fewer_samples_are_a_prefix_of_more(folder: Path, spec: str) -> None:
    assert corpus(spec, folder, 3).documents == corpus(spec, folder, 12).documents[:3]


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=5), max_size=5), st.data())
def test_the_fingerprint_changes_with_any_token_and_any_boundary(
    documents: list[list[int]], data: st.DataObject
) -> None:
    other = data.draw(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=5), max_size=5))
    assert (token_fingerprint(documents) == token_fingerprint(other)) == (documents == other)
    assert token_fingerprint([[1, 2], [3]]) != token_fingerprint([[1], [2, 3]])


@given(SHARES, st.integers(0, 300))
def test_a_blend_has_its_share_over_every_run_from_the_start(share: Decimal, samples: int) -> None:
    places = instruct_places(samples, Fraction(share))
    assert len(places) == samples
    for number in range(samples + 1):
        assert abs(sum(places[:number]) - number * share) <= Decimal("0.5")


@pytest.mark.parametrize(
    ("share", "instructed"), [("0.25", 4), ("0.5", 8), ("0.75", 12), ("1", 16), ("0", 0)]
)
def test_a_blend_is_made_of_the_first_samples_of_its_sources(
    folder: Path, share: str, instructed: int
) -> None:
    blend = set(corpus(f"blend:{share}", folder, 16).documents)
    instruct, raw = (corpus(spec, folder, 16).documents for spec in ("instruct", "raw"))
    assert blend == {*instruct[:instructed], *raw[: 16 - instructed]}


def test_a_share_of_nothing_is_raw_and_of_everything_is_instruct(folder: Path) -> None:
    assert corpus("blend:0", folder).fingerprint == corpus("raw", folder).fingerprint
    assert corpus("blend:1", folder).fingerprint == corpus("instruct", folder).fingerprint


def test_no_text_of_any_packaged_corpus_is_evaluation_text() -> None:
    checkpoint = reference_model_path()
    tokenizer = load_tokenizer(checkpoint)
    for spec in ("raw", "instruct"):
        texts = [tokenizer.decode(ids) for ids in corpus(spec, checkpoint, 128, 512).documents]
        read = {value for text in texts for value in passage_hashes(text)}
        assert spec == "instruct" or len(read) > 1000
        assert read.isdisjoint(held_out_passages())


def test_no_instruction_is_one_that_an_evaluation_asks() -> None:
    asked = {item.prompt_messages[0]["content"] for item in held_out_items(2000)}
    drawn = [item for item, _ in zip(items(3), range(3000), strict=False)]
    assert asked.isdisjoint(item.prompt_messages[0]["content"] for item in drawn)
    unfiltered = {item.prompt_messages[0]["content"] for item in training_items(3, 3000)}
    assert asked & unfiltered  # so there was something to leave out


@pytest.mark.parametrize("name", packaged_names(Kind.CAMPAIGNS))
def test_conversations_are_kept_clear_of_every_item_a_packaged_campaign_scores(name: str) -> None:
    parts = range(VALIDATION_PART + 1)
    assert len(parts) * load_campaign(name).plan.workload.evaluation_items <= HELD_OUT_QUESTIONS


def test_every_question_that_the_library_gives_is_used_before_it_is_said_to_give_too_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    functions = "".join(
        f"def spoken_{number}():\n    pass\n" for number in range(400)
    )  # name and count alone
    pool = tuple(signatures([Document("spoken", functions)]))
    monkeypatch.setattr(instructions, "_training_signatures", lambda: pool)
    drawn: list[str] = []
    with pytest.raises(Infeasible, match=r"gives [\d,]+ different questions") as told:
        drawn.extend(item.id for item in items(5))
    assert 512 < len(drawn) == len(set(drawn)) < 1024, "neither number is a power of two"
    assert f"gives {len(drawn):,} different questions" in told.value.cause
    assert [item.id for item in training_items(5, len(drawn))] == drawn


def test_instructions_are_whole_conversations_in_the_plain_template(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    (document,) = corpus("instruct", folder, 1, 600).documents
    text = tokenizer.decode(list(document), skip_special_tokens=False)
    found = text.split("<|endoftext|>")
    assert found[0] == ""
    expected = [render_prompt(item) + render_answer(item) for item in training_items(7, 40)]
    assert len(found) > 3
    assert set(found[1:-1]) <= set(expected)
    assert any(each.startswith(found[-1]) for each in expected)


def test_instructions_follow_the_checkpoints_own_template(tmp_path: Path) -> None:
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}"
    own = tokenizer_folder(tmp_path / "own", template=template)
    (document,) = corpus("instruct", own, 1, 200).documents
    text = load_tokenizer(own).decode(list(document))
    assert text.startswith("[user] ")
    assert "\n[assistant] " in text
    (own / "chat_template.jinja").rename(own / "elsewhere")
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": template}]
    for stored in (template, named):
        (own / "tokenizer_config.json").write_text(json.dumps({"chat_template": stored}))
        assert corpus("instruct", own, 1, 200).documents == (document,)


def test_the_reference_models_template_is_the_plain_one() -> None:
    own = load_chat_template(reference_model_path())
    assert own.jinja is not None
    for item in held_out_items(20):
        assert own.render(item.prompt_messages, answer_follows=True) == render_prompt(item)


def test_a_template_that_refuses_is_told_as_the_checkpoints_fault(tmp_path: Path) -> None:
    refusing = tokenizer_folder(tmp_path / "a", template="{{ raise_exception('no system message') }}")
    with pytest.raises(Infeasible, match="no system message") as caught:
        corpus("instruct", refusing)
    assert caught.value.kind == "checkpoint"
    broken = tokenizer_folder(tmp_path / "b", template="{% for %}")
    with pytest.raises(Infeasible, match=r"chat_template\.jinja") as caught:
        corpus("instruct", broken)
    assert caught.value.kind == "checkpoint"


def test_a_checkpoint_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(Infeasible, match=r"tokenizer\.json") as caught:
        corpus("raw", tmp_path)
    assert caught.value.kind == "checkpoint"


def test_a_tokenizer_without_the_token_between_texts_will_do(tmp_path: Path) -> None:
    folder = tokenizer_folder(tmp_path, end=False)
    assert [len(ids) for ids in corpus("blend:0.5", folder, 6, 50).documents] == [50] * 6


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("rwa", "Did you mean raw"),
        ("instruction", "Did you mean instruct"),
        ("", "The corpora are raw, instruct"),
        ("RAW", "There is no calibration corpus 'RAW'"),
        ("c4", "The corpora are"),
        ("raw:x", "write raw with nothing after it"),
        ("instruct:", "write instruct with nothing after it"),
        ("self:3", "write self with nothing after it"),
        ("blend", "write blend:0.5"),
        ("blend:", "write blend:0.5"),
        ("blend:1.5", "not a number from 0 to 1"),
        ("blend:-0.1", "not a number from 0 to 1"),
        ("blend:nan", "not a number from 0 to 1"),
        ("blend:50%", "not a number from 0 to 1"),
        ("user", "write user:/path"),
        ("user:", "write user:/path"),
        ("hf", "names no data set"),
        ("hf:", "names no data set"),
        ("hf:a b", "names no data set"),
        ("hf:a/b/c", "names no data set"),
    ],
)
def test_a_spec_that_cannot_be_says_what_to_write(folder: Path, spec: str, sentence: str) -> None:
    assert sentence in refusal(spec, folder)
    with pytest.raises(Infeasible) as caught:
        identity(spec)
    assert sentence in caught.value.cause


@pytest.mark.parametrize(("samples", "tokens"), [(0, 64), (-1, 64), (4, 1), (4, 0)])
def test_numbers_that_cannot_be_are_refused(folder: Path, samples: int, tokens: int) -> None:
    assert "can't be: ask for" in refusal("raw", folder, samples, tokens)


def test_an_identity_changes_with_whatever_changes_the_corpus() -> None:
    base = identity("raw")
    others = [
        identity("instruct"),
        identity("blend:0.5"),
        identity("blend:0.25"),
        identity("self"),
        identity("raw", samples=5),
        identity("raw", seed=8),
        identity("raw", model="other"),
    ]
    written = [json.dumps(dict(each), sort_keys=True) for each in (base, *others)]
    assert len(set(written)) == len(written)
    assert base == identity("raw")


def test_one_share_written_two_ways_is_one_corpus() -> None:
    assert identity("blend:0.50") == identity("blend:.5")
    assert corpus_source("blend:1.0").canonical == "blend:1"
    assert corpus_source("blend:0.0").canonical == "blend:0"


def test_the_registry_loads_neither_torch_nor_transformers() -> None:
    program = (
        "import sys; from experiments.corpora.calibration import calibration_identity as i; "
        "i('self', samples=1, sample_tokens=8, seed=0, model_fingerprint='m'); "
        "print([m for m in ('torch', 'transformers', 'datasets', 'jinja2') if m in sys.modules])"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"
