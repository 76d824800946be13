"""What hosts, models and clients can rely on: for each name a text with its signature, type, value or form.

python -m tests.tools.surface           prints what differs from the last release
python -m tests.tools.values release    keeps the surface of the file as that of the release that the file is
"""

import ast
import collections
import json
import re

from tests.spec import HERE, rows_of
from tests.support import PROFILES, SOURCE, bash_tool

RELEASED = HERE / "tests" / "tools" / "released.json"  # the version of the last release, its values and its surface
NOT_PUBLIC = {"Job() grace_s", "Job() report"}  # parameters for the file itself


def written(node):
    """A default: its value, whatever constant gives it, or the text of what is no plain value."""
    value = eval(ast.unparse(node), dict(vars(bash_tool)))
    is_plain = type(value) in (int, float, str, bool, tuple, type(None))
    return " = " + (repr(value) if is_plain else ast.unparse(node))


def of_function(name, node):
    """What a function returns and how it takes what; the type and the default of each parameter."""
    given = node.args
    kinds = {one.arg: "*" for one in given.kwonlyargs}
    defaults = dict(zip(reversed([one.arg for one in given.args]), map(written, reversed(given.defaults))))
    defaults.update((one.arg, written(value)) for one, value in zip(given.kwonlyargs, given.kw_defaults) if value)
    taken = [one for one in given.args + given.kwonlyargs if one.arg != "self"]
    taken = [one for one in taken if "%s %s" % (name, one.arg) not in NOT_PUBLIC]
    yield name, "(%s) -> %s" % (", ".join(kinds.get(one.arg, "") + one.arg for one in taken), ast.unparse(node.returns))
    for one in taken:
        yield "%s %s" % (name, one.arg), ast.unparse(one.annotation) + defaults.get(one.arg, "")


def of_class(node):
    """The methods, properties and fields of a class. Of a method with overloads these are its signatures."""
    versions = collections.Counter()
    for one in node.body:
        name = getattr(one, "name", "") or ast.unparse(getattr(one, "target", getattr(one, "targets", [one])[0]))
        if not (name.isidentifier() and (name == "__init__" or name[0] != "_")):
            continue
        key, marks = "%s.%s" % (node.name, name), [ast.unparse(mark) for mark in getattr(one, "decorator_list", ())]
        if isinstance(one, ast.AnnAssign):
            is_plain = one.value is not None and not isinstance(one.value, ast.Call)
            yield key, ast.unparse(one.annotation) + (written(one.value) if is_plain else "")
        elif isinstance(one, ast.Assign):
            yield key, ast.unparse(one.value)
        elif marks == ["property"]:
            yield key, ast.unparse(one.returns)
        elif marks == ["overload"] or not versions[name]:
            versions[name] += marks == ["overload"]
            text = node.name + "()" if name == "__init__" else key + "()" + "2" * (versions[name] - 1)
            yield from of_function(text, one)


def of_types(tree):
    """The names that stand for types in signatures."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
            yield "type " + node.targets[0].id, ast.unparse(node.value)


def attributes():
    """What the instances of classes have beside that."""
    report = bash_tool.Report("exited", pid=1)
    for one in (bash_tool.BashTool(base_env={}), bash_tool.Job("file", report=report), bash_tool.Cancel()):
        for name, value in vars(one).items():
            if name[0] != "_":
                yield "%s.%s" % (type(one).__name__, name), type(value).__name__


def names_of(kinds):
    """One type or several, as JSON Schema or isinstance takes them."""
    several = kinds if isinstance(kinds, (list, tuple)) else [kinds]
    return " | ".join(getattr(one, "__name__", one) for one in several)


def other_ways():
    """The arguments of models, the command line, the server, and the record of a job."""
    for profile in PROFILES.values():
        for name, schema in profile.parameters.items():
            told = {key: value for key, value in schema.items() if key != "description"}
            is_required = " required" * (name in profile.required)
            yield "argument %s.%s" % (profile.name, name), json.dumps(told) + is_required
    for one in bash_tool._make_parser()._actions:
        value = one.metavar or ("" if one.nargs == 0 else one.dest.upper())
        yield "option " + (one.option_strings[-1] if one.option_strings else value), value + "?" * (one.nargs == "?")
    for name in sorted(set(re.findall(r"BASH_TOOL_[A-Z]+", SOURCE))):
        yield "variable " + name, ""
    for status, code in bash_tool.EXIT_CODES.items():
        yield "exit code " + status, str(code)
    statuses = collections.defaultdict(set)
    for row in rows_of("4.4 Errors"):
        if len(row) == 5 and row[0] != "`error`":
            statuses[row[0].strip("`")].add(row[1])
    for name, found in statuses.items():
        yield "error id " + name, ", ".join(sorted(found))
    for name, schema in bash_tool.OUTPUT_SCHEMA["properties"].items():
        yield "structured content " + name, names_of(schema["type"])
    yield "MCP versions", ", ".join(sorted(bash_tool.VERSIONS))
    for name, kinds in bash_tool.RECORD_FIELDS.items():
        yield "record " + name, names_of(kinds)


def surface():
    tree, found = ast.parse(SOURCE), {"names": ", ".join(bash_tool.__all__)}
    for node in tree.body:
        if getattr(node, "name", "") in bash_tool.__all__:
            found.update(of_class(node) if isinstance(node, ast.ClassDef) else of_function(node.name + "()", node))
    used = " ".join(found.values())
    found.update((name, text) for name, text in of_types(tree) if name[5:] in used)
    return {**found, **dict(attributes()), **dict(other_ways())}


def differences():
    """What differs from the last release, and how docs/changes.md has to name it: `--kill`, `check`, `run(stdin)`."""
    was, now = json.loads(RELEASED.read_text(encoding="utf-8")).get("surface", {}), surface()
    for key in [*was, *(key for key in now if key not in was)]:
        if was.get(key) != now.get(key):
            owner, _, parameter = re.sub(r"\(\)2?", "(", key).rpartition("( ")
            *_, name = re.split("[ .]", (owner or key.partition("()")[0]))
            said = "%s(%s)" % (name, parameter) if owner else name
            yield said, "%s: was `%s`, is `%s`" % (key, was.get(key, "not there"), now.get(key, "not there"))


if __name__ == "__main__":
    print("\n".join(text for _, text in differences()))
