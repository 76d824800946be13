"""Comments that `make format` cannot repair: longer than a line, or behind a bracket that stands alone in its line.

python -m tests.tools.comments    prints their places, and fails if there are any
"""

import sys
import tokenize

from tests.spec import HERE


def problems(path, width):
    """Each line with a comment that is too long, or that came loose from what it explains."""
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type != tokenize.COMMENT:
                continue
            place = "%s:%d" % (path.relative_to(HERE), token.start[0])
            before = token.line[: token.start[1]].strip()
            if token.end[1] > width:
                yield "%s: a comment beyond %d columns" % (place, width)
            if before and not before.strip(")]},:"):
                yield "%s: a comment behind a lone bracket; it belongs above its line" % place


if __name__ == "__main__":
    FOUND = list(problems(HERE / "bash_tool.py", 100))
    for each in [HERE / "test_bash_tool.py", *sorted((HERE / "tests").rglob("*.py"))]:
        FOUND += problems(each, 120)
    print("\n".join(FOUND), end="\n" * bool(FOUND))
    sys.exit(bool(FOUND))
