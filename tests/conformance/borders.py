"""What the judge asks at the borders of SPEC.md, 4.10: below, at and beyond each count, and on both sides of each time."""

import json
import os
import re
import signal
import time

from tests.conformance.core import CUT, FULL_OUTPUT, GOES_ON, LOOKS_SECRET, timed_out
from tests.conformance.judge import Unasked, asks, at_border, on_both_sides, printf
from tests.conformance.jobs import kept_job
from tests.conformance.server import answers_to, live_text, skipped
from tests.processes import eventually
from tests.spec import SLOW_MS, size_in_words


EURO = "€".encode()
FULL = r"\[full output: [^\n]*\]\n"


def filler(count, octal="170"):
    """A command that writes one character so often."""
    return "head -c %d /dev/zero | tr '\\0' '\\%s'; " % (count, octal)


def cut_text(head, tail):
    """The pattern of an answer of MODES to an output that is cut, without what is said above it."""
    return CUT + re.escape("%s\n\n[snip]\n\n%s" % (head, tail + "\n" * bool(tail))) + FULL


@at_border("001.3", "bytes shown whole")
def an_output_of_the_maximum(q, count, is_within):
    for octal, shown in (("170", "x"), ("0", "\ufffd")):  # a NUL takes three bytes of the text
        if octal == "170" or not is_within:
            ends = shown * (4096 // len(shown.encode()))
            pattern = "x{%d}" % count if is_within else cut_text(ends, ends)
            q.match(pattern, q.run(filler(count, octal)).text)
    nuls = count // 3  # bytes of a text that is kept whole
    text = q.run(filler(nuls, "0") + filler(count - 3 * nuls)).text
    q.equal(text.startswith("[output truncated"), not is_within, "a text of %d bytes is cut:" % count)


@asks("001.3")
def a_maximum_of_any_size(q):
    """4.1: of an odd one the last part has the byte more."""
    letters = "abcdefghijklmnopqrstuvwxyz" * 4
    for most in (1, 2, 5, 64, 65):
        wire = q.server("--set", "max_output_bytes=%d" % most, "--set", "snip_size=99")
        for count in (most - 1, most, most + 1):
            half = most // 2
            pattern = re.escape(letters[:count]) or r"\[no output\]\n"
            if count > most:
                pattern = cut_text(letters[:half], letters[count - (most - half) : count])
            q.match(pattern, wire.call("printf '%s'" % letters[:count]).text)


@at_border("001.3", "bytes kept of each end")
def what_is_kept_of_each_end(q, count, is_within):
    """Between what is seen stands U+0001, which shows nothing."""
    odd, nothing = "o" * is_within, filler(count - 2, "1")
    q.match(cut_text("a" + odd, ""), q.run("printf a; %sprintf o; %s" % (nothing, filler(200000, "1"))).text)
    q.match(cut_text("", odd + "b"), q.run("%sprintf o; %sprintf b" % (filler(200000, "1"), nothing)).text)


@at_border("001.3", "bytes shown of each end")
def what_is_shown_of_each_end(q, count, is_within):
    euro = "€" * is_within
    head, tail = "x" * (count - 3) + euro + "x" * (4096 - count), "x" * (4096 - count) + euro + "x" * (count - 3)
    more = filler(200000)
    q.match(cut_text(head, "x" * 4096), q.run(filler(count - 3) + printf(EURO) + "; " + more).text)
    q.match(cut_text("x" * 4096, tail), q.run(more + printf(EURO) + "; " + filler(count - 3)).text)


@at_border("001.3", "bytes of a broken character")
def what_is_left_of_a_character(q, count, is_within):
    last = b"\x80" * count + b"b"
    command = filler(100000, "1") + printf(last) + "; " + filler(65536 - len(last), "1")
    q.match(cut_text("", "\ufffd" * (count - 3 if not is_within else 0) + "b"), q.run(command).text)


@asks("008.7", "008.3", "008.4")
def what_is_not_kept_whole_is_cleaned_too(q):
    data, shown = {
        "008.7": (b"a\0b", "a\ufffdb"),
        "008.3": (b"a\x01\x07\x7fb", "ab"),
        "008.4": (b"a\xffb\xed\xa0\x80c", "a\ufffdb\ufffd\ufffd\ufffdc"),
    }[q.clause]
    size, lines = len(shown.encode()), "x" * 4096
    text = q.run("%s; %s%s" % (printf(data), filler(200000), printf(data))).text
    q.match(cut_text(shown + lines[size:], lines[size:] + shown), text)


@at_border("001.4", "bytes in a KB")
def sizes_change_their_unit(q, count, is_within):
    wire = q.server("--set", "max_output_bytes=99", "--set", "snip_size=1")
    for size in (count, count * 1024 - 1024 * 1024 + 1048576):
        q.has(wire.call(filler(size)).text, "[output truncated in middle: got %s, max is 99B]\n" % size_in_words(size))
    mb = 1048576 + count - 1024
    q.has(wire.call(filler(mb)).text, "[output truncated in middle: got %s, max is 99B]\n" % size_in_words(mb))


@at_border("001.8", "bytes taken at once", beyond=False)
def takes_a_mebibyte_at_once(q, count, is_within):
    write = "import os; os.set_blocking(1, False); open('n', 'w').write(str(os.write(1, bytes(%d))))"
    q.run('python3 -c "%s"' % (write % count))
    q.equal((q.folder / "n").read_text(), str(count), "the bytes that a write took:")


@at_border("001.8", "commands with pipes of 1 MiB")
def pipes_of_many_commands(q, count, is_within):
    wire = q.server()
    for _ in range(20):  # what has ended does not count
        wire.call("true")
    for n in range(count - 1):
        wire.begin("echo > in-%d-%d; exec sleep 600" % (count, n), mode="slow")
    q.there(*("in-%d-%d" % (count, n) for n in range(count - 1)))
    size = int(wire.call("python3 -c 'import fcntl; print(fcntl.fcntl(1, 1032))'").text)  # F_GETPIPE_SZ
    if size < 262144:
        raise Unasked("the system refuses larger pipes")
    q.equal(size, 1048576 if is_within else 262144, "the pipe of the command with %d others alive:" % (count - 1))


@asks("002.9")
@on_both_sides(("002.9", "bytes after the first signals"))
def a_flood_after_an_interrupt(q):
    wire = q.server(timeouts={"default": 4, "grace_s": 9})
    prints = "import time\ntry: time.sleep(600)\nexcept KeyboardInterrupt: print('x' * %d, flush=True), time.sleep(600)"
    few, many = (wire.begin("python3 -c \"%s\"" % (prints % size)) for size in (900000, 1200000))
    took_s = wire.finish(many).took_s
    q.took(took_s, 4, 4 + 2, "the answer to a command that prints 1.2 MB after INT")
    q.took(wire.finish(few).took_s, 4 + 3, 4 + 3 + 1.8, "the answer to one that prints 0.9 MB, with a grace of 9 s")


@asks("002.10")
@on_both_sides(("002.10", "s with filters alone"))
def filters_alone_are_not_waited_for(q):
    wire = q.server(timeouts={"default": 1})
    reply = wire.call("mkfifo p; exec 3<>p; cat <&3")  # whose input does not end
    q.took(reply.took_s, 1 + 0.2, 1 + 0.2 + 1.5, "the answer to a filter whose input does not end")


@asks("004.5")
@on_both_sides(("004.5", "s of it until TERM to more"))
def a_third_of_the_grace(q):
    """2.1, step 7: what goes on after INT gets TERM then, and not before."""
    wire = q.server(timeouts={"default": 4, "grace_s": 6})
    goes_on = (
        "import time\ntry: time.sleep(600)\nexcept KeyboardInterrupt: print(1, flush=True), time.sleep(%s), print(2)"
    )
    quick, slow = (wire.begin("python3 -c '%s' 2>/dev/null" % (goes_on % seconds)) for seconds in (0.8, 600))
    q.answered(quick, timed_out(q, "4s") + "1\n2\n", True, wire)
    reply = q.answered(slow, timed_out(q, "4s") + "1\n", True, wire)
    q.took(reply.took_s, 4 + 2, 4 + 2 + 1.8, "the answer, with a grace of 6 s")


@at_border("006.4", "characters of a *short* text")
def short_texts(q, count, is_within):
    shown = "é" * count if is_within else "é" * 79 + "…"
    q.refused({"é" * count: 1}, 'invalid arguments: unknown key "%s"; allowed: "command", "mode"' % shown)


@at_border("006.4", "keys named")
def unknown_keys(q, count, is_within):
    keys = ["k%d" % n for n in range(count)]
    shown = ", ".join('"%s"' % key for key in keys[:5])
    q.refused(dict.fromkeys(keys, 1), 'invalid arguments: unknown key %s; allowed: "command", "mode"' % shown)


OUT_OF_RANGE = 'invalid arguments: "timeout" must be from 1000 to %d milliseconds, got %%s' % SLOW_MS


@at_border("006.10", "ms at most")
def the_largest_timeout(q, count, is_within):
    arguments = {"command": "echo hi", "timeout": count}
    if not is_within:
        return q.refused(arguments, OUT_OF_RANGE % count)
    q.equal(q.wire.given(arguments).text, "hi\n")


@at_border("006.10", "ms at least")
def the_least_timeout(q, count, is_within):
    if count < 1000:
        return q.refused({"command": "echo hi", "timeout": count}, OUT_OF_RANGE % count)
    q.begins(q.wire.given({"command": "sleep 600", "timeout": count}).text, timed_out(q, "%gs" % (count / 1000)))


@at_border("006.10", "ms repeated")
def the_largest_number_that_is_repeated(q, count, is_within):
    for number in (count, -count):
        shown = number if is_within else "a number of another size"
        q.refused({"command": "echo hi", "timeout": number}, OUT_OF_RANGE % shown)


@at_border("006.13", "digits in a string")
def digits_in_a_string(q, count, is_within):
    said = OUT_OF_RANGE % ("1" * count) if is_within else 'invalid arguments: "timeout" must be an integer, got string'
    q.refused({"command": "echo hi", "timeout": "1" * count}, said)


@at_border("006.1", "s with a fraction")
def seconds_with_a_fraction(q, count, is_within):
    for limit in (count - 0.5, count):
        shown = "%gs" % limit if limit < 999999 else "%ds" % limit
        shown = "%dmin" % (count / 60) if limit % 60 == 0 else shown
        wire = q.server(timeouts={"slow": limit})
        q.has(wire.definition()["inputSchema"]["properties"]["mode"]["description"], "slow (%s timeout)" % shown)


@at_border("008.2", "returns in a line")
def lines_with_many_returns(q, count, is_within):
    q.equal(q.run(printf(b"abc\r" * count + b"d\n")).text, "abc\nd\n" if is_within else "dbc\n")


@at_border("008.2", "texts beside its last")
def texts_that_would_leave_remains(q, count, is_within):
    texts = [str(n) * (9 - n) for n in range(1, count + 2)]  # each is shorter than the one before
    text = q.run(printf("\r".join(texts).encode() + b"\n")).text
    q.equal(text, "".join(line + "\n" for line in texts[-4:]))


@at_border("009.5", "bytes in a file")
def the_largest_file(q, count, is_within):
    text = q.run("%s" % filler(count), within_s=180).text
    path, note = q.named(FULL_OUTPUT, text), "\n[output file capped at 64MB: the rest was not saved]\n"
    q.equal("[the file with the full output ends at 64MB" in text, not is_within, "a note on the file:")
    q.equal(path.stat().st_size, count if is_within else count - 1 + len(note), "size of the file:")
    path.unlink()


def old_file(q, number, size, age_s):
    """An output file of the folder."""
    path = q.state("output-%012x.log" % number)
    path.touch(0o600)
    os.truncate(path, size)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@at_border("009.6", "bytes in a folder")
def the_largest_folder(q, count, is_within):
    """64 MiB are free before a new file is made."""
    old, new = old_file(q, 1, count - (64 << 20) - 7, 90000), old_file(q, 2, 7, 80000)
    q.run("seq 100000")
    q.equal((old.exists(), new.exists()), (is_within, True), "the older and the newer file stay, of %d bytes:" % count)
    for path in q.state().glob("output-*"):
        path.unlink()


@at_border("009.6", "files in a folder")
def the_most_files(q, count, is_within):
    paths = [q.state("output-%012x.log" % n) for n in range(count - 1)]
    for n, path in enumerate(paths):
        if not path.exists():
            old_file(q, n, 9, 80000 - n)
    made = q.named(FULL_OUTPUT, q.run("seq 100000").text)
    q.equal([path.name for path in paths if not path.exists()], [path.name for path in paths[: not is_within]])
    made.unlink()


@at_border("011.2", "processes named")
def leftovers_named(q, count, is_within):
    text = q.run("for i in $(seq %d); do sleep 614.5 >/dev/null 2>&1 & done; echo hi" % count).text
    named = ", ".join([r'pid \d+ "sleep 614\.5"'] * min(count, 5)) + (" and %d more" % (count - 5)) * (not is_within)
    q.match(r"\[still running: %s; to stop: kill -TERM -\d+\]\nhi\n" % named, text)


@at_border("011.2", "groups told")
def groups_told(q, count, is_within):
    text = q.run("for i in $(seq %d); do setsid sleep 615.5 >/dev/null 2>&1 & done; sleep 0.3; echo hi" % count).text
    targets = q.match(r"\[still running: .*; to stop: kill -TERM((?: -\d+)+)\]\nhi\n", text)[1].split()
    q.equal(len(targets), min(count, 20), "groups to stop, of %d:" % count)


@asks("011.2")
@on_both_sides(("011.2", "s to end"))
def what_does_not_end_is_named(q):
    q.says("sleep 0.03 >/dev/null 2>&1 & echo hi", "hi\n")
    q.match(r'\[still running: pid \d+ "sleep 1\.5"; [^\n]*\]\nhi\n', q.run("sleep 1.5 >/dev/null 2>&1 & echo hi").text)


@asks("011.1")
@on_both_sides(("011.1", "s of silence"), ("011.1", "s of drain"))
def both_bounds_of_a_drain(q):
    q.run("echo warm")
    late = "(for i in 1 2 3 4; do sleep 0.25; echo $i; done) & echo hi"
    q.one_of(5, lambda: q.says(late, "hi\n1\n2\n3\n4\n"))
    for command, least_s in (
        ("(sleep 3; echo late) & echo hi", 0.5),
        ("(while sleep 0.1; do echo x; done) & echo $! > left; echo hi", 2),
    ):
        reply = q.one_of(4, lambda: q.takes(q.wire, command, least_s))
        q.match(r"\[still running: [^\n]*output goes on to [^\n]*\]\nhi\n(x\n)*", reply.text)


@at_border("014.6", "names told")
def withheld_names_told(q, count, is_within):
    names = ["I%d_INDEX" % n for n in range(10, 10 + count)]
    wire = q.server(env=dict.fromkeys(names, "https://me:pw@h/"))
    q.says("echo on", LOOKS_SECRET % ", ".join(names[:20]) + "on\n", wire=wire)
    q.says("echo on", (LOOKS_SECRET % names[-1]) * (not is_within) + "on\n", wire=wire)


@at_border("017.12", "s of a timeout")
def the_longest_limit(q, count, is_within):
    wire = q.server(timeouts={"default": count})
    if not is_within:
        return q.equal(wire.ended(), 125, "exit code of a server with a timeout of %d s:" % count)
    q.says("echo on", "on\n", wire=wire)


@at_border("025.12", "digits of an integer", beyond=False)
def long_integers(q, count, is_within):
    line = b'{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": {"x": %s}}' % (b"7" * count)
    answers_to(q, q.wire, (line, 0, 3))


@at_border("025.12", "levels of nesting", beyond=False)
def deep_nesting(q, count, is_within):
    levels = count - 2  # the message and its params
    line = b'{"jsonrpc": "2.0", "id": 4, "method": "ping", "params": {"x": %s}}' % (b"[" * levels + b"]" * levels)
    answers_to(q, q.wire, (line, 0, 4))


@at_border("025.14", "bytes in a line")
def the_longest_line(q, count, is_within):
    start, end = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "', b'"}}'
    line = start + b"x" * (count - len(start + end)) + end
    answers_to(q, q.wire, (line, 0, 1) if is_within else (line, -32600, None))


