"""The section about errors: made from kept predictions and the data, or saying what is missing."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sae.analysis.mistakes import Segment
from sae.data.catalogue import load
from sae.records.predictions import Predictions, SplitPredictions
from sae.report.build import report_of
from sae.report.content import Gallery, Lead, Note, Section
from sae.report.findings import find
from sae.report.mistake_sections import mistakes_section, segment_table
from sae.report.page import render_page
from sae.report.samples import png_address
from tests.studies import StudyBuilder
from tests.study_stages import confirmed_study


def keep(study: StudyBuilder, *, targets: np.ndarray | None = None) -> Predictions:
    """Predictions of the pick's first run on the digits, nine in ten of them right."""
    found = find(study.record)
    run = found.shown["pick"].runs[0]
    assert run.config is not None
    truth = load(run.config.data, run.config.seed).test.targets if targets is None else targets
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(10, 0.3), len(truth)) * 0.2
    guess = np.where(rng.random(len(truth)) < 0.9, truth, (truth + 1) % 10)
    probabilities[np.arange(len(truth)), guess] += 0.8
    split = SplitPredictions("x", truth, {k: np.log(probabilities + 1e-9).astype(np.float32) for k in (1, 2, 3)})
    predictions = Predictions("classification", split, split)
    predictions.write(run.record)
    return predictions


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyBuilder:
    study = confirmed_study(tmp_path_factory.mktemp("mistakes") / "study", shift=False)
    keep(study)
    return study


@pytest.fixture(scope="module")
def made(study: StudyBuilder) -> Section:
    return mistakes_section(find(study.record))


def test_pictures_are_the_samples_of_the_test_split(made: Section, study: StudyBuilder) -> None:
    config = find(study.record).shown["pick"].runs[0].config
    assert config is not None
    inputs = load(config.data, config.seed).test.inputs
    gallery = next(part for part in made.parts if isinstance(part, Gallery))
    assert gallery.name == "confident-errors"
    for picture in gallery.pictures:
        content = base64.b64decode(picture.address.partition(",")[2])
        pixels = np.asarray(Image.open(io.BytesIO(content)))
        np.testing.assert_array_equal(pixels, inputs[np.array([picture.number])][0, 0])
        assert picture.is_wrong
        assert picture.lines[0].startswith("said ")


def test_a_section_has_pictures_classes_confusions_and_segments(made: Section) -> None:
    names = [part.name for part in made.parts if not isinstance(part, Note | Lead)]
    galleries = ["confident-errors", "least-confident", "abstained"]
    assert names == [*galleries, "abstaining", "confusion", "classes", "segments"]
    assert "samples are wrong" in made.intro


def test_without_predictions_the_command_that_keeps_them_is_named(tmp_path: Path) -> None:
    made = mistakes_section(find(confirmed_study(tmp_path / "s", shift=False).record))
    (note,) = made.parts
    assert isinstance(note, Note)
    assert "--keep-predictions" in note.text


def test_other_data_give_one_sentence_and_the_parts_that_need_no_data(tmp_path: Path) -> None:
    study = confirmed_study(tmp_path / "s", shift=False)
    keep(study, targets=np.arange(200) % 10)
    made = mistakes_section(find(study.record))
    assert isinstance(made.parts[0], Note)
    assert "the data have changed" in made.parts[0].text
    assert not any(isinstance(part, Gallery) for part in made.parts)
    assert {"confusion", "classes"} <= {part.name for part in made.parts if not isinstance(part, Note | Lead)}


def test_a_page_holds_the_pictures_and_stays_small(study: StudyBuilder) -> None:
    text = render_page(report_of([study.record]))
    assert text.count("data:image/png;base64") == 24
    assert len(text.encode()) < 5e6


@pytest.mark.parametrize("shape", [(1, 200, 100), (3, 8, 8)])
def test_large_images_are_made_smaller(shape: tuple[int, int, int]) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    content = base64.b64decode(png_address(values).partition(",")[2])
    assert max(Image.open(io.BytesIO(content)).size) <= 64


def test_a_segment_that_is_no_worse_than_the_whole_is_not_called_weak() -> None:
    segments = [Segment(name, 30, error, 0.8) for name, error in (("a", 0.4), ("b", 0.2), ("c", 0.1))]
    table = segment_table(segments, overall=0.2)
    assert table is not None
    assert [row[0].value for row in table.rows] == ["a"]
    assert "Worse than the whole: 1 of 3 segments" in table.caption
    assert segment_table(segments[1:], overall=0.2) is None
