import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sae
from sae.config.run import DataConfig
from sae.core.errors import DataWarning, ModelError
from sae.core.predictive import Predictive
from sae.data.catalogue import load, resolve
from sae.data.dataset import Array, Features
from sae.deploy.conformal import keep_scores, value_scores
from sae.deploy.runtime import ClassPrediction, ValuePrediction
from sae.estimators import SAEClassifier, SAERegressor
from sae.estimators.fitted import FittedNetwork
from sae.training.run import restore, train
from sae.training.trainer import Trainer
from tests.estimators.tables import mixed_frame, written

SETTINGS = {"depth": 2, "epochs": 5, "batch_size": 16, "random_state": 0}


def regressor(**more: object) -> SAERegressor:
    return SAERegressor(**{**SETTINGS, **more})  # type: ignore[arg-type]


def classifier(**more: object) -> SAEClassifier:
    return SAEClassifier(**{**SETTINGS, **more})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return mixed_frame()


@pytest.fixture(scope="module")
def fitted(frame: pd.DataFrame) -> SAERegressor:
    return regressor().fit(frame.drop(columns="price"), frame["price"])


def test_the_weights_are_those_of_a_run_on_the_same_rows(frame: pd.DataFrame, tmp_path: Path) -> None:
    path = written(frame, tmp_path / "table.csv")
    data = {"name": str(path), "task": "regression", "target": "price"}
    settings = {"backbone": {"name": "fc", "depth": 2}, "train": {"epochs": 5, "batch_size": 16, "patience": 3}}
    run = train(resolve({"data": data, "seed": 0}, settings), tmp_path / "run")
    method, dataset = restore(run)

    everything = load(DataConfig.model_validate(data))
    prices = frame["price"].to_numpy()
    rows = {name: [int(np.flatnonzero(prices == price)[0]) for price in everything.split(name).targets]
            for name in ("train", "val", "test")}  # fmt: skip
    features = frame.drop(columns="price")
    model = regressor(patience=3).fit(
        features.iloc[rows["train"]],
        prices[rows["train"]],
        X_val=features.iloc[rows["val"]],
        y_val=prices[rows["val"]],
    )

    for name, tensor in method.state_dict().items():
        torch.testing.assert_close(torch.tensor(model.network_.weights[name]), tensor, rtol=0, atol=0)
    assert model.network_.columns == dataset.columns
    evaluation = run.read_evaluation()
    exits = model.network_.eval_exits
    assert exits == evaluation.best_exits
    assert evaluation.val.at(exits).metrics["nll"] == pytest.approx(model.network_.metrics["nll"])
    mse = np.square(model.predict(features.iloc[rows["test"]]) - prices[rows["test"]]).mean()
    assert evaluation.test.at(exits).metrics["mse"] == pytest.approx(mse)


@pytest.mark.parametrize("method", ["sae", "ensemble", "mc_dropout", "batch_ensemble", "packed"])
def test_a_row_counts_by_its_weight(method: str) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 3))
    y = np.repeat([0.0, 10.0], 60)  # the rows tell nothing about it, so the mean is what the weights make of it
    heavy, light = (
        regressor(method=method, epochs=30).fit(x, y, sample_weight=np.where(y == 0, weight, 1.0)).predict(x).mean()
        for weight in (20.0, 0.05)
    )
    assert heavy < 2.5 < 7.5 < light


def test_weights_have_no_scale_and_equal_ones_change_nothing(frame: pd.DataFrame) -> None:
    x, y = frame.drop(columns="price"), frame["price"]
    plain = regressor().fit(x, y).predict(x)
    np.testing.assert_array_equal(regressor().fit(x, y, sample_weight=np.full(len(y), 4.0)).predict(x), plain)


def test_a_row_of_weight_zero_is_as_if_it_were_not_there() -> None:
    x, y = load_iris(return_X_y=True)
    weights = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0 + np.arange(len(y)) % 2)
    kept = weights > 0
    found, expected = (
        classifier().fit(*given).predict_proba(x) for given in ((x, y, weights), (x[kept], y[kept], weights[kept]))
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("weights", "message"),
    [(np.ones(3), "one number for each of the 150 rows"), (np.zeros(150), "zero"), (-np.ones(150), "at least 0")],
)
def test_weights_that_cannot_be_are_refused(weights: np.ndarray, message: str) -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        classifier().fit(x, y, sample_weight=weights)


