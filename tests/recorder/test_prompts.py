"""One prompt has one hash, whoever sent it and whatever ids it carried."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.prompts import hash_prompt

PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}}
CHAT: dict[str, Any] = {
    "model": "m-1",
    "temperature": 0.2,
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "rows in t?", "name": "alice"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "sql", "arguments": '{"q": "select 1"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    ],
    "tools": [{"type": "function", "function": {"name": "sql", "parameters": PARAMETERS}}],
}
GENAI: dict[str, Any] = {
    "temperature": 0.2,
    "messages": [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "rows in t?"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": "x", "name": "sql", "arguments": {"q": "select 1"}}
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "x", "result": "1"}]},
    ],
    "tools": [{"type": "function", "name": "sql", "parameters": PARAMETERS}],
}
BLOCKS: dict[str, Any] = {
    "temperature": 0.2,
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "rows in t?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_9", "name": "sql", "input": {"q": "select 1"}}
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_9",
                    "content": [{"type": "text", "text": "1"}],
                }
            ],
        },
    ],
    "tools": [{"type": "function", "name": "sql", "parameters": PARAMETERS}],
}


@pytest.mark.parametrize("other", [GENAI, BLOCKS], ids=["genai parts", "content blocks"])
def test_the_same_prompt_through_another_client_has_the_same_hashes(other: dict[str, Any]) -> None:
    assert hash_prompt(other) == hash_prompt(CHAT)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m[2]["tool_calls"][0].update(id="call_other"),
        lambda m: m[3].update(tool_call_id="call_other"),
        lambda m: m[1].update(name="bob"),
        lambda m: m[0].update(role="developer"),
        lambda m: m[2]["tool_calls"][0]["function"].update(arguments='{"q":"select 1"}'),
        lambda m: m[2].update(content=""),
    ],
)
def test_ids_names_and_spelling_change_no_hash(change: Any) -> None:
    import copy

    other = copy.deepcopy(CHAT)
    change(other["messages"])
    assert hash_prompt(other) == hash_prompt(CHAT)
    assert hash_prompt({**CHAT, "user": "u-1", "metadata": {"t": 1}}) == hash_prompt(CHAT)


def test_what_the_model_is_really_told_changes_the_hash() -> None:
    import copy

    base = hash_prompt(CHAT)
    said = copy.deepcopy(CHAT)
    said["messages"][1]["content"] = "rows in u?"
    assert hash_prompt(said).prompt != base.prompt
    assert hash_prompt(said).system == base.system
    assert hash_prompt({**CHAT, "temperature": 0.3}).prompt != base.prompt
    assert hash_prompt({**CHAT, "tools": []}).tools is None


@given(
    st.dictionaries(
        st.sampled_from(["messages", "tools", "system", "temperature", "prompt"]),
        st.recursive(
            st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "role",
                            "content",
                            "parts",
                            "tool_calls",
                            "function",
                            "type",
                            "text",
                            "name",
                        ]
                    ),
                    inner | st.sampled_from(["text", "tool_call", "tool_result", "tool"]),
                    max_size=4,
                )
            ),
            max_leaves=12,
        ),
    )
)
def test_any_json_has_a_hash(request: dict[str, Any]) -> None:
    assert hash_prompt(request).prompt.startswith("sha256:")
