"""The data version: a store that is newer than this code is refused, an older one is brought up to date.

A step takes the store from its number to the next one. Steps must be harmless when run twice or by two inboxd at once:
the version is raised only after a step is done, and nothing locks the store meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from inboxd.errors import StartProblem
from inboxd.store import keys
from inboxd.store.connection import Connection

DATA_VERSION = 1
Step = Callable[[Connection], Awaitable[None]]
STEPS: Mapping[int, Step] = {}
"""Version it starts from → what brings the data to the next version. Version 1 is the first."""


async def settle_version(
    connection: Connection, *, wanted: int = DATA_VERSION, steps: Mapping[int, Step] = STEPS
) -> None:
    """Refuse, migrate or accept the store, before anything else touches it."""
    await connection.call(keys.VERSION, "SET", keys.VERSION, wanted, "NX")
    found = await connection.call(keys.VERSION, "GET", keys.VERSION)
    if not found.isdigit():
        raise StartProblem(
            f"The store's data version is {found.decode(errors='replace')!r}, which is no number.",
            hint="Is this Redis used by something else? Name another one or another database.",
        )
    version = int(found)
    if version > wanted:
        raise StartProblem(
            f"The store was written by a newer inboxd (data version {version}; this one knows {wanted}).",
            hint="Upgrade inboxd, or start it on another store.",
        )
    while version < wanted:
        if version not in steps:
            raise StartProblem(f"No way is known to bring the store's data from version {version} to {version + 1}.")
        await steps[version](connection)
        version += 1
        await connection.call(keys.VERSION, "SET", keys.VERSION, version)
