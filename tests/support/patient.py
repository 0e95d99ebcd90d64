"""A client that behaves as a good client of inboxd must: ids minted before the first try, and the same request again until
it is answered.

It finds the broker by its runtime file, read anew after each failure, so that it follows a broker that was killed and started
again on another port. No answer, and 503, mean "try again"; anything else is an answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import httpx2

PATIENCE_MS = 45_000
PAUSE_MS = 40  # between two tries
TRY_MS_MAX = 10_000  # one try; a broker that hangs is left sooner than the test gives up


class Answer(NamedTuple):
    status: int
    body: dict[str, Any]
    tries: int

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str | None:
        """The word of a refusal."""
        error = self.body.get("error")
        return error["code"] if error else None


class Patient:
    def __init__(self, runtime_file: Path, *, url: str | None = None, patience_ms: int = PATIENCE_MS) -> None:
        """With `url`, that address is asked instead of the runtime file's: a proxy's, say."""
        self._runtime_file = runtime_file
        self._fixed_url = url
        self._patience_ms = patience_ms
        limits = httpx2.Limits(max_connections=200, max_keepalive_connections=50)
        # Loopback only: no certificates to load, which would take longer than a whole test.
        self._http = httpx2.AsyncClient(timeout=TRY_MS_MAX / 1_000, limits=limits, trust_env=False, verify=False)
        self._look()

    async def __aenter__(self) -> Patient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    def _look(self) -> None:
        found = json.loads(self._runtime_file.read_text())
        self._url = self._fixed_url or found["url"]
        self._headers = {"authorization": f"Bearer {found['token']}"}

    async def once(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer | None:
        """One try; None when nothing, or not the whole answer, came back."""
        try:
            response = await self._http.request(method, self._url + path, json=body, headers=self._headers)
            return Answer(response.status_code, response.json(), 1)
        except (httpx2.TransportError, json.JSONDecodeError):
            self._look()
            return None

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Answer:
        """The same request until it is answered."""
        give_up_at = time.monotonic() + self._patience_ms / 1_000
        tries = 0
        while True:
            tries += 1
            found = await self.once(method, path, body)
            if found is not None and found.status != 503:
                return found._replace(tries=tries)
            if time.monotonic() > give_up_at:
                raise AssertionError(f"{method} {path} had no answer in {tries} tries: {found}")
            await asyncio.sleep(PAUSE_MS / 1_000)

    async def get(self, path: str) -> dict[str, Any]:
        found = await self.ask("GET", path)
        assert found.ok, found
        return found.body

    async def post(self, path: str, body: dict[str, Any]) -> Answer:
        return await self.ask("POST", path, body)

    async def timeline(self, task: str) -> list[dict[str, Any]]:
        """Every message of a task, newest first."""
        rows: list[dict[str, Any]] = []
        cursor = ""
        while True:
            page = await self.get(f"/v1/tasks/{task}/messages?limit=200{cursor}")
            rows += page["messages"]
            if page["next_cursor"] is None:
                return rows
            cursor = f"&cursor={page['next_cursor']}"

    async def history(self, message_id: str) -> list[tuple[str, str]]:
        """The steps of a message's life, as (state, detail)."""
        steps = (await self.get(f"/v1/messages/{message_id}"))["history"]
        return [(step["state"], step["detail"]) for step in steps]
