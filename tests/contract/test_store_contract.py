"""What is said twice is held together here: the schema and its table, Lua's keys and Python's, refusals and errors."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from inboxd import errors
from inboxd.errors import BY_CODE, InboxdError, exit_code_of
from inboxd.settings import Settings
from inboxd.store import keys, scripts
from inboxd.store.connection import Connection
from inboxd.store.store import Store
from tests.support.scene import takes

LUA = Path(scripts.__file__).parent / "lua"
SCRIPTS = {path.stem: path.read_text() for path in sorted(LUA.glob("*.lua"))}
LIBS = {path.stem: path.read_text() for path in sorted((LUA / "lib").glob("*.lua"))}

SUPERSEDING = {"MESSAGE_UNKNOWN", "SENDER_FORBIDDEN"}
NEVER_REACHED = dict.fromkeys(("broadcast", "open_thread", "update", "reply", "cancel"), SUPERSEDING)
"""Words of a library that a script cannot come to: only a plain send supersedes something by name."""

WRITES = frozenset(
    [
        "DEL",
        "EXPIRE",
        "HDEL",
        "HINCRBY",
        "HSET",
        "HSETNX",
        "LPUSH",
        "PERSIST",
        "PEXPIRE",
        "PUBLISH",
        "RPUSH",
        "SADD",
        "SET",
        "SPUBLISH",
        "SREM",
        "UNLINK",
        "XACK",
        "XADD",
        "XCLAIM",
        "XDEL",
        "XGROUP",
        "XREADGROUP",
        "XTRIM",
        "ZADD",
        "ZINCRBY",
        "ZREM",
    ]
)
READS = frozenset(
    [
        "EXISTS",
        "GET",
        "HEXISTS",
        "HGET",
        "HGETALL",
        "HMGET",
        "LRANGE",
        "SCARD",
        "SMEMBERS",
        "TIME",
        "XINFO",
        "XRANGE",
        "XREVRANGE",
        "ZRANGE",
        "ZRANGEBYSCORE",
        "ZSCORE",
    ]
)


def words(source: str, label: str) -> list[str]:
    found = re.search(rf"^-- {label}\s+(.+)$", source, re.MULTILINE)
    return found.group(1).split() if found else []


def libs_of(source: str) -> set[str]:
    """The library functions a script ends up with."""
    found: set[str] = set()
    wanted = words(source, "Uses")
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            wanted += words(LIBS[name], "Uses")
    return found


def whole(name: str) -> str:
    return "\n".join([SCRIPTS[name], *(LIBS[lib] for lib in sorted(libs_of(SCRIPTS[name])))])


def commands(source: str) -> set[str]:
    return set(re.findall(r"redis\.p?call\('([A-Z]+)'", source))


def test_every_row_of_the_schema_stands_in_its_table_and_the_other_way_round() -> None:
    table = dict(re.findall(r"^\| (\w+) \| (\w+) \|", keys.__doc__ or "", re.MULTILINE))
    del table["row"]
    outside = {"version": "string", "namespaces": "set"}
    assert table == outside | {name: row.kind for name, row in keys.ROWS.items()}


def test_every_key_of_a_namespace_is_in_its_slot() -> None:
    parts = {"task_id": "t", "priority": "low", "pull_id": "p", "message_id": "m", "session": "s", "code_hash": "c", "call_hash": "h",
             "thread_id": "t", "agent": "a", "status": "done", "minute": "1"}  # fmt: skip
    for row in keys.ROWS:
        assert keys.key("team", row, **parts).startswith("inboxd:{team}:")


@pytest.mark.anyio
async def test_lua_names_every_key_as_python_does(connection: Connection) -> None:
    source = LIBS["key"] + "\nreturn key(unpack(ARGV))"
    parts = {
        "task_id": "back.end",
        "priority": "low",
        "pull_id": "p:1",
        "message_id": "m:1:back.end",
        "session": "s",
        "code_hash": "c",
        "call_hash": "h",
        "thread_id": "t:1",
        "agent": "*",
        "status": "done",
        "minute": "1",
    }
    meta = keys.key("team", "meta")
    for row, (_kind, template, _ends) in keys.ROWS.items():
        given = [parts[part] for part in re.findall(r"{(\w+)}", template)]
        if not given:
            continue  # declared in KEYS, never built in Lua
        made = await connection.call(
            meta, "EVAL", f"local meta = KEYS[1]\n{source}".replace("unpack(KEYS)", "KEYS[1]"), 1, meta, row, *given
        )
        assert made.decode() == keys.key("team", row, **parts)


def test_lua_builds_only_keys_that_the_schema_has() -> None:
    for name, source in {**SCRIPTS, **{f"lib/{lib}": text for lib, text in LIBS.items()}}.items():
        for row, rest in re.findall(r"\bkey\('(\w+)'((?:, [^,()]+)*)\)", source):
            wanted = len(re.findall(r"{\w+}", keys.ROWS[row].template))
            assert rest.count(",") == wanted, f"{name}: key('{row}'{rest})"
    assert not [name for name, source in {**SCRIPTS, **LIBS}.items() if "inboxd:" in source]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_exactly_the_refusals_it_can_give(name: str) -> None:
    said = set(words(SCRIPTS[name], "Refuses"))
    code = re.sub(r"^\s*--.*$", "", whole(name), flags=re.MULTILINE)
    given = set(re.findall(r"""['"]([A-Z]+_[A-Z_]+) """, code)) - NEVER_REACHED.get(name, set())
    assert said == given
    assert said <= BY_CODE.keys()


def test_no_refusal_is_made_of_another_shape() -> None:
    """Each error_reply gives a word first, or passes on a refusal that a library gave."""
    for name, source in {**SCRIPTS, **LIBS}.items():
        for argument in re.findall(r"error_reply\((.+?)[,)]?\s*(?:\.\.|\)|$)", source, re.MULTILINE):
            assert re.match(r"'[A-Z]+_[A-Z_]+ |refusal", argument), f"{name}: {argument}"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_opens_with_its_shebang_its_purpose_and_its_binding_lines(name: str) -> None:
    first, second, *_ = SCRIPTS[name].splitlines()
    assert re.fullmatch(r"#!lua( flags=(no-writes|allow-oom))?", first)
    assert second.startswith(f"-- {name}: ")
    assert len(re.findall(r"^local .+ = unpack\(KEYS\)$", SCRIPTS[name], re.MULTILINE)) == 1
    assert len(re.findall(r"^local .+ = unpack\(ARGV\)$", SCRIPTS[name], re.MULTILINE)) <= 1
    assert words(SCRIPTS[name], "Returns")
    assert not re.search(r"\b(KEYS|ARGV)\[", SCRIPTS[name])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_claims_to_write_nothing_writes_nothing(name: str) -> None:
    used = commands(whole(name))
    assert used <= WRITES | READS, "a command this test does not know"
    assert ("no-writes" in SCRIPTS[name].splitlines()[0]) == (not used & WRITES)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_binds_only_keys_that_the_schema_has(name: str) -> None:
    bound = re.search(r"^local (.+) = unpack\(KEYS\)$", SCRIPTS[name], re.MULTILINE)
    assert bound
    assert set(bound.group(1).split(", ")) <= keys.ROWS.keys()


def test_only_what_takes_in_something_new_is_refused_when_memory_is_full() -> None:
    """A full store must still drain: whatever settles mail carries allow-oom."""
    grows = {name for name, source in SCRIPTS.items() if source.splitlines()[0] == "#!lua"}
    assert grows == {
        "send", "broadcast", "declare", "change", "create_token", "open_thread", "claim", "update", "reply", "cancel"
    }  # fmt: skip


@pytest.mark.parametrize("name", LIBS)
def test_a_library_file_is_one_function_and_is_used(name: str) -> None:
    assert LIBS[name].startswith(f"-- {name}: ")
    assert any(name in libs_of(source) for source in SCRIPTS.values())


@pytest.mark.parametrize("name", LIBS)
def test_a_library_says_what_it_uses(name: str) -> None:
    code = re.sub(r"--.*$", "", LIBS[name], flags=re.MULTILINE)
    reached = {lib for used in words(LIBS[name], "Uses") for lib in {used} | libs_of(LIBS[used])}
    called = {lib for lib in LIBS.keys() - {name} if re.search(rf"(?<![\w.:]){lib}\(", code)}
    assert called <= reached


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_what_it_uses(name: str) -> None:
    code = re.sub(r"--.*$", "", SCRIPTS[name], flags=re.MULTILINE)
    own = set(re.findall(r"local function (\w+)", code))
    called = {lib for lib in LIBS if re.search(rf"(?<![\w.:]){lib}\(", code)} - own
    assert called <= libs_of(SCRIPTS[name])


class Untouched:
    """A connection that must not be used."""

    def call(self, *_command: object) -> None:
        raise AssertionError("Redis was touched")


@pytest.mark.anyio
async def test_a_wrong_or_missing_argument_never_reaches_the_store(anyio_backend: object) -> None:
    store = Store(Untouched(), Settings())  # type: ignore[arg-type]
    right = {"now_ms": 1, "task_id": "t", "receipt": "", "session": "s", "ids": "[]"}
    with pytest.raises(AssertionError, match="touched"):
        await store.run("ack", "team", **right)
    with pytest.raises(TypeError, match="session"):
        await store.run("ack", "team", **{name: value for name, value in right.items() if name != "session"})
    with pytest.raises(TypeError, match="sesion"):
        await store.run("ack", "team", **right, sesion="s")
    for name in scripts.names():
        with pytest.raises(TypeError):
            await store.run(name, "team", no_script_takes_this=1)
        with pytest.raises(TypeError):
            await store.run(name, "team")


def test_no_script_takes_a_setting_that_the_store_does_not_bind() -> None:
    """Every knob a script asks for is bound once, from the settings: a caller gives only what belongs to the call."""
    fixed = {"attempts_max", "events_max", "hops_max", "idle_after_ms", "presence_every_ms", "retention_ms"}
    assert fixed <= Settings.model_fields.keys()
    asked = {name for script in SCRIPTS for name in takes(script)}
    knobs = {name for name in Settings.model_fields if name.endswith(("_ms", "_max"))}
    assert asked & knobs == fixed | {"hold_ms", "lease_ms"}


def _born_here() -> list[type[InboxdError]]:
    return [
        found
        for _, found in inspect.getmembers(errors, inspect.isclass)
        if issubclass(found, InboxdError) and found.__module__ == errors.__name__
    ]


def test_every_error_has_a_word_of_its_own_and_says_something() -> None:
    classes = _born_here()
    assert len({found.code for found in classes}) == len(classes)
    assert {found.code: found for found in classes} == {
        code: found for code, found in BY_CODE.items() if found.__module__ == errors.__name__
    }
    for found in classes:
        assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", found.code)
        assert "__doc__" in vars(found)
        assert found().message == (found.__doc__ or "").strip()
        assert 400 <= found.status <= 599


@pytest.mark.parametrize(
    ("statuses", "exit_code"),
    [
        ((200, 201, 204, 302), 0),
        ((409,), 20),
        ((400, 413, 415, 422, 429), 30),
        ((404, 405, 410), 40),
        ((500, 502, 503, 504, 507), 50),
        ((401, 403), 60),
    ],
)
def test_the_exit_code_is_a_function_of_the_status(statuses: tuple[int, ...], exit_code: int) -> None:
    assert {exit_code_of(status) for status in statuses} == {exit_code}


@pytest.mark.parametrize("found", _born_here(), ids=lambda found: found.code)
def test_every_error_has_one_shape(found: type[InboxdError]) -> None:
    shown = found("said", hint="do this", retry_after_ms=5).as_dict()
    assert shown == {
        "ok": False,
        "error": {"code": found.code, "message": "said", "hint": "do this", "retry_after_ms": 5},
    }
    assert found().exit_code == exit_code_of(found.status)


def test_what_may_be_tried_again_is_what_the_store_could_not_do_now() -> None:
    assert {found.code for found in _born_here() if found.retryable} == {"STORE_FULL", "STORE_UNAVAILABLE"}
