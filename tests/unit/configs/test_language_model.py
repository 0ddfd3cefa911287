"""Where a language model is asked, and what of a campaign's file about it is refused in one sentence."""

from typing import Any

import pytest

from configs.addresses import without_secrets
from configs.campaign import load_campaign
from configs.errors import UsageError
from configs.language_model import Endpoint, LanguageModelSpec, endpoint_of, is_here

NONE = LanguageModelSpec()
ASKING = {"proposers": ["rules", "language-model"]}


def test_the_file_comes_before_the_settings_and_without_an_address_nobody_is_asked() -> None:
    own = LanguageModelSpec(base_url="https://own.example/v1/", model="own")
    assert endpoint_of(own, "http://127.0.0.1:1/v1", "theirs", "k") == Endpoint(
        "https://own.example/v1", "own", "k"
    )
    assert endpoint_of(NONE, "http://127.0.0.1:1/v1", "theirs", None) == Endpoint(
        "http://127.0.0.1:1/v1", "theirs"
    )
    assert endpoint_of(NONE, None, "theirs", "k") is None


def test_the_key_is_not_shown() -> None:
    assert "sk-1" not in repr(Endpoint("https://a.example/v1", "m", "sk-1"))


@pytest.mark.parametrize(
    ("url", "model", "key", "why"),
    [
        ("http://127.0.0.1:1/v1", None, None, "No model is named to ask at http://127.0.0.1:1/v1."),
        ("ftp://a/v1", "m", None, "'ftp://a/v1' is no address of an endpoint"),
        ("http://", "m", None, "is no address of an endpoint"),
        ("http://a:99999/v1", "m", None, "is no address of an endpoint"),
        ("http://[::1/v1", "m", None, "is no address of an endpoint"),
        ("http://a/v1\r\nHost: b", "m", None, "is no address of an endpoint"),
        ("file:///etc/passwd", "m", None, "is no address of an endpoint"),
        ("https://me:pw@a/v1", "m", None, "an address carries no name, password or query"),
        ("https://a/v1?key=1", "m", None, "an address carries no name, password or query"),
        ("http://a.example/v1", "m", "sk-1", "AUTOINFER_LLM_KEY is not sent there"),
        ("https://a/v1", "m", "sk 1\n", "AUTOINFER_LLM_KEY holds something that can't be a key."),
        ("https://a/v1", "m\x1b", None, "AUTOINFER_LLM_MODEL holds no name of a model."),
    ],
)
def test_what_can_t_be_asked_is_refused(url: str, model: str | None, key: str | None, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        endpoint_of(NONE, url, model, key)
    assert why in refused.value.message
    assert "pw" not in refused.value.message.replace("password", "")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://127.0.0.1.example/v1", False),
        ("http://localhost.example/v1", False),
        ("http://10.0.0.5/v1", False),
    ],
)
def test_a_model_on_this_machine_is_waited_for_and_no_other(url: str, here: bool) -> None:
    assert is_here(url) is here
    assert NONE.wait_s(url) == (20.0 if here else 0.0)
    assert LanguageModelSpec(wait=3).wait_s(url) == 3


def test_dollars_need_both_prices() -> None:
    priced = LanguageModelSpec(usd_per_million_prompt_tokens=2, usd_per_million_answer_tokens=10)
    assert priced.usd(1000, 100) == pytest.approx(0.003)
    assert NONE.usd(1000, 100) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"proposers": ["language-model"]}, "others must propose beside it"),
        ({"language_model": {"share": 0.2}}, "language-model is no proposer of it"),
        (ASKING | {"language_model": {"share": 0}}, "language_model.share is 0"),
        (ASKING | {"language_model": {"share": 1}}, "language_model.share is 1"),
        (ASKING | {"language_model": {"budget_usd": 1}}, "a budget in dollars needs both prices"),
        (ASKING | {"language_model": {"usd_per_million_prompt_tokens": 1}}, "are given together"),
        (ASKING | {"language_model": {"timeout": "0.0001ms"}}, "language_model.timeout"),
        (ASKING | {"language_model": {"prompt_tokens": 10}}, "language_model.prompt_tokens is 10"),
        (ASKING | {"language_model": {"api_key": "sk"}}, "language_model.api_key"),
    ],
)
def test_a_campaign_s_file_that_can_t_be_is_refused_in_one_sentence(
    changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError) as refused:
        load_campaign("default", changes)
    assert why in refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2@a.example/v1",
        "https://me:hunter2/x@a.example:99999/v1",
        "https://me:hunter2@[::1/v1",
        "https://me:hunter2/v1",
        "https://a.example/v1?key=hunter2",
        "https://a.example/v1#hunter2",
        "me:hunter2@a.example/v1",
        " https://me:hunter2@a.example/v1",
    ],
)
def test_a_password_in_an_address_is_not_repeated_wherever_it_was_given(url: str) -> None:
    for changes in ({"base_url": url}, url):
        with pytest.raises(UsageError) as refused:
            load_campaign("default", ASKING | {"language_model": changes})
        assert "language_model" in refused.value.message
        assert "hunter2" not in str(refused.value)
    for model in ("m", None):
        with pytest.raises(UsageError) as refused:
            endpoint_of(NONE, url, model, None)
        assert "hunter2" not in str(refused.value)


def test_an_address_without_a_secret_is_shown_as_it_is() -> None:
    for url in ("ftp://a.example/v1", "http://[::1]:8000/v1", "http://a:99999/v1", "a.example/v1"):
        assert without_secrets(url) == url


def test_a_part_that_the_file_leaves_out_may_be_given_field_by_field() -> None:
    spec = load_campaign("default", ASKING | {"language_model.share": "25%", "language_model.timeout": "30s"})
    assert (spec.language_model.share, spec.language_model.timeout) == (0.25, 30.0)
    assert spec.asks_a_model
