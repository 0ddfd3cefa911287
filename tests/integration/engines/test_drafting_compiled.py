"""Compiled, a step with an MTP head in it gives the eager step's text, in one graph that is built once."""

from pathlib import Path

import pytest
import torch

from experiments.engines.port import GenerationRequest, ScoringDocument
from experiments.engines.reference.compile import PACKAGES_FOLDER
from experiments.engines.reference.drafting.check import check_drafting
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.drafting.speculation import Speculation
from experiments.engines.reference.resolved import resolved_configuration
from experiments.engines.reference.score import Scorer
from tests.integration.engines.checkpoints import LAYERS, tiny_model
from tests.integration.engines.drafted import with_and_without, write_target
from tests.integration.engines.test_reference_decode import prompt

REQUESTS = [GenerationRequest("a", prompt(1, 20), 7), GenerationRequest("b", prompt(2, 5), 7)]
"""Short, because drafts of a random head never stand, which the check would refuse in longer ones."""


@pytest.mark.bench_only
@pytest.mark.parametrize("mode", ["default", "cpp_wrapper"])
def test_a_compiled_step_with_a_head_gives_the_eager_text(tmp_path: Path, mode: str) -> None:
    target = write_target(tmp_path / "target", tiny_model(layers=LAYERS[:2]))
    order = DraftingOrder("mtp", 1)
    _, eager = with_and_without(target, order)
    _, compiled = with_and_without(target, order, mode=mode, cache_dir=tmp_path / "cache")
    expected = [eager.generate(request) for request in REQUESTS]
    traces = [compiled.generate(request) for request in REQUESTS]
    assert [trace.token_ids for trace in traces] == [trace.token_ids for trace in expected]
    same_logits_drafts_and_states(eager, compiled)
    _, decoded = Scorer(compiled.decoder, 2).score(
        [ScoringDocument("a", prompt(3, 150), 300)], [], None, None
    )[0]
    assert decoded.item == "decode:a"
    assert decoded.kl_nats == pytest.approx(0, abs=1e-5)
    told = resolved_configuration(compiled.decoder, compiled)["compile"]
    assert isinstance(told, dict)
    assert (told["mode"], told["used"]) == (mode, True)
    if mode == "default":
        assert (told["graph_breaks"], told["recompilations"]) == (0, 0)
        return
    assert len(list((tmp_path / "cache" / PACKAGES_FOLDER).glob("*.pt2"))) == 1, "one step, one graph"
    _, again = with_and_without(target, order, mode=mode, cache_dir=tmp_path / "cache")
    again.prepare(27)
    assert again.decoder.step(2).detail["package_reused"] is True
    checks = check_drafting(again, REQUESTS)  # builds the step of one token too
    assert all(check.divergences == 0 for check in checks)


def same_logits_drafts_and_states(eager: Speculation, compiled: Speculation) -> None:
    """Whatever is kept of a step, the next gives what it gives in eager mode."""
    tokens = (5, 6)
    for kept in (1, 2):
        outputs = []
        for speculation in (eager, compiled):
            with torch.inference_mode():
                prefilled = speculation.decoder.begin(prompt(4, 11))
                speculation.drafter.begin(prompt(4, 11), 5, prefilled)
                prefilled.sequence.read(tokens)
                prefilled.sequence.keep(kept)
                reading = prefilled.sequence.read(tokens)
                outputs.append((reading, prefilled.sequence.state))
        (one, before), (other, after) = outputs
        torch.testing.assert_close(one.logits, other.logits, atol=1e-3, rtol=0)
        assert (one.best, one.standing, one.drafts) == (other.best, other.standing, other.drafts)
        for tensor, twin in zip(before.layers, after.layers, strict=True):
            torch.testing.assert_close(tensor, twin, atol=1e-3, rtol=1e-3)
