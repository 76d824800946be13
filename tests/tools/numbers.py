"""The numbers of the pages, each put wrong in turn: python -m tests.tools.numbers

`NUMBERS` in tests/spec.py says for each number with a unit, in the order of a page, which constant of bash_tool.py it
repeats. This program shows that a test would notice a wrong one: it changes each number of each page, then each constant,
and prints what nothing noticed. `python -m tests.tools.numbers --list SPEC.md` prints the numbers of a page, each with the
constants that have its value, for who adds one to NUMBERS.
"""

import sys

from tests.spec import HERE, NUMBERS, numbers_in, wrong_numbers
from tests.support import bash_tool


def constants():
    """The constants of bash_tool.py that are numbers."""
    return {name: value for name, value in vars(bash_tool).items() if name.isupper() and type(value) in (int, float)}


def show(page):
    for line, shown, value, _ in numbers_in((HERE / page).read_text(encoding="utf-8")):
        print(line, shown, "|", *[name for name, other in constants().items() if other == value] or [value])


def main(arguments):
    if arguments[:1] == ["--list"]:
        return show(arguments[1])
    missed, tried, known = [], 0, constants()
    for page in NUMBERS:
        text = (HERE / page).read_text(encoding="utf-8")
        for line, shown, _, place in numbers_in(text):
            digits = shown.split()[0]
            wrong = text[:place] + text[place:].replace(digits[0], "7" if digits[0] != "7" else "3", 1)
            tried += 1
            missed += [] if wrong_numbers(page, wrong, known) else ["%s:%d: %s" % (page, line, shown)]
    named = set(" ".join(NUMBERS.values()).replace("+", " ").replace("*", " ").split())
    for name in sorted(named & set(known)):
        tried += 1
        other = {**known, name: 3 * known[name]}
        told = [page for page in NUMBERS if wrong_numbers(page, (HERE / page).read_text(encoding="utf-8"), other)]
        missed += [] if told else [name]
    print("%d wrong numbers, %d not noticed" % (tried, len(missed)), *missed, sep="\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
