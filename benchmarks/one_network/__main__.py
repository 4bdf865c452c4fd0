"""The command: run missing trainings, measure, or print the tables."""

import argparse
from pathlib import Path

import torch

import benchmarks.one_network
from benchmarks.docs_tables import write_tables
from benchmarks.one_network.page import draw_front, tables
from benchmarks.one_network.queue import Queue
from benchmarks.one_network.regimes import draw_map, work_on_map
from benchmarks.one_network.results import collect, read_results, store
from benchmarks.one_network.rows import MATCHES, ROWS, SETS


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=benchmarks.one_network.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=MATCHES)
    parser.add_argument(
        "--rows", nargs="*", choices=ROWS, help="what to train, by default all rows of the set; nothing: collect"
    )
    parser.add_argument("--seeds", nargs="+", type=int, help="only train these; several processes share the work")
    parser.add_argument("--measure", action="store_true", help="then measure under shift and on another set")
    parser.add_argument("--time", action="store_true", help="then measure times")
    parser.add_argument("--regimes", action="store_true", help="train the map over sizes and widths")
    parser.add_argument("--table", action="store_true", help="only print the tables of what is stored")
    parser.add_argument("--write", action="store_true", help="put the tables and the pictures into the docs")
    parser.add_argument("--out", type=Path, default=Path("runs/one_network"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    results = read_results()
    if given.name and not given.table:
        earlier = results.get(given.name, {})
        queue = Queue(given.name, given.out, {row: item.rates for row, item in earlier.items()})
        queue.work(SETS[given.name].rows if given.rows is None else given.rows, given.seeds)
        if given.seeds:
            return
        found = collect(queue, earlier, measure=given.measure, time=given.time)
        store({**read_results(), given.name: found})  # another process may have stored another set meanwhile
    if given.regimes and not given.table:
        work_on_map(given.out)
    for text in tables().values():
        print(text, end="\n\n")
    if given.write:
        write_tables("reproduction.md", tables())
        draw_front()
        draw_map()


if __name__ == "__main__":
    main()
