"""What runs before a change lands, with stand-ins for all that it calls, and the files that describe our habits."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
BASH = shutil.which("bash") or "bash"
TARGETS = ("lint", "docs-quick", "test", "test-long", "test-ci-slow")
NEEDED = ("bash", "dirname", "env", "chmod", "cat")
MAKE = 'echo "$1 browser=${CI_BROWSER:-optional}"'
INSTALL = """case "$*" in *install*) echo >"$STANDINS/chromium"; chmod +x "$STANDINS/chromium";; esac"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the script and a `bin` in which nothing but the stand-ins is found."""
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(ROOT / ".ci" / "run", script)
    (tmp_path / "bin").mkdir()
    for name in NEEDED:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    stand_in(tmp_path, "make", MAKE)
    stand_in(tmp_path, "id", "echo 0")
    return tmp_path


def stand_in(clone: Path, name: str, does: str = "true") -> None:
    path = clone / "bin" / name
    path.write_text(f"#!{BASH}\n{does}\n")
    path.chmod(0o755)


def run(clone: Path, **more: str) -> tuple[list[str], str]:
    """What was made, and what was complained of."""
    environment = {"PATH": str(clone / "bin"), "STANDINS": str(clone / "bin"), **more}
    script = str(clone / ".ci" / "run")
    ended = subprocess.run([BASH, script], env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines(), ended.stderr


REQUIRED = [f"{target} browser=required" for target in TARGETS]


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome"])
def test_where_a_browser_is_there_no_test_of_the_page_may_be_skipped(clone: Path, name: str) -> None:
    stand_in(clone, name)
    assert run(clone) == (REQUIRED, "")


def test_a_browser_may_be_named(clone: Path) -> None:
    assert run(clone, SAE_CHROMIUM="/opt/browser") == (REQUIRED, "")


def test_a_browser_that_could_be_installed_is_required(clone: Path) -> None:
    stand_in(clone, "apt-get", INSTALL)
    assert run(clone) == (REQUIRED, "")


@pytest.mark.parametrize(("user", "apt"), [("0", "exit 1"), ("1000", INSTALL)])
def test_a_browser_that_could_not_be_installed_is_told_and_the_tests_go_on(clone: Path, user: str, apt: str) -> None:
    stand_in(clone, "id", f"echo {user}")
    stand_in(clone, "apt-get", apt)
    made, complaint = run(clone)
    assert made == [f"{target} browser=optional" for target in TARGETS]
    assert "are skipped" in complaint


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SLOW = re.findall(r"^\t(tests/\S+)", MAKEFILE, re.MULTILINE)


def recipe(target: str) -> list[str]:
    """The commands of a target, without the folder they are in."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found, target
    return [line.strip().removeprefix("$(BIN)/") for line in found[1].splitlines()]


def test_every_target_of_the_script_is_in_the_makefile() -> None:
    assert all(recipe(target) for target in TARGETS)


@pytest.mark.parametrize("name", SLOW)
def test_the_slow_tests_of_the_list_are_there(name: str) -> None:
    path, _, function = name.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert "pytest.mark.slow" in text
    assert f"\ndef {function}" in text


def test_pre_commit_runs_what_lint_runs() -> None:
    [local] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local"
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in local["hooks"]]
    assert entries == [command.replace(" --check .", "").replace("check .", "check") for command in recipe("lint")]


def test_the_citation_is_of_this_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors", "type"} <= set(citation)
    assert citation["license"] == project["license"]
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in project["authors"]]
    assert "version" not in citation  # it has one home
