"""What names a model of the hub, and what can only be a folder."""

import pytest

from configs.errors import UsageError
from configs.model_names import HubName, at_address, hub_name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Qwen/Qwen3.5-4B", HubName("Qwen/Qwen3.5-4B")),
        ("Qwen/Qwen3.5-4B@v1.0", HubName("Qwen/Qwen3.5-4B", "v1.0")),
        ("us/tiny@refs/pr/3", HubName("us/tiny", "refs/pr/3")),
        (f"us/tiny@{'a' * 40}", HubName("us/tiny", "a" * 40)),
    ],
)
def test_an_id_of_the_hub_may_have_a_revision(text: str, found: HubName) -> None:
    assert hub_name(text) == found
    assert found.is_pinned == (found.revision == "a" * 40)


@pytest.mark.parametrize(
    "text",
    ["reference", "./us/tiny", "../us/tiny", "~/tiny", "/us/tiny", "us/more/tiny", "us/ tiny", "a/b..c"],
)
def test_what_can_be_no_id_is_left_to_be_a_folder(text: str) -> None:
    assert hub_name(text) is None


@pytest.mark.parametrize("text", ["us/tiny@", "us/tiny@ main", "us/tiny@a..b", "us/tiny@a\nb"])
def test_a_revision_that_can_be_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no revision of us/tiny"):
        hub_name(text)


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("https://huggingface.co/Qwen/Qwen3.5-4B", "Qwen/Qwen3.5-4B"),
        ("https://huggingface.co/Qwen/Qwen3.5-4B/", "Qwen/Qwen3.5-4B"),
        ("https://huggingface.co/Qwen/Qwen3.5-4B/tree/v1.0/sub?x=1", "Qwen/Qwen3.5-4B@v1.0"),
        ("https://huggingface.co/Qwen/Qwen3.5-4B/blob/main/config.json", "Qwen/Qwen3.5-4B@main"),
        ("huggingface.co/us/tiny#card", "us/tiny"),
        ("hf.co/us/tiny", "us/tiny"),
        ("hf://us/tiny", "us/tiny"),
        ("us/tiny", None),
        ("https://example.org/us/tiny", None),
        ("https://huggingface.co/us", None),
        ("/huggingface.co/us/tiny", None),
    ],
)
def test_the_address_of_a_models_page_tells_its_id(text: str, called: str | None) -> None:
    assert at_address(text) == called
