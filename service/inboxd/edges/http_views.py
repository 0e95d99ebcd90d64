"""The rest of the API, as FastAPI routes: tasks, peers, presence, history, broadcast, tokens, attention, health."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic_core import from_json

from inboxd import model
from inboxd.broker import Broker
from inboxd.broker.history import Filters
from inboxd.broker.sending import SendAnswer
from inboxd.edges.auth import Caller, caller
from inboxd.edges.http_api import messages_json, sent_json
from inboxd.errors import MalformedJson


class StrictJson(Request):
    """JSON as the hot routes read it: no NaN, no endless depth or digits, no broken text, `{}` for nothing at all.

    It is always JSON, whatever the content type says, as on the hot routes. Read before FastAPI does, which would turn
    every refusal met while reading into one of its own.
    """

    def __init__(self, request: Request) -> None:
        others = [header for header in request.scope["headers"] if header[0] != b"content-type"]
        scope = {**request.scope, "headers": [*others, (b"content-type", b"application/json")]}
        super().__init__(scope, request.receive)

    async def read(self) -> None:
        self._body = await self.body() or b"{}"
        try:
            self._read = from_json(self._body, allow_inf_nan=False)
        except ValueError as refusal:
            raise MalformedJson(f"The request body is not valid JSON in UTF-8: {refusal}.") from None

    async def json(self) -> Any:
        return self._read


class StrictRoute(APIRoute):
    needs_token = True

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = {
            param.alias
            for dependant in (self.dependant, *self.dependant.dependencies)
            for param in dependant.query_params
        }

        async def strict(request: Request) -> Response:
            # First of all: a stranger is told nothing of what else is wrong, and nothing of theirs is read.
            if self.needs_token:
                await caller(request)
            for name in request.query_params:
                if name not in known:
                    raise RequestValidationError(
                        [{"type": "extra_forbidden", "loc": ("query", name[:80]), "msg": "", "input": None}]
                    )
            if self.body_field is None:
                return await handle(request)
            strict_json = StrictJson(request)
            await strict_json.read()
            return await handle(strict_json)

        return strict


class OpenRoute(StrictRoute):
    """The one exception: what is given here is itself the proof."""

    needs_token = False


api = APIRouter(prefix="/v1", route_class=StrictRoute)
open_api = APIRouter(prefix="/v1", route_class=OpenRoute)

TaskPath = Annotated[str, Path(pattern=model.TASK_GRAMMAR, examples=["backend"])]
MessagePath = Annotated[str, Path(pattern=model.STORED_ID_GRAMMAR)]
Limit = Annotated[int, Query(ge=1, le=1_000, description="rows of a page, at most")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before")]
Words = Annotated[str, Query(pattern=r"^[A-Za-z0-9:._,-]*$", max_length=500)]


def json_answer(body: bytes, status: int = 200) -> Response:
    return Response(body, status_code=status, media_type="application/json")


def broker_of(request: Request) -> Broker:
    broker: Broker = request.app.state.broker
    return broker


def _many(duplicate: bool, sent: list[SendAnswer]) -> Response:
    rows = b",".join(sent_json(one) for one in sent)
    return json_answer(b'{"sent":[%b],"duplicate":%b}' % (rows, b"true" if duplicate else b"false"), 201)


@api.post("/tasks", status_code=201, tags=["tasks"])
async def declare(request: Request, who: Caller, new: model.NewTask) -> model.Declared:
    """Declare a task: give it an inbox. Saying it again changes only what is said."""
    task, created = await broker_of(request).declare(who, new)
    return model.Declared(task=task, created=created)


@api.get("/tasks", tags=["tasks"])
async def list_tasks(
    request: Request,
    who: Caller,
    limit: Limit = 100,
    cursor: Cursor = None,
    state: model.TaskState | None = None,
) -> model.TaskPage:
    """All tasks with their state and counts, most urgent first."""
    return await broker_of(request).list_tasks(who, limit=limit, cursor=cursor, state=state)


@api.get("/tasks/{task}", tags=["tasks"])
async def show_task(request: Request, who: Caller, task: TaskPath) -> model.Task:
    """One task."""
    return await broker_of(request).show_task(who, task)


@api.patch("/tasks/{task}", tags=["tasks"])
async def change(request: Request, who: Caller, task: TaskPath, change: model.TaskChange) -> model.Task:
    """Change a task's title, or the whole list of its peers."""
    return await broker_of(request).change(who, task, change)


