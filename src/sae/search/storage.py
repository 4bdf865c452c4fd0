"""Where Optuna keeps a study: opening it, and what to say when it is out of reach."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.study import StudyDirection
from sqlalchemy.exc import SQLAlchemyError

from sae.config.study import StudyConfig
from sae.core.errors import ConfigError, SaeError
from sae.core.objectives import Objective
from sae.search.method_study import MethodStudy
from sae.search.space import Space


@contextmanager
def reaching_storage() -> Iterator[None]:
    """Say it in our words if the database is out of reach; what was told it is safe there."""
    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise SaeError(
            f"the database of the study must stay within reach, however it is not ({reason}): "
            f"when it is back, the same command continues the search"
        ) from None


def check_storage(storage: str) -> None:
    """Refuse a database that cannot be reached, before a folder is made, or cleared, for its study."""
    backend = _open_database(storage)
    backend.remove_session()
    backend.engine.dispose()


def open_studies(
    storage: str, config: StudyConfig, spaces: Sequence[Space], objectives: Sequence[Objective]
) -> list[MethodStudy]:
    """The Optuna study of each method, new or as an earlier session left it.

    Args:
        storage: URL of a database.
        config: The settings of the study.
        spaces: By method.
        objectives: What is optimised.
    """
    backend = _open_database(storage)
    names = [objective.name for objective in objectives]
    ways = StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE
    directions = [ways[objective.quantity.maximise] for objective in objectives]
    studies = []
    for space in spaces:
        study = optuna.create_study(
            storage=backend, study_name=f"{space.method} {config.id}", directions=directions, load_if_exists=True
        )
        if study.metric_names != names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                study.set_metric_names(names)
        studies.append(MethodStudy(space, config, study))
    return studies


def close_storage(studies: Sequence[MethodStudy]) -> None:
    """Let go of the connections to a database, which a long-lived process would run out of."""
    for study in studies:
        storage = study.optuna._storage
        storage.remove_session()
        engine = getattr(getattr(storage, "_backend", storage), "engine", None)
        if engine is not None:
            engine.dispose()


def _open_database(storage: str) -> optuna.storages.RDBStorage:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return optuna.storages.RDBStorage(storage)
    except (SQLAlchemyError, StorageInternalError, ImportError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"--storage takes the URL of a database that can be reached, e.g. sqlite:///study.db: {reason}"
        ) from None
