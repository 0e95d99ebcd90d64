"""claim, renew, expire_leases: one owner at a time, and what it costs to be one."""

from __future__ import annotations

import pytest

from inboxd.errors import LeaseConflict, LeaseLost, TaskUnknown, ThreadForbidden, ThreadState, ThreadUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene
from tests.support.work import (
    LEASE_MS,
    at_work,
    cancel,
    claim,
    fields_of,
    moved,
    open_thread,
    place,
    said,
    told,
    update,
)

pytestmark = pytest.mark.anyio


async def test_a_claim_owns_the_thread_until_its_lease_runs_out(scene: Scene) -> None:
    await open_thread(scene)
    change = await scene.act("claim", **said("claim"))
    assert change.keys.pop("due") == {"backend": (None, START_MS + 300_000)}
    change.keys.pop("task:backend")  # it was heard
    assert change.keys == moved("t-1", 3, "pending", "claimed", "backend", "frontend") | {
        "leases": {"t-1": (None, START_MS + LEASE_MS)},
        "thread:t-1": {
            "claims": (None, "backend/c-1"),
            "fence": ("0", "1"),
            "held:backend": (None, "1"),
            "lease_agent": (None, "backend"),
            "lease_claimed_at_ms": (None, str(START_MS)),
            "lease_expires_at_ms": (None, str(START_MS + LEASE_MS)),
            "status": ("pending", "claimed"),
        },
    }
    assert told(change) == ["task_state_changed", "thread_claimed"]
    assert change.events[-1] == {
        "type": "thread_claimed", "thread_id": "t-1", "status": "claimed", "created_by": "task:frontend",
        "agents": ["frontend", "backend"], "assigned_to": "backend", "task": "backend", "pending": 1, "priority": "normal",
        "agent": "backend", "expires_at_ms": START_MS + LEASE_MS,
    }  # fmt: skip


async def test_a_claim_takes_a_thread_out_of_the_pool(scene: Scene) -> None:
    await open_thread(scene, to="")
    change = await scene.act("claim", **said("claim"))
    assert change.keys["thread:t-1"]["agents"] == ("frontend,*", "frontend,backend")
    assert change.keys["agent_threads:*:pending"] == {"t-1": (place(3), None)}
    assert "agent_threads:*:claimed" not in change.keys


