"""A believable afternoon of a team of agents, told to a broker by a clock that starts three hours ago: what the screenshots show.

It is told by several tellers at once, each with a part of its own; a clock in nobody's hand lets them speak in the order of time.

Every state there is occurs once: tasks active, idle, waiting, queued and terminated; mail queued, held, delivered, seen, expired,
superseded and dead; threads in every status; a question, a permission, a permalink.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Coroutine
from typing import Any

from inboxd.broker import Broker
from inboxd.model import (
    USER,
    CancelRequest,
    ClaimRequest,
    FinishRequest,
    Identity,
    NewMessage,
    NewTask,
    NewThread,
    PresenceRequest,
    PullRequest,
    ReplyRequest,
    SettleRequest,
    UpdateRequest,
)
from tests.conftest import FixedClock

MINUTE = 60_000
TASKS: dict[str, tuple[str, list[str], str, str]] = {
    "payments-api": ("Payments API: idempotent refunds", ["checkout-web", "e2e"], "claude", "mbp-lena"),
    "checkout-web": ("Checkout page, new address form", ["payments-api", "design-tokens"], "claude", "mbp-lena"),
    "db-migration": ("Split orders table", ["payments-api"], "codex", "build-02"),
    "e2e": ("End-to-end tests for checkout", ["payments-api", "checkout-web"], "gemini", "build-02"),
    "infra": ("Staging cluster and secrets", [], "claude", "ops-1"),
    "design-tokens": ("Colours and spacing as tokens", [], "copilot", "mbp-tom"),
    "ios": ("iOS: Apple Pay sheet", ["payments-api"], "claude", "mbp-tom"),
    "docs": ("Developer docs for refunds", ["payments-api"], "qwen", "build-01"),
    "review": ("Reviews everything before merge", [], "claude", "build-01"),
    "search-index": ("Reindex products nightly", ["db-migration"], "", ""),
    "legacy-cleanup": ("Remove the v1 cart", [], "codex", "build-01"),
}  # fmt: skip

REFUND_PLAN = """\
Refunds are **idempotent** now. What changed:

- `POST /refunds` takes an `Idempotency-Key`; a second call with the same key answers with the first refund
- partial refunds sum up to the captured amount, never above it
- the worker retries only `408`, `429` and `5xx`

```ts
const refund = await refunds.create({
  charge: "ch_1041",
  amount: 1250,
  idempotencyKey: key,
});
```

Ready for review: https://git.example.com/shop/pulls/482"""

LONG_LOG = "\n".join(
    f"{12 + i // 60:02d}:{i % 60:02d} checkout.spec.ts step {i}: {'ok' if i % 17 else 'retried once, then ok'}"
    for i in range(900)
)


WISHES = {
    "T-31": "It is on for everybody since March.",
    "T-34": "A retried call must never pay out twice. Start with a failing test.",
    "T-35": "On a 422 the form is empty again and people leave. Keep every field, and the focus.",
    "T-36": "`orders` has 1.2 million rows and is written every second. No downtime, and a way back.",
    "T-38": "Per customer, with a clear 429.",
}


LOCK_QUESTION = "May I lock `orders` for about 40 seconds tonight at 02:00 UTC?"
LOCK_CHOICES = """\
The backfill is done and verified (1,204,881 rows). The last step swaps the names and needs an exclusive lock.

- **lock at 02:00 UTC**: 40 s, no code change
- **dual writes**: no lock, two more days"""


