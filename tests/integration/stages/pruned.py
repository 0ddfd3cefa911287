"""What layer removal must come to: the same model with layers taken out of its module list."""

from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from tests.integration.engines.checkpoints import LAYERS, tiny_config


def pruned_by_hand(model: Qwen3_5ForCausalLM, removed: set[int]) -> Qwen3_5ForCausalLM:
    """A model of `LAYERS` without these layers: no file is involved."""
    kept = [index for index in range(len(LAYERS)) if index not in removed]
    smaller = Qwen3_5ForCausalLM(tiny_config([LAYERS[index] for index in kept])).eval()
    state = {
        name: value for name, value in model.state_dict().items() if not name.startswith("model.layers.")
    }
    for new, old in enumerate(kept):
        for name, value in model.model.layers[old].state_dict().items():
            state[f"model.layers.{new}.{name}"] = value
    smaller.load_state_dict(state)
    return smaller
