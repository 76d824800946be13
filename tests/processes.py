"""Processes as /proc shows them, and waiting for a claim. Takes the standard library alone: the judge uses it too."""

import contextlib
import os
import time
from pathlib import Path


CHANGED = "BASH_TOOL_MUTANT" in os.environ  # a saboteur or a mutant
# A wait that is in vain, as most are under a saboteur, takes so long; any other ends with what it waits for.
PATIENCE_S = 4.0 if CHANGED else 240.0
AMPLE_S = 20.0 if CHANGED else 120.0  # the limit of a command that is to end by itself


def processes():
    """The numbers of all processes, without this one's."""
    own = str(os.getpid())
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and entry != own]


def dwellers(folder, among=None):
    """The live processes whose directory lies in the folder, whatever their environment; not this one."""
    found = []
    for pid in processes() if among is None else among:
        with contextlib.suppress(OSError):
            if os.readlink("/proc/%d/cwd" % pid).startswith(str(folder)):
                found.append(pid)
    return found


def carriers(mark, among=None):
    """The live processes with this variable in their environment; not this one."""
    return [pid for pid in (processes() if among is None else among) if mark.encode() in of_proc(pid, "environ")]


def left_by(mark, folder, older=frozenset()):
    """Both; processes older than a test are not looked at: to read all of the machine's takes 3 ms and more."""
    among = {*processes()} - older
    return {*carriers(mark, among), *dwellers(folder, among)}


def of_proc(pid, name):
    """The bytes of a file in /proc/PID; none where the process is gone, or not ours to read."""
    try:
        fd = os.open("/proc/%d/%s" % (pid, name), os.O_RDONLY)  # a third of the time that pathlib takes
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    except OSError:
        return b""
    finally:
        os.close(fd)


def alive(pid):
    """Whether a process runs; a zombie does not."""
    return of_proc(pid, "stat").rpartition(b") ")[2][:1] not in (b"", b"Z", b"X")


def running(word, count=None):
    """The live processes that have this word among their arguments; with a count, whether there are so many."""
    found = [pid for pid in processes() if word.encode() in of_proc(pid, "cmdline").split(b"\0") and alive(pid)]
    return found if count is None else len(found) == count


def eventually(claim, within_s=PATIENCE_S):
    """What the claim says, as soon as that is true, else at the deadline."""
    begun = time.monotonic()
    end = begun + min(within_s, PATIENCE_S)
    while True:
        said, now = claim(), time.monotonic()
        if said or now > end:
            return said
        time.sleep(min(0.1, max(0.01, (now - begun) / 5)))  # a look at all processes takes 3 ms of a processor


def number_in(path, within_s=PATIENCE_S):
    assert eventually(lambda: Path(path).exists() and Path(path).read_text().endswith("\n"), within_s), path
    return int(Path(path).read_text())


def parent_of(pid):
    """The number of a process's parent."""
    return int(Path("/proc/%d/stat" % pid).read_bytes().rpartition(b") ")[2].split()[1])


FUNCTIONS = "read cd exec eval printf export exit set declare trap pwd break shift : local source . [ ls".split()


def functions_of_a_host(*names):
    """The variables of exported functions of these names, none of which does what its name says."""
    return {"BASH_FUNC_%s%%%%" % name: "() { builtin echo wrong %s; builtin return 1; }" % name for name in names}
