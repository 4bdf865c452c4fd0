"""Settings of a search, and of the study folder that it writes."""

from typing import Literal, Self

from pydantic import Field, model_validator

from sae.config.methods import DEFAULT_METHOD
from sae.config.settings import Settings, Values, later
from sae.core.objectives import DEFAULT_OBJECTIVES, SHIFTED, TaskName

SAMPLERS = ("gp", "scalarized", "tpe", "nsga2", "random", "grid")
Sampler = Literal["gp", "scalarized", "tpe", "nsga2", "random", "grid"]

Value = bool | int | float | str | None
"""A value that Optuna can suggest for a hole."""

ShiftSets = Literal["all", "few"]
"""Corrupted versions of the validation split: all 95, or 8 of four corruptions."""

LARGEST_STARTUP = 50
"""Most random trials before the model, as in the paper; small budgets have fewer."""
TIMED_STARTUP = 20
"""The number of random trials if only time limits a search, so that the number of trials is unknown."""
GP_OBJECTIVES = 3
"""Up to this many objectives the default sampler models the front; above, it uses random scalarisations."""
DEFAULT_TRIALS = 100


class SearchConfig(Settings):
    """Settings of a search: objectives, limits and budget. Every setting has a default."""

    methods: tuple[str, ...] = Field((DEFAULT_METHOD,), min_length=1, description="methods to search")
    objectives: tuple[str, ...] | None = Field(
        None, description="validation metrics and costs; by default nll, cc_ece, flops (regression: nll, mse, flops)"
    )
    max: dict[str, float] = Field({}, description="upper limits on metrics and costs")
    min: dict[str, float] = Field({}, description="lower limits on them")
    trials: int | None = Field(
        None, ge=1, description=f"trials per method; if nothing limits, {DEFAULT_TRIALS} of each sampled one"
    )
    hours: float | None = Field(None, gt=0, description="no trial is started after this time")
    sampler: Sampler | None = Field(None, description="by default gp, or scalarized above 3 objectives")
    startup: int | None = Field(None, ge=1, description="random trials first; by default a quarter, at most 50")
    first: tuple[dict[str, Value], ...] = Field(
        (), description="values of holes by their paths, tried before random trials wherever a space has them"
    )
    grid: int = Field(200, ge=1, description="finite spaces of at most this many configurations are tried one by one")
    k_free: bool = Field(False, description="with sampler grid: train the largest K only")
    shift: bool = Field(False, description="evaluate every trial on corrupted validation and test sets, 95 of each")
    shift_sets: ShiftSets | None = Field(
        None, description="corrupted validation sets: all 95 (default with shift), or few, 8 (default for @shift alone)"
    )
    shift_trials: bool = Field(
        True, description="with shift: corrupted test sets for every trial; if not, for those that are confirmed only"
    )
    workers: int | None = Field(None, ge=1, description="trials at once; by default one for each core")
    stop_early: bool = Field(False, description="stop trials that are dominated at rungs of epochs")
    reduction: int = Field(3, ge=2, description="one in this many trials passes a rung")

    @model_validator(mode="after")
    def _methods_differ(self) -> Self:
        if len(set(self.methods)) < len(self.methods):
            raise ValueError(f"methods must differ, got {', '.join(self.methods)}")
        return self

    def objectives_for(self, task: str) -> tuple[str, ...]:
        """Return the names of the objectives for a task."""
        return self.objectives or DEFAULT_OBJECTIVES[task]

    def sampler_for(self, num_objectives: int) -> Sampler:
        """Return the sampler that was asked for, or the one that suits the number of objectives."""
        return self.sampler or ("gp" if num_objectives <= GP_OBJECTIVES else "scalarized")

    @property
    def budget(self) -> int | None:
        """Sampled trials per method, or None if time is the only limit."""
        return self.trials or (None if self.hours else DEFAULT_TRIALS)

    @property
    def startup_trials(self) -> int:
        """Random trials before the sampler's model.

        Example:
            >>> SearchConfig(trials=40).startup_trials, SearchConfig(trials=500).startup_trials
            (10, 50)
        """
        if self.startup is not None:
            return self.startup
        if self.budget is None:
            return TIMED_STARTUP
        return min(LARGEST_STARTUP, max(4, self.budget // 4), self.budget)


class ChoiceConfig(Settings):
    """Settings that choose how many configurations of a front are trained again."""

    most: int | None = Field(None, ge=1, description="at most this many of the front; by default all of it")
    each: int = Field(0, ge=0, description="also this many of each kind's own front")
    total: int | None = Field(None, ge=1, description="at most this many in all: the pick, then each, then the front")


class ShiftedChoice(ChoiceConfig):
    """The same for the front under shift, which need not be trained again."""

    most: int | None = Field(
        None, ge=0, description="at most this many of the front under shift; by default all of it, 0 for nothing at all"
    )


class ConfirmConfig(ChoiceConfig):
    """Settings of the confirmation after a search; confirmed runs are kept when these change."""

    seeds: int = Field(0, ge=0, description="number of other seeds; 0 for none")
    shifted: ShiftedChoice = Field(
        ShiftedChoice(), description="for the front under shift; by default the same numbers"
    )

    predictions: bool = Field(
        True, description="keep the predictions for every sample, so that runs can be compared sample by sample"
    )

    distill: bool = Field(
        False, description="also train the pick and the best standard network with the best ensemble as teacher"
    )

    @model_validator(mode="after")
    def _has_seeds(self) -> Self:
        if self.distill and not self.seeds:
            raise ValueError("confirm.distill needs seeds to train on: give --confirm SEEDS, or confirm.seeds")
        if "seeds" not in self.model_fields_set and self.model_fields_set:
            raise ValueError("confirm.most, each, total and shifted need seeds: give --confirm SEEDS, or confirm.seeds")
        return self

    @property
    def under_shift(self) -> ChoiceConfig:
        """How many of the front under shift are trained again; unset numbers are those of the clean front."""
        clean = {name: getattr(self, name) for name in ChoiceConfig.model_fields}
        return ShiftedChoice.model_validate(clean | self.shifted.model_dump(exclude_unset=True))


class StudyConfig(Settings):
    """Everything that the trials of a study depend on; settings that may change between sessions are not here.

    Attributes:
        id: Identifies the study among others in the same storage.
        task: `classification` or `regression`.
        spaces: The settings of runs with holes, by method.
        objectives: Names of the objectives.
        max: Upper limits on metrics and costs.
        min: Lower limits on metrics and costs.
        sampler: How sampled trials are chosen.
        startup: Random trials before the sampler's model.
        first: Values of some holes to begin with, by method; other holes are random there.
        grid: A space of at most this many configurations is tried one by one.
        rungs: Epochs at which dominated trials are stopped; none if they are not.
        reduction: One in this many trials passes a rung.
        shift: Whether runs are evaluated on the 95 corrupted test sets: confirmed ones, and trials if `shift_trials`.
        shift_sets: The corrupted validation sets that trials are evaluated on. None in older studies and where only an
            objective or limit needs them; see `val_sets`.
        shift_trials: Whether trials, too, are evaluated on the corrupted test sets, on which nothing is chosen.
        seed: Seed of the search and of its runs.
    """

    id: str
    task: TaskName
    spaces: dict[str, Values]
    objectives: tuple[str, ...]
    max: dict[str, float]
    min: dict[str, float]
    sampler: Sampler
    startup: int
    first: dict[str, tuple[dict[str, Value], ...]] = later({})
    grid: int
    rungs: tuple[int, ...]
    reduction: int
    shift: bool
    shift_sets: ShiftSets | None = later(None)
    shift_trials: bool = later(True)
    seed: int

    @property
    def val_sets(self) -> ShiftSets | None:
        """The corrupted validation sets that trials are evaluated on; None for none."""
        names = (*self.objectives, *self.max, *self.min)
        return self.shift_sets or ("few" if any(name.endswith(SHIFTED) for name in names) else None)
