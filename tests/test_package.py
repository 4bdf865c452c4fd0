"""The package as its users install and import it."""

import re
import tomllib
from pathlib import Path

import sae

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALLS = re.compile(r"pip install '?([\w-]+)(?:\[([\w,{}]+)\])?")
READ_BY_PEOPLE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src").rglob("*.py"))]


def test_the_distribution_is_saensemble_and_the_command_is_sae() -> None:
    assert PROJECT["name"] == "saensemble"
    assert list(PROJECT["scripts"]) == ["sae"]


def test_every_install_command_names_the_distribution_and_extras_that_exist() -> None:
    found = [match for path in READ_BY_PEOPLE for match in INSTALLS.finditer(path.read_text(encoding="utf-8"))]
    ours = [match for match in found if match[1] != "psycopg"]
    assert len(ours) >= 5
    for match in ours:
        assert match[1] == PROJECT["name"], match[0]
        extras = set((match[2] or "").split(",")) - {"", "{extra}"}
        assert extras <= set(PROJECT["optional-dependencies"]), match[0]


def test_the_version_has_one_home() -> None:
    home = ROOT / "src" / "sae" / "core" / "version.py"
    assert f'__version__ = "{sae.__version__}"' in home.read_text(encoding="utf-8")
    assert PROJECT["dynamic"] == ["version"]
    assert "__version__" in dir(sae)
