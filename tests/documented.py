"""Runs the code of docs/TRACE.md as a reader would: argv[1] is the page, the current folder holds the recordings that it
speaks of (DATA, anna, ben), made by tests/cli/readback.rs; `oupn-edge` is on the PATH. R is run where it is installed."""

import ast
import json
import glob
import re
import shutil
import subprocess
import sys

import duckdb

page = open(sys.argv[1], encoding="utf-8").read()
# What is not marked with a language is not code, but a line of output or of usage.
blocks = re.findall(r"^```(python|sql|sh|r)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
assert {language for language, _ in blocks} == {"python", "sql", "sh", "r"}, "a kind of example is gone"


def run_python(code):
    """Runs a block; its value is that of its last expression, as in a notebook."""
    *body, last = ast.parse(code).body
    scope = {}
    if not isinstance(last, ast.Expr):
        exec(compile(code, "docs/TRACE.md", "exec"), scope)
        return None
    exec(compile(ast.Module(body, []), "docs/TRACE.md", "exec"), scope)
    return eval(compile(ast.Expression(last.value), "docs/TRACE.md", "eval"), scope)


# The shell makes the files that the others read.
for language, code in blocks:
    if language == "sh":
        subprocess.run(["sh", "-euc", code], check=True, stdout=subprocess.DEVNULL)

values = {"python": [], "sql": []}
for language, code in blocks:
    if language == "python":
        value = run_python(code)
        if value is not None:
            assert len(value) > 0, code
            values["python"].append(value)
    elif language == "sql":
        value = list(duckdb.sql(code).df().itertuples(index=False, name=None))
        assert value, code
        values["sql"].append(value)
    elif language == "r" and shutil.which("Rscript"):
        subprocess.run(["Rscript", "-e", code], check=True, stdout=subprocess.DEVNULL)

# pandas and DuckDB count the frames of the trace alike, and rightly: each once.
truth = {}
for name in sorted(glob.glob("DATA/trace/trace-v1-*.jsonl")):
    for record in map(json.loads, open(name, encoding="utf-8")):
        if record["kind"] == "frame":
            truth[record["frame"]] = record["category"]
counts = {category: list(truth.values()).count(category) for category in set(truth.values())}
by_pandas = {int(category): int(frames) for category, frames in values["python"][0].items()}
by_duckdb = {row[0]: row[1] for row in values["sql"][0]}
assert by_pandas == by_duckdb == counts, (by_pandas, by_duckdb, counts)

# The fleet's favourites: at most five for each device, the longest first.
fleet = values["sql"][1]
devices = [row[0] for row in fleet]
assert sorted(set(devices)) == ["anna", "ben"] and max(map(devices.count, devices)) <= 5, fleet
assert all(a[0] != b[0] or a[2] >= b[2] for a, b in zip(fleet, fleet[1:])), fleet

print("ok")
