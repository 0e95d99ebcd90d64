"""The only door to Lua: finds the scripts, binds their arguments by name, maps their refusals to errors.

A script's two binding lines (`local a, b = unpack(KEYS)` and `… = unpack(ARGV)`) are its contract: the order of slots
exists there and nowhere else. KEYS are rows of keys.py; their parts (task_id, message_id, pull_id) are taken from
the arguments. What most calls pass alike (limits, retention) has a default, bound once, from the settings.

`-- Uses` names functions of lua/lib. They are placed behind the binding lines, so they may use what these bind; what they
need bound, they say in `-- Needs`, and it is checked here, when the service starts and not when the line is reached.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from redis.exceptions import ResponseError

from inboxd.errors import BY_CODE, InboxdError, StoreFull
from inboxd.store import keys
from inboxd.store.connection import Connection

log = logging.getLogger("inboxd.store")

Value = str | bytes | int | bool | None
_BINDING = re.compile(r"^local (.+) = unpack\((KEYS|ARGV)\)$", re.MULTILINE)
_LUA = resources.files("inboxd.store") / "lua"


def _words(source: str, label: str) -> list[str]:
    found = re.search(rf"^-- {label}\s+(.+)$", source, re.MULTILINE)
    return found.group(1).split() if found else []


@cache
def _function(name: str) -> str:
    return (_LUA / "lib" / f"{name}.lua").read_text()


def _with_needed(names: list[str], placed: dict[str, str]) -> dict[str, str]:
    """The library functions these names need, each once, each behind what it uses itself."""
    for name in names:
        if name not in placed:
            source = _function(name)
            _with_needed(_words(source, "Uses"), placed)
            placed[name] = source
    return placed


def _key_expression(row: str) -> str:
    """A key as Python that adds up its parts: `prefix + "task:" + task_id`."""
    parts = re.split(r"{(\w+)}", keys.ROWS[row].template)
    said = [part if i % 2 else repr(part) for i, part in enumerate(parts) if part]
    return " + ".join(["prefix", *said])


class Script:
    """One Lua file, ready to be called."""

    def __init__(self, name: str, fixed: Mapping[str, Value]) -> None:
        self.name = name
        source = (_LUA / f"{name}.lua").read_text()
        shebang, _, rest = source.partition("\n")
        bound = {where: names.split(", ") for names, where in _BINDING.findall(source)}
        self.key_names = bound["KEYS"]
        self.arg_names = bound.get("ARGV", [])
        bindings = "\n".join(found.group(0) for found in _BINDING.finditer(source))
        body = _BINDING.sub("", rest)
        functions = _with_needed(_words(source, "Uses"), {})
        for function, text in functions.items():
            if missing := set(_words(text, "Needs")) - {*self.key_names, *self.arg_names}:
                raise TypeError(f"{name}.lua uses {function}, which needs {sorted(missing)} to be bound")
        self.refuses = _words(source, "Refuses")
        self.source = "\n".join([shebang, bindings, *functions.values(), body])
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        parts = [part for row in self.key_names for part in re.findall(r"{(\w+)}", keys.ROWS[row].template)]
        self.takes = list(dict.fromkeys([*self.arg_names, *parts]))
        self.bind = self._binder(fixed)

    def _binder(self, fixed: Mapping[str, Value]) -> Callable[..., tuple[str | bytes | int, ...]]:
        """A Python function with the script's own argument names, which gives what follows EVALSHA's sha.

        Compiled once: a wrong name is Python's own TypeError, and the hottest call there is binds nothing at run time
        that was known at the start. The source is made of names from our own Lua files only.
        """
        wire = [_key_expression(row) for row in self.key_names]
        wire += [arg if isinstance(fixed.get(arg), int) else f"_wire({arg})" for arg in self.arg_names]
        named = [f"{arg}={_wire(fixed[arg])!r}" if arg in fixed else arg for arg in self.takes]
        signature = ", ".join(["prefix", "*", *named] if named else ["prefix"])
        code = f"def {self.name}({signature}): return ({len(self.key_names)}, {', '.join(wire)},)"
        made: dict[str, Any] = {"_wire": _wire}
        exec(code, made)  # noqa: S102
        binder: Callable[..., tuple[str | bytes | int, ...]] = made[self.name]
        return binder


class Scripts:
    """All operations of the store, by name."""

    def __init__(self, connection: Connection, fixed: Mapping[str, Value]) -> None:
        self._connection = connection
        self._scripts = _prepared(tuple(fixed.items()))

    async def run(self, name: str, namespace: str, **given: Value) -> Any:
        """Run one operation in one namespace. A missing or unknown argument never reaches Redis."""
        script = self._scripts[name]
        bound = script.bind(keys.prefix(namespace), **given)
        route = bound[1]
        assert isinstance(route, str)
        try:
            return await self._connection.call(route, "EVALSHA", script.sha, *bound)
        except ResponseError as refusal:
            if not str(refusal).startswith("NOSCRIPT"):
                raise _named(refusal, name) from None
        try:
            return await self._connection.call(route, "EVAL", script.source, *bound)
        except ResponseError as refusal:
            raise _named(refusal, name) from None


@cache
def _prepared(fixed: tuple[tuple[str, Value], ...]) -> dict[str, Script]:
    return {name: Script(name, dict(fixed)) for name in names()}


def names() -> list[str]:
    return sorted(entry.name.removesuffix(".lua") for entry in _LUA.iterdir() if entry.name.endswith(".lua"))


def _wire(value: Value) -> str | bytes | int:
    if value is None or value is False:
        return ""
    return "1" if value is True else value


def _named(refusal: ResponseError, script: str) -> InboxdError:
    """The error a refusal stands for: its first word is the code."""
    code, _, said = str(refusal).partition(" ")
    if code == "OOM":
        return StoreFull()
    if code in BY_CODE:
        return BY_CODE[code](said)
    log.error("the script %s failed: %s", script, refusal)
    return InboxdError()
