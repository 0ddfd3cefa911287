"""The edge to Modal's own client library: each call of it, and its errors as ours. Nothing else imports it.

Modal is configured as its library is: `MODAL_TOKEN_ID` and `MODAL_TOKEN_SECRET`, or the file that
`modal token new` writes. A token is never read here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from configs.errors import AutoinferError, ProviderUnreachable, UsageError
from experiments.executors.modal.body import Boards
from experiments.executors.modal.protocol import (
    APP_NAME,
    CLAIMS,
    FUNCTION_NAME,
    FUNCTION_PREFIX,
    HEADS,
    KEPT_DAYS,
    PIECES,
    Envelope,
    Head,
)

if TYPE_CHECKING:
    import modal

HOW_TO_INSTALL = "Install it with: pip install 'autoinfer[modal]'"
HOW_TO_DEPLOY = "Deploy this version with: autoinfer modal deploy"

NOT_YET_S = 0.0
"""How long to wait for a result: not at all."""


class ModalUnreachable(ProviderUnreachable):
    """Modal did not answer, or asked to be asked less often; what was asked may or may not have happened."""


class NotDeployed(UsageError):
    """There is no app of this autoinfer's version on Modal."""


class CallGone(Exception):
    """A call that ended without an envelope, or that is not known; the message says why, in a sentence.

    `limit`: its own time limit ended it, so that the same again would end alike.
    """

    def __init__(self, sentence: str, *, limit: bool = False) -> None:
        super().__init__(sentence)
        self.limit = limit


def library() -> Any:
    """Modal's library; raises `UsageError` where it is not installed."""
    try:
        import modal
    except ImportError as error:
        raise UsageError(f"Modal's library can't be loaded: {error}.", HOW_TO_INSTALL) from None
    return modal


def boards() -> Boards:
    """The three Dicts, made where they are missing."""
    found = library().Dict.from_name
    made = [found(name, create_if_missing=True) for name in (CLAIMS, HEADS, PIECES)]
    return Boards(*made)


@contextmanager
def in_our_words() -> Iterator[None]:
    """Raise Modal's errors as ours: `ModalUnreachable` for what may pass, `AutoinferError` for the rest."""
    error = library().exception
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the server's hints to users of its library
            yield
    except error.AuthError as refused:
        raise AutoinferError(
            f"Modal does not accept the token: {_said(refused)}.", "Make one with: modal token new"
        ) from None
    except error.PermissionDeniedError as refused:
        raise AutoinferError(f"Modal does not allow this: {_said(refused)}.") from None
    except error.ResourceExhaustedError as refused:
        raise ModalUnreachable(
            f"Modal asks for fewer requests: {_said(refused)}.", "It is tried again."
        ) from None
    except (error.ConnectionError, error.ServiceError, error.InternalError, OSError) as refused:
        raise ModalUnreachable(f"Modal can't be reached: {_said(refused)}.", "Is there a network?") from None
    except error.Error as refused:
        if isinstance(refused, error.NotFoundError):
            raise
        raise AutoinferError(f"Modal refused: {_said(refused)}.") from None


def _said(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0].rstrip(".") if lines else "") or type(error).__name__


@dataclass(frozen=True)
class Calls:
    """Calls of the deployed function: `app` and `name` say which."""

    app: str = APP_NAME
    name: str = FUNCTION_NAME
    _found: dict[tuple[str | None, int], Any] = field(default_factory=dict)

    def spawn(self, packed: bytes, gpu: str | None, timeout_s: int) -> str:
        """Call the function and return the call's id, waiting for no result.

        Raises `NotDeployed` where there is no such function, and `ModalUnreachable`, after which the call may
        exist all the same.
        """
        modal = library()
        with in_our_words():
            try:
                if (gpu, timeout_s) not in self._found:
                    function = modal.Function.from_name(self.app, self.name)
                    self._found[gpu, timeout_s] = function.with_options(gpu=gpu, timeout=timeout_s)
                call = self._found[gpu, timeout_s].spawn(packed)
            except modal.exception.NotFoundError:
                self._found.clear()
                raise self._not_deployed() from None
        return str(call.object_id)

    def result(self, call_id: str) -> Envelope | None:
        """What the call returned; None while it has not ended.

        Raises `CallGone` for a call that ended without returning, expired, or is not known, and
        `ModalUnreachable`.
        """
        modal = library()
        error = modal.exception
        try:
            with in_our_words():
                try:
                    returned = modal.FunctionCall.from_id(call_id).get(timeout=NOT_YET_S)
                except TimeoutError:  # builtin: not yet; the function itself never raises one
                    return None
                except error.OutputExpiredError:
                    raise CallGone(
                        f"The result of call {call_id} has expired: Modal keeps results {KEPT_DAYS} days."
                    ) from None
                except error.FunctionTimeoutError:
                    raise CallGone(
                        f"Call {call_id} reached its time limit on Modal, so it was ended.", limit=True
                    ) from None
                except error.NotFoundError:
                    raise CallGone(f"Modal knows no call {call_id}.") from None
                except error.InvalidError as refused:
                    raise CallGone(f"Modal knows no call {call_id}: {_said(refused)}.") from None
                except (error.RemoteError, error.InternalFailure, error.ExecutionError) as failed:
                    raise CallGone(f"Call {call_id} ended without a result: {_said(failed)}.") from None
        except (AutoinferError, CallGone):
            raise
        except Exception as failed:  # whatever the container raised comes as itself
            raise CallGone(
                f"Call {call_id} ended without a result: {type(failed).__name__}: {_said(failed)}."
            ) from None
        try:
            return Envelope.model_validate_json(returned)
        except ValueError:
            raise CallGone(f"Call {call_id} returned what is no envelope of autoinfer.") from None

    def cancel(self, call_id: str) -> None:
        """End the call and its containers; one that ended, or that is not known, stays as it is."""
        modal = library()
        with in_our_words():
            try:
                modal.FunctionCall.from_id(call_id).cancel(terminate_containers=True)
            except modal.exception.NotFoundError:
                return

    def last_words(self, call_id: str, entries: int = 40) -> str:
        """The last lines that Modal has of the call's containers, or why there are none."""
        try:
            with in_our_words():
                found: Iterator[modal.types.LogEntry] = (
                    library().FunctionCall.from_id(call_id).logs.tail(entries)
                )
                return "".join(entry.message for entry in found)
        except Exception as error:
            return f"(Modal's log of {call_id} can't be read: {_said(error)})\n"

    def _not_deployed(self) -> NotDeployed:
        found = self.deployed_functions()
        if found is None:
            return NotDeployed(f"There is no app {self.app!r} on Modal.", HOW_TO_DEPLOY)
        versions = [each for each in found if each.startswith(FUNCTION_PREFIX)]
        return NotDeployed(
            f"What is deployed on Modal takes jobs of another version ({', '.join(versions) or 'none'}; "
            f"this autoinfer writes {self.name}).",
            HOW_TO_DEPLOY,
        )

    def deployed_functions(self) -> dict[str, str] | None:
        """The functions of the deployed app and their ids; None where there is no app."""
        modal = library()
        with in_our_words():
            try:
                info = modal.App.lookup(self.app).info()
            except modal.exception.NotFoundError:
                return None
        return dict(info.functions)


def heads_of(board: Boards) -> dict[str, Head]:
    """Where every call stands that Modal's Dict still knows, by its id: one request for all."""
    with in_our_words():
        found: Any = board.heads
        return {call_id: Head.model_validate_json(told) for call_id, told in found.items()}
