"""The vocabulary: what a message, a task and a caller are, and how they look on the wire. Pure: no I/O, no clock.

Input is strict: unknown fields are refused, `false` is no integer, text has no NUL. Times are integer milliseconds.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    field_validator,
    model_validator,
)

TASK_GRAMMAR: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
NAMESPACE_GRAMMAR: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"
ID_GRAMMAR: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
STORED_ID_GRAMMAR: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,192}$"
"""A broadcast's copies have ids of their own, `<message_id>:<task>`, longer than what a sender may choose."""

USER: Final = "user"
SESSION_DEFAULT: Final = "default"

Priority = Literal["low", "normal", "high", "urgent"]
RANKS: Final[dict[str, int]] = {"low": 0, "normal": 1, "high": 2, "urgent": 3}
Kind = Literal["message", "task", "progress", "question", "answer", "result", "control", "event", "help_request"]
State = Literal["queued", "in_flight", "delivered", "seen", "expired", "superseded", "dead", "noted"]
"""`noted`: part of a thread and nobody's mail."""
Status = Literal["pending", "claimed", "in_progress", "blocked", "done", "failed", "cancelled"]
STATUSES: Final[tuple[Status, ...]] = ("pending", "claimed", "in_progress", "blocked", "done", "failed", "cancelled")
TaskState = Literal["queued", "active", "idle", "waiting", "terminated"]
Role = Literal["admin", "user", "operator", "agent", "observer"]
Sign = Literal["heartbeat", "start", "end", "waiting", "terminated"]

TaskId = Annotated[str, StringConstraints(pattern=TASK_GRAMMAR), Field(examples=["backend"])]
NewId = Annotated[str, StringConstraints(pattern=ID_GRAMMAR)]
StoredId = Annotated[str, StringConstraints(pattern=STORED_ID_GRAMMAR)]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=300)]
SessionId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$")]

_task_matches = re.compile(TASK_GRAMMAR[:-1] + r"\Z").match
_stored_id_matches = re.compile(STORED_ID_GRAMMAR[:-1] + r"\Z").match
_namespace_matches = re.compile(NAMESPACE_GRAMMAR[:-1] + r"\Z").match


def is_task_id(text: str) -> bool:
    return _task_matches(text) is not None


def is_stored_id(text: str) -> bool:
    return _stored_id_matches(text) is not None


def is_namespace(text: str) -> bool:
    return _namespace_matches(text) is not None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)


def json_size(value: Any) -> int:
    """How large a JSON value is when written out; refuses what JSON cannot say (NaN, 1e999, endless depth)."""
    try:
        return len(json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode())
    except (ValueError, RecursionError) as refusal:
        raise ValueError(f"not plain JSON: {refusal}") from None


class Artifact(Strict):
    """A reference to something a message speaks of; inboxd stores no file."""

    path: Annotated[Text, StringConstraints(min_length=1, max_length=4096)]
    kind: Annotated[Line, StringConstraints(max_length=64)] | None = None
    metadata: dict[str, Any] | None = None

    @field_validator("metadata")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        if json_size(value) > 16_384:
            raise ValueError("metadata may be 16,384 bytes of JSON at most")
        return value


class Content(Strict):
    """What a sender may say in a message, wherever it goes."""

    body: Text = Field("", description="markdown; shown to the model as text", examples=["Do not touch auth.ts"])
    kind: Kind = "message"
    subject: Line | None = None
    summary: Annotated[Text, StringConstraints(max_length=4000)] | None = None
    payload: Any = Field(None, description="any JSON value", examples=[{"ticket": 17}])
    priority: Priority = Field("normal", description="urgent also stops the next tool call")
    thread_id: StoredId | None = None
    reply_to: StoredId | None = Field(None, description="the message this one answers")
    awaiting_response: bool = Field(False, description="the sender is shown as waiting until it is answered")
    topic: Annotated[Line, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="a newer message of the same sender and topic replaces this one while it is queued"
    )
    ttl_ms: Annotated[int, Field(ge=1, le=31_536_000_000)] | None = Field(
        None, description="undelivered after this, it expires"
    )
    artifacts: Annotated[list[Artifact], Field(max_length=64)] = Field(default_factory=list)
    hops: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        0, description="answers in a row so far; the broker counts too"
    )

    @model_validator(mode="after")
    def _says_something(self) -> Content:
        if not (self.body or self.subject or self.summary or self.artifacts) and self.payload is None:
            raise ValueError("a message needs a body, a subject, a summary, a payload or an artifact")
        return self

    @property
    def chars(self) -> int:
        """What counts against a pull's `max_chars`."""
        return len(self.body) + len(self.subject or "") + len(self.summary or "")


