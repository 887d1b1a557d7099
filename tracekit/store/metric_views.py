"""The views ``run_metrics`` and ``metrics``: what SQL can count of runs, to build one's own on.

They say what ``replay.metrics`` says under the same names; a test holds the two together. What
needs the values behind the rows (steps, loops, what was expected) is not here.
"""

from __future__ import annotations

from tracekit.quantities import MOST

_FAILED = "(status = 'error' OR coalesce(observation_is_error, false))"
_LABEL = "roots.attributes ->> '$.labels.{}'"
_KIND = "json_type(roots.attributes, '$.labels.{}')"


def _yes_or_no(label: str) -> str:
    return f"WHEN {_KIND.format(label)} = 'BOOLEAN' THEN ({_LABEL.format(label)})::BOOLEAN"


def _written(place: str, *, of: str = "roots.attributes") -> str:
    """Any number as a DOUBLE; one that is too large for it is infinite."""
    return (
        f"CASE WHEN json_type({of}, '{place}') IN ('BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE')"
        f" THEN coalesce(try_cast({of} ->> '{place}' AS DOUBLE), 'inf'::DOUBLE) END"
    )


def _number(place: str) -> str:
    return f"CASE WHEN isfinite({_written(place)}) THEN {_written(place)} END"


def _amount(value: str) -> str:
    """What a run can have used; what cannot be is not known."""
    return f"CASE WHEN ({value}) BETWEEN 0 AND {MOST!r} THEN {value} END"


def _total(value: str) -> str:
    """The sum over model calls; where one is not known, or cannot be, the sum stands for that."""
    return (
        f"CASE WHEN count(*) = count({value}) THEN CASE WHEN"
        f" bool_and(coalesce(({value}) BETWEEN 0 AND {MOST!r}, false)) THEN sum({value})"
        " ELSE -1 END END"
    )


def _named(label: str) -> str:
    return f"coalesce({_LABEL.format(label)}, '') NOT IN ('', 'none')"


_TOKENS = "coalesce(usage_input, 0)::HUGEINT + coalesce(usage_output, 0)"
_COST = (
    f"coalesce(runs.cost_usd, {_written('$.labels.cost_usd')}, {_written('$.labels.cost')},"
    " asked.cost)"
)
"""The first that the record says; where that cannot be, nothing else stands for it."""

RUN_METRICS_VIEW = f"""
    CREATE VIEW run_metrics AS
    WITH roots AS (
        SELECT run_id, min_by(attributes::JSON, seq) AS attributes,
            min_by({_FAILED}, seq) AS failed, min_by(argument_state, seq) = 'absent' AS by_hand
        FROM events WHERE event_type = 'run' GROUP BY run_id
    ), agents AS (
        SELECT run_id, min_by({_FAILED}, seq) AS failed
        FROM events WHERE event_type = 'agent' GROUP BY run_id
    ), called AS (
        SELECT run_id, count(*) AS calls,
            count(*) FILTER ({_FAILED})
                AS failed_calls
        FROM events WHERE event_type IN ('tool_call', 'retrieval') GROUP BY run_id
    ), asked AS (
        SELECT run_id, count(*) AS model_calls,
            CASE WHEN count(*) = count(coalesce(usage_input, usage_output))
                AND coalesce(least(min(usage_input), min(usage_output)), 0) >= 0
                THEN sum({_TOKENS}) END AS tokens,
            {_total(_written("$.cost", of="usage_raw::JSON"))} AS cost
        FROM events WHERE event_type = 'llm_call' GROUP BY run_id
    )
    SELECT run_id, runs.task_id, runs.agent, runs.source_format AS source, runs.status, runs.tags,
        runs.versions, runs.planner, runs.replay_of, runs.parent_run_id,
        roots.attributes -> '$.labels' AS labels,
        CASE {_yes_or_no("success")} {_yes_or_no("utility")}
            ELSE {_number("$.labels.reward")} >= 1 END AS task_success,
        CASE WHEN {_named("injection_task_id")} OR {_named("attack_type")}
            THEN CASE {_yes_or_no("security")} END END AS unsafe_action,
        CASE WHEN runs.status <> 'open' THEN runs.status = 'error' OR coalesce(roots.failed, false)
            OR (coalesce(roots.by_hand, true) AND coalesce(agents.failed, false)) END AS run_error,
        coalesce(called.calls, 0) AS calls,
        coalesce(called.failed_calls, 0) AS failed_calls,
        coalesce(asked.model_calls, 0) AS model_calls,
        ({_amount("asked.tokens")})::BIGINT AS tokens,
        {_amount(_COST)} AS cost_usd,
        {_amount("(runs.ts_end_ns - runs.ts_start_ns) / 1e6")} AS latency_ms
    FROM runs LEFT JOIN roots USING (run_id) LEFT JOIN agents USING (run_id)
        LEFT JOIN called USING (run_id) LEFT JOIN asked USING (run_id)
"""

_SUMS = {
    "task_success": ("count(*) FILTER (task_success)", "count(task_success)"),
    "unsafe_action_rate": ("count(*) FILTER (unsafe_action)", "count(unsafe_action)"),
    "error_rate": ("sum(failed_calls)", "sum(calls)"),
    "run_error_rate": ("count(*) FILTER (run_error)", "count(run_error)"),
    "calls": ("sum(calls)", "count(*)"),
    "tokens": ("sum(tokens)", "count(tokens)"),
    "cost": ("sum(cost_usd)", "count(cost_usd)"),
    "cost_per_success": (
        "sum(cost_usd) FILTER (task_success IS NOT NULL)",
        "count(*) FILTER (task_success AND cost_usd IS NOT NULL)",
    ),
}
_QUANTILES = {"latency_p50": 0.5, "latency_p95": 0.95}


def _rows() -> str:
    ratios = [
        f"SELECT '{name}' AS metric, ({top})::DOUBLE AS numerator,"
        f" ({below})::DOUBLE AS denominator,"
        " numerator / nullif(denominator, 0) AS value FROM chosen"
        for name, (top, below) in _SUMS.items()
    ]
    quantiles = [
        f"SELECT '{name}', NULL, count(latency_ms), quantile_cont(latency_ms, {q}) FROM chosen"
        for name, q in _QUANTILES.items()
    ]
    return " UNION ALL ".join([*ratios, *quantiles])


METRICS_VIEW = f"""
    CREATE VIEW metrics AS
    WITH chosen AS MATERIALIZED (
        SELECT * FROM run_metrics WHERE replay_of IS NULL AND parent_run_id IS NULL
    )
    {_rows()}
"""
