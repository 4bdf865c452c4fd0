"""The model card: a README.md beside an exported model, from its manifest and its receipt. No torch.

Its first lines are the YAML that model hubs read, so that the folder can be uploaded unchanged. It ends with a hash
of its own text: an edited card, or a README.md of the user's own, is never overwritten.
"""

import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from sae.analysis.baselines import baselines_text
from sae.analysis.temperature import effect_under_shift
from sae.core.errors import ModelError, ModelWarning, RecordError
from sae.core.objectives import metric_label
from sae.core.reading import read_file
from sae.core.table import markdown_text
from sae.core.task import SampleKind
from sae.core.wording import count
from sae.deploy.manifest import NAME, Manifest
from sae.records.evaluation import ShiftEvaluation
from sae.records.receipt import PICK, Receipt, read_receipt
from sae.records.shipped import CARD, is_own_card, marked_card
from sae.records.study import StudyRecord
from sae.records.writing import write_whole

HUB_TASKS = {
    (SampleKind.IMAGES, "classification"): "image-classification",
    (SampleKind.TABLE, "classification"): "tabular-classification",
    (SampleKind.TABLE, "regression"): "tabular-regression",
}
"""Names of tasks on model hubs."""
PLAIN = re.compile(r"\w[\w .:/@+-]*\w|\w")
"""Names that Markdown shows as they are."""


