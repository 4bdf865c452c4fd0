"""
Shift, abstention and conformal sets
====================================

What to do with a probability: answer only where it is high, give sets instead of single answers, and know how
both behave when the images get worse.
"""

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

folder = Path(tempfile.mkdtemp())


def run(command: str) -> str:
    """Run a command of sae in the folder, and return what it prints."""
    print("$ sae", command)
    words = [sys.executable, "-m", "sae", *shlex.split(command)]
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout


run("train --data digits --backbone fc --inputs 2 --exits 3 --epochs 15 --keep-predictions --out run")

# %%
# **Abstain.** Sort the test images by the probability of their predicted class, and answer only the surest
# share.

with np.load(folder / "run" / "predictions.npz") as kept:
    names = kept.files
    log_probs = kept[next(name for name in names if name.startswith("test") and name.endswith("3"))]
    targets = kept[next(name for name in names if name.startswith("test") and "target" in name)]
wrong = log_probs.argmax(axis=1) != targets
order = np.argsort(-log_probs.max(axis=1))
risk = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
plt.plot(np.arange(1, len(order) + 1) / len(order), risk)
plt.xlabel("share of images that are answered, the surest first")
plt.ylabel("share of these that are wrong")
plt.title("Risk and coverage")
plt.show()

# %%
# **Shift.** The same test images under 95 corruptions: accuracy falls, and calibration with it.

found = json.loads(run("evaluate run --shift --json"))
clean, shifted = found["metrics"], found["shift"]["metrics"]
for key in ("accuracy", "nll", "ece"):
    print(f"{key:10s} clean {clean[key]:.3f}   corrupted {shifted[key]:.3f}")

# %%
# **Sets.** Coverage 0.9 was promised for images like the validation images; the manifest says what was
# measured.

run("export run --out shipped/model.onnx")
manifest = json.loads((folder / "shipped" / "manifest.json").read_text())
print(json.dumps(manifest["conformal"], indent=1)[:600])
