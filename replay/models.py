"""Models that answer prompts in the parent's stead of the planner: the only traffic of a replay.

The planner's process has no network. Its request comes to the parent over the pipe, the parent asks
the one endpoint that the user named, and the planner gets the reply, never the connection.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from tracekit.canonical import JsonValue
from tracekit.errors import UsageError
from tracekit.items import is_responses_request
from tracekit.trajectory import Observation

_STREAMING = ("stream", "stream_options")
"""Parameters of how a reply travels; the planner's process makes its own stream of the reply."""


class ModelUnavailable(Exception):  # an outcome of the replay, told as its reason
    """The model could not be asked; says nothing about the planner."""


class Model(Protocol):
    """Answers requests in the shape of chat completions or of the Responses API."""

    def complete(self, request: Mapping[str, JsonValue]) -> Observation:
        """Return the reply to ``request`` as a whole response object.

        Raises:
            ModelUnavailable: there is no reply.
        """


class LiveModel:
    """An OpenAI-compatible endpoint.

    Args:
        base_url: The endpoint; default ``$OPENAI_BASE_URL``, else the client's own.
        api_key: The key; default ``$OPENAI_API_KEY``.

    Raises:
        UsageError: there is no client library or no key.
    """

    def __init__(self, *, base_url: str | None = None, api_key: str | None = None) -> None:
        try:
            import openai
        except ModuleNotFoundError:
            raise UsageError(
                "--model live needs the openai client",
                hint="install it with: pip install 'tracekit-replay[openai]'",
            ) from None
        key = api_key or os.environ.get("OPENAI_API_KEY")
        if not key:
            raise UsageError("--model live needs OPENAI_API_KEY to be set")
        self._errors = openai.OpenAIError
        self._client: Any = openai.OpenAI(base_url=base_url, api_key=key)

    def complete(self, request: Mapping[str, JsonValue]) -> Observation:
        """Ask the endpoint; see ``Model``."""
        body: dict[str, Any] = {
            name: value for name, value in request.items() if name not in _STREAMING
        }
        try:
            # What the client of this process does not know as a parameter goes out all the same.
            response = (
                self._client.responses.create(
                    model=body.pop("model"), input=body.pop("input"), extra_body=body
                )
                if is_responses_request(body)
                else self._client.chat.completions.create(
                    model=body.pop("model", None),
                    messages=body.pop("messages", None),
                    extra_body=body,
                )
            )
        except self._errors as error:
            raise ModelUnavailable(f"{type(error).__name__}: {error}") from error
        # As it was sent: a history built from it must read like one built from the wire.
        return Observation(response.to_dict(mode="json", warnings=False), "captured")
