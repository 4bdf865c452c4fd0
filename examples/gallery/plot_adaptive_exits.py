"""
Adaptive exits: easy samples leave early
========================================

The exported network can be cut into segments. A sample leaves at the first exit that is confident enough; the
rest of the batch goes on. The threshold is chosen on validation data so that accuracy is kept. Fewer FLOPs are
not always less time, so the export measures both.
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
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


# %%
# One input and all five exits. The exits are fixed: a network that learns which exits to use would drop the
# early ones here, and with them the chance to leave early.

run(
    "train --data digits --backbone vgg --inputs 1 --exits 5 --epochs 15 --out run"
    " --set train.lr=3e-3 --set method.learn_exits=false"
)

# %%
# Quality and cost for thresholds from strict to loose, and where the images leave.

run("adaptive run --out curve")
with (folder / "curve" / "adaptive.csv").open(encoding="utf-8") as file:
    rows = [row for row in csv.DictReader(file) if row["kind"] == "adaptive"]
rows.sort(key=lambda row: float(row["mean_flops"]))
flops = [float(row["mean_flops"]) for row in rows]
exits = [name for name in rows[0] if name.startswith("left_at_")]

figure, (curve, shares) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
curve.plot(flops, [float(row["accuracy"]) for row in rows], marker="o", markersize=4)
curve.set(xlabel="mean FLOPs, as a share of the whole network's", ylabel="accuracy on 360 test images")
shares.stackplot(
    flops,
    [[float(row[name]) for row in rows] for name in exits],
    labels=[f"exit {name.removeprefix('left_at_')}" for name in exits],
    colors=plt.get_cmap("viridis_r")([0.1, 0.3, 0.5, 0.7, 0.9]),
)
shares.set(xlabel="mean FLOPs, as a share of the whole network's", ylabel="share of images that leave", ylim=(0, 1))
shares.legend(loc="center left", bbox_to_anchor=(1, 0.5))
figure.suptitle("Digits: what leaving early saves")
plt.show()

# %%
# Ship it with segments. The last line of the export says whether that is really faster: a network as small as
# this one spends more time between its segments than in them.

print(run("export run --adaptive --out shipped/model.onnx"))