class Story:
    """The broker in the hands of whoever tells it."""

    def __init__(self, broker: Broker, who: Identity, clock: FixedClock) -> None:
        self.broker = broker
        self.who = who
        self.clock = clock
        self._ids = 0
        self._end_ms = clock.at_ms
        self._order = itertools.count()
        self._later: list[tuple[int, int, asyncio.Future[None]]] = []
        self._speaking = 0
        self._silence = asyncio.Event()

    def agent(self, task: str) -> Identity:
        return Identity(self.who.namespace, "agent", task, "0" * 12, None)

    @property
    def person(self) -> Identity:
        return Identity(self.who.namespace, "user", None, "0" * 12, None)

    async def at(self, minutes_ago: float) -> None:
        """Go on when the story has come to this time."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._later, (self._end_ms - int(minutes_ago * MINUTE), next(self._order), turn))
        self._fall_silent()
        await turn

    def _fall_silent(self) -> None:
        self._speaking -= 1
        if not self._speaking:
            self._silence.set()

    async def _speak(self, part: Coroutine[Any, Any, None]) -> None:
        try:
            await part
        finally:
            self._fall_silent()

    async def tell(self, *parts: Coroutine[Any, Any, None]) -> None:
        """All parts to their end, one word at a time."""
        self._speaking = len(parts)
        async with asyncio.TaskGroup() as tellers:
            for part in parts:
                tellers.create_task(self._speak(part))
            while True:
                await self._silence.wait()
                if not self._later:
                    return
                at_ms, _, turn = heapq.heappop(self._later)
                self.clock.at_ms = max(self.clock.at_ms, at_ms)
                self._silence.clear()
                self._speaking += 1
                turn.set_result(None)

    def session(self, task: str) -> str:
        return f"{random.Random(task).getrandbits(32):08x}-{task[:4].strip('-')}"

    async def say(self, sender: str, to: str, body: str, **fields: Any) -> str:
        self._ids += 1
        message_id = fields.pop("message_id", f"story-{self._ids:04d}")
        who = self.person if sender == USER else self.agent(sender)
        await self.broker.send(who, to, NewMessage.model_validate({"message_id": message_id, "body": body, **fields}))
        return message_id

    async def take(self, task: str, *, seen: bool = True, after_ms: int = 900) -> None:
        """The task's session takes what waits, and its transcript proves it."""
        self._ids += 1
        self.clock.pass_ms(after_ms)
        who, session = self.agent(task), self.session(task)
        batch = await self.broker.pull(who, task, PullRequest(pull_id=f"pull-{self._ids}", session=session))
        if batch.receipt is None:
            return
        self.clock.pass_ms(60)
        await self.broker.ack(who, task, SettleRequest(receipt=batch.receipt))
        if seen:
            self.clock.pass_ms(1_800)
            await self.broker.seen(who, task, SettleRequest(receipt=batch.receipt))

    async def sign(self, task: str, state: str, **fields: Any) -> None:
        _, _, host, machine = TASKS[task]
        said = {"state": state, "session": self.session(task), "host": host, "machine": machine, **fields}
        await self.broker.presence(self.agent(task), task, PresenceRequest.model_validate(said))


async def tell(broker: Broker, who: Identity, clock: FixedClock) -> None:
    """The whole story, ending now."""
    story, end_ms = Story(broker, who, clock), clock.at_ms
    clock.at_ms = end_ms - 180 * MINUTE
    for task, (title, _, _, _) in TASKS.items():
        await broker.declare(who, NewTask(task=task, title=title))
    for task, (_, peers, _, _) in TASKS.items():
        if peers:
            await broker.link(who, task, peers)
    for task in TASKS:
        if task != "search-index":
            await story.sign(task, "start")
    await story.tell(
        _minutes(story),
        _chatter(story),
        _earlier(story),
        _dead_letter(story),
        _now(story),
        *(life(story) for life in THREADS),
    )
    clock.at_ms = end_ms


async def _minutes(story: Story) -> None:
    """What the broker itself does meanwhile."""
    for minute in range(60, -1, -1):
        await story.at(minute)
        await story.broker.sweep(story.who.namespace)


