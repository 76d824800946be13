"""Where one clause stands; and what is said of it and of its neighbours in the same requirement, tried side by side.

python -m tests.tools.clause 011.2      the clauses of requirement 011
python -m tests.tools.clause 011        the same
"""

import ast
import importlib
import os
import re
import subprocess
import sys
import tempfile
import time

from tests.conformance.judge import WIRE_LEVELS
from tests.spec import CLAUSES, HERE, holds_clause
from tests.support import SOURCE, one_or_more, saboteurs_at_tests, spans


# Tests that take no time and hold the pages to each other and to the code.
PAGES = "test_pages or spec_levels or spec_contents or spec_constants or spec_results or spec_numbers or numbers_of_the_pages or the_code_names"


def places_of(number):
    """Where a clause stands: in SPEC.md, its property, where the code names it, and where the code upholds it,
    which its saboteur changes."""
    heads = {"SPEC.md": r"#### REQ-BASH-%s$" % re.escape(number)}
    heads["test_bash_tool.py"] = r"def (test_req_bash_%s_\w+)" % number.replace(".", "_")
    heads["bash_tool.py"] = r".*\b%s\b" % re.escape(number)
    for page, head in heads.items():
        text = (HERE / page).read_text(encoding="utf-8")
        for line, words in enumerate(text.splitlines(), 1):
            found = re.match(head, words)
            if found:
                around = definitions_around(line, ast.parse(text)) if page == "bash_tool.py" else found.groups()
                yield " ".join(["%s:%d" % (page, line), ".".join(around)]).rstrip()
    importlib.import_module("test_bash_tool")  # which registers the saboteurs
    for place, old, _ in one_or_more(saboteurs_at_tests()[number]):
        line = SOURCE.count("\n", 0, spans(SOURCE)[place][0][0]) + 1
        yield "bash_tool.py:%d %s (where the code upholds it: the saboteur changes `%s`)" % (line, place, old)


def definitions_around(line, node):
    """The names of the classes and functions in which a line stands, the outermost first."""
    for inner in node.body:
        if isinstance(inner, (ast.FunctionDef, ast.ClassDef)) and inner.lineno <= line <= inner.end_lineno:
            return [inner.name, *definitions_around(line, inner)]
    return []


def checks_of(requirement):
    """The name of each check and the words that run it."""
    neighbours = [number for number in CLAUSES if number.startswith(requirement + ".")]
    chosen = "req_bash_%s_ or (example and %s.) or " % (requirement, requirement) + PAGES
    workers = ["-n", str(4 * (os.cpu_count() or 1)), "--dist", "worksteal"]
    server = "%s %s --mcp" % (sys.executable, HERE / "bash_tool.py")
    checks = {
        "properties, examples and pages": [
            "pytest",
            *workers,
            "test_bash_tool.py",
            "tests/test_spec.py",
            "tests/test_pages.py",
            "-k",
            chosen,
        ],
        "saboteurs": ["tests.tools.saboteurs", *neighbours],
        "the judge's questions": ["tests.conformance", server, requirement + ".*"],
        "the judge's panel": ["tests.conformance.panel", requirement + ".*"],
    }
    if not any(holds_clause(WIRE_LEVELS, number) for number in neighbours):
        del checks["the judge's questions"]  # nothing of it is on the wire
    return checks


def main(asked):
    """Runs the checks of one requirement; returns the names of those that failed."""
    requirement = asked.partition(".")[0]
    if asked not in CLAUSES and not (asked == requirement and requirement + ".1" in CLAUSES):
        sys.exit("SPEC.md has no clause and no requirement %r; OF is a number like 011.2 or 011" % asked)
    for place in places_of(asked):
        print(place, flush=True)
    begun, running, failed = time.monotonic(), {}, []
    for name, words in checks_of(requirement).items():
        output = tempfile.TemporaryFile()
        command = [sys.executable, "-m", *words]
        running[name] = subprocess.Popen(command, cwd=HERE, stdout=output, stderr=subprocess.STDOUT), output
    while running:
        time.sleep(0.05)
        for name, (process, output) in list(running.items()):
            if process.poll() is None:
                continue
            del running[name]
            output.seek(0)
            said = output.read().decode(errors="replace").rstrip()
            counts = [line for line in said.splitlines() if re.search(r"\b(passed|caught) \d|\d passed", line)]
            has_failed = process.returncode or not counts or "no question was written" in said
            verdict = "FAILED:\n%s" % said if has_failed else counts[-1]
            failed += [name] * verdict.startswith("FAILED")
            print("%3d s  %s: %s" % (time.monotonic() - begun, name, verdict), flush=True)
    return failed


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    failures = main(sys.argv[1])
    print("REQ-BASH-%s: %s" % (sys.argv[1], "FAILED: " + ", ".join(failures) if failures else "all passed"))
    sys.exit(bool(failures))
