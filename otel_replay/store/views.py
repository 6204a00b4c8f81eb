"""The SQL that people ask: macros and views over the rows of a store.

No view has a window function: copies are parted when files are written. Every look into JSON is a try-form, so that
one text which is no JSON is a null and never the end of a query. Times are integers of nanoseconds; the `..._time`
columns show them as TIMESTAMP_NS in UTC, the same under every TimeZone setting.
"""

from __future__ import annotations

from typing import Final

from otel_replay.store.doubles import INNER_MODEL, MODEL_CALL, OUTER_TOOL

MACROS: Final = (
    # attr(attributes, 'gen_ai.request.model'): the attribute's value as text; keys with dots need no quoting.
    """CREATE OR REPLACE MACRO attr(a, k) AS
       TRY(json_extract_string(a, '$."' || replace(nullif(k, ''), '"', '\\"') || '"'))""",
    # long_attr: the same, also where the text was too long for `attributes` and moved to a column of its own.
    """CREATE OR REPLACE MACRO long_attr(a, content, request, response, k) AS
       CASE attr(a, k)
         WHEN '{"$text":"content"}' THEN attr(content, k)
         WHEN '{"$text":"request"}' THEN request WHEN '{"$json":"request"}' THEN request
         WHEN '{"$text":"response"}' THEN response WHEN '{"$json":"response"}' THEN response
         ELSE attr(a, k) END""",
    "CREATE OR REPLACE MACRO ns_time(ns) AS TRY(make_timestamp_ns(ns))",
    "CREATE OR REPLACE MACRO ns_ms(start_ns, end_ns) AS (end_ns::HUGEINT - start_ns::HUGEINT)::DOUBLE / 1e6",
    # answers(response): the messages of a vendor's response as it was recorded: its JSON, or the SDK's object (tagged).
    """CREATE OR REPLACE MACRO answers(r) AS coalesce(
         nullif(TRY(json_extract(r, '$.choices[*].message')), []),
         nullif(TRY(json_extract(r, '$.v.choices[*].v.message.v')), []),
         CASE WHEN TRY(json_extract_string(r, '$.type')) = 'message' THEN [TRY_CAST(r AS JSON)] END,
         CASE WHEN TRY(json_extract_string(r, '$.v.type')) = 'message' THEN [TRY(json_extract(r, '$.v'))] END)""",
    # message_text: of the vendors' form (text, or a list of parts with `text`) and of the conventions' (`parts`).
    """CREATE OR REPLACE MACRO joined(texts) AS array_to_string(list_filter(texts, lambda x: x IS NOT NULL), '')""",
    """CREATE OR REPLACE MACRO message_text(m) AS CASE TRY(json_type(m, '$.content'))
         WHEN 'VARCHAR' THEN TRY(json_extract_string(m, '$.content'))
         WHEN 'ARRAY' THEN joined(list_concat(TRY(json_extract_string(m, '$.content[*].text')),
           TRY(json_extract_string(m, '$.content[*].v.text'))))
         ELSE joined(list_concat(TRY(json_extract_string(m, '$.parts[*].content')),
           TRY(json_extract_string(m, '$.parts[*].text')))) END""",
)

SPANS: Final = """
CREATE OR REPLACE VIEW spans AS
SELECT trace_id, span_id, parent_span_id, name,
  CASE span_kind WHEN 0 THEN 'unspecified' WHEN 1 THEN 'internal' WHEN 2 THEN 'server' WHEN 3 THEN 'client'
    WHEN 4 THEN 'producer' WHEN 5 THEN 'consumer' ELSE span_kind::VARCHAR END AS span_kind,
  ns_time(start_ns) AS start_time, ns_time(end_ns) AS end_time, ns_ms(start_ns, end_ns) AS duration_ms,
  start_ns, end_ns,
  CASE status_code WHEN 0 THEN 'unset' WHEN 1 THEN 'ok' WHEN 2 THEN 'error' ELSE status_code::VARCHAR END AS status,
  status_message, service, scope, run_id, run_name, lane, address, parent, boundary, kind, mode, outcome,
  strand, seq, end_seq, key, side_effects, integrity, grade, operation, provider, model, response_model, tool,
  input_tokens, output_tokens, error_type, source, trace_state, flags, dropped_attributes, resource, links, events,
  attributes, content, request, response
FROM stored WHERE difference IS NULL AND kind IS DISTINCT FROM 'part'
"""

CROSSINGS: Final = """
CREATE OR REPLACE VIEW crossings AS
SELECT run_id, run_name, lane, address, boundary, kind, mode, outcome, strand, seq, end_seq, parent,
  ns_time(start_ns) AS start_time, ns_ms(start_ns, end_ns) AS duration_ms,
  request, response AS result, error_type, model, input_tokens, output_tokens, key, integrity, grade, side_effects,
  tool, operation, trace_id, span_id, parent_span_id, start_ns, end_ns, attributes
FROM stored WHERE difference IS NULL AND run_id IS NOT NULL AND coalesce(kind, '') NOT IN ('run', 'part')
"""

