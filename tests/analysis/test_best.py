from sae.analysis.best import best_by_kind
from tests.results import result

EE = {"name": "sae", "inputs": 1, "exits": 2}
TASK = "classification"


def test_each_class_has_its_best_in_each_metric() -> None:
    found = [
        result("sae/1", {"f1": 0.8, "nll": 0.5}, method=EE),
        result("standard/0", {"f1": 0.7, "nll": 0.6}),
        result("sae/2", {"f1": 0.9, "nll": 0.7}, method=EE),
    ]
    rows = [
        (best.kind, best.metric, best.result.label, best.configurations)
        for best in best_by_kind(found, ["f1", "nll"], TASK)
    ]
    assert rows == [
        ("EE", "f1", "sae/2", 2),
        ("EE", "nll", "sae/1", 2),
        ("standard", "f1", "standard/0", 1),
        ("standard", "nll", "standard/0", 1),
    ]


def test_of_equals_the_cheapest_is_the_best() -> None:
    found = [
        result("a", {"nll": 1.0}, flops=None),
        result("b", {"nll": 1.0}, flops=20),
        result("c", {"nll": 1.0}, flops=10),
    ]
    assert best_by_kind(found, ["nll"], TASK)[0].result.label == "c"


def test_a_class_without_numbers_has_no_best() -> None:
    found = [result("a", {"nll": 1.0}), result("b", {"f1": 1.0}, method=EE, shift={"nll": 1.0})]
    assert [(best.kind, best.metric) for best in best_by_kind(found, ["nll"], TASK)] == [("standard", "nll")]
    assert [(best.kind, best.metric) for best in best_by_kind(found, ["nll"], TASK, "shift")] == [("EE", "nll")]