@at_border("025.18", "calls under way")
def calls_under_way(q, count, is_within):
    wire = q.server()
    numbers = [wire.begin("sleep 600", mode="slow") for _ in range(count - 1)]
    text = wire.call("echo on").text
    refused = "[system error: too many calls are under way (64); wait for the answer of one, or cancel one]\n"
    q.equal(text, "on\n" if is_within else refused, "the answer to the call beside %d others:" % len(numbers))


@asks("025.22")
def an_interrupt_cancels_each_call(q):
    wire, names = q.server(timeouts={"grace_s": 2}), ["in-%d" % n for n in range(20)]
    numbers = [wire.begin("echo on; echo > %s; exec sleep 600" % name, mode="slow") for name in names]
    q.there(*names)
    wire.signal(signal.SIGINT)
    q.equal({wire.finish(number).text for number in numbers}, {"[command cancelled]\non\n"}, "20 answers:")


@at_border("025.20", "bytes in a notification")
def the_largest_notification(q, count, is_within):
    q.run("%s> f" % filler(count).replace("; ", " "))
    q.wire.progress.clear()
    q.wire.finish(q.wire.begin("dd if=f bs=%d count=1 2>/dev/null; sleep 0.5" % count, token="t"))
    text = live_text(q.wire, "t")
    if is_within:
        return q.equal(text, "x" * count, "live output of %d bytes:" % count)
    q.match(r"\n\[live output skipped: 1B\]\nx{%d}" % (count - 1), text)


