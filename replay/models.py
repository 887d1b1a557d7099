"""Models that answer prompts in the parent's stead of the planner: the only traffic of a replay.

The planner's process has no network. Its request comes to the parent over the pipe, the parent asks
the one endpoint that the user named, or the user's own function, and the planner gets the reply,
never the connection. What a provider would do by itself while it answers (search the web, run code,
call a server of tools) happens outside the replay, so such requests are not sent.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

from replay.planner import load
from tracekit.canonical import JsonValue, encode
from tracekit.errors import UsageError
from tracekit.items import is_responses_request
from tracekit.trajectory import Observation

_STREAMING = ("stream", "stream_options")
"""Parameters of how a reply travels; the planner's process makes its own stream of the reply."""
_BY_CLIENT = frozenset(
    {"function", "custom", "local_shell", "computer", "computer_use_preview", "apply_patch"}
)
"""Types of tools that a model only asks for: who called it runs them, or does not."""


class ModelUnavailable(Exception):  # an outcome of the replay, told as its reason
    """The model could not be asked; says nothing about the planner."""


class Model(Protocol):
    """Answers requests: of clients in the shape of chat completions or of the Responses API."""

    answers_functions: bool
    """Whether it also answers for decorated functions, whose request is their arguments."""

    def complete(self, request: Mapping[str, JsonValue]) -> Observation:
        """Return the reply to ``request`` as a whole response object.

        Raises:
            ModelUnavailable: there is no reply.
        """


def make_model(
    mode: str, function: str | Callable[..., Any] | None, *, listed: Collection[str] = ()
) -> Model | None:
    """The model that ``--model live`` asks; None for the other ways.

    Args:
        mode: The way.
        function: The user's function from the request to the reply, or its ``MOD:OBJ``; without
            one, the endpoint of the environment is asked.
        listed: Tools that read, which the provider may run by itself.

    Raises:
        UsageError: there is a function and no use for it, or no client library, or no key.
        PlannerError: the function cannot be loaded.
    """
    if mode != "live":
        if function is not None:
            raise UsageError("--live-model goes with --model live")
        return None
    if function is None:
        return LiveModel(listed=listed)
    found = load(function, what="live model") if isinstance(function, str) else function
    if not callable(found):
        raise UsageError(
            f"live model {function!r} is of type {type(found).__name__}, which answers nothing",
            hint="name a function from the request to the reply",
        )
    return FunctionModel(found)


class FunctionModel:
    """The user's own way to a model. It runs in this process, as trusted as the user's shell."""

    answers_functions = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def complete(self, request: Mapping[str, JsonValue]) -> Observation:
        """Ask the function; see ``Model``."""
        try:
            kept = encode(self._function(dict(request)))
        except Exception as error:
            raise ModelUnavailable(f"{type(error).__name__}: {error}") from error
        if not kept.replayable:
            raise ModelUnavailable(f"it gave a value that cannot be sent on: {kept.problems[0]}")
        return Observation(kept.value, "captured", types=dict(kept.types))


class LiveModel:
    """An OpenAI-compatible endpoint, and no other host: redirects are not followed.

    Args:
        base_url: The endpoint; default ``$OPENAI_BASE_URL``, else the client's own.
        api_key: The key; default ``$OPENAI_API_KEY``.
        listed: Tools that read, which the provider may run by itself.

    Raises:
        UsageError: there is no client library or no key.
    """

    answers_functions = False

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        listed: Collection[str] = (),
    ) -> None:
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
        self._listed = frozenset(listed)
        self._errors = openai.OpenAIError
        http = openai.DefaultHttpxClient(follow_redirects=False)
        weakref.finalize(self, http.close)  # the client closes only what it made itself
        self._client: Any = openai.OpenAI(base_url=base_url, api_key=key, http_client=http)

    def complete(self, request: Mapping[str, JsonValue]) -> Observation:
        """Ask the endpoint; see ``Model``."""
        if beyond := sorted(set(run_by_provider(request)) - self._listed):
            raise ModelUnavailable(
                f"the request has the provider run {', '.join(beyond)} by itself, "
                "which nobody listed as a read"
            )
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


def run_by_provider(request: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the tools that the provider runs by itself while it answers ``request``."""
    if request.get("web_search_options") is not None:
        yield "web_search"
    tools = request.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict) or "input_schema" in tool:
            continue  # a function in some provider's spelling
        kind = tool.get("type")
        if isinstance(kind, str) and kind not in _BY_CLIENT:
            yield kind
