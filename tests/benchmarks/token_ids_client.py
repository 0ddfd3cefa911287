"""The product's HTTP client, but that prompts go out as token ids: what the server's tokenizer is worth.

Started as that client is, in vLLM's Python.
"""

from typing import Any

from experiments.engines.port import GenerationRequest
from experiments.engines.vllm import http_client
from experiments.measurement.evidence import Json

MODULE = "tests.benchmarks.token_ids_client"


async def ids_of(_session: Any, _model: str, request: GenerationRequest) -> Json:
    """The tokens themselves."""
    return list(request.prompt_ids)


def main() -> None:
    """Answer as the client does."""
    http_client.prompt_of = ids_of
    http_client.main()


if __name__ == "__main__":
    main()