class _Dumper(yaml.SafeDumper):
    """Writes YAML in which characters of HTML can be escaped, because texts that have them are quoted."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, '"' if set("<>") & set(text) else None)


_Dumper.add_representer(str, _quoted)


def write_card(folder: Path, manifest: Manifest, shift: ShiftEvaluation | None = None) -> None:
    """Write the model card beside a model. Keep a README.md that is not ours or was edited, with a warning.

    Args:
        folder: The folder of the model, which may hold its receipt.
        manifest: The model.
        shift: Results of the run on corrupted test images, if they were measured.
    """
    path = folder / CARD
    text = marked_card(card_text(manifest, _receipt_of(folder, manifest), shift))
    try:
        found = read_file(str(path)).decode("utf-8") if path.exists() else None
        if found is None or (is_own_card(found) and found != text):
            write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    except UnicodeDecodeError:
        found = ""
    except OSError as error:
        raise ModelError(f"{path} must be readable and writable: {error.strerror}") from None
    if found is not None and not is_own_card(found):
        warnings.warn(
            f"{path} is not a model card of `sae export`, or was edited, so it is not replaced: "
            f"move it away and export again for a new card",
            ModelWarning,
            stacklevel=2,
        )


def _receipt_of(folder: Path, manifest: Manifest) -> Receipt | None:
    """Return the receipt in a folder, if it belongs to this model."""
    try:
        receipt = read_receipt(folder / StudyRecord.RECEIPT)
    except RecordError:
        return None
    return receipt if receipt.identity.sha256 == manifest.graph.sha256 else None


def card_text(manifest: Manifest, receipt: Receipt | None = None, shift: ShiftEvaluation | None = None) -> str:
    """Return the card: front matter for hubs, a summary of the model, its results, costs, use and limits."""
    front = yaml.dump(_front_matter(manifest), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    front = front.replace("<", r"\x3C").replace(">", r"\x3E")  # some readers take it for Markdown, where HTML counts
    license_ = "# license: choose one, e.g. apache-2.0; the licence of the training data may bind you\n"
    sections = [
        f"# {_text(_title(manifest))}\n\n{_summary(manifest, receipt)}",
        f"## Results\n\n{_results(manifest, shift)}",
        f"## Costs\n\n{_costs(manifest, receipt)}",
        f"## Use\n\n{_use(manifest)}",
        f"## Limits\n\n{_limits(manifest, shift)}",
        "## Licence\n\nNot chosen yet: add `license:` to the first lines of this file.",
        f"## Made with\n\n{_made_with(manifest)}",
    ]
    return f"---\n{license_}{front}---\n\n" + "\n\n".join(sections) + "\n"


def _front_matter(manifest: Manifest) -> dict[str, object]:
    kind, test = manifest.input.kind, manifest.metrics.get("test", {})
    hub_task, data = HUB_TASKS.get((kind, manifest.task)), manifest.run.data
    front: dict[str, object] = {"library_name": "saensemble"}
    if hub_task:
        front["pipeline_tag"] = hub_task
    front["tags"] = ["onnx", "ensemble", "uncertainty", "calibration", "single-architecture-ensemble"]
    if test and data:
        result = {
            "task": {"type": hub_task or f"{kind.value}-{manifest.task}"},
            "dataset": {"name": data, "type": data, "split": "test"},
            "metrics": [{"type": key, "value": value, "name": metric_label(key)} for key, value in test.items()],
        }
        front["model-index"] = [{"name": _title(manifest), "results": [result]}]
    return front


def _title(manifest: Manifest) -> str:
    where = f" of {manifest.run.data}" if manifest.run.data else ""
    return f"{manifest.task.capitalize()}{where} by {manifest.network.method} on {manifest.network.backbone}"


def _summary(manifest: Manifest, receipt: Receipt | None) -> str:
    network = manifest.network
    members = count(len(network.members), "member")
    shape = (
        f"method {_code(network.method)}, backbone {_code(network.backbone)}, {count(network.num_inputs, 'input')}, "
        f"{count(network.eval_exits, 'exit')} per input of {network.depth}"
    )
    bits = "int8" if manifest.quantisation else "float32"
    lines = [
        f"An ONNX graph in {bits} that predicts with {members} ({shape}), and says how uncertain it is.",
        _origin(manifest),
    ]
    if receipt is not None:
        lines += [_text(receipt.verdict)] if receipt.verdict else []
        lines.append(f"It was chosen from a search: {_text(receipt.why)}.")
    names = manifest.target.class_names
    if names is not None:
        lines.append(f"It knows {len(names)} classes: {_shortened(names)}.")
    if manifest.target.names is not None:
        kind = "labels, each of which holds or not" if manifest.task == "classification" else "values"
        lines.append(f"It predicts {len(manifest.target.names)} {kind}: {_shortened(manifest.target.names)}.")
    return "\n".join(lines)


def _origin(manifest: Manifest) -> str:
    if manifest.run.data:
        return f"It was trained on {_code(manifest.run.data)}."
    how = "by an estimator" if manifest.metrics else "in a custom training loop"
    return f"It was trained {how}; its training data are not recorded."


def _shortened(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more, see `{NAME}`" if len(names) > most else ""
    return ", ".join(map(_code, names[:most])) + more


def _results(manifest: Manifest, shift: ShiftEvaluation | None) -> str:
    if not manifest.metrics:
        return "Not measured: the model was exported without labels."
    titles = {"test": "test", "val": "validation"}
    columns: dict[str, Mapping[str, float]] = {
        title: manifest.metrics[split] for split, title in titles.items() if split in manifest.metrics
    }
    notes = ["Measured with this file. Validation samples also calibrate its sets and intervals."]
    if "test" not in columns:
        notes = [
            "Measured on validation samples alone, which also decided when to stop, and calibrate sets and intervals."
        ]
    if manifest.refit is not None:
        notes = [manifest.refit.text]
    if shift is not None:
        columns["corrupted test"] = shift.at(manifest.network.eval_exits).metrics
        notes.append(
            f"Corrupted test: means over {count(shift.num_sets, 'corrupted version')} of the test images, measured on "
            f"the run's network in float32."
        )
    if manifest.calibration is not None:
        notes.append(_calibration_note(manifest, columns.get("corrupted test", {})))
    if manifest.run.other_data:
        notes.append("**These are not the samples that belong to the run**: the exporter allowed other data.")
    rows = [
        [metric_label(key), *(f"{values[key]:.4f}" if key in values else "-" for values in columns.values())]
        for key in next(iter(columns.values()))
    ]
    conformal = manifest.conformal
    if conformal is not None and conformal.tried is not None:
        what = "classes in a set" if manifest.task == "classification" else "width of an interval"
        notes.append(
            f"{conformal.tried:.0%} conformal sets or intervals contained the truth for {conformal.test_coverage:.1%} "
            f"of the test samples; mean {what}: {conformal.test_size:.3g}."
        )
    return _table(["metric", *columns], rows) + "\n\n" + "\n".join(notes)


def _calibration_note(manifest: Manifest, shifted: Mapping[str, float]) -> str:
    """Return a note on the temperature in the graph and its effect on the test split, clean and corrupted."""
    part = manifest.calibration
    assert part is not None, "only a calibrated model has a note"
    if part.remark is not None:
        return f"Temperature scaling was tried, but is not in the graph: {_text(part.remark)}"
    before, after = part.raw["test"], manifest.metrics["test"]
    keys = [key for key in ("nll", "ece", "cc_ece") if key in before]
    changes = ", ".join(f"{metric_label(key)} {before[key]:.4f} → {after[key]:.4f}" for key in keys)
    effect = effect_under_shift(shifted)
    return f"Temperature scaling is in the graph: {part.text}. On test, before → after: {changes}. {effect}"


def _costs(manifest: Manifest, receipt: Receipt | None) -> str:
    cost = manifest.cost
    rows = [
        ["FLOPs per sample, as shipped", f"{cost.shipped_flops:,}"],
        ["parameters, as shipped", f"{cost.shipped_params:,}"],
        ["FLOPs per sample, before folding", f"{cost.flops:,}"],
        ["parameters, before folding", f"{cost.params:,}"],
        ["file, bytes", f"{manifest.graph.bytes:,}"],
    ]
    text = _table(["", "this model"], rows)
    if receipt is None:
        return text
    compared = [
        [role, row.settings, f"{row.metrics['nll']:.4f}", f"{row.shipped_flops:,}", f"{row.bytes:,}", f"{row.ms:.3g}"]
        for role, row in receipt.rows.items()
    ]
    titles = ["", "settings", "NLL on test", "FLOPs as shipped", "bytes", f"ms for a batch of {receipt.batch}"]
    names = ", ".join(f"best {role}" for role in receipt.rows if role != PICK)
    beside = f"Beside the study's {names}, " if names else ""
    told = f"{text}\n\n{beside}measured side by side on the machine that exported:\n\n{_table(titles, compared)}"
    return told + (f"\n\n{baselines_text(receipt)}" if receipt.baselines else "")


def _use(manifest: Manifest) -> str:
    file, shape = " ".join(manifest.graph.file.split()), ", ".join(map(str, manifest.input.shape))
    rows = " or rows of a table, as dictionaries or a data frame" if manifest.input.columns else ""
    what = (
        "prediction.names, prediction.probs" if manifest.task == "classification" else "prediction.mean, prediction.std"
    )
    outputs = f"{what}, prediction.entropy, prediction.disagreement"
    return f"""```bash
pip install saensemble          # onnxruntime, no torch
sae predict {shlex.quote(file)} DATA --out predictions.csv
```

