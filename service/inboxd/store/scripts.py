"""The only door to Lua: finds the scripts, binds their arguments by name, maps their refusals to errors.

A script's two binding lines (`local a, b = unpack(KEYS)` and `… = unpack(ARGV)`) are its contract: the order of slots
exists there and nowhere else. KEYS are rows of keys.py; their parts (task_id, message_id, pull_id) are taken from
the arguments. What every call passes alike (limits, retention) is bound once, from the settings.

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


def _key_maker(row: str) -> Callable[[str, Mapping[str, Any]], str]:
    template = keys.ROWS[row].template
    fixed, _, rest = template.partition("{")
    if not rest:
        return lambda prefix, _given: prefix + template
    part, _, tail = rest.partition("}")
    if not tail:
        return lambda prefix, given: f"{prefix}{fixed}{given[part]}"
    return lambda prefix, given: prefix + template.format_map(given)


class Script:
    """One Lua file, ready to be called."""

    def __init__(self, name: str) -> None:
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
        self.make_keys = [_key_maker(row) for row in self.key_names]
        parts = {part for row in self.key_names for part in re.findall(r"{(\w+)}", keys.ROWS[row].template)}
        self.takes = frozenset({*self.arg_names, *parts})


class Scripts:
    """All operations of the store, by name."""

    def __init__(self, connection: Connection, fixed: Mapping[str, Value]) -> None:
        self._connection = connection
        self._scripts = {name: Script(name) for name in names()}
        self._fixed = {
            name: {given: value for given, value in fixed.items() if given in script.takes}
            for name, script in self._scripts.items()
        }

    async def run(self, name: str, namespace: str, **given: Value) -> Any:
        """Run one operation in one namespace. A missing or unknown argument never reaches Redis."""
        script = self._scripts[name]
        bound = {**self._fixed[name], **given}
        if bound.keys() != script.takes:
            odd = sorted(bound.keys() ^ script.takes)
            raise TypeError(f"{name}.lua takes {sorted(script.takes)}; wrong or missing: {odd}")
        prefix = keys.prefix(namespace)
        call_keys = [make(prefix, bound) for make in script.make_keys]
        arguments = [_wire(bound[arg]) for arg in script.arg_names]
        route = call_keys[0]
        try:
            return await self._connection.call(route, "EVALSHA", script.sha, len(call_keys), *call_keys, *arguments)
        except ResponseError as refusal:
            if not str(refusal).startswith("NOSCRIPT"):
                raise _named(refusal, name) from None
        try:
            return await self._connection.call(route, "EVAL", script.source, len(call_keys), *call_keys, *arguments)
        except ResponseError as refusal:
            raise _named(refusal, name) from None


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
