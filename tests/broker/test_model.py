"""The promises, against whatever order of things hypothesis thinks of, on the real store.

`Post` is what is promised, in plain Python: one inbox, in which a message waits in its place, is in flight to at most one
session, comes back to its place, is delivered once. After every step the whole inbox must be what `Post` says: every message
in its state, every counter. At the end all that is still owed is pulled, and nothing is lost and nothing comes twice.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import hypothesis
import pytest
import uvloop
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from inboxd.broker import Broker, owner
from inboxd.errors import MessageState, PullIdReused, ReceiptLost
from inboxd.model import RANKS, NewMessage, NewTask, PresenceRequest, PullRequest, SettleRequest
from inboxd.settings import Settings
from inboxd.store import keys
from inboxd.store.connection import Connection, connect
from inboxd.store.store import Store
from tests.conftest import FixedClock
from tests.support.leaks import keys_of, leaked
from tests.support.mail import ids
from tests.support.servers import PrivateServer

T = TypeVar("T")
ATTEMPTS_MAX = 3
TASK = "backend"


@dataclass
class Letter:
    """One message, as promised."""

    message_id: str
    place: int
    priority: str
    chars: int
    topic: str | None
    expires_at_ms: int | None
    state: str = "queued"
    attempts: int = 0
    receipt: str | None = None
    """The hand-over that may still settle it by its receipt."""
    holder: str | None = None
    """The session that may still settle it by its id, before it is delivered."""
    held_until_ms: int = 0
    delivered_to: str | None = None


@dataclass
class HandOver:
    session: str
    acked: bool
    letters: list[Letter]


@dataclass
class Post:
    """What is promised of one inbox. Deadlines act when somebody looks: at a pull or a sweep."""

    letters: dict[str, Letter] = field(default_factory=dict)
    speaks: dict[str, Letter] = field(default_factory=dict)
    """The queued message that a newer one on its topic replaces."""
    handed: dict[str, HandOver] = field(default_factory=dict)

    def send(self, letter: Letter) -> list[str]:
        replaced = []
        if letter.topic is not None:
            older = self.speaks.get(letter.topic)
            if older is not None and older.state == "queued":
                older.state = "superseded"
                replaced.append(older.message_id)
            self.speaks[letter.topic] = letter
        self.letters[letter.message_id] = letter
        return replaced

    def look(self, now_ms: int) -> None:
        for letter in self.letters.values():
            if letter.state == "in_flight" and letter.held_until_ms <= now_ms:
                self.return_(letter)
            if letter.state == "queued" and letter.expires_at_ms is not None and letter.expires_at_ms <= now_ms:
                self.silence(letter)
                letter.state = "expired"

    def return_(self, letter: Letter) -> None:
        """Back to its place, or dead after too many hand-overs."""
        self.silence(letter)
        letter.state = "dead" if letter.attempts >= ATTEMPTS_MAX else "queued"
        if letter.state == "queued" and letter.topic is not None:
            self.speaks.setdefault(letter.topic, letter)

    def silence(self, letter: Letter) -> None:
        if letter.topic is not None and self.speaks.get(letter.topic) is letter:
            del self.speaks[letter.topic]

    def waiting(self, priority: str) -> list[Letter]:
        return sorted(
            (one for one in self.letters.values() if one.state == "queued" and one.priority == priority),
            key=lambda one: one.place,
        )

    def next_(self, most: int, chars: int | None, least: str) -> list[Letter]:
        """Most urgent first, then by place; the first always fits, and nothing overtakes what does not."""
        found: list[Letter] = []
        for priority in ("urgent", "high", "normal", "low"):
            if RANKS[priority] < RANKS[least]:
                break
            for letter in self.waiting(priority):
                if len(found) == most or (found and chars is not None and letter.chars > chars):
                    return found
                chars = None if chars is None else chars - letter.chars
                found.append(letter)
        return found

    def take(self, pull_id: str, handed: HandOver, until_ms: int) -> None:
        for letter in handed.letters:
            letter.attempts += 1
            letter.receipt, letter.holder, letter.held_until_ms = pull_id, handed.session, until_ms
            letter.state = "in_flight"
            if handed.acked:
                self.deliver(letter, handed.session)
        if handed.letters:
            self.handed[pull_id] = handed

    def deliver(self, letter: Letter, session: str) -> None:
        self.silence(letter)
        letter.state, letter.delivered_to, letter.holder = "delivered", session, None

    def owned(self, receipt: str | None, message_ids: list[str], session: str) -> tuple[list[Letter], list[str]]:
        """Whom a settling may touch, and the session it counts for."""
        if receipt is not None:
            batch = self.handed[receipt]
            return [one for one in batch.letters if one.receipt == receipt], [one.message_id for one in batch.letters]
        named = [self.letters[one] for one in dict.fromkeys(message_ids)]
        ours = [
            one for one in named if session == (one.delivered_to if one.state in ("delivered", "seen") else one.holder)
        ]
        return ours, [one.message_id for one in named]

    def settle(self, verb: str, ours: list[Letter], session: str) -> list[str]:
        """The ids that are now so."""
        done = []
        for letter in ours:
            if verb in ("ack", "seen") and letter.state in ("in_flight", "queued"):
                self.deliver(letter, session)
            if verb == "seen" and letter.state == "delivered":
                letter.state = "seen"
            if verb == "release" and letter.state != "in_flight":
                continue
            if verb == "unseen" and letter.state not in ("in_flight", "delivered"):
                continue
            if verb in ("release", "unseen"):
                self.return_(letter)
                letter.receipt = letter.holder = letter.delivered_to = None
            elif letter.state not in ("delivered", "seen"):
                continue
            done.append(letter.message_id)
        return done


@dataclass
class Place:
    """A server, and a loop to speak to it from code that is not async."""

    server: PrivateServer
    runner: asyncio.Runner
    connection: Connection
    examples: int
    """Of a hundred: the rules are tried at length on one kind of server, and that they hold on the others by fewer."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)


