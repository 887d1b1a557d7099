"""What tests of replays share."""

from __future__ import annotations

import functools
import sys
from typing import Any

import pytest

_KEPT: list[Any] = []
"""Connections are closed by the loop that opened them, and that is gone."""


@pytest.fixture(autouse=True)
def connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain keeps asynchronous connections for the process, which belong to one loop."""
    utils: Any = sys.modules.get("langchain_openai.chat_models._client_utils")
    if utils is not None:
        fresh = functools.lru_cache(utils._cached_async_httpx_client.__wrapped__)
        monkeypatch.setattr(utils, "_cached_async_httpx_client", fresh)
        _KEPT.append(fresh)
