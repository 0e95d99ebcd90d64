"""What a host is: the facts every host has, and the dialect most of them share. Pure; the hosts' own rooms say what differs.

Two rules are kept here because breaking them costs the person something: a prompt is never blocked (it would be dropped), and
nothing is blocked after a tool (it would replace the tool's result or end the turn). `answer` cannot write either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from inboxd.hosts import teaching
from inboxd.hosts.boundary import Boundary, HookInput
from inboxd.hosts.plan import OURS, SERVER, Wish, hook_additions, instruction, server, skill
from inboxd.model import HostFacts, Plan, PlanAddition, PlanEdit, TrustNote

AnswerKind = Literal["context", "continuation", "gate"]
"""context: words beside the conversation. continuation: the turn goes on with these words. gate: the tool call is refused once."""

Hold = Literal["begins", "ends"]

TIMEOUT_S: Final = 10
"""What a host is told to grant a hook. The hook itself gives up far earlier; a hook that runs into this loses its output."""

_SPEAKS: Final[dict[Boundary, AnswerKind]] = {
    Boundary.START: "context",
    Boundary.PROMPT: "context",
    Boundary.AFTER_TOOL: "context",
    Boundary.SUBAGENT_START: "context",
    Boundary.TURN_END: "continuation",
    Boundary.SUBAGENT_END: "continuation",
    Boundary.BEFORE_TOOL: "gate",
}
"""The one thing that may be said at a boundary; at those not listed, nothing."""

_OF_THE_PARENT: Final = frozenset(
    (Boundary.START, Boundary.PROMPT, Boundary.BEFORE_TOOL, Boundary.AFTER_TOOL, Boundary.TURN_END, Boundary.END)
)
"""Boundaries that are not the subagent's to speak at: the mail is its parent's."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Host:
    name: str
    events: Mapping[str, Boundary]
    """The host's event names. An event that is not here is `none`: it may be new, and silence is always understood."""
    hooked: Mapping[str, str | None]
    """The events `attach` asks for, each with the matcher it needs there, or None."""
    settings_files: tuple[str, ...]
    """Where the hooks may be written by hand: the user's file, then the project's, if there is one."""
    program: str
    """The host's command."""
    signs: tuple[str, ...]
    """What it has in a worktree where it is used."""
    hooks_file: str
    """Where `attach` writes the hooks: in the worktree, and of those it may choose from the one that is not for a whole team."""
    instruction_file: str
    """What its model reads at the start of every session."""
    skills_folder: str
    takes_comments: bool = False
    """Whether its settings may have comments in them."""
    timeout_unit: Literal["s", "ms"]
    context_chars_max: int = 8_000
    """In UTF-16 units, as the hosts count."""
    reason_chars_max: int = 8_000
    """The same for the reason of a continuation or a gate."""
    bytes_max: int | None = None
    """A second limit on either, in bytes of UTF-8, where the host counts those."""
    continuations_max: int = 7
    """How often in a row a turn is kept going before it is let end, whatever waits."""
    gates: bool = False
    """Whether a tool call can be refused with a reason that reaches the model. Without it there is no urgent gate."""
    escapes_angles: bool = False
    """`<` and `>` arrive as entities, so nothing may depend on them."""
    prompt_refires: bool = False
    """The prompt event also fires when nobody typed anything (after a continuation): it is no sign of the person."""
    notice: str = ""
    """What the person has to know or do once, after attaching."""

    def boundary_of(self, given: HookInput) -> Boundary:
        boundary = self.events.get(given.event or "", Boundary.NONE)
        if given.in_subagent and boundary in _OF_THE_PARENT:
            return Boundary.NONE
        if boundary is Boundary.BEFORE_TOOL and not self.gates:
            return Boundary.NONE
        return boundary

    def hold_of(self, given: HookInput) -> Hold | None:
        """Whether a stretch begins or ends here in which events are a subagent's without saying so.

        Between the two the caller takes no mail for this session. Only a host without `agent_id` has such stretches.
        """
        del given
        return None

    @property
    def has_silent_subagents(self) -> bool:
        """Whether such stretches exist at all, so that nobody asks for them in vain."""
        return type(self).hold_of is not Host.hold_of

    def kind_of(self, boundary: Boundary) -> AnswerKind | None:
        """What may be said at this boundary; None: nothing."""
        kind = _SPEAKS.get(boundary)
        return None if kind == "gate" and not self.gates else kind

    def chars_max(self, kind: AnswerKind) -> int:
        return self.context_chars_max if kind == "context" else self.reason_chars_max

    def answer(self, boundary: Boundary, event: str, text: str, *, kind: AnswerKind) -> bytes:
        """The whole of stdout that says `text` at this event. A kind that the boundary does not take is the caller's mistake."""
        if self.events.get(event) is not boundary or self.kind_of(boundary) != kind:
            raise ValueError(f"{self.name} takes no {kind} at {boundary} ({event})")
        if kind == "continuation":
            return written(self._continuation(event, text))
        if kind == "gate":
            return written(self._gate(event, text))
        return written(self._context(event, text))

    def _context(self, event: str, text: str) -> dict[str, Any]:
        # The event's name must be repeated exactly, or the host drops the words.
        return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}

    def _continuation(self, event: str, text: str) -> dict[str, Any]:
        del event
        return {"decision": "block", "reason": text}

    def _gate(self, event: str, text: str) -> dict[str, Any]:
        return {
            "hookSpecificOutput": {
                "hookEventName": event,
                "permissionDecision": "deny",
                "permissionDecisionReason": text,
            }
        }

    @property
    def timeout(self) -> int:
        """In the host's own unit."""
        return TIMEOUT_S if self.timeout_unit == "s" else TIMEOUT_S * 1_000

    def settings_entry(self, command: str) -> dict[str, Any]:
        """What has to be merged into a settings file so that the host runs `command` at every event we listen to."""
        entry = {"type": "command", "command": command, "timeout": self.timeout}
        return {"hooks": {event: [_group(matcher, entry)] for event, matcher in self.hooked.items()}}

    @property
    def facts(self) -> HostFacts:
        return HostFacts(host=self.name, program=self.program, signs=list(self.signs))

    def plan(self, wish: Wish) -> Plan:
        """What `inbox attach` has to change for this host."""
        return Plan(
            host=self.name,
            edits=[
                self._hooks_edit(wish),
                self._server_edit(wish),
                instruction(self.instruction_file, teaching.instruction_text()),
                skill(self.skills_folder, teaching.skill_text()),
            ],
            trust=self._trust(wish),
            notice=self.notice,
        )

    def _trust(self, wish: Wish) -> list[TrustNote]:
        """Where the host writes down what the person trusts, if it does."""
        del wish
        return []

    def _hooks_edit(self, wish: Wish) -> PlanEdit:
        additions = hook_additions(self.settings_entry(wish.run(*wish.hook_words(self.name))))
        if wish.wake:
            additions += hook_additions({"hooks": self._wake_hooks(wish)})
        return PlanEdit(
            what="hooks",
            file=self.hooks_file,
            form="json",
            personal=True,
            comments=self.takes_comments,
            additions=additions,
            ours=OURS,
        )

    def _wake_hooks(self, wish: Wish) -> dict[str, list[dict[str, Any]]]:
        """Hooks that run in the background while nobody types, and wake the session when mail comes; none where a host has no way."""
        del wish
        return {}

    def _server_edit(self, wish: Wish) -> PlanEdit:
        return PlanEdit(
            what="mcp",
            file=self.hooks_file,
            form="json",
            personal=True,
            comments=self.takes_comments,
            additions=[PlanAddition(path=["mcpServers", SERVER], how="set", value=server(wish))],
            ours=OURS,
        )


def _group(matcher: str | None, entry: dict[str, Any]) -> dict[str, Any]:
    return {"hooks": [dict(entry)]} if matcher is None else {"matcher": matcher, "hooks": [dict(entry)]}


def written(answer: dict[str, Any]) -> bytes:
    """One JSON object and nothing around it: a stray byte would make it plain text, which most events drop."""
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
