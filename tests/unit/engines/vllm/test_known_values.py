"""Which values a version of vLLM knows, from sources in its manner and from made dictionaries."""

import stat
import sys
from pathlib import Path

import pytest

from cli.engines import values_apart
from configs.models import load_model_profile
from experiments.engines.port import Infeasible
from experiments.engines.vllm import engine as engine_module
from experiments.engines.vllm import environment as environment_module
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.known_values import KnownValues, known_values, named_by_knob
from experiments.engines.vllm.read_values import read_values
from experiments.job.named import unknown_values, version_told
from experiments.other_python import NoAnswer, answer_of
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space

SPACE = load_space("vllm")
HYBRID = load_model_profile("reference")
KNOWN = KnownValues(
    "9.9.0",
    {
        "serving.linear_backend": ("auto", "marlin", "triton", "newer"),
        "serving.graph_mode": ("none", "piecewise", "full", "full_decode_only", "full_and_piecewise"),
        "drafting.method": ("mtp", "ngram", "draft_model", "dflash"),
        "serving.weight_dtype": ("awq", "fp8"),
    },
)

SOURCES = {
    "config/cache.py": 'import torch\nCacheDType = Literal["auto", "fp8"]\nOther: int = 1\n',
    "config/speculative.py": (
        'Heads = Literal["one_mtp", "mtp"]\n'
        'Readers = Literal["eagle", Heads]\n'
        'Method = Literal["ngram", Readers, Elsewhere]\n'
        'Circle = Literal["a", Circle]\n'
    ),
    "config/compilation.py": (
        "class Mode(enum.Enum):\n    NONE = 0\n    FULL_AND_MORE = (2, 1)\n    def of(self):\n        x = 1\n"
    ),
    "kernels/linear.py": (
        "NAMES: dict[str, set[type]] = {'fast': {A, B}, 'slow': {C}, 'other': set(), **MORE}\n"
        "LISTS = {Kind.CPU: [D, E], Kind.CUDA: [B, C, D]}\nNO_DICT = 1\n"
    ),
    "envs.py": (
        "if TYPE_CHECKING:\n    A: bool = False\n"
        '    DECODES: Literal["cuda", "triton"] = "cuda"\n'
        'STARTS: Literal["fork", "spawn"] = "fork"\n'
    ),
    "engine/arg_utils.py": (
        'class Args:\n    a: int = 1\n    backend: Literal["one"] | Literal["two"] | None = None\n'
    ),
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("config/cache.py:CacheDType", ["auto", "fp8"]),
        ("config/speculative.py:Method", ["ngram", "eagle", "one_mtp", "mtp"]),
        ("config/speculative.py:Circle", ["a"]),
        ("config/compilation.py:Mode", ["none", "full_and_more"]),
        ("engine/arg_utils.py:Args.backend", ["one", "two"]),
        ("envs.py:DECODES", ["cuda", "triton"]),
        ("envs.py:STARTS", ["fork", "spawn"]),
        ("kernels/linear.py:NAMES@LISTS.CUDA", ["auto", "fast", "slow"]),
        ("kernels/linear.py:NAMES@LISTS.CPU", ["auto"]),
    ],
)
def test_literals_their_aliases_enums_and_fields_are_read_from_sources(
    package: Path, name: str, values: list[str]
) -> None:
    assert read_values(package, [name]) == {name: values}


@pytest.mark.parametrize(
    "name",
    [
        "config/gone.py:CacheDType",
        "config/cache.py:Gone",
        "config/cache.py:Other",
        "engine/arg_utils.py:Args.b",
        "kernels/linear.py:NAMES@LISTS.XPU",
        "kernels/linear.py:NAMES@GONE.CPU",
        "kernels/linear.py:NO_DICT@LISTS.CPU",
    ],
)
def test_what_a_version_does_not_have_is_left_out(package: Path, name: str) -> None:
    assert read_values(package, [name]) == {}


