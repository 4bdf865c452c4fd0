"""Lists, counts and durations in words."""

from collections.abc import Sequence


def listed(words: Sequence[str]) -> str:
    """Join words with commas and `and`.

    Example:
        >>> listed(["F1"]), listed(["F1", "NLL", "MSE"]), listed([])
        ('F1', 'F1, NLL and MSE', '')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def quoted(name: str) -> str:
    """Return a name as options take it in a list, where commas separate names.

    Example:
        >>> quoted("height"), quoted("height, cm")
        ('height', '"height, cm"')
    """
    doubled = name.replace('"', '""')
    return f'"{doubled}"' if set(name) & set(',"') else name


def count(number: int, noun: str) -> str:
    """Format a count with its noun.

    Example:
        >>> count(1, "run"), count(2, "run"), count(0, "run")
        ('1 run', '2 runs', '0 runs')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def percent(share: float, digits: int = 0) -> str:
    """Format a share in per cent.

    Example:
        >>> percent(0.05), percent(0.0222, 1)
        ('5 %', '2.2 %')
    """
    return f"{100 * share:.{digits}f} %"


def short_count(value: float) -> str:
    """Format a count with three digits and a letter for its size.

    Example:
        >>> short_count(210944), short_count(1.5e9), short_count(64)
        ('211k', '1.5G', '64')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{float(f'{value / size:.3g}'):g}{letter}"
    return f"{value:g}"


def duration(seconds: float) -> str:
    """Format a duration in its two largest units; zeros are left out.

    Example:
        >>> duration(7.2), duration(75), duration(180), duration(4000), duration(7200)
        ('7 s', '1 min 15 s', '3 min', '1 h 6 min', '2 h')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    largest, next_one = ((hours, "h"), (minutes, "min")) if hours else ((minutes, "min"), (rest, "s"))
    parts = [f"{number} {unit}" for number, unit in (largest, next_one) if number]
    return " ".join(parts) or "0 s"


def rounded(seconds: float) -> float:
    """Round an estimate of over a minute to whole minutes.

    Example:
        >>> rounded(59.0), rounded(200.0)
        (59.0, 180.0)
    """
    return seconds if seconds < 60 else 60.0 * round(seconds / 60)
