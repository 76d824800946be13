"""The budget of bash_tool.py: its size in code tokens, and the shape of its lines, functions and classes.

A token is what Python's own tokenizer calls so; comments, docstrings, ends of lines and indentation do not count. The
numbers are what the file has reached. A change that needs more takes it from what is there. A change that a user asked for
may raise a number, and its commit says why.
"""

import ast
import collections
import functools
import io
import re
import tokenize

import pytest

from tests.support import HERE


FILE_TOKENS = 34237
ENGINE_TOKENS = 18200  # sections 2, 7 and 8: supervisors, the host's side, BashTool
TOKENS_A_LINE = 8.5
COLUMNS = 100
FUNCTION_LINES = 50
CLASS_LINES = 260

SOURCE = (HERE / "bash_tool.py").read_text(encoding="utf-8")
NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@functools.cache
def nodes():
    return list(ast.walk(ast.parse(SOURCE, feature_version=(3, 9))))


def code_lines():
    """The number of code tokens on each line that has any."""
    prose = set()
    for node in nodes():
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            prose.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    tokens = tokenize.generate_tokens(io.StringIO(SOURCE).readline)
    return collections.Counter(t.start[0] for t in tokens if t.type not in NOT_CODE and t.start[0] not in prose)


def sections():
    """The code tokens of each section, by its number; 0 is what stands before the first."""
    heads = [
        (SOURCE.count("\n", 0, head.start()) + 1, int(head[1])) for head in re.finditer(r"(?m)^# -+ (\d+) ", SOURCE)
    ]
    counts = collections.Counter()
    for line, tokens in code_lines().items():
        counts[max((number for start, number in heads if start <= line), default=0)] += tokens
    return counts


def lengths(kind):
    """The lines of each function or class, by name and place: several have one name."""
    found = [node for node in nodes() if isinstance(node, kind)]
    return {(node.name, node.lineno): node.end_lineno - node.lineno + 1 for node in found}


def test_the_file_keeps_to_its_budget():
    counts = sections()
    assert sorted(counts) == list(range(11)), "a section has another head"
    assert sum(counts.values()) <= FILE_TOKENS, counts
    assert counts[2] + counts[7] + counts[8] <= ENGINE_TOKENS, counts


def test_lines_are_not_dense():
    counts = code_lines()
    assert sum(counts.values()) / len(counts) <= TOKENS_A_LINE
    assert [n for n, line in enumerate(SOURCE.split("\n"), 1) if len(line) > COLUMNS] == []


@pytest.mark.parametrize("kind, most", [(ast.FunctionDef, FUNCTION_LINES), (ast.ClassDef, CLASS_LINES)])
def test_functions_and_classes_fit(kind, most):
    assert {name: lines for name, lines in lengths(kind).items() if lines > most} == {}
