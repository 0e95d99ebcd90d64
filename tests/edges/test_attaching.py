"""Attaching over HTTP: who may, what comes of it, and what everybody may ask about hosts."""

from __future__ import annotations

import pytest

from inboxd import model
from inboxd.hosts import HOSTS, Wish, skill_text
from tests.edges.conftest import Api
from tests.support.answers import answered, refused

pytestmark = pytest.mark.anyio


async def attach(api: Api, role: str, **wish: object) -> model.Attached:
    answer = await api.as_role(role).post("/v1/attach", json={"task": "docs", **wish})
    return answered(answer, model.Attached, 201)


@pytest.mark.parametrize("role", ["admin", "operator", "user"])
async def test_a_worktree_gets_a_task_its_peers_and_a_token_that_opens_it(api: Api, role: str) -> None:
    done = await attach(api, role, peers=["frontend"], label="here")
    assert (done.created, done.task.task, done.task.peers) == (True, "docs", ["frontend"])
    assert answered(await api.admin.get("/v1/tasks/frontend"), model.Task).peers == ["docs"]
    assert done.token is not None
    assert (done.token.role, done.token.task, done.token.label) == ("agent", "docs", "here")
    async with api.with_token(done.token.token) as agent:
        answered(await agent.post("/v1/tasks/docs/pull", json={}), model.Batch)
        refused(await agent.post("/v1/tasks/backend/pull", json={}), 403, "FORBIDDEN")


async def test_a_token_that_is_good_for_the_task_is_kept(api: Api) -> None:
    first = await attach(api, "operator")
    assert first.token is not None
    again = await attach(api, "user", token_id=first.token.token_id)
    assert (again.created, again.token) == (False, None)


async def test_a_token_that_is_revoked_unknown_or_of_another_task_is_replaced(api: Api) -> None:
    first = await attach(api, "operator")
    assert first.token is not None
    answered(await api.admin.delete(f"/v1/tokens/{first.token.token_id}"), model.Revoked)
    for token_id in (first.token.token_id, "0" * 12, api.tokens["agent"].token_id, api.tokens["admin"].token_id):
        assert (await attach(api, "operator", token_id=token_id)).token is not None


async def test_an_agent_attaches_itself_and_nobody_else_and_makes_no_token(api: Api) -> None:
    done = answered(await api.agent.post("/v1/attach", json={"task": "backend"}), model.Attached, 201)
    assert (done.created, done.token) == (False, None)
    for wish in ({"task": "frontend"}, {"task": "docs"}, {"task": "backend", "peers": ["frontend"]}):
        refused(await api.agent.post("/v1/attach", json=wish), 403, "FORBIDDEN")


async def test_an_observer_attaches_nothing(api: Api) -> None:
    refused(await api.as_role("observer").post("/v1/attach", json={"task": "docs"}), 403, "FORBIDDEN")


async def test_nothing_is_attached_to_the_persons_own_inbox(api: Api) -> None:
    refused(await api.admin.post("/v1/attach", json={"task": "user"}), 409, "TASK_RESERVED")


@pytest.mark.parametrize("role", ["agent", "observer", "user"])
async def test_anybody_may_give_up_the_token_they_call_with_and_no_other(api: Api, role: str) -> None:
    client = api.as_role(role)
    refused(await client.delete(f"/v1/tokens/{api.tokens['operator'].token_id}"), 403, "FORBIDDEN")
    answered(await client.delete(f"/v1/tokens/{api.tokens[role].token_id}"), model.Revoked)
    refused(await client.get("/v1/whoami"), 401, "TOKEN_INVALID")


async def test_the_plan_of_a_host_is_what_hosts_say(api: Api) -> None:
    listed = answered(await api.agent.get("/v1/hosts"), model.HostList)
    assert [host.host for host in listed.hosts] == list(HOSTS)
    for name, host in HOSTS.items():
        asked = {"binary": "/opt/a b/inbox", "wake": "true", "remind": "true"}
        plan = answered(await api.agent.get(f"/v1/hosts/{name}/plan", params=asked), model.Plan)
        assert plan == host.plan(Wish(binary="/opt/a b/inbox", wake=True, remind=True))
    refused(await api.agent.get("/v1/hosts/emacs/plan"), 422, "INVALID_REQUEST")
    refused(await api.agent.get("/v1/hosts/claude/plan", params={"binary": "a\nb"}), 422, "INVALID_REQUEST")


async def test_the_skill_is_told_with_the_places_it_goes_to(api: Api) -> None:
    skill = answered(await api.agent.get("/v1/skill"), model.Skill)
    assert (skill.name, skill.text) == ("inboxd", skill_text())
    assert skill.places["claude"] == ".claude/skills/inboxd/SKILL.md"
    assert set(skill.places) == set(HOSTS)