async def _chatter(story: Story) -> None:
    """An hour of small talk, so that the charts have something to say."""
    dice = random.Random(7)
    lines = [
        "Tests are green again.",
        "Rebased on main.",
        "Endpoint renamed, types regenerated.",
        "Cache warmed, 40 ms now.",
    ]
    names = [task for task in TASKS if task not in ("search-index", "legacy-cleanup", "ios")]
    for minute in range(59, 3, -1):
        await story.at(minute)
        for _ in range(dice.choice([0, 1, 1, 2, 3, 5 if 20 < minute < 34 else 1])):
            sender, to = dice.sample(names, 2)
            await story.say(sender, to, dice.choice(lines), kind="progress", priority=dice.choice(["low", "normal"]))
            if dice.random() < 0.7:
                await story.take(to, after_ms=dice.randint(300, 6_000))


async def _earlier(story: Story) -> None:
    await story.at(150)
    await story.say(USER, "legacy-cleanup", "Thanks, that is all. You can stop.", kind="control")
    await story.take("legacy-cleanup")
    await story.sign("legacy-cleanup", "terminated")
    await story.at(95)
    await story.say("docs", USER, "The refund guide is written and linked from the sidebar.", kind="result",
                    artifacts=[{"path": "docs/guides/refunds.md", "kind": "file"}], message_id="guide")  # fmt: skip
    await story.at(92)
    await story.broker.accept(story.person, ["guide"])
    await story.at(41)
    await story.say("infra", USER, "Staging is up with 3 nodes. Secrets come from the vault, nothing in the repo.", kind="result", message_id="staging")  # fmt: skip
    await story.at(40)
    await story.broker.accept(story.person, ["staging"])
    await story.at(38)
    await story.say(USER, "payments-api", "Please make refunds idempotent before anything else.", priority="high")
    await story.take("payments-api")
    await story.at(26)
    await story.say("payments-api", "checkout-web", "The amount is in minor units now: `1250` is 12.50.", kind="answer")
    await story.take("checkout-web")
    await story.at(19)
    await story.say("e2e", "payments-api", LONG_LOG, subject="The nightly run, in full", kind="event")
    await story.take("payments-api")
    await story.at(17)
    await story.say(USER, "docs", "Mention the rate limit, too.", ttl_ms=60_000)


async def _dead_letter(story: Story) -> None:
    await story.at(11)
    await story.say("db-migration", "ios", "`orders.total` becomes `orders.total_minor` tonight. Old clients must send both.", priority="high")  # fmt: skip
    for attempt in range(story.broker.settings.attempts_max):
        batch = await story.broker.pull(
            story.agent("ios"), "ios", PullRequest(pull_id=f"ios-{attempt}", session=story.session("ios"))
        )
        story.clock.pass_ms(2_000)
        await story.broker.release(story.agent("ios"), "ios", SettleRequest(receipt=batch.receipt))
    await story.sign("ios", "end")


async def _opened(
    story: Story, minutes_ago: float, thread_id: str, subject: str, to: str | None, **fields: Any
) -> None:
    await story.at(minutes_ago)
    new = {"message_id": thread_id, "subject": subject, "to": to, "body": WISHES.get(thread_id, ""), **fields}
    await story.broker.open_thread(story.person, NewThread.model_validate(new))


async def _claimed(story: Story, minutes_ago: float, thread_id: str, task: str) -> int:
    await story.at(minutes_ago)
    await story.take(task)
    thread = await story.broker.claim(story.agent(task), thread_id, ClaimRequest(lease_ms=40 * MINUTE))
    assert thread.lease is not None
    assert thread.lease.fencing_token is not None
    return thread.lease.fencing_token


async def _done(story: Story) -> None:
    await _opened(story, 90, "T-31", "Remove the feature flag new_cart", "checkout-web")
    fence = await _claimed(story, 88, "T-31", "checkout-web")
    await story.at(70)
    end = FinishRequest(fencing_token=fence, summary="Flag and dead branch are gone, bundle is 4 kB smaller.")
    await story.broker.done(story.agent("checkout-web"), "T-31", end)


async def _failed(story: Story) -> None:
    await _opened(story, 80, "T-32", "Upgrade the payment SDK to 14", "payments-api")
    fence = await _claimed(story, 79, "T-32", "payments-api")
    await story.at(62)
    end = FinishRequest(fencing_token=fence, summary="Version 14 drops Node 18, which production still runs.")
    await story.broker.fail(story.agent("payments-api"), "T-32", end)


