"""The check of drafting finds what is not lossless, excuses near-ties alone, refuses a head that is none."""

import math
from pathlib import Path

import pytest
import torch

from experiments.engines.port import GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.reference.checkpoint import DTYPES
from experiments.engines.reference.compile import BuiltStep
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.check import (
    DOUBT_LOGITS,
    FLIPS_SHARE_MAX,
    NEAR_TIE_LOGITS_MAX,
    check_drafting,
)
from experiments.engines.reference.drafting.draft_model import DraftModelDrafter
from experiments.engines.reference.drafting.order import DrafterSource, DraftingOrder
from experiments.engines.reference.drafting.speculation import Speculation
from tests.integration.engines.checkpoints import LAYERS, tiny_model
from tests.integration.engines.drafted import with_and_without, write_nearly_the_same, write_target
from tests.integration.engines.test_reference_decode import prompt

CHECK = "experiments.engines.reference.drafting.check"

REQUESTS = [GenerationRequest(f"code:{seed}", prompt(seed, 12), 30) for seed in range(3)]


class LastTokenOf(Speculation):
    """Says another last token than it should."""

    last = 0

    def generate(self, request: GenerationRequest) -> GenerationTrace:
        trace = super().generate(request)
        return GenerationTrace((*trace.token_ids[:-1], self.last), trace.token_times_s, trace.step_tokens)


@pytest.fixture
def speculation(tmp_path: Path) -> Speculation:
    model = tiny_model(layers=LAYERS)
    near = write_nearly_the_same(tmp_path / "near", model, 0.03)
    target = write_target(tmp_path / "target", model)
    return with_and_without(target, DraftingOrder("draft_model", 2, str(near)))[1]


