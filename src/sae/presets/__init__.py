"""YAML of the shipped experiments, and of the paper's ablations as settings of a run."""

from importlib.resources import files
from pathlib import Path

import yaml

ABLATIONS = files("sae.presets").joinpath("ablations")


def ablations() -> list[str]:
    """Return the names of the paper's ablations, which `sae train --config` takes."""
    return sorted(Path(file.name).stem for file in ABLATIONS.iterdir())


def read_ablation(name: str) -> dict[str, object]:
    """Read the settings of an ablation that differ from the paper's network or objective."""
    settings = yaml.safe_load(ABLATIONS.joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(settings, dict), f"the shipped {name}.yaml must hold settings"
    return settings
