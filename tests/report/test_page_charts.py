import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sae.report.figures.theme import Spec
from sae.report.page_charts import Texts, pack_rows, pack_spec

CELLS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.sampled_from(["", "a", "</b>"])
ROWS = st.lists(st.dictionaries(st.sampled_from("abcd"), CELLS), min_size=1, max_size=5)


def unpack_rows(packed: dict[str, Any], texts: list[str]) -> list[dict[str, Any]]:
    """The same as page.js."""
    rows = []
    for cells in packed["rows"]:
        known = [(field, cell) for field, cell in zip(packed["fields"], cells, strict=True) if cell != []]
        rows.append({field: texts[cell[0]] if isinstance(cell, list) else cell for field, cell in known})
    return rows


def unpack_spec(spec: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    if "packed" in spec.get("data", {}):
        spec = {**spec, "data": {"values": unpack_rows(spec["data"]["packed"], texts)}}
    return {**spec, "layer": [unpack_spec(layer, texts) for layer in spec["layer"]]} if "layer" in spec else spec


@given(ROWS)
def test_rows_come_back_as_they_went_in(rows: list[dict[str, Any]]) -> None:
    texts = Texts()
    packed = json.loads(json.dumps(pack_rows(rows, texts)))
    assert unpack_rows(packed, texts.listed()) == rows


def test_a_text_is_kept_once_for_all_charts() -> None:
    texts, command = Texts(), "sae train --data digits"
    rows: list[Spec] = [{"x": x, "command": command} for x in range(3)]
    specs: list[Spec] = [{"data": {"values": rows}, "layer": [{"mark": "point"}, {"data": {"values": rows}}]}] * 2
    packed = [pack_spec(spec, texts) for spec in specs]
    assert texts.listed() == [command]
    assert command not in json.dumps(packed)
    assert [unpack_spec(spec, texts.listed()) for spec in packed] == specs


def test_what_has_no_rows_of_numbers_and_texts_is_left_alone() -> None:
    specs: list[dict[str, Any]] = [
        {"mark": "point"},
        {"data": {"values": []}},
        {"data": {"values": [{"x": [1]}]}},
        {"data": {"url": "u"}},
    ]
    for spec in specs:
        assert pack_spec(spec, Texts()) == spec
