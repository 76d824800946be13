"""The vectors of SPEC.md.

python -m tests.vectors               makes all files anew from the oracle; the exit code is 1 where one differs
python -m tests.vectors texts cuts    these alone
python -m tests.vectors saboteurs     which saboteurs of the functions that they ask the vectors find
"""

import json
import sys

from tests.spec import LEVELS_OF
from tests.support import bash_tool
from tests.vectors import FOREGROUND_S, KINDS, levels_of, lines_of, path_of
from tests.vectors.inputs import INPUTS


def made(kind):
    """The cases of a kind, as the oracle answers them. One of MODES that speaks of background commands comes twice: also
    as a tool without them answers it."""

    def answered(case):
        expected = KINDS[kind](bash_tool, case)
        return {"clause": case["clause"], "level": levels_of(case, expected), **case, "expect": expected}

    cases = {json.dumps(case): answered(case) for case in INPUTS[kind]()}  # each once
    for case in cases.values():
        yield case
        if case["level"] == ["jobs"] != LEVELS_OF.get(case["clause"]) and "profile" in case and "limits" not in case:
            asked = {key: value for key, value in case.items() if key not in ("level", "expect")}
            yield answered({**asked, "limits": {"timeouts_s": FOREGROUND_S}})


def main(chosen):
    """Writes the files of these kinds. Returns how many differ from what stood there."""
    differing = 0
    for kind in chosen or INPUTS:
        cases, path = [*made(kind)], path_of(kind)
        text = lines_of(cases)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        old, new = ({*each.splitlines()} for each in (before, text))
        differing += before != text
        path.write_text(text, encoding="utf-8")
        print("%s: %d cases, %d bytes, %d lines are new" % (kind, len(cases), len(text), len(new - old)))
    return differing


if __name__ == "__main__":
    if sys.argv[1:] == ["saboteurs"]:
        from tests.vectors.saboteurs import main
    sys.exit(main(sys.argv[1:]) > 0)
