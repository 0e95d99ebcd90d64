"""`inboxd`: the broker's command line. It parses and prints; heavy imports wait until a command needs them."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any

from inboxd import __version__
from inboxd.errors import InboxdError, StartProblem
from inboxd.settings import Settings, read

if TYPE_CHECKING:
    from inboxd.broker import Broker

EPILOG = """\
Every flag of serve is also a setting in the environment, INBOXD_PORT for --port; REDIS_URL and PORT are honoured.

examples:
  inboxd serve                                       on this machine, with a store of its own
  inboxd serve --redis-url redis://cache:6379/0      on a Redis or Valkey of yours
  inboxd token create --role user                    a token for a person
  inboxd token create --role agent --task backend    a token for an agent
"""
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="inboxd",
        description="The mail system for running coding agents.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"inboxd {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the broker", description="Run the broker.")
    _settings_flags(serve, list(Settings.model_fields))
    commands.add_parser("worker")  # one of several serving processes; not for people, so it has no help

    hooks = commands.add_parser(
        "hooks",
        help="print what an agent's program needs in its settings",
        description="Print the part of an agent program's settings that makes it run `inbox hook` at its boundaries.",
    )
    hooks.add_argument("host", choices=["claude", "codex", "gemini", "qwen", "copilot"])
    hooks.add_argument("--binary", default="inbox", metavar="PATH", help="the binary to run (default inbox)")
    hooks.add_argument(
        "--package",
        metavar="FOLDER",
        help="write the whole plugin (claude) or extension (gemini) into this folder instead",
    )
    login = commands.add_parser(
        "login-code",
        help="print a one-time code for `inbox login`",
        description="Print a one-time code for `inbox login`.",
    )
    token = commands.add_parser(
        "token", help="make, list and revoke tokens", description="Make, list and revoke tokens."
    )
    actions = token.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token; it is shown once")
    create.add_argument("--role", required=True, choices=["admin", "user", "operator", "agent", "observer"])
    create.add_argument("--task", help="with --role agent: the task it speaks for")
    create.add_argument("--label", default="", help="a word to know it by")
    create.add_argument("--expires-in", metavar="TIME", help="such as 90m, 12h or 30d; for ever if not given")
    listing = actions.add_parser("list", help="show all tokens, without their secrets")
    revoke = actions.add_parser("revoke", help="from now on it opens nothing")
    revoke.add_argument("token_id", help="the id that `list` shows")
    for action in (login, create, listing, revoke):
        action.add_argument("--namespace", default="default")
        action.add_argument("--json", action="store_true", help="for programs")
        _settings_flags(action, ["redis_url", "data_dir", "store_binary"])
    return top


def _settings_flags(command: argparse.ArgumentParser, names: list[str]) -> None:
    for name in names:
        field = Settings.model_fields[name]
        default = "" if field.default is None else f" (default {field.default})"
        command.add_argument(
            f"--{name.replace('_', '-')}",
            metavar=name.rsplit("_", 1)[-1].upper(),
            help=f"{field.description or ''}{default}".strip(),
        )


def main(argv: list[str] | None = None) -> int:
    arguments = vars(parser().parse_args(argv))
    command = arguments.pop("command")
    try:
        if command == "serve":
            return _serve(read(arguments))
        if command == "worker":
            return _worker()
        if command == "hooks":
            if arguments["package"]:
                return _package(arguments["host"], arguments["package"])
            return _hooks(arguments["host"], arguments["binary"])
        return _token({"action": command, **arguments})
    except InboxdError as problem:
        print(f"inboxd: {problem.message}" + (f" {problem.hint}" if problem.hint else ""), file=sys.stderr)
        return 1 if isinstance(problem, StartProblem) else problem.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain about it once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(work: Coroutine[Any, Any, None]) -> int:
    """On uvloop: it is part of what makes the broker fast, and of what is tested."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)
    return 0


def _serve(settings: Settings) -> int:
    from inboxd import main as composition

    return _run(composition.serve(settings))


def _worker() -> int:
    from inboxd import main as composition

    environment = {name: value for name, value in os.environ.items() if name != composition.SOCKET_FD}
    return _run(composition.serve_worker(read({}, environment)))


def _hooks(name: str, binary: str) -> int:
    from inboxd.hosts import HOSTS

    host = HOSTS[name]
    print(json.dumps(host.settings_entry(f"{binary} hook {name}"), indent=2))
    print(f"Merge this into {' or '.join(host.settings_files)}. {host.notice}".strip(), file=sys.stderr)
    return 0


