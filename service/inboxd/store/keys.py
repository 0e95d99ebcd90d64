"""The schema: the only place where a key of the store is named.

Every key of a namespace is `inboxd:{namespace}:…`. The braces are Redis Cluster's hash tag, so a namespace lives in
one slot and every operation on it is one script. Only `version` and `namespaces` stand outside.

| row | type | holds | ends |
|---|---|---|---|
| version | string | the data version of this store | never |
| namespaces | set | the names of all namespaces | never |
| meta | hash | `seq`: the last event number; `created_at_ms` | never |
| events | stream | `<n>-0`, field `event`: one JSON event; its key is also the channel it is published on | about `events_max` entries |
| tasks | zset | task ids by last activity, in ms | an entry with its task |
| due | zset | task ids by when they must be looked at, in ms: at their earliest deadline (hold, ttl, idle), or before, for one that was met since | an entry with its deadline |
| tokens | hash | token id → JSON: role, task, hash of the secret, times | an entry when revoked or tidied |
| task | hash | title, state, last heard, counters (`queued:<priority>` all that wait, `returned:<priority>` those of them that were handed over before, `held`, `dead`) | with its task |
| peers | set | the tasks linked to this one | with its task |
| awaits | set | messages this task sent and still wants an answer to | with its task |
| topics | hash | `<sender> <topic>` → the queued message that speaks for it | with its task |
| inbox | stream | consumer group `readers`: entry `<n>-0` for message number n, from send to its first settling | entries with their delivery; key with its task |
| returned | zset | messages that were handed over and came back, by their number: taken before anything new, so they keep their place | entries with their delivery; key with its task |
| holds | zset | messages in flight by the time their hold runs out, in ms: it, not the group's idle time, decides | entries with their delivery |
| ttls | zset | undelivered messages by the time they expire, in ms | entries with their delivery |
| dead | zset | dead letters by their number | entries when requeued; key with its task |
| timeline | stream | `<n>-0`: every message to or from the task | entries when their message is gone; key with its task |
| threads | zset | thread ids in one status, the more urgent first, then by their number | entries with their thread |
| agent_threads | zset | the same for the threads one task has a part in; `*` is the pool that anybody may claim from | entries with their thread |
| leases | zset | threads under a lease by the time it runs out, in ms | entries with their lease |
| closed_threads | zset | finished threads by the time they may go, in ms | entries with their thread |
| thread | hash | one thread: what it is, its status, its lease and the last claims of it, its parties (`agents`), how far each has read (`read:<agent>`) | with its row in `closed_threads` |
| thread_log | stream | `<n>-0`: every message of a thread: id, kind, sender, whom it is for | with its thread |
| stats | hash | of one minute: messages queued and delivered, how long those had waited, how many waited at its end | TTL of two hours |
| pull | list | what one pull handed over: session, mode, then `<fence> <message_id>` each | TTL `pull_record_ms` |
| cast | string | what one broadcast reached: hash and JSON list of message ids | TTL `retention_ms` |
| session | hash | what a host's session needs remembered: `continuations` in a row, `in_subagent` | TTL of a day |
| login | string | a login code's hash → the role it gives | TTL; gone once used |
| called_off | string | a waiting call that its caller no longer wants, by the hash of its name | TTL of two minutes |
| probe | string | a nonce of `inbox doctor` for one made-up session | TTL of a minute; gone once shown |
| msg | hash | the message once: `doc` (its content as JSON), its state, fence, attempts, history; also the dedupe record | TTL `retention_ms` once settled and its thread, if any, is over; none before, nor when dead |
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """One row of the schema: how the key is made and how it is kept from growing for ever."""

    kind: str
    template: str
    ends: str


ROOT: Final = "inboxd:"
VERSION: Final = ROOT + "version"
NAMESPACES: Final = ROOT + "namespaces"

ROWS: Final[dict[str, Row]] = {
    "meta": Row("hash", "meta", "never"),
    "events": Row("stream", "events", "count"),
    "tasks": Row("zset", "tasks", "task"),
    "due": Row("zset", "due", "task"),
    "tokens": Row("hash", "tokens", "revoked"),
    "task": Row("hash", "task:{task_id}", "task"),
    "peers": Row("set", "peers:{task_id}", "task"),
    "awaits": Row("set", "awaits:{task_id}", "task"),
    "topics": Row("hash", "topics:{task_id}", "task"),
    "inbox": Row("stream", "inbox:{task_id}:{priority}", "task"),
    "returned": Row("zset", "returned:{task_id}:{priority}", "task"),
    "holds": Row("zset", "holds:{task_id}", "task"),
    "ttls": Row("zset", "ttls:{task_id}", "task"),
    "dead": Row("zset", "dead:{task_id}", "task"),
    "timeline": Row("stream", "timeline:{task_id}", "task"),
    "threads": Row("zset", "threads:{status}", "thread"),
    "agent_threads": Row("zset", "agent_threads:{agent}:{status}", "thread"),
    "leases": Row("zset", "leases", "thread"),
    "closed_threads": Row("zset", "closed_threads", "thread"),
    "thread": Row("hash", "thread:{thread_id}", "thread"),
    "thread_log": Row("stream", "thread_log:{thread_id}", "thread"),
    "stats": Row("hash", "stats:{minute}", "ttl"),
    "pull": Row("list", "pull:{task_id}:{pull_id}", "ttl"),
    "cast": Row("string", "cast:{message_id}", "ttl"),
    "session": Row("hash", "session:{task_id}:{session}", "ttl"),
    "login": Row("string", "login:{code_hash}", "ttl"),
    "called_off": Row("string", "called_off:{call_hash}", "ttl"),
    "probe": Row("string", "probe:{task_id}:{session}", "ttl"),
    "msg": Row("hash", "msg:{message_id}", "settled"),
}


def prefix(namespace: str) -> str:
    return f"{ROOT}{{{namespace}}}:"


def key(namespace: str, row: str, **parts: str) -> str:
    """The key of one row, for one namespace."""
    return prefix(namespace) + ROWS[row].template.format_map(parts)


def task(namespace: str, task_id: str) -> str:
    """The same for the row asked for most."""
    return f"{ROOT}{{{namespace}}}:task:{task_id}"
