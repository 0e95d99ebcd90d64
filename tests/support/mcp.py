"""MCP as bytes on HTTP, for what the SDK's client would not say: odd headers, a call made twice, a foreign origin.

Both protocols, and both ways through our door: what is as usual is answered in front of the SDK, what is not goes through it. A
quality in `Accept` is unusual and means nothing, so with one the same call goes the other way.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import Any

import httpx2

OLD, NEW = "2025-11-25", "2026-07-28"
META = "io.modelcontextprotocol/"


@dataclass
class Speaker:
    """One client of /mcp."""

    client: httpx2.AsyncClient
    version: str = NEW
    by_sdk: bool = False
    path: str = "/mcp"
    headers: dict[str, str] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, *, number: Any = None, **headers: str
    ) -> httpx2.Response:
        """One request, and whatever is answered."""
        given = dict(params or {})
        head = {
            "accept": "application/json, text/event-stream" + (";q=0.9" if self.by_sdk else ""),
            "content-type": "application/json",
            # There is none to name before it is agreed on.
            **({"mcp-protocol-version": self.version} if method != "initialize" else {}),
        }
        if self.version == NEW:
            about = {"protocolVersion": NEW, "clientCapabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
            given["_meta"] = {**{META + name: value for name, value in about.items()}, **given.get("_meta", {})}
            head["mcp-method"] = method
            name = given.get("name", given.get("uri"))
            if name is not None:
                head["mcp-name"] = name
        number = next(self._numbers) if number is None else number
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(self.path, json=body, headers={**head, **self.headers, **more})

    async def result(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        answer = await self.ask(method, params, **more)
        said = spoken(answer)
        assert "result" in said, said
        found: dict[str, Any] = said["result"]
        return found

    async def call(
        self, tool: str, *, meta: dict[str, Any] | None = None, number: Any = None, head: dict[str, str] | None = None,
        **given: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """A tool's result, whole."""
        params = {"name": tool, "arguments": given, **({"_meta": meta} if meta else {})}
        return await self.result("tools/call", params, number=number, **(head or {}))

    async def told(self, tool: str, **given: Any) -> dict[str, Any]:
        """The structured content of a call that went well."""
        result = await self.call(tool, **given)
        assert result["isError"] is False, result
        found: dict[str, Any] = result["structuredContent"]
        return found

    async def refused(self, tool: str, **given: Any) -> dict[str, Any]:
        """The error of a call that did not."""
        result = await self.call(tool, **given)
        assert result["isError"] is True, result
        found: dict[str, Any] = result["structuredContent"]["error"]
        assert result["content"][0]["text"].startswith(found["code"])
        return found


def spoken(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC answer, however it was sent."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
        found: dict[str, Any] = json.loads(events[-1])
        return found
    return dict(answer.json())


def bodies(told: dict[str, Any]) -> list[str]:
    return [message["body"] for message in told["messages"]]