class NewMessage(Content):
    """POST /v1/tasks/{task}/messages"""

    message_id: NewId | None = Field(None, description="minted by the sender, so that a retry is harmless")
    supersedes: StoredId | None = Field(None, description="a queued message of the same sender to replace")
    create: bool = Field(False, description="declare the recipient if it is unknown")
    sender: Annotated[Line, StringConstraints(max_length=80)] | None = Field(
        None, alias="from", description="only what the token allows: an operator may say `task:<id>`"
    )


class NewBroadcast(Content):
    """POST /v1/broadcast"""

    to: Annotated[list[TaskId], Field(min_length=1)] | Literal["all"] = Field(
        description="task ids, or `all`: every task but the sender, the person and terminated ones"
    )
    message_id: NewId | None = None
    create: bool = False
    sender: Annotated[Line, StringConstraints(max_length=80)] | None = Field(None, alias="from")


class NewPeerMessage(Content):
    """POST /v1/tasks/{task}/peer-messages"""

    to: TaskId | None = Field(None, description="one peer; none: all of them")
    message_id: NewId | None = None


LeaseMs = Annotated[int, Field(ge=1_000, le=86_400_000)]
EventNumber = Annotated[int, Field(ge=0, le=10**15)]
Fence = Annotated[int, Field(ge=0, le=10**15, description="of the lease, as claim answered it")]


class Words(Strict):
    """What is said in a thread."""

    message_id: NewId | None = Field(None, description="minted by the sender, so that a retry is harmless")
    summary: Annotated[Text, StringConstraints(max_length=4000)] | None = Field(None, description="in one sentence")
    body: Text = ""
    payload: Any = Field(None, description="any JSON value")
    artifacts: Annotated[list[Artifact], Field(max_length=64)] = Field(default_factory=list)


class NewThread(Words):
    """POST /v1/threads"""

    subject: Annotated[Line, StringConstraints(min_length=1)] = Field(examples=["Log-in fails on Safari"])
    to: TaskId | None = Field(None, description="who should do it, and gets it as mail; none: anybody may claim it")
    kind: Kind = "task"
    priority: Priority = "normal"
    run_id: Annotated[Line, StringConstraints(max_length=200)] | None = Field(None, description="a label of yours")
    task_id: Annotated[Line, StringConstraints(max_length=200)] | None = Field(None, description="a label of yours")
    awaiting_response: bool = Field(False, description="the sender is shown as waiting until the thread is over")
    create: bool = Field(False, description="declare the recipient if it is unknown")
    sender: Annotated[Line, StringConstraints(max_length=80)] | None = Field(None, alias="from")

    @field_validator("message_id")
    @classmethod
    def _is_no_route(cls, value: str | None) -> str | None:
        if value in ("fetch", "watch"):
            raise ValueError("that is the name of a route and cannot be a thread's id")
        return value


class ClaimRequest(Strict):
    """POST /v1/threads/{thread_id}/claim"""

    agent: TaskId | None = None
    lease_ms: LeaseMs | None = None
    claim_id: NewId | None = Field(None, description="minted by the claimer; a retry with it returns the same lease")


class RenewRequest(Strict):
    """POST /v1/threads/{thread_id}/renew"""

    agent: TaskId | None = None
    fencing_token: Fence
    lease_ms: LeaseMs | None = None
    renew_id: NewId | None = Field(None, description="a retry with it changes nothing")


class UpdateRequest(Words):
    """POST /v1/threads/{thread_id}/update"""

    status: Literal["in_progress", "blocked"] = "in_progress"
    agent: TaskId | None = None
    fencing_token: Fence

    @model_validator(mode="after")
    def _asks(self) -> UpdateRequest:
        if self.status == "blocked" and not (self.body.strip() or (self.summary or "").strip()):
            raise ValueError("blocked needs a question: say in summary or body what is missing")
        return self


class FinishRequest(Words):
    """POST /v1/threads/{thread_id}/done and /fail"""

    agent: TaskId | None = None
    fencing_token: Fence

    @model_validator(mode="after")
    def _says_how(self) -> FinishRequest:
        if not (self.summary or "").strip():
            raise ValueError("the end of a thread needs a summary")
        return self


ReplyKind = Literal["message", "progress", "question", "answer", "control", "event"]


