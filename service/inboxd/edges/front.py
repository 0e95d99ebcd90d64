"""The front door: every request passes here. It gives it an id, finds the hot routes, hands the rest to FastAPI, and notes what became of it.

Pure ASGI, no middleware stack: each layer would cost more than the whole of `pending`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inboxd.broker import Broker
from inboxd.edges.http_api import HOT, Call, ClientGone
from inboxd.edges.observe import RequestIds, RequestLog, Requests
from inboxd.edges.problems import of, problem_bytes, problem_headers
from inboxd.errors import BodyTooLarge, InboxdError

log = logging.getLogger("inboxd.http")

TASKS = "/v1/tasks/"
JSON_HEADER = (b"content-type", b"application/json")


class Front:
    def __init__(self, app: ASGIApp, broker: Broker, requests: Requests, request_log: RequestLog) -> None:
        self._app = app
        self._broker = broker
        self._requests = requests
        self._request_log = request_log
        self._ids = RequestIds()
        self._request_bytes_max = broker.settings.request_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = self._ids.of(scope["headers"])
        path: str = scope["path"]
        method: str = scope["method"]
        hot = None
        task = ""
        if path.startswith(TASKS):
            task, _, verb = path[len(TASKS) :].partition("/")
            hot = HOT.get((method, verb))
        self._requests.running += 1
        status, route = 499, "unknown"
        try:
            if hot is not None:
                route = hot.template
                status = await self._hot(hot.handle, Call(self._broker, scope, receive, task), send, request_id)
            else:
                status, route = await self._cold(scope, receive, send, request_id)
        finally:
            self._requests.running -= 1
            seconds = time.perf_counter() - started
            self._requests.note(route, method, status, seconds)
            client = scope["client"]
            self._request_log.note(request_id, method, path, status, seconds, client[0] if client else "")

    async def _hot(self, handle: Callable[[Call], object], call: Call, send: Send, request_id: bytes) -> int:
        headers = [JSON_HEADER]
        try:
            status, body = await handle(call)  # type: ignore[misc]
        except ClientGone:
            return 499
        except Exception as error:
            problem = self._problem(error, request_id)
            status, body, headers = problem.status, problem_bytes(problem), problem_headers(problem)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, (b"content-length", b"%d" % len(body)), (b"x-request-id", request_id)],
            }
        )
        await send({"type": "http.response.body", "body": body})
        return int(status)

    async def _cold(self, scope: Scope, receive: Receive, send: Send, request_id: bytes) -> tuple[int, str]:
        """Everything FastAPI answers, with the same size limit, id and last resort."""
        status = 499
        started = False
        taken = 0

        async def measured() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._request_bytes_max:
                raise BodyTooLarge(f"The request is larger than {self._request_bytes_max} bytes.")
            return message

        async def stamped(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                started = True
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        try:
            await self._app(scope, measured, stamped)
        except Exception as error:
            problem = self._problem(error, request_id)
            if started:
                raise
            body = problem_bytes(problem)
            status = problem.status
            headers = [
                *problem_headers(problem),
                (b"content-length", b"%d" % len(body)),
                (b"x-request-id", request_id),
            ]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        route = scope.get("route")
        return status, getattr(route, "path", "unknown")

    def _problem(self, error: Exception, request_id: bytes) -> InboxdError:
        problem = of(error)
        if problem is None:
            log.error("a request failed", exc_info=error, extra={"request_id": request_id.decode()})
            problem = InboxdError(
                "Something went wrong inside inboxd.",
                hint=f"The log has the details under {request_id.decode()}.",
            )
        return problem