def test_a_value_that_this_version_does_not_know_is_told_with_what_it_has() -> None:
    assert KNOWN.why_not("serving.linear_backend", "machete") == (
        "vLLM 9.9.0 does not know serving.linear_backend=machete; it has auto, marlin, triton, newer."
    )
    unknown = KNOWN.unknown(SPACE)
    assert {value for knob, value in unknown if knob == "serving.linear_backend"} == {
        "conch",
        "exllama",
        "humming",
        "machete",
    }
    assert {knob for knob, _ in unknown} == {"serving.linear_backend"}


def test_what_is_no_name_of_vllm_s_and_what_could_not_be_read_is_held_against_nothing() -> None:
    for knob, value in (
        ("serving.linear_backend", "auto"),
        ("serving.graph_mode", "eager"),
        ("drafting.method", "none"),
        ("serving.weight_dtype", "stored"),
        ("serving.kv_cache_dtype", "anything"),
        ("serving.max_sequences", 4),
    ):
        assert KNOWN.why_not(knob, value) is None
    assert KnownValues("9.9.0", {}, "It did not answer.").unknown(SPACE) == {}


def test_what_vllm_has_and_the_space_lacks_is_named_once() -> None:
    assert KNOWN.beyond(SPACE) == {"serving.linear_backend": ("newer",)}
    told = values_apart(KNOWN, SPACE)
    assert len(told) == 5
    assert told[-1].endswith("it has serving.linear_backend newer.")
    assert values_apart(KnownValues("9.9.0", {}, "It did not answer."), SPACE) == ["It did not answer."]


def test_names_of_one_model_s_head_are_those_of_mtp() -> None:
    told = {"config/speculative.py:SpeculativeMethod": ["ngram", "some_model_mtp", "mtp"]}
    assert named_by_knob(told)["drafting.method"] == ("ngram", "mtp")


def test_a_setting_that_a_version_lacks_is_told_as_such_and_not_taken_for_one_that_was_not_read() -> None:
    heads = "config/speculative.py:SpeculativeConfig.draft_lm_head_quantization"
    methods = {"config/speculative.py:SpeculativeMethod": ["mtp"]}
    older = KnownValues("0.32.0", named_by_knob(methods))
    told = "vLLM 0.32.0 does not know drafting.lm_head=fp8; it has no such setting."
    assert older.why_not("drafting.lm_head", "fp8") == told
    assert older.why_not("drafting.lm_head", "auto") is None
    assert {value for knob, value in older.unknown(SPACE) if knob == "drafting.lm_head"} == {"fp8", "nvfp4"}
    newer = KnownValues("0.33.0", named_by_knob({**methods, heads: ["fp8", "nvfp4"]}))
    assert newer.why_not("drafting.lm_head", "fp8") is None
    assert KnownValues("0.33.0", named_by_knob({})).why_not("drafting.lm_head", "fp8") is None


def test_which_kernels_verify_drafts_is_a_choice_from_the_version_on_that_reads_its_variable() -> None:
    knob = "serving.gdn_decode_kernel"
    variables = {"envs.py:VLLM_WORKER_MULTIPROC_METHOD": ["fork", "spawn"]}
    older = KnownValues("0.26.0", named_by_knob(variables))
    told = f"vLLM 0.26.0 does not know {knob}=cuda; it has no such setting."
    assert older.why_not(knob, "cuda") == told
    assert older.why_not(knob, "auto") is None
    choice = {"envs.py:VLLM_GDN_DECODE_KERNEL": ["cuda", "triton"]}
    newer = KnownValues("0.33.0", named_by_knob({**variables, **choice}))
    assert {newer.why_not(knob, value) for value in SPACE.knob(knob).values} == {None}
    assert knob not in named_by_knob({})


def test_a_python_that_did_not_answer_is_asked_again_and_one_that_did_is_not(tmp_path: Path) -> None:
    python, ready = tmp_path / "python", tmp_path / "ready"
    told = '{"config/cache.py:CacheDType": ["auto", "fp8"]}'
    python.write_text(f"#!/bin/sh\n[ -e {ready} ] || exit 3\necho '{told}'\n", encoding="utf-8")
    python.chmod(0o755)
    environment = VllmEnvironment(python, "9.9.2", for_cpu=True)
    assert known_values(environment).unread is not None
    ready.touch()
    assert known_values(environment).values == {"serving.kv_cache_dtype": ("auto", "fp8")}
    ready.unlink()
    assert known_values(environment).unread is None


