"""The front door: every request passes here. It gives it an id, finds the hot routes, hands the rest to FastAPI, and notes what became of it.

Pure ASGI, no middleware stack: each layer would cost more than the whole of `pending`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inboxd.broker import Broker
from inboxd.edges.hooks import HOOK
from inboxd.edges.http_api import HOT, Call, ClientGone
from inboxd.edges.http_threads import hot_route
from inboxd.edges.mcp_door import McpDoor, Unusual
from inboxd.edges.observe import RequestIds, RequestLog, Requests
from inboxd.edges.problems import bug, of, problem_bytes, problem_headers
from inboxd.errors import BodyTooLarge, InboxdError

log = logging.getLogger("inboxd.http")

TASKS = "/v1/tasks/"
HOOKS = "/v1/hooks/"
THREADS = "/v1/threads/"
MCP = "/mcp"


class Front:
    def __init__(self, app: ASGIApp, broker: Broker, requests: Requests, request_log: RequestLog, mcp: McpDoor) -> None:
        self._app = app
        self._mcp = mcp
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
        place = ""
        if path.startswith(TASKS):
            place, _, verb = path[len(TASKS) :].partition("/")
            hot = HOT.get((method, verb))
        elif method == "POST" and path.startswith(HOOKS):
            place = path[len(HOOKS) :]
            hot = HOOK
        elif method == "POST" and path.startswith(THREADS):
            hot, place = hot_route(path[len(THREADS) :])
        elif method == "POST" and path == MCP:
            hot = self._mcp.usual
        self._requests.running += 1
        status, route = 499, "unknown"
        try:
            if hot is None:
                app = self._mcp if path == MCP else self._app
                status, route = await self._cold(app, scope, receive, send, request_id)
                return
            route = hot.template
            call = Call(self._broker, scope, receive, place, request_id)
            try:
                status, body = await hot.handle(call)
                headers: Iterable[tuple[bytes, bytes]] = call.headers
            except Unusual:
                status, route = await self._cold(self._mcp, scope, call.receive, send, request_id)
                return
            except ClientGone:
                return
            except Exception as error:
                problem = self._problem(error, request_id)
                status, body, headers = problem.status, problem_bytes(problem), problem_headers(problem)
            length = ((b"content-length", b"%d" % len(body)),) if status != 204 else ()
            head = [*headers, *length, (b"x-request-id", request_id)]
            await send({"type": "http.response.start", "status": status, "headers": head})
            await send({"type": "http.response.body", "body": body})
        finally:
            self._requests.running -= 1
            seconds = time.perf_counter() - started
            self._requests.note(route, method, status, seconds)
            client = scope["client"]
            self._request_log.note(request_id, method, path, status, seconds, client[0] if client else "")

    async def _cold(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, request_id: bytes
    ) -> tuple[int, str]:
        """Everything FastAPI or the SDK of MCP answers, with the same size limit, id and last resort."""
        status = 499
        started = finished = gone = False
        taken = 0
        scope["request_id"] = request_id.decode()

        async def measured() -> Message:
            nonlocal taken, gone
            message = await receive()
            gone = message["type"] == "http.disconnect"
            taken += len(message.get("body", b""))
            if taken > self._request_bytes_max:
                raise BodyTooLarge(f"The request is larger than {self._request_bytes_max} bytes.")
            return message

        async def stamped(message: Message) -> None:
            nonlocal status, started, finished
            if gone:
                return  # there is nobody to answer
            if message["type"] == "http.response.start":
                started = True
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            elif message["type"] == "http.response.body":
                finished = not message.get("more_body", False)
            await send(message)

        try:
            await app(scope, measured, stamped)
        except ClientDisconnect:
            # The caller hung up before its request was whole.
            return 499, _template(scope)
        except Exception as error:
            problem = self._problem(error, request_id)
            if finished:
                # Starlette answers a bug by our handler and then raises it again, for the log.
                return status, _template(scope)
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
        return status, _template(scope)

    def _problem(self, error: Exception, request_id: bytes) -> InboxdError:
        problem = of(error)
        if problem is None:
            log.error("a request failed", exc_info=error, extra={"request_id": request_id.decode()})
            problem = bug(request_id.decode())
        return problem


def _template(scope: Scope) -> str:
    """The route FastAPI found, as it is written; never what the caller typed."""
    return getattr(scope.get("route"), "path", "unknown")
