"""What all test processes have in common: one thread, the same instructions of the processor, no time limits, no waste.

Small networks and matrices gain nothing from more threads, and workers would fight over cores: threads of NumPy and
scikit-learn keep a core busy while they wait for each other, which took five sixths of the time of some tests. Stored
numbers were computed with AVX2. AVX-512 rounds differently, which a training of some epochs amplifies, so tests do
without it; processes that tests start inherit these choices. Other kinds of processors ignore the last. Hypothesis
limits the time of an example and of drawing its data, which depends on the machine. Commands are built from the
functions behind them once, not for every call, and what imports have made is never searched for garbage.
"""

import atexit
import functools
import gc
import os

os.environ["OMP_NUM_THREADS"] = "1"  # of torch and scikit-learn, which read it when they are imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of NumPy and SciPy
os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it; tables are as wide as in a pipe unless a test says otherwise

from hypothesis import HealthCheck, settings

settings.register_profile("no time limits", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no time limits")


def pytest_collection_finish() -> None:
    """Save time before the tests: pytest-xdist calls this in the processes that run them."""
    import typer.testing

    typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()
    atexit.register(gc.freeze)  # a process that ends need not search what is left for garbage
