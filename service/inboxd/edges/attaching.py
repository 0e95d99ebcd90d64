"""What `inbox attach` asks: which hosts there are, what one of them needs in a worktree, the skill; and attaching itself.

Plans are the same for everybody and hold no secret, but they name what a team uses: they need a token like all else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request

from inboxd import model
from inboxd.edges.auth import Caller
from inboxd.edges.http_views import StrictRoute, broker_of
from inboxd.hosts import HOSTS, Wish, skill_text
from inboxd.hosts.plan import SKILL

routes = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["attaching"])

HostName = Annotated[Literal["claude", "codex", "gemini", "qwen", "copilot"], Path(examples=["claude"])]
Binary = Annotated[
    str,
    Query(
        pattern=r"^[^\x00-\x1f\x7f]+$",
        max_length=4_096,
        description="the `inbox` to run: an absolute path, because hosts start with other search paths",
    ),
]


@routes.post("/attach", status_code=201)
async def attach(request: Request, who: Caller, new: model.AttachRequest) -> model.Attached:
    """Give a worktree a task: declare it, link its peers, and make the agent's token, which is shown this once."""
    return await broker_of(request).attach(who, new)


@routes.get("/hosts")
async def list_hosts(who: Caller) -> model.HostList:
    """The programs that agents run in, and how to tell that one is used somewhere."""
    del who
    return model.HostList(hosts=[host.facts for host in HOSTS.values()])


@routes.get("/hosts/{host}/plan")
async def plan(
    who: Caller,
    host: HostName,
    binary: Binary = "inbox",
    windows: Annotated[bool, Query(description="the commands are read by a shell of Windows")] = False,
    remind: Annotated[bool, Query(description="the hooks only say that mail waits")] = False,
    wake: Annotated[bool, Query(description="with hooks that wake an idle session, where the host has a way")] = False,
) -> model.Plan:
    """What has to change in a worktree's files for this host, as edits that know no host."""
    del who
    return HOSTS[host].plan(Wish(binary=binary, windows=windows, remind=remind, wake=wake))


@routes.get("/skill")
async def skill(who: Caller) -> model.Skill:
    """What teaches an agent to use its mail and to work on threads, as a SKILL.md."""
    del who
    places = {name: f"{host.skills_folder}/{SKILL}/SKILL.md" for name, host in HOSTS.items()}
    return model.Skill(name=SKILL, text=skill_text(), places=places)
