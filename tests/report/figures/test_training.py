import math
from typing import Any

from sae.report.figures.curves import training_figure
from tests.report.drawing import curve_colours, draw_all, marks, rows_of, texts

KINDS = {"sae/1": "EE", "sae/2": "MIMO", "ensemble/0": "ensemble"}


def epochs(count: int = 5) -> list[dict[str, Any]]:
    return [
        {"label": label, "kind": kind, "epoch": epoch, "loss": 2 / epoch, "val_nll": 1 / epoch}
        for label, kind in KINDS.items()
        for epoch in range(1, count + 1)
    ]


def test_each_run_has_a_curve_of_its_loss_and_of_validation() -> None:
    figure = training_figure(epochs(), name="training", title="t")
    for svg in draw_all(figure):
        assert len(curve_colours(svg)) == 3
        assert set(KINDS) <= set(texts(svg))
    assert figure
    assert [panel.to_dict()["title"]["text"] for panel in figure.panels] == ["Training loss", "Validation NLL"]


def test_one_epoch_can_be_drawn() -> None:
    for svg in draw_all(training_figure(epochs(1)[:1], name="training", title="t")):
        assert any(float(mark.get("opacity", 1)) == 1 for mark in marks(svg, "point"))


def test_losses_that_are_not_finite_are_left_out() -> None:
    rows = epochs()
    broken = [{**rows[0], "loss": math.inf, "val_nll": math.nan}, *rows[1:]]
    figure = training_figure(broken, name="training", title="t")
    draw_all(figure)
    assert figure
    assert len(rows_of(figure.panels[0])) == len(rows) - 1


def test_without_validation_only_the_loss_is_drawn_and_without_epochs_nothing() -> None:
    figure = training_figure([{**row, "val_nll": None} for row in epochs()], name="training", title="t")
    assert figure
    assert len(figure.panels) == 1
    assert training_figure([], name="training", title="t") is None
