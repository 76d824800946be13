"""What the judge asks of the level core about output: text, files, bounds."""

import fcntl
import os
import re
import signal
import shutil
import time
from pathlib import Path

from tests.conformance.core import FULL_OUTPUT, GOES_ON
from tests.conformance.judge import Unasked, asks, printf, shortened
from tests.processes import eventually


RENDERED = {
    "008.1": [
        *((b"\x1b[1;31mred\x1b[0m x\n", "red x\n"), (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ y\n", "link y\n")),
        *((b"\x1b]0;title\x07end\n", "end\n"), (b"\x1bPq#1\x1b\\dcs\n", "dcs\n")),
        *((b"\x1b_x\x1b\\apc\x1b^y\x1b\\pm\x1bXz\x1b\\sos\n", "apcpmsos\n"), (b"\x1bMone\x1b(Btwo\x1b7\n", "onetwo\n")),
        *((b"a\x1b]0;never ended\nb\n", "a0;never ended\nb\n"), (b"\xc2\x9b31mred\xc2\x9b0m\n", "red\n")),
        *((b"\xc2\x9dtitle\xc2\x9cst\n", "st\n"), (b"end\x1b[31\n", "end\n"), (b"lone\x1b\n", "lone\n")),
        *(("\x90a\x9cb\x98c\x07d\x9ee\x1b\\f\x9fg\x07h\n".encode(), "bdfh\n"), (b"\x1bPa\x07b\x1b_c\x07d\n", "bd\n")),
        *((b"\x1b]0;x\x1b[1my\x07z\n", "0;xyz\n"), (b"\x1b[?25lhide\x1b[2Jcls\x1b[10;4Hgo\x1b[>c\n", "hideclsgo\n")),
        (b"\x1b[38;2;1;2;3mrgb\x1b[4:3m\n", "rgb\n"),
    ],
    "008.2": [
        *((b" 10%\r 50%\r100%\n", "100%\n"), (b"downloading\r\x1b[Kdone\n", "done\n"), (b"abc\b\bxy\n", "axy\n")),
        *((b"a\r\nb\n", "a\nb\n"), (b"abcdef\x1b[3Gx\n", "abxdef\n"), (b"abcdef\x1b[Gx\n", "xbcdef\n")),
        *((b"abc\x1b[2DX\n", "aXc\n"), (b"abc\x1b[DX\n", "abX\n"), (b"abc\x1b[0DX\n", "abX\n")),
        *((b"abcdef\r\x1b[2CX\n", "abXdef\n"), (b"abcdef\r\x1b[CX\n", "aXcdef\n")),
        *((b"abcdef\x1b[4D\x1b[Kz\n", "abz\n"), (b"abcdef\x1b[4D\x1b[0Kz\n", "abz\n"), (b"abcdef\x1b[2Kx\n", "x\n")),
        *((b"abc\x1b[1Kx\n", "abcx\n"), (b"abc\x1b[99Dx\n", "xbc\n"), (b"ab\x1b[9Gx\n", "abx\n")),
        *((b"ab\r\x1b[9Cx\n", "abx\n"), (b"abc\rxyz\n", "xyz\n"), (b"\b\bx\n", "x\n")),
        ("äöü\rxyz\n".encode(), "xyz\n"),
        *((b"one\ntwo\rTTT\n", "one\nTTT\n"), (b"abc\r\r\nd\n", "abc\nd\n"), (b"abcdef\x1b[3G\x1b[K\n", "ab\n")),
        *((b"abcdef\x1b[4D\x1b[?2Kz\n", "abz\n"), (b"a\tb\r123\n", "123\n"), (b"abcdef\x1b[3;9Gx\n", "abxdef\n")),
        # What would leave remains keeps a line of its own.
        *((b"apples,33\rpears,5\n", "apples,33\npears,5\n"), (b"Initial\r\r\rFinal\r\n", "Initial\nFinal\n")),
        *((b"abc\rde", "abc\nde"), (b"done, 10%   \rdone\r\n", "done, 10%\ndone\n".replace("%", "%   "))),
        *((b"abcde\r     \rab\n", "ab\n"), (b"ab   \rab\n", "ab\n"), (b"a\x1b[1mbc\x1b[m\rd\n", "abc\nd\n")),
        *((b"55555\r4444\r333\r22\r1\n", "4444\n333\n22\n1\n"), (b"55\r1\r55\r666\n", "55\n666\n")),
        *((b"abc\r" * 8 + b"d\n", "abc\nd\n"), (b"abc\r" * 9 + b"d\n", "dbc\n"), (b"abc\b\rd\n", "dbc\n")),
        *(("日本\rxyz\n".encode(), "日本\nxyz\n"), ("日本\rwxyz\n".encode(), "wxyz\n")),
        *(("abcdef\r日本  \n".encode(), "日本  \n"), ("abcdefg\r日本  \n".encode(), "abcdefg\n日本  \n")),
        (b"ab\x1b[sc\x1b[ud\x1b[2@e\x1b[3Pf\x1b[4X\x1b[2L\x1b[M\x1b[3b\n", "abcdef\n"),
    ],
    "008.6": [
        *((b"one\ntwo\n\x1b[2A\x1b[Kx\n\x1b[Ky\n", "x\ny\n"), (b"one\ntwo\n\x1b[1F\x1b[Jend\n", "one\nend\n")),
        *((b"abc\ndef\x1b[AX\n", "abcX\ndef"), (b"abc\ndef\x1b[FX\n", "Xbc\ndef")),
        *((b"abc\ndef\n\x1b[2A\x1b[BX\n", "abc\nXef\n"), (b"abc\ndef\n\x1b[2A\x1b[EX\n", "abc\nXef\n")),
        *((b"abc\x1b[9AX\n", "abcX\n"), (b"abc\x1b[9BX\n", "abcX\n"), (b"abc\ndef\x1b[0AX\n", "abcX\ndef")),
        *((b"abc\ndef\x1b[A\x1b[2J\x1b[1JX\n", "abcX\ndef"), (b"abc\ndef\x1b[H\x1b[2;2HX\n", "abc\ndefX\n")),
        *((b"a\nbcd\x1b[AX\n", "aX\nbcd"), (b"abcdef\nx\n\x1b[2A\x1b[9C\x1b[B\x1b[AX\n", "aXcdef\nx\n")),
        *((b"one\ntwo\x1bMX\n", "one\ntwoX\n"), (b"abc\ndef\nghi\n\x1b[3A\x1b[0Jx\n", "x\n")),
        (b"abcdef\nxyz\x1b[A\x1b[JX\n", "abcX\n"),
        (b"ab\ncd\x1b[999999999A\x1b[9999999999Cx\x1b[999999999Dy\n", "ybx\ncd"),
    ],
    "008.3": [
        (b"a\x0eb\tc\x01\x7fd\n", "ab\tcd\n"),
        (bytes(set(range(1, 32)) - {8, 10, 13, 27}) + b"x\n", "\tx\n"),
        ("a\x85b\x99c\x80d\n".encode(), "abcd\n"),
        ("a\u2028b\ufeffc\u200fd\u00a0e\n".encode(), "a\u2028b\ufeffc\u200fd\u00a0e\n"),
        (b"a\x0bb\x0cc\n", "abc\n"),
    ],
    "008.4": [
        *((b"a\xffb\n", "a\ufffdb\n"), (b"\xed\xa0\x80x\n", "\ufffd\ufffd\ufffdx\n")),
        *((b"\xf0\x9f\x98x\n", "\ufffdx\n"), ("é€😀\n".encode(), "é€😀\n"), (b"\xc3\n", "\ufffd\n")),
        *((b"\xc0\xafx\n", "\ufffd\ufffdx\n"), (b"\xf4\x90\x80\x80x\n", "\ufffd" * 4 + "x\n")),
        ("\ufffd\n".encode(), "\ufffd\n"),
    ],
    "008.7": [
        *((b"a\0b\0c\n", "a\ufffdb\ufffdc\n"), (b"\0", "\ufffd"), (b"a\0\r\nb\n", "a\ufffd\nb\n")),
        *((b"\x1b]0;a\0b\x07c\n", "c\n"), (b"ab\0\b\bx\n", "ax\ufffd\n")),
    ],
}


@asks(*RENDERED)
def renders_as_the_page_says(q):
    for data, text in RENDERED[q.clause]:
        q.equal(q.run(printf(data)).text, text, "what is shown of %r:" % data)


@asks("008.4")
def a_character_in_pieces(q):
    q.says("printf '\\303'; sleep 0.4; printf '\\251\\360'; sleep 0.4; printf '\\237\\230\\200 x\\n'", "é😀 x\n")


@asks("008.5", "024.3")
def text_takes_linear_time(q):
    for piece in r"a\033[C \033] \r \033[ \b \033P\033 ab\033[1000D \302\233 x\r\033[K \033]8;;".split():
        reply = q.run("yes \"$(printf '%s')\" | tr -d '\\n' | head -c 131000; echo; echo end" % piece)
        q.that("end" in reply.text, "a text that ends in end", shortened(reply.text))
        q.took(reply.took_s, 0, 10, "the answer to 131,000 bytes of %s" % piece)
    if "JOBS" in q.judge.levels:
        command = "yes \"$(printf '\\033]')\" | tr -d '\\n' | head -c 3000000"
        took_s = q.server(profile="jobs").given({"command": command}).took_s
        q.took(took_s, 0, 10, "the answer to 3,000,000 bytes of \\033] in the profile jobs")


@asks("002.9")
def a_script_on_the_input_prints_what_it_held(q):
    wire = q.server(timeouts={"slow": 4})
    held = "import time\nprint('held back')\ntime.sleep(600)\n"
    for how in ("python3 - < s.py 2>/dev/null", "cat s.py | python3 - 2>/dev/null", "python3 s.py 2>/dev/null"):
        command = "printf '%%s' '%s' > s.py; %s" % (held.replace("'", "'\\''"), how)
        q.says(command, "[command timed out after 4s]\nheld back\n", True, wire=wire, mode="slow")


@asks("009.2")
def files_are_private(q):
    for mask in (0, 0o277):
        before, folder = "os.umask(%d)" % mask, q.place / ("tmp-%o" % mask)
        folder.mkdir()
        if mask:  # of a new folder such a umask takes more (009.2)
            (folder / q.state().name).mkdir(mode=0o700)
        path = q.named(FULL_OUTPUT, q.server(before=before, env={"TMPDIR": str(folder)}).call("seq 100000").text)
        modes = [oct(each.stat().st_mode & 0o7777) for each in (path, path.parent)]
        q.equal(modes, ["0o600", "0o700"], "modes of %s and of its folder, umask %o:" % (path.name, mask))
        q.match(r"output-[0-9a-f]{12}\.log", path.name)
    # 4.9: the folder is made with the parents that it lacks.
    wire = q.server("--state-dir", "%s/new/state" % q.folder, before="os.umask(0o027)")
    path = q.named(FULL_OUTPUT, wire.call("seq 100000").text)
    modes = [oct(folder.stat().st_mode & 0o7777) for folder in (path.parent, path.parent.parent)]
    q.equal((path.parent, modes), (q.folder / "new/state", ["0o700", "0o750"]), "a given folder, modes:")


@asks("009.2")
def an_unsafe_folder_is_not_used(q):
    """4.9: the state folder, and what stands in its place."""

    def spoilt(path, how):
        if how == "another user's":
            os.chown(path, 65534, -1)
        elif how == "a link":
            path.rename(path.with_name("linked"))
            path.symlink_to("linked")
        else:
            path.chmod(how)

    unsafe = [0o777, 0o720, *["another user's"] * (os.getuid() == 0)]
    for how in [*unsafe, "a link"]:
        spoilt(q.state(), how)
        folder = q.named(FULL_OUTPUT, q.server().call("seq 100000").text).parent
        q.match(r"bash-tool-[0-9a-f]{12}", folder.name)
        q.equal((folder.parent, folder.stat().st_mode & 0o7777), (q.files, 0o700), "for %s, folder:" % how)
        shutil.rmtree(q.state()) if how != "a link" else q.state().unlink()
    for how in [*unsafe, 0o1777]:
        given = q.folder / "given"
        given.mkdir()
        spoilt(given, how)
        text = q.server("--state-dir", str(given)).call("seq 100000").text
        q.match(r".*\n100000\n\[full output%s: [^\n]*\]\n" % ("" if how == 0o1777 else " was not saved"), text)
        q.equal(len(list(given.glob("output-*"))), int(how == 0o1777), "files in a given folder of mode %s:" % how)
        shutil.rmtree(given)


@asks("009.3")
def files_hold_the_bytes(q):
    text = q.run("printf '\\033[31m\\377\\r\\n\\0x\\b'; head -c 140000 /dev/zero; echo e >&2").text
    q.equal(q.named(FULL_OUTPUT, text).read_bytes(), b"\x1b[31m\xff\r\n\0x\b" + bytes(140000) + b"e\n")


@asks("009.4")
def a_file_that_fails(q):
    command, wire = "seq 100000; exit 3", q.server("--state-dir", str(q.place / "no-folder"))
    wire.ask("ping")
    (q.place / "no-folder").write_text("")  # after the start, for which 026.12 wants a folder
    good, bad = q.run(command), wire.call(command)
    (*most, last), (*fewer, said) = good.text[:-1].split("\n"), bad.text[:-1].split("\n")
    q.that(last.startswith("[full output: "), "a last line with the file", last)
    q.equal(fewer, most)
    q.match(r"\[full output was not saved: .+\]", said)
    q.says("echo fine", "fine\n", wire=wire)
    text = wire.call("sleep 600 & echo hi").text
    q.match(r"\[still running: [^\n]*; output goes on to nowhere \(no file could be written: [^\n]+\)\]\nhi\n", text)
    wire.call("(until [ -e go ]; do sleep 0.1; done; seq 50000; echo > wrote) & echo hi")
    (q.folder / "go").touch()
    q.there("wrote")
    for folder in ("", str(q.place / "no-folder")):  # another folder for temporary files is tried
        path = q.named(FULL_OUTPUT, q.server(env={"TMPDIR": folder}).call(command).text)
        q.that(path.parts[1] in ("tmp", "var"), "a file in /tmp or in /var/tmp, for TMPDIR=%s" % folder, path)
        path.unlink()


@asks("009.4")
def a_file_that_fails_later(q):
    """On a disk of 300 KB, which only the server sees, and which only root can make."""
    full = q.folder / "full"
    full.mkdir()
    mounts = "libc.mount(b'none', b'/', None, 0x44000, None) or libc.mount(b'none', %r, b'tmpfs', 0, b'size=300k')"
    before = "libc = ctypes.CDLL(None)\nif libc.unshare(1 << 17) or %s: sys.exit(99)" % mounts % bytes(full)
    wire = q.server("--state-dir", str(full), before=before)
    wire.request("ping")
    if wire.receive() is None:
        raise Unasked("a small disk cannot be made")
    text = wire.call("seq 100000; exit 3").text
    reason = r"%s/output-[0-9a-f]{12}\.log \(No space left on device\)" % re.escape(str(full))
    q.match(r"\[command failed: exit code 3\]\n\[out.*\n100000\n\[full output may be incomplete: %s\]\n" % reason, text)


@asks("009.5")
def files_are_capped(q):
    text = q.run("head -c 70000000 /dev/zero | tr '\\0' x", within_s=180).text
    note = r"\[the file with the full output ends at 64MB: the rest was read but not saved\]\n"
    q.match(note + r"\[output truncated in middle: got 66\.8MB, max is 128KB\]\n.*", text)
    path = q.named(FULL_OUTPUT, text)
    q.equal(path.stat().st_size, 67108918, "size of the file:")
    with open(path, "rb") as file:
        file.seek(67108864 - 2)
        q.equal(file.read(), b"xx\n[output file capped at 64MB: the rest was not saved]\n")
    text = q.run("(until [ -e go ]; do sleep 0.1; done; head -c 70000000 /dev/zero && echo > end) & echo on").text
    path = q.named(GOES_ON, text)
    (q.folder / "go").touch()
    q.there("end")
    eventually(lambda: path.stat().st_size == 67108918, 20)
    q.equal(path.stat().st_size, 67108918, "size of the file of what went on:")


@asks("009.6")
def folders_are_capped(q):
    left = q.named(GOES_ON, q.server().call("sleep 600 & echo on").text)
    old, new, mine = q.state("output-00000000000b.log"), q.state("output-00000000000a.log"), q.state("output-mine.log")
    longer = q.state("output-000000000000b.log")  # 13 digits
    for path, size, age in ((old, (1 << 30) - (32 << 20), 90000), (new, 9, 0), (mine, 9, 90000), (longer, 9, 95000)):
        path.touch(0o600)
        os.truncate(path, size)
        os.utime(path, (time.time() - age,) * 2)
    locked = q.state("output-00000000000c.log")  # by another writer
    locked.touch(0o600)
    foreign = [q.state("output-00000000000e.log")] * (os.getuid() == 0)  # of another user
    for path in foreign:
        path.touch()
        os.chown(path, 65534, -1)
        os.utime(path, (time.time() - 99000,) * 2)
    for path in (left, locked):
        os.utime(path, (time.time() - 99000,) * 2)
    with open(locked) as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        path = q.named(FULL_OUTPUT, q.run("seq 100000").text)
        removed = [each.name for each in (old, new, mine, longer, left, locked, *foreign) if not each.exists()]
        q.equal(removed, [old.name], "removed of an old file, a newer one, two of other names, two that are written:")
    q.equal(path.parent, q.state(), "state folder")
    for n in range(1005):
        path = q.state("output-%012x.log" % (5100 - n))
        path.touch(0o600)
        os.utime(path, (time.time() - 80000 + n,) * 2)
    q.run("seq 100000")
    left = sorted(path.name for path in q.state().glob("output-*.log") if path not in (mine, longer, *foreign))
    q.equal(len(left), 1000, "output files:")
    right = "output-%012x.log" % 5100 not in left and "output-%012x.log" % 4096 in left
    q.that(right, "the oldest are removed first", left[:3] + left[-3:])


@asks("009.7")
def closing_keeps_what_was_named(q):
    commands = ("seq 100000", "echo hi", "false", "sleep 600 & echo $! > left; echo on")
    texts = [q.run(command).text for command in commands]
    named = {q.named(FULL_OUTPUT, texts[0]), q.named(GOES_ON, texts[3])}
    number, withdrawn = (q.wire.begin("seq 100000; echo > %s; sleep 600" % name, name) for name in "ab")
    q.wire.cancel(withdrawn)
    q.wire.signal(signal.SIGTERM)  # whose answers are due; 025.26: not those at the end of the input
    q.equal(q.wire.ended(), 0, "exit code of the server:")
    named.add(q.named(FULL_OUTPUT, q.wire.finish(number).text))
    q.that(all(path.exists() for path in named), "the files that answers have named are kept", "one is gone")
    there = {Path(folder, name) for folder, _, names in os.walk(q.files) for name in names if name.endswith(".log")}
    q.equal(sorted(map(str, there - named)), [], "output files that no answer has named:")


@asks("009.8")
def most_calls_make_no_file(q):
    q.run("echo hi; exit 1")
    q.run("head -c 131000 /dev/zero | tr '\\0' x; echo")
    q.server(timeouts={"default": 0.5}).call("echo on; sleep 600")
    q.equal(os.listdir(q.files), [], "files, and the folder that is made with the first of them:")


def peak_of(pid):
    """The most memory that a process had, in KiB."""
    return int(re.search(r"(?m)^VmHWM:\s*(\d+)", Path("/proc/%d/status" % pid).read_text())[1])


@asks("010.1")
def a_flood_stays_small(q):
    """The server and the process that reads the command's output, by the most memory that they had."""
    q.run("seq 60000; echo done")
    wire, peak = q.wire, "sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$PPID/status"
    before = peak_of(wire.pid)
    if "server" in q.judge.levels:  # with live output too
        wire.finish(wire.begin("head -c 300000000 /dev/zero | tr '\\0' x", token="t", mode="slow"), within_s=180)
    command = "a=$(%s); head -c 2300000000 /dev/zero; b=$(%s); echo $a > before; echo $b > after" % (peak, peak)
    text = wire.call(command, within_s=180, mode="slow").text
    q.that("got 2.1GB" in text, "got 2.1GB", shortened(text, 200))
    q.below(peak_of(wire.pid) - before, 8192, "KiB by which the server grows")
    q.below(q.number("after") - q.number("before"), 8192, "KiB by which the parent of the shell grows")


@asks("010.2")
def reads_to_the_end(q):
    text = q.run("head -c 5000000 /dev/zero | tr '\\0' '\\1'; echo end >&2; echo > finished").text
    q.match(r".* got 4\.8MB,.*\nend\n[^\n]*\n", text)
    q.there("finished", within_s=1)


@asks("010.3")
def calls_leave_nothing(q):
    listed = os.getuid() == 0  # the descriptors of a server that is not dumpable; else a limit tells of them
    few = "" if listed else "resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))"
    wire = q.server(timeouts={"default": 0.3}, before=few)
    ends = ("echo hi", "false", "exec >&-; echo x", "seq 60000", "sleep 2.5 & :", "kill -9 $$")

    def calls(rounds):
        """Per round 7 calls that end, 7 that time out, and 12 that are withdrawn, 6 of them before they may run."""
        for _ in range(rounds):
            running = ["running-%d" % n for n in range(6)]
            withdrawn = [wire.begin("echo > %s; sleep 600" % name, mode="slow") for name in running]
            q.there(*running)
            for name in running:
                (q.folder / name).unlink()
            for number in withdrawn + [wire.begin("sleep 600", mode="slow") for _ in running]:
                wire.cancel(number)
            for number in [wire.begin(command) for command in (*ends, *["sleep 9"] * 7)]:
                wire.finish(number)
        for _ in range(0 if listed else 140):
            q.says("echo on", "on\n", wire=wire)

    def held():
        proc = Path("/proc/%d" % wire.pid)
        children = [len(path.read_text().split()) for path in proc.glob("task/*/children")]
        return len(os.listdir(proc / "fd")) if listed else 0, len(children), sum(children)

    calls(1)
    first = held()
    calls(8 if listed else 16)  # the processes kept for later commands, say 16, may end meanwhile
    words = "as many descriptors, threads and children as after the first 25 calls: %r" % (first,)
    q.that(eventually(lambda: all(now <= then + 5 for now, then in zip(held(), first)), 15), words, held())
    q.equal([name for _, _, names in os.walk(q.files) for name in names if not name.endswith(".log")], [], "files:")