# runs_since(ns): the runs that began at that time or later, cheaper than all of them. Of a run that began before and
# has rows after, the run's own row stands before: it is left out rather than shown in part. Only runs with a lane
# whose own row is not among the rows read are looked for among the older ones.
_RUNS_SINCE: Final = """
CREATE OR REPLACE MACRO {name}(since) AS TABLE
WITH lanes AS (
  SELECT run_id, lane,
    any_value(run_name) AS name, min(start_ns) AS start_ns, max(end_ns) AS last_ns,
    max(CASE WHEN kind = 'run' THEN end_ns END) AS end_ns,
    any_value(outcome) FILTER (kind = 'run') AS outcome, any_value(verdict) AS verdict,
    coalesce(any_value(mode) FILTER (kind = 'run'), any_value(mode)) AS mode,
    any_value(replay_of) AS replay_of, any_value(digest) AS digest, any_value(trace_id) AS trace_id,
    count(*) FILTER (coalesce(kind, '') NOT IN ('run', 'part')) AS crossings,
    coalesce(max(crossings), 0) AS counted,
    count(*) FILTER ((coalesce(kind, '') NOT IN ('run', 'part') AND integrity <> 'intact')
      OR (grade = 'insufficient' AND kind IS DISTINCT FROM 'custom')) AS damaged,
    count(*) FILTER (coalesce(kind, '') NOT IN ('run', 'part') AND outcome = 'lost' AND end_seq = 0) AS unfinished,
    bool_or(kind = 'run') AS begun, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
  FROM {rows} WHERE difference IS NULL AND run_id IS NOT NULL AND start_ns >= since GROUP BY run_id, lane
), summed AS MATERIALIZED (
  SELECT run_id,
    coalesce(any_value(name) FILTER (lane = ''), any_value(name)) AS name,
    min(start_ns) AS start_ns, coalesce(max(end_ns) FILTER (lane = '' AND outcome <> 'lost'), max(last_ns)) AS end_ns,
    count(*) AS lanes, sum(crossings)::BIGINT AS crossings, sum(counted)::BIGINT AS counted,
    sum(damaged)::BIGINT AS damaged, sum(unfinished)::BIGINT AS unfinished,
    coalesce(bool_and(coalesce(begun, false)) AND bool_or(lane = ''), false) AS begun,
    bool_and(coalesce(outcome, 'lost') <> 'lost') AS closed, bool_or(crossings < counted) AS gaps,
    any_value(outcome) FILTER (lane = '') AS outcome, any_value(verdict) FILTER (lane = '') AS verdict,
    coalesce(any_value(mode) FILTER (lane = ''), any_value(mode)) AS mode,
    any_value(replay_of) AS replay_of, any_value(digest) FILTER (lane = '') AS digest, any_value(trace_id) AS trace_id,
    sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens
  FROM lanes GROUP BY run_id
)
SELECT run_id, name, ns_time(start_ns) AS start_time, ns_ms(start_ns, end_ns) AS duration_ms, crossings,
  closed AND NOT gaps AND damaged = 0 AND unfinished = 0 AS complete,
  CASE WHEN run_id IN (SELECT run_id FROM live_runs) THEN 'running'
    WHEN NOT closed THEN 'interrupted'
    WHEN gaps OR damaged > 0 OR unfinished > 0 THEN 'incomplete' ELSE 'complete' END AS state,
  coalesce(noted.verdict, nullif(summed.verdict, 'unknown'), CASE outcome WHEN 'raised' THEN 'failed' END, 'unknown')
    AS verdict,
  coalesce(noted.pinned, false) AS pinned,
  coalesce(mode, 'record') AS mode, replay_of, lanes, counted, damaged, unfinished,
  input_tokens, output_tokens, digest, trace_id, start_ns, end_ns{more}
FROM summed LEFT JOIN noted USING (run_id){where}
"""
_NOT_OLDER: Final = """
WHERE run_id NOT IN (
  SELECT run_id FROM stored SEMI JOIN (SELECT run_id FROM summed WHERE NOT begun) USING (run_id)
  WHERE start_ns < since AND difference IS NULL)"""


def _since(name: str, rows: str, *, more: str = "", where: str = "") -> str:
    text = _RUNS_SINCE
    for mark, part in (("{name}", name), ("{rows}", rows), ("{more}", more), ("{where}", where)):
        text = text.replace(mark, part)
    return text


