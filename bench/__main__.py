"""`make bench`: every number in the README, printed by the command that measures it.

    python -m bench            all of it (some five minutes)
    python -m bench rates wake some of it

What is compared runs in the same minute on the same server with the same settings, in alternation; ratios are medians over
the rounds. Measure on an idle machine: two cores are few for a broker, a store and a client.
"""

from __future__ import annotations

import argparse
import os
import sys

from bench import flat, hook, mcp, memory, rates, streams, threads, waiters, wake

PARTS = {
    "rates": rates, "wake": wake, "memory": memory, "flat": flat, "hook": hook, "mcp": mcp, "streams": streams,
    "waiters": waiters, "threads": threads,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="which; none: all")
    wanted = parser.parse_args().parts or list(PARTS)
    for name in list(os.environ):
        if name.startswith("INBOXD_") or name in ("REDIS_URL", "PORT"):
            del os.environ[name]
    missed = []
    for part in wanted:
        print(f"\n== {part}: {(PARTS[part].__doc__ or '').splitlines()[0]}", flush=True)
        for line in PARTS[part].run():
            print("  " + line.text(), flush=True)
            if line.misses:
                missed.append(line)
    if missed:
        print(f"\n{len(missed)} of the bounds above were missed.")
    return 1 if missed else 0


sys.exit(main())