async def test_a_repeated_claim_is_the_same_lease_and_does_not_lengthen_it(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    clock.pass_ms(1_000)
    again = await scene.unchanged("claim", **said("claim", lease_ms=500_000))
    assert fields_of(again)["lease_expires_at_ms"] == str(START_MS + LEASE_MS)


async def test_no_other_claim_gets_through_while_the_lease_is_live(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    clock.pass_ms(LEASE_MS - 1)
    await scene.refused("claim", LeaseConflict, **said("claim", claim_id="c-2"))
    await scene.refused("claim", LeaseConflict, **said("claim", agent="frontend"))
    await scene.refused("claim", LeaseConflict, **said("claim", agent="frontend", claim_id="c-2", any="1"))


async def test_a_thread_whose_lease_has_run_out_is_taken_over_under_a_higher_fence(
    scene: Scene, clock: FixedClock
) -> None:
    await at_work(scene)
    await update(scene, "p-1")
    await scene.run("renew", **said("renew", renew_id="r-1"))
    clock.pass_ms(LEASE_MS)
    change = await scene.act("claim", **said("claim", agent="frontend"))
    assert change.keys.pop("due")
    change.keys.pop("task:frontend")
    change.keys.pop("tasks")
    now = START_MS + LEASE_MS
    assert change.keys == moved("t-1", 3, "in_progress", "claimed", "backend", "frontend") | {
        "leases": {"t-1": (now, now + LEASE_MS)},
        "thread:t-1": {
            "claims": ("backend/c-1", "backend/c-1 frontend/c-1"),
            "fence": ("1", "2"),
            "held:frontend": (None, "2"),
            "lease_agent": ("backend", "frontend"),
            "lease_claimed_at_ms": (str(START_MS), str(now)),
            "lease_expires_at_ms": (str(now), str(now + LEASE_MS)),
            "renewals": ("r-1", None),
            "status": ("in_progress", "claimed"),
            "updated_at_ms": (str(START_MS), str(now)),
        },
    }
    assert [(event["type"], event.get("agent"), event.get("taken_over_from")) for event in change.events] == [
        ("thread_lease_expired", "backend", None),
        ("thread_claimed", "frontend", "backend"),
    ]


async def test_a_claim_that_comes_late_gets_no_lease_twice(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    clock.pass_ms(LEASE_MS)
    await scene.refused("claim", LeaseLost, **said("claim"))
    await claim(scene, agent="frontend", claim_id="c-9")
    await scene.refused("claim", LeaseLost, **said("claim"))
    clock.pass_ms(LEASE_MS)
    await scene.refused("claim", LeaseLost, **said("claim"))
    await claim(scene, claim_id="c-2")
    await scene.refused("claim", LeaseLost, **said("claim"))
    await scene.refused("claim", LeaseLost, **said("claim", agent="frontend", claim_id="c-9"))
    assert fields_of(await scene.unchanged("claim", **said("claim", claim_id="c-2")))["fence"] == "3"


async def test_only_the_last_twenty_claims_are_remembered(scene: Scene, clock: FixedClock) -> None:
    await open_thread(scene)
    for number in range(25):
        await claim(scene, claim_id=f"c-{number}", lease_ms=1_000)
        clock.pass_ms(1_000)
    await scene.refused("claim", LeaseLost, **said("claim", claim_id="c-5"))
    remembered = (await scene.look())["thread:t-1"]["hash"]["claims"].split()
    assert remembered == [f"backend/c-{number}" for number in range(5, 25)]


async def test_the_same_id_of_another_agent_is_another_claim(scene: Scene, clock: FixedClock) -> None:
    await open_thread(scene, to="")
    await claim(scene, agent="frontend")
    clock.pass_ms(LEASE_MS)
    assert fields_of(await claim(scene, agent="backend"))["lease_agent"] == "backend"


async def test_a_refused_claim_changes_nothing(scene: Scene) -> None:
    await open_thread(scene)
    await scene.refused("claim", ThreadUnknown, **said("claim", thread_id="nothing"))
    await scene.refused("claim", ThreadForbidden, **said("claim", agent="frontend"))
    await scene.refused("claim", TaskUnknown, **said("claim", agent="ghost", any="1"))
    await cancel(scene)
    await scene.refused("claim", ThreadState, **said("claim"))
    await scene.refused("claim", ThreadState, **said("claim", any="1"))


async def test_any_lifts_the_assignment_and_nothing_else(scene: Scene) -> None:
    await open_thread(scene)
    assert fields_of(await claim(scene, agent="frontend", any="1"))["lease_agent"] == "frontend"
    await scene.refused("claim", LeaseConflict, **said("claim", any="1"))


async def test_a_renewed_lease_runs_from_now(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    clock.pass_ms(1_000)
    change = await scene.act("renew", **said("renew", renew_id="r-1", lease_ms=90_000))
    until = START_MS + 91_000
    assert change.keys == {
        "leases": {"t-1": (START_MS + LEASE_MS, until)},
        "thread:t-1": {
            "lease_expires_at_ms": (str(START_MS + LEASE_MS), str(until)),
            "renewals": (None, "r-1"),
            "updated_at_ms": (str(START_MS), str(START_MS + 1_000)),
        },
    }
    assert [(event["type"], event["expires_at_ms"]) for event in change.events] == [("thread_renewed", until)]


async def test_a_repeated_renewal_changes_nothing_even_behind_a_later_one(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    for number in (1, 2):
        await scene.run("renew", **said("renew", renew_id=f"r-{number}"))
        clock.pass_ms(1_000)
    for number in (1, 2):
        await scene.unchanged("renew", **said("renew", renew_id=f"r-{number}", lease_ms=500_000))


async def test_a_renewal_by_nobody_who_holds_it_is_refused(scene: Scene, clock: FixedClock) -> None:
    await open_thread(scene)
    await scene.refused("renew", ThreadUnknown, **said("renew", thread_id="nothing"))
    await scene.refused("renew", LeaseLost, **said("renew", fencing_token=0))
    await scene.refused("renew", LeaseLost, **said("renew"))
    await claim(scene)
    await scene.refused("renew", LeaseLost, **said("renew", agent="frontend"))
    await scene.refused("renew", LeaseLost, **said("renew", fencing_token=2))
    await scene.refused("renew", LeaseLost, **said("renew", fencing_token="01"))
    clock.pass_ms(LEASE_MS)
    await scene.refused("renew", LeaseLost, **said("renew"))
    await claim(scene, claim_id="c-2")
    await scene.refused("renew", LeaseLost, **said("renew"))
    await update(scene, "d-1", "done", kind="result", fencing_token=2)
    await scene.refused("renew", ThreadState, **said("renew", fencing_token=2))


async def test_what_a_lease_let_go_stands_in_the_pool_and_an_event_says_so(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene, asked=True)
    await open_thread(scene, "t-2")
    await claim(scene, "t-2", lease_ms=LEASE_MS + 1)
    clock.pass_ms(LEASE_MS - 1)
    assert await scene.unchanged("expire_leases") == 0
    clock.pass_ms(1)
    change = await scene.act("expire_leases")
    assert change.answer == 1
    now = START_MS + LEASE_MS
    assert change.keys == {
        "agent_threads:*:blocked": {"t-1": (None, place(3))},
        "leases": {"t-1": (now, None)},
        "thread:t-1": {
            "agents": ("frontend,backend", "frontend,backend,*"),
            "lease_expired": (None, "1"),
            "updated_at_ms": (str(START_MS), str(now)),
        },
    }
    assert [(event["type"], event["agent"], event["status"]) for event in change.events] == [
        ("thread_lease_expired", "backend", "blocked")
    ]
    assert await scene.unchanged("expire_leases") == 0


async def test_no_more_than_the_limit_of_leases_end_at_once(scene: Scene, clock: FixedClock) -> None:
    for number in range(3):
        await open_thread(scene, f"t-{number}")
        await claim(scene, f"t-{number}")
    clock.pass_ms(LEASE_MS)
    assert [await scene.run("expire_leases", limit=2) for _ in range(3)] == [2, 1, 0]


async def test_a_lease_that_was_said_to_be_over_stays_so_even_if_the_clock_goes_back(
    scene: Scene, clock: FixedClock
) -> None:
    await at_work(scene)
    clock.pass_ms(LEASE_MS)
    await scene.run("expire_leases")
    clock.pass_ms(-1_000)
    await scene.refused("renew", LeaseLost, **said("renew"))
    await scene.refused("update", LeaseLost, **said("update", "p-1"))
    assert fields_of(await claim(scene, agent="frontend"))["lease_agent"] == "frontend"
    state = await scene.look()
    assert state["thread:t-1"]["hash"]["agents"] == "frontend,backend"
    assert "lease_expired" not in state["thread:t-1"]["hash"]
