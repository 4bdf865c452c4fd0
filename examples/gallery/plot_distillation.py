"""
Distillation: an ensemble teaches one network
=============================================

A deep ensemble of four is trained once. A standard network and an SAE then learn from its probabilities
as well as from the labels (``--teacher``). This shows how; one seed on digits proves nothing. The page
*Reproduction* has results on more data, with intervals.
"""

import json
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


networks = {
    "ensemble": "--method ensemble --members 4",
    "standard": "--method standard",
    "sae": "--method sae --inputs 1 --exits 5",
    "standard, taught": "--method standard --teacher ensemble",
    "sae, taught": "--method sae --inputs 1 --exits 5 --teacher ensemble",
}
losses, costs = {}, {}
for name, options in networks.items():
    out = name.replace(", ", "-")
    run(f"train --data digits --backbone fc --epochs 15 {options} --out {out}")
    found = json.loads(run(f"evaluate {out} --json"))
    losses[name], costs[name] = found["metrics"]["nll_scaled"], found["by_exits"][-1]["shipped_flops"]

# %%
# NLL after temperature scaling against cost. Up and right is worse. The lesson helps the standard network. It does
# not help the SAE, which is better than its teacher already on these 360 images: with so few errors, luck decides.

figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for name in networks:
    panel.scatter(costs[name], losses[name], color="tab:blue" if name == "ensemble" else "tab:red")
    panel.annotate(f" {name}", (costs[name], losses[name]), fontsize=8)
panel.set(xscale="log", xlabel="FLOPs for one image", ylabel="test NLL, scaled", title="Digits: one seed, a smoke test")
panel.margins(0.25)
plt.show()