def test_a_last_training_asked_for_rows_with_weights_is_refused() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="refit=True is for rows without weights"):
        classifier(refit=True).fit(x, y, sample_weight=np.ones(150))


def test_a_backbone_is_named_and_must_take_rows() -> None:
    x, y = load_iris(return_X_y=True)
    assert classifier(backbone="fc").fit(x, y).network_.config.backbone.name == "fc"
    with pytest.raises(ValueError, match="resnet"):
        classifier(backbone="resnet").fit(x, y)


def test_settings_by_size_are_those_of_a_file() -> None:
    x, y = make_regression(40, 3, random_state=0)
    config = SAERegressor(epochs=2, random_state=0).fit(x, y).network_.config
    assert (config.train.batch_size, config.train.lr) == (32, 3e-3)
    assert config.method.model_dump()["repeat_fraction"] == {"start": 0.0, "end": 0.0}


def test_the_same_seed_gives_the_same_predictions_and_another_does_not(frame: pd.DataFrame) -> None:
    x, y = frame.drop(columns="price"), frame["price"]
    first, again, other = (regressor(random_state=seed).fit(x, y).predict(x) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    moving = np.random.RandomState(0)
    drawn = [regressor(random_state=moving).fit(x, y).predict(x) for _ in range(2)]
    assert not np.array_equal(drawn[0], drawn[1])


def test_training_stops_early_and_keeps_the_best_epoch() -> None:
    x, y = make_regression(60, 4, noise=50.0, random_state=0)
    model = regressor(epochs=200, patience=3).fit(x, y)
    nlls = [row["val_nll"] for row in model.history_]
    assert model.n_iter_ == len(nlls) < 200
    assert model.n_iter_ - (int(np.argmin(nlls)) + 1) <= 3
    assert regressor(epochs=6, patience=0).fit(x, y).n_iter_ == 6


def test_rows_with_new_values_are_predicted_with_a_warning(fitted: SAERegressor, frame: pd.DataFrame) -> None:
    rows = frame.drop(columns="price").iloc[:2].assign(colour="pink")
    with pytest.warns(DataWarning, match="'colour' of X has values that training did not see in 2 rows"):
        assert np.isfinite(fitted.predict(rows)).all()


def test_predict_std_and_intervals_are_those_of_the_distribution(fitted: SAERegressor, frame: pd.DataFrame) -> None:
    x, y = frame.drop(columns="price"), frame["price"].to_numpy()
    model = regressor().fit(x.iloc[:50], y[:50], X_val=x.iloc[50:], y_val=y[50:])
    mean, std = model.predict(x.iloc[50:]), model.predict_std(x.iloc[50:])
    threshold = keep_scores(value_scores(mean, std**2, y[50:]), "standardised_error").threshold(0.8)
    lower, upper = model.predict_interval(x.iloc[50:], coverage=0.8)
    np.testing.assert_allclose(lower, mean - threshold * std)
    np.testing.assert_allclose(upper, mean + threshold * std)
    assert 0.8 <= ((lower <= y[50:]) & (y[50:] <= upper)).mean() < 0.9


def test_sets_hold_the_most_probable_class_and_grow_with_the_coverage() -> None:
    x, y = load_iris(return_X_y=True)
    model = classifier().fit(x, y)
    small, large = model.predict_set(x, coverage=0.5), model.predict_set(x, coverage=0.95)
    assert small[np.arange(len(x)), model.predict_proba(x).argmax(axis=1)].all()
    assert (large >= small).all()
    assert large.sum() > small.sum()


def test_a_coverage_that_the_validation_rows_cannot_promise_is_refused() -> None:
    x, y = make_regression(20, 3, random_state=0)
    with pytest.raises(ValueError, match="at least 99 validation samples, this model has 4"):
        regressor().fit(x, y).predict_interval(x, coverage=0.99)


def test_a_pickle_predicts_the_same_and_holds_no_rows(fitted: SAERegressor, frame: pd.DataFrame) -> None:
    x = frame.drop(columns="price")
    content = pickle.dumps(fitted)
    np.testing.assert_array_equal(pickle.loads(content).predict(x), fitted.predict(x))
    numbers = [*frame["size"].dropna(), *frame["price"]]
    assert not any(np.float64(number).tobytes() in content for number in numbers)
    assert not any(np.float32(number).tobytes() in content for number in numbers)
    weights = sum(array.nbytes for array in fitted.network_.weights.values())
    assert len(content) < weights + 20_000


def test_a_pickle_does_not_grow_with_the_rows() -> None:
    x, y = make_regression(2000, 5, random_state=0)
    sizes = [len(pickle.dumps(regressor(epochs=1).fit(x[:count], y[:count]))) for count in (1000, 2000)]
    assert abs(sizes[1] - sizes[0]) < 500  # the order statistics of intervals stay 200


@pytest.mark.long
def test_an_exported_model_predicts_what_the_estimator_predicts(
    fitted: SAERegressor, frame: pd.DataFrame, tmp_path: Path
) -> None:
    x = frame.drop(columns="price")
    manifest = fitted.export(tmp_path / "model.onnx")
    model = sae.load(tmp_path / "model.onnx")
    prediction = model.predict(x)
    assert isinstance(prediction, ValuePrediction)
    np.testing.assert_allclose(prediction.mean, fitted.predict(x), rtol=1e-5)
    np.testing.assert_allclose(prediction.std, fitted.predict_std(x), rtol=1e-4)
    np.testing.assert_allclose(model.intervals(prediction, 0.8), fitted.predict_interval(x, 0.8), rtol=1e-5)
    assert manifest.parity.samples == 128
    assert list(manifest.metrics) == ["val"]
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "It was trained by an estimator" in card
    assert "| metric | validation |" in card
    assert fitted.export(tmp_path / "model.onnx") == manifest
    with pytest.raises(ModelError, match="already holds a model of another run"):
        regressor(random_state=1).fit(x, frame["price"]).export(tmp_path / "model.onnx")


@pytest.mark.long
def test_an_exported_classifier_names_its_classes(tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = pickle.loads(pickle.dumps(classifier().fit(x, names)))
    model.export(tmp_path / "model.onnx")
    prediction = sae.load(tmp_path).predict(x)
    assert isinstance(prediction, ClassPrediction)
    assert prediction.names == model.predict(x).tolist()
    np.testing.assert_allclose(prediction.probs, model.predict_proba(x), atol=1e-5)


@pytest.mark.parametrize("method", ["standard", "ensemble", "mc_dropout", "batch_ensemble"])
def test_every_method_is_fitted(method: str) -> None:
    x, y = load_iris(return_X_y=True)
    model = classifier(method=method, epochs=2, batch_size=None).fit(x, y)
    assert model.network_.config.method.name == method
    np.testing.assert_array_equal(model.predict_proba(x), pickle.loads(pickle.dumps(model)).predict_proba(x))


@pytest.mark.long
def test_a_search_chooses_the_settings(frame: pd.DataFrame) -> None:
    x, y = frame.drop(columns="price"), frame["price"]
    model = regressor(search="2 trials", exits=1, depth=None, settings={"backbone.width": 2}).fit(x, y)
    assert len(model.trials_) == 2
    assert model.trials_[0].nll <= model.trials_[1].nll
    config = model.network_.config
    assert config.summary == model.trials_[0].settings
    assert (config.method.trained_exits, config.backbone.width) == (1, 2)  # what was set is not varied
    assert np.isfinite(model.predict(x)).all()


@pytest.mark.long
def test_a_search_may_be_given_seconds() -> None:
    x, y = load_iris(return_X_y=True)
    assert classifier(search=1.0, epochs=2).fit(x, y).trials_
    with pytest.raises(ValueError, match="search must give time for at least one trial, but no trial of"):
        classifier(search=1e-9).fit(x, y)


@pytest.mark.slow
def test_a_search_in_processes_finds_what_one_alone_finds() -> None:
    x, y = load_iris(return_X_y=True)
    alone, together = (classifier(search="1 trials", n_jobs=jobs).fit(x, y) for jobs in (1, 2))
    np.testing.assert_array_equal(alone.predict_proba(x), together.predict_proba(x))


def test_a_grid_search_over_a_pipeline_tries_settings() -> None:
    x, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), classifier())
    search = GridSearchCV(pipeline, {"saeclassifier__inputs": [1, 2], "saeclassifier__learning_rate": [0.01]}, cv=2)
    search.fit(x, y)
    assert search.best_score_ > 0.5
    assert search.best_estimator_[-1].network_.config.train.lr == 0.01
    assert clone(search.best_estimator_[-1]).get_params()["learning_rate"] == 0.01


