"""
Adaptive exits: easy samples leave early
========================================

The exported network can be cut into segments. A sample leaves at the first exit that is confident enough; the
rest of the batch goes on. The threshold is chosen on validation data so that accuracy is kept.
"""

import csv
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

folder = Path(tempfile.mkdtemp())


def run(command: str) -> str:
    """Run a command of sae in the folder, and return what it prints."""
    print("$ sae", command)
    words = [sys.executable, "-m", "sae", *shlex.split(command)]
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout


# %%
# One input and all five exits, a bit wider than needed, so that there is something to save.

run("train --data digits --backbone fc --width 2 --inputs 1 --exits 5 --epochs 15 --out run")

# %%
# The trade-off between the share of FLOPs and accuracy, for thresholds from strict to loose.

run("adaptive run --out curve")
with (folder / "curve" / "adaptive.csv").open(encoding="utf-8") as file:
    rows = [row for row in csv.DictReader(file) if row["threshold"]]
rows.sort(key=lambda row: float(row["mean_flops"]))
plt.plot([float(row["mean_flops"]) for row in rows], [float(row["accuracy"]) for row in rows], marker="o", markersize=3)
plt.xlabel("mean FLOPs, as a share of the whole network's")
plt.ylabel("accuracy on test images")
plt.title("Digits: what leaving early saves")
plt.show()

# %%
# Ship it with segments: the export measures whether that is really faster, and says so.

print(run("export run --adaptive --out shipped/model.onnx"))
