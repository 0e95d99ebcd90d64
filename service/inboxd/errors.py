"""Every way inboxd says no, born here once.

A class's docstring is its default message. `code` is the word on the wire and the first word of a Lua
refusal; `status` is the HTTP answer; `exit_code` is what the `inbox` command ends with, and is a function
of the status alone (see `exit_code_of`). Anything raised outside this tree is a bug and answers INTERNAL.
"""

from __future__ import annotations

from typing import ClassVar


def exit_code_of(status: int) -> int:
    """The exit code of a command whose request was answered with this HTTP status."""
    if status < 400:
        return 0
    if status in (401, 403):
        return 60
    if status in (404, 405, 410):
        return 40
    if status == 409:
        return 20
    if status < 500:
        return 30
    return 50


class InboxdError(Exception):
    """Something went wrong inside inboxd."""

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    hint_names: bool = False
    """The hint gives names that would do, which is help at every door."""

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, retry_after_ms: int | None = None
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.hint = hint
        self.retry_after_ms = retry_after_ms
        super().__init__(self.message)

    @property
    def exit_code(self) -> int:
        return exit_code_of(self.status)

    def as_dict(self) -> dict[str, object]:
        """The one shape every error has on the wire."""
        return {
            "ok": False,
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.hint,
                "retry_after_ms": self.retry_after_ms,
            },
        }


class MalformedJson(InboxdError):
    """The request body is not valid JSON in UTF-8."""

    code, status = "MALFORMED_JSON", 400


class InvalidRequest(InboxdError):
    """The request does not fit its description."""

    code, status = "INVALID_REQUEST", 422


class CursorInvalid(InboxdError):
    """This cursor was not handed out by this list."""

    code, status = "CURSOR_INVALID", 422


class HopsExceeded(InboxdError):
    """This answer to an answer to an answer has gone on too long: two agents are talking in a loop."""

    code, status = "HOPS_EXCEEDED", 422


class BroadcastTooWide(InboxdError):
    """The broadcast names more tasks than one broadcast may reach."""

    code, status = "BROADCAST_TOO_WIDE", 422


class BodyTooLarge(InboxdError):
    """The request is larger than the broker takes."""

    code, status = "BODY_TOO_LARGE", 413

    def __init__(
        self,
        message: str | None = None,
        *,
        hint: str | None = "Put it in a file and send its path as an artifact.",
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retry_after_ms=retry_after_ms)


class TokenMissing(InboxdError):
    """A token is needed: send it as `Authorization: Bearer TOKEN`."""

    code, status = "TOKEN_MISSING", 401


class TokenInvalid(InboxdError):
    """This token is unknown, expired or revoked."""

    code, status = "TOKEN_INVALID", 401


class Forbidden(InboxdError):
    """This token's role may not do that."""

    code, status = "FORBIDDEN", 403


class SenderForbidden(InboxdError):
    """This token may not speak in that name."""

    code, status = "SENDER_FORBIDDEN", 403


class CrossSite(InboxdError):
    """This request does not come from the dashboard's own page."""

    code, status = "CROSS_SITE", 403


class HostUnknown(InboxdError):
    """The dashboard is not known by that name."""

    code, status = "HOST_UNKNOWN", 403


class RouteUnknown(InboxdError):
    """There is no such route."""

    code, status = "ROUTE_UNKNOWN", 404


class MethodNotAllowed(InboxdError):
    """This route does not take that method."""

    code, status = "METHOD_NOT_ALLOWED", 405


class TaskUnknown(InboxdError):
    """No task of that name was declared."""

    code, status = "TASK_UNKNOWN", 404


class MessageUnknown(InboxdError):
    """There is no message with that id."""

    code, status = "MESSAGE_UNKNOWN", 404


class ThreadUnknown(InboxdError):
    """There is no thread with that id."""

    code, status = "THREAD_UNKNOWN", 404


class ThreadForbidden(InboxdError):
    """This thread is somebody else's."""

    code, status = "THREAD_FORBIDDEN", 403


class ThreadState(InboxdError):
    """The thread is in a status in which that cannot be done."""

    code, status = "THREAD_STATE", 422


class ThreadFull(InboxdError):
    """The thread has as many messages as one may have."""

    code, status = "THREAD_FULL", 422


class LeaseConflict(InboxdError):
    """Somebody else holds the lease on this thread."""

    code, status = "LEASE_CONFLICT", 409


class LeaseLost(InboxdError):
    """The lease on this thread ran out or went to another: nothing was written."""

    code, status = "LEASE_LOST", 409


class ReceiptUnknown(InboxdError):
    """No batch was handed over under that receipt, or it was too long ago."""

    code, status = "RECEIPT_UNKNOWN", 404


class TokenUnknown(InboxdError):
    """There is no token with that id."""

    code, status = "TOKEN_UNKNOWN", 404


class MessageIdReused(InboxdError):
    """A different message was already sent with this id."""

    code, status = "MESSAGE_ID_REUSED", 409


class PullIdReused(InboxdError):
    """This pull_id already names a batch of another task or session."""

    code, status = "PULL_ID_REUSED", 409


class ReceiptLost(InboxdError):
    """The hold ran out and the messages went back or to another session: they are no longer yours."""

    code, status = "RECEIPT_LOST", 409


class MessageState(InboxdError):
    """The message is in a state in which that cannot be done."""

    code, status = "MESSAGE_STATE", 409


class TaskReserved(InboxdError):
    """`user` is the person's own inbox: it is always there and cannot be removed or terminated."""

    code, status = "TASK_RESERVED", 409


class TaskNotEmpty(InboxdError):
    """The task still has mail that nobody got."""

    code, status = "TASK_NOT_EMPTY", 409


class NoPeer(InboxdError):
    """The task has no such peer."""

    code, status = "NO_PEER", 409


class StoreFull(InboxdError):
    """The store's memory is full: nothing new is taken, while what is there can still be read and delivered."""

    code, status, retryable = "STORE_FULL", 507, True

    def __init__(
        self,
        message: str | None = None,
        *,
        hint: str | None = "Give it more memory, or a shorter --retention-ms: delivered mail is kept that long.",
        retry_after_ms: int | None = 5_000,
    ) -> None:
        super().__init__(message, hint=hint, retry_after_ms=retry_after_ms)


class StoreUnavailable(InboxdError):
    """The store does not answer at the moment. Nothing is lost: try again with the same ids."""

    code, status, retryable = "STORE_UNAVAILABLE", 503, True

    def __init__(
        self, message: str | None = None, *, hint: str | None = None, retry_after_ms: int | None = 1000
    ) -> None:
        super().__init__(message, hint=hint, retry_after_ms=retry_after_ms)


class StartProblem(InboxdError):
    """inboxd cannot start like this."""

    # Raised before any request is served; the command line prints it as one line, with its hint.
    code = "START_PROBLEM"


def _tree(root: type[InboxdError]) -> list[type[InboxdError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


BY_CODE: dict[str, type[InboxdError]] = {found.code: found for found in _tree(InboxdError)}
