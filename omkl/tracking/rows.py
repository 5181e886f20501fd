"""A run as rows of MLflow's tables, written without MLflow, whose import takes 2 s.

What MLflow writes is known for one schema of its database, that of the version which
``requirements.lock`` names; ``tests/tracking`` compares row by row. Every other schema, and what
is more than one new run, is left to MLflow (``database.write_record``).
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import uuid
from pathlib import Path

from omkl.tracking.database import (
    artifacts,
    copy_files,
    database_file,
    experiment_tags,
    remove_artifacts,
)
from omkl.tracking.records import Record, curve_name

SCHEMA = "dc11669786a5"


def writable(database: Path) -> bool:
    """Whether the database has the schema that is known here."""
    with contextlib.closing(sqlite3.connect(database, timeout=20.0)) as connection:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    return found == [(SCHEMA,)]


def write_rows(record: Record, outputs: Path) -> str | None:
    """Write one run, unless the same content is there; the run's id. The caller holds the lock.

    Returns None, with nothing written, where MLflow has to do it: another schema, an experiment
    that was deleted or lies elsewhere, a run to be replaced.
    """
    database = database_file(outputs)
    if not writable(database):
        return None
    connection = sqlite3.connect(database, timeout=20.0, isolation_level=None)
    with contextlib.closing(connection):
        connection.execute("BEGIN IMMEDIATE")
        location = artifacts(outputs, record.experiment).as_uri()
        experiment = _experiment(connection, record, location)
        if experiment is None:
            return None
        if earlier := _runs_of(connection, experiment, record):
            return earlier[0][0] if {digest for _, digest in earlier} == {record.digest} else None
        run_id = uuid.uuid4().hex
        folder = artifacts(outputs, record.experiment) / run_id / "artifacts"
        try:
            _insert(connection, record, experiment, run_id, f"{location}/{run_id}/artifacts")
            copy_files(record.folder, folder)
            connection.execute("COMMIT")
        except BaseException:
            remove_artifacts(outputs, run_id)
            raise
    return run_id


def _experiment(connection: sqlite3.Connection, record: Record, location: str) -> int | None:
    """The id of the run's experiment, created when absent; None where it cannot be written to."""
    found = connection.execute(
        "SELECT experiment_id, artifact_location, lifecycle_stage FROM experiments "
        "WHERE name = ? AND workspace = 'default'",
        (record.experiment,),
    ).fetchone()
    if found is not None:
        experiment, *state = found
        return experiment if state == [location, "active"] else None
    now = time.time_ns() // 10**6
    cursor = connection.execute(
        "INSERT INTO experiments (name, artifact_location, lifecycle_stage, creation_time, "
        "last_update_time, workspace) VALUES (?, ?, 'active', ?, ?, 'default')",
        (record.experiment, location, now, now),
    )
    experiment = cursor.lastrowid
    connection.executemany(
        "INSERT INTO experiment_tags (key, value, experiment_id) VALUES (?, ?, ?)",
        [(name, value, experiment) for name, value in experiment_tags(record).items()],
    )
    return experiment


def _runs_of(
    connection: sqlite3.Connection, experiment: int, record: Record
) -> list[tuple[str, str | None]]:
    """Ids of the runs that were written of this folder, and the digests of their results."""
    return connection.execute(
        "SELECT runs.run_uuid, digest.value FROM runs "
        "JOIN tags AS key USING (run_uuid) JOIN tags AS folder USING (run_uuid) "
        "LEFT JOIN tags AS digest ON digest.run_uuid = runs.run_uuid "
        "AND digest.key = 'result_sha256' "
        "WHERE experiment_id = ? AND lifecycle_stage = 'active' "
        "AND key.key = 'key' AND key.value = ? AND folder.key = 'folder' AND folder.value = ?",
        (experiment, record.key, record.tags["folder"]),
    ).fetchall()


def _insert(
    connection: sqlite3.Connection, record: Record, experiment: int, run_id: str, location: str
) -> None:
    connection.execute(
        "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, "
        "status, start_time, end_time, source_version, lifecycle_stage, artifact_uri, "
        "experiment_id) VALUES (?, ?, 'UNKNOWN', '', '', 'unknown', ?, ?, ?, '', 'active', ?, ?)",
        (run_id, record.name, record.status, record.start, record.end, location, experiment),
    )
    tags = {**record.tags, "mlflow.runName": record.name, "result_sha256": record.digest}
    for table, values in ("tags", tags), ("params", record.params):
        connection.executemany(
            f"INSERT INTO {table} (key, value, run_uuid) VALUES (?, ?, ?)",
            [(name, value, run_id) for name, value in values.items()],
        )
    points = [(name, value, 0) for name, value in record.metrics.items()]
    points += [(curve_name(record), value, step) for step, value in record.curve]
    columns = "(key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, 0, ?)"
    rows = [(name, value, record.end, step, run_id) for name, value, step in points]
    connection.executemany(f"INSERT INTO metrics {columns}", rows)
    latest = {row[0]: row for row in rows}  # the last step of each
    connection.executemany(f"INSERT INTO latest_metrics {columns}", list(latest.values()))
