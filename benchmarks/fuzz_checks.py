"""Compares every check with its plain twin on random small histories; the first disagreement ends it, with its seed.

    python benchmarks/fuzz_checks.py                                 # 2,000 of each
    python benchmarks/fuzz_checks.py --histories 100000 --first 0 --only kv --only log

Prints how many histories were compared, and their verdicts: an agreement on histories that are all valid says little.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tabulate import tabulate

from checkers.framework.session import spark_session
from checkers.twins.models import TWINS

FORMS = ("list", "register", "log")
VERDICTS = ("valid", "invalid", "unknown")
SUBJECTS = (*TWINS, "log", *(f"transactions-{form}" for form in FORMS))

# The histories and the comparisons are the tests' own.
sys.path.insert(0, str(Path(__file__).parents[1]))
fuzzing = importlib.import_module("tests.support.checks.fuzzing")


def comparison(subject: str) -> Callable[[range], Counter[str]]:
    """What compares a subject on these seeds."""
    if subject in TWINS:
        return partial(fuzzing.compare_models, subject)
    if subject == "log":
        return fuzzing.compare_logs
    form = subject.removeprefix("transactions-")
    return lambda seeds: fuzzing.compare_transactions(form, seeds, spark_session())


def main() -> None:
    """Compare, and print a row as each subject is done."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--histories", type=int, default=2000, help="how many of each subject")
    arguments.add_argument("--first", type=int, default=0, help="the first seed")
    arguments.add_argument("--only", action="append", choices=SUBJECTS, help="a subject; may be given again")
    chosen = arguments.parse_args()
    rows = []
    for subject in chosen.only or SUBJECTS:
        began = time.perf_counter()
        try:
            verdicts = comparison(subject)(range(chosen.first, chosen.first + chosen.histories))
        except fuzzing.Disagreement as difference:
            raise SystemExit(f"check and twin differ: {difference}") from None
        rows.append(
            [subject, verdicts.total(), *(verdicts[verdict] for verdict in VERDICTS), time.perf_counter() - began]
        )
        print(f"{subject}: {verdicts.total():,} agree", file=sys.stderr, flush=True)
    print(tabulate(rows, headers=["compared", "histories", *VERDICTS, "s"], intfmt=",", floatfmt=".0f"))


if __name__ == "__main__":
    main()
