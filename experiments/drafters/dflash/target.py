"""The target beside a drafter: loading it, the check that the two fit, the reading of its hidden states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import torch
from torch import Tensor, nn
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.drafters.dflash.files import for_pruned_target
from experiments.drafters.dflash.fitting import TargetSizes, check_same_model, layers_to_remap_by
from experiments.drafters.dflash.network import DFlashNetwork
from experiments.engines.port import Infeasible
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.reference_model.scores import LoadedCheckpoint

FLOAT32_MAX_PARAMETERS = 1_000_000_000
"""A target with more runs in bfloat16 on a GPU: a billion weights in float32 are 4 GB, and slow."""


def load_target(checkpoint: Path, device: torch.device) -> LoadedCheckpoint:
    """Load a target with its tokenizer, for inference; without its MTP head.

    In float32, which the reference engine serves on a CPU; in bfloat16 where it is large and on a GPU.

    Raises:
        Infeasible: kind `checkpoint`, when it can't be loaded or has no `tokenizer.json`; `unsupported`, for
        a Mixture of Experts.
    """
    from transformers import AutoTokenizer

    files = inspect_checkpoint(checkpoint)
    if files.has_experts:
        raise Infeasible(
            "unsupported",
            f"The checkpoint at {checkpoint} is of a Mixture of Experts, for which no drafter is trained "
            "here yet: draft with its own MTP head (drafting.method=mtp) or a draft model.",
        )
    if not (checkpoint / "tokenizer.json").is_file():
        raise Infeasible("checkpoint", f"The checkpoint at {checkpoint} has no tokenizer.json.")
    dtype = torch.float32
    if device.type == "cuda" and _parameters(files.weight_files) > FLOAT32_MAX_PARAMETERS:
        dtype = torch.bfloat16
    return LoadedCheckpoint(load_model(files, dtype, device), AutoTokenizer.from_pretrained(checkpoint), None)


def _parameters(weight_files: Sequence[Path]) -> int:
    """Return about how many weights the files hold, as if all were of two bytes."""
    return sum(path.stat().st_size for path in weight_files) // 2


def fitted(
    network: DFlashNetwork, target: Qwen3_5ForCausalLM, folder: Path, kept_layers: Sequence[int] | None
) -> DFlashNetwork:
    """Return the drafter as it reads this target, on its device and in its dtype.

    Args:
        folder: where the drafter lies, for messages.
        kept_layers: after depth pruning, which layers of the whole target are left, in order. They are not
            needed by a drafter that was made for the pruned target: one that tells of as many layers.

    Raises:
        Infeasible: kind `checkpoint`, when it was made for another target.
    """
    config = target.config
    sizes = TargetSizes(
        config.vocab_size,
        config.hidden_size,
        config.num_hidden_layers,
        None if kept_layers is None else tuple(kept_layers),
    )
    check_same_model(network.shape, sizes, folder)
    if (kept := layers_to_remap_by(network.shape, sizes, folder)) is not None:
        network = for_pruned_target(network, kept)
    return network.to(target.device, target.dtype)


class FeatureTap:
    """Reads the streams after some of a target's layers while it runs; a context manager.

    ```python
    with FeatureTap(target, drafter.target_layer_ids) as tap:
        target(ids)
        features = tap.features()  # (batch, positions, layers read × hidden)
    ```
    """

    def __init__(self, target: Qwen3_5ForCausalLM, layer_ids: Sequence[int]) -> None:
        self._layers: list[nn.Module] = [target.model.layers[index] for index in layer_ids]
        self._streams: dict[int, Tensor] = {}
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []

    def __enter__(self) -> FeatureTap:
        for place, layer in enumerate(self._layers):
            self._hooks.append(layer.register_forward_hook(self._keeper(place)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._streams.clear()

    def _keeper(self, place: int) -> Callable[[nn.Module, object, Tensor], None]:
        def keep(_module: nn.Module, _inputs: object, output: Tensor) -> None:
            self._streams[place] = output

        return keep

    def features(self) -> Tensor:
        """Return the streams of the last run, joined in the order of the layers."""
        return torch.cat([self._streams[place] for place in range(len(self._layers))], dim=-1)
