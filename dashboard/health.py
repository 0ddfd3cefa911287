"""Whether a dashboard answers: `python -m dashboard.health http://127.0.0.1:8420`, for a health check.

It needs nothing but Python's own library, for it runs twice a minute beside what is measured. The token is
read from the file that `AUTOINFER_DASHBOARD_TOKEN_FILE` names. The exit code is 0 for one that answers
and reads its database, 1 for one that does not, 2 for a call that can't be.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

TOKEN_FILE_VARIABLE = "AUTOINFER_DASHBOARD_TOKEN_FILE"
"""The variable of the setting `dashboard_token_file`."""

PATH = "/healthz"

PATIENCE_S = 5.0
"""Seconds that an answer may take: a page takes thousandths of one."""


def asked(address: str, environment: Mapping[str, str]) -> str | None:
    """Ask the dashboard at `address`, such as `http://127.0.0.1:8420`; a sentence where it is not well."""
    request = urllib.request.Request(f"{address.rstrip('/')}{PATH}")
    file = environment.get(TOKEN_FILE_VARIABLE)
    try:
        if file:
            token = Path(file).read_text(encoding="ascii").strip()
            request.add_header("Authorization", f"Bearer {token}")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy knows no loopback
        with direct.open(request, timeout=PATIENCE_S) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        return f"The dashboard at {address} answered {error.code} {error.reason}."
    except (OSError, ValueError) as error:
        return f"The dashboard at {address} does not answer: {getattr(error, 'reason', error)}."
    return None if status == HTTPStatus.OK else f"The dashboard at {address} answered {status}."


def main(words: Sequence[str] = tuple(sys.argv[1:])) -> int:
    """Ask, tell, and return the exit code."""
    if len(words) != 1 or not words[0].startswith("http://"):
        print("Name one address, such as: python -m dashboard.health http://127.0.0.1:8420", file=sys.stderr)
        return 2
    told = asked(words[0], os.environ)
    if told is not None:
        print(told, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
