"""POST /v1/hooks/{host}: a host's hook input in, the host's own answer out. Parses and renders; the broker decides.

204: nothing to say. 200: the body is byte for byte what the host expects on stdout, and these headers are for whoever prints it:
`Inbox-Receipt` and `Inbox-Task` (ack that receipt once it is printed), `Inbox-Messages` (what was handed over),
`Inbox-Print-Within-Ms` (counted from the request: whoever was stopped for longer prints nothing, and the mail comes again),
`Inbox-Exit` and `Inbox-Stream` (say it there and end so, where a host is woken that way). `?ack=now` is for hosts that call HTTP
hooks themselves: their answer is the delivery.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from inboxd.edges.http_api import Answer, Call, HotRoute
from inboxd.errors import InvalidRequest, MalformedJson
from inboxd.model import HookExtras

AUTO = "auto"
"""Named when the binary was not told which host runs it."""


async def hook(call: Call) -> Answer:
    who = await call.caller()
    ack = _ack(call.scope["query_string"])
    try:
        given: Any = from_json(await call.body(), allow_inf_nan=True)
    except ValueError as refusal:
        raise MalformedJson(f"The hook's input is not valid JSON: {refusal}.") from None
    if not isinstance(given, dict):
        raise InvalidRequest("A hook's input is a JSON object.")
    added = given.pop("inbox", None)
    extras = HookExtras.model_validate({} if added is None else added)
    named = None if call.place == AUTO else call.place
    answering = call.broker.hook(who, named, given, extras, ack=ack)
    said = await (call.while_connected(answering) if extras.linger_ms else answering)
    if said is None:
        call.headers = ()
        return 204, b""
    headers = [*call.headers, (b"inbox-task", said.task.encode())]
    if said.message_ids:
        headers.append((b"inbox-messages", ",".join(said.message_ids).encode()))
    if said.receipt is not None:
        headers.append((b"inbox-receipt", said.receipt.encode()))
    if said.print_within_ms is not None:
        headers.append((b"inbox-print-within-ms", b"%d" % said.print_within_ms))
    if said.wakes:
        headers += [(b"inbox-exit", b"2"), (b"inbox-stream", b"stderr")]
    call.headers = tuple(headers)
    return 200, said.body


def _ack(query: bytes) -> bool:
    if query not in (b"", b"ack=now"):
        raise InvalidRequest("This route takes `ack=now` and nothing else.")
    return bool(query)


HOOK = HotRoute("/v1/hooks/{host}", hook)
