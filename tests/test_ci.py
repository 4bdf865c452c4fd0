"""What runs before a change lands, with stand-ins for all that it calls."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BASH = shutil.which("bash") or "bash"
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


REQUIRED = ["lint browser=required", "test browser=required"]


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
    assert made == ["lint browser=optional", "test browser=optional"]
    assert "are skipped" in complaint
