"""Judges a server of the Model Context Protocol, in any language, by SPEC.md.

    python -m tests.conformance 'node server.mjs'           all clauses of the levels that the server holds
    python -m tests.conformance 'node server.mjs' '003.*'   these alone

The exit code is 1 where a claimed clause failed, and 2 where nothing was judged. BASH_TOOL_CLAIMS is JSON, {"levels":
["core", "server"], "known failures": ["003.9"]}; without levels the judge finds them by asking. BASH_TOOL_VERDICT names
a file for the verdict.
BASH_TOOL_SEED and BASH_TOOL_SITUATIONS say which questions are asked again, and how many, in another situation.
BASH_TOOL_ADAPTER describes a tool with other names; see `Adapter` in judge.py.
"""

import signal
import sys

from tests.conformance import borders, core, jobs, output, server, situations  # noqa: F401  (most register questions)
from tests.conformance.judge import judge

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        # Leaves nothing behind. A handler also where nohup(1), or a shell's `&`, has had the signal ignored: the
        # servers that are judged would inherit that (execve(2)).
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    sys.exit(judge(sys.argv[1], sys.argv[2:], situations.drawn))
