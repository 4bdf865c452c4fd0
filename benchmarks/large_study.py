"""CPU seconds of the commands that read a study, for studies of up to 10,000 trials.

    python -m benchmarks.large_study                      # print the stored table
    python -m benchmarks.large_study --measure            # make the studies, measure, store, and print
    python -m benchmarks.large_study --make 10000 FOLDER  # only make a study

Studies are made up: random settings of the whole spaces of SAE and the ensemble, with results, histories and networks
as large as real ones. Every command is a process of its own, whose CPU time is counted from its start, imports
included.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from sae.config.settings import to_yaml
from sae.config.study import StudyConfig, Value
from sae.records.evaluation import Evaluation, Part, PartCosts, Reading
from sae.records.network import Member, Network, PrunedReading
from sae.records.run import Status
from sae.records.study import StudyRecord
from sae.search.holes import Hole
from sae.search.space import Space, build_space

STORED = Path(__file__).parent / "large_study.json"
SIZES = (100, 1_000, 10_000)
NAMES = ("nll", "cc_ece", "flops")
METRICS = (
    *("accuracy", "error", "f1", "ece", "cc_ece_uniform", "brier", "entropy", "aurc", "disagreement"),
    *("diversity_disagreement", "diversity_kl", "error_correlation", "nll_scaled", "ece_scaled", "cc_ece_scaled"),
)
HISTORY = ("lr", "loss", "data_fit", "kl", "grad_norm", "logit_grad_norm", *(f"val_{name}" for name in METRICS[:8]))
EPOCHS = 50
COMMANDS = ("pareto", "pick", "report")


class Measured(Part):
    """CPU seconds of one command on a study."""

    trials: int
    command: str
    seconds: float


FILE = TypeAdapter(list[Measured])


def make_study(folder: Path, trials: int, seed: int = 0) -> StudyRecord:
    """Write the folder of a study with made-up trials: nine of ten are of SAE, the rest are ensembles."""
    base = {"data": {"name": "digits"}, "backbone": {"name": "fc"}}
    spaces: dict[str, Space] = {method: build_space(method, base, {}, {}) for method in ("sae", "ensemble")}
    config = StudyConfig(
        id="large",
        task="classification",
        spaces={method: dict(space.to_yaml()) for method, space in spaces.items()},
        objectives=NAMES,
        max={},
        min={},
        sampler="random",
        startup=10,
        grid=1,
        rungs=(),
        reduction=3,
        shift=False,
        seed=seed,
    )
    record = StudyRecord.create(folder, config)
    rng = np.random.default_rng(seed)
    for index in range(trials):
        method, number = ("ensemble", index // 10) if index % 10 == 9 else ("sae", index - index // 10)
        _make_trial(record, spaces[method], method, number, rng, 1_700_000_000.0 + 60 * index)
    return record


def _make_trial(
    record: StudyRecord, space: Space, method: str, number: int, rng: np.random.Generator, ended: float
) -> None:
    config = space.fill({path: _draw(hole, rng) for path, hole in space.holes.items()})
    run = record.trial(method, number, config)
    run.path.mkdir(parents=True)
    depth, exits = config.backbone.depth, config.method.trained_exits
    quality = float(rng.lognormal(-1.5, 0.3))
    readings, pruned = [], []
    for k in range(1, depth + 1) if config.method.has_exits else (1,):
        nll = quality * (1 + 0.1 * abs(k - exits)) * float(rng.lognormal(0, 0.05))
        metrics = {"nll": nll, "cc_ece": float(rng.beta(2, 20)), **{name: float(rng.random()) for name in METRICS}}
        flops = int(config.method.num_inputs * 40_000 + 60_000 * k * rng.uniform(1, 4))
        costs = {"params": flops // 3, "flops": flops, "shipped_params": flops // 3, "shipped_flops": flops}
        active = tuple(int(stage >= depth - k) for stage in range(depth))
        readings.append(Reading(eval_exits=k, active=active, metrics=metrics, **costs))
        member = Member(input=1, exit=depth, weight=1.0)
        pruned.append(PrunedReading(eval_exits=k, members=(member,), parts=(PartCosts(name="stem", **costs),)))
    evaluation = Evaluation(exits=exits, readings=tuple(readings)).to_json()
    network = Network(exits=exits, depth=depth, passes=1, whole=pruned[-1].parts, readings=tuple(pruned))
    status = Status(state="finished", ended=ended, seconds=60.0)
    inputs = config.method.num_inputs
    theta = rng.dirichlet(np.ones(depth), (EPOCHS, inputs)).reshape(EPOCHS, -1)
    columns = ["epoch", *HISTORY, *(f"theta_{one}_{stage}" for one in range(inputs) for stage in range(depth))]
    epochs = np.hstack([np.arange(1.0, EPOCHS + 1)[:, None], rng.random((EPOCHS, len(HISTORY))), theta]).tolist()
    history = "".join(f"{','.join(map(str, row))}\r\n" for row in [columns, *epochs])
    files = {  # not through the record, which syncs every file to the disk
        run.CONFIG: f"{run.MARK}\n{to_yaml(config)}",
        run.METRICS: json.dumps({"val": evaluation, "test": evaluation}, indent=2),
        run.HISTORY: history,
        run.NETWORK: json.dumps(network.to_json(), indent=2),
        run.STATUS: json.dumps(status.model_dump(mode="json", exclude_none=True), indent=2),
    }
    for name, text in files.items():
        (run.path / name).write_text(text, encoding="utf-8", newline="")


def _draw(hole: Hole, rng: np.random.Generator) -> Value:
    points = hole.points()
    if points is not None:
        return points[int(rng.integers(len(points)))]
    low, high = hole.bounds()
    return float(np.exp(rng.uniform(np.log(low), np.log(high))) if hole.kind == "log" else rng.uniform(low, high))


def cpu_seconds(*arguments: str) -> float:
    """Return the CPU time of one `sae` command, from the start of its process to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "sae", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(study: Path, trials: int) -> list[Measured]:
    """Measure each command on a study."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            out = ["--out", str(Path(folder) / "page.html")] if command == "report" else []
            seconds = round(cpu_seconds(command, str(study), *out), 1)
            found.append(Measured(trials=trials, command=command, seconds=seconds))
    return found


def table(found: list[Measured]) -> str:
    """Return a table in Markdown, a row for each number of trials."""
    lines = [["trials", *(f"`sae {command}`" for command in COMMANDS)], ["---"] * (len(COMMANDS) + 1)]
    for trials in dict.fromkeys(item.trials for item in found):
        by_command = {item.command: item.seconds for item in found if item.trials == trials}
        lines.append([f"{trials:,}", *(f"{by_command[command]:.1f} s" for command in COMMANDS)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measure if asked to, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--make", nargs=2, metavar=("TRIALS", "FOLDER"))
    parser.add_argument("--measure", action="store_true")
    given = parser.parse_args()
    if given.make:
        make_study(Path(given.make[1]), int(given.make[0]))
        return
    if given.measure:
        found = []
        for trials in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                make_study(Path(folder) / "study", trials)
                found += measure(Path(folder) / "study", trials)
        STORED.write_text(FILE.dump_json(found, indent=1).decode() + "\n", encoding="utf-8")
    print(table(FILE.validate_json(STORED.read_bytes())))


if __name__ == "__main__":
    main()
