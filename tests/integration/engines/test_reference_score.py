"""Scores are what transformers' own logits give, however sequences are batched and references stored."""

import math
from pathlib import Path

import pytest
import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import Infeasible, ScoringDocument, ScoringTask
from experiments.engines.reference.compile import BuiltStep
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.references import TOP_TOKENS
from experiments.engines.reference.score import (
    DECODE_PREFIX_TOKENS,
    DECODE_STEPS_MAX,
    Scorer,
)
from experiments.engines.reference.step import DecodeStep
from tests.integration.engines.checkpoints import LAYERS, VOCABULARY, tiny_model


def document(item: str, tokens: int, vocabulary: int = VOCABULARY) -> ScoringDocument:
    generator = torch.Generator().manual_seed(sum(map(ord, item)))
    ids = tuple(torch.randint(vocabulary, (tokens,), generator=generator).tolist())
    return ScoringDocument(item, ids, 4 * tokens)


def log_probs(model: Qwen3_5ForCausalLM, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), dim=-1)


def scorer(model: Qwen3_5ForCausalLM, folder: Path) -> Scorer:
    return Scorer(Decoder(model, "off", folder))


def nudged(model: Qwen3_5ForCausalLM) -> Qwen3_5ForCausalLM:
    """Another model that is close to this one."""
    other = tiny_model(vocabulary=model.config.vocab_size)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(1.03)
    return other