def _package(name: str, folder: str) -> int:
    from pathlib import Path

    from inboxd.errors import InvalidRequest
    from inboxd.hosts.packages import PACKAGES

    if name not in PACKAGES:
        raise InvalidRequest(f"There is no package for {name}.", hint=f"There is one for {' and for '.join(PACKAGES)}.")
    for file, text in PACKAGES[name]().items():
        path = Path(folder) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
    return 0


@contextlib.asynccontextmanager
async def _broker(settings: Settings) -> AsyncIterator[Broker]:
    """A broker on the store, whether or not one is serving it."""
    from inboxd import main as composition
    from inboxd.store.embedded import running_url

    running = None if settings.redis_url else running_url(composition.data_dir_of(settings))
    if running is not None:
        settings = settings.model_copy(update={"redis_url": running})
    async with composition.store_for(settings) as url, composition.broker_for(url, settings) as broker:
        yield broker


def _token(arguments: dict[str, Any]) -> int:
    action, as_json, namespace = arguments.pop("action"), arguments.pop("json"), arguments.pop("namespace")
    settings = read({name: arguments.pop(name) for name in ("redis_url", "data_dir", "store_binary")})
    return _run(_token_action(settings, action, as_json, namespace, arguments))


async def _token_action(settings: Settings, action: str, as_json: bool, namespace: str, given: dict[str, Any]) -> None:
    import re

    from inboxd import main as composition
    from inboxd.broker import owner
    from inboxd.broker.tokens import is_token_id
    from inboxd.edges.problems import of
    from inboxd.errors import InvalidRequest, TokenUnknown
    from inboxd.model import NAMESPACE_GRAMMAR, NewToken

    if not re.fullmatch(NAMESPACE_GRAMMAR, namespace):
        raise InvalidRequest(f"{namespace!r} is no namespace: lower-case letters, digits and `-`, 63 at most.")
    new = None
    if action == "create":
        try:
            new = NewToken(
                role=given["role"],
                task=given["task"],
                label=given["label"],
                ttl_ms=_duration_ms(given["expires_in"]),
            )
        except ValueError as refusal:
            raise of(refusal) or refusal from None
    elif action == "revoke" and not is_token_id(given["token_id"]):
        raise TokenUnknown(f"{given['token_id']!r} is no token id.", hint="`inboxd token list` shows them.")
    who = owner(namespace)
    async with _broker(settings) as broker:
        if new is not None:
            made = await broker.create_token(who, new)
            if as_json:
                print(json.dumps({"ok": True, "command": "token create", **made.model_dump()}))
            else:
                print(made.token)
                print(f"Shown this once. Its id is {made.token_id}.", file=sys.stderr)
        elif action == "login-code":
            code = await broker.offer_login(namespace)
            if as_json:
                print(json.dumps({"ok": True, "command": "login-code", "code": code}))
            else:
                print(code)
                link = composition.login_link(composition.running_address(settings) or "ADDRESS", code)
                print(f"Good once, within a quarter of an hour: open {link}, or `inbox login CODE`.", file=sys.stderr)
        elif action == "list":
            tokens = await broker.list_tokens(who)
            if as_json:
                rows = [token.model_dump() for token in tokens]
                print(json.dumps({"ok": True, "command": "token list", "tokens": rows}))
            else:
                _print_tokens(tokens)
        else:
            await broker.revoke_token(who, given["token_id"])
            if as_json:
                print(json.dumps({"ok": True, "command": "token revoke", "token_id": given["token_id"]}))
            else:
                print(f"Revoked {given['token_id']}.")


def _print_tokens(tokens: list[Any]) -> None:
    from datetime import UTC, datetime

    def day(at_ms: int | None) -> str:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M") if at_ms else "never"

    if not tokens:
        print("No tokens yet. `inboxd token create --role user` makes one.")
        return
    rows = [("ID", "ROLE", "TASK", "MADE (UTC)", "EXPIRES", "LABEL")]
    rows += [(t.token_id, t.role, t.task or "-", day(t.created_at_ms), day(t.expires_at_ms), t.label) for t in tokens]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row[:5], widths, strict=True)), row[5]]).rstrip())


def _duration_ms(text: str | None) -> int | None:
    from inboxd.errors import InvalidRequest

    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) < 16 and unit in UNITS_MS):
        raise InvalidRequest(f"--expires-in {text!r} is no time.", hint="Say 90m, 12h or 30d.")
    return int(number) * UNITS_MS[unit]