RUNS_SINCE: Final = _since("runs_since", "stored", where=_NOT_OLDER)
NEAR_RUNS: Final = _since("near_runs", "near", more=", begun")
"""The same of the view `near`, which holds all rows from that time on (newest.py). Who did not begin there stays."""
RUNS: Final = "CREATE OR REPLACE VIEW runs AS SELECT * FROM runs_since(-9223372036854775808)"

_MODEL_CALLS: Final = """
CREATE OR REPLACE VIEW model_calls AS
SELECT run_id, run_name, address, seq, coalesce(operation, 'chat') AS operation, provider, model, response_model,
  input_tokens, output_tokens, ns_time(start_ns) AS start_time, ns_ms(start_ns, end_ns) AS duration_ms,
  outcome, error_type,
  CASE WHEN run_id IS NULL THEN coalesce(request, long_attr(attributes, content, request, response,
      'gen_ai.input.messages'))
    ELSE coalesce(long_attr(attributes, content, request, response, 'gen_ai.input.messages'),
      TRY(json_extract(request, '$.messages'))::VARCHAR, TRY(json_extract(request, '$.v.messages'))::VARCHAR) END
    AS messages,
  CASE WHEN run_id IS NULL THEN coalesce(response, long_attr(attributes, content, request, response,
      'gen_ai.output.messages'))
    ELSE coalesce(long_attr(attributes, content, request, response, 'gen_ai.output.messages'),
      to_json(answers(response))::VARCHAR) END AS output_messages,
  request, response, service, trace_id, span_id, start_ns, end_ns, attributes
FROM stored
WHERE difference IS NULL AND (kind = 'model' OR (kind IS NULL AND {model_call}{once}))
"""

_TOOL_CALLS: Final = """
CREATE OR REPLACE VIEW tool_calls AS
SELECT run_id, run_name, address, seq, coalesce(tool, boundary, name) AS tool,
  coalesce(long_attr(attributes, content, request, response, 'gen_ai.tool.call.arguments'), request) AS arguments,
  coalesce(long_attr(attributes, content, request, response, 'gen_ai.tool.call.result'), response) AS result,
  ns_time(start_ns) AS start_time, ns_ms(start_ns, end_ns) AS duration_ms, outcome, error_type, side_effects,
  request, response, service, trace_id, span_id, start_ns, end_ns, attributes
FROM stored
WHERE difference IS NULL
  AND (kind = 'tool' OR (kind IS NULL AND (operation = 'execute_tool' OR tool IS NOT NULL){once}))
"""

MESSAGES: Final = """
CREATE OR REPLACE VIEW messages AS
WITH texts AS (
  SELECT run_id, address, seq, model, trace_id, span_id, start_time, start_ns, 'input' AS direction,
    TRY(json_extract(messages, '$[*]')) AS listed FROM model_calls
  UNION ALL
  SELECT run_id, address, seq, model, trace_id, span_id, start_time, start_ns, 'output',
    TRY(json_extract(output_messages, '$[*]')) FROM model_calls
), single AS (
  SELECT * EXCLUDE (listed), unnest(listed) AS message, generate_subscripts(listed, 1) AS position
  FROM texts WHERE len(listed) > 0
)
SELECT run_id, address, seq, direction, position, TRY(json_extract_string(message, '$.role')) AS role,
  message_text(message) AS content, message::VARCHAR AS message, model, trace_id, span_id, start_time, start_ns
FROM single
"""

DUPLICATES: Final = """
CREATE OR REPLACE VIEW duplicates AS
SELECT trace_id, span_id, name, run_id, lane, address, seq, difference, source, integrity, outcome,
  ns_time(start_ns) AS start_time, ns_time(end_ns) AS end_time, start_ns, end_ns, attributes, request, response
FROM stored WHERE difference IS NOT NULL
"""

FORKS: Final = """
CREATE TABLE IF NOT EXISTS forks (
  fork_id VARCHAR, run_id VARCHAR, address VARCHAR, change VARCHAR, prediction VARCHAR, signature VARCHAR,
  verdict VARCHAR, created_time TIMESTAMP_NS)
"""


def calls_once(settled: bool) -> tuple[str, str]:
    """Return the views of model and tool calls. Where files are not settled, each question looks for the doubles."""
    inner, outer = (f"\n  AND NOT {found.format('stored', 'stored')}" for found in (INNER_MODEL, OUTER_TOOL))
    return (
        _MODEL_CALLS.replace("{model_call}", MODEL_CALL.format("stored")).replace("{once}", "" if settled else inner),
        _TOOL_CALLS.replace("{once}", "" if settled else outer),
    )


VIEWS: Final = (SPANS, CROSSINGS, RUNS_SINCE, NEAR_RUNS, RUNS, *calls_once(True), MESSAGES, DUPLICATES)
