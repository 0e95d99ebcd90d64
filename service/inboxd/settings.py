"""Every knob of the broker: typed, with its unit in its name, read once at the start.

Order: command line, then INBOXD_* in the environment, then the default here. REDIS_URL and PORT are honoured
because platforms set them. An INBOXD_ name that is no setting is refused, with the nearest one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inboxd.errors import StartProblem

PREFIX = "INBOXD_"
SECOND = 1_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8420, ge=0, le=65_535, description="port to listen on; 0 takes a free one")
    allowed_hosts: str = Field(
        "",
        description="names browsers may reach the dashboard by, with commas; https://NAME where a proxy speaks TLS",
    )
    workers: int = Field(1, ge=1, le=64, description="serving processes that share the port")
    redis_url: str | None = Field(
        None,
        description="redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://; none: embedded",
    )
    data_dir: Path | None = Field(None, description="the embedded store's folder; none: the platform's own")
    store_binary: Path | None = Field(None, description="a valkey-server or redis-server to embed instead")
    store_fsync: Literal["always", "everysec"] = Field(
        "always",
        description="when the embedded store's log reaches the disk: before each answer, or each second",
    )
    store_wait_ms: int = Field(5_000, ge=0, description="how long a request waits for a lost store")
    log_format: Literal["auto", "json", "text"] = Field("auto", description="auto: text on a terminal")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="the least that is logged")

    request_bytes_max: int = Field(1_048_576, ge=1_024, description="largest request body")
    body_bytes_max: int = Field(262_144, ge=1, description="largest message body, in UTF-8")
    payload_bytes_max: int = Field(65_536, ge=1, description="largest JSON payload of a message")
    pull_max: int = Field(100, ge=1, le=1_000, description="most messages in one batch")
    page_max: int = Field(200, ge=1, le=1_000, description="most rows in one page of a list")
    broadcast_max: int = Field(1_000, ge=1, le=10_000, description="most tasks one broadcast reaches")
    wait_ms_max: int = Field(60 * SECOND, ge=0, description="longest long poll")

    hold_ms: int = Field(30 * SECOND, ge=100, description="how long a batch is held for its reader's ack")
    hook_hold_ms: int = Field(
        15 * SECOND, ge=3_000, description="the same for a hook, which prints and acks within 2.5 seconds or died"
    )
    attempts_max: int = Field(20, ge=1, description="hand-overs of one message before it is a dead letter")
    hops_max: int = Field(20, ge=1, description="answers to answers before a loop is cut")
    idle_after_ms: int = Field(5 * MINUTE, ge=1_000, description="silence after which a task is idle")
    presence_every_ms: int = Field(5 * SECOND, ge=0, description="how often being heard is written down")
    retention_ms: int = Field(30 * DAY, ge=1_000, description="how long a settled message stays readable")
    session_ms: int = Field(30 * DAY, ge=60_000, description="how long a dashboard's login lasts")
    pull_record_ms: int = Field(1 * DAY, ge=1_000, description="how long a pull_id and receipt are remembered")
    lease_ms: int = Field(10 * MINUTE, ge=1_000, description="how long a claim holds unless it says otherwise")
    thread_messages_max: int = Field(1_000, ge=10, description="most messages in one thread")
    events_max: int = Field(10_000, ge=100, description="events kept in a namespace's log, about")
    events_ping_ms: int = Field(
        15 * SECOND, ge=10, description="how often an open stream of events shows a sign of life"
    )
    events_behind_max: int = Field(
        1_000, ge=1, description="events that may wait for one reader of a stream; one that takes none is cut off"
    )
    events_behind_bytes_max: int = Field(262_144, ge=1, description="the same in bytes")
    sweep_every_ms: int = Field(500, ge=10, description="how often deadlines are looked at")
    tidy_every_ms: int = Field(10 * MINUTE, ge=100, description="how often old timeline rows are dropped")


def read(flags: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """The settings for this start. Flags that are None were not given."""
    env = os.environ if environ is None else environ
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in env:
        if name.startswith(PREFIX) and name not in known:
            # Without the prefix, which every name shares and which would make any two of them alike.
            near = difflib.get_close_matches(
                name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known], n=1
            )
            raise StartProblem(
                f"{name} is not a setting.",
                hint=f"Did you mean {PREFIX}{near[0]}?" if near else "`inboxd serve --help` lists them.",
            )
    given = {name: value for name, value in flags.items() if value is not None}
    for platform_name, name in (("REDIS_URL", "redis_url"), ("PORT", "port")):
        if name not in given and PREFIX + name.upper() not in env and env.get(platform_name):
            given[name] = env[platform_name]
    for name in Settings.model_fields:
        if name not in given and PREFIX + name.upper() in env:
            given[name] = env[PREFIX + name.upper()]
    try:
        return Settings.model_validate(given)
    except ValidationError as refusal:
        first = refusal.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        raise StartProblem(
            f"{name.replace('_', '-')} {first.get('input')!r} will not do: {first['msg']}.",
            hint=Settings.model_fields[name].description if name in Settings.model_fields else None,
        ) from None