@at_border("021.3", "lines shown")
def lines_of_a_tail(q, count, is_within):
    if count < 10000:
        text = q.server(profile="jobs").given({"command": "seq %d" % count}).text
        first = 1 if is_within else 2
        shown = "\n".join(map(str, range(first, count + 1)))
        notice = "" if is_within else "\n[stdout: Showing last 2000 of %d lines.]" % count
        q.equal(text, "stdout:\n%s%s\n\nstderr:\n\n\nexit code: 0" % (shown, notice))


@asks("021.3")
@on_both_sides(("021.3", "bytes shown"))
def bytes_of_a_tail(q):
    wire = q.server(profile="jobs")
    for count in (51199, 51200, 51201):
        text = wire.given({"command": filler(count)}).text
        notice = r"\n\[stdout: Showing last 51200 bytes of line 1\. Full output: [^\n]*\]" * (count > 51200)
        q.match(r"stdout:\nx{%d}%s\n\nstderr:\n\n\nexit code: 0" % (min(count, 51200), notice), text)


@asks("021.6")
@on_both_sides(("021.6", "lines of stdout"), ("021.6", "lines of stderr"))
def lines_of_a_kept_command(q):
    wire = q.server(profile="jobs")
    for more in (-1, 0, 1):
        command = "seq %d; seq %d >&2; sleep 616.5" % (500 + more, 100 + more)
        _, _, text = kept_job(q, wire, command, 1000)
        for stream, most in (("stdout", 500), ("stderr", 100)):
            heading = "%s (last %d lines):" % (stream, most) if more > 0 else stream + ":"
            lines = "".join("\n%d" % n for n in range(max(1, more + 1), most + more + 1))
            q.has(text, "\n%s%s\n" % (heading, lines))


