from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from sae.config.plain_yaml import read_alike, read_plain, split_plain
from sae.config.run import parse_run
from sae.config.settings import _Loader, to_yaml

CONFIGS: list[dict[str, Any]] = [
    {"data": {"name": "digits"}, "backbone": {"name": "fc"}},
    {"data": {"name": "pneumoniamnist", "flip": True}, "backbone": {"name": "vgg", "width": 2}, "seed": 4},
    {"data": {"name": "digits"}, "backbone": {"name": "fc"}, "method": {"name": "ensemble", "members": 3}},
]

PIECES = st.sampled_from(
    [
        *(
            "a: 1",
            "b: 0.5",
            "c: -1.5e-05",
            "d: 1e-3",
            "e: word",
            "f: yes",
            "g: null",
            "h: ~",
            "i: true",
            "yes: 1",
            "j: No",
        ),
        *("a: 2", "k:", "  l: 3", "  m:", "    n: 4", "   o: 5", "\tp: 6", "q: 017", "r: 0x1F", "s: 1_000", "t: 1:30"),
        *("# note", "", " ", "---", "...", "u: [1]", "v: {w: 1}", "- 1", "x: 'y'", "y: a b", "z: a #b", "a : 1", "b:1"),
        *("c: .inf", "d: 1.", "e: .5", "f: 2001-01-01", "g: -0", "h: 00.5", "i: a:b", "j: a/b-c", "k: &a 1", "<<: 1"),
        *("- a", "  - 2", "- -1.5", "- no", "-  1", "- a: 1", "    - 3"),
        *(
            "true: 1",
            "l: NULL",
            "m: True",
            "# no\u2028tea: 1",
            "# a\rb: 1",
            "n: 9" + "9" * 20,
            "o: -",
            "p: 1.5e+400",
            "=: 1",
        ),
    ]
)


@pytest.mark.parametrize("layer", CONFIGS)
def test_the_settings_of_a_run_are_plain(layer: dict[str, Any]) -> None:
    config = parse_run(layer)
    assert read_plain(to_yaml(config)) == config.model_dump(mode="json")


@given(st.lists(PIECES, max_size=6))
@example(["k:", "  l: 3", "", "# note", "a: 1"])
@example(["k:", "  m:", "    n: 4", "  l: 3"])
@example(["k:"])
@example(["h: 00.5"])
@example(["k:", "- a", "- -1.5", "a: 1", "m:", "  n:", "  - 2", "  - 3", "  o: 1"])
@example(["k:", "- a", "  - 2"])
@example(["k:", "- a", "  l: 3"])
def test_a_plain_text_is_read_as_the_loader_reads_it_and_any_other_is_left_to_it(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = read_plain(text)
    if found is not None:
        expected = yaml.load(text, _Loader)
        assert found == expected
        assert repr(found) == repr(expected)  # 1 is not 1.0, nor True


@given(st.text(alphabet="ab: 1.e-\n#[]'\"{}yn\t", max_size=30))
def test_any_text_is_read_as_the_loader_reads_it_or_left_to_it(text: str) -> None:
    found = read_plain(text)
    if found is not None:
        assert repr(found) == repr(yaml.load(text, _Loader))


@given(st.lists(PIECES, max_size=6), st.lists(PIECES, max_size=6))
@example(["k:", "  l: 3", "  m: -1.5e-05", "a: 1"], ["k:", "  l: 0.5", "  m: 0", "a: -2.5"])
@example(["k:", "- 1", "a: 1"], ["k:", "- 2", "a: 3"])
@example(["# note: 3", "a: 1"], ["# note: 4", "a: 2"])
@example(["a: 0", "i: true"], ["a: 7", "i: true"])
def test_texts_that_differ_in_numbers_only_are_read_as_if_alone(one: list[str], other: list[str]) -> None:
    for lines in (one, other):
        text = "\n".join(lines)
        found, alone = read_alike(text), read_plain(text)
        assert found is None or repr(found[0]) == repr(alone)
        assert found is not None or alone is None or "#" in text or "- " in text


@pytest.mark.parametrize(
    "text", ["", "# only\n", "a: [1]", "a: 1\na: 2", "a:\nb: 1", "a:\n  b: 1\n c: 2", "é: 1", "yes: 1"]
)
def test_what_is_not_plain_is_left_to_the_loader(text: str) -> None:
    assert read_plain(text) is None


def test_long_and_deep_texts_are_left_to_the_loader() -> None:
    assert read_plain("a: 1\n" + "# x\n" * 5_000) is None
    assert read_plain("\n".join("  " * level + "a:" for level in range(20)) + " 1") is None


@given(st.lists(PIECES, max_size=6))
@example(["# note", "a: 1", "k:", "  l: 3", "- a"])
@example(["a: 1", "a: 2"])
@example(["k:", "a: 1"])
@example(["# note"])
def test_a_text_whose_pieces_are_plain_holds_what_they_hold(lines: list[str]) -> None:
    text = "\n".join(lines)
    pieces = [read_plain(piece) for piece in split_plain(text)]
    found = {key: value for piece in pieces if piece is not None for key, value in piece.items()}
    if None not in pieces and sum(len(piece) for piece in pieces if piece is not None) == len(found):
        assert repr(read_plain(text)) == repr(found)