async def _cancelled(story: Story) -> None:
    await _opened(story, 50, "T-33", "Try the new bundler", "design-tokens")
    await story.at(47)
    await story.broker.cancel(story.person, "T-33", CancelRequest(reason="Not this sprint."))


async def _in_progress(story: Story) -> None:
    await _opened(story, 33, "T-34", "Refunds must survive a retry", "payments-api", priority="high")
    fence = await _claimed(story, 21, "T-34", "payments-api")
    await story.at(14)
    word = UpdateRequest(fencing_token=fence, summary="Keys are stored, the worker honours them; tests next.")
    await story.broker.update(story.agent("payments-api"), "T-34", word)
    await story.at(0.2)
    note = ReplyRequest(message_id="T-34-note", kind="message", body="Good. Ping me when the tests are in.")
    await story.broker.reply(story.person, "T-34", note)


async def _just_claimed(story: Story) -> None:
    await _opened(story, 30, "T-35", "Address form: keep what was typed on a failed submit", "checkout-web")
    await _claimed(story, 6, "T-35", "checkout-web")


async def _blocked(story: Story) -> None:
    await _opened(story, 28, "T-36", "Split the orders table without downtime", "db-migration", priority="high")
    fence = await _claimed(story, 23, "T-36", "db-migration")
    await story.at(8)
    question = UpdateRequest(fencing_token=fence, status="blocked", summary=LOCK_QUESTION, body=LOCK_CHOICES)
    await story.broker.update(story.agent("db-migration"), "T-36", question)


async def _pending(story: Story) -> None:
    await _opened(story, 24, "T-37", "Screenshots of every checkout step", None, priority="low")
    await _opened(story, 9, "T-38", "Rate limit for refunds: 10 a minute", "review")
    await _opened(story, 4, "T-39", "Flaky: address.spec.ts on WebKit", "e2e")


THREADS = [_done, _failed, _cancelled, _in_progress, _just_claimed, _blocked, _pending]


async def _now(story: Story) -> None:
    await story.at(5.5)
    await story.say("payments-api", USER, REFUND_PLAN, kind="result", artifacts=[{"path": "api/refunds.ts", "kind": "file"}, {"path": "api/refunds.test.ts", "kind": "file"}])  # fmt: skip
    await story.at(4.2)
    await story.say("checkout-web", USER, "The design has no empty state for saved addresses. Shall I draw one like the cart's, or leave the form open by default?", kind="question", awaiting_response=True)  # fmt: skip
    await story.at(3.1)
    await story.say("infra", USER, "The certificate of `staging.example.com` expires in 3 days and the DNS challenge fails. I need the new API key.", kind="help_request", priority="urgent", awaiting_response=True)  # fmt: skip
    await story.at(2.4)
    await story.say(USER, "payments-api", "Do not touch `auth.ts`, I am in it.", priority="urgent")
    await story.take("payments-api", after_ms=2_100)
    await story.at(1.9)
    await story.say("review", "payments-api", "Two remarks on #482, nothing blocking.", kind="answer")
    await story.at(1.5)
    await story.sign(
        "infra", "waiting", detail="Run `terraform apply` in staging? 3 to add, 1 to change, 0 to destroy."
    )
    await story.at(1.1)
    await story.say(
        "e2e", "checkout-web", "Which test id has the postcode field?", kind="question", awaiting_response=True
    )
    await story.say(USER, "search-index", "Start with the products of the last year only.")
    await story.at(0.7)
    await story.say(USER, "design-tokens", "Stop: the palette changed, pull main first.", priority="urgent")
    await story.say(USER, "docs", "Please mention the rate limit in the guide.")
    for task in ("payments-api", "checkout-web", "db-migration", "e2e", "review"):
        await story.at(0.3)
        await story.sign(task, "heartbeat")
    await story.at(0.2)
    await story.say(USER, "payments-api", "And please add a line to the changelog.")
