from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sae.config.run import parse_run
from sae.data.dataset import Dataset
from sae.deploy.eager import eager_model, load_weights, read_eager, write_eager
from sae.records.run import RunRecord
from tests.builders import SMALL_BACKBONES, SMALL_METHODS, method_settings
from tests.deploy.models import digit_values, digits, stirred_method


@pytest.mark.parametrize("method", SMALL_METHODS)
@pytest.mark.parametrize("make_dataset", [digits, digit_values])
def test_another_process_gets_the_same_network(
    method: str, make_dataset: Callable[[], Dataset], tmp_path: Path
) -> None:
    dataset = make_dataset()
    trained = stirred_method(method, "vgg", dataset)
    settings = {"method": method_settings(method).model_dump(), "backbone": SMALL_BACKBONES["vgg"].model_dump()}
    record = RunRecord.create(tmp_path / "run", parse_run({"data": {"name": "digits"}}, settings, {"seed": 3}))
    record.end("finished")
    sent = eager_model(trained, dataset, trained.exit_choices[0])
    write_eager(tmp_path / "x.safetensors", record.path, sent)
    received = read_eager(tmp_path / "x.safetensors")
    assert all(values.is_meta for values in received.module.parameters())
    load_weights(received, tmp_path / "x.safetensors")
    samples = torch.from_numpy(dataset.test.inputs[:8])
    with torch.inference_mode():
        for ours, theirs in zip(received.module(samples), sent.module(samples), strict=True):
            assert torch.equal(ours, theirs)
