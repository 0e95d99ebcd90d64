"""Problems: every no of every route in the one shape, unknown routes and validation included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json
from starlette.exceptions import HTTPException

from inboxd.errors import InboxdError, InvalidRequest, MalformedJson, MethodNotAllowed, RouteUnknown


def problem_bytes(problem: InboxdError) -> bytes:
    return to_json(problem.as_dict())


def problem_headers(problem: InboxdError) -> list[tuple[bytes, bytes]]:
    """What HTTP itself wants to know of a problem."""
    headers = [(b"content-type", b"application/json")]
    if problem.status == 401:
        scheme = getattr(problem, "scheme", "Bearer")
        headers.append((b"www-authenticate", f'{scheme} realm="inboxd"'.encode()))
    if problem.retry_after_ms is not None:
        headers.append((b"retry-after", b"%d" % -(-problem.retry_after_ms // 1000)))
    return headers


def from_validation(errors: Sequence[ErrorDetails] | Sequence[Any], *, outer: int = 0) -> InboxdError:
    """One plain sentence for the first thing that does not fit. The first `outer` parts of a place are not the caller's words."""
    first = errors[0]
    if first["type"] == "json_invalid":
        why = str(first["msg"]).removeprefix("Invalid JSON: ")
        return MalformedJson(f"The request body is not valid JSON in UTF-8: {why}.")
    where = ".".join(str(part) for part in first["loc"][outer:])
    said = str(first["msg"]).removeprefix("Value error, ")
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    if first["type"] == "extra_forbidden":
        said = "is not a field of this request"
    return InvalidRequest(f"{where + ': ' if where else ''}{said}.{more}", hint="See /docs for the whole description.")


def of(error: Exception) -> InboxdError | None:
    """The problem an exception stands for; None for a bug of ours."""
    if isinstance(error, InboxdError):
        return error
    if isinstance(error, ValidationError):
        return from_validation(error.errors(include_url=False, include_context=False, include_input=False))
    if isinstance(error, RequestValidationError):
        return from_validation(error.errors(), outer=1)  # FastAPI says "body", "query" or "path" first
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return RouteUnknown(hint="See /docs for the routes.")
        if error.status_code == 405:
            return MethodNotAllowed()
        return InvalidRequest(str(error.detail))
    return None


def bug(request_id: str) -> InboxdError:
    """What is said of a fault of ours: where to look, and nothing else."""
    return InboxdError("Something went wrong inside inboxd.", hint=f"The log has the details under {request_id}.")


async def answer(request: Request, error: Exception) -> Response:
    problem = of(error) or bug(request.scope["request_id"])
    response = Response(problem_bytes(problem), status_code=problem.status)
    for name, value in problem_headers(problem):
        response.headers[name.decode()] = value.decode()
    if isinstance(error, HTTPException) and error.headers:
        for name_, value_ in error.headers.items():
            response.headers[name_] = value_
    return response


def install(app: FastAPI) -> None:
    for kind in (InboxdError, RequestValidationError, ValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)
