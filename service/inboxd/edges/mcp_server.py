"""MCP itself, by the official SDK: what it lists, reads, calls and listens to. The only file that imports it.

Loaded when somebody first asks for more than the usual (mcp_usual.py): it takes as long to import as all the rest of the broker, and a
third of its memory. Nothing is kept between two requests, so that any replica answers any of them: a session manager lives as long as
the request it serves.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from inboxd.edges import mcp_usual
from inboxd.edges import mcp_words as words
from inboxd.edges.mcp_caller import IN_SCOPE, McpCaller
from inboxd.edges.mcp_news import News
from inboxd.edges.mcp_tools import call_tool, listed
from inboxd.errors import InboxdError

logging.getLogger("mcp").setLevel(logging.WARNING)
logging.getLogger("sse_starlette").setLevel(logging.WARNING)

HEADERS_MAX: Final = 20
"""Messages named in the resource."""

Context = ServerRequestContext[Any, Any]


async def serve(caller: McpCaller, scope: Scope, receive: Receive, send: Send) -> None:
    """One request of the protocol, whichever of its versions."""
    manager = StreamableHTTPSessionManager(
        _server(caller.mail_only),
        stateless=True,
        max_request_body_size=caller.broker.settings.request_bytes_max,
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)


@cache
def _server(mail_only: bool) -> Server[Any]:
    made: Server[Any] = Server(
        mcp_usual.SERVER["name"],
        version=mcp_usual.SERVER["version"],
        title=mcp_usual.SERVER["title"],
        instructions=mcp_usual.instructions(mail_only),
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_read_resource=_read_resource,
        on_subscribe_resource=_subscribe,
        on_unsubscribe_resource=_subscribe,
        on_subscriptions_listen=_listen,
        get_tool_input_schema=lambda _: None,  # no argument of ours is also a header
    )
    made.middleware.clear()  # a span for every request, which nobody collects
    return made


def _caller(context: Context) -> McpCaller:
    assert context.request is not None
    caller: McpCaller = context.request.scope[IN_SCOPE]
    return caller


async def _list_tools(context: Context, _: Any) -> types.ListToolsResult:
    return types.ListToolsResult.model_validate({"tools": listed(_caller(context).mail_only)})


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    caller = _caller(context)
    call = caller.call(params.name, params.arguments or {}, (context.params or {}).get("_meta"), context.request_id)
    call.progress = context.session.report_progress
    told = await call_tool(call, params.name, params.arguments or {}, mail_only=caller.mail_only)
    return types.CallToolResult.model_validate(told)


async def _list_resources(context: Context, _: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult.model_validate({"resources": mcp_usual.resources(_caller(context))})


async def _read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    caller = _own(context, str(params.uri))
    try:
        told = await caller.headers(HEADERS_MAX)
    except InboxdError as refusal:
        raise MCPError(types.INTERNAL_ERROR, refusal.message, data=words.lean(code=refusal.code)) from None
    content = types.TextResourceContents(uri=caller.uri, mime_type="application/json", text=to_json(told).decode())
    return types.ReadResourceResult(contents=[content])


async def _subscribe(context: Context, params: Any) -> types.EmptyResult:
    """2025: who has a stream open (GET) is told of its inbox there, and of no other."""
    _own(context, str(params.uri))
    return types.EmptyResult()


async def _listen(context: Context, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
    """2026: a request whose answer is the stream of what happens. Of all that was asked for, only the caller's own inbox is granted."""
    caller = _caller(context)
    asked = {str(uri) for uri in params.notifications.resource_subscriptions or ()}
    granted = [caller.uri] if caller.task is not None and caller.uri in asked else None
    assert context.request_id is not None
    meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: context.request_id}

    async def tell(notification: Any) -> None:
        await context.session.send_notification(notification, related_request_id=context.request_id)

    async with News(caller, wanted=granted is not None) as news:
        await tell(
            types.SubscriptionsAcknowledgedNotification(
                params=types.SubscriptionsAcknowledgedNotificationParams(
                    notifications=types.SubscriptionFilter(resource_subscriptions=granted), _meta=meta
                )
            )
        )
        async for there_is_mail in news:
            if there_is_mail:
                await tell(
                    types.ResourceUpdatedNotification(
                        params=types.ResourceUpdatedNotificationParams(uri=caller.uri, _meta=meta)
                    )
                )
    return types.SubscriptionsListenResult(_meta=meta)


def _own(context: Context, uri: str) -> McpCaller:
    """The caller, if this is its own inbox. Of any other it is not even said whether it is there."""
    caller = _caller(context)
    if caller.task is None or uri != caller.uri:
        raise MCPError(
            types.INVALID_PARAMS, "There is no such resource here: each token has its own inbox.", data={"uri": uri}
        )
    return caller
