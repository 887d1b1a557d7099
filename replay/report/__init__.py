"""A comparison as something to hand round: a page, a comment on a pull request, a schema.

``page`` writes the HTML file, ``comment`` the Markdown, ``schema`` describes the JSON, ``suite``
writes JUnit XML. All of them read the same value, ``replay.diff.Comparison``. ``many`` writes
Markdown and JUnit XML of many comparisons.
"""

from __future__ import annotations

from replay.report.comment import comment
from replay.report.many import comment_on_many, suite_of_many
from replay.report.page import page
from replay.report.schema import json_schema
from replay.report.suite import suite

__all__ = ["comment", "comment_on_many", "json_schema", "page", "suite", "suite_of_many"]
