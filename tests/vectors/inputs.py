"""What the vectors ask: of each kind the cases, without what is expected. Their tables are laid out by hand."""

import collections
import json
import random
import re

from tests.conformance.core import (
    ENDINGS,
    FORCED_COLOURS,
    LAST_WORDS,
    NAMES_TO_WITHHOLD,
    PLACES,
    PLAIN_COLOURS,
    PLAIN_TEXTS,
)
from tests.conformance.core import PLAIN_VALUES, PLAIN_VARIABLES, PLAIN_WORDS, RULES, SECRET_WORDS, SPOKEN, UNSPOKEN
from tests.conformance.core import VALUES_TO_WITHHOLD, alternatives, drawn, sre_parse
from tests.conformance.output import RENDERED
from tests.spec import SLOW_MS, verdicts
from tests.vectors import packed

# fmt: off


PUBLISHED = """NEXT_PUBLIC_ NUXT_PUBLIC_ EXPO_PUBLIC_ PLASMO_PUBLIC_ PUBLIC_ VITE_ RENDERER_VITE_ REACT_APP_ VUE_APP_ NG_APP_
    GATSBY_ STORYBOOK_ SANITY_STUDIO_ REDWOOD_ENV_ WXT_ SVELTE_PUBLIC_""".split()


def latin(data):
    return packed(data.decode("latin-1"))


MOVES = ["a", "bc", "é", "\t", "\r", "\b", "\n", "\r\n", "\x1b[K", "\x1b[2K", "\x1b[J", "\x1b[1K", "\x1b[A", "\x1b[2B"]
MOVES += ["\x1b[%s%s" % (n, final) for n in ("", "0", "1", "3", "?2", "2;5") for final in "CDEFG"]
MOVES += ["\x1b[1m", "\x1b", "\x1b[3", "\x9b2K", "\x1b]0;t\x07", "\x1b]0;t", "\x90q\x9c", "\x85", "\0", "\x7f",
    "\u2028", "日本", "\x1bM"]
SEQUENCES = ["a", "b\n", "\r\n", "\r", "\t", "\x1b[31m", "\x1b[3", "\x1b]0;t\x07", "\x1b]0;t\x1b\\", "\x1b]0;t",
    "\x1bM", "\x07", "\0", "\x7f", "\x85", "\x9b1m", "\x1b[ q", "\x1b[?25l", "\x1b\x1b[0m", "é"]
