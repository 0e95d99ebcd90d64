"""What an answer must look like: the model it was promised to be, or the one shape of every error."""

from __future__ import annotations

import json
from typing import TypeVar

import httpx2
from pydantic import BaseModel

from inboxd.errors import BY_CODE
from inboxd.model import ProblemAnswer

Model = TypeVar("Model", bound=BaseModel)


def answered(response: httpx2.Response, kind: type[Model], status: int = 200) -> Model:
    """The answer as its model, which it must fit to the letter: no field missing, none besides, no other type."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    found = kind.model_validate_json(response.content, strict=True)
    assert found.model_dump(mode="json") == json.loads(response.content)
    return found


def refused(response: httpx2.Response, status: int | None = None, code: str | None = None) -> ProblemAnswer:
    """The answer as a refusal in the one shape; never a bug of ours."""
    assert 400 <= response.status_code < 500, f"{response.status_code}: {response.text}"
    found = answered(response, ProblemAnswer, response.status_code)
    assert (found.error.code, response.status_code) == (found.error.code, BY_CODE[found.error.code].status)
    assert found.error.message
    assert response.headers["x-request-id"]
    assert ("www-authenticate" in response.headers) == (response.status_code == 401)
    if status is not None:
        assert response.status_code == status, response.text
    if code is not None:
        assert found.error.code == code, response.text
    return found
