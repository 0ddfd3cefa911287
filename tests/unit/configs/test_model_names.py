"""What names a model of the hub, and what can only be a folder."""

import pytest

from configs.errors import UsageError
from configs.model_names import HubName, hub_name


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