ODD_BYTES = [b"a", "é".encode(), "€".encode(), "😀".encode(), b"\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80",
    b"\xf0\x9f\x98", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xff", b"\0", b"\xe0\x80", b"\xf0\x80"]
ODD_TEXTS = ["", "plain", 'a "b" [c] \\ /', "x" * 80, "x" * 81, "😀" * 81, "a\nb\tc\x1b[m", "\u202ex\u200e",
    "a\u00a0b\u2028c", "\ue000\u200b", "e\u0301", "]" * 30, "\x7f\x85", "日本", "a  b "]
SIZES = [0, 1, 999, 1023, 1024, 1025, 1075, 1076, 10240, 131072, 131073, 200000, 1048524, 1048525, 1048575, 1048576, 1280, 1792, 3328, 1572864, (1 << 30) - 1, 1 << 30, 64 << 20, 5 << 40, (1 << 30) + 1]
SECONDS = [30, 0.3, 900, 86400, 0.7, 0.25, 0.12345, 0.0005, 1.0005, 12.3456, 123.4567, 1234.567, 12345.67, 99999.94,
    99999.96, 0.0625, 0.1875, 0.3125, 999998.6, 999999, 1234567.89, 1e9, 1, 1.5, 0.001, 59.9999]


def texts():
    chance = random.Random(1)

    def cases(clause, do, inputs):
        return ({"clause": clause, "do": do, "in": packed(one) if isinstance(one, str) else one} for one in inputs)

    for clause, pairs in RENDERED.items():
        yield from cases(clause, "rendered", [data.decode("utf-8", "replace") for data, _ in pairs])
    for _ in range(160):
        yield from cases("008.2", "rendered", ["".join(chance.choice(MOVES) for _ in range(chance.randint(3, 9)))])
    bars = ["%3d%%\r" % n for n in range(12)], ["pears,53\rp,5", "\n"], ["one two three\rfour", "\rfi\r\n"]
    yield from cases("008.2", "rendered", map("".join, bars))
    yield from cases("008.5", "rendered", ["0123456789" * 3 + "\r\x1b[K" * 400 + "end\b" * 300])
    for _ in range(60):
        parts = [chance.choice(SEQUENCES) for _ in range(chance.randint(2, 6))]
        yield from cases("021.2", "sanitised", ["".join(parts)])
    for _ in range(60):
        data = b"".join(chance.choice(ODD_BYTES) for _ in range(chance.randint(1, 5)))
        yield from cases("008.4", "decode", [latin(data)])
    yield from cases("022.2", "plain", ["a\0b\x1b[1m\r\n\0"])
    for do, inputs in (("short", ODD_TEXTS), ("quoted", ODD_TEXTS), ("path", ODD_TEXTS), ("size", SIZES), ("seconds", SECONDS)):
        yield from cases("4.7", do, inputs)


def cuts():
    chance = random.Random(2)
    lines = b"".join(b"%07d\n" % n for n in range(1, 41))
    euros = "€".encode() * 40
    streams = [b"", b"a", b"a\n", b"\n", b"\n\n\n", lines, lines[:-1], b"x" * 400, b"x" * 64, b"x" * 65, euros,
        b"ab" + euros, b"\xff" * 30, b"\xff" * 64, b"a\r" * 100, b"\x1b[31m" * 40 + b"end\n", b"\0" * 100,
        "é\n".encode() * 50, b"first\n" + b"y" * 200, b"y" * 200 + b"\nlast", b"a\n" * 40 + b"\n", b"\xe2\x82" * 40,
        b"\x80" * 100, b"1\n2\n3\n4\n5\n6"]
    streams += [b"".join(chance.choice([*ODD_BYTES, b"\n", b"x" * 9, b"\r\n"]) for _ in range(40)) for _ in range(4)]
    limits = {"modes": [{"max_output_bytes": most, "snip_size": snip} for most, snip in ((64, 8), (65, 9), (64, 1),
        (200, 100))], "jobs": [{"max_output_lines": most, "max_output_bytes": size, "rolling_bytes": kept} for most,
        size, kept in ((5, 100, 200), (5, 20, 40), (100, 64, 65), (2, 10, 300))], "streams": [{"max_output_chars": 30},
        {"max_output_chars": 1}], "guarded": [{"max_output_bytes": 64}, {"max_output_bytes": 5}]}
    clauses = {"modes": "001.3", "jobs": "021.3", "streams": "022.2", "guarded": "023.2"}
    most = {"modes": 131072, "jobs": 51200, "streams": 30000, "guarded": 262144}
    for profile, rows in limits.items():
        case = {"clause": clauses[profile], "profile": profile}
        yield from ({**case, "limits": row, "in": latin(data)} for row in rows for data in streams)
        yield from ({**case, "in": latin(b"x" * size)} for size in (most[profile], most[profile] + 1))
    yield {"clause": "001.3", "profile": "modes", "in": latin(b"\xff" * 60000)}
    yield {"clause": "001.3", "profile": "modes", "in": latin(b"y\n" * 100000)}
    yield {"clause": "021.3", "profile": "jobs", "in": latin(b"y\n" * 2001)}


# How a command ends; what it writes is put beside it.
ENDS = [{"status": "exited", "exit_code": 0}, *({"status": "exited", "exit_code": code} for code in (1, 3, 127, 128,
    129, 137, 141, 143, 160, 162, 192, 193, 255)), *({"status": "exited", "exit_code": 128 + n, "signal": name} for n,
    name in ((9, "SIGKILL"), (15, "SIGTERM"), (2, "SIGINT"))), {"status": "timed_out", "limit_s": 30.0},
    {"status": "timed_out", "limit_s": 0.12345}, {"status": "cancelled"}, {"status": "failed",
    "error": "shell_not_found", "reason": "the shell bash was not found"}, {"status": "failed",
    "error": "status_unknown", "reason": "the supervisor of the command was killed: how the command ended is unknown"},
    {"status": "rejected", "error": "denied", "reason": "Command blocked by safety policy: contains 'mkfs'"}]
NOTES = ["files that the command left are in /tmp/scratch-0123456789ab", "not passed to commands: A_TOKEN"]
OUTPUTS = [b"", b"out\n", b"no newline", b"\n", b" \t\n", b"\xe3\x80\x80", b"two\n\n", b"x" * 30, b"\x1b[0m\0"]


def answers():
    clauses = {"modes": "4.6", "jobs": "021.5", "streams": "022.3", "guarded": "023.1"}
    profiles = [("modes", {"command": "ls", "mode": mode}) for mode in ("default", "slow")]
    long = {"command": "ls 'x' " + "x" * 80, "mode": "default"}
    profiles += [(profile, long) for profile in ("jobs", "streams", "guarded")]
    for profile, asked in profiles:
        for n, end in enumerate(ENDS):
            ran = end["status"] != "rejected" and end.get("error") != "shell_not_found"
            for k in range(3):
                outcome = {**asked, **end}
                outcome.update({"notes": NOTES[: n % 3]} if k == 1 and n % 3 else {})
                streams = {"stdout": OUTPUTS[(n + k) % len(OUTPUTS)]}
                streams.update({} if profile == "modes" else {"stderr": OUTPUTS[(n * k) % len(OUTPUTS)]})
                outcome.update({name: latin(data) for name, data in streams.items()} if ran else {})
                if ran or k == 0:
                    yield {"clause": clauses[profile], "profile": profile, "outcome": outcome}
    exited = {"command": "ls", "mode": "slow", "status": "exited", "exit_code": 0}
    for output in OUTPUTS:
        yield {"clause": "024.4", "profile": "modes", "outcome": {**exited, "stdout": latin(output)}}
    kinds = [{"path": "/tmp/output-0.log"}, {"path": "/tmp/a\u202eb", "problem": "No space left on device"},
        {"problem": "Read-only file system"}]
    small = {"modes": {"max_output_bytes": 20, "snip_size": 4}, "jobs": {"max_output_bytes": 20, "max_output_lines": 2}}
    for profile, limits in small.items():
        for kind in kinds:
            for stdout in (b"1\n2\n3\n4\n5\n", b"x" * 50):
                outcome = {**exited, **kind, "exit_code": len(stdout) % 4, "stdout": latin(stdout)}
                outcome.update({"stderr": latin(b"y" * 21)} if profile == "jobs" else {})
                yield {"clause": "009.4", "profile": profile, "limits": limits, "outcome": outcome}
    job = {"pid": 4711, "path": "/tmp/output-1.log", "command": "sleep 9; ls", "mode": "background"}
    ended = [{"status": "exited", "exit_code": 0, "leftovers": left, "stdout": "done\n"} for left in ([], [4712])]
    for clause, outcome in (("003.1", {"status": "running", "limit_s": 0.3}), ("003.3", {"status": "exited",
            "exit_code": 127, "stdout": "no such\n"}), *(("003.22", each) for each in ended)):
        yield {"clause": clause, "profile": "modes", "outcome": {**job, **outcome}}
    job.update(path="/tmp/pipe-bash-1.log", mode="default")
    kept = {**job, "status": "running", "kept": True, "limit_s": 120.0}
    long = "".join("%d\n" % n for n in range(1, 603))
    for stdout, stderr in (("1\n2", ""), (long, "e\n" * 101), ("a\x1b[3", "b\r")):
        outcome = {**kept, "stdout": packed(stdout), "stderr": packed(stderr)}
        yield {"clause": "021.6", "profile": "jobs", "outcome": outcome}


def arguments():
    of_modes = [*({"command": command} for command in ("ls", "", "-n", "a\nb", "é", 7, 7.5, True, [], {}, None,
        "a\0b", "é\0")), *({"command": "ls", "mode": mode} for mode in ("default", "slow", "background", "fast",
        "Slow", "", None, 3, ["slow"], "f\x7f")), *({"command": "ls", "timeout": n} for n in (1000, 999, SLOW_MS,
        SLOW_MS + 1, 1500.5, 1e3, 1500.0, "2000", True, None, 0, -5, 10**15, -(10**15), 10**15 - 1)), *({"command": "ls",
        "timeout": n, "mode": mode} for n, mode in ((5000, "slow"), (1, "background"), ("a", "slow"))),
        *({"command": "ls", "run_in_background": value} for value in (True, False, None, "yes", 1, 0)),
        *({"command": "ls", "run_in_background": True, **more} for more in ({"timeout": 1}, {"mode": "slow"},
        {"mode": "background"}, {"mode": None})), *({"command": "ls", "description": value} for value in ("lists", 7,
        None)), *({}, {"mode": "fast"}, {"cmd": "ls"}, {"Command": "ls"}, {"command": "ls", "cwd": None}, {"mode": 3,
        "run_in_background": 1}), *(dict.fromkeys(["command", *"g9b1cde"]), {"timeout": "a", "command": 7},
        {"command": 7, "timeout": "a"}, {"x" * 81: 1}), {"x\x1b\u202ey\u2028\u00a0z": 1}]
    of_jobs = [*({verb: n} for verb in ("check_pid", "kill_pid") for n in (4711, 0, -1, 2**31 - 1, 2**31, -(2**31),
        1.0, 1.5, "7", True, None)), *({"command": "ls", "timeout": n} for n in (1, 0, 86400000, 86400001, 1.5,
        "120000", 2e3)), *({"command": "ls", "check_pid": 7}, {"check_pid": 7, "kill_pid": 7}, {}, {"command": None},
        {"command": "ls", "check_pid": None}), *({"check_pid": 7, "timeout": 5}, {"command": "ls", "mode": "slow"},
        {"command": "ls", "mode": "default"}, {"command": "ls", "run_in_background": True}), *({"check_pid": 7,
        "command": ""}, {"command": "ls", "description": 1}, {"check_pid": 7, "run_in_background": True})]
    clauses = {"modes": "006.4", "jobs": "021.1", "streams": "006.4", "guarded": "006.4"}
    few = [of_modes[0], {"command": "ls", "mode": "slow"}, {"command": "ls", "timeout": 120000}, {"command": "ls",
        "timeout": 120001}]
    few.append({"command": "ls", "run_in_background": True})
    for profile, rows in (("modes", of_modes), ("jobs", of_jobs), ("streams", few), ("guarded", few)):
        yield from ({"clause": clauses[profile], "profile": profile, "arguments": row} for row in rows)
    texts = ["", "{", "[]", '"ls"', "7", "null", "true", '{"command": "ls"}', '{"command": "a", "command": "b"}',
        '{"command": "\\ud800"}', '{"command": "é\\u0000"}', '{"command": "ls", "timeout": 1e3}', '{"command": NaN}',
        '{"command": "\\ud83d\\ude00\\udc00"}', "[" * 100000]
    yield from ({"clause": "026.7", "profile": "modes", "json": packed(text)} for text in texts)


def in_pieces(value):
    """A value in pieces too short for a scanner of secrets to know it."""
    return [value[at : at + 5] for at in range(0, len(value), 5)] or ""


def secrets():
    def case(clause, variables, **more):
        return {"clause": clause, "variables": {name: in_pieces(value) for name, value in variables.items()}, **more}

    names = [*NAMES_TO_WITHHOLD, *(pair.partition("=")[0] for pair in PLAIN_VARIABLES), "PUBLIC_AUTH", "PW_PASSWORD"]
    names += "PW_DEBUG MY_PUB_KEYS apiKey APIkey A-KEY KEY2 x_key_file TOKEN_FILE2 MY_TOKENPATH PUBLIC_TOKEN pwd PWD".split()
    names += "KEYS_PUBLIC A__KEY GPG_KEY_ID KEY_ID_X A_SECRET_KEY_ID AUTH_ID SSH_ASKPASS ASKPASSWORD BYPASS_X PW_".split()
    names += ["A_%s" % word for word in [*SECRET_WORDS, *ENDINGS, *PLAIN_WORDS, *LAST_WORDS]]
    names += [shape % word for word in LAST_WORDS for shape in ("A_TOKEN_%s", "%s_TOKEN", "A_TOKEN_X%s", "wKey%s")]
    names += ["X%sS" % ending for ending in ENDINGS] + ["X%s" % ending.lower() for ending in ENDINGS]
    yield from (case("004.2", {name: "xyzzy"}) for name in names)
    yield from (case("004.2", {"A_SECRET": value}) for value in [*PLAIN_VALUES, "TRUE", "None", "none "])
    numbers = ["", "0", "42", "-7", "+1.25", "1e5", ".5", "1_0", "1.", "0x1", "12a4"]
    yield from (case("004.2", {"A_SECRET": number}) for number in numbers)
    yield from (case("004.12", {"A_SECRET": "1" * count}) for count in (15, 16))
    yield from (case("004.12", {name: value}) for name, value, _, _ in verdicts())
    yield from (case("004.12", {name: place}) for place in PLACES for name in ("A_KEY", "A_TOKEN"))
    yield from (case("004.2", dict([pair.split("=", 1)])) for pair in PLAIN_VARIABLES)
    chance = random.Random(4)
    for branch in branches_of(RULES[2]):
        tree, taken = sre_parse.parse(branch, re.ASCII), collections.Counter()
        for _ in range(max(4, alternatives(tree))):
            value = drawn(chance, tree, taken)
            at = chance.randrange(len(value))
            yield case("004.3", {"INNOCENT": value})
            yield case("004.3", {"INNOCENT": value[:at] + value[at + 1 :]})  # without one character of it
    yield from (case("004.3", {"INNOCENT": value}) for value in [*VALUES_TO_WITHHOLD, *PLAIN_TEXTS])
    for pair in "BUNDLE_GEMS__EXAMPLE=me:pw BUNDLE_PATH=a:b BUNDLE_A__B=-a:b BUNDLE_A__B=a:b/".split():
        yield case("004.3", dict([pair.split("=")]))
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "BASH_FUNC_get_token()", "BASH_FUNC_token%%", "OLDPWD"):
        yield from (case("004.3", {name: value}) for value in ("/g", "db://me:pw@h"))
    group = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "db://me:pw@h",
        "GIT_CONFIG_NOSYSTEM": "1"}
    for value in ("c", "db://me:pw@h"):
        yield case("004.2", {**group, "GIT_CONFIG_VALUE_0": value})
    for keep in (["GIT_CONFIG_VALUE_0"], ["GIT_CONFIG_KEY_*"], ["GIT_CONFIG_VALUE_?"]):
        yield case("004.8", {**group, "GIT_CONFIG_VALUE_1": "db://me:pw@i", "GIT_CONFIG_KEY_1": "c.d"}, keep=keep)
    yield case("017.10", {**group, "GIT_CONFIG_VALUE_0": "c"}, drop=["GIT_CONFIG_KEY_0"])
    some = {"A_TOKEN": "one", "B_TOKEN": "two", "GH_ONE_TOKEN": "three", "DATABASE_URL": "db://me:pw@h",
        "CUSTOMER": "acme", "LOCAL_A": "x"}
    for keep, drop in ((["A_TOKEN"], []), (["GH_*", "?_T*"], []), (["gh_*", "[!A]*_TOKEN"], []),
            ([], ["CUSTOMER", "LOCAL_*"]), (["*"], ["A_TOKEN"])):
        yield case("004.8" if keep else "004.10", some, keep=keep, drop=drop)
    for prefix in PUBLISHED:
        for value in ("xyzzy", VALUES_TO_WITHHOLD[0], "-----BEGIN RSA PRIVATE " + "KEY-----", "LS0tLS1CRU" + "dJTiBQUklWQVRFIEtFWS"):
            yield case("004.14", {prefix + "A_TOKEN": value, "X_" + prefix + "A_TOKEN": "xyzzy"})
    for name in "PASSWORD2 DB_PASSWORD_NEW OLD_PASSWORD1 PASSPHRASE PASSWORDS SMTP_PASS2 PIN_PW PASSCODE COMPASS_ID UPWARD".split():
        yield from (case("004.2", {name: value, name + "_LENGTH": value}) for value in ("123", "1234", "12345678", "none"))
    for name in ("PRIMARY_KEY", "hashKey", "ROUTING_KEYS", "API_PRIMARY_KEY_2", "MY_PRIMARYKEY"):
        yield from (case("004.12", {name: value}) for value in ("id", "a_id, b.c", "x" * 24, "x" * 25, "id2", "a,,b", "Id"))
    for name in "PARTITION_KEY sortKey CACHE_KEYS ROW_KEY_2 XSORT_KEY SORTKEY SORT_API_KEY SORT_KEY_TOKEN KEY _KEY SORT__KEY".split():
        yield case("004.2", {name: "xyzzy"})
    state = "DIRENV_DIFF DIRENV_WATCHES DIRENV_BACKUP DIRENV_DIR __MISE_DIFF __MISE_ORIG_PATH __RTX_WATCH __FNOX_SESSION".split()
    state += "_FLOX_HOOK_DIFF _DEVENV_DIFF __shadowenv_data HERMIT_ENV_OPS HERMIT_ENV A_DIFF _SESSION MISE_DIFF".split()
    for keep in ([], ["*"], ["DIRENV_DIFF"]):
        yield case("014.14", dict.fromkeys(state, "xyzzy"), keep=keep)
    dropped = ["SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE", "ENV", "BASH_XTRACEFD", "BASH_EXECUTION_STRING",
        "GPG_TTY", "BASH_FUNC_builtin%%", "BASH_FUNC_command%%", "BASH_FUNC_unset%%", "BASH_FUNC_ls%%", "HOME", "CI",
        "GIT_SSH_COMMAND"]
    yield case("014.1", dict.fromkeys(dropped, "/x"), keep=["*"])
    asking = {"PAGER": "less", "EDITOR": "less", "TERM": "less", "GIT_PAGER": "cat", "AWS_PAGER": "https://me:pw@h/"}
    yield case("014.2", asking)
    for name in ("AWS_SESSION_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        yield case("004.2", {"AWS_ACCESS_KEY_ID": "x", name: "y"})
    yield from (case("014.9", dict([pair.split("=", 1)])) for pair in FORCED_COLOURS + PLAIN_COLOURS)
    dialogs = "askpass.sh echo my-ksshaskpass /x/x11-ssh-askpass ksshaskpass lxqt-openssh-askpass git-gui--askpass".split()
    yield from (case("014.11", {"GIT_ASKPASS": askpass, "SSH_ASKPASS": askpass}) for askpass in dialogs)
    given = {"PAGER": "my", "GIT_PAGER": "my", "GIT_ASKPASS": "ksshaskpass", "FORCE_COLOR": "1", "PY_COLORS": "1"}
    yield case("004.11", given, keep=["PAGER", "GIT_*", "GIT_ASKPASS", "PY_COLORS", "*_COLOR", "EDITOR"])
    for names in ((), ("LANG",), ("LC_ALL",), ("LC_CTYPE",), ("LC_COLLATE",)):
        yield from (case("014.3", dict.fromkeys(names, value)) for value in ("", "C"))


def branches_of(pattern):
    """The alternatives of a pattern of SPEC.md; those of tokens, which stand in one group, each by itself."""
    depth, parts, at, in_set = 0, [], 0, False
    for n, letter in enumerate(pattern + "|"):
        escaped = n and pattern[n - 1] == "\\"
        in_set = (letter == "[" or in_set) and (letter != "]" or escaped) if not (letter == "[" and escaped) else in_set
        depth += 0 if in_set or escaped else {"(": 1, ")": -1}.get(letter, 0)
        if letter == "|" and depth == 0 and not in_set:
            parts, at = [*parts, pattern[at:n]], n + 1
    tokens = re.fullmatch(r"(\(\?<!.*?\))\(\?:(.*)\)", parts[-1], re.DOTALL)
    return parts[:-1] + branches_of(tokens[2]) if tokens else parts


def notes():
    names = ["A_TOKEN", "B_TOKEN", "PIP_INDEX_URL", "HTTPS_PROXY", "B-TOKEN"]
    commands = ["true", "echo $A_TOKEN", ": X_A_TOKEN A_TOKEN2 9A_TOKEN a_token", ": éA_TOKEN",
        "echo ${B_TOKEN:-A_TOKEN}", "B-TOKEN"]

    def case(clause, withheld, command, code, **more):
        return {"clause": clause, "withheld": withheld, "command": command, "exit_code": code, **more}

    for command in commands:
        yield case("014.8", names, command, 0)
        yield case("014.8", names[:2], command, 0, **{"by the host": ["A_TOKEN"]})
    yield from (case("014.8", names[:2], "x", code, shown="KeyError: 'B_TOKEN'\n") for code in (0, 3))
    many = ["I%d_INDEX" % n for n in range(10, 55)]
    yield case("014.6", many, "true", 0)
    yield case("014.6", many[:30], "true", 0, **{"by the host": many[5:25]})
    yield from (case("014.10", names[:2], "x", 1, shown=line) for line in [*SPOKEN, *UNSPOKEN])
    yield case("014.10", names[:2], "Authentication failed", 1)
    yield case("014.10", names[:2], "x", 0, shown="Authentication failed")
    endings = ["no_proxy", "npm_config_registry", "A_INDEX", "INDEXES", "UV_INDEX_URL", "MY_REGISTRY", "REGISTRY_X"]
    yield case("014.6", endings, "true", 1)


def definitions():
    styles = {"anthropic": "006.1", "openai": "006.7", "openai-chat": "006.11", "mcp": "006.8"}
    for profile in ("modes", "jobs", "streams", "guarded"):
        for style, clause in styles.items():
            yield {"clause": clause, "profile": profile, "style": style, "directory": "/"}
    case = {"clause": "006.3", "profile": "modes", "style": "mcp", "directory": "/a b/é"}
    for timeouts_s in ({"default": 60, "slow": 90}, {"default": 0.5, "slow": 3600, "background": 7}, {"default": 119.9}):
        yield {**case, "limits": {"timeouts_s": timeouts_s}}


def messages():
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

    def request(method, number=1, **params):
        return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}

    def odd_ones(clause, template, key, *values):
        return [(clause, {**template, key: value}) for value in values]

    call, cancelled = {"name": "bash", "arguments": {"command": "ls"}}, "notifications/cancelled"
    ping, two, eight = request("ping"), {"jsonrpc": "2.0"}, {"id": 8, "method": "ping"}
    rows = [("025.12", row) for row in (7, None, "x", True, 1.5, {}, [], [[]], [7, request("ping", 3)])]
    rows += [("025.12", {"jsonrpc": version, **eight}) for version in ("1.0", 2.0, None, "2.0")]
    rows += odd_ones("025.12", ping, "id", True, 1.5, {}, [], None, "", "a", 0, -1, 1.0, 2**53 + 1)
    rows += odd_ones("025.12", {**two, "id": 9}, "method", 9, None, "no/such")
    rows += [("025.12", row) for row in ({"method": "ping"}, {**two, "id": 5}, {**two, "id": 1.5}, {"id": 4, "method": "ping"})]
    rows += odd_ones("025.12", two, "method", "ping", "tools/call", "notifications/initialized")
    rows += [("025.12", {"jsonrpc": version, "id": 1, key: {}}) for version in ("2.0", "1.0") for key in ("result", "error")]
    withdrawn = [{"requestId": number} for number in (1, "1", 1.0, 1.5, None, True)]
    rows += odd_ones("025.8", {**two, "method": cancelled}, "params", 7, [], None, {}, *withdrawn)
    rows += odd_ones("025.5", request("tools/list", 7), "params", 7, [], None, {"_meta": 7}, {"_meta": None}, {"cursor": "x"})
    rows += [("025.5", {**request(method, 7), "params": []}) for method in ("ping", "initialize", "no/such")]
    calls = [call, {}, {**call, "name": "zsh"}, {"name": "bash"}, *({**call, "arguments": odd} for odd in ("ls", [],
        None, 7, {}))]
    calls += [{**call, "_meta": {"progressToken": odd}} for odd in ("p", 7, 0, "", None, 1.5, True, {})]
    rows += [("025.5", request("tools/call", 7, **params)) for params in calls]
    versions = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "1999-01-01", 7, None]
    hellos = [*({"protocolVersion": version} for version in versions), {}, {"protocolVersion": "2024-11-05", "_meta": meta}]
    rows += [("025.3", request("initialize", **params)) for params in hellos]
    for version in ["2026-07-28", "2025-11-25", "2031-01-01", "", 7, None]:
        named = {"_meta": {next(iter(meta)): version}}
        for method in ("tools/list", "ping", "server/discover", "tools/call", "no/such"):
            rows.append(("025.2", request(method, 2, **(call if method == "tools/call" else {}), **named)))
    rows += [("025.1", request("server/discover")), ("025.1", [ping, 7, {**two, "method": cancelled}, request("ping", 2)])]
    yield from ({"clause": clause, "in": json.dumps(row)} for clause, row in rows)
    with_x = '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": %s}}'
    ping = '{"jsonrpc": "2.0", "id": 1, "method": "ping"%s}'
    lines = ["", " \t ", ping % "" + "\r", "{", "x", '{"a": NaN}', with_x % "-Infinity", ping % ', "id": 2',
        with_x % ("7" * 1000), with_x % ("[" * 498 + "]" * 498), "[" * 100000]
    yield from ({"clause": "025.12", "in": packed(line)} for line in lines)
    for line in (b"\xff\xfe", with_x.encode() % b'"}\xff"'):
        yield {"clause": "025.12", "bytes": latin(line)}


