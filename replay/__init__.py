"""Replays, compares, judges and distills what ``tracekit`` recorded."""