@api.delete("/tasks/{task}", tags=["tasks"])
async def remove(
    request: Request,
    who: Caller,
    task: TaskPath,
    force: Annotated[bool, Query(description="even if it has mail that nobody got")] = False,
) -> model.Removed:
    """Remove a task and its inbox. Refused while it has mail that nobody got, unless forced."""
    return await broker_of(request).remove(who, task, force=force)


@api.post("/tasks/{task}/peers", tags=["tasks"])
async def link(request: Request, who: Caller, task: TaskPath, peers: model.PeersRequest) -> model.Task:
    """Make tasks each other's peers. A peer that is not declared yet becomes so, and collects mail."""
    return await broker_of(request).link(who, task, peers.peers)


@api.post("/tasks/{task}/presence", tags=["tasks"])
async def presence(request: Request, who: Caller, task: TaskPath, said: model.PresenceRequest) -> model.Present:
    """A session started, lives, waits for its person or ended; or the task is over."""
    return await broker_of(request).presence(who, task, said)


@api.post("/tasks/{task}/peer-messages", status_code=201, tags=["messages"], response_model=model.SentMany)
async def send_to_peers(request: Request, who: Caller, task: TaskPath, new: model.NewPeerMessage) -> Response:
    """Send in the task's own name to one peer, or to all of them."""
    return _many(*await broker_of(request).send_to_peers(who, task, new))


@api.post("/broadcast", status_code=201, tags=["messages"], response_model=model.SentMany)
async def broadcast(request: Request, who: Caller, new: model.NewBroadcast) -> Response:
    """One message to many tasks, all or none; each copy has the id `<message_id>:<task>`."""
    return _many(*await broker_of(request).broadcast(who, new))


@api.get("/tasks/{task}/messages", tags=["messages"], response_model=model.MessagePage)
async def timeline(
    request: Request,
    who: Caller,
    task: TaskPath,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Words = "",
    sender: Words = "",
    kind: Words = "",
    priority: Words = "",
    direction: Literal["in", "out"] | None = None,
    thread_id: Words = "",
) -> Response:
    """A task's messages both ways, newest first. Looking never consumes. `state`, `sender`, `kind` and `priority` take lists with commas."""
    only = Filters(state, sender, kind, priority, direction or "", thread_id)
    found, next_cursor = await broker_of(request).timeline(who, task, limit=limit, cursor=cursor, only=only)
    after = f'"{next_cursor}"'.encode() if next_cursor else b"null"
    return json_answer(b'{"messages":%b,"next_cursor":%b}' % (messages_json(found), after))


@api.get("/messages/{message_id}", tags=["messages"], response_model=model.MessageHistory)
async def show(request: Request, who: Caller, message_id: MessagePath) -> Response:
    """One message with its whole history."""
    message, history = await broker_of(request).show(who, message_id)
    steps = model.StepList.dump_json(
        [model.Step(at_ms=at, state=state, detail=detail) for at, state, detail in history]
    )
    return json_answer(b'{"message":%b,"history":%b}' % (message.as_json(), steps))


@api.post("/messages/{message_id}/requeue", tags=["messages"], response_model=model.Requeued)
async def requeue(request: Request, who: Caller, message_id: MessagePath) -> Response:
    """Bring a dead letter back to its place in the queue."""
    message, pending = await broker_of(request).requeue(who, message_id)
    return json_answer(b'{"message":%b,"pending":%d}' % (message.as_json(), pending))


