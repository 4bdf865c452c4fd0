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


# %%
# Only 200 training images, so that there is something to doubt.

run(
    "train --data digits --backbone fc --inputs 2 --exits 3 --epochs 30 --set data.train_size=200"
    " --keep-predictions --out run"
)

# %%
# **Abstain.** Sort the test images by the probability of their predicted class, and answer only the surest
# share.

with np.load(folder / "run" / "predictions.npz") as kept:
    log_probs, targets = kept["test/3"], kept["test/targets"]  # at 3 exits
wrong = log_probs.argmax(axis=1) != targets
order = np.argsort(-log_probs.max(axis=1))
risk = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
figure, panel = plt.subplots(figsize=(6, 3.8), layout="constrained")
panel.plot(np.arange(1, len(order) + 1) / len(order), risk)
panel.set(xlabel="share of images that are answered, the surest first", ylabel="share of these that are wrong")
panel.set_title("Digits: answer fewer images, and err less")
plt.show()

# %%
# **Shift.** The same test images under 95 corruptions: accuracy falls, and the calibration error (ECE) changes, too.

found = json.loads(run("evaluate run --shift --json"))
clean, shifted = found["metrics"], found["shift"]["metrics"]
for key in ("accuracy", "nll", "ece"):
    print(f"{key:10s} clean {clean[key]:.3f}   corrupted {shifted[key]:.3f}")

# %%
# **Sets.** Which classes belong to the set of an image, so that at least 95 % of the sets hold the truth? The
# threshold comes from validation images; on images like these it keeps its promise. The most probable class always
# belongs to the set, so no set is empty.

with np.load(folder / "run" / "predictions.npz") as kept:
    probs, labels = np.exp(kept["val/3"]), kept["val/targets"]
scores = np.sort(1 - probs[np.arange(len(labels)), labels])
threshold = scores[int(np.ceil(0.95 * (len(scores) + 1))) - 1]
sets = 1 - np.exp(log_probs) <= threshold
sets[np.arange(len(targets)), log_probs.argmax(axis=1)] = True
covered = sets[np.arange(len(targets)), targets].mean()
print(f"mean size of a set {sets.sum(axis=1).mean():.2f}; the truth is in {covered:.3f} of them")

# %%
# ``sae predict --coverage 0.95`` does the same with an exported model, and its manifest holds what was measured.
