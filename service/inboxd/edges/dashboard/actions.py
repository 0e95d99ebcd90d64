"""Actions: what a person does on a page. Each is a form that works without a script; a script gets JSON and stays where it is."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from inboxd import model
from inboxd.edges.dashboard.pages import IdPath, TaskPath
from inboxd.edges.dashboard.reading import message_of
from inboxd.edges.dashboard.rendering import HEADERS
from inboxd.edges.dashboard.routing import Form, OwnForm, own_path, parts
from inboxd.edges.sessions import broker_of
from inboxd.errors import InvalidRequest
from inboxd.model import USER

_WAITING_FOR = {
    "active": "{task} gets it at its next boundary.",
    "idle": "{task} is idle and gets it when it goes on.",
    "waiting": "{task} waits for somebody; it gets this when it goes on.",
    "queued": "{task} has not started yet and gets it when it does.",
    "terminated": "{task} is terminated. It gets this only if it is started again.",
}


def _done(request: Request, form: Form, note: str, **more: Any) -> Response:
    """What happened: as JSON for a script, as the page again for a browser without one."""
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse({"ok": True, "note": note, **more})
    return RedirectResponse(own_path(form.one("next")), 303, headers=HEADERS)


def _said(form: Form) -> str:
    body = form.one("body").strip("\n")
    if not body.strip():
        raise InvalidRequest("There is nothing to send yet.")
    return body


@parts.post("/tasks/{task}/send")
async def send(request: Request, form: OwnForm, task: TaskPath) -> Response:
    new = _message(form, body=_said(form), priority=form.one("priority") or "normal")
    sent = await broker_of(request).send(form.session.who, task, new)
    if sent.duplicate:
        note = "It was sent already; nothing was sent twice."
    else:
        note = "Queued. " + _WAITING_FOR[sent.recipient_state].format(task=task)
        if new.priority == "urgent" and sent.recipient_state == "active":
            note = f"Queued. It stops the next tool call of {task}."
    return _done(request, form, note, message_id=message_of(sent.message).message_id, task=task)


@parts.post("/messages/{message_id}/reply")
async def reply(request: Request, form: OwnForm, message_id: IdPath) -> Response:
    """Answer a message: to whoever sent it, and into its thread if it has one."""
    broker = broker_of(request)
    stored, _ = await broker.show(form.session.who, message_id)
    answered = message_of(stored)
    kind, _, sender = answered.sender.partition(":")
    if kind != "task":
        raise InvalidRequest(f"{answered.sender} has no inbox to answer to.")
    new = _message(form, body=_said(form), kind="answer", reply_to=message_id, thread_id=answered.thread_id)
    sent = await broker.send(form.session.who, sender, new)
    if form.session.is_person and answered.task == USER:
        # Whoever answers has read it.
        await broker.accept(form.session.who, [message_id])
    note = f"Answered. {_WAITING_FOR[sent.recipient_state].format(task=sender)}"
    return _done(request, form, note)


@parts.post("/inbox/accept")
async def accept(request: Request, form: OwnForm) -> Response:
    try:
        what = model.AcceptRequest(message_ids=form.all("id"))
    except ValidationError:
        raise InvalidRequest("No message is named.") from None
    done, lost = await broker_of(request).accept(form.session.who, what.message_ids)
    note = "Marked as read." if len(done) == 1 else f"{len(done)} messages marked as read."
    if lost:
        note = (
            "Not marked: it is gone, or another session of yours is just taking it."
            if not done
            else f"{note} {len(lost)} are gone, or being taken elsewhere."
        )
    return _done(request, form, note, done=done)


@parts.post("/messages/{message_id}/take-back")
async def take_back(request: Request, form: OwnForm, message_id: IdPath) -> Response:
    await broker_of(request).take_back(form.session.who, message_id)
    return _done(request, form, "Taken back. Nobody will get it.")


@parts.post("/messages/{message_id}/requeue")
async def requeue(request: Request, form: OwnForm, message_id: IdPath) -> Response:
    await broker_of(request).requeue(form.session.who, message_id)
    return _done(request, form, "Requeued, in its old place.")


@parts.post("/threads/{thread_id}/reply")
async def reply_in_thread(request: Request, form: OwnForm, thread_id: IdPath) -> Response:
    said = model.ReplyRequest(
        message_id=form.one("message_id") or None,
        body=_said(form),
        kind="answer" if form.one("answers") else "message",
    )
    done = await broker_of(request).reply(form.session.who, thread_id, said)
    message = message_of(done.message)
    note = (
        f"Said. It is mail to {message.task}." if message.task else "Said, in the thread alone: nobody works on it yet."
    )
    return _done(request, form, note, message_id=message.message_id, thread_id=thread_id)


@parts.post("/threads/{thread_id}/cancel")
async def cancel(request: Request, form: OwnForm, thread_id: IdPath) -> Response:
    said = model.CancelRequest(reason=form.one("reason").strip(), message_id=form.one("message_id") or None)
    await broker_of(request).cancel(form.session.who, thread_id, said)
    return _done(request, form, "Cancelled. Whoever worked on it is told.")


@parts.post("/tasks")
async def declare(request: Request, form: OwnForm) -> Response:
    try:
        new = model.NewTask(task=form.one("task").strip(), title=form.one("title").strip())
    except ValidationError:
        raise InvalidRequest("A task's name has letters, digits, `.`, `_` and `-`, 64 at most.") from None
    task, created = await broker_of(request).declare(form.session.who, new)
    note = f"{task.task} can get mail now." if created else f"{task.task} was there already."
    return _done(request, form, note, task=task.task)


def _message(form: Form, **fields: Any) -> model.NewMessage:
    """A message under the id that the page made before the first try, so that a retry stores nothing twice."""
    return model.NewMessage.model_validate({"message_id": form.one("message_id") or None, **fields})
