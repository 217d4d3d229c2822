"""Reads the exports of two made-up recordings (folder in argv[1], made by tests/cli/readback.rs) with the tools that
researchers use, and compares them with the trace's own lines."""

import glob
import json
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq

folder = sys.argv[1]


def lines(run):
    """The records of a trace, as they were written."""
    for name in sorted(glob.glob(f"{folder}/{run}/trace/trace-v1-*.jsonl")):
        with open(name, encoding="utf-8") as file:
            yield from map(json.loads, file)


truth = [record for run in "ab" for record in lines(run)]
expected = {
    "frames": [record for record in truth if record["kind"] == "frame"],
    "updates": [record for record in truth if record["kind"] == "update"],
    "events": [record for record in truth if record["kind"] not in ("frame", "update")],
}

# Counts and values, in each format and with each tool.
for what in ("frames", "segments", "updates", "events"):
    table = pd.read_parquet(f"{folder}/{what}.parquet")
    csv = pd.read_csv(f"{folder}/{what}.csv", parse_dates=["wall"])
    jsonl = pd.read_json(f"{folder}/{what}.jsonl", lines=True)
    counts = {len(table), len(csv), len(jsonl)}
    for reader in (f"'{folder}/{what}.parquet'", f"read_csv('{folder}/{what}.csv')", f"'{folder}/{what}.jsonl'"):
        counts.add(duckdb.sql(f"SELECT count(*) FROM {reader}").fetchall()[0][0])
    counts.add(pl.scan_parquet(f"{folder}/{what}.parquet").select(pl.len()).collect().item())
    if what in expected:
        counts.add(len(expected[what]))
    assert len(counts) == 1, (what, counts)
    assert list(table.columns) == list(csv.columns) == list(jsonl.columns), what
    for column in table.select_dtypes("number").columns:
        for other in (csv, jsonl):
            difference = (table[column].astype("float64") - other[column].astype("float64")).abs()
            assert not (difference > 1e-6 * table[column].abs() + 1e-9).any(), (what, column)
            assert (table[column].isna() == other[column].isna()).all(), (what, column)
    assert (table["wall"] == csv["wall"]).all(), what
    assert set(table["device"]) == {"anna", "ben"} and table["run"].nunique() == 1

# Types, as docs/TRACE.md has them.
schema = pq.read_schema(f"{folder}/frames.parquet")
types = {name: str(schema.field(name).type) for name in schema.names}
assert types["category"] == "int64" and types["seconds"] == "double" and types["u_hat"] == "float", types
assert types["wall"] == "timestamp[us, tz=UTC]" and types["created"] == "bool" and types["device"] == "string", types

# Frames, value by value.
frames = pd.read_parquet(f"{folder}/frames.parquet")
for row, record in zip(frames.itertuples(), expected["frames"], strict=True):
    assert (row.frame, row.category, row.created) == (record["frame"], record["category"], record["created"])
    assert row.mono_ns == record["captured_ns"]
    assert abs(row.u_hat - record["u_hat"]) < 1e-6
    assert json.loads(row.runners_up) == record["runners_up"]
    # The picture was taken a tenth of a second before its record was made.
    assert abs((pd.Timestamp(record["wall"]) - row.wall).total_seconds() - 0.1) < 1e-5

# The time of a segment is the time of its frames.
question = f"""
SELECT count(*) FROM '{folder}/frames.parquet' f JOIN '{folder}/segments.parquet' s
ON f.device = s.device AND f.category = s.category AND f.seconds >= s.seconds AND f.seconds < s.end_seconds"""
assert duckdb.sql(question).fetchall()[0][0] == len(frames)

print("ok")
