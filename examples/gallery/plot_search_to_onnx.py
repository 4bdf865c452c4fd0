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
# Which configurations are not beaten in all of NLL, CC-ECE and FLOPs at once? Each has its own price.

front = json.loads(run("pareto study --json"))
figure, panel = plt.subplots(figsize=(6, 4), layout="constrained")
for item in front["front"]:
    values = item["values"]
    panel.scatter(values["flops"], values["nll"], color="tab:red" if item["method"] == "sae" else "tab:blue")
    panel.annotate(f" {item['trial']}", (values["flops"], values["nll"]), fontsize=8)
panel.set(
    xscale="log", xlabel="FLOPs for one image", ylabel="validation NLL", title="The front: SAE in red, others in blue"
)
panel.margins(0.25)
plt.show()

# %%
# The pick under a budget, and the file to ship, which is checked against the run before it is written.

print(run("pick study --max flops=2e5"))
print(run("export study --max flops=2e5 --out shipped/model.onnx"))
print(sorted(path.name for path in (folder / "shipped").iterdir()))
