"""Telling the story to a broker that runs: through a second broker on its store, because only that can say it happened hours ago."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from inboxd.broker import Broker, owner
from inboxd.settings import Settings
from inboxd.store.connection import connect
from inboxd.store.embedded import running_url
from inboxd.store.store import Store
from tests.browser.story import tell
from tests.conftest import FixedClock


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end beside the loop that playwright has in this thread."""
    with ThreadPoolExecutor(1) as beside:
        beside.submit(asyncio.run, work).result()


async def fill(data_dir: Path) -> None:
    url = running_url(data_dir)
    assert url
    settings = Settings(attempts_max=5)
    connection = await connect(url, wait_ms=5_000)
    clock = FixedClock(time.time_ns() // 1_000_000)
    broker = Broker(Store(connection, settings), settings, clock)
    await tell(broker, owner("default"), clock)
    broker.close()
    await connection.close()
