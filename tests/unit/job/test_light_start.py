"""A job's process starts light: what only one stage needs is loaded by that stage, not before every test."""

import json
import subprocess
import sys

HEAVY = ("torch", "transformers", "scipy.stats", "sqlalchemy", "optuna", "networkx")
"""Each takes longer to load than everything that a job needs before its first record."""

START = """
import json, sys
import experiments.job.assembly, experiments.job.process
from experiments.job.named import load_engine, load_judge
load_engine("reference"), load_judge("launch-interval")
print(json.dumps(sorted(sys.modules)))
"""


def test_a_job_loads_nothing_heavy_before_its_first_record() -> None:
    started = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    assert set(HEAVY) & set(json.loads(started.stdout)) == set()