def test_rare_classes_count_more_with_class_weights() -> None:
    x, y = load_iris(return_X_y=True)
    x, y = x[45:], y[45:]
    counts = [classifier(class_weight=weight).fit(x, y).predict(x) for weight in ({0: 1000.0}, {1: 1000.0, 2: 1000.0})]
    assert (counts[0] == 0).sum() > (counts[1] == 0).sum()
    balanced = classifier(class_weight="balanced").fit(x, y)
    config = classifier(settings={"train.class_weights": "balanced"}).fit(x, y)
    np.testing.assert_allclose(balanced.predict_proba(x), config.predict_proba(x))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"epochs": 0}, "train.epochs must be greater than or equal to 1, got 0"),
        ({"exits": 9}, r"method.exits must be in \[1, 2\], got 9"),
        ({"method": "sea"}, "method.name must be one of .*; got 'sea', did you mean sae"),
        ({"settings": {"train.epochz": 3}}, "unknown setting train.epochz, did you mean train.epochs"),
        ({"search": "soon"}, r'search must be a number of seconds, or a text like "20 trials", got \'soon\''),
        ({"search": -1}, "search must be a number of seconds"),
        ({"validation_fraction": 1.0}, "validation_fraction must be above 0 and below 1, got 1.0"),
        ({"random_state": -1}, r"random_state must be in \[0, 2147483647\], got -1"),
    ],
)
def test_wrong_settings_are_value_errors_in_one_sentence(more: dict[str, object], message: str) -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        classifier(**more).fit(x, y)


def test_wrong_data_are_value_errors_in_one_sentence() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="at least 3 rows to train and to validate, got n_samples=2"):
        regressor().fit(x[:2], y[:2])
    with pytest.raises(ValueError, match="X_val and y_val must be given together"):
        regressor().fit(x, y, X_val=x)
    with pytest.raises(ValueError, match="classes must be those of y, got 2 in y_val"):
        classifier().fit(x[:100], y[:100], X_val=x, y_val=y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier().fit(x, y[:-1])
    with pytest.raises(ValueError, match="targets must vary"):
        regressor().fit(x, np.ones(len(x)))
    with pytest.raises(ValueError, match="y must have no missing values, got None"):
        classifier().fit(x, np.array([None, *y[1:]], object))
    with pytest.raises(ValueError, match="the target of a regression must be a number, got 'a'"):
        regressor().fit(x, np.array(["a"] * len(x)))
    with pytest.raises(NotFittedError):
        regressor().export("model.onnx")


def test_a_frame_without_columns_or_with_two_of_one_name_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"0 feature\(s\) in X while a minimum of 1 is required"):
        regressor().fit(frame[[]], frame["price"])
    with pytest.raises(ValueError, match="columns of X must have different names, got 'size' 2 times"):
        regressor().fit(frame[["size", "size"]], frame["price"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"categories": ["sise"]}, "categories must name columns of X, size; got 'sise'"),
        ({"categories": "size"}, r"categories must be a list of columns, got the text 'size': give \['size'\]"),
        ({"dates": ["day"]}, "dates must name columns of X, size; got 'day'"),
        ({"settings": "train.lr=1"}, "settings must be like {\"train.weight_decay\": 1e-4}, got 'train.lr=1'"),
        ({"validation_fraction": "a"}, "validation_fraction must be above 0 and below 1, got 'a'"),
    ],
)
def test_parameters_of_another_kind_are_value_errors(
    more: dict[str, object], message: str, frame: pd.DataFrame
) -> None:
    with pytest.raises(ValueError, match=message):
        regressor(**more).fit(frame[["size"]], frame["price"])


def test_an_array_after_a_frame_is_read_by_position(frame: pd.DataFrame) -> None:
    x, y = frame[["size"]], frame["price"]
    model = regressor().fit(x, y)
    assert model.feature_names_in_.tolist() == ["size"]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(model.predict(x.to_numpy()), model.predict(x))
    assert any("does not have valid feature names" in str(item.message) for item in found)


def test_fitting_leaves_the_global_generators_alone() -> None:
    x, y = load_iris(return_X_y=True)
    torch.manual_seed(3)
    np.random.seed(3)
    expected = torch.rand(1), np.random.rand()
    torch.manual_seed(3)
    np.random.seed(3)
    classifier().fit(x, y).predict(x)
    assert (torch.rand(1), np.random.rand()) == expected


def test_all_rows_are_trained_on_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no network predicts a row for calibration that it was trained on."""
    trained, calibrated = dict[str, Array](), dict[str, Array]()
    whole, measure = Trainer.train_epoch, FittedNetwork.predict_features

    def watched(self: Trainer, epoch: int, *rest: Any) -> dict[str, float]:
        trained[self.config.train.val_too] = self.dataset.train.inputs[:]
        return whole(self, epoch, *rest)

    def predicted(self: FittedNetwork, features: Features) -> Predictive:
        calibrated[self.config.train.val_too] = features
        return measure(self, features)

    monkeypatch.setattr(Trainer, "train_epoch", watched)
    monkeypatch.setattr(FittedNetwork, "predict_features", predicted)
    x, y = make_regression(60, 3, random_state=0)
    model = regressor(refit=True).fit(x, y)
    assert len(trained["all"]) == len(np.unique(trained["all"], axis=0)) == 60
    assert "all" not in calibrated
    for fold in ("first", "second"):
        together = np.concatenate([trained[fold], calibrated[fold]])
        assert len(np.unique(together, axis=0)) == len(together) == 60
    assert model.network_.calibration is not None
    assert model.network_.calibration.samples == 12
    assert regressor().fit(x, y).network_.refit is None  # values gained nothing by it


def test_own_validation_rows_are_never_trained_on() -> None:
    x, y = make_regression(60, 3, random_state=0)
    with pytest.raises(ValueError, match=r"train\.val_too must be none for an estimator, got all"):
        regressor(settings={"train.val_too": "all"}, patience=0).fit(x, y)
    assert regressor(refit=True).fit(x[:40], y[:40], X_val=x[40:], y_val=y[40:]).network_.refit is None


def test_an_export_says_that_all_rows_were_trained_on(tmp_path: Path) -> None:
    x, y = make_classification(80, random_state=0)
    manifest = classifier().fit(x, y).export(tmp_path / "model.onnx")
    assert manifest.refit is not None
    assert manifest.refit.samples == 80
    assert manifest.refit.text in (tmp_path / "README.md").read_text()


def test_a_pickle_of_an_earlier_version_predicts_and_has_every_parameter(frame: pd.DataFrame) -> None:
    x = frame.drop(columns="price")
    model = regressor(refit=False).fit(x, frame["price"])
    expected = model.predict(x)
    del model.refit
    vars(model.network_).pop("refit")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(x), expected)
    assert clone(again).refit is False
    assert again.network_.refit is None


@pytest.mark.slow
def test_intervals_hold_the_promised_share_of_new_rows() -> None:
    """Over eight tables of 200 rows, whose noise grows with x: 40 rows calibrate each."""
    held = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        x = generator.uniform(-2, 2, (2200, 3))
        y = np.sin(2 * x[:, 0]) + x[:, 1] + (0.1 + 0.2 * np.abs(x[:, 0])) * generator.standard_normal(2200)
        model = SAERegressor(random_state=seed, depth=2, epochs=60).fit(x[:200], y[:200])
        lower, upper = model.predict_interval(x[200:], 0.9)
        held.append(float(((lower <= y[200:]) & (y[200:] <= upper)).mean()))
    assert np.mean(held) == pytest.approx(0.9, abs=0.04)  # one table: ± 0.05, as 40 rows calibrate
