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
        headers.append((b"www-authenticate", b'Bearer realm="inboxd"'))
    if problem.retry_after_ms is not None:
        headers.append((b"retry-after", b"%d" % -(-problem.retry_after_ms // 1000)))
    return headers


def from_validation(errors: Sequence[ErrorDetails] | Sequence[Any]) -> InboxdError:
    """One plain sentence for the first thing that does not fit."""
    first = errors[0]
    if first["type"] == "json_invalid":
        why = str(first["msg"]).removeprefix("Invalid JSON: ")
        return MalformedJson(f"The request body is not valid JSON in UTF-8: {why}.")
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
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
        return from_validation(error.errors())
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return RouteUnknown(hint="See /docs for the routes.")
        if error.status_code == 405:
            return MethodNotAllowed()
        return InvalidRequest(str(error.detail))
    return None


async def _answer(_request: Request, error: Exception) -> Response:
    problem = of(error) or InboxdError()
    response = Response(problem_bytes(problem), status_code=problem.status)
    for name, value in problem_headers(problem):
        response.headers[name.decode()] = value.decode()
    if isinstance(error, HTTPException) and error.headers:
        for name_, value_ in error.headers.items():
            response.headers[name_] = value_
    return response


def install(app: FastAPI) -> None:
    for kind in (InboxdError, RequestValidationError, ValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)