```python
import sae

model = sae.load(".")           # this folder; checks that {file} is the graph that {NAME} describes
prediction = model.predict(x)   # (batch, {shape}) in {manifest.input.dtype}{rows}
{outputs}
```

From a hub: `sae.load(huggingface_hub.snapshot_download("OWNER/NAME"))`.
`{NAME}` describes inputs, outputs and members in full."""


def _limits(manifest: Manifest, shift: ShiftEvaluation | None) -> str:
    lines = [
        "The numbers hold for samples like those that were measured, and for one training: another differs by chance."
    ]
    if manifest.conformal is not None:
        lines.append(
            "Coverage of sets and intervals is promised for samples from the same distribution only, not under shift."
        )
    if shift is None and manifest.metrics:
        lines.append("How it does on corrupted or shifted samples was not measured.")
    if manifest.target.class_names is not None:
        lines.append("A sample of none of its classes still gets one. High entropy is a hint, not a proof.")
    if manifest.quantisation is not None:
        before, after = manifest.quantisation.float32.metrics["test"]["nll"], manifest.metrics["test"]["nll"]
        lines.append(f"Quantised to 8 bits: NLL on test is {after:.4f}, and was {before:.4f} in float32.")
    lines.append(
        "Only you know what the data represent, whom they leave out, and what the model must not decide: add it here."
    )
    return "\n".join(f"- {line}" for line in lines)


def _made_with(manifest: Manifest) -> str:
    versions = _text(", ".join(f"{name} {number}" for name, number in manifest.versions.items()))
    parity = manifest.parity
    return (
        f"{versions}. The graph differs from the trained network by at most {parity.largest_difference:.1e} over "
        f"{count(parity.samples, 'sample')}.\n\n"
        f"SHA-256 of the graph {_code(manifest.graph.sha256[:16])}…, of the trained weights "
        f"{_code(manifest.run.weights_sha256[:16])}…, of the settings {_code(manifest.run.config_sha256[:16])}…."
    )


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first, *others = [[_text(cell) for cell in row] for row in (titles, *rows)]
    lines = [first, ["---"] + ["---:"] * (len(titles) - 1), *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(text: str) -> str:
    """Escape a text for Markdown; HTML also for readers without backslashes, and no underscore inside a word."""
    escaped = markdown_text(text).replace(r"\<", "&lt;").replace(r"\>", "&gt;")
    return re.sub(r"(?<=\w)\\_(?=\w)", "_", escaped)


def _code(name: str) -> str:
    """Return a name as code, or as escaped text if it holds what could end the code."""
    return f"`{name}`" if PLAIN.fullmatch(name) else _text(name)
