"""YAML that would explode, overflow the stack or take forever is refused in one sentence."""

import re
from pathlib import Path

import pytest

from sae.config.run import RunConfig
from sae.config.settings import from_assignments, parse, read_yaml
from sae.core.errors import ConfigError

BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
HOSTILE = {
    "aliases": (BOMB, "at most 100,000 values"),
    "flow": ("a: " + "[" * 100_000, "nested at most 50 levels"),
    "mappings": ("a: " + "{a: " * 1000, "nested at most 50 levels"),
    "lists": ("- " * 20_000, "nested at most 50 levels"),
    "keys": ("? " * 20_000, "nested at most 50 levels"),
    "itself": ("a: &a [*a]", "'a' refers to itself"),
    "date": ("a: 2024-13-45", "does not fit its tag"),
    "timestamp": ("a: !!timestamp x", "does not fit its tag"),
    "integer": ("a: !!int x", "does not fit its tag"),
    "nothing": ("a: !!int ''", "does not fit its tag"),
    "boolean": ("a: !!bool x", "does not fit its tag"),
    "digits": ("a: " + "9" * 5000, "does not fit its tag"),
    "code": ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
    "unhashable": ("? [a]\n: 1", "unhashable key"),
    "large": ("a: " + "x" * (1 << 20), "at most 1,048,576 bytes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name: str, tmp_path: Path) -> None:
    text, message = HOSTILE[name]
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_yaml(tmp_path / "x.yaml")


def test_an_assignment_is_read_with_the_same_care() -> None:
    for value in ("[" * 1000, "2024-13-45", "!!int x"):
        with pytest.raises(ConfigError, match="--set takes a value that is YAML"):
            from_assignments([f"train.lr={value}"])


@pytest.mark.parametrize("number", ["1:30", "1_000", "010", "-1_0", "1:30.5", "1_0.5", "+0_7", "190:20:30"])
def test_a_number_that_readers_of_yaml_disagree_on_is_refused(number: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{number} is read in several ways: write a plain number")):
        from_assignments([f"seed={number}"])
    (tmp_path / "x.yaml").write_text(f"seed: {number}\n")
    with pytest.raises(ConfigError, match="is read in several ways"):
        read_yaml(tmp_path / "x.yaml")
    (tmp_path / "x.yaml").write_text(f"seed: '{number}'\n")
    assert read_yaml(tmp_path / "x.yaml") == {"seed": number}


def test_plain_numbers_are_read_as_before() -> None:
    for text, value in (("0", 0), ("-10", -10), ("0.5", 0.5), ("1e-3", 1e-3), ("0x10", 16), (".5", 0.5), ("-0.0", 0.0)):
        assert from_assignments([f"seed={text}"]) == {"seed": value}


def test_many_keys_are_read_in_one_pass(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("".join(f"key{number}: 1\n" for number in range(20_000)))
    with pytest.raises(ConfigError, match="unknown setting key0"):
        parse(RunConfig, read_yaml(tmp_path / "x.yaml"))


def test_aliases_that_stay_small_are_fine(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: &a [1, 2]\nb: *a\nc: {d: *a}\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": [1, 2], "b": [1, 2], "c": {"d": [1, 2]}}