def test_a_python_that_has_no_vllm_is_told_and_refuses_nothing() -> None:
    found = known_values(VllmEnvironment(Path(sys.executable), "9.9.1", for_cpu=True))
    assert found.values == {}
    assert found.unread is not None
    assert "Which values vLLM 9.9.1 knows could not be read" in found.unread


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no json", "Expecting value"),
        ("echo it broke >&2; exit 3", "it broke"),
        ("exit 3", "code 3"),
        ("sleep 30", "within 0.2 s"),
    ],
)
def test_a_python_that_does_not_answer_is_told_in_a_clause(tmp_path: Path, script: str, words: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script.replace('sleep', 'exec sleep')}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(NoAnswer, match=words):
        answer_of(python, "anything", limit_s=0.2 if "sleep" in script else 10.0)


def test_the_engine_tells_what_its_version_does_not_know_and_nothing_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = VllmEnvironment(Path(sys.executable), "9.9.0", for_cpu=True)
    monkeypatch.setattr(engine_module, "needed_environment", lambda device: here)
    monkeypatch.setattr(engine_module, "known_values", lambda found: KNOWN)
    assert unknown_values("vllm", SPACE, "cuda:0", HYBRID) == KNOWN.unknown(SPACE)
    assert unknown_values("reference", SPACE, "cuda:0", HYBRID) == {}
    assert version_told("vllm", "cpu") == "vllm 9.9.0"
    assert version_told("reference", "cpu") == "reference"
    assert version_told("nobody", "cpu") == "nobody"

    def none(device: str) -> VllmEnvironment:
        raise Infeasible("unsupported", "vLLM is not installed: install it.")

    monkeypatch.setattr(engine_module, "needed_environment", none)
    assert VllmEngine().unknown_values(SPACE, "cuda:0", HYBRID) == {}
    assert version_told("vllm", "cuda:0") == (
        "vllm (vLLM is not installed: install it; nothing is held against what its version lacks)"
    )


def test_steps_ahead_beside_ngrams_are_refused_before_a_load_by_a_version_that_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Configuration.of({"drafting.method": "ngram", "serving.async_scheduling": "on"})
    monkeypatch.setattr(engine_module, "known_values", lambda found: KnownValues(found.version, {}))
    monkeypatch.setattr(engine_module, "check_device", lambda *told, **more: None)
    refused = {}
    for version in ("0.28.0", "0.33.0"):
        here = VllmEnvironment(Path(sys.executable), version, for_cpu=False)
        monkeypatch.setattr(engine_module, "needed_environment", lambda device, here=here: here)
        try:
            VllmEngine().check(asked, reference_model_path(), "cuda:0")
        except Infeasible as reason:
            refused[version] = (reason.kind, reason.cause)
    assert list(refused) == ["0.28.0"]
    kind, why = refused["0.28.0"]
    assert kind == "unsupported"
    assert why.startswith(
        "vLLM 0.28 schedules no step ahead beside drafts by n-grams, which 0.33 is the first"
    )


def test_a_version_that_is_too_old_is_told_as_there_and_too_old_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = VllmEnvironment(Path(sys.executable), "0.25.1", for_cpu=False)
    monkeypatch.setattr(environment_module, "vllm_python", lambda: old.python)
    monkeypatch.setattr(environment_module, "installed", lambda python: old)
    told = version_told("vllm", "cuda:0")
    assert told == (
        f"vllm (vLLM 0.25.1 at {sys.executable} is older than 0.26, the oldest that autoinfer serves with; "
        "make an environment with `autoinfer engines install vllm`, or install vLLM anywhere and set "
        "AUTOINFER_VLLM_PYTHON to its Python; nothing is held against what its version lacks)"
    )
