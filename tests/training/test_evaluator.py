from pathlib import Path

import torch

from sae.records.run import RunRecord
from sae.training.run import network_of, train
from tests.builders import run_config, small_sae
from tests.networks import network_config, recorded


def test_the_recorded_parts_sum_to_the_recorded_costs(tmp_path: Path) -> None:
    record = train(run_config(train={"epochs": 1}), tmp_path / "run")
    network = record.read_network()
    assert network is not None
    readings = record.read_evaluation().test.readings
    assert [reading.eval_exits for reading in network.readings] == [reading.eval_exits for reading in readings]
    for reading in readings:
        total = network.at(reading.eval_exits).total
        assert {key: getattr(total, key) for key in reading.costs} == reading.costs


def test_an_older_run_is_counted_on_its_weights_and_then_has_the_same_file(tmp_path: Path) -> None:
    record = train(run_config(train={"epochs": 1}), tmp_path / "run")
    written = (record.path / RunRecord.NETWORK).read_bytes()
    (record.path / RunRecord.NETWORK).unlink()
    assert record.read_network() is None
    network = network_of(record)
    assert network == record.read_network()
    assert (record.path / RunRecord.NETWORK).read_bytes() == written


def test_the_whole_network_has_exits_that_no_input_ever_keeps() -> None:
    method = small_sae("fc", num_inputs=2, exits=1)
    config = network_config("fc", {"name": "sae", "inputs": 2, "exits": 1})
    whole = recorded(method, config).whole
    with torch.no_grad():
        method.exit_distribution.logits[:, 0] = -100.0  # its weight is below the least that counts
    network = recorded(method, config)
    assert "exit_1" not in {part.name for part in network.at(method.depth).parts}
    assert network.whole == whole


def test_a_member_is_an_input_at_an_exit_with_its_weight() -> None:
    method = small_sae("fc", num_inputs=2, exits=2)
    network = recorded(method, network_config("fc", {"name": "sae", "inputs": 2, "exits": 2}))
    weights = method.exit_weights(1) / 2
    found = {(member.input, member.exit): member.weight for member in network.at(1).members}
    assert found == {(i + 1, j + 1): weights[i, j].item() for i, j in weights.nonzero().tolist()}
