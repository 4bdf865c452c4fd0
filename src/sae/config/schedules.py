"""Schedules: values that move over the training steps."""

from pydantic import Field

from sae.config.settings import Settings


class Schedule(Settings):
    """A value that moves linearly over the training steps."""

    start: float
    end: float

    def at(self, progress: float) -> float:
        """Return the value at a progress in [0, 1].

        Example:
            >>> Schedule(start=1.0, end=0.0).at(0.25)
            0.75
        """
        return self.start * (1 - progress) + self.end * progress  # exact at both ends


class UnitSchedule(Schedule):
    """A schedule of fractions, in [0, 1]."""

    start: float = Field(ge=0, le=1)
    end: float = Field(ge=0, le=1)


class TemperatureSchedule(Schedule):
    """A schedule of temperatures, in [1e-3, 1]."""

    start: float = Field(ge=1e-3, le=1)
    end: float = Field(ge=1e-3, le=1)
