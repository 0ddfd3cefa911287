"""Which part of the model a kernel belongs to, by its name and its place in the step. Pure; imports no torch.

`FAMILIES` is the one place where names of kernels stand. They are those of vLLM 0.26 to 0.33, of the
libraries that it calls and of the code that its compiler writes, and of the operators of vLLM on a CPU.
A name that nothing here knows is of the part `other`, and is told with its time.

A matrix product's name tells its library, not whose weights it reads: which linear layer it is follows from
the order in which the model has them, and what is queued for the output head is marked (`kernel_steps.py`).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from statistics import median_low

from experiments.engines.vllm.kernel_steps import Kernel, Region, Step
from experiments.measurement.evidence import Json


class Family(StrEnum):
    """What a kernel does."""

    GDN_STATE = "gdn_state"
    CONV1D = "conv1d"
    ATTENTION = "attention"
    GEMM = "gemm"
    GEMM_END = "gemm_end"
    """Ends the matrix product before it: sums what its blocks computed apart."""
    EXPERTS = "experts"
    """Routes tokens to the experts of a Mixture of Experts, or multiplies these."""
    SMALL = "small"
    OTHER = "other"


_FAMILIES: tuple[tuple[Family, str], ...] = (
    # what vLLM's compiler writes is named for all that was fused, products around it included
    (Family.SMALL, r"^triton_(poi|red|per|for)_fused"),
    (
        Family.EXPERTS,
        r"moe|expert|topk_?gating|grouped_?topk|batched_triton_kernel|group_?problem_?shape|expand_?input_?rows",
    ),
    (Family.CONV1D, r"causal_conv1d|conv1d_update|short_conv"),
    (
        Family.GDN_STATE,
        r"delta_rule|gdn(?!.*norm)|fused_recurrent|recompute_w_u|chunk_fwd_kernel_o|chunk_local_cumsum"
        r"|scaled_dot_kkt|solve_tril|_inverse_kernel|fused_post_conv|kda_|mamba_state|selective_s(can|tate)",
    ),
    (
        Family.ATTENTION,
        r"flash(?!infer.*(norm|quant))|fmha|unified_attention|reduce_segments|reshape_and_cache|concat_and_cache"
        r"|paged_attention|paged_kv|merge_attn|attention_with_kv|batch_?decode|batch_?prefill"
        r"|prepare_varlen_num_blocks|kv_cache_update|get_scheduler_metadata|_fwd_(grouped_)?kernel_stage|cpu_attention|scaled_dot_product",
    ),
    (Family.GEMM_END, r"split_?k_?reduce|splitkreduce|reduce_1block|gemvnspv?_reduce|marlin.*reduce"),
    (
        # a norm or a change of format around a product has the product's words in its name at times
        Family.SMALL,
        r"rms_?norm|layer_?norm|l2norm|permute_cols|(quant|cast|scale)_(fp8|int8)|scaled_(fp8|int8)_quant"
        r"|dynamic_(per_token_)?scaled|absmax|group_quant|per_token_quant|quantize_|rotary|rope"
        r"|process_input_kernel|do_?activation|group_token_scales",
    ),
    (
        Family.GEMM,
        r"gemm|gemv|nvjet|cutlass|cublas|marlin|machete|xmma|_mm(_|\b|<)|matmul|triton_tem|w4a16|w8a8|awq"
        r"|ll_bf16|dot_kernel|dotprod|deep_?gemm|allspark|exllama|humming|packed_linear|aten::(mm|bmm|addmm|linear|matmul)"
        r"|onednn|wvsplitk|splitk",
    ),
    (
        Family.SMALL,
        r"elementwise|vectorized|memcpy|memset|copy|fill|cat(array|_)|index|gather"
        r"|scatter|act_and_mul|silu|gelu|sigmoid|softplus|reduce_kernel|arange|cumsum|slot_mapping|embedding"
        r"|transpose|where|zero|mrope|block_table|aten::|eagle_|prepare_.*kernel|_kernel_batched|cub::"
        r"|pos_seq_lens|idx_mapping|state_indices|mamba_align|_post_update|_apply_write|combine_sampled"
        r"|num_sampled|scan_kernel",
    ),
)

_SUM_OF_EXPERTS = re.compile(r"moe_fused_mul_sum|moe_sum|unpermute|finalize_?moe", re.IGNORECASE)
"""Adds up what a token's experts gave: the last kernel that a layer's experts run."""

_PRODUCTS_OF_EXPERTS = 2
"""In a layer: gate and up as one, and down."""

FAMILIES = tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern in _FAMILIES)
"""Patterns of names, the first that is found in a name decides."""

GATES = "in_proj_ba"
"""The linear layer that gives a GatedDeltaNet layer's two gates: small, and never quantized."""

LAYERS = "layers"
"""The part of a matrix product of the layers of which it is not known which linear layer it is."""

KINDS = {
    GATES: GATES,
    "experts": "experts",
    "lm_head": "lm_head",
    "gdn_state": "gdn_state",
    "conv1d": "conv1d",
    "attention": "attention",
    "small": "small",
    "sampling": "sampling",
    "draft": "draft",
    "other": "other",
    "outside": "outside",
}
"""The kind of each part; a part that is not here is a linear layer, of the kind `gemm`."""


def family_of(name: str) -> Family:
    """What a kernel of this name does."""
    return next((family for family, pattern in FAMILIES if pattern.search(name)), Family.OTHER)


