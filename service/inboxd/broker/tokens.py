"""Tokens: who a caller is. Only hashes are stored; a token is shown once.

`ibx_<namespace>.<token id>.<secret>`: the namespace says where to look, the id what for, the secret proves it. A token
found good is remembered in this process for as long as it hears the namespace's tokens channel: a revocation is published
there, and while the channel is not heard nothing is remembered and every call asks the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets

from inboxd.broker.permission import may_list_tokens, may_mint
from inboxd.broker.threads import Threads
from inboxd.errors import InboxdError, TokenInvalid, TokenUnknown
from inboxd.model import Identity, NewToken, Role, TokenInfo, TokenMade, is_namespace

REMEMBERED_MAX = 10_000
LOGIN_MS = 15 * 60_000
"""How long a login code is good."""
_token_parts = re.compile(r"ibx_([a-z0-9][a-z0-9-]{0,62})\.([0-9a-f]{12})\.([A-Za-z0-9_-]{43})\Z").match


class Tokens(Threads):
    remembered: dict[str, Identity]
    forgotten = 0
    """How often something was to be forgotten: a look-up that was under way meanwhile is not remembered."""
    _hearing: dict[str, asyncio.Task[None]]

    def recall(self, token: str) -> Identity | None:
        """A token this process knows to be good, without asking anybody."""
        known = self.remembered.get(token)
        if known is None or (known.expires_at_ms is not None and known.expires_at_ms <= self.clock.now_ms()):
            return None
        return known

    async def identify(self, token: str) -> Identity:
        """Whom this token speaks for; refuses what is unknown, expired or revoked."""
        if known := self.recall(token):
            return known
        parts = _token_parts(token)
        if parts is None:
            raise TokenInvalid(hint="A token looks like ibx_NAMESPACE.ID.SECRET.")
        namespace, token_id, secret = parts.groups()
        heard = await self._hear_revocations(namespace)
        forgotten = self.forgotten
        record = await self.store.token(namespace, token_id)
        if record is None:
            raise TokenInvalid()
        found = json.loads(record)
        if not hmac.compare_digest(found["hash"], _hash(secret)):
            raise TokenInvalid()
        expires_at_ms = found["expires_at_ms"]
        if expires_at_ms is not None and expires_at_ms <= self.clock.now_ms():
            raise TokenInvalid("This token has expired.")
        identity = Identity(namespace, found["role"], found["task"], token_id, expires_at_ms)
        if heard and forgotten == self.forgotten and self.store.subscribed("tokens", namespace):
            if len(self.remembered) >= REMEMBERED_MAX:
                self.remembered.clear()
            self.remembered[token] = identity
        return identity

    async def _hear_revocations(self, namespace: str) -> bool:
        """Listen for revoked tokens of a namespace; False when that is not possible right now."""
        subscribing = self._hearing.get(namespace)
        if subscribing is None:
            # A made-up namespace must not cost a subscription.
            if namespace not in await self.store.namespaces():
                return False
            # Somebody else may have been quicker meanwhile.
            subscribing = self._hearing.get(namespace)
        if subscribing is None:
            subscribing = self._hearing[namespace] = asyncio.create_task(
                self.store.subscribe(
                    "tokens",
                    namespace,
                    lambda token_id: self._forget(namespace, token_id.decode()),
                    lambda: self._forget(namespace, None),
                )
            )
        try:
            await asyncio.shield(subscribing)
        except Exception as problem:
            # Several wait for one attempt: only the first to see it fail may clear it, not the attempt that followed.
            if self._hearing.get(namespace) is subscribing:
                del self._hearing[namespace]
            if not isinstance(problem, InboxdError):
                raise
            return False
        return True

    def _forget(self, namespace: str, token_id: str | None) -> None:
        """Forget one token, or all of a namespace when revocations may have been missed."""
        self.forgotten += 1
        self.remembered = {
            token: known
            for token, known in self.remembered.items()
            if known.namespace != namespace or (token_id is not None and known.token_id != token_id)
        }

    async def create_token(self, who: Identity, new: NewToken) -> TokenMade:
        may_mint(who, new.role)
        return await self._make_token(who.namespace, new)

    async def _make_token(self, namespace: str, new: NewToken) -> TokenMade:
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        created_at_ms = self.clock.now_ms()
        expires_at_ms = created_at_ms + new.ttl_ms if new.ttl_ms else None
        record = {
            "role": new.role,
            "task": new.task,
            "label": new.label,
            "hash": _hash(secret),
            "created_at_ms": created_at_ms,
            "expires_at_ms": expires_at_ms,
        }
        await self.store.remember_namespace(namespace)
        await self.store.run(
            "create_token",
            namespace,
            now_ms=self.clock.for_scripts,
            token_id=token_id,
            record=json.dumps(record),
            task_id=new.task,
        )
        return TokenMade(
            token=f"ibx_{namespace}.{token_id}.{secret}",
            token_id=token_id,
            role=new.role,
            task=new.task,
            label=new.label,
            created_at_ms=created_at_ms,
            expires_at_ms=expires_at_ms,
        )

    async def offer_login(self, namespace: str) -> str:
        """A code that makes whoever has it the user, once, within a quarter of an hour."""
        secret = secrets.token_hex(10)
        await self.store.put_once(namespace, "login", "user", LOGIN_MS, code_hash=_hash(secret))
        return f"{namespace}-{secret}" if namespace != "default" else secret

    async def log_in(self, code: str) -> TokenMade:
        """A user's token for a login code."""
        namespace, role = await self._redeem(code)
        return await self._make_token(namespace, NewToken(role=role, label="login"))

    async def _redeem(self, code: str) -> tuple[str, Role]:
        """The namespace and the role a login code opens; it is used up by that."""
        namespace, _, secret = code.rpartition("-")
        namespace = namespace or "default"
        if is_namespace(namespace):
            role = await self.store.take_once(namespace, "login", code_hash=_hash(secret))
            if role is not None:
                return namespace, "user"
        raise TokenInvalid("This login code is unknown, used or too old.", hint="`inboxd login-code` prints a new one.")

    async def list_tokens(self, who: Identity) -> list[TokenInfo]:
        may_list_tokens(who)
        records = {
            token_id: json.loads(record) for token_id, record in (await self.store.tokens(who.namespace)).items()
        }
        shown = [
            TokenInfo(
                token_id=token_id,
                **{field: record[field] for field in TokenInfo.model_fields if field != "token_id"},
            )
            for token_id, record in records.items()
        ]
        return sorted(shown, key=lambda token: token.created_at_ms)

    async def revoke_token(self, who: Identity, token_id: str) -> None:
        """From now on it opens nothing. Anybody may give up the token they call with: `inbox detach` does."""
        if token_id == who.token_id:
            return await self._revoke(who.namespace, token_id)
        may_list_tokens(who)
        record = await self.store.token(who.namespace, token_id)
        if record is None:
            raise TokenUnknown(f"There is no token {token_id}.", hint="`inboxd token list` shows them.")
        may_mint(who, json.loads(record)["role"])
        return await self._revoke(who.namespace, token_id)

    async def _revoke(self, namespace: str, token_id: str) -> None:
        await self.store.run("revoke_token", namespace, now_ms=self.clock.for_scripts, token_id=token_id)
        self._forget(namespace, token_id)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def is_token_id(text: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{12}", text) is not None