@api.post("/messages/{message_id}/take-back", tags=["messages"], response_model=model.Requeued)
async def take_back(request: Request, who: Caller, message_id: MessagePath) -> Response:
    """Take back a message that nobody got yet. An agent its own, a person any; MESSAGE_STATE once it was handed over."""
    message, pending = await broker_of(request).take_back(who, message_id)
    return json_answer(b'{"message":%b,"pending":%d}' % (message.as_json(), pending))


@api.post("/messages/accept", tags=["messages"])
async def accept(request: Request, who: Caller, what: model.AcceptRequest) -> model.Settled:
    """The person has read these messages of the inbox `user`, in whatever order: each is delivered and seen."""
    done, lost = await broker_of(request).accept(who, what.message_ids)
    return model.Settled(message_ids=done, lost=lost)


@api.get("/search", tags=["messages"], response_model=model.MessagePage)
async def search(
    request: Request,
    who: Caller,
    text: Annotated[str, Query(max_length=200, description="words of a body, a subject or a summary")] = "",
    sender: Words = "",
    task: Annotated[str | None, Query(pattern=model.TASK_GRAMMAR, description="to or from this one")] = None,
    from_ms: Annotated[int | None, Query(ge=0, le=10**15)] = None,
    to_ms: Annotated[int | None, Query(ge=0, le=10**15)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Messages that say something, newest first. A short page with a `next_cursor` means that there is more to look through."""
    found, next_cursor = await broker_of(request).search(
        who, text=text, sender=sender, task=task, from_ms=from_ms, to_ms=to_ms, limit=limit, cursor=cursor
    )
    after = f'"{next_cursor}"'.encode() if next_cursor else b"null"
    return json_answer(b'{"messages":%b,"next_cursor":%b}' % (messages_json(found), after))


@api.get("/attention", tags=["tasks"])
async def attention(request: Request, who: Caller) -> model.Attention:
    """What needs a person, most urgent first."""
    return await broker_of(request).attention(who)


@api.get("/stats", tags=["tasks"])
async def stats(request: Request, who: Caller) -> model.Stats:
    """The last hour, minute by minute, oldest first."""
    return model.Stats(minutes=await broker_of(request).stats(who))


@api.post("/tokens", status_code=201, tags=["tokens"])
async def create_token(request: Request, who: Caller, new: model.NewToken) -> model.TokenMade:
    """Make a token. An operator may make agents' tokens, an admin any. It is shown this once."""
    return await broker_of(request).create_token(who, new)


@api.get("/tokens", tags=["tokens"])
async def list_tokens(request: Request, who: Caller) -> model.TokenList:
    """The namespace's tokens, without their secrets."""
    return model.TokenList(tokens=await broker_of(request).list_tokens(who))


@api.delete("/tokens/{token_id}", tags=["tokens"])
async def revoke_token(
    request: Request, who: Caller, token_id: Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]
) -> model.Revoked:
    """Revoke a token: from now on it opens nothing."""
    await broker_of(request).revoke_token(who, token_id)
    return model.Revoked(token_id=token_id)


@api.post("/tasks/{task}/probe", status_code=201, tags=["hooks"])
async def probe(request: Request, who: Caller, task: TaskPath, new: model.NewProbe) -> model.Done:
    """Leave a nonce for one made-up session, whose next hook says it: a check of the whole way that touches nobody's mail."""
    await broker_of(request).probe(who, task, new)
    return model.Done()


@open_api.post("/login", status_code=201, tags=["tokens"])
async def log_in(request: Request, given: model.LoginRequest) -> model.TokenMade:
    """A user's token for the one-time code that `inboxd serve` prints."""
    return await broker_of(request).log_in(given.code)


@api.get("/whoami", tags=["tokens"])
async def whoami(who: Caller) -> model.WhoAmI:
    """What this token is."""
    return model.WhoAmI(
        namespace=who.namespace,
        role=who.role,
        task=who.task,
        token_id=who.token_id,
        expires_at_ms=who.expires_at_ms,
    )
