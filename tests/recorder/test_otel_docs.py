"""Every Python block of the page on OpenTelemetry runs as it stands, with a receiver there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.recorder.otlp_kit import ROOT, http_receiver, run_program
from tracekit.otel.carriers import RUN_ID_KEY
from tracekit.otel.outgoing import _REQUEST

PAGE = (ROOT / "docs" / "opentelemetry.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1][:40])
def test_a_block_of_the_page_runs(block: str, tmp_path: Path) -> None:
    with http_receiver() as received:
        run_program(tmp_path, block.replace("http://localhost:4318", received.endpoint))
        if "balance(" in block:
            assert list(received.spans()) == ["execute_tool balance"]


def test_the_page_names_every_attribute_that_a_span_of_ours_can_have() -> None:
    sources = [ROOT / "tracekit" / "otel" / name for name in ("outgoing.py", "spans.py")]
    code = "".join(source.read_text(encoding="utf-8") for source in sources)
    code = code.replace("tracekit.tool.{side}.digest", "tracekit.tool.argument.digest")
    said = set(re.findall(r'"((?:gen_ai|tracekit)\.[a-z_]+\.?[a-z_.]*|error\.type)"', code))
    said |= {f"gen_ai.request.{name}" for name in _REQUEST} | {"tracekit.tool.observation.digest"}
    said = {name for name in said if not name.startswith("tracekit.otel")} | {RUN_ID_KEY}
    out = PAGE.split("## In:")[0]
    parameters = re.search(r"`gen_ai\.request\.` with ([^|]*?), `gen_ai\.usage", out)
    assert parameters is not None
    told = set(re.findall(r"`((?:gen_ai|tracekit)\.[a-z_.]*[a-z_]|error\.type)`", out))
    told |= {f"gen_ai.request.{name}" for name in re.findall(r"`([a-z_]+)`", parameters[1])}
    assert told - {"gen_ai.client.inference.operation.details"} == said
