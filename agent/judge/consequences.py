"""What a claimed change explains of a difference between two resolved configurations. Pure.

A resolved key is split into words (`kernels.linear_kernel` → kernels, linear, kernel). A change explains a
key

- that its own knob pins, as the space declares (`Knob.pins`), or
- that is named as the knob is: with all words of a name of several words (`serving.linear_kernel` explains
  `linear_kernel`); with a name of one word where the key names the knob's group too (`drafting.method`), or,
  of a `serving` knob, begins with it (`dtype`), or
- that holds all words of a phrase which `CONSEQUENCES` gives to the knob, or that `AHEAD_OF_NGRAMS` names
  where drafting by n-grams is begun or left, or
- that names a kernel which the change cannot leave alone: turning quantization on or off changes the kernel
  of linear layers, because no kernel serves both formats; drafting verifies several tokens at once, by other
  kernels than one.

What is not among these is no consequence, however plausible: another group size may well run on another
kernel, and that kernel is then a cause of its own. So is a drafter that differs where the target was changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from experiments.space.configuration import Change
from experiments.space.steps_ahead_rules import DRAFTING, NGRAM

Phrases = tuple[frozenset[str], ...]


def _phrases(*told: str) -> Phrases:
    return tuple(frozenset(phrase.split()) for phrase in told)


_STORED = _phrases("weights stored", "bits weight", "bits weights", "bytes", "checkpoint")
"""How weights lie in the files."""

_FEWER_LAYERS = (
    *_phrases("pruning", "pruned", "removed", "layers", "parameters", "target layers drafter"),
    *_STORED,
)

_CAPTURED = _phrases("max graph tokens")
"""The largest captured step: vLLM makes it by how many tokens its requests at once decode, and no larger than
a step is at most."""

_STEPS = (*_phrases("capacity", "graphs", "recompilations"), *_CAPTURED)
"""Steps that are built for other numbers of tokens."""

_PAGES = _phrases("cache block tokens")
"""vLLM makes a page of keys and values as large as a GatedDeltaNet state with the window before it: their
types decide its tokens, and so does over how many drafts the window reaches (on an H200, 9B's shape: 528
without drafts and with one, 544 with two)."""

_VERIFIED = _phrases("gdn decode")
"""What verifies drafts in GatedDeltaNet layers: nothing does without drafts, vLLM's CUDA kernel takes seven
at most (0.33), and computes in bfloat16 alone."""

CONSEQUENCES: Mapping[str, Phrases] = {
    "serving.dtype": _phrases(
        *("dtype", "precision", "bytes", "weights served", "drafter bytes", "drafter dtype"),
        "gdn decode",
    ),
    "serving.weight_dtype": _phrases(
        "linear kernel", "experts kernel", "bytes", "weights served", "weights dtype"
    ),
    "serving.threads": _phrases("threads", "affinity", "cpus", "cores"),
    "serving.compile": _phrases(
        "compile",
        "compiled",
        "inductor",
        "graph",
        "graphs",
        "cudagraph",
        "cudagraphs",
        "recompilations",
        "verify mode drafting",
    ),
    "serving.graph_mode": _phrases("compile", "graph", "graphs", "cudagraph", "cudagraphs"),
    "serving.max_graph_tokens": _phrases("graph", "graphs", "cudagraph", "cudagraphs"),
    "serving.linear_backend": _phrases("linear kernel", "loaded bytes", "weights dtype"),
    "serving.moe_backend": _phrases("experts kernel", "loaded bytes", "weights dtype"),
    "serving.max_model_len": (*_phrases("max batch tokens"), *_CAPTURED),
    "serving.max_sequences": (*_phrases("max batch tokens"), *_CAPTURED),
    "serving.chunked_prefill": (*_phrases("max batch tokens"), *_CAPTURED),
    "serving.max_batch_tokens": (*_phrases("max batch tokens"), *_CAPTURED),
    "serving.kv_cache_dtype": _PAGES,
    "serving.gdn_state_dtype": _PAGES,
    "serving.prefix_caching": _PAGES,
    "serving.gdn_prefill_backend": _phrases("gdn prefill"),
    "serving.gdn_decode_kernel": _phrases("gdn decode"),
    "serving.async_scheduling": _phrases("async scheduling"),
    "pruning.method": _FEWER_LAYERS,
    "pruning.layers_removed": _FEWER_LAYERS,
    "pruning.criterion": _FEWER_LAYERS,
    "pruning.restrict": _FEWER_LAYERS,
    "pruning.ranked_on": _FEWER_LAYERS,
    "pruning.order": _FEWER_LAYERS,
    "quantization.method": (*_phrases("quantization", "quantized"), *_STORED),
    "quantization.bits": _STORED,
    "quantization.group_size": (*_phrases("quantization group"), *_STORED),
    "quantization.symmetric": _STORED,
    "quantization.out_proj_bits": _STORED,
    "quantization.lm_head": (*_phrases("parameters"), *_STORED),
    "quantization.keep": _STORED,
    "quantization.corpus": _phrases("checkpoint"),
    "quantization.samples": _phrases("checkpoint"),
    "quantization.sample_tokens": _phrases("checkpoint"),
    "quantization.seed": _phrases("checkpoint"),
    "drafting.method": (
        *_phrases("drafting", "draft", "drafter", "speculative"),
        *_VERIFIED,
        *_STEPS,
        *_PAGES,
    ),
    "drafting.draft_tokens": (
        *_phrases("verify tokens drafting", "speculative tokens"),
        *_VERIFIED,
        *_STEPS,
        *_PAGES,
    ),
    "drafting.ngram_tokens": _STEPS,
    "drafting.drafter": (*_phrases("drafter", "draft model"), *_STEPS),
    "drafting.lm_head": _phrases("drafter lm head"),
}
"""For a knob, phrases: a resolved key that holds all words of one is explained by its change. `parameters` of
a quantized head: it is no longer tied to the embedding. `loaded bytes` and `weights dtype`
of a linear backend: kernels lay the same weights out otherwise as they are loaded (on an H200 Machete took
1 % more than Marlin; with vLLM 0.33 Machete, Marlin and Triton keep an int64 beside them, Humming none)."""

TEXT_KNOBS = frozenset(knob for knob, told in CONSEQUENCES.items() if told == _phrases("checkpoint"))
"""Knobs whose change gives the weights other values and nothing else: what one setting of them runs, another
runs too."""

SWITCHED: Phrases = _phrases("dtype", "weights", "representative", "reason")
"""What turning quantization on or off explains besides."""

STATE_WORDS = frozenset({"kv", "cache", "state"})
"""Words of keys about what is kept between steps: the format of weights is none of it."""

DRAFTER_WORDS = frozenset({"drafting", "draft", "drafter", "speculative"})
"""Words of keys about what drafts: a phrase explains such a key only if it names one of them too."""

KERNEL_WORDS = frozenset({"kernel", "kernels"})

LINEAR_WORDS = frozenset({"linear", "gemm", "matmul"})
"""Words of keys that name what multiplies weights."""

OTHER_KERNELS = frozenset({"attention", "gdn", "conv", "conv1d", "sampler", "sampling", "norm", "prefill"})
"""Words of keys that name kernels which never touch quantized weights."""

VERSION_WORDS = frozenset({"version", "versions"})
"""Words of keys about what is installed, which no knob changes."""

VERIFYING = frozenset({"drafting.method", "drafting.draft_tokens"})
"""Knobs that decide how many tokens a step verifies."""

AHEAD_OF_NGRAMS = frozenset({"async", "scheduling"})
"""Words of the key that drafting by n-grams explains besides: with it vLLM before 0.33 schedules no step
ahead (`experiments/space/steps_ahead_rules.py`)."""

OFF = (None, "none", "off")
"""Values of a group's `method` at which it does nothing."""


