"""The rules of SPEC.md that need no process, as cases that any language can load. README.md beside this says how.

`KINDS` has of each file the function that gives the oracle's answer to a case: it takes the module and the case, and
returns what the case expects. `levels_of` says which ports a case is for. `inputs.py` has what is asked.
"""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

from tests.spec import LEVELS_OF, MODES_S

HERE = Path(__file__).resolve().parent
REPEATED = re.compile(r"(.{1,12}?)\1{15,}", re.DOTALL)


def packed(text):
    """A text, or where a part of it is repeated often a list of texts and how often each stands there."""
    parts, at = [], 0
    for found in REPEATED.finditer(text):
        parts += [[text[at : found.start()], 1], [found[1], len(found[0]) // len(found[1])]]
        at = found.end()
    return [part for part in [*parts, [text[at:], 1]] if part[0]] if parts else text


def unpacked(value):
    """What `packed`, or a list of parts, stands for."""
    if isinstance(value, str):
        return value
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in value)


def data_of(value):
    """Bytes, of which each is written as the character with its number."""
    return unpacked(value).encode("latin-1")


def row_of(tool, case):
    """The profile of a case, with its limits."""
    return replace(tool.PROFILES[case["profile"]], **case.get("limits", {}))


def captured(tool, data, row):
    """What a supervisor keeps of a stream."""
    head, tail, _ = tool.size_buffers(row)
    rest = data[head:]
    return tool.Captured(data[:head], rest[max(0, len(rest) - tail) :], len(data), data.count(b"\n"))


def texts(tool, case):
    functions = {
        "decode": lambda value: tool.decode(data_of(value)),
        "rendered": lambda value: tool.render(unpacked(value)),
        "sanitised": lambda value: tool.sanitise(unpacked(value)),
        "plain": lambda value: tool.without_nul(unpacked(value)),
        "short": lambda value: tool.shorten(unpacked(value)),
        "quoted": lambda value: tool.quote(unpacked(value)),
        "path": lambda value: tool.make_printable(unpacked(value)),
        "size": tool.format_size,
        "seconds": tool.format_seconds,
    }
    return {"out": packed(functions[case["do"]](case["in"]))}


def cuts(tool, case):
    row = row_of(tool, case)
    fitted = row.truncation.fit(captured(tool, data_of(case["in"]), row), row)
    got = {"got": fitted.got_bytes} if case["profile"] == "modes" else {}
    return {"out": packed(fitted.text), "cut": fitted.cut, **got, **dict(fitted.details)}


def answers(tool, case):
    row, outcome = row_of(tool, case), dict(case["outcome"])
    streams = [data_of(outcome.pop(name)) for name in ("stdout", "stderr") if name in outcome]
    raw = [captured(tool, data, row) for data in streams]
    own = {name: outcome.pop(name) for name in tool.Outcome._fields if name in outcome}  # of the host
    report = tool.Report(total_bytes=sum(map(len, streams)), **outcome)
    outcome = tool.fit_streams(tool.Outcome(report, raw=raw, **own), row)
    result = tool.present(outcome, row)
    return {"text": packed(result.text), "is_error": result.is_error, "truncated": result.truncated}


def arguments(tool, case):
    asked = tool.parse_arguments(case["json"] if "json" in case else case["arguments"], row_of(tool, case))
    if isinstance(asked, tool.Outcome):
        free = asked.report.reason.find("not a JSON object (")  # the reason is free
        return {"refused": asked.report.reason} if free < 0 else {"refused, begins": asked.report.reason[: free + 19]}
    if isinstance(asked, tool.Inquiry):
        return {"kill" if asked.kill else "check": asked.pid}
    timeout_s = {} if asked.timeout_s is None else {"timeout_s": asked.timeout_s}
    return {"runs": asked.command, "mode": asked.mode, **timeout_s}


def secrets(tool, case):
    environ = {name: unpacked(value) for name, value in case["variables"].items()}
    passed, withheld = tool.scrub_env(environ, case.get("keep", ()), case.get("drop", ()))
    kept = sorted(name for name in environ if name in passed and passed[name] == environ[name])
    by_host = sorted(name for name in withheld if not withheld[name])
    lang = {"LANG": passed.get("LANG")} if case["clause"] == "014.3" else {}
    return {"withheld": sorted(withheld), "by the host": by_host, "pass": kept, **lang}


def notes(tool, case):
    report = tool.Report("exited", case["exit_code"])
    shown = tool.Outcome(report, stdout=tool.Fitted(case.get("shown", ""), 0, False), command=case["command"])
    by_host = case.get("by the host", ())
    untold = {name: name not in by_host for name in sorted(case["withheld"])}
    told = tool.withheld_notes(untold, (), shown)
    return {"notes": list(told), "still to be told": list(untold)}


def definitions(tool, case):
    return {"definition": tool.define(row_of(tool, case), case["directory"], case["style"])}


def messages(tool, case):
    """What one line of a client asks for, when no call is under way."""
    line = data_of(case["bytes"]) if "bytes" in case else unpacked(case["in"]).encode()
    if not line.strip():
        return {"out": []}
    try:
        said = tool.load_json(line)
    except ValueError:
        return {"out": [{"id": None, "code": -32700}]}
    elements = said if isinstance(said, list) and said else [said]
    listed = tool.define(tool.MODES, "/", "mcp")
    asked = (tool.handle(element, listed) for element in elements)
    return {"out": [shown for shown in (message_shown(tool, each) for each in asked) if shown is not None]}


def message_shown(tool, asked):
    """What a message is answered with, or asks for, without what is free."""
    if asked is None:
        return None
    if isinstance(asked, tool.Call):
        token = {} if asked.token is None else {"progressToken": asked.token}
        return {"call": asked.arguments, "id": asked.id, **token}
    if isinstance(asked, tool.Withdrawal):
        return {"withdraw": asked.id}
    if "error" in asked:
        error = {key: asked["error"][key] for key in ("code", "data") if key in asked["error"]}
        return {"id": asked["id"], **error}
    result = dict(asked["result"])
    free = [key for key in ("_meta", "serverInfo", "ttlMs", "cacheScope") if result.pop(key, None) is not None]
    if "tools" in result:
        result["tools"] = [each["name"] for each in result["tools"]]
    return {"id": asked["id"], "result": result, "also": free}


def lives(tool, case):
    """For information: of each moment what the rules of a command say, the phase then, and when to act without news."""
    plan = dict.fromkeys(tool.Plan._fields, b"")
    plan.update({name: math.inf if value is None else value for name, value in case["plan"].items()})
    rules = tool.Life(tool.Plan(**plan), case["sees_tree"], case["start_s"])
    seen, told = tool.Seen(), []
    for now, news in case["moments"]:
        seen, acts = seen._replace(**news), []
        for _ in range(4):  # what is done at once brings no news here
            act = rules.next_action(now, seen)
            acts += [act] if act else []
            if act in ("", "kill", "ask"):
                break
        due = None if math.isinf(rules.due_at) else round(rules.due_at, 3)
        told.append([acts, rules.phase, due, rules.status])
    return {"told": told}


KINDS = (texts, cuts, answers, arguments, secrets, notes, definitions, messages, lives)
KINDS = {function.__name__: function for function in KINDS}
BACKGROUND = re.compile(r'\bbackground\b(?!": false)')
# The timeouts of MODES where there are no background commands.
FOREGROUND_S = {mode: MODES_S[mode] for mode in ("default", "slow")}


def has_jobs(case):
    """Whether the tool of a case has background commands."""
    return "background" in case.get("limits", {}).get("timeouts_s", ["background"])


def levels_of(case, expected):
    """The levels of conformance that have a case: those of its clause, or that of another profile, or `jobs` where the
    case would read otherwise without background commands."""
    if case.get("profile", "modes") != "modes":
        return [case["profile"].upper()]
    if case.get("plan", {}).get("ephemeral"):
        return LEVELS_OF["029.1"]
    tells_jobs = has_jobs(case) and BACKGROUND.search(json.dumps([case, expected]))
    return ["jobs"] if tells_jobs else LEVELS_OF.get(case["clause"], ["core"])


def path_of(kind):
    return HERE / (kind + ".json")


def cases_of(kind):
    """The cases of a file: each with the numbers of its clauses, what is asked and what is expected."""
    return json.loads(path_of(kind).read_text(encoding="utf-8"))


def wrong_cases(tool, kind):
    """The cases of a file that the module answers otherwise, and its answers."""
    for case in cases_of(kind):
        try:
            got = KINDS[kind](tool, case)
        except Exception as problem:
            got = {"raises": "%s: %s" % (type(problem).__name__, problem)}
        if case["expect"] != json.loads(json.dumps(got)):
            yield case, got


def lines_of(cases):
    """A file: one case a line, in ASCII, so that a change shows as lines."""
    return "[\n%s\n]\n" % ",\n".join(json.dumps(case) for case in cases)
