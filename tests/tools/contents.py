"""The contents of SPEC.md (3.1): one line a clause, with what the name of its property says, whether its example is black
box, and its levels. The levels are written there by hand, and stay; all else is made anew.

python -m tests.tools.contents    writes them
"""

import re

from tests.spec import CLAUSES, EXAMPLES, HERE, LEVELS_OF, on_the_wire

HEAD = "| clause | what it says | black box | level |\n|---|---|---|---|\n"


def contents():
    """The table. A clause that is new has `?` for its levels, which no test takes."""
    properties = (HERE / "test_bash_tool.py").read_text(encoding="utf-8")
    names = re.findall(r"(?m)^(?:async )?def test_req_bash_(\d{3})_(\d+)_(\w+)", properties)
    said = {"%s.%s" % (requirement, number): name.replace("_", " ") for requirement, number, name in names}
    black_box = {number for number, head, body in EXAMPLES if on_the_wire(head, body)}
    row = "| [%s](#req-bash-%s) | %s | %s | %s |\n"
    return HEAD + "".join(
        row
        % (
            number,
            number.replace(".", ""),
            said.get(number, "?"),
            "yes" if number in black_box else "no",
            ", ".join(LEVELS_OF.get(number, ["?"])),
        )
        for number in CLAUSES
    )


def with_contents(page):
    """The page with its contents made anew."""
    before, after = page.split(HEAD)
    return before + contents() + re.sub(r"\A(?:\| .*\n)*", "", after)


if __name__ == "__main__":
    PAGE = HERE / "SPEC.md"
    PAGE.write_text(with_contents(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
