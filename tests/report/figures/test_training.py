import math
from dataclasses import replace

from sae.report.figures.curves import Epoch, TrainingCurve, training_figure
from tests.report.drawing import curve_colours, draw_all, marks, rows_of, texts

KINDS = {"sae/1": "EE", "sae/2": "MIMO", "ensemble/0": "ensemble"}


def curves(count: int = 5) -> list[TrainingCurve]:
    epochs = [Epoch(epoch, loss=2 / epoch, val_nll=1 / epoch) for epoch in range(1, count + 1)]
    return [TrainingCurve(label, kind, epochs) for label, kind in KINDS.items()]


def test_each_run_has_a_curve_of_its_loss_and_of_validation() -> None:
    figure = training_figure(curves(), name="training", title="t")
    for svg in draw_all(figure):
        assert len(curve_colours(svg)) == 3
        assert set(KINDS) <= set(texts(svg))
    assert figure
    assert [panel.to_dict()["title"]["text"] for panel in figure.panels] == ["Training loss", "Validation NLL"]


def test_one_epoch_can_be_drawn() -> None:
    for svg in draw_all(training_figure(curves(1)[:1], name="training", title="t")):
        assert any(float(mark.get("opacity", 1)) == 1 for mark in marks(svg, "point"))


def test_losses_that_are_not_finite_are_left_out() -> None:
    first, *others = curves()
    broken = replace(first, epochs=[Epoch(1, loss=math.inf, val_nll=math.nan), *first.epochs[1:]])
    figure = training_figure([broken, *others], name="training", title="t")
    draw_all(figure)
    assert figure
    assert len(rows_of(figure.panels[0])) == 3 * 5 - 1


def test_without_validation_only_the_loss_is_drawn_and_without_epochs_nothing() -> None:
    without = [replace(curve, epochs=[replace(item, val_nll=None) for item in curve.epochs]) for curve in curves()]
    figure = training_figure(without, name="training", title="t")
    assert figure
    assert len(figure.panels) == 1
    assert training_figure([], name="training", title="t") is None