@at_border("021.9", "as a number of a process")
def numbers_of_processes(q, count, is_within):
    wire = q.server(profile="jobs")
    said = "no background process has the pid %d; running: none" % count
    if not is_within:
        said = 'invalid arguments: "check_pid" must be a process ID, got a number of another size'
    q.refused({"check_pid": count}, said, wire=wire)


@at_border("021.10", "ms at most")
def the_largest_timeout_of_jobs(q, count, is_within):
    wire = q.server(profile="jobs")
    if is_within:
        return q.has(wire.given({"command": "echo hi", "timeout": count}).text, "\nhi\n")
    said = "invalid arguments: \"timeout\" must be from 1 to 86400000 milliseconds, got %d"
    reply = wire.given({"command": "echo hi", "timeout": count})
    q.has(reply.text, said % count)


@at_border("021.8", "jobs whose streams are kept")
def jobs_whose_streams_are_kept(q, count, is_within):
    wire = q.server(profile="jobs")
    waits = "until [ -e {0} ]; do sleep 0.1; done; echo out; echo err >&2"
    names = ["go-%d-%d" % (count, n) for n in range(count)]
    numbers = [kept_job(q, wire, waits.format(name), 50)[0] for name in names]
    for name, number in zip(names, numbers):  # the first one ends first
        (q.folder / name).touch()
        eventually(lambda: "still running" not in wire.given({"check_pid": number}).text, 30)
    text = wire.given({"check_pid": numbers[0]}).text
    q.equal("\nstderr:" in text, is_within, "of the first of %d jobs that have ended the streams are kept:" % count)


@at_border("022.2", "characters shown")
def characters_of_a_head(q, count, is_within):
    text = q.server(profile="streams").call("yes é | head -n %d | tr -d '\\n'" % count).text
    shown = "é" * min(count, 30000) + "\n[truncated]" * (not is_within)
    q.equal(json.loads(text), {"stdout": shown, "stderr": "", "exitCode": 0})


@at_border("022.3", "characters of a command")
def characters_of_a_command(q, count, is_within):
    wire = q.server(profile="streams", timeouts={"default": 0.3})
    command = "sleep 600 #" + "é" * (count - 11)
    error = "bash '%s': timed out after 0.3s" % command[:80]
    q.equal(json.loads(wire.call(command).text)["error"], error)


@at_border("023.2", "bytes shown")
def bytes_of_a_head(q, count, is_within):
    text = q.server(profile="guarded").call(filler(count)).text
    cut = "\n... (output truncated)" * (not is_within)
    q.equal(text, "Exit code: 0\n" + "x" * min(count, 262144) + cut)
