from typing import Any

from sae.config.methods import ORANGE, all_kinds
from sae.report.figures.curves import curve_looks

KINDS = {"sae/1": "EE", "sae/2": "MIMO", "ensemble/0": "ensemble"}


def test_configurations_of_one_class_differ_in_their_dashes() -> None:
    looks: list[Any] = [look.to_dict() for look in curve_looks(KINDS)]
    colour, dash = looks
    assert colour["scale"]["range"] == [ORANGE, ORANGE, all_kinds()["ensemble"].colour]
    dashes = dash["scale"]["range"]
    assert dashes[0] == dashes[2] != dashes[1]