@pytest.fixture
def every_text_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text is read step by step, however clear a prefill is."""
    monkeypatch.setitem(DOUBT_LOGITS, torch.float32, math.inf)


@pytest.mark.usefixtures("every_text_in_doubt")
def test_drafting_without_fault_shows_no_divergence(speculation: Speculation) -> None:
    checks = check_drafting(speculation, REQUESTS)
    assert [check.item for check in checks] == [request.item for request in REQUESTS]
    assert all(check.positions == 29 for check in checks)
    assert all(check.divergences == check.near_ties == check.flips_without_draft == 0 for check in checks)
    assert all(0 < check.near_tie_logits < 1e-3 for check in checks)
    assert all(sum(check.step_tokens) >= 29 for check in checks)


def test_a_text_of_which_a_prefill_leaves_no_doubt_is_read_no_further(
    speculation: Speculation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DOUBT_LOGITS, torch.float32, 1e-5)
    in_steps = []
    monkeypatch.setattr(f"{CHECK}.read_by", lambda *arguments: in_steps.append(arguments))
    checks = check_drafting(speculation, REQUESTS)
    assert in_steps == []
    assert all(check.positions == 29 for check in checks)
    assert all(
        check.divergences == check.near_ties == check.near_tie_logits == check.flips_without_draft == 0
        for check in checks
    )


def test_a_wrong_token_is_found_in_a_text_that_is_otherwise_beyond_doubt(
    speculation: Speculation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DOUBT_LOGITS, torch.float32, 1e-5)
    liar = LastTokenOf(speculation.decoder, speculation.drafter, speculation.order)
    told = [check_drafting(liar, [request])[0] for request in REQUESTS]
    assert [check.divergences for check in told] == [1, 1, 1]


def test_a_state_that_is_not_gone_back_to_shows_as_divergences(speculation: Speculation) -> None:
    speculation.prepare(64)
    built = speculation.decoder.step(3)
    module = built.module

    def forgetful(
        tokens: torch.Tensor, position: torch.Tensor, *state: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        report, logits, *gated_delta = module(tokens, position, *state)
        gated_delta[1::2] = [states[-1:].expand_as(states) for states in gated_delta[1::2]]
        return report, logits, *gated_delta

    speculation.decoder.built[256, 3] = BuiltStep(module, forgetful, {})
    checks = check_drafting(speculation, REQUESTS)
    assert sum(check.divergences for check in checks) > 0
    assert all(check.near_tie_logits < 1e-3 for check in checks), "the measure of near-ties is not fooled"


@pytest.mark.usefixtures("every_text_in_doubt")
@pytest.mark.parametrize(
    ("factor", "sentence"), [(-1.0, "computes something else than the step of one"), (float("nan"), "finite")]
)
def test_a_step_that_computes_something_else_is_refused(
    speculation: Speculation, factor: float, sentence: str
) -> None:
    speculation.prepare(64)
    module = speculation.decoder.step(3).module

    def wrong(tokens: torch.Tensor, position: torch.Tensor, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        report, logits, *gated_delta = module(tokens, position, *state)
        return report, logits * factor, *gated_delta

    speculation.decoder.built[256, 3] = BuiltStep(module, wrong, {})
    with pytest.raises(Infeasible, match=sentence) as told:
        check_drafting(speculation, REQUESTS)
    assert told.value.kind == "crashed"


def test_a_step_of_other_logits_does_not_excuse_its_own_faults_as_near_ties(speculation: Speculation) -> None:
    """It chooses the same tokens, so that nothing flips, but its gaps are far from those of one token."""
    speculation.prepare(64)
    module = speculation.decoder.step(3).module

    def forgetful_and_louder(
        tokens: torch.Tensor, position: torch.Tensor, *state: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        report, logits, *gated_delta = module(tokens, position, *state)
        gated_delta[1::2] = [states[-1:].expand_as(states) for states in gated_delta[1::2]]
        return report, 3 * logits, *gated_delta

    speculation.decoder.built[256, 3] = BuiltStep(module, forgetful_and_louder, {})
    checks = check_drafting(speculation, REQUESTS)
    assert {check.near_tie_logits for check in checks} == {NEAR_TIE_LOGITS_MAX[torch.float32]}
    assert sum(check.flips_without_draft for check in checks) == 0
    assert sum(check.divergences for check in checks) > 0


@pytest.mark.usefixtures("every_text_in_doubt")
def test_one_turned_token_in_thirty_is_more_than_float32_explains(speculation: Speculation) -> None:
    speculation.prepare(64)
    module = speculation.decoder.step(3).module

    def wrong_once(
        tokens: torch.Tensor, position: torch.Tensor, *state: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        report, logits, *gated_delta = module(tokens, position, *state)
        if int(position) == 12:
            logits = torch.cat([-logits[:1], logits[1:]])
        return report, logits, *gated_delta

    speculation.decoder.built[256, 3] = BuiltStep(module, wrong_once, {})
    with pytest.raises(Infeasible, match="chooses another token at 3 of 87 positions"):
        check_drafting(speculation, REQUESTS)
    (alone,) = check_drafting(speculation, REQUESTS[:1])
    assert alone.flips_without_draft == 1, "a single one is no share to judge by"


def test_every_dtype_that_a_launch_may_have_has_its_limits() -> None:
    assert NEAR_TIE_LOGITS_MAX.keys() == FLIPS_SHARE_MAX.keys() == DOUBT_LOGITS.keys() == set(DTYPES.values())


def test_one_wrong_token_is_one_divergence_and_a_tied_one_a_near_tie() -> None:
    request = REQUESTS[0]
    model = tiny_model(layers=LAYERS).requires_grad_(False)
    decoder = Decoder(model, "off", Path("unused"), step_tokens=(3,))
    drafter = DraftModelDrafter(Decoder(model, "off", Path("unused")), 2, DrafterSource(Path("itself"), ""))
    speculation = LastTokenOf(decoder, drafter, DraftingOrder("draft_model", 2))
    said = Speculation(decoder, drafter, speculation.order).generate(request).token_ids
    unsaid = set(range(said[-1] + 1, 512)) - {*said, *request.prompt_ids}
    speculation.last = min(unsaid)
    (check,) = check_drafting(speculation, [request])
    assert (check.divergences, check.near_ties) == (1, 0)
    model.model.embed_tokens.weight[speculation.last] = model.model.embed_tokens.weight[said[-1]]
    (check,) = check_drafting(speculation, [request])  # now the two tokens always score alike
    assert (check.divergences, check.near_ties) == (0, 1)


def test_a_head_whose_drafts_hardly_ever_stand_is_refused_after_steps_enough(tmp_path: Path) -> None:
    _, speculation = with_and_without(write_target(tmp_path / "target"), DraftingOrder("mtp", 1))
    few = [GenerationRequest("a", prompt(0, 12), 15)]
    assert check_drafting(speculation, few)[0].divergences == 0
    with pytest.raises(Infeasible, match="acceptance length is 1") as told:
        check_drafting(speculation, REQUESTS)
    assert told.value.kind == "illegal"