def lives():
    """Histories of commands, in quarters of a second. Each kind of news comes at most twice, in any order that can be."""
    chance = random.Random(7)
    kinds = ["stop", "stop", "kill", "kill", "leave", "exit", "childless", "closed", "heard", "heard", "quiet", "quiet"]
    for wait in (0.25, 0.5, 0.75):  # output goes on to come behind the end of the shell
        news = [[8.25 + wait * n, {"heard_at": 8.25 + wait * n, "heard_bytes": n}] for n in range(1, 12)]
        news.insert(0, [8.25, {"returncode": 0, "exited_at": 8.25}])
        plan = {"limit_s": 4, "answer_after_s": None, "grace_s": 1.5, "drain_idle_s": 0.5, "drain_total_s": 2}
        plan.update(background=False, ephemeral=False)
        yield {"clause": "2.1", "plan": plan, "sees_tree": False, "start_s": 8.0, "moments": news}
    for n in range(60):
        plan = {"limit_s": chance.choice([1.5, 4, None]), "answer_after_s": None, "grace_s": chance.choice([0, 1.5]),
            "drain_idle_s": 0.5, "drain_total_s": 2, "background": n % 3 == 1, "ephemeral": n % 5 == 0}
        plan["answer_after_s"] = 0.25 if plan["background"] else chance.choice([None, None, 1])
        now, code, childless, news, counts = 8.0, None, False, {}, {"host_stops": 0, "job_stops": 0}
        moments = []
        for kind in chance.sample(kinds, chance.randint(3, len(kinds))):
            now += chance.choice([0.25, 0.25, 0.5, 1, 2.5])
            if kind in ("stop", "kill"):
                counted = "host_stops" if kind == "stop" else "job_stops"
                counts[counted] += 1
                news = {counted: counts[counted]}
            elif kind == "leave":
                news = {"nobody_reads": True}
            elif kind == "exit" and code is None:
                code = chance.choice([0, 3, -15])
                news = {"returncode": code, "exited_at": now}
            elif kind == "childless" and code is not None:
                news, childless = {"childless": True}, True
            elif kind == "closed" and (childless or n % 2):
                news = {"has_open_pipe": False}
            else:
                news = {"heard_at": now, "heard_bytes": 100 * len(moments)} if kind == "heard" and not childless else {}
            moments.append([now, news])
        end = {"childless": True, "has_open_pipe": False, **({"returncode": -9, "exited_at": now + 9} if code is None else {})}
        moments += [[now + 4, {}], [now + 9, end], [now + 10, {}]]
        yield {"clause": "2.1", "plan": plan, "sees_tree": n % 7 == 6, "start_s": 8.0, "moments": moments}


INPUTS = {"texts": texts, "cuts": cuts, "answers": answers, "arguments": arguments, "secrets": secrets,
    "notes": notes, "definitions": definitions, "messages": messages, "lives": lives}
