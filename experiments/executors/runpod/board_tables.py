"""The tables of the board, the rights of the pods' user in them, and what is asked of them in SQL."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, MetaData, String, Table, Text, func

POD_USER = "autoinfer_pod"

TABLES = MetaData()
RUN = Table(
    "autoinfer_pod_run",
    TABLES,
    Column("key", String(120), primary_key=True),
    Column("asked", Text, nullable=False),
    Column("tried_at_s", Double),
    Column("owner", Text),
    Column("told_at_s", Double),
    Column("ended", Text),
    Column("ended_at_s", Double),
    Column("gone_at_s", Double),
)
POD = Table(
    "autoinfer_pod",
    TABLES,
    Column("key", String(120), primary_key=True),
    Column("pod", String(120), primary_key=True),
    Column("usd_per_hr", Double, nullable=False),
)
PIECE = Table(
    "autoinfer_pod_piece",
    TABLES,
    Column("key", String(120), primary_key=True),
    Column("name", String(40), primary_key=True),
    Column("at", BigInteger, primary_key=True),
    Column("data", Text, nullable=False),
)

RIGHTS = (
    "GRANT SELECT, UPDATE (owner, told_at_s, ended, ended_at_s) ON autoinfer_pod_run TO autoinfer_pod",
    "GRANT INSERT ON autoinfer_pod_piece TO autoinfer_pod",
)

NOW_S = func.extract("epoch", func.clock_timestamp())

PIECE_BYTES = 1024 * 1024
"""Most of a file that one piece takes; as text it may be three times as long."""

_LONGEST_BYTES = 3 * PIECE_BYTES

BEYOND = f"""
SELECT piece.key, piece.name, piece.at, piece.data
FROM unnest(%(keys)s::varchar[], %(names)s::varchar[], %(sizes)s::bigint[]) AS copy (key, name, size)
JOIN autoinfer_pod_piece AS piece ON piece.key = copy.key AND piece.name = copy.name
    AND piece.at >= copy.size - {_LONGEST_BYTES} AND piece.at + octet_length(piece.data) > copy.size
ORDER BY piece.at
"""
"""Pieces that reach beyond the copies of files, in the driver's words: it is asked at every look. The
condition on `at` alone keeps it to the end of an index."""

HAS_BEGUN = """EXISTS (
    SELECT 1 FROM autoinfer_pod_run
    WHERE owner IS NOT NULL AND owner <> :nobody AND asked::json ->> 'image' = :image
)"""
"""Whether a pod has begun with an image."""

MAY_TRY = f"""
SELECT {HAS_BEGUN} OR NOT EXISTS (
    SELECT 1 FROM autoinfer_pod_run
    WHERE key <> :key AND tried_at_s IS NOT NULL AND owner IS NULL AND ended IS NULL
        AND asked::json ->> 'image' = :image
)
"""
"""Whether a pod of an image may be made: one has begun before, or no other is being waited for."""

OVERDUE = """
SELECT key FROM autoinfer_pod_run, extract(epoch FROM clock_timestamp()) AS now_s
WHERE tried_at_s IS NOT NULL AND gone_at_s IS NULL AND CASE
    WHEN ended IS NOT NULL THEN ended_at_s < now_s - :end_s
    WHEN owner IS NULL THEN tried_at_s < now_s - :startup_s
    ELSE tried_at_s < now_s - :startup_s - (asked::json ->> 'limit_s')::float - :end_s
END
"""
"""Runs whose pods should be gone by now, whoever asked for them, and are not known to be."""