class ReplyRequest(Words):
    """POST /v1/threads/{thread_id}/reply"""

    kind: ReplyKind = "answer"
    to: TaskId | None = Field(None, description="whose mail it is; by itself who works on it, or who opened it")
    reply_to: StoredId | None = Field(None, description="the message this one answers; by itself the open question")
    priority: Priority = "normal"
    fencing_token: Fence | None = Field(None, description="needed from whoever works on the thread")
    sender: Annotated[Line, StringConstraints(max_length=80)] | None = Field(None, alias="from")

    @model_validator(mode="after")
    def _says_something(self) -> ReplyRequest:
        if not (self.body or self.summary or self.artifacts) and self.payload is None:
            raise ValueError("a reply needs a body, a summary, a payload or an artifact")
        return self


class CancelRequest(Strict):
    """POST /v1/threads/{thread_id}/cancel"""

    reason: Annotated[Text, StringConstraints(max_length=4000)] = ""
    message_id: NewId | None = None
    sender: Annotated[Line, StringConstraints(max_length=80)] | None = Field(None, alias="from")


class MarkReadRequest(Strict):
    """POST /v1/threads/{thread_id}/mark-read"""

    agent: TaskId | None = None
    up_to: EventNumber | None = Field(None, description="the number `n` of the last message read; none: the newest")


class WaitReplyRequest(Strict):
    """POST /v1/threads/{thread_id}/wait-reply"""

    agent: TaskId | None = None
    after_event: EventNumber | None = Field(None, description="`next_event_id` of the call before")
    after_message: StoredId | None = Field(None, description="a message of the thread; neither: your own last word")
    kinds: Annotated[list[Kind], Field(min_length=1)] = ["answer", "control", "result"]
    wait_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0
    ack: bool = Field(True, description="as mail it is delivered by this; false: hold it under `receipt` until acked")
    session: SessionId = "wait-reply"
    hold_ms: Annotated[int, Field(ge=100, le=3_600_000)] | None = None


class WatchRequest(Strict):
    """POST /v1/threads/watch"""

    agent: TaskId | None = Field(None, description="only threads it has a part in, and those in the pool")
    status: list[Status] = Field(default_factory=list, description="only events that left a thread in one of these")
    after_event: EventNumber | None = Field(None, description="`next_event_id` of the call before; none: from now on")
    wait_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0


class PullRequest(Strict):
    """POST /v1/tasks/{task}/pull"""

    pull_id: NewId | None = Field(None, description="minted by the reader; a retry with it returns the same batch")
    session: SessionId = SESSION_DEFAULT
    max: Annotated[int, Field(ge=1, le=1_000)] = 20
    max_chars: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="budget of text; the first message always fits"
    )
    min_priority: Priority = "low"
    wait_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0
    hold_ms: Annotated[int, Field(ge=100, le=3_600_000)] | None = None
    ack: bool = Field(False, description="deliver at once, in the same call")


class SettleRequest(Strict):
    """POST /v1/tasks/{task}/ack, /release, /seen, /unseen"""

    receipt: NewId | None = None
    message_ids: Annotated[list[StoredId], Field(min_length=1, max_length=1_000)] | None = None
    session: SessionId = Field(SESSION_DEFAULT, description="with message_ids: the session they were handed to")

    @model_validator(mode="after")
    def _names_one(self) -> SettleRequest:
        if self.receipt is None and self.message_ids is None:
            raise ValueError("give a receipt, or message_ids, or of a receipt only some message_ids")
        return self


class AcceptRequest(Strict):
    """POST /v1/messages/accept"""

    message_ids: Annotated[list[StoredId], Field(min_length=1, max_length=1_000)]


class Verdict(Strict):
    """What a transcript says of messages handed over under one receipt."""

    receipt: NewId
    message_ids: Annotated[list[StoredId], Field(min_length=1, max_length=1_000)]


