"""Print pip constraints that hold our direct dependencies at the lower bounds of pyproject.toml.

torch is left out: pip finds old builds of it only with gigabytes of CUDA libraries. The tools of tests may be newer
than their lower bounds, but not older.
"""

import re
import tomllib
from pathlib import Path

EXTRAS = ("report", "train", "tables", "tensorboard")
LEFT_OUT = {"torch", "saensemble"}


def lower_bounds(project: dict[str, object]) -> list[str]:
    """Return `name==version` for every dependency of the base install and of the extras that are tried."""
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *(text for name in EXTRAS for text in extras[name])]
    found = [re.match(r"([\w-]+)(?:\[\w+\])?(?:>=([\d.]+))?", text).groups() for text in listed]
    missing = [name for name, bound in found if bound is None and name not in LEFT_OUT]
    if missing:
        raise SystemExit(f"every dependency must have a lower bound, got none for {', '.join(missing)}")
    return [f"{name}=={bound}" for name, bound in found if name not in LEFT_OUT]


def tools(project: dict[str, object]) -> list[str]:
    """Return what the extra `dev` asks for; constraints have no extras in brackets."""
    return [re.sub(r"\[\w+\]", "", text) for text in project["optional-dependencies"]["dev"]]


if __name__ == "__main__":
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join([*lower_bounds(project), *tools(project)]))  # noqa: T201