def merged(rows: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of the tokens `top` and of all others together."""
    kept = rows.gather(-1, top)
    return torch.cat([kept, (1 - kept.exp().sum(-1, keepdim=True)).log()], dim=-1)


def test_bits_are_those_of_the_model_alone_on_each_document(tmp_path: Path) -> None:
    model = tiny_model()
    documents = [document("a", 90), document("b", 17), document("c", 128), document("d", 2)]
    scores, _ = scorer(model, tmp_path).score(documents, [], None, None)
    assert [score.item for score in scores] == ["a", "b", "c", "d", "decode:a"]
    for one, score in zip(documents, scores, strict=False):
        rows = log_probs(model, one.token_ids)
        nats = -sum(float(rows[place, token]) for place, token in enumerate(one.token_ids[1:]))
        assert score.nll_bits == pytest.approx(nats / math.log(2), rel=1e-5)
        assert score.text_bytes == one.text_bytes
        assert score.kl_nats is None


@pytest.mark.parametrize("vocabulary", [VOCABULARY, 9000])
def test_divergence_from_a_stored_reference_is_that_of_the_two_models(
    tmp_path: Path, vocabulary: int
) -> None:
    model = tiny_model(vocabulary=vocabulary)
    other = nudged(model)
    documents = [document("a", 60, vocabulary), document("b", 33, vocabulary)]
    scorer(model, tmp_path).score(documents, [], None, tmp_path / "reference")
    scores, _ = scorer(other, tmp_path).score(documents, [], tmp_path / "reference", None)
    for one, score in zip(documents, scores, strict=True):
        before, after = log_probs(model, one.token_ids)[:-1], log_probs(other, one.token_ids)[:-1]
        kl = float((before.exp() * (before - after)).sum(-1).mean())
        agreement = float((before.argmax(-1) == after.argmax(-1)).double().mean())
        assert kl > 0.01, "the models are too close to tell anything"
        if vocabulary != VOCABULARY:  # all but the 64 most probable tokens count as one
            top = before.topk(TOP_TOKENS, dim=-1).indices
            before, after = merged(before, top), merged(after, top)
            bound = float((before.exp() * (before - after)).sum(-1).mean())
            assert bound < kl
            kl = bound
        assert score.kl_nats == pytest.approx(kl, rel=0.02)
        assert score.top1_agreement == pytest.approx(agreement, abs=0.04)
    stored = sum(file.stat().st_size for file in (tmp_path / "reference").iterdir())
    row_bytes = 2 * vocabulary if vocabulary == VOCABULARY else TOP_TOKENS * 6 + 4
    assert stored < 91 * row_bytes + 2000


def test_a_document_the_reference_does_not_hold_is_scored_without_comparison(tmp_path: Path) -> None:
    model = tiny_model()
    one = scorer(model, tmp_path)
    one.score([document("a", 20)], [], None, tmp_path / "reference")
    scores, _ = one.score([document("a", 20), document("new", 20)], [], tmp_path / "reference", None)
    assert scores[0].kl_nats is not None
    assert scores[1].kl_nats is None


def test_a_reference_of_another_vocabulary_or_none_at_all_is_refused(tmp_path: Path) -> None:
    scorer(tiny_model(), tmp_path).score([document("a", 20)], [], None, tmp_path / "reference")
    other = scorer(tiny_model(vocabulary=VOCABULARY + 1), tmp_path)
    with pytest.raises(Infeasible, match=f"over {VOCABULARY} tokens"):
        other.score([document("a", 20)], [], tmp_path / "reference", None)
    with pytest.raises(Infeasible, match="can't be read"):
        other.score([document("a", 20)], [], tmp_path / "missing", None)


def test_a_reference_appears_only_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = scorer(tiny_model(), tmp_path)
    monkeypatch.setattr(one, "_hidden", lambda sequences: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        one.score([document("a", 20)], [], None, tmp_path / "reference")
    assert list(tmp_path.iterdir()) == []


def test_items_are_right_exactly_when_the_answer_is_the_greedy_continuation(tmp_path: Path) -> None:
    model = tiny_model()
    tasks, expected = [], []
    for seed in range(12):
        ids = document(str(seed), 5 + 9 * seed).token_ids
        with torch.inference_mode():
            answer = tuple(
                model.generate(
                    torch.tensor([ids]),
                    max_new_tokens=4,
                    min_new_tokens=4,
                    do_sample=False,
                    eos_token_id=None,
                )[0, len(ids) :].tolist()
            )
        wrong_at = seed % 5  # 4: nowhere
        wrong = tuple((t + (place == wrong_at)) % VOCABULARY for place, t in enumerate(answer))
        tasks.append(ScoringTask(f"task {seed}", ids, wrong))
        expected.append((f"task {seed}", wrong_at == 4))
    _, graded = scorer(model, tmp_path).score([], tasks, None, None)
    assert [(task.item, task.correct) for task in graded] == expected
    assert {correct for _, correct in expected} == {True, False}


@pytest.mark.parametrize(
    ("documents", "tasks", "sentence"),
    [
        ([ScoringDocument("short", (1,), 1)], [], "fewer than 2 tokens"),
        ([ScoringDocument("strange", (1, VOCABULARY), 1)], [], "outside this model's vocabulary"),
        ([], [ScoringTask("mute", (1, 2), ())], "empty prompt or answer"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    tmp_path: Path, documents: list[ScoringDocument], tasks: list[ScoringTask], sentence: str
) -> None:
    with pytest.raises(Infeasible, match=sentence) as told:
        scorer(tiny_model(), tmp_path).score(documents, tasks, None, None)
    assert told.value.kind == "illegal"


@pytest.mark.parametrize("step_tokens", [1, 2, 5, 8])
def test_the_decode_document_covers_what_follows_its_prefix(tmp_path: Path, step_tokens: int) -> None:
    model = tiny_model(layers=LAYERS)
    one = document("long", 300)
    decoder = Decoder(model, "off", tmp_path)
    scores, _ = Scorer(decoder, step_tokens).score([document("short", 20), one], [], None, None)
    steps = {key: step.calls for key, step in decoder.built.items()}
    assert steps[256, step_tokens] >= DECODE_STEPS_MAX // step_tokens
    decoded = scores[-1]
    rows = log_probs(model, one.token_ids)
    last = DECODE_PREFIX_TOKENS + DECODE_STEPS_MAX
    nats = -sum(float(rows[place, one.token_ids[place + 1]]) for place in range(DECODE_PREFIX_TOKENS, last))
    assert decoded.item == "decode:long"
    assert decoded.nll_bits == pytest.approx(nats / math.log(2), rel=1e-4)
    assert decoded.text_bytes == round(one.text_bytes * DECODE_STEPS_MAX / 299)
    assert decoded.kl_nats == pytest.approx(0, abs=1e-6)


FAULTS = [
    *((fault, tokens) for fault in ("position", "state", "logits") for tokens in (1, 3)),
    ("state of the last token", 3),  # one token has no other
]


@pytest.mark.parametrize(("fault", "step_tokens"), FAULTS)
def test_a_timed_step_that_computes_nonsense_shows_in_the_decode_document_alone(
    tmp_path: Path, fault: str, step_tokens: int
) -> None:
    model = tiny_model(layers=LAYERS).requires_grad_(False)
    step = DecodeStep(model, 256, step_tokens)

    def faulty(
        tokens: torch.Tensor, position: torch.Tensor, *state: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        if fault == "position":
            return step(tokens, position * 0, *state)  # type: ignore[no-any-return]
        if fault == "state":
            state[1].zero_()
        report, logits, *gated_delta = step(tokens, position, *state)
        if fault == "state of the last token":  # whatever is kept
            gated_delta[1::2] = [states[-1:].expand_as(states) for states in gated_delta[1::2]]
        return report, (logits.roll(1, -1) if fault == "logits" else logits), *gated_delta

    with torch.inference_mode():  # text that the model foretells, so that a fault costs bits
        start = torch.tensor([document("a", 5).token_ids])
        ids = model.generate(start, max_new_tokens=145, do_sample=False, eos_token_id=None)[0].tolist()
    documents = [ScoringDocument("a", tuple(ids), 600)]
    healthy, _ = scorer(model, tmp_path).score(documents, [], None, tmp_path / "reference")
    decoder = Decoder(model, "default", tmp_path)
    decoder.built[256, step_tokens] = BuiltStep(step, faulty, {})
    decoder.step_tokens = (step_tokens,)
    scores, _ = Scorer(decoder, step_tokens).score(documents, [], tmp_path / "reference", None)
    assert scores[0].nll_bits == healthy[0].nll_bits
    assert scores[1].nll_bits > healthy[1].nll_bits * 1.01
    assert scores[1].kl_nats is not None
    assert scores[1].kl_nats > 0.02
    assert healthy[1].kl_nats == pytest.approx(0, abs=1e-6)
