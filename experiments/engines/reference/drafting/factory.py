"""Makes what a launch decodes with: the target's decoder, and a drafter where the order has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.order import DraftingOrder, check_drafter, drafter_source
from experiments.engines.reference.drafting.port import Drafter
from experiments.engines.reference.drafting.speculation import Speculation
from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint
from experiments.engines.reference.mtp_head import load_head
from experiments.stages.pruning.layer_removal import KEPT_LAYERS


def decoder_for(
    model: Qwen3_5ForCausalLM, files: CheckpointFiles, mode: str, cache_dir: Path, order: DraftingOrder
) -> tuple[Decoder, Speculation | None]:
    """The decoder of a loaded target, and the speculation around it where the order drafts.

    Raises:
        Infeasible: as `check_drafter`; kind `checkpoint` when the drafter's weights can't be loaded.
    """
    if not order.active:
        return Decoder(model, mode, cache_dir), None
    check_drafter(order, files)
    decoder, drafter = _BUILDERS[order.method](model, files, mode, cache_dir, order)
    return decoder, Speculation(decoder, drafter, order)


def _mtp(
    model: Qwen3_5ForCausalLM, files: CheckpointFiles, mode: str, cache_dir: Path, order: DraftingOrder
) -> tuple[Decoder, Drafter]:
    from experiments.engines.reference.drafting.mtp import MtpDrafter

    head = load_head(files, model)
    decoder = Decoder(model, mode, cache_dir, step_tokens=(order.draft_tokens + 1,), head=head)
    return decoder, MtpDrafter(decoder, order.draft_tokens)


def _ngram(
    model: Qwen3_5ForCausalLM, files: CheckpointFiles, mode: str, cache_dir: Path, order: DraftingOrder
) -> tuple[Decoder, Drafter]:
    from experiments.engines.reference.drafting.ngram import NgramDrafter

    decoder = Decoder(model, mode, cache_dir, step_tokens=(1, order.draft_tokens + 1))
    return decoder, NgramDrafter(order.ngram_tokens, order.draft_tokens)


def _draft_model(
    model: Qwen3_5ForCausalLM, files: CheckpointFiles, mode: str, cache_dir: Path, order: DraftingOrder
) -> tuple[Decoder, Drafter]:
    from experiments.engines.reference.drafting.draft_model import DraftModelDrafter

    source = drafter_source(order)
    drafting = load_model(inspect_checkpoint(source.folder), model.dtype, model.device)
    return (
        Decoder(model, mode, cache_dir, step_tokens=(order.draft_tokens + 1,)),
        DraftModelDrafter(Decoder(drafting, mode, cache_dir), order.draft_tokens, source),
    )


def _dflash(
    model: Qwen3_5ForCausalLM, files: CheckpointFiles, mode: str, cache_dir: Path, order: DraftingOrder
) -> tuple[Decoder, Drafter]:
    from experiments.drafters.port import load_drafter
    from experiments.engines.reference.drafting.dflash import DFlashAdapter

    source = drafter_source(order)
    loaded = load_drafter(source.folder, model, files.text_config.get(KEPT_LAYERS))
    drafter = DFlashAdapter(loaded, order.draft_tokens, source, model.dtype.itemsize)
    decoder = Decoder(
        model,
        mode,
        cache_dir,
        step_tokens=(order.draft_tokens + 1,),
        feature_layers=drafter.feature_layers,
    )
    return decoder, drafter


_Builder = Callable[[Qwen3_5ForCausalLM, CheckpointFiles, str, Path, DraftingOrder], tuple[Decoder, Drafter]]

_BUILDERS: Mapping[str, _Builder] = {
    "mtp": _mtp,
    "ngram": _ngram,
    "draft_model": _draft_model,
    "dflash": _dflash,
}
"""By `drafting.method`."""
