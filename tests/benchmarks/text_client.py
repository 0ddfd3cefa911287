"""The product's HTTP client, but that prompts go out as texts: what a tokenizer in the server is worth.

Started as that client is, in vLLM's Python; the tokenizer is the one that `TOKENIZER` names.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from experiments.engines.port import GenerationRequest, GenerationTrace
from experiments.engines.vllm import http_client

MODULE = "tests.benchmarks.text_client"

TOKENIZER = "AUTOINFER_TEXT_CLIENT_TOKENIZER"
"""The variable with the path of a tokenizer.json."""


def main() -> None:
    """Answer as the client does."""
    tokenizer = Tokenizer.from_file(os.environ[TOKENIZER])
    texts: dict[Sequence[int], str] = {}
    ask_all = http_client.ask_all

    async def written_first(
        told: Mapping[str, Any], requests: Sequence[GenerationRequest]
    ) -> tuple[list[GenerationTrace], list[str]]:
        for request in requests:
            texts[request.prompt_ids] = tokenizer.decode(list(request.prompt_ids), skip_special_tokens=False)
        return await ask_all(told, requests)

    http_client.ask_all = written_first
    http_client.prompt_of = lambda request: texts[request.prompt_ids]
    http_client.main()


if __name__ == "__main__":
    main()
