"""Tokens: who a caller is, and that a revoked token opens nothing from that moment on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from inboxd.broker import Broker
from inboxd.errors import Forbidden, TokenInvalid, TokenUnknown
from inboxd.model import Identity, NewToken, TokenMade
from inboxd.settings import Settings
from inboxd.store import keys
from inboxd.store.connection import connect
from inboxd.store.store import Store
from tests.conftest import FixedClock
from tests.support.servers import PrivateServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

AGENT = NewToken(role="agent", task="backend", label="laptop")


@pytest.fixture(autouse=True)
async def closed(broker: Broker, admin: Identity) -> AsyncIterator[None]:
    """Tokens put their namespace on the store's list; it is taken off again."""
    yield
    await broker.store.connection.call(keys.NAMESPACES, "SREM", keys.NAMESPACES, admin.namespace)


@pytest.fixture
async def other(server: PrivateServer, settings: Settings, clock: FixedClock) -> AsyncIterator[Broker]:
    """Another inboxd on the same store."""
    connection = await connect(server.url, wait_ms=5_000)
    made = Broker(Store(connection, settings), settings, clock)
    yield made
    made.close()
    await connection.close()


def with_secret(made: TokenMade, secret: str) -> str:
    return made.token.rpartition(".")[0] + "." + secret


async def test_a_token_says_whom_it_speaks_for(broker: Broker, admin: Identity) -> None:
    made = await broker.create_token(admin, AGENT)
    assert await broker.identify(made.token) == Identity(admin.namespace, "agent", "backend", made.token_id, None)
    assert (await broker.show_task(admin, "backend")).state == "queued"


async def test_a_token_is_remembered_without_asking_again(broker: Broker, admin: Identity) -> None:
    made = await broker.create_token(admin, AGENT)
    assert broker.recall(made.token) is None
    known = await broker.identify(made.token)
    assert broker.recall(made.token) == known


async def test_a_wrong_secret_opens_nothing(broker: Broker, admin: Identity) -> None:
    made = await broker.create_token(admin, AGENT)
    await broker.identify(made.token)
    secret = made.token.rpartition(".")[2]
    for wrong in ("A" * 43, secret[:-1] + ("A" if secret[-1] != "A" else "B")):
        with pytest.raises(TokenInvalid):
            await broker.identify(with_secret(made, wrong))


async def test_a_token_of_one_namespace_opens_no_other(broker: Broker, admin: Identity) -> None:
    made = await broker.create_token(admin, AGENT)
    with pytest.raises(TokenInvalid):
        await broker.identify(made.token.replace(admin.namespace, f"{admin.namespace}-x"))


@pytest.mark.parametrize(
    "token", ["", "x", "ibx_", "ibx_a.b.c", "ibx_a.000000000000." + "A" * 42, "ibx_A.000000000000." + "A" * 43, "\n"]
)
async def test_what_is_no_token_is_refused(broker: Broker, token: str) -> None:
    with pytest.raises(TokenInvalid) as refusal:
        await broker.identify(token)
    assert refusal.value.hint


async def test_a_token_ends_at_its_time_even_when_remembered(
    broker: Broker, admin: Identity, clock: FixedClock
) -> None:
    made = await broker.create_token(admin, NewToken(role="observer", ttl_ms=1_000))
    assert made.expires_at_ms == clock.now_ms() + 1_000
    clock.pass_ms(999)
    await broker.identify(made.token)
    clock.pass_ms(1)
    assert broker.recall(made.token) is None
    with pytest.raises(TokenInvalid):
        await broker.identify(made.token)


async def test_a_revoked_token_is_forgotten_at_once(broker: Broker, admin: Identity) -> None:
    made = await broker.create_token(admin, AGENT)
    kept = await broker.create_token(admin, AGENT)
    for token in (made.token, kept.token):
        await broker.identify(token)
    await broker.revoke_token(admin, made.token_id)
    assert broker.recall(made.token) is None
    with pytest.raises(TokenInvalid):
        await broker.identify(made.token)
    assert (await broker.identify(kept.token)).token_id == kept.token_id


async def test_a_revocation_is_heard_by_every_inboxd(broker: Broker, other: Broker, admin: Identity) -> None:
    made = await broker.create_token(admin, AGENT)
    assert await other.identify(made.token)
    assert other.recall(made.token)
    await broker.revoke_token(admin, made.token_id)
    await wait_until(lambda: other.recall(made.token) is None, within_ms=5_000)
    with pytest.raises(TokenInvalid):
        await other.identify(made.token)


async def test_a_token_revoked_while_it_is_looked_up_is_not_remembered(
    broker: Broker, other: Broker, admin: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the look-up may arrive behind the word of the revocation: they come on two connections."""
    made, known = [await broker.create_token(admin, AGENT) for _ in range(2)]
    await other.identify(known.token)
    look_up = other.store.token

    async def slow(namespace: str, token_id: str) -> bytes | None:
        record = await look_up(namespace, token_id)
        # Revocations are heard in their order: once the second is, the first was.
        for revoked in (made, known):
            await broker.revoke_token(admin, revoked.token_id)
        await wait_until(lambda: other.recall(known.token) is None, within_ms=5_000)
        return record

    monkeypatch.setattr(other.store, "token", slow)
    await other.identify(made.token)
    monkeypatch.setattr(other.store, "token", look_up)
    assert other.recall(made.token) is None
    with pytest.raises(TokenInvalid):
        await other.identify(made.token)


async def test_nothing_is_remembered_once_revocations_are_not_heard(
    server: PrivateServer, other: Broker, broker: Broker, admin: Identity
) -> None:
    made = await broker.create_token(admin, AGENT)
    await other.identify(made.token)
    server.ask("CLIENT", "KILL", "TYPE", "pubsub")
    await wait_until(lambda: other.recall(made.token) is None, within_ms=5_000)
    assert (await other.identify(made.token)).token_id == made.token_id


async def test_the_list_shows_every_token_and_no_secret(broker: Broker, admin: Identity, clock: FixedClock) -> None:
    clock.pass_ms(1)
    made = await broker.create_token(admin, AGENT)
    listed = await broker.list_tokens(admin)
    assert [token.token_id for token in listed][-1] == made.token_id
    assert listed[-1].model_dump() == {
        "token_id": made.token_id, "role": "agent", "task": "backend", "label": "laptop",
        "created_at_ms": clock.now_ms(), "expires_at_ms": None,
    }  # fmt: skip
    stored = await broker.store.tokens(admin.namespace)
    secret = made.token.rpartition(".")[2]
    assert secret.encode() not in b"".join(stored.values())


async def test_an_operator_revokes_agents_and_nobody_else(broker: Broker, admin: Identity) -> None:
    operator = Identity(admin.namespace, "operator", None, "0" * 12, None)
    agent_token = await broker.create_token(admin, AGENT)
    admin_token = await broker.create_token(admin, NewToken(role="admin"))
    await broker.revoke_token(operator, agent_token.token_id)
    with pytest.raises(Forbidden):
        await broker.revoke_token(operator, admin_token.token_id)
    for role in ("user", "observer", "agent"):
        with pytest.raises(Forbidden):
            await broker.revoke_token(
                Identity(admin.namespace, role, "backend", "0" * 12, None),  # type: ignore[arg-type]
                admin_token.token_id,
            )
    assert await broker.identify(admin_token.token)


async def test_an_unknown_token_cannot_be_revoked(broker: Broker, admin: Identity) -> None:
    with pytest.raises(TokenUnknown):
        await broker.revoke_token(admin, "0" * 12)
