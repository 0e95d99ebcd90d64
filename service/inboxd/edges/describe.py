"""Describing: one OpenAPI document for all routes, hot ones included, and /docs rendered from it with nothing from outside."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, FastAPI, Header, Path, Query
from fastapi.openapi.utils import get_openapi

from inboxd import __version__, model
from inboxd.edges import assets
from inboxd.edges.http_views import TaskPath
from inboxd.edges.markdown import render_line
from inboxd.errors import BY_CODE, InboxdError

# These say what http_api.py answers; they are never called. A test compares the two lists.
hot = APIRouter(prefix="/v1/tasks/{task}", tags=["messages"])
hot_threads = APIRouter(prefix="/v1/threads", tags=["threads"])
hooks = APIRouter(prefix="/v1/hooks", tags=["hooks"])


@hot.post("/messages", status_code=201)
async def send(  # type: ignore[empty-body]
    task: TaskPath,
    new: model.NewMessage,
    idempotency_key: Annotated[
        str | None,
        Header(pattern=model.ID_GRAMMAR, description="the message_id, for clients that prefer a header"),
    ] = None,
) -> model.Sent:
    """Send: store one message once and queue it. A retry with the same `message_id` stores nothing and says `duplicate`."""


@hot.post("/pull")
async def pull(task: TaskPath, want: model.PullRequest) -> model.Batch:  # type: ignore[empty-body]
    """Pull: hand the next messages to a session, urgent first. Ack the receipt once the model has them, or they come again."""


@hot.get("/pending")
async def pending(  # type: ignore[empty-body]
    task: TaskPath,
    wait_ms: Annotated[int, Query(ge=0, le=9_999_999, description="wait this long for mail to come")] = 0,
) -> model.Pending:
    """Pending: how much mail waits. Costs the same whatever is stored."""


@hot.post("/ack")
async def ack(task: TaskPath, what: model.SettleRequest) -> model.Settled:  # type: ignore[empty-body]
    """Ack: the session got them. RECEIPT_LOST when another session took them over meanwhile."""


@hot.post("/release")
async def release(task: TaskPath, what: model.SettleRequest) -> model.Settled:  # type: ignore[empty-body]
    """Release: hand them back unread, into their old place."""


@hot.post("/seen")
async def seen(task: TaskPath, what: model.SettleRequest) -> model.Settled:  # type: ignore[empty-body]
    """Seen: the transcript shows that the model got them."""


@hot.post("/unseen")
async def unseen(task: TaskPath, what: model.SettleRequest) -> model.Settled:  # type: ignore[empty-body]
    """Unseen: the transcript shows that the model never got them; they come again."""


@hot_threads.post("/{thread_id}/wait-reply")
async def wait_reply(  # type: ignore[empty-body]
    thread_id: Annotated[str, Path(pattern=model.STORED_ID_GRAMMAR)], want: model.WaitReplyRequest
) -> model.WaitReplyAnswer:
    """The next reply to you in a thread; with `wait_ms` it waits for one. Give `next_event_id` back, and nothing between two calls is missed."""


@hot_threads.post("/watch")
async def watch(want: model.WatchRequest) -> model.WatchAnswer:  # type: ignore[empty-body]
    """What happened to threads since an event; with `wait_ms`, waits for the first thing to happen."""


@hooks.post("/{host}", responses={204: {"description": "nothing to say"}})
async def hook(  # type: ignore[empty-body]
    host: Annotated[str, Path(examples=["claude"], description="claude, codex, gemini, qwen, copilot or auto")],
    given: model.HookRequest,
    ack: Annotated[Literal["now"] | None, Query(description="this answer is the delivery: nobody will ack")] = None,
) -> dict[str, Any]:
    """Hook: the host's own hook input in, the host's own answer out; 204 when there is nothing to say.

    The answer's headers are for whoever prints it: `Inbox-Receipt` and `Inbox-Task` (ack that once it is printed), `Inbox-Messages`,
    `Inbox-Print-Within-Ms` (counted from the request: later than that, print nothing, and the mail comes again).
    """


EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "NewMessage": {"message_id": "b7e1", "body": "Do not touch auth.ts, I am in it.", "priority": "urgent"},
    "NewBroadcast": {"to": ["backend", "frontend"], "body": "The schema changed: pull main."},
    "NewPeerMessage": {"body": "The endpoint is ready.", "kind": "result"},
    "PullRequest": {"pull_id": "p-1", "session": "s-1", "max": 10, "max_chars": 8000, "wait_ms": 0},
    "SettleRequest": {"receipt": "p-1"},
    "AcceptRequest": {"message_ids": ["b7e1"]},
    "NewThread": {"message_id": "t-17", "to": "backend", "subject": "Log-in fails on Safari", "body": "See #17."},
    "ClaimRequest": {"claim_id": "c-1", "lease_ms": 600_000},
    "RenewRequest": {"fencing_token": 1},
    "UpdateRequest": {"fencing_token": 1, "status": "blocked", "body": "Which Safari?"},
    "FinishRequest": {"fencing_token": 1, "summary": "Fixed in 3f2a."},
    "ReplyRequest": {"kind": "answer", "body": "17.4 and later."},
    "CancelRequest": {"reason": "Done by somebody else."},
    "MarkReadRequest": {"agent": "backend"},
    "WaitReplyRequest": {"wait_ms": 0},
    "WatchRequest": {"wait_ms": 0},
    "NewTask": {"task": "backend", "title": "The API", "peers": ["frontend"]},
    "AttachRequest": {"task": "backend", "peers": ["frontend"]},
    "TaskChange": {"title": "The API, second try"},
    "PeersRequest": {"peers": ["frontend"]},
    "PresenceRequest": {"state": "start", "session": "s-1", "machine": "laptop", "host": "claude"},
    "HookRequest": {
        "hook_event_name": "PostToolUse",
        "session_id": "s-1",
        "tool_name": "Bash",
        "inbox": {"pull_id": "p-1"},
    },
    "NewProbe": {"session": "doctor-1", "nonce": "0123456789abcdef"},
    "LoginRequest": {"code": "0123456789abcdef0123"},
    "NewToken": {"role": "agent", "task": "backend"},
}
PROBLEMS: Final = {
    "400": "MALFORMED_JSON",
    "401": "TOKEN_INVALID",
    "403": "FORBIDDEN",
    "404": "TASK_UNKNOWN",
    "409": "RECEIPT_LOST",
    "413": "BODY_TOO_LARGE",
    "422": "INVALID_REQUEST",
    "503": "STORE_UNAVAILABLE",
    "507": "STORE_FULL",
}
"""Each status an operation may answer with, and a code that has it, as an example."""


def description_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document."""
    document = get_openapi(
        title="inboxd",
        version=__version__,
        summary="The mail system for running coding agents.",
        description="Every error has one shape, `{ok: false, error: {code, message, hint, retry_after_ms}}`. "
        "The namespace and the sender come from the token.",
        routes=app.routes,
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for name, schema in (
        model.ProblemAnswer.model_json_schema(ref_template="#/components/schemas/{model}").pop("$defs").items()
    ):
        schemas[name] = schema
    answer = model.ProblemAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    answer.pop("$defs")
    schemas["ProblemAnswer"] = answer
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].update({status: _problem(code) for status, code in PROBLEMS.items()})
    return document


def _problem(code: str) -> dict[str, Any]:
    kind: type[InboxdError] = BY_CODE[code]
    return {
        "description": f"for example {code}: {kind().message}",
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/ProblemAnswer"},
                "example": kind().as_dict(),
            }
        },
    }


def docs_page(document: dict[str, Any]) -> str:
    """The same document for people: plain HTML, no script, nothing loaded."""
    from jinja2 import Environment, PackageLoader

    pages = Environment(
        loader=PackageLoader("inboxd", "web/templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    pages.globals["asset"] = assets.url_of
    pages.filters["words"] = lambda text: render_line(" ".join(text.split()))
    pages.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    codes = sorted(
        (kind.code, kind.status, kind().message) for kind in BY_CODE.values() if kind.code != "START_PROBLEM"
    )
    return pages.get_template("docs.html").render(document=document, codes=codes)
