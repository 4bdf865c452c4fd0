"""
Images: from a search to an ONNX file
=====================================

A small search over SAE and two baselines on the digits, its front, the pick, and the exported network.
Everything here is a command; the script runs them as you would in a shell.
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


# %%
# Eight trials of SAE, and small spaces of the baselines. The same command again would continue.

run(
    "search --data digits --backbone fc --method sae,ensemble,standard --trials 8 --epochs 8 --workers 1 --out study"
    " --set 'backbone.width=1' --set 'spaces.ensemble.method.members=4'"
    " --set 'spaces.ensemble.backbone.depth={choice: [2, 5]}' --set 'spaces.standard.backbone.depth={choice: [2, 5]}'"
)

# %%
# All that was tried, on validation images; an SAE is there once for each number of exits that it can be read at. Solid
# and named: the front, which no other candidate beats in all of NLL, CC-ECE and FLOPs at once. Eight trials of eight
# epochs are a look at how it works, and no result: in so short a search on digits, no SAE is on the front.

front = json.loads(run("pareto study --json"))["front"]
colours = {"sae": "tab:red", "ensemble": "tab:blue", "standard": "tab:gray"}
figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for method, colour in colours.items():
    files = (folder / "study" / "trials" / method).glob("*/metrics.json")
    tried = [item for file in files for item in json.loads(file.read_text(encoding="utf-8"))["val"]["by_exits"]]
    places = {(item["flops"], item["metrics"]["nll"]) for item in tried}  # some numbers of exits use the same ones
    panel.scatter(*zip(*places, strict=True), color=colour, alpha=0.25)
    panel.scatter([], [], color=colour, label=method)
for item in front:
    place = item["values"]["flops"], item["values"]["nll"]
    panel.scatter(*place, color=colours[item["method"]])
    panel.annotate(f" {item['trial']}", place, fontsize=8)
panel.set(
    xscale="log", xlabel="FLOPs for one image", ylabel="validation NLL", title="Solid: the front; faint: the rest"
)
panel.legend()
panel.margins(0.2)
plt.show()

# %%
# The pick under a budget, and the file to ship, which is checked against the run before it is written.

print(run("pick study --max flops=2e5"))
print(run("export study --max flops=2e5 --out shipped/model.onnx"))
print(sorted(path.name for path in (folder / "shipped").iterdir()))
