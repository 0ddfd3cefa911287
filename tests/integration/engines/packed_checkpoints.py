"""Checkpoints quantized by hand: integers are drawn, packed word by word with plain Python, and remembered.

The packing here shares no code with what unpacks: `(w = (q − zero) · scale)` is computed from the integers.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

GROUP = 16


def by_hand(
    folder: Path,
    pack: Callable[..., dict[str, torch.Tensor]],
    quantization: dict[str, object],
    *,
    with_head: bool = False,
    **asked: object,
) -> dict[str, torch.Tensor]:
    """Replace every `…_proj.weight` of a checkpoint in one file but in_proj_a/b by packed integers, those of
    the MTP head only where asked to.

    Returns what each weight must be after dequantization, by its stored name.
    """
    random = np.random.default_rng(5)
    tensors, expected = load_file(folder / "model.safetensors"), dict[str, torch.Tensor]()
    for name in sorted(tensors):
        module = name.removesuffix(".weight")
        if not module.endswith("_proj") or (module.startswith("mtp.") and not with_head):
            continue
        outputs, inputs = tensors.pop(name).shape
        parts, expected[name] = drawn(random, pack, outputs, inputs, **asked)
        tensors |= {f"{module}.{end}": part for end, part in parts.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": quantization}))
    return expected


def drawn(
    random: np.random.Generator,
    pack: Callable[..., dict[str, torch.Tensor]],
    outputs: int,
    inputs: int,
    *,
    bits: int = 4,
    symmetric: bool = False,
    scale_dtype: torch.dtype = torch.float16,
    group: int = GROUP,
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """One module's packed parts and the weight that they stand for, from unsigned integers."""
    groups = inputs // group
    integers = random.integers(0, 2**bits, (outputs, inputs))
    zeros = np.full((outputs, groups), 2 ** (bits - 1))
    if not symmetric:
        zeros = random.integers(0, 2**bits, (outputs, groups))
    scales = torch.tensor(random.uniform(0.01, 0.02, (outputs, groups)) * 16 / 2**bits).to(scale_dtype)
    weight = np.empty((outputs, inputs), np.float32)
    for column in range(inputs):
        at = column // group
        scale = scales[:, at].float().numpy()
        weight[:, column] = (integers[:, column] - zeros[:, at]).astype(np.float32) * scale
    return pack(integers, zeros, scales, bits, symmetric), torch.from_numpy(weight)


def words(integers: np.ndarray, bits: int, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """Rows of unsigned integers as rows of 32-bit words; `order` says which column goes to which place."""
    a_word = 32 // bits
    order = order or tuple(range(a_word))
    rows = []
    for row in integers.tolist():
        row += [0] * (-len(row) % a_word)
        rows.append(
            [
                sum(row[start + column] << (bits * place) for place, column in enumerate(order))
                for start in range(0, len(row), a_word)
            ]
        )
    return torch.from_numpy(np.array(rows, np.uint32).view(np.int32).copy())


def pack_quantized(
    integers: np.ndarray, zeros: np.ndarray, scales: torch.Tensor, bits: int, symmetric: bool
) -> dict[str, torch.Tensor]:
    parts = {
        "weight_packed": words(integers, bits),
        "weight_scale": scales,
        "weight_shape": torch.tensor(integers.shape),
    }
    if not symmetric:
        parts["weight_zero_point"] = words(zeros.T, bits).T.contiguous()
    return parts


def awq_gemm(
    integers: np.ndarray, zeros: np.ndarray, scales: torch.Tensor, bits: int, symmetric: bool
) -> dict[str, torch.Tensor]:
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    return {
        "qweight": words(integers.T, bits, order),
        "qzeros": words(zeros.T, bits, order),
        "scales": scales.T.contiguous(),
    }


def compressed_tensors_config(
    bits: int = 4, symmetric: bool = False, group: int = GROUP
) -> dict[str, object]:
    weights = {
        "num_bits": bits,
        "type": "int",
        "symmetric": symmetric,
        "strategy": "group",
        "group_size": group,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {
            "group_0": {
                "targets": ["re:.*(self_attn|mlp)\\..*_proj$", "re:.*linear_attn\\.out_proj$"],
                "weights": weights,
            }
        },
        "ignore": ["lm_head"],
    }


AWQ_CONFIG: dict[str, object] = {
    "quant_method": "awq",
    "bits": 4,
    "group_size": GROUP,
    "version": "gemm",
    "zero_point": True,
}


def write_gptq(source: Path, folder: Path, group_size: int = 128) -> Path:
    """The checkpoint in `source` with the products of its MLPs rounded to 4 bits, packed as GPTQ's files are,
    a layout that vLLM reads and autoinfer does not; into the new folder `folder`, which is returned."""
    shutil.copytree(source, folder)
    path, config = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    tensors = load_file(path)
    for name in [each for each in tensors if ".mlp." in each and not each.startswith("mtp.")]:
        inputs_first = tensors.pop(name).float().T
        inputs, outputs = inputs_first.shape
        grouped = inputs_first.reshape(inputs // group_size, group_size, outputs)
        scales = (grouped.abs().amax(dim=1) / 7).clamp(min=1e-8)
        integers = ((grouped / scales[:, None]).round().clamp(-8, 7) + 8).reshape(inputs, outputs)
        module = name.removesuffix(".weight")
        tensors[f"{module}.qweight"] = words(integers.T.to(torch.int64).numpy(), 4).T.contiguous()
        tensors[f"{module}.qzeros"] = torch.full(
            (inputs // group_size, outputs // 8), 0x77777777, dtype=torch.int32
        )
        tensors[f"{module}.scales"] = scales.to(torch.float16)
        tensors[f"{module}.g_idx"] = (torch.arange(inputs) // group_size).to(torch.int32)
    save_file(tensors, path, metadata={"format": "pt"})
    others = {"-:.*linear_attn.*": {}, "-:.*self_attn.*": {}, "-:.*mtp.*": {}}
    config["quantization_config"] = {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": group_size,
        "desc_act": False,
        "sym": True,
        "lm_head": False,
        "dynamic": others,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder
