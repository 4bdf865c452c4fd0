import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sae.config.run import DataConfig
from sae.data import embedded
from sae.data.halving import split_in_two


@given(
    st.lists(st.integers(0, 4), max_size=60),
    st.sampled_from([0.4, 0.5]),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_a_split_is_that_of_scikit_learn(drawn: list[int], share: float, seed: int, has_labels: bool) -> None:
    labels = np.array(drawn, int) if has_labels else None
    try:
        expected = train_test_split(np.arange(len(drawn)), test_size=share, random_state=seed, stratify=labels)
    except ValueError:
        with pytest.raises(ValueError, match="both parts must hold"):
            split_in_two(len(drawn), share, seed, labels)
        return
    for part, other in zip(split_in_two(len(drawn), share, seed, labels), expected, strict=True):
        np.testing.assert_array_equal(part, other)


def test_the_digits_are_those_of_scikit_learn() -> None:
    bunch, found = load_digits(), embedded._digits()
    np.testing.assert_array_equal(found, np.hstack([bunch.data, bunch.target[:, None]]))
    assert found.dtype == bunch.data.dtype


def test_the_digits_are_the_same_where_scikit_learn_keeps_them_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = embedded.read_digits(DataConfig(name="digits"), 0)
    monkeypatch.setattr(embedded, "DIGITS_FILE", "nowhere.csv.gz")
    monkeypatch.setattr(embedded, "_digits", embedded._digits.__wrapped__)  # a process reads them once
    other = embedded.read_digits(DataConfig(name="digits"), 0)
    np.testing.assert_array_equal(usual.train.inputs, other.train.inputs)
    np.testing.assert_array_equal(usual.test.targets, other.test.targets)


def test_digits_are_read_and_split_without_importing_scikit_learn() -> None:
    code = (
        "import sys; from sae.config.run import DataConfig; from sae.data.embedded import read_digits; "
        "read_digits(DataConfig(name='digits'), 0); assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