SESSIONS = st.sampled_from(["s-1", "s-2"])
VERBS = st.sampled_from(["ack", "release", "seen", "unseen"])
STEPS = st.sampled_from(
    ["send"] * 4 + ["pull"] * 5 + ["settle_a_batch"] * 5 + ["settle_messages"] * 3 + ["pass_time"] * 3
    + ["pull_again", "pull_again", "send_again_later", "end", "requeue"]
)  # fmt: skip
"""One rule with weights of our own: hypothesis leaves whole rules out of a run, and without pulls there is little to see."""
Draw = Callable[[st.SearchStrategy[Any]], Any]


class Inbox(RuleBasedStateMachine):
    at: ClassVar[Place]

    def __init__(self) -> None:
        super().__init__()
        self.post = Post()
        self.clock = FixedClock()
        self.namespace = f"t-{uuid.uuid4().hex[:16]}"
        settings = Settings(attempts_max=ATTEMPTS_MAX)
        self.broker = Broker(Store(self.at.connection, settings), settings, self.clock)
        self.who = owner(self.namespace)
        self.counted = 0
        self.run(self.broker.declare(self.who, NewTask(task=TASK)))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.at.run(coroutine)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        what = data.draw(STEPS, label="what")
        if not self.post.letters:
            what = "send"
        elif not self.post.handed and what in ("settle_a_batch", "pull_again"):
            what = "pull"
        getattr(self, what)(data.draw)

    def _one(self, draw: Draw, names: Iterable[T]) -> T:
        """One of the last few: what is long over is of little interest."""
        latest = list(names)[-5:]
        return latest[-1 - draw(st.integers(0, len(latest) - 1))]

    def _new(self, letter: Letter, ttl_ms: int | None) -> NewMessage:
        return NewMessage(
            message_id=letter.message_id,
            body="x" * letter.chars,
            priority=letter.priority,  # type: ignore[arg-type]
            topic=letter.topic,
            ttl_ms=ttl_ms,
        )

    def send(self, draw: Draw) -> None:
        for _ in range(draw(st.integers(1, 3))):
            self._send(draw)

    def _send(self, draw: Draw) -> None:
        self.counted += 1
        ttl_ms = draw(st.sampled_from([None, None, None, 1_500, 8_000]))
        letter = Letter(
            f"m-{self.counted}",
            self.counted,
            draw(st.sampled_from(["normal", "normal", "normal", "low", "high", "urgent"])),
            draw(st.integers(1, 60)),
            draw(st.sampled_from([None, None, "a"])),
            ttl_ms and self.clock.now_ms() + ttl_ms,
        )
        replaced = self.post.send(letter)
        for number in range(draw(st.integers(1, 2))):
            answer = self.run(self.broker.send(self.who, TASK, self._new(letter, ttl_ms)))
            assert (answer.duplicate, answer.superseded) == (number > 0, replaced if number == 0 else [])

    def send_again_later(self, draw: Draw) -> None:
        letter = self._one(draw, self.post.letters.values())
        stored = self.run(self.broker.show(self.who, letter.message_id))[0]
        ttl_ms = letter.expires_at_ms and letter.expires_at_ms - int(stored.created_at_ms)
        assert self.run(self.broker.send(self.who, TASK, self._new(letter, ttl_ms))).duplicate

    def pull(self, draw: Draw) -> None:
        self.counted += 1
        pull_id = f"p-{self.counted}"
        session, ack = draw(SESSIONS), draw(st.sampled_from([False, False, False, True]))
        most, chars = draw(st.sampled_from([1, 2, 3, 20])), draw(st.sampled_from([None, None, 1, 40, 100]))
        least, hold_ms = draw(st.sampled_from(["low"] * 5 + ["urgent"])), draw(st.sampled_from([1_000, 5_000]))
        want = PullRequest(
            pull_id=pull_id, session=session, max=most, max_chars=chars, min_priority=least, hold_ms=hold_ms, ack=ack
        )
        self.post.look(self.clock.now_ms())
        handed = HandOver(session, ack, self.post.next_(most, chars, least))
        self.post.take(pull_id, handed, self.clock.now_ms() + hold_ms)
        for _ in range(draw(st.integers(1, 2))):
            batch = self.run(self.broker.pull(self.who, TASK, want))
            assert ids(batch) == [letter.message_id for letter in handed.letters]
            assert batch.pending == sum(letter.state == "queued" for letter in self.post.letters.values())

    def pull_again(self, draw: Draw) -> None:
        pull_id = self._one(draw, self.post.handed)
        session = draw(SESSIONS)
        handed = self.post.handed[pull_id]
        want = PullRequest(pull_id=pull_id, session=session, ack=draw(st.booleans()))
        if session != handed.session:
            with pytest.raises(PullIdReused):
                self.run(self.broker.pull(self.who, TASK, want))
            return
        still = [
            letter.message_id
            for letter in handed.letters
            if letter.receipt == pull_id
            and (
                (handed.acked and letter.state in ("delivered", "seen"))
                or (letter.state == "in_flight" and letter.held_until_ms > self.clock.now_ms())
            )
        ]
        assert ids(self.run(self.broker.pull(self.who, TASK, want))) == still

    def _settle(self, verb: str, receipt: str | None, message_ids: list[str], session: str) -> None:
        ours, named = self.post.owned(receipt, message_ids, session)
        counts_for = self.post.handed[receipt].session if receipt else session
        request = SettleRequest(receipt=receipt, message_ids=message_ids or None, session=session)
        done = self.post.settle(verb, ours, counts_for)
        settling = getattr(self.broker, verb)(self.who, TASK, request)
        if verb == "ack" and not done:
            with pytest.raises(ReceiptLost):
                self.run(settling)
            return
        answer = self.run(settling)
        assert answer.message_ids == done
        assert answer.lost == [one for one in named if one not in done]

    def settle_a_batch(self, draw: Draw) -> None:
        """In time or late, once or again, by its holder or a former one: a receipt is all it takes."""
        self._settle(draw(VERBS), self._one(draw, self.post.handed), [], "s-1")

    def settle_messages(self, draw: Draw) -> None:
        """By the session that has the first of them, or by any; some named twice."""
        some = [self._one(draw, self.post.letters.values()) for _ in range(draw(st.integers(1, 3)))]
        holder = some[0].delivered_to or some[0].holder or "s-1"
        session = draw(st.sampled_from([holder, holder, "s-1", "s-2"]))
        self._settle(draw(VERBS), None, [letter.message_id for letter in some], session)

    def pass_time(self, draw: Draw) -> None:
        self.clock.pass_ms(draw(st.sampled_from([1, 1_000, 1_000, 5_000, 20_000])))
        then = draw(st.sampled_from(["nothing", "nothing", "sweep", "count"]))
        if then == "sweep":
            self._sweep()
        if then == "count":
            found = self.run(self.broker.pending(self.who, TASK))
            self.post.look(self.clock.now_ms())
            assert found.pending == sum(letter.state == "queued" for letter in self.post.letters.values())

    def _sweep(self) -> None:
        self.run(self.broker.sweep(self.namespace))
        self.post.look(self.clock.now_ms())

    def end(self, draw: Draw) -> None:
        session = draw(SESSIONS)
        held = [one for one in self.post.letters.values() if one.state == "in_flight" and one.holder == session]
        for letter in held:
            self.post.return_(letter)
            letter.receipt = None
        said = PresenceRequest(state="end", session=session)
        assert self.run(self.broker.presence(self.who, TASK, said)).given_back == len(held)

    def requeue(self, draw: Draw) -> None:
        dead = [letter for letter in self.post.letters.values() if letter.state == "dead"]
        self._requeue(dead[0] if dead else self._one(draw, self.post.letters.values()))

    def _requeue(self, letter: Letter) -> None:
        requeuing = self.broker.requeue(self.who, letter.message_id)
        if letter.state not in ("dead", "queued"):
            with pytest.raises(MessageState):
                self.run(requeuing)
            return
        self.run(requeuing)
        if letter.state == "dead":
            letter.state, letter.attempts, letter.receipt, letter.holder = "queued", 0, None, None
            if letter.topic is not None:
                self.post.speaks.setdefault(letter.topic, letter)

    @invariant()
    def the_store_is_what_was_promised(self) -> None:
        letters = list(self.post.letters.values())
        states, counters, dead = self.run(self._look([letter.message_id for letter in letters]))
        assert states == [(letter.state, letter.attempts) for letter in letters]
        waiting = [len(self.post.waiting(priority)) for priority in ("urgent", "high", "normal", "low")]
        assert counters == [*waiting, sum(letter.state == "in_flight" for letter in letters)]
        assert dead == sum(letter.state == "dead" for letter in letters)

    async def _look(self, message_ids: list[str]) -> tuple[list[tuple[str, int]], list[int], int]:
        """Straight at the keys: no operation of the broker stands between."""
        call = self.at.connection.call
        names = [keys.key(self.namespace, "msg", message_id=one) for one in message_ids]
        task = keys.key(self.namespace, "task", task_id=TASK)
        rows = await asyncio.gather(
            *(call(name, "HMGET", name, "state", "attempts") for name in names),
            call(
                task, "HMGET", task, "dead", *(f"queued:{one}" for one in ("urgent", "high", "normal", "low")), "held"
            ),
        )
        dead, *counters = [int(value or 0) for value in rows[-1]]
        return [(state.decode(), int(attempts)) for state, attempts in rows[:-1]], counters, dead

    def teardown(self) -> None:
        """What is still owed is handed over, each once and in its order; nothing is lost."""
        try:
            self.clock.pass_ms(100_000)
            self._sweep()
            for letter in self.post.letters.values():
                if letter.state == "dead":
                    self._requeue(letter)
            self.post.look(self.clock.now_ms())
            owed = [letter.message_id for letter in self.post.next_(1_000, None, "low")]
            last = PullRequest(session="last", max=100, ack=True)
            got: list[str] = []
            while batch := ids(self.run(self.broker.pull(self.who, TASK, last))):
                got += batch
            assert got == owed
            assert self.run(leaked(self.at.connection, self.namespace)) == []
        finally:
            self.run(self._clear())

    async def _clear(self) -> None:
        names = await keys_of(self.at.connection, self.namespace)
        await self.at.connection.call(names[0], "UNLINK", *names)


@pytest.fixture
def place(server: PrivateServer, request: pytest.FixtureRequest) -> Iterator[Place]:
    examples = 100 if request.node.callspec.params["server"] == "valkey" else 25
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        connection = runner.run(connect(server.url, wait_ms=5_000))
        yield Place(server, runner, connection, examples)
        runner.run(connection.close())


@pytest.mark.timeout(3_600)
def test_the_promises_hold_whatever_happens(place: Place, request: pytest.FixtureRequest) -> None:
    long = request.config.getoption("--long")

    class Here(Inbox):
        at = place

    run_state_machine_as_test(
        Here,
        settings=hypothesis.settings(
            max_examples=3_000 if long else place.examples * 3 // 5,
            stateful_step_count=80 if long else 50,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate, *([Phase.shrink] if long else [])),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