def kind_of(part: str) -> str:
    """The kind of a part."""
    return KINDS.get(part, "gemm")


def parts_of_step(step: Step, linears: Sequence[str]) -> list[str]:
    """The part of each kernel of a step.

    `linears` are the classes of the model's linear layers (`in_proj_qkvz`, `down_proj` …) in the order in
    which a step calls them, the output head not among them. Where a step has as many matrix products as
    there are linear layers, they are theirs in turn. Where not, the last one before a convolution is
    `in_proj_ba`, and the others are `layers`.
    """
    found = [_by_region(kernel) for kernel in step]
    for place in _products_of_experts(step, found, len(linears)):
        found[place] = Family.EXPERTS
    products = [place for place, part in enumerate(found) if part == Family.GEMM]
    if len(products) == len(linears):
        for place, linear in zip(products, linears, strict=True):
            found[place] = linear
    else:
        for place in products:
            found[place] = LAYERS
        for place, part in enumerate(found):
            before = [each for each in products if each < place]
            if part == Family.CONV1D and before:
                found[before[-1]] = GATES
    for place, part in enumerate(found):
        if part == Family.GEMM_END:
            found[place] = next((found[p] for p in reversed(products) if p < place), Family.OTHER.value)
    return found


def _products_of_experts(step: Step, found: Sequence[str], linears: int) -> list[int]:
    """The places of matrix products of experts whose kernel's name does not say that they are.

    Humming multiplies dense weights and experts by a kernel of one name. Of a layer's experts two products
    run and then the sum of what they gave; a shared expert runs beside them on a stream of its own, from
    earlier on. So they are the last two products before each sum, if just as many are too many for the
    linear layers, and by kernels (of a shape and a tile) that compute nothing else. Where that does not
    agree, as where a shared expert was late, nothing is known and none is given.
    """
    products = [place for place, part in enumerate(found) if part == Family.GEMM]
    sums = [
        place
        for place, (kernel, part) in enumerate(zip(step, found, strict=True))
        if part == Family.EXPERTS and _SUM_OF_EXPERTS.search(kernel.name)
    ]
    if not sums or len(products) - linears != _PRODUCTS_OF_EXPERTS * len(sums):
        return []
    last = [products[: bisect_left(products, place)][-_PRODUCTS_OF_EXPERTS:] for place in sums]
    places = sorted({place for each in last for place in each})
    kernels, others = ({step[each].name for each in of} for of in (places, {*products}.difference(places)))
    return places if len(places) == _PRODUCTS_OF_EXPERTS * len(sums) and not kernels & others else []


def _by_region(kernel: Kernel) -> str:
    match kernel.region:
        case Region.HEAD:
            return "lm_head"
        case Region.DRAFTING:
            return "draft"
        case Region.SAMPLING | Region.BETWEEN:
            return "sampling"
    return family_of(kernel.name).value


@dataclass(frozen=True)
class KernelTime:
    """A kernel by name, place and part: calls and microseconds in a typical step."""

    name: str
    region: Region
    part: str
    grid: tuple[int, ...]
    launches: int
    us: float

    def data(self) -> dict[str, Json]:
        """It as plain data."""
        return {**asdict(self), "region": self.region.value, "grid": list(self.grid)}


def typical(steps: Sequence[Step]) -> list[Step]:
    """The steps that ran the same kernels in the same order as most others did.

    Copies are not compared: those to the host overlap with what follows, each time in another place.
    """
    orders = [tuple((each.name, each.region) for each in step if not _is_copy(each)) for step in steps]
    (order, _), *_ = Counter(orders).most_common(1)
    return [step for step, each in zip(steps, orders, strict=True) if each == order]


def kernel_times(steps: Sequence[Step], linears: Sequence[str]) -> list[KernelTime]:
    """The kernels of a typical step, those that take longest first; `steps` as `typical` gives them.

    Each kernel's time is its (lower) median over the steps, place by place, for on a GPU that others use too
    single kernels stall for a millisecond. Of copies each step's sum by name is taken, and its median.
    """
    parts = parts_of_step(steps[0], linears)
    ran = [[each for each in step if not _is_copy(each)] for step in steps]
    places = [part for each, part in zip(steps[0], parts, strict=True) if not _is_copy(each)]
    launches: Counter[_Key] = Counter()
    us: defaultdict[_Key, float] = defaultdict(float)
    for place, part in enumerate(places):
        key = (ran[0][place].name, ran[0][place].region, part, ran[0][place].grid)
        launches[key] += 1
        us[key] += median_low(step[place].own_us for step in ran)
    for key in dict.fromkeys(_copy_key(each) for step in steps for each in step if _is_copy(each)):
        found = [
            [each.own_us for each in step if _is_copy(each) and _copy_key(each) == key] for step in steps
        ]
        launches[key] += round(median_low(map(len, found)))
        us[key] += median_low(map(math.fsum, found))
    times = [KernelTime(*key, launches[key], us[key]) for key in launches if launches[key]]
    return sorted(times, key=lambda each: (-each.us, each.name, each.part))


_Key = tuple[str, Region, str, tuple[int, ...]]


def _is_copy(kernel: Kernel) -> bool:
    return kernel.name.startswith(("Memcpy", "Memset"))


def _copy_key(kernel: Kernel) -> _Key:
    return kernel.name, kernel.region, _by_region(kernel), ()
