"""Laws of configurations: canonical, hashable, types kept apart."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from experiments.space.configuration import Change, Configuration, KnobValue

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}\.[a-z][a-z0-9_]{0,8}", fullmatch=True)
values: st.SearchStrategy[KnobValue] = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
mappings = st.dictionaries(names, values, max_size=8)

# printf '%s' '{"quantization.group_size":32,"quantization.method":"awq","quantization.symmetric":false,
# "serving.label":"größe","serving.scale":0.5}' | sha256sum   (in one line)
RECORDED_DIGEST = "50137d73384bc34af1ce9066aa2d37591364241b8edddd1108c874abada4dd95"


@given(mappings)
def test_the_digest_survives_the_way_through_json(mapping: dict[str, KnobValue]) -> None:
    configuration = Configuration.of(mapping)
    back = Configuration.of(json.loads(configuration.canonical_json()))
    assert back == configuration
    assert back.digest == configuration.digest
    assert [type(v) for v in back.values()] == [type(v) for v in configuration.values()]


@given(mappings, st.randoms(use_true_random=False))
def test_the_order_of_the_knobs_does_not_matter(mapping: dict[str, KnobValue], random: object) -> None:
    items = list(mapping.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert Configuration.of(dict(items)).digest == Configuration.of(mapping).digest
    assert hash(Configuration.of(dict(items))) == hash(Configuration.of(mapping))


@given(mappings, mappings)
def test_equal_exactly_when_nothing_changes_and_exactly_when_digests_agree(
    left: dict[str, KnobValue], right: dict[str, KnobValue]
) -> None:
    one, other = Configuration.of(left), Configuration.of(right)
    assert (one == other) == (one.digest == other.digest) == (one.changes_to(other) == ())


@given(mappings)
def test_a_configuration_reads_as_the_mapping_it_was_made_of(mapping: dict[str, KnobValue]) -> None:
    assert dict(Configuration.of(mapping)) == mapping
    assert list(Configuration.of(mapping)) == sorted(mapping)


def test_an_integer_a_float_a_switch_and_a_text_are_four_values() -> None:
    ones: tuple[KnobValue, ...] = (1, 1.0, True, "1")
    configurations = [Configuration.of({"a.b": one}) for one in ones]
    assert len({c.digest for c in configurations}) == 4
    assert len(set(configurations)) == 4
    assert configurations[0].changes_to(configurations[1]) == (Change("a.b", 1, 1.0),)


def test_the_sign_of_zero_is_no_difference() -> None:
    assert Configuration.of({"a.b": -0.0}) == Configuration.of({"a.b": 0.0})


def test_the_digest_is_the_one_recorded_when_the_first_database_was_written() -> None:
    configuration = Configuration.of(
        {
            "quantization.group_size": 32,
            "quantization.method": "awq",
            "quantization.symmetric": False,
            "serving.scale": 0.5,
            "serving.label": "größe",
        }
    )
    assert configuration.digest == RECORDED_DIGEST


def test_a_change_reads_as_a_user_would_say_it() -> None:
    before, after = Configuration.of({"a.b": True}), Configuration.of({"a.c": 2})
    assert [str(change) for change in before.changes_to(after)] == ["a.b on → —", "a.c — → 2"]
    assert str(Configuration.of({"a.c": 2, "a.b": "x"})) == "a.b=x, a.c=2"


def test_a_configuration_of_another_process_is_found_by_its_own_hash() -> None:
    """What hashes to another number in each process, as text does, does not travel."""
    configuration = Configuration.of({"serving.dtype": "bfloat16", "serving.max_sequences": 4})
    told = "import pickle, sys; from experiments.space.configuration import Configuration as C; "
    told += f"one = C.of({dict(configuration)!r}); hash(one); sys.stdout.buffer.write(pickle.dumps(one))"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", told],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert pickle.loads(done.stdout) in {configuration}
