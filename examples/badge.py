"""A badge for one task in a terminal: how much mail waits for it, as that changes. Needs nothing but Python.

INBOX_URL=http://127.0.0.1:8420 INBOX_TOKEN=ibx_… python badge.py backend
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

URL, TOKEN, TASK = os.environ["INBOX_URL"], os.environ["INBOX_TOKEN"], sys.argv[1]


def ask(path: str, **headers: str) -> Any:
    request = urllib.request.Request(URL + path, headers={"Authorization": f"Bearer {TOKEN}", **headers})
    return urllib.request.urlopen(request, timeout=60)  # a sign of life comes every 15 seconds


def show(pending: int) -> None:
    print(f"{TASK}: {pending}", flush=True)


last = None
while True:
    try:
        with ask(f"/v1/events?task={TASK}", **({"Last-Event-ID": str(last)} if last is not None else {})) as stream:
            for line in stream:
                if not line.startswith(b"data: "):
                    continue
                event = json.loads(line[6:])
                if event["type"] in ("ready", "reset"):  # now is known where events begin: ask once for what was before
                    show(json.load(ask(f"/v1/tasks/{TASK}/pending"))["pending"])
                elif event.get("task") == TASK:
                    show(event["pending"])
                last = event["id"]
    except urllib.error.HTTPError as refusal:
        if refusal.code < 500:
            sys.exit(refusal.read().decode())
    except (OSError, http.client.HTTPException):
        pass  # the broker is away; `last` is where to go on
    time.sleep(1)
