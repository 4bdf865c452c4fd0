"""`sae experiment` and `sae demo` up to the moment when work begins; the work itself is in end_to_end."""

from pathlib import Path

import pytest

import sae.cli.search
from sae.search.run import Place, SearchPlan
from tests.cli.test_cli import sae as run_sae


class CarriedOut:
    """What a command would do."""

    def __init__(self) -> None:
        self.place: Place | None = None
        self.plan: SearchPlan | None = None
        self.json: bool | None = None

    def __call__(self, place: Place, plan: SearchPlan, *, json: bool) -> None:
        self.place, self.plan, self.json = place, plan, json

    @property
    def out(self) -> Path:
        assert self.place is not None, "nothing was carried out"
        return self.place.out


@pytest.fixture
def carried_out(monkeypatch: pytest.MonkeyPatch) -> CarriedOut:
    found = CarriedOut()
    monkeypatch.setattr(sae.cli.search, "carry_out", found)
    return found


def test_flags_go_over_the_preset_and_settings_over_flags(carried_out: CarriedOut) -> None:
    flags = "--trials 9 --epochs 2 --seed 5 --set train.epochs=1 --set confirm.seeds=1 --force"
    assert run_sae("experiment", "digits", *flags.split())[0] == 0
    plan = carried_out.plan
    assert plan is not None
    assert (plan.settings.trials, plan.study.seed, plan.confirm.seeds) == (9, 5, 1)
    assert plan.study.spaces["sae"]["train"]["epochs"] == 1
    assert carried_out.out == Path("experiments/digits-small")
    assert carried_out.place is not None
    assert (carried_out.place.force, carried_out.json) == (True, False)


def test_the_folder_is_named_after_the_file_and_the_budget(carried_out: CarriedOut, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("data: digits\n")
    assert run_sae("experiment", tmp_path / "mine.yaml", "--budget", "paper")[0] == 0
    assert carried_out.out == Path("experiments/mine-paper")
    assert run_sae("experiment", tmp_path / "mine.yaml", "--out", tmp_path / "x")[0] == 0
    assert carried_out.out == tmp_path / "x"


def test_a_demo_is_a_small_experiment_on_digits(carried_out: CarriedOut) -> None:
    assert run_sae("demo", "--trials", "3", "--epochs", "1", "--json")[0] == 0
    plan = carried_out.plan
    assert plan is not None
    assert (plan.settings.trials, plan.confirm.seeds, plan.study.shift) == (3, 2, True)
    assert plan.study.spaces["sae"]["data"]["name"] == "digits"
    assert (carried_out.out, carried_out.json) == (Path("runs/demo"), True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("digits --budget large", "budget must be one of small, paper; got 'large'"),
        ("digit", "did you mean digits?"),
        ("absent.yaml", "config file must be readable"),
        ("digits --set train.epochz=3", "did you mean train.epochs?"),
        ("digits --set confirm.seed=3", "did you mean seeds?"),
        ("digits --set search.methods=[sea]", "did you mean sae?"),
        ("diabetes --set search.shift=true", "--shift needs images"),
        ("digits --executor local --address 1.2.3.4:5", "--address needs --executor ray"),
    ],
)
def test_a_mistake_costs_one_sentence_and_leaves_no_folder(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = run_sae("experiment", *arguments.split())
    assert (code, out) == (2, "")
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_limits_are_taken_by_name(carried_out: CarriedOut) -> None:
    code, _, error = run_sae("experiment", "digits", "--max", "flops=2e5", "--min", "f1=0.5")
    assert code == 0, error
    assert carried_out.plan is not None
    assert (carried_out.plan.study.max, carried_out.plan.study.min) == ({"flops": 2e5}, {"f1": 0.5})
