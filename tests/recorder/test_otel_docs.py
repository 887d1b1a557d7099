"""Every Python block of the page on OpenTelemetry runs as it stands, with a receiver there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.recorder.otlp_kit import ROOT, http_receiver, run_program

PAGE = (ROOT / "docs" / "opentelemetry.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1][:40])
def test_a_block_of_the_page_runs(block: str, tmp_path: Path) -> None:
    with http_receiver() as received:
        run_program(tmp_path, block.replace("http://localhost:4318", received.endpoint))
        if "balance(" in block:
            assert list(received.spans()) == ["execute_tool balance"]
