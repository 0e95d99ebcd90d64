"""A model that says what a test wrote down: it listens on loopback, speaks both APIs that agents' programs use, thinks nothing.

A conversation is known by a word in its first prompt; each has its own list of turns. Every request is kept, because what a
request holds is what the model would have read. Requests without tools are the program's own errands (a title, a summary): they
get a word of their own and are kept apart.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ERRAND = "errand"
"""The conversation of requests that no test wrote turns for."""


@dataclass(frozen=True)
class Call:
    """The model wants a tool run."""

    tool: str
    given: dict[str, Any]
    namespace: str = ""
    """Where the Responses API groups a server's tools, the group: `mcp__inbox`."""


@dataclass(frozen=True)
class Turn:
    """One answer of the model."""

    says: tuple[str | Call, ...]
    meanwhile: Callable[[], object] = lambda: None
    """What happens in the world while the model thinks: after the request has come, before the answer goes."""
    perhaps: bool = False
    """Whether the host may also do without it."""


def turn(*says: str | Call, meanwhile: Callable[[], object] = lambda: None, perhaps: bool = False) -> Turn:
    return Turn(says, meanwhile, perhaps)


@dataclass
class Request:
    """One request, and the conversation it belongs to."""

    conversation: str
    body: dict[str, Any]

    def text(self) -> str:
        """All that the model would read of the conversation: its messages, and the system's words beside them."""
        read = {name: self.body.get(name) for name in ("system", "instructions", "messages", "input")}
        return json.dumps(read, ensure_ascii=False)

    def count(self, words: str) -> int:
        return self.text().count(words)

    def tools(self) -> set[str]:
        return {str(tool.get("name", tool.get("type"))) for tool in self.body.get("tools") or ()}


@dataclass
class ScriptedModel:
    scripts: dict[str, list[Turn]] = field(default_factory=dict)
    """What is said in each conversation, oldest first; the word that names it stands in its first prompt."""
    requests: list[Request] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ids: int = 0

    def script(self, conversation: str, *turns: Turn) -> None:
        self.scripts[conversation] = list(turns)

    def of(self, conversation: str) -> list[Request]:
        return [request for request in self.requests if request.conversation == conversation]

    def left(self) -> int:
        """Turns that nobody asked for and that had to be."""
        return sum(not left.perhaps for turns in self.scripts.values() for left in turns)

    def next_turn(self, body: dict[str, Any]) -> Turn:
        with self._lock:
            name = self._conversation(body)
            self.requests.append(Request(name, body))
            turns = self.scripts.get(name)
            if name != ERRAND and not turns:
                self.faults.append(AssertionError(f"nobody wrote what to say now in {name}"))
            found = turns.pop(0) if turns else Turn(("Fine.",))
        try:
            found.meanwhile()
        except BaseException as fault:
            self.faults.append(fault)
        return found

    def name(self, kind: str) -> str:
        with self._lock:
            self._ids += 1
            return f"{kind}_{self._ids:08d}"

    def _conversation(self, body: dict[str, Any]) -> str:
        if not body.get("tools"):
            return ERRAND
        prompts = [said for said in body.get("messages") or body.get("input") or () if said.get("role") == "user"]
        for said in prompts:
            text = json.dumps(said.get("content"))
            for name in self.scripts:
                if name in text:
                    return name
        return ERRAND


def anthropic_events(model: ScriptedModel, asked: str, says: tuple[str | Call, ...]) -> Iterator[dict[str, Any]]:
    """An answer in the words of the Messages API."""
    usage = {"input_tokens": 10, "output_tokens": 10}
    message = {"id": model.name("msg"), "type": "message", "role": "assistant", "model": asked, "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, said in enumerate(says):
        if isinstance(said, Call):
            block = {"type": "tool_use", "id": model.name("toolu"), "name": said.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(said.given)}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": said}
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if any(isinstance(said, Call) for said in says) else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def anthropic_whole(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The same answer for a caller that did not ask for a stream."""
    whole = dict(events[0]["message"])
    whole["content"] = []
    for event in events:
        if event["type"] == "content_block_start":
            whole["content"].append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                whole["content"][-1]["text"] = delta["text"]
            else:
                whole["content"][-1]["input"] = json.loads(delta["partial_json"])
        elif event["type"] == "message_delta":
            whole |= event["delta"]
    return whole


def responses_events(model: ScriptedModel, says: tuple[str | Call, ...]) -> Iterator[dict[str, Any]]:
    """An answer in the words of the Responses API."""
    response = {"id": model.name("resp"), "object": "response"}
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    output: list[dict[str, Any]] = []
    for said in says:
        if isinstance(said, Call):
            item = {
                "type": "function_call",
                "id": model.name("fc"),
                "call_id": model.name("call"),
                "name": said.tool,
                "arguments": json.dumps(said.given),
                **({"namespace": said.namespace} if said.namespace else {}),
            }
        else:
            content = [{"type": "output_text", "text": said, "annotations": []}]
            item = {"type": "message", "id": model.name("msg"), "role": "assistant", "content": content}
        output.append(item)
        yield {"type": "response.output_item.added", "output_index": len(output) - 1, "item": item}
        yield {"type": "response.output_item.done", "output_index": len(output) - 1, "item": item}
    usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "output": output, "usage": usage},
    }


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def do_HEAD(self) -> None:
            self._send(200, "application/json", b"")

        def do_GET(self) -> None:
            self._send(404, "application/json", b"{}")

        def do_POST(self) -> None:
            given = self.rfile.read(int(self.headers.get("content-length", "0")))
            path = self.path.partition("?")[0]
            if path.endswith("/count_tokens"):
                return self._send(200, "application/json", b'{"input_tokens":10}')
            if not path.endswith(("/messages", "/responses")):
                return self._send(404, "application/json", b"{}")
            body = json.loads(given)
            says = model.next_turn(body).says
            if path.endswith("/responses"):
                return self._stream(list(responses_events(model, says)))
            events = list(anthropic_events(model, str(body.get("model")), says))
            if body.get("stream"):
                return self._stream(events)
            return self._send(200, "application/json", json.dumps(anthropic_whole(events)).encode())

        def _stream(self, events: list[dict[str, Any]]) -> None:
            lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            self._send(200, "text/event-stream", lines.encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hung up is no fault of anybody's."""


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    model = ScriptedModel()
    server = _Server(("127.0.0.1", 0), _handler(model))
    model.url = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    serving.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)