class HookExtras(BaseModel):
    """The `inbox` member that the binary adds to a host's hook input. Lenient to newer binaries: unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    pull_id: NewId | None = None
    task: TaskId | None = None
    machine: Annotated[str, StringConstraints(max_length=300)] = ""
    seen: Annotated[list[Verdict], Field(max_length=200)] = []
    unseen: Annotated[list[Verdict], Field(max_length=200)] = []
    doubt: Annotated[list[NewId], Field(max_length=200)] = []
    mode: Literal["deliver", "remind", "wake"] = "deliver"
    linger_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0


class HookRequest(BaseModel):
    """POST /v1/hooks/{host}: whatever the host gives its hooks; these are the fields that are looked at."""

    model_config = ConfigDict(extra="allow")

    hook_event_name: Any = None
    session_id: Any = None
    inbox: HookExtras | None = None


class NewProbe(Strict):
    """POST /v1/tasks/{task}/probe"""

    session: Annotated[str, StringConstraints(pattern=r"^doctor-[A-Za-z0-9-]{1,64}$")]
    nonce: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{8,64}$")]


class LoginRequest(Strict):
    """POST /v1/login"""

    code: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,100}$")]


class NewTask(Strict):
    """POST /v1/tasks"""

    task: TaskId
    title: Line = ""
    peers: Annotated[list[TaskId], Field(max_length=100)] = []


class AttachRequest(NewTask):
    """POST /v1/attach"""

    token_id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")] | None = Field(
        None, description="the token that the worktree has; while it is good for this task, no other is made"
    )
    label: Line = Field("", description="a word to know the token by")


class PlanOurs(Strict):
    """How to know what an earlier attach left, should nothing else tell: every text under one of these names is like this."""

    names: list[str]
    like: str = Field(description="a regular expression (RE2)")


class PlanAddition(Strict):
    """One value in a JSON file: set as a member, or appended to a list; what is missing on the way there is made."""

    path: list[str]
    how: Literal["set", "append"]
    value: Any


class PlanEdit(Strict):
    """One change of one file.

    json: the additions. block: the text between the two marks, at the end. toml: the same, refused where `table` is defined
    elsewhere. whole: a file of our own.
    """

    what: Literal["hooks", "mcp", "instruction", "skill"]
    file: str
    base: Literal["worktree", "repository"] = Field(
        "worktree", description="repository: the main checkout, also for a linked worktree"
    )
    form: Literal["json", "block", "toml", "whole"]
    personal: bool = Field(False, description="names things of this machine: if it is new, git should not see it")
    comments: bool = Field(False, description="json: the host allows comments in it")
    additions: list[PlanAddition] = Field(default_factory=list)
    ours: PlanOurs | None = None
    text: str = ""
    marks: tuple[str, str] | None = None
    table: str = ""


class TrustNote(Strict):
    """Where a host writes down that the person trusts something. It is looked at and never written.

    `any_of` has {worktree} and {repository} for their paths: the host has noted it when one of them stands in the file `least` times.
    """

    what: str
    folder: str = Field(description="with ~ for the home folder")
    folder_env: str = Field("", description="a variable of the host that names another one")
    file: str
    any_of: list[str]
    least: int = 1
    hint: str


class Plan(Strict):
    host: str
    edits: list[PlanEdit]
    trust: list[TrustNote] = Field(default_factory=list)
    notice: str = Field("", description="what the person has to know or do once")


class HostFacts(Strict):
    """How to tell that a host is used here."""

    host: str
    program: str = Field(description="its command")
    signs: list[str] = Field(description="what it has in a worktree where it is used")


class HostList(BaseModel):
    hosts: list[HostFacts]


class Skill(BaseModel):
    name: str
    text: str
    places: dict[str, str] = Field(description="where each host looks for it, within a worktree or a home folder")


class TaskChange(Strict):
    """PATCH /v1/tasks/{task}"""

    title: Line | None = None
    peers: Annotated[list[TaskId], Field(max_length=100)] | None = Field(None, description="the whole new list")


class PeersRequest(Strict):
    """POST /v1/tasks/{task}/peers"""

    peers: Annotated[list[TaskId], Field(min_length=1, max_length=100)]


class PresenceRequest(Strict):
    """POST /v1/tasks/{task}/presence"""

    state: Sign = "heartbeat"
    session: SessionId = SESSION_DEFAULT
    machine: Line = ""
    host: Annotated[Line, StringConstraints(max_length=64)] = Field(
        "", description="the agent's program: claude, codex …"
    )
    detail: Line = Field("", description="with waiting: what the person is asked")


class NewToken(Strict):
    """POST /v1/tokens"""

    role: Role
    task: TaskId | None = Field(None, description="with role agent: whose inbox it opens")
    label: Line = ""
    ttl_ms: Annotated[int, Field(ge=1_000, le=315_360_000_000)] | None = None

    @model_validator(mode="after")
    def _agents_have_tasks(self) -> NewToken:
        if (self.role == "agent") != (self.task is not None):
            raise ValueError("an agent token needs a task, and only an agent token has one")
        if self.task == USER:
            raise ValueError("`user` is the person's inbox: give a token of role user")
        return self


class Identity(NamedTuple):
    """Who calls, as the broker knows it from the token."""

    namespace: str
    role: Role
    task: str | None
    token_id: str
    expires_at_ms: int | None


class StoredMessage(NamedTuple):
    """A message as the store shows it; the order is that of lua/lib/view.lua."""

    doc: bytes
    n: bytes
    state: bytes
    hops: bytes
    attempts: bytes
    created_at_ms: bytes
    expires_at_ms: bytes | None
    delivered_at_ms: bytes | None
    delivered_to: bytes | None
    seen_at_ms: bytes | None
    holder: bytes | None
    reason: bytes | None

    def as_json(self) -> bytes:
        """The wire form. `doc` is JSON already: it is extended, not parsed, because this is the hot path.

        Everything spliced in is a number, a word of ours or of a quote-free grammar.
        """
        held = self.holder if self.state == b"in_flight" else None
        return (
            b'%b,"n":%b,"state":"%b","hops":%b,"attempts":%b,"created_at_ms":%b,"expires_at_ms":%b,"delivered_at_ms":%b,"delivered_to":%b,"seen_at_ms":%b,"held_by":%b,"reason":%b}'
            % (
                self.doc[:-1],
                self.n,
                self.state,
                self.hops,
                self.attempts,
                self.created_at_ms,
                self.expires_at_ms or b"null",
                self.delivered_at_ms or b"null",
                _quoted(self.delivered_to),
                self.seen_at_ms or b"null",
                _quoted(held),
                _quoted(self.reason),
            )
        )


def _quoted(word: bytes | None) -> bytes:
    return b'"%b"' % word if word else b"null"


class Message(BaseModel):
    """One message, as every route shows it."""

    message_id: str
    task: str | None = Field(description="whose inbox it is for; none: it only stands in its thread")
    sender: str = Field(description="set by the broker: user, task:<id>, operator or system")
    kind: Kind
    subject: str | None
    summary: str | None
    body: str
    payload: Any
    priority: Priority
    thread_id: str | None
    reply_to: str | None
    awaiting_response: bool
    topic: str | None
    ttl_ms: int | None
    supersedes: str | None
    artifacts: list[Artifact]
    n: int = Field(description="its number in the namespace, rising")
    state: State
    hops: int
    attempts: int = Field(description="hand-overs so far; more than one means it came again")
    created_at_ms: int
    expires_at_ms: int | None
    delivered_at_ms: int | None
    delivered_to: str | None = Field(description="the session")
    seen_at_ms: int | None
    held_by: str | None = Field(description="the session it is in flight to")
    reason: str | None = Field(description="why it is dead, expired or superseded")


class Step(BaseModel):
    at_ms: int
    state: State
    detail: str = Field(description="the session, the sender or the reason")


class MessageHistory(BaseModel):
    message: Message
    history: list[Step]


StepList = TypeAdapter(list[Step])


class Requeued(BaseModel):
    message: Message
    pending: int


class Sent(BaseModel):
    message: Message
    duplicate: bool = Field(description="this id was stored before; nothing was stored now")
    pending: int = Field(description="messages that wait in the recipient's inbox")
    recipient_state: TaskState
    superseded: list[str] = []


class SentMany(BaseModel):
    sent: list[Sent]
    duplicate: bool


class Batch(BaseModel):
    receipt: str | None = Field(
        description="ack it once the messages reached the model; none when the batch is empty or acked"
    )
    pull_id: str
    messages: list[Message]
    pending: int = Field(description="messages that still wait, of any priority")
    left: int = Field(description="those of them that this pull could have taken, had there been room")


class Settled(BaseModel):
    ok: bool = True
    message_ids: list[str] = Field(description="those that are now so")
    lost: list[str] = Field(description="those that this session no longer holds; nothing was changed for them")


class ByPriority(BaseModel):
    urgent: int
    high: int
    normal: int
    low: int


class Pending(BaseModel):
    task: str
    pending: int = Field(description="messages that wait to be handed over")
    urgent: int
    by_priority: ByPriority
    held: int = Field(description="messages handed over and not yet acked")


class Task(BaseModel):
    task: str
    title: str
    state: TaskState
    peers: list[str]
    pending: int
    urgent: int
    by_priority: ByPriority
    held: int
    dead: int
    waiting_for: list[str] = Field(description="ids of its own messages that it wants an answer to")
    waits_for_person: str | None = Field(description="what its program asks the person, if it does")
    session: str | None
    machine: str | None
    host: str | None
    created_at_ms: int
    started_at_ms: int | None
    last_heard_ms: int | None
    terminated_at_ms: int | None


class Page(BaseModel):
    next_cursor: str | None = Field(description="give it as `cursor` for the next page; none: this was the last")


class TaskPage(Page):
    tasks: list[Task]


class MessagePage(Page):
    messages: list[Message]


class Declared(BaseModel):
    task: Task
    created: bool


class Removed(BaseModel):
    ok: bool = True
    task: str
    dropped: int = Field(description="messages that nobody got and that are now expired")


class Present(BaseModel):
    ok: bool = True
    task: str
    state: TaskState
    given_back: int = Field(description="messages the session held that went back into the queue")


class Lease(BaseModel):
    agent: str
    fencing_token: int | None = Field(description="told to its holder by claim and renew, to nobody else")
    claimed_at_ms: int
    expires_at_ms: int
    released_at_ms: int | None
    live: bool = Field(description="whether it holds now; one that has run out can be taken over")


class Thread(BaseModel):
    thread_id: str
    run_id: str | None
    task_id: str | None
    subject: str
    created_by: str
    assigned_to: str | None
    status: Status
    priority: Priority
    summary: str | None = Field(description="the last word on how it goes or how it ended")
    question_id: str | None = Field(description="the message that waits for an answer")
    opening_message_id: str
    latest_message_id: str
    messages: int
    unread: bool = Field(description="for whoever asks: it has words of others behind its read cursor")
    created_at_ms: int
    updated_at_ms: int
    closed_at_ms: int | None
    lease: Lease | None


class ThreadAnswer(BaseModel):
    ok: bool = True
    command: str
    thread: Thread


class SaidAnswer(ThreadAnswer):
    message: Message
    duplicate: bool = Field(description="this id was stored before; nothing was changed now")


class ThreadList(BaseModel):
    ok: bool = True
    command: str
    threads: list[Thread]
    next_event_id: int = Field(description="give it to watch as `after_event`, and nothing since is missed")


class ThreadPage(ThreadList):
    next_cursor: str | None


class ThreadHistory(ThreadAnswer):
    messages: list[Message]
    next_cursor: str | None = Field(description="give it as `cursor` for the messages behind these")


class WaitReplyAnswer(BaseModel):
    ok: bool = True
    command: str = "wait-reply"
    woke: bool
    next_event_id: int
    message: Message | None = None
    receipt: str | None = Field(None, description="with `ack: false`: ack it once the reply was read")


class WatchAnswer(BaseModel):
    ok: bool = True
    command: str = "watch"
    woke: bool
    next_event_id: int
    events: list[dict[str, Any]]
    reset: bool = Field(description="the log no longer reaches back to `after_event`: list again")


class Minute(BaseModel):
    """One minute of a namespace."""

    at_ms: int
    queued: int
    delivered: int
    waited_ms: int = Field(description="how long those delivered had waited, in the mean")
    pending: int


class Stats(BaseModel):
    """The last hour, oldest minute first."""

    minutes: list[Minute]


class TokenInfo(BaseModel):
    token_id: str
    role: Role
    task: str | None
    label: str
    created_at_ms: int
    expires_at_ms: int | None


class TokenMade(TokenInfo):
    token: str = Field(description="shown once; only its hash is stored")


class Attached(BaseModel):
    task: Task
    created: bool
    token: TokenMade | None = Field(description="none: the one that the worktree has is good")


class TokenList(BaseModel):
    tokens: list[TokenInfo]


class Revoked(BaseModel):
    ok: bool = True
    token_id: str


class Done(BaseModel):
    ok: bool = True


class WhoAmI(BaseModel):
    namespace: str
    role: Role
    task: str | None
    token_id: str
    expires_at_ms: int | None


Why = Literal["urgent_unread", "waits_for_person", "blocked_thread", "dead_letters", "waiting_for_answer"]


class AttentionItem(BaseModel):
    task: str
    why: Why
    count: int
    detail: str
    since_ms: int | None
    thread_id: str | None = None


class Attention(BaseModel):
    items: list[AttentionItem]


class Problem(BaseModel):
    code: str
    message: str
    hint: str | None
    retry_after_ms: int | None


class ProblemAnswer(BaseModel):
    """Every error of every route has this shape."""

    ok: Literal[False]
    error: Problem
