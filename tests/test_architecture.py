"""Rules of the code that neither mypy nor import-linter checks."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "sae"
WITHOUT_ANY = (
    *("data", "measure", "ensemble", "methods", "analysis", "records"),
    *("training", "estimators", "search", "deploy", "report", "cli"),
)
LINE_LIMIT = 420
ON_DISK = re.compile(r"open|read|read_\w+|load|load_\w+|exists|is_file|is_dir|has|glob|rglob|iterdir|stat")
"""Names of functions that look at the disk."""


def modules(*packages: str) -> dict[str, str]:
    """The code of the modules of some packages, by path."""
    paths = [path for package in packages for path in sorted((SOURCE / package).rglob("*.py"))]
    return {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in paths}


def lines_with_any(code: str) -> list[int]:
    """The lines that import or name `Any`."""
    found = []
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id="Any") | ast.Attribute(attr="Any") | ast.alias(name="Any"):
                found.append(node.lineno)
    return found


def properties_on_disk(code: str) -> list[str]:
    """The properties that call a function that looks at the disk."""
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    properties = [
        function
        for function in functions
        if any(last_name(node) in ("property", "cached_property") for node in function.decorator_list)
    ]
    return [found.name for found in properties if any(map(ON_DISK.fullmatch, called_names(found)))]


def called_names(function: ast.FunctionDef) -> list[str]:
    return [last_name(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)]


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c`."""
    return ast.unparse(node).rpartition(".")[2]


@pytest.mark.parametrize("code", ["from typing import Any", "import typing\nx: typing.Any", "def f(x: list[Any]): ..."])
def test_any_is_noticed(code: str) -> None:
    assert lines_with_any(code)


@pytest.mark.parametrize(
    ("decorator", "value", "is_wrong"),
    [
        ("property", "(self.path / 'x').exists()", True),
        ("functools.cached_property", "self.read_config().seed", True),
        ("property", "self.config.seed", False),
        ("staticmethod", "open('x')", False),
    ],
)
def test_a_property_on_disk_is_noticed(decorator: str, value: str, is_wrong: bool) -> None:
    code = f"class A:\n    @{decorator}\n    def a(self):\n        return {value}"
    assert properties_on_disk(code) == (["a"] if is_wrong else [])


def test_packages_above_the_settings_do_not_name_any() -> None:
    own = {path.name: path.read_text(encoding="utf-8") for path in SOURCE.glob("*.py")}
    assert {
        path: found for path, code in (own | modules(*WITHOUT_ANY)).items() if (found := lines_with_any(code))
    } == {}


def test_properties_do_not_look_at_the_disk() -> None:
    checked = modules("")
    assert any("@property" in code for code in checked.values())
    assert {path: found for path, code in checked.items() if (found := properties_on_disk(code))} == {}


def test_modules_are_short() -> None:
    lines = {path: len(code.splitlines()) for path, code in modules("").items()}
    assert len(lines) > 100
    assert {path: count for path, count in lines.items() if count >= LINE_LIMIT} == {}
