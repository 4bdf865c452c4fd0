"""The package as its users install and import it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sae
from sae.core.errors import EXTRA_OF
from tests.deploy.test_runtime import WITHOUT_TORCH

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


def test_the_latest_release_in_the_changelog_is_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    [latest, *_] = re.findall(r"^## (\d\S*) - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)
    assert latest == sae.__version__


def test_every_dependency_is_held_at_its_lower_bound_for_the_test_of_the_oldest_versions() -> None:
    script = ROOT / ".ci" / "oldest.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    held = dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)  # not tools
    wanted = {re.split(r"[<>=\[]", text)[0] for text in PROJECT["dependencies"]} | packages_of("train")
    assert set(held) >= wanted - {"torch", "saensemble[report]"}
    assert held["numpy"] == "2"


def packages_of(extra: str) -> set[str]:
    """The distributions that an extra installs, with those of the extras that it includes."""
    listed = {re.split(r"[<>=]", text)[0] for text in PROJECT["optional-dependencies"][extra]}
    included = {name for text in listed for name in re.findall(rf"{PROJECT['name']}\[(\w+)\]", text)}
    return listed.union(*map(packages_of, included))


@pytest.mark.parametrize("package", EXTRA_OF)
def test_the_extra_that_is_named_installs_the_package(package: str) -> None:
    distribution = {"sklearn": "scikit-learn", "vl_convert": "vl-convert-python", "ray": "ray[default]"}
    assert distribution.get(package, package.replace("_", "-")) in packages_of(EXTRA_OF[package])


def test_the_extra_of_training_includes_that_of_reports() -> None:
    assert packages_of("report") < packages_of("train")


@pytest.mark.parametrize("code", ["import sae; sae.train", "from sae import build_method"])
def test_a_name_that_needs_torch_says_which_extra_installs_it(code: str) -> None:
    caught = f"try:\n    {code}\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH + caught], capture_output=True, text=True, check=True)
    assert re.fullmatch(
        r"sae\.\w+ needs torch, which is not installed: pip install 'saensemble\[train\]'", done.stdout.strip()
    )


STUDY = str(ROOT / "tests" / "golden" / "study")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "list"], None),
        (["report", STUDY], "this command needs altair, which is not installed: pip install 'saensemble[report]'"),
        (
            ["pareto", STUDY, "--figure", "x.png"],
            "needs altair, which is not installed: pip install 'saensemble[report]'",
        ),
        (["experiment", "digits"], "this command needs torch, which is not installed: pip install 'saensemble[train]'"),
    ],
)
def test_a_command_works_or_says_which_extra_it_needs(arguments: list[str], message: str | None) -> None:
    code = WITHOUT_TORCH + f"sys.argv = {['sae', *arguments]!r}\nfrom sae.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == (0 if message is None else 2), done.stderr
    assert (message or "") in done.stderr
    assert bool(done.stdout) == (message is None), "a command that lacks something says so before any work"
