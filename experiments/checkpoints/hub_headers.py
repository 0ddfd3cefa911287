"""How many bytes each tensor of a checkpoint of the hub has, without its weights: from the headers of its
files, of which the hub is asked for the first 100 kB each (`huggingface_hub`,
`parse_safetensors_file_metadata`)."""

from __future__ import annotations

from collections.abc import Iterable

from configs.model_names import HubName


def tensor_bytes(
    name: HubName, commit: str, files: Iterable[str], endpoint: str | None = None
) -> dict[str, int] | None:
    """Bytes of the tensors in weight files of a commit, by name; None where the hub is not to be asked
    (`HF_HUB_OFFLINE`), does not answer or has no such headers."""
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        return None
    api, found = HfApi(endpoint=endpoint or constants.ENDPOINT), dict[str, int]()
    try:
        for file in files:
            told = api.parse_safetensors_file_metadata(name.repo, file, revision=commit)
            for tensor, entry in told.tensors.items():
                start, end = entry.data_offsets
                found[tensor] = end - start
    except Exception:  # the library hands on whatever its HTTP client raises; a plan does without
        return None
    return found or None
