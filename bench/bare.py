"""The yardstick: what a FastAPI route with stock redis-py costs that does one command and promises nothing."""

from __future__ import annotations

import os
from typing import Any

import redis.asyncio
from fastapi import FastAPI

app = FastAPI()
db = redis.asyncio.from_url(os.environ["BARE_REDIS_URL"])
FIELDS = ["created_at_ms", "queued:urgent", "queued:high", "queued:normal", "queued:low", "held", "due_ms"]


@app.get("/pending")
async def pending() -> dict[str, Any]:
    return {"pending": await db.hmget("bare:task", FIELDS)}


@app.post("/send")
async def send(message: dict[str, Any]) -> dict[str, str]:
    entry = await db.xadd("bare:inbox", {"body": message["body"]})
    return {"id": entry.decode()}
