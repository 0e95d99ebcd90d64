"""All tools a model has, as it is told of them, and how one is called. No MCP in here: a tool is a function of a call.

What goes wrong is an answer that a model can act on, never a fault of the protocol.
"""

from __future__ import annotations

import difflib
import logging
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from inboxd.edges import mcp_mail, mcp_work
from inboxd.edges import mcp_words as words
from inboxd.edges.mcp_tool import Args, Tool, ToolCall
from inboxd.edges.problems import bug, from_validation, of
from inboxd.errors import (
    CursorInvalid,
    InboxdError,
    InvalidRequest,
    LeaseConflict,
    LeaseLost,
    MessageUnknown,
    NoPeer,
    TaskUnknown,
    ThreadForbidden,
    ThreadState,
    ThreadUnknown,
)

log = logging.getLogger("inboxd.mcp")

TOOLS: Final[dict[str, Tool]] = {tool.name: tool for tool in (*mcp_mail.TOOLS, *mcp_work.TOOLS)}
_WAITS_S: Final[dict[str, int]] = {
    name: tool.takes.model_fields["wait_s"].default
    for name, tool in TOOLS.items()
    if "wait_s" in tool.takes.model_fields
}

_NEXT: Final[dict[type[InboxdError], str]] = {
    CursorInvalid: "Leave cursor out to begin anew.",
    LeaseConflict: "If that is you, go on with it. If not, leave it to them: fetch lists other work.",
    LeaseLost: "Stop working on it; show tells where it stands, claim asks for it anew.",
    MessageUnknown: "timeline lists your messages with their ids.",
    NoPeer: "send_to_task reaches any task; list_tasks names those there are.",
    TaskUnknown: "list_tasks names those there are.",
    ThreadForbidden: "list names the threads you have a part in.",
    ThreadState: "show tells what was said in it.",
    ThreadUnknown: "list names the threads you have a part in.",
}
"""What a model can do next, which has tools and neither commands nor addresses."""


async def call_tool(call: ToolCall, name: str, given: dict[str, Any], *, mail_only: bool = False) -> dict[str, Any]:
    """The result of a call, as MCP writes it."""
    try:
        tool = find(name, mail_only=mail_only)
        said = await tool.run(call, tool.takes.model_validate(given))
    except ValidationError as refusal:
        found = from_validation(refusal.errors(include_url=False, include_context=False, include_input=False))
        return _refused(InvalidRequest(found.message, hint=f"{name} takes {_names_of(name)}."))
    except Exception as error:
        problem = of(error)
        if problem is None:
            log.error("a tool failed", exc_info=error, extra={"request_id": call.request_id})
            problem = bug(call.request_id)
        return _refused(problem)
    return {
        "content": [{"type": "text", "text": said.text}],
        "structuredContent": said.structured,
        "isError": False,
    }


def find(name: str, *, mail_only: bool = False) -> Tool:
    tool = TOOLS.get(name)
    if tool is None or (mail_only and tool not in mcp_mail.TOOLS):
        near = difflib.get_close_matches(name[:64], offered(mail_only=mail_only), n=1, cutoff=0.5)
        raise InvalidRequest(
            f"There is no tool {name[:64]} here.", hint=f"Did you mean {near[0]}?" if near else "List the tools."
        )
    return tool


def may_wait(name: str, given: dict[str, Any]) -> bool:
    """Whether a call takes as long as somebody else does."""
    return name in _WAITS_S and given.get("wait_s", _WAITS_S[name]) not in (0, "0")


def offered(*, mail_only: bool = False) -> list[str]:
    return [tool.name for tool in (mcp_mail.TOOLS if mail_only else TOOLS.values())]


@cache
def listed(mail_only: bool) -> list[dict[str, Any]]:
    """The tools as a model is told of them: every character of this stands in its context all day."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": _schema(tool.takes),
            **({"annotations": {"readOnlyHint": True}} if tool.reads else {}),
        }
        for tool in (mcp_mail.TOOLS if mail_only else TOOLS.values())
    ]


def _schema(takes: type[Args]) -> dict[str, Any]:
    whole = takes.model_json_schema()
    properties = {name: _lean_property(field) for name, field in whole.get("properties", {}).items()}
    required = {"required": whole["required"]} if whole.get("required") else {}
    return {"type": "object", "properties": properties, **required}


KEPT: Final = ("type", "enum", "items", "description", "default")


def _lean_property(field: dict[str, Any]) -> dict[str, Any]:
    """What helps to fill it in. What it may not be is told when it is."""
    if "anyOf" in field:
        field = {**field, **field["anyOf"][0]}
    kept: dict[str, Any] = {
        name: field[name] for name in KEPT if name in field and field[name] not in (None, "", [], False)
    }
    if "items" in kept:
        kept["items"] = _lean_property(kept["items"])
    return kept


def _names_of(name: str) -> str:
    return ", ".join(TOOLS[name].takes.model_fields) or "nothing"


def _hint(problem: InboxdError) -> str | None:
    """The next step: names that would do stay; what only another door can do does not."""
    steps = [problem.hint if problem.hint_names or type(problem) not in _NEXT else None, _NEXT.get(type(problem))]
    return " ".join(step for step in steps if step) or None


def _refused(problem: InboxdError) -> dict[str, Any]:
    hint = _hint(problem)
    told = words.lean(code=problem.code, message=problem.message, hint=hint, retry_after_ms=problem.retry_after_ms)
    text = f"{problem.code}: {problem.message}" + (f" {hint}" if hint else "")
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"error": told}, "isError": True}