def words(key: str) -> frozenset[str]:
    """The words of a dotted key or knob name."""
    return frozenset(key.lower().replace(".", "_").replace("-", "_").split("_"))


def explained(key: str, changes: Iterable[Change], pinned: Collection[str] = ()) -> bool:
    """Whether the claimed changes explain that the arms differ at `key`.

    `pinned` are the keys that the changed knobs pin: such a key, and everything below it, is explained.
    """
    if any(key == each or key.startswith(f"{each}.") for each in pinned):
        return True
    found = words(key)
    return any(_named(change.knob, key, found) or _follows(change, found) for change in changes)


def _named(knob: str, key: str, found: frozenset[str]) -> bool:
    """Whether the key is named as the knob is."""
    group, _, name = knob.rpartition(".")
    own = words(name)
    if not own <= found:
        return False
    return len(own) > 1 or words(group) <= found or (group == "serving" and key.partition(".")[0] == name)


def _follows(change: Change, found: frozenset[str]) -> bool:
    """Whether the key is a consequence of the change; another version of anything is of none."""
    if found & VERSION_WORDS:
        return False
    phrases = CONSEQUENCES.get(change.knob, ())
    if any(phrase <= found and (phrase & DRAFTER_WORDS or not found & DRAFTER_WORDS) for phrase in phrases):
        return True
    if change.knob == "quantization.method" and _switches(change) and not found & DRAFTER_WORDS:
        told = any(phrase <= found for phrase in SWITCHED)
        return _is_linear_kernel(found) or (told and not found & STATE_WORDS)
    if change.knob == DRAFTING and NGRAM in (change.before, change.after) and found >= AHEAD_OF_NGRAMS:
        return True
    if change.knob in VERIFYING:
        return bool(found & KERNEL_WORDS) and not found & LINEAR_WORDS
    return False


def is_linear_kernel(key: str) -> bool:
    """Whether the key names the kernel of linear layers."""
    return _is_linear_kernel(words(key))


def follows_from_linear_kernel(key: str) -> bool:
    """Whether the kernel of linear layers decides it: how the target's weights lie once they are loaded."""
    found = words(key)
    phrases = CONSEQUENCES["serving.linear_backend"]
    return not found & DRAFTER_WORDS and any(each <= found for each in phrases) and not is_linear_kernel(key)


def _switches(change: Change) -> bool:
    return (change.before in OFF) != (change.after in OFF)


def _is_linear_kernel(found: frozenset[str]) -> bool:
    return bool(found & LINEAR_WORDS) or bool(found & KERNEL_WORDS and not found & OTHER_KERNELS)
