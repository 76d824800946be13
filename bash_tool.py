#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The bash_tool authors
# SPDX-License-Identifier: MIT
# A project that vendors this file need not lint it. Ruff obeys `flake8: noqa` too, except PGH004.
# flake8: noqa
# ruff: noqa: PGH004
# isort: skip_file
"""A shell tool for LLM agents: a command goes in, an answer that a model can act on comes out.

    from bash_tool import BashTool

    with BashTool("/repo") as bash:
        tools = [bash.definition()]                   # what the model is told
        result = bash.call({"command": "make test"})  # what the model sent -> what the model reads
        result.text, result.is_error
        bash.run("make test", timeout_s=600).check()  # the same for a program; raises if it fails

What a program imports, each with its own help:

    BashTool   the tool: definition() call() run() jobs() job() wait() close()
    Result     what call() and run() give: text, is_error, ok, status, exit_code, stdout, ...
    Job        a command that goes on by itself: status, read(), wait(), kill()
    Cancel     cancel() ends the calls that were given this token, from any thread
    serve      serve(tool) serves the program's own tool over MCP, on stdin and stdout
    Profile    a way of speaking to a model. MODES (the default) has three time limits, JOBS turns
               a command that takes too long into a job, STREAMS answers in JSON, GUARDED puts the
               exit code first. PROFILES is all of them by name, OnTimeout says what a timeout does

Texts are str, sizes are bytes. Times are seconds, in names that end in `_s`; `timeout` is the one
exception, milliseconds that a model sends. Nothing that a model sends or a command does raises. A
refusal or a failure is a Result with `is_error`; its `error` has an id if something other than the
command went wrong. A mistake of the program is a ValueError, of its `confirm` a TypeError; a
directory or a file that is missing is an OSError, a job that nobody knows a LookupError.

SPEC.md holds the clauses (REQ-BASH-nnn.m); the tests hold them word for word, and say of each which
function upholds it. Standard library only, CPython 3.9 and later, Linux; macOS is untried. Vendor
it by copying this file. docs/manual.md has every option, field, limit and error.
"""

# How it works
#
# Every command has a supervisor, a process of its own:
#
#     host (this program)        fork server                  supervisor
#     BashTool.call -- request ------------------------------> spawn bash, drain, watch the clock,
#          ^                     forks a supervisor when       signal, reap: one command at a time;
#          |                     no idle one can be borrowed   parent of every orphan of its command
#          +------ live output, answer ----------------------- idle again if nothing is left by then
#
# The words of this file, one for each thing; tests/test_words.py holds its names to them:
#
#     host          the program that imports this file; also the server and the command line
#     supervisor    the process that runs one command at a time, and the parent of its orphans
#     fork server   the process that forks supervisors
#     channel       the socket between host and supervisor; its ends: HostEnd and SupervisorEnd
#     request       what a caller asks for; a plan is what a supervisor is asked for
#     exchange      one command as its host sees it, in one of six states
#     life          one command as its supervisor sees it, in one of six phases
#     report        what a supervisor tells of a command; an outcome is what the host makes of it
#     result        what the caller gets: an outcome in the words of a profile
#     stop          a request to end a command; a token (Cancel) counts those of a caller
#     steps         the passes in which a stop signals processes; the grace is the time for them
#     attached      ends with its host; what is detached goes on without it
#     job           a command that goes on after its answer: a background command, or a kept one
#     leftover      a process of a command that goes on after the report
#     record        the file by which every program of this user finds and ends a job
#     monitor       the thread that receives the end of a job
#     stream        standard output, standard error, or both; a buffer keeps its head and tail
#     note          a bracketed line of an answer
#     profile       a row of data: how the tool speaks to a model
#     carry         to start a command with the directory and variables of the last one's end
#     withhold      to keep a variable out of the environment of commands
#     drain         to read on after the shell has exited
#     reap          to collect the status of a child (waitpid); inspect: to read a process's /proc
#     observe       to see what has happened to a command by now
#     close         a descriptor or a channel; half_close: for writing alone
#     release       a place among the jobs; forget: an entry of a table
#     discard       a file that no answer will name; abandon: a call whose caller leaves
#
# Its limit ends a command, and so do the events in the table. The command gets a signal first. The
# tool then waits at most the time in the table, and sends KILL until nothing is left. `-` means
# that the event does not end it. A second stop ends the wait. The limit counts as a stop, so a
# cancel in its grace means KILL.
#
#                           a call that  a command   a background  leftovers of  what goes on
#                           waits        that was    job           a foreground  of an ephemeral
#                                        kept                      command       tool
#     Ctrl-C in a program   0.5 s        -           -             -             -
#     a Cancel of the call  grace        -           -             -             -
#     BashTool.close        grace        grace       -             -             0.5 s
#     the end of its host   0.5 s        0.5 s       -             -             0.5 s
#     Job.kill              -            grace       grace         -             grace (a job)
#
# The ways through the code:
#
#   a byte           Output.read keeps it in an OutputBuffer. Command.send_answer sends what was
#                    kept. Exchange._read_answer receives that as a Captured. Session._run has
#                    fit_streams make it a Fitted, by the profile's `truncation` (keep_ends): that
#                    decodes, cleans (`cleaning`: render) and cuts. Session._finish has present
#                    write the text of the Result, by the profile's `format` (format_brackets).
#   the limit        make_plan takes it from the call or the profile. Life._watch sees that it has
#                    passed, and Life._end says what is to be done. Command.ask, terminate and kill
#                    do that, Command.report and send_answer tell the host. From
#                    Exchange._read_answer on it goes as with a byte; status_line writes the first
#                    line.
#   nothing is left  _become_subreaper makes each supervisor a subreaper. Command.observe reaps
#                    (_reap), and sees `childless` when waitpid(2) says ECHILD; Life._end asks for
#                    KILL until then. After a normal exit nothing is ended: Command.report names
#                    what is left.
#   Ctrl-C           In a program it is an exception in the main thread. Session._run calls
#                    Exchange.abandon, which asks for a stop and waits until nothing is left. The
#                    supervisor removes the file of an answer that nobody reads; abandon does so if
#                    the answer had come. On the command line a handler cancels, and the answer is
#                    printed (_run_and_print). In the server, Server._run_once cancels each call,
#                    and the server answers them and goes on. If standard input is a terminal, the
#                    server ends, and Server.serve closes the tool.
#   the host dies    The kernel closes its sockets. SupervisorEnd.hear reads end of file, and
#                    Life.next_action stops the command if it is `attached`.
#   a job goes on    Command.answer_as_job tells the host. Life._watch detaches a background
#                    command, and Exchange.tokens is empty from then on, so that neither the host's
#                    end nor `close` stops it; a kept command stays attached.
#                    Command.note_end writes its end into its file and its record. Its
#                    supervisor ends with the last process of the job, or is idle again if nothing
#                    was left at the report. The fork server ends last, after its host.
#
# The file reads from top to bottom: a section uses those above it. Within a section a helper may
# stand below its one caller. "Pure" sections have no I/O of their own. A name that begins with `_`
# is no promise to a program; other classes of this file may use it.
#
#     1 Limits and words   what several sections use
#     2 Supervisor         one command, its processes and its files; the fork server
#     ==== above this line the file runs in those processes too, and imports little ====
#     3 Types              the closed vocabulary of a call
#     4 Text               bytes -> what a terminal would show -> cut to size -> an answer    (pure)
#     5 Profiles           what differs between the ways of speaking to a model: rows of data
#     6 Decisions          arguments, environment, what a record says                         (pure)
#     7 Host side          starting a fork server, one command as its caller sees it, jobs
#     8 BashTool           the public class
#     9 MCP                the same for the clients of a protocol: a message -> what it asks for
#     10 Command line

from __future__ import annotations

import errno
import fcntl
import gc
import marshal
import os
import select
import selectors
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from os import fsencode
from time import monotonic
from typing import (
    Any,
    Callable,
    Container,
    Coroutine,
    Iterable,
    Iterator,
    Literal,
    Mapping,
    NamedTuple,
    NoReturn,
    Sequence,
    Union,
    overload,
)

__version__ = "1.0.0"

__all__ = [
    "BashTool",
    "Result",
    "Job",
    "Cancel",
    "serve",
    "Profile",
    "OnTimeout",
    "MODES",
    "JOBS",
    "STREAMS",
    "GUARDED",
    "PROFILES",
    "__version__",
]


# ---- 1 Limits and words ------------------------------------------------------------------------
# Numbers and texts that several sections use, and those of the supervisor. All others stand where
# they are used. Some numbers come from the five design documents behind this tool, the seeds:
# 000 and 003 describe the profile MODES, 001 JOBS, 002 STREAMS, 004 GUARDED; `seed 001` in a
# comment names one of them. The others are our own choice, by measurement where a comment says so.
# The texts are contract too, because models, hosts and tests match on them: SPEC.md lists them. A
# name in `_s` is a duration in seconds, one in `_at` a moment on the monotonic clock.

KIB = 1024
MIB = 1024 * KIB

# fmt: off
BACKGROUND_TIMEOUT_S = 24 * 60 * 60.0
GRACE_S = 15.0              # the most between a stop's first signal and KILL (REQ-BASH-004)
EXITING_S = 0.1             # after the shell's exit: a process that is just ending is gone by then
PARENTS_FIRST_S = 0.5       # for a parent to act on its signal, before its children get theirs
FILTERS_S = 0.2             # for filters to print what they hold; for pools to end workers
NO_CPU_S = 0.5              # without processor time: nothing is busy with its own ending
LAST_TERM_S = 1.0           # before the end of the grace: TERM also to what is busy
ASK_EVERY_S = 0.05          # the longest wait between two passes over what a stop asks to end
UNKILLABLE_S = 5.0          # after KILL: for uninterruptible processes and those of another user
KILL_EVERY_S = 0.002        # between two passes of KILL; output is read and children are reaped
REAP_EVERY_S = 0.02         # between two looks at a process group, whose end no signal announces
HOST_GONE_GRACE_S = 0.5     # between TERM and KILL after the host's end: all is gone in a second
CHECK_EVERY_S = 1.0         # between two looks at what wakes no sleeping loop
IDLE_S = 10.0               # after which an idle supervisor ends by itself
LIVE_EVERY_S = 0.1          # between two pieces of live output
SNIP_SIZE = 4 * KIB         # what is shown of each end of an output over the maximum
FILE_CAP_BYTES = 64 * MIB   # spool files of 1 to 2 TB are on record elsewhere
FOLDER_CAP_BYTES = 1024 * MIB
FOLDER_CAP_FILES = 1000     # output files of a folder; with 20,000 a list took 2.8 s
READ_BYTES = 64 * KIB       # of a socket, or of the input of a server, at once
LIVE_BYTES = 256 * KIB      # of each stream, live output that the host has not read yet
LEFTOVERS_NAMED = 5         # processes that a note lists by name
RECORD_ROOM = 32 * KIB      # reserved for the end of a job, so that a full disk does not lose it
COMMAND_RECORDED = 2000     # characters of a job's command that its record holds
CARRIED_BYTES = 64 * MIB    # of a state as bash writes it, which takes at most 4 bytes for one
ECHO_CHARS = 80             # of a command line, a wrong key, a wrong value, when a text quotes it
# fmt: on

# Python before 3.11 has no name for 16, which is another signal in macOS.
SIGNAL_NAMES = {16: "SIGSTKFLT", **{int(s): s.name for s in signal.Signals}}
# Signals that a user or a program sends to end a program; no fault of its own raises them.
STOPPING = "SIGHUP SIGINT SIGKILL SIGTERM".split()

# What a Result says of its command, also for those who check their program by types
# (REQ-BASH-026.16); the phases of a Life, and the states of an Exchange.
Status = Literal["exited", "timed_out", "cancelled", "running", "rejected", "failed", "lost"]
Phase = Literal["watch", "drain", "end", "report", "stay", "over"]
State = Literal["new", "asking", "sent", "job", "held", "over"]

NO_CWD = "the working directory %s cannot be entered (%s)"
NOWHERE = "nowhere (no file could be written: %s)"
TOO_LARGE = (
    "the shell could not be started: the environment is too large for execve "
    "(the command itself is not limited)"
)


# -- Words: how a number, a name from outside and an end are written


def format_size(count: int) -> str:
    """A number of bytes in the largest unit of which there is one, with a decimal unless whole.

    >>> format_size(131072), format_size(200000), format_size(7)
    ('128KB', '195.3KB', '7B')
    """
    unit, scale = "B", 1
    for larger in ("KB", "MB", "GB"):
        if count >= scale * KIB:
            unit, scale = larger, scale * KIB
    form = "%.1f%s" if count % scale else "%d%s"
    return form % (count / scale, unit)


def format_seconds(seconds: float) -> str:
    """Seconds as the texts write them: `30s`, `900s`, `0.7s`."""
    return "%gs" % round(seconds, 3) if seconds < 999_999 else "%ds" % seconds


def decode(data: bytes) -> str:
    """The bytes as text; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def make_printable(value: object, instead: str = "\ufffd") -> str:
    """A value from outside, or a path as bytes, as one line that any wire can carry: `instead`
    stands for each character that cannot be printed, lone surrogates included."""
    text = os.fsdecode(value) if isinstance(value, bytes) else str(value)
    return "".join(c if c.isprintable() else instead for c in text)


def shorten(value: object) -> str:
    """A value from outside on one line, of at most ECHO_CHARS, to stand within a sentence."""
    text = make_printable(value, " ")
    return text if len(text) <= ECHO_CHARS else text[: ECHO_CHARS - 1] + "…"


def quote(value: object) -> str:
    r"""A name or text from outside within one of the tool's own bracketed lines: a JSON string of
    what `shorten` gives, in which no quotation mark ends the string and no `]` ends the line.

    >>> print(quote("x); to stop: kill -9 -1"), quote('a]\n"b"'))
    "x); to stop: kill -9 -1" "a\u005d \"b\""
    """
    escaped = shorten(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"%s"' % escaped.replace("]", "\\u005d")


def read_returncode(returncode: int) -> tuple[int, str | None]:
    """The exit code and the name of the signal, from subprocess's return code: signal n reads
    as 128 + n, as in any shell.

    >>> read_returncode(3), read_returncode(-9)
    ((3, None), (137, 'SIGKILL'))
    """
    if returncode >= 0:
        return returncode, None
    return 128 - returncode, SIGNAL_NAMES.get(-returncode, "signal %d" % -returncode)


def describe_stop(ended: Report) -> str:
    """Why the tool ended a command; empty if the tool did not."""
    if ended.status == "timed_out":
        return "timed out after %s" % format_seconds(ended.limit_s)
    return "cancelled" if ended.status == "cancelled" else ""


def describe_end(ended: Report, in_file: bool = False) -> str:
    """How a job ended: in the note in its file; else in the note of an answer and in the list of
    jobs, in which a job that was told to stop has not failed."""
    stopped = describe_stop(ended)
    if stopped:
        return "failed: " + stopped
    if ended.status != "exited":
        return "error: " + ("lost" if ended.error == "lost" else ended.reason)
    code = ended.exit_code or 0
    if ended.signal:
        how = "failed: signal %d (%s)"
        if in_file:
            how = "failed: signal: %d (%s)"
        elif ended.signal in STOPPING:
            how = "ended by signal %d (%s)"
        return how % (code - 128, ended.signal)
    if code:
        return ("failed: exit status: %d" if in_file else "failed: exit status %d") % code
    return "completed"


# ---- 2 Supervisor ------------------------------------------------------------------------------
# Every command has a supervisor: a process that spawns the shell, reads its output, watches the
# clock, signals and reaps. The supervisor is a subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)): when a
# process of the command loses its parent, it becomes the supervisor's child, whatever it does to
# its environment, session or descriptors. So `waitpid(-1)` that fails with ECHILD proves that no
# descendant of the command is left. A channel is the socket between a supervisor and its host.
#
# Life has the rules, without I/O: it takes what has happened, and says what is to be done.
# Command.run is the one loop: it waits in a selector (Loop.wait calls Output.read and
# Supervisor._hear there), observes, and does what the life says. The end of an OutputBuffer is a
# bounded deque. KILL, and a TERM without steps before it, go to the process group of the shell
# (os.killpg), then to what it does not reach. A supervisor serves a second command only if nothing
# was left of the first at its report. The host is gone when the supervisor reads end of file on its
# channel.
#
# The end of the output and the exit of the shell are two events: a leftover holds the pipe after
# the exit, and `exec >&-` closes the pipe before. Output goes through a pipe, not straight into a
# file, because `echo x > /dev/stderr` would truncate the file.
#
# Supervisors are forked by the fork server, which executes the code of this file up to the end of
# this section. So what stands here imports little: `re` and `json` are imported in the functions
# that use them, because most supervisors need neither.

_F_SETPIPE_SZ = 1031  # fcntl(2); Python has the name since 3.10
_PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 4, 15, 36  # prctl(2)

OWN_NAME = b"btool"  # of the tool's processes: no `pkill` of a language or a path meets it
# Asks a supervisor to end its job. The default action for this signal is to ignore it (signal(7)).
END_JOB_SIGNAL = signal.SIGURG


# Where the kernel lists the processes of this process's own PID namespace. The numbers in the /proc
# of another namespace belong to unrelated processes. If there is none, nothing can have this
# path, because /dev/null is no directory.
PROC = (
    "/proc" if os.path.realpath("/proc/self") == "/proc/%d" % os.getpid() else "/dev/null/proc"
)
# False if the kernel was built without CONFIG_PROC_CHILDREN.
HAS_CHILDREN_FILES = os.path.exists(PROC + "/thread-self/children")
# In a supervisor and in the fork server: whether descendants become children, and can be listed.
# Else the process group of the shell is all that is known of a command: SPEC.md, "Fallbacks".
SEES_TREE = False


def _reason(problem: BaseException, with_file: bool = False) -> str:
    """Why something failed. `with_file` puts the file in front, if one is known."""
    if not isinstance(problem, OSError):
        return str(problem)
    file = problem.filename if with_file else None
    return (make_printable(file) + ": " if file else "") + (problem.strerror or str(problem))


def _read_file(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _write_all(fd: int, data: bytes | bytearray) -> None:
    """Writes all of it, even if another holder of the descriptor has made it non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            poller = select.poll()  # takes any descriptor, which select(2) does not
            poller.register(fd, select.POLLOUT)
            poller.poll()


def _close(*fds: int) -> None:
    """Closes the descriptors; a negative number stands for none."""
    for fd in fds:
        if fd >= 0:
            os.close(fd)


# -- Files: the state folder, output files, records
#
# A folder for temporary files is shared with other users, and a command can remove or replace what
# stands in a folder of its own user: so no link is opened, and what is read is a regular file.


def record_of(output: str) -> str:
    """The path of the record beside an output file."""
    return output and os.path.splitext(output)[0] + ".job"


def remove_files(output: str) -> None:
    """Removes an output file and its record."""
    for path in (output, record_of(output)):
        with suppress(OSError):
            os.unlink(path)


def _create(path: str, flags: int) -> int:
    """A descriptor of a new file that is this user's alone. Raises OSError."""
    fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with suppress(OSError):  # a file system without modes
        os.fchmod(fd, 0o600)  # the umask may have taken more away
    return fd


def _lock(fd: int, how: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> bool | None:
    """True if this descriptor holds the lock of its file now (flock(2)): until this descriptor and
    all copies of it are closed. None on a file system without locks, such as Lustre (ENOSYS)."""
    try:
        fcntl.flock(fd, how)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None


def is_writable(folder: str) -> bool:
    """True for a folder in which a file can be made."""
    return os.access(folder, os.W_OK | os.X_OK)


def temporary_folder() -> str:
    """The first folder for temporary files in which a file can be made."""
    for base in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp"):
        if base and is_writable(base):
            return os.path.abspath(base)
    return "/tmp"


def data_file(what: str, data: bytes) -> int:
    """A descriptor of a file without a name that holds the data, read from its beginning: in
    memory, else in a folder for temporary files. Raises SpawnError, which says what it is."""
    fd = -1
    try:
        try:
            fd = os.memfd_create("btool")
        except (AttributeError, OSError):  # macOS, some sandboxes
            from tempfile import TemporaryFile  # here, because it takes a third of all imports

            # Without `dir`, tempfile takes the folder that it has found at its first use.
            with TemporaryFile(dir=temporary_folder()) as file:
                fd = os.dup(file.fileno())
        _write_all(fd, data)  # RLIMIT_FSIZE holds for memory too
    except OSError as problem:
        _close(fd)
        raise SpawnError("spawn_failed", what + " could not be stored: " + _reason(problem))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def make_folder(path: str) -> None:
    """Makes the state folder if need be. Raises OSError, also if another user could change files
    there: since the tool was made, a cleaner of /tmp may have removed the folder, and another user
    may have made one of the same name."""
    os.makedirs(path, 0o700, exist_ok=True)
    info = os.stat(path)
    is_safe = not info.st_mode & 0o022 or info.st_mode & stat.S_ISVTX  # sticky, as /tmp is
    if not is_safe or info.st_uid not in (os.geteuid(), 0):
        raise PermissionError(errno.EPERM, "other users can change what is in it")


def make_scratch(folder: bytes) -> bytes:
    """A new folder in the state folder, with an empty folder `scratch` in it: `cd ..` from the
    inner one shows no output files. Raises OSError."""
    make_folder(os.fsdecode(folder))
    parent = os.path.join(folder, b"scratch-" + os.urandom(6).hex().encode())
    os.mkdir(parent, 0o700)
    os.mkdir(parent + b"/scratch", 0o700)
    return parent


def own_outputs(folder: str, prefix: str) -> set[str]:
    """The output files in a folder, of all tools that give them this prefix or a usual one, even
    those of which only the record is left. Raises OSError."""
    import re

    ours = r"((?:output-|pipe-bash-|%s)[0-9a-f]{12})\.(?:log|job)" % re.escape(prefix)
    names = map(re.compile(ours).fullmatch, os.listdir(folder))
    return {os.path.join(folder, name[1] + ".log") for name in names if name}


def _make_room(folder: str, prefix: str) -> None:
    """Removes the oldest finished output files, with their records, while the folder holds too
    much or too many. Only files of this user count."""
    files = {}
    used = FILE_CAP_BYTES  # room for the new file
    for path in own_outputs(folder, prefix):
        try:  # which costs less than `suppress`, with a thousand files
            info = os.lstat(path)
        except OSError:  # it is gone by now, or its record alone is left
            continue
        if info.st_uid == os.geteuid():
            files[path] = (info.st_mtime, info.st_size)
            used += info.st_size
    for path in sorted(files, key=files.__getitem__):
        if used <= FOLDER_CAP_BYTES and len(files) < FOLDER_CAP_FILES:
            break
        if _remove_finished(path):
            used -= files.pop(path)[1]


def _remove_finished(output: str) -> bool:
    """Removes an output file and its record. Returns False if a process still writes the file: the
    kernel drops the lock when the writer ends, however it ends. A missing file counts as removed,
    because another tool may be making room too."""
    try:
        fd = os.open(output, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        is_free = bool(_lock(fd))
        os.close(fd)
    except OSError as problem:
        is_free = problem.errno == errno.ENOENT
    if is_free:
        remove_files(output)
    return is_free


# -- Processes


def _read_proc(pid: int, name: str) -> bytes:
    """What a file of /proc says of a process; empty if the process is gone, or without /proc."""
    try:
        return _read_file("%s/%d/%s" % (PROC, pid, name))
    except OSError:
        return b""


def _stat(pid: int) -> list[bytes]:
    """The fields of the kernel's line on a process from its state on, the third
    (proc_pid_stat(5)). The name before them may hold brackets."""
    return _read_proc(pid, "stat").rpartition(b") ")[2].split()


def identity(pid: int) -> list[int]:
    """The pid and the start time of a process. No later process with this pid has its start time;
    without /proc that is 0."""
    fields = _stat(pid)
    return [pid, int(fields[19]) if fields else 0]


def _children(pid: int) -> list[int]:
    """The children of a process, those of all its threads (proc_pid_children(5))."""
    found: list[int] = []
    with suppress(OSError):  # the process has ended
        for task in os.listdir("%s/%d/task" % (PROC, pid)):
            found += map(int, _read_proc(pid, "task/%s/children" % task).split())
    return found


def descendants(omitted: Iterable[int] = ()) -> dict[int, int]:
    """The live processes below this one, as a dict from pid to process group. Parents come
    before their children, later siblings before earlier ones. `omitted`: children of this process
    that are left out, with all that is below them."""
    found = {}
    seen = set(omitted)
    # Twice, because a process that loses its parent during the walk becomes a child of this one.
    # No third time: there is always another child of processes that fork and exit all the time.
    for _ in range(2 if SEES_TREE else 0):
        waiting = _children(os.getpid())
        while waiting:
            pid = waiting.pop()
            if pid in seen:
                continue
            seen.add(pid)
            fields = _stat(pid)
            # A process whose first thread alone has ended is in state Z too (field num_threads).
            if fields and (fields[0] != b"Z" or int(fields[17]) > 1):
                found[pid] = int(fields[2])
                waiting += _children(pid)
    return found


def _status_field(pid: int, field: bytes) -> bytes:
    """A field of the long description of a process (proc_pid_status(5))."""
    return _read_proc(pid, "status").partition(b"\n%s:\t" % field)[2].partition(b"\n")[0]


def has_inner_number(pid: int) -> bool:
    """True for a process in a PID namespace below this one, in which it has another pid."""
    return b"\t" in _status_field(pid, b"NSpid")


def _signal(pid: int, *numbers: int, to_group: bool = False) -> bool:
    """Sends the signals in this order to a process, or to a process group. False if that is gone
    or not to be signalled (kill(2))."""
    send = os.killpg if to_group else os.kill
    try:
        for number in numbers:
            send(pid, number)
        return True
    except OSError:
        return False


def _kill_below(omitted: Iterable[int] = ()) -> bool:
    """One pass of KILL over the processes below this one; False if there is none. Passes follow
    until ECHILD: a later pass kills what a process that forks and exits all the time has left. STOP
    before KILL was measured to take 10 to 500 times as long: each pass lists the stopped processes
    again."""
    found = descendants(omitted)
    for pid in found:
        _signal(pid, signal.SIGKILL)
    return bool(found)


def _reap() -> tuple[dict[int, int], bool]:
    """Reaps every child that has ended, orphans included. Returns their statuses by pid, and
    whether no child is left (ECHILD, waitpid(2))."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if pid == 0:
            return ended, False
        ended[pid] = status


def _command_line(pid: int) -> str:
    """The arguments of a process as one line; empty if it is just ending: the kernel frees its
    memory, which holds the arguments, before its files and its pid (do_exit in kernel/exit.c,
    proc_pid_cmdline(5)). A subshell has the tool's own line for arguments, and gets another
    name."""
    text = decode(_read_proc(pid, "cmdline").rstrip(b"\0").replace(b"\0", b" "))
    return "a subshell of the command" if "BASH_EXECUTION_STRING" in text else text


class ListedProcess(NamedTuple):
    """A live process as a note names it."""

    pid: int
    group: int
    arguments: str


def list_descendants() -> list[ListedProcess]:
    """Lists the live processes below this one by pid, without those that are just ending. It
    also leaves out the helper of busybox `timeout`: a process without children that leads its own
    group and checks each second whether the command lives (coreutils/timeout.c of busybox)."""
    import re

    found: list[ListedProcess] = []
    for pid, group in descendants().items():
        arguments = _command_line(pid)
        is_timeout = re.match(r"(\S*/)?((busy|toy)box )?timeout ", arguments)
        if arguments and not (is_timeout and group == pid and not _children(pid)):
            found.append(ListedProcess(pid, group, arguments))
    return sorted(found)


def describe_processes(processes: Sequence[ListedProcess], form: str = "pid %d %s") -> str:
    """The processes as a note lists them."""
    named = [form % (pid, quote(line)) for pid, _, line in processes[:LEFTOVERS_NAMED]]
    more = len(processes) - LEFTOVERS_NAMED
    return ", ".join(named) + (" and %d more" % more if more > 0 else "")


# -- Values that a host and a supervisor hand to each other


class Plan(NamedTuple):
    """A request to a supervisor: all that a command needs. The supervisor sees this and never a
    profile. Paths and texts are bytes: host and supervisor may have different locales."""

    text: bytes  # of the command
    shell: Sequence[bytes]  # the words before the shell's own arguments
    path: bytes  # where the program of the shell is looked for
    cwd: bytes
    cwd_required: bool  # no scratch folder stands in for the directory
    env: Mapping[bytes, bytes]
    carries: bool  # the shell writes down what it ends with
    limit_s: float  # after which the command is ended
    answer_after_s: float  # if it still runs then, it becomes a job; infinite: never
    grace_s: float  # these three are those of the profile, or less
    drain_idle_s: float
    drain_total_s: float
    streams: int  # pipes: one for both streams, or one for each
    pipe_bytes: int  # the size of each; 0: as the kernel makes them
    background: bool  # a job from the start
    ephemeral: bool  # nothing of it outlives its host
    wants_live: bool  # live output is asked for
    saves: bool  # output goes to a file, if more than `limit_bytes` comes
    limit_bytes: int
    # Of each stream: how many bytes of its beginning and of its end are kept, and whether its
    # newlines are counted.
    buffer_sizes: tuple[int, int, bool]
    folder: bytes  # where output files and records stand
    file_prefix: str  # of their names


class Captured(NamedTuple):
    """What was kept of one stream, and how much there was of it."""

    head: bytes
    tail: bytes
    total_bytes: int
    newlines: int = 0  # counted only if lines are limited


class Fitted(NamedTuple):
    """A stream's text at the size a model gets to read."""

    text: str
    got_bytes: int  # what the limit was compared with
    cut: bool
    details: Mapping[str, Any] = {}  # what `keep_tail` tells a program of the cut


NO_STREAM = Fitted("", 0, False)


class Report(NamedTuple):
    """How a command ended, or that it goes on: what its supervisor tells the host."""

    status: Status
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    reason: str = ""  # for `failed` and `rejected`: the sentence
    limit_s: float = 0.0  # the limit; of a command that goes on, when it was answered
    notes: Sequence[str] = ()
    leftovers: Sequence[int] = ()  # pids, all of them; the answer names the first few
    can_kill: bool = True  # False: in a PID namespace of its own, where its pids mean nothing
    total_bytes: int = 0
    duration_s: float = 0.0
    problem: str = ""  # why the file with the output is incomplete or missing
    capped: bool = False  # whether that file ends at its greatest size
    cut_short: bool = False  # a program that was ending by itself was not waited for
    carried: bytes = b""  # what the shell wrote down at its end
    path: bytes = b""  # of the file that holds the output as it arrived; empty: there is none
    completion_note: str = ""  # of a job, if the answer shows it
    is_over: bool = False  # nothing of the command is left
    # Of a job alone:
    pid: int | None = None
    command: str = ""  # its first COMMAND_RECORDED characters
    created: float = 0.0  # its beginning, on the wall clock
    supervisor: Sequence[int] = ()  # pid and start time of the process that runs it
    at: int = -1  # the place of the completion note in the output file; -1: none yet


class Outcome(NamedTuple):
    """What the host makes of a report, for one answer; only the streams depend on the profile."""

    report: Report
    notes: Sequence[str] = ()  # all that the answer shows
    path: str | None = None  # of the file with the output, if the answer names it
    raw: Sequence[Captured] = ()  # the streams as they came; `fit_streams` makes texts of them
    stdout: Fitted = NO_STREAM  # or both streams
    stderr: Fitted = NO_STREAM
    kept: bool = False  # after the limit the command goes on as a job
    mode: str = ""  # of the request; empty for an answer to a question about a job
    command: str = ""


# The fields of a report that the record of a job keeps, with the types that JSON gives them.
RECORD_FIELDS: dict[str, Any] = {
    "pid": int,
    "total_bytes": int,
    "at": int,
    "created": (int, float),
    "duration_s": (int, float),
    "limit_s": (int, float),
    "command": str,
    "status": str,
    "reason": str,
    "supervisor": list,
    "notes": list,
    "exit_code": (int, type(None)),
    "signal": (str, type(None)),
    "error": (str, type(None)),
}


# -- Messages between the host and a supervisor
#
# From the host:
#   "run", fields                of a Plan
#   "stop", count                how often a stop was asked for, in all
#   "leave"                      the caller leaves: nobody reads an answer
# From the supervisor:
#   "hello", pid                 once, before anything else, but for a `failed` of the fork server
#   "live", skipped, chunks      live output: how many bytes were skipped before it; each chunk with
#                                the number of its stream
#   "answer", fields, streams    of a Report, and of a Captured for each stream. Of a command that
#                                becomes a job there are two: status `running`, then how it ended
#   "failed", id, reason         the command was not run, or the supervisor has a bug


class Channel:
    """One end of the socket between the host and a supervisor. A message is a length and a
    marshalled value: both ends run the same interpreter. Only HostEnd.send_plan blocks in the
    socket."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)  # the end may have been passed in either state
        self.socket = end
        self.fds: list[int] = []  # descriptors that came with a message
        self._received = bytearray()

    def receive(self) -> list[Any] | None:
        """The messages that are complete by now; None at the end. Raises OSError, and if nothing
        has come BlockingIOError."""
        data, fds, _, _ = socket.recv_fds(self.socket, READ_BYTES, 1)
        self.fds += fds
        received = self._received
        received += data
        messages = []
        # Of a message that has not come, or less than its length, `end` is beyond what has come.
        while len(received) >= (end := 4 + int.from_bytes(received[:4], "little")):
            messages.append(marshal.loads(received[4:end]))
            del received[:end]
        return messages if data else None


def pack(message: Any) -> bytes:
    """The message as it travels."""
    data = marshal.dumps(message)
    return len(data).to_bytes(4, "little") + data


class OutputBuffer:
    """The first and the last bytes of one stream, however long it is. The total counts all. The end
    is a deque of chunks, from which the first is dropped as soon as the others are enough."""

    def __init__(self, head_bytes: int, tail_bytes: int, count_lines: bool = False) -> None:
        self.total_bytes = self.newlines = 0
        self._count_lines = count_lines  # it costs a third of the throughput
        self._head_bytes = head_bytes
        self._head = bytearray()
        self._tail = deque[bytes]()
        self._tail_bytes = tail_bytes
        self._surplus = -tail_bytes  # by how much the chunks are longer than that

    def add(self, chunk: bytes) -> None:
        """Takes in what arrived, and forgets from the middle what there is no room for."""
        self.total_bytes += len(chunk)
        if self._count_lines:
            self.newlines += chunk.count(b"\n")
        room = self._head_bytes - len(self._head)
        self._head += chunk[:room]
        # Not more of a chunk than may be kept: while a large one is held, malloc(3) maps memory
        # anew for the next one, and a flood is drained at half the speed.
        if rest := chunk[room:][-self._tail_bytes :]:
            self._tail.append(rest)
            self._surplus += len(rest)
        while self._tail and self._surplus >= len(self._tail[0]):
            self._surplus -= len(self._tail.popleft())

    def captured(self) -> Captured:
        """What is kept by now of the beginning and of the end, and the counts."""
        tail = b"".join(self._tail)[max(0, self._surplus) :]
        return Captured(bytes(self._head), tail, self.total_bytes, self.newlines)


class SupervisorEnd(Channel):
    """A supervisor's end. What the host does not read waits here. Live output alone has no bound of
    its own, so of each stream only the end waits."""

    nobody_reads = False  # the host is gone, or its caller
    abandoned = False  # the caller has left its call, but its host lives
    host_stops = 0  # how often the host has asked to end the command, in all
    _live_sent_at = 0.0

    def __init__(self, end: socket.socket) -> None:
        super().__init__(end)
        self.plans: list[Plan] = []  # that have come
        self.unsent = bytearray()  # what the host has not made room for
        self._live: dict[int, OutputBuffer] = {}  # by stream

    def _flush(self) -> None:
        """Sends what goes without waiting. Raises OSError if the host's end is closed."""
        with suppress(BlockingIOError):
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]

    def hear(self) -> None:
        """Takes in what the host has sent, and sends what has waited."""
        try:
            self._flush()
            messages = self.receive()
        except BlockingIOError:
            return
        except OSError:
            messages = None
        for kind, *parts in messages or ():
            if kind == "run":
                self.plans.append(Plan(*parts))
            elif kind == "stop":
                self.host_stops = max(self.host_stops, *parts)
            else:
                self.abandoned = True
        self.nobody_reads = messages is None or self.abandoned

    def send(self, *message: Any) -> None:
        """Sends the message, after the live output that came before. An error is ignored: the host
        may be gone."""
        if self._live:
            tails = [(stream, buffer.captured().tail) for stream, buffer in self._live.items()]
            total = sum(buffer.total_bytes for buffer in self._live.values())
            skipped = total - sum(len(tail) for _, tail in tails)
            self.unsent += pack(("live", skipped, tails))
            self._live.clear()
        if message:
            self.unsent += pack(message)
        with suppress(OSError):
            self._flush()

    def close_if_unread(self) -> None:
        """Closes the channel if nobody reads: a caller that leaves may wait for that."""
        if self.nobody_reads:
            self.socket.close()

    def add_live(self, chunk: bytes, stream: int) -> None:
        """Takes live output, which is sent about ten times a second."""
        self._live.setdefault(stream, OutputBuffer(0, LIVE_BYTES)).add(chunk)

    def send_live(self, now: float) -> float:
        """Sends live output if it is time; returns the moment at which it is. While the host reads
        nothing there is no such moment."""
        if self.unsent or not self._live:
            return inf
        due_at = self._live_sent_at + LIVE_EVERY_S
        if now < due_at:
            return due_at
        self._live_sent_at = now
        self.send()
        return inf


# -- One command: its output, its shell, its life


class Output:
    """The output of one command: its pipes, what is kept of each stream, and the file with all
    raw bytes in the order of their arrival. They wait in memory while they fit there. A file
    that cannot be made or written ends the saving, never the command. The record of a job
    stands beside the file."""

    last_at = 0.0  # when a byte was read or a pipe ended
    room = FILE_CAP_BYTES  # below 0: the file is capped
    path = ""  # of the file; empty if there is none
    problem = ""  # why the file is incomplete or missing
    note_offset = -1  # the place of the completion note in the file; -1: none was written
    _fd = -1
    _record = -1  # a descriptor of the record of a job

    def __init__(self, plan: Plan, supervisor: Supervisor) -> None:
        self._plan, self._supervisor = plan, supervisor
        self._where = make_printable(plan.folder) + ": "  # of the file, if there is none
        self.pipes: dict[int, int] = {}  # those that are open, and the stream that each is of
        self.buffers = [OutputBuffer(*plan.buffer_sizes) for _ in range(plan.streams)]
        # None: the bytes go to a file, or are not saved.
        self._pending: bytearray | None = bytearray()

    def open_pipes(self, writers: list[int]) -> None:
        """Opens a pipe for each stream; the ends for the shell go to `writers`. Raises OSError."""
        for stream in range(self._plan.streams):
            reader, writer = os.pipe()
            writers.append(writer)
            self.pipes[reader] = stream
            os.set_blocking(reader, False)
            with suppress(OSError):
                if len(self._plan.shell) > 1:  # another user's may open /dev/stderr again
                    os.fchmod(writer, 0o666)
                # A large pipe: node gives up what does not fit when it exits. A user has 64 MiB of
                # pipes in all (pipe(7)); beyond that a pipe stays as it is.
                if self._plan.pipe_bytes:
                    fcntl.fcntl(reader, _F_SETPIPE_SZ, self._plan.pipe_bytes)
            self._supervisor.selector.register(reader, selectors.EVENT_READ, self.read)

    def read(self, reader: int) -> None:
        """Takes in what is in a pipe; the largest has room for 1 MiB."""
        stream = self.pipes[reader]
        buffer = self.buffers[stream]
        try:
            chunk = os.read(reader, MIB)
        except BlockingIOError:
            return
        self.last_at = monotonic()
        if not chunk:
            return self._close_pipe(reader)
        buffer.add(chunk)
        if self._plan.wants_live:
            self._supervisor.channel.add_live(chunk, stream)
        if self._pending is None:
            return self._write(chunk)
        self._pending += chunk
        if buffer.total_bytes > self._plan.limit_bytes:
            if self._plan.saves:
                self.save()
            self._pending = None

    def _close_pipe(self, reader: int) -> None:
        del self.pipes[reader]
        self._supervisor.selector.unregister(reader)
        os.close(reader)

    def total_bytes(self) -> int:
        """How many bytes have come, of all streams."""
        return sum(buffer.total_bytes for buffer in self.buffers)

    def is_long_text(self) -> bool:
        """True if the text of a stream is over the limit though its bytes are not: three bytes
        replace an invalid one, and a NUL."""
        if self._pending is None:
            return False
        texts = [decode(b"".join(buffer.captured()[:2])) for buffer in self.buffers]
        return any(
            len(text.replace("\0", "\ufffd").encode()) > self._plan.limit_bytes
            for text in texts
        )

    def save(self) -> None:
        """From now on the bytes go to a file in the state folder, behind those that still wait in
        memory. The file is locked until the command is over."""
        if self._fd < 0 and not self.problem:
            try:
                folder, prefix = os.fsdecode(self._plan.folder), self._plan.file_prefix
                make_folder(folder)
                _make_room(folder, prefix)
                path = os.path.join(folder, prefix + os.urandom(6).hex() + ".log")
                self._fd, self.path = _create(path, os.O_RDWR | os.O_APPEND), path
                _lock(self._fd)
                self._write(self._pending or b"")
            except OSError as problem:
                self.problem = self._where + _reason(problem)
            self._pending = None

    def _write(self, chunk: bytes | bytearray) -> None:
        """Writes to the file, as far as it takes more."""
        if self._fd < 0 or self.room < 0 or self.problem:
            return
        try:
            _write_all(self._fd, chunk[: self.room])
            self.room -= len(chunk)
            if self.room < 0:
                note = "\n[output file capped at %s: the rest was not saved]\n"
                _write_all(self._fd, (note % format_size(FILE_CAP_BYTES)).encode())
        except OSError as problem:
            self.problem = _reason(problem)
            if os.fstat(self._fd).st_size == 0:  # on a full disk: no answer names an empty file
                self.problem = self._where + self.problem
                self.discard()

    def begin_job(self) -> None:
        """Makes the output file and the record of a job: one JSON text in a file beside the output,
        written in place by the supervisor alone, which holds the file's lock until the command is
        over. Raises SpawnError."""
        self.save()
        try:
            if self.problem:
                raise OSError
            self._record = _create(record_of(self.path), os.O_RDWR)
            # Waits: a reader may hold the lock for a moment.
            _lock(self._record, fcntl.LOCK_EX)
            os.pwrite(self._record, b" " * RECORD_ROOM, 0)
        except OSError as problem:
            why = self.problem or self._where + _reason(problem)
            raise SpawnError("spawn_failed", "no file for the job could be made: " + why)

    def write_record(self, report: Report) -> None:
        """Writes down how the job stands, if there is a record; blanks keep the room."""
        import json

        fields = {name: getattr(report, name) for name in RECORD_FIELDS}
        text = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        with suppress(OSError):
            os.pwrite(self._record, text.ljust(RECORD_ROOM), 0)

    def append_note(self, note: str) -> None:
        """Appends a completion note, also behind the cap."""
        with suppress(OSError):  # there is no file, or no room
            size = os.fstat(self._fd).st_size
            _write_all(self._fd, note.encode())
            self.note_offset = size

    def discard(self) -> None:
        """Removes the file, if there is one: no answer will name it."""
        remove_files(self.path)
        self.path = ""

    def close_pipes(self) -> None:
        """Reads what is in the pipes now, and closes them."""
        for reader in list(self.pipes):
            self.read(reader)
            if reader in self.pipes:
                self._close_pipe(reader)

    def close(self) -> None:
        """Closes the pipes, the file and the record, which gives back their locks."""
        self.close_pipes()
        _close(self._fd, self._record)


# The line that the shell is told in its arguments. The shell reads the text of the command up to a
# NUL, from a descriptor of its own, which it closes, and evaluates the text. BASH_EXECUTION_STRING
# is the variable in which `bash -c` itself keeps its text. `builtin` and `command` keep out
# functions that the environment may have under the names behind them. `builtin exec` would undo its
# redirection.
_READ_TEXT = "IFS= builtin read -r %s-d '' BASH_EXECUTION_STRING || builtin exit; "
_EVALUATE = """\
BASH_EXECUTION_STRING=${BASH_EXECUTION_STRING%$'\\n'}; \
builtin eval -- "$BASH_EXECUTION_STRING\""""
# A prefix of the shell (`sudo`, `docker exec`) may hand on no descriptor above 2 and may have gone
# to another directory: there the directory, the text and the command's own input come on stdin, and
# the shell enters the directory. `cd` must leave OLDPWD as it was. TMOUT=0, because a TMOUT of the
# host would end a `read` from a pipe. It does not end one from a file (bash(1), read); so it is not
# set there, where it may be read-only.
_ENTER = """\
builtin set -- "${OLDPWD-}"; \
builtin cd -L -- "$BASH_EXECUTION_STRING" || builtin exit; OLDPWD=$1; \
[[ $1 ]] || { builtin unset OLDPWD; builtin declare -x OLDPWD; }; builtin set --; """
# If the directory and the variables that the command ends with are carried over, a trap on EXIT
# writes them behind the text of the command, into the file that held the text, so that a value
# passes through no process and no file with a name. A redirection on `eval` would be in the way of
# the command: while it lasts, bash keeps what it replaced at the first free descriptor from 10 up,
# and `exec 10>log` would hit that. So the file stays open in the shell, close-on-exec: it is in no
# program. No redirection asks for close-on-exec, but bash sets it for what it keeps of a standard
# stream (for `<&N` at a descriptor above N), and copies it with the descriptor (redir.c,
# add_undo_redirect and do_redirection_internal). So stdin becomes the text, and while it is
# replaced once more, `exec` copies what bash keeps. The copy is descriptor 1023: from 10 up, bash
# takes what is close-on-exec for its own, and undoes an `exec` that replaces it. If the limit is
# lower the copy is descriptor 9.
_KEEP_FILE = """\
{ if command exec 1023<&%d 1020<&1023 1023<&-; then \
{ { command exec 1023<&1022; } <&1020; } <&1020; \
else command exec 15<&%d; { { command exec 9<&17; } <&15; } <&15; fi; \
command exec %s 15<&- 1020<&-; } 2>/dev/null; """
# The trap takes the descriptor at which an empty string and a NUL stand, as behind the text of the
# command. A trap on DEBUG would write among the variables, and a limit on the size of files would
# kill the shell.
_SAVE_STATE = """\
builtin trap -- '{ builtin trap - DEBUG; builtin trap "" XFSZ; \
for BASH_EXECUTION_STRING in 1023 9; do \
{ builtin read -r -t 1 -d "" BASH_EXECUTION_STRING && \
[[ ! $BASH_EXECUTION_STRING ]] && \
{ builtin export -p && builtin printf "\\0" && builtin pwd && builtin printf "\\0"; \
builtin break; }; } <&"$BASH_EXECUTION_STRING" >&"$BASH_EXECUTION_STRING" \
|| builtin :; done; } >/dev/null 2>&1' EXIT; """


def shell_line(fd: int, has_prefix: bool, has_input: bool, carries: bool) -> str:
    """The line for the arguments of a shell that finds the text of its command at descriptor
    `fd`, with a prefix at 0."""
    if has_prefix:
        fd = 0
        read = "TMOUT=0 " + _READ_TEXT % ""
        line = read + _ENTER + read
        own = "" if has_input else "</dev/null"
    else:
        line = _READ_TEXT % ("-u %d " % fd)
        own = "%d<&-" % fd
    line += _KEEP_FILE % (fd, fd, own) + _SAVE_STATE if carries else "command exec %s; " % own
    return line + _EVALUATE


class SpawnError(Exception):
    """A command that could not begin: `args` are the stable id and the sentence."""


def find_program(plan: Plan) -> bytes:
    """The file of a shell, looked for along a path. Raises SpawnError."""
    name = plan.shell[0]
    for folder in [b""] if b"/" in name else plan.path.split(b":"):
        found = os.path.join(plan.cwd, folder, name)
        if os.access(found, os.X_OK) and os.path.isfile(found):
            return found
    raise SpawnError("shell_not_found", "the shell %s was not found" % shorten(name))


class Shell:
    """The shell of one command: its text, its directory, and the process group that it leads;
    `popen` is its process, from `start` on. Until the supervisor reaps the shell, the kernel
    gives its pid to no other process or group."""

    def __init__(self, plan: Plan, stdin_fd: int) -> None:
        """`stdin_fd`: a descriptor of the command's own input, or subprocess.DEVNULL."""
        self._plan, self._stdin_fd = plan, stdin_fd
        self._has_prefix = len(plan.shell) > 1
        self._carries = plan.carries and not (self._has_prefix and stdin_fd >= 0)
        self._text_fd = -1
        self.scratch = b""  # the folder around `scratch`, where the command runs instead
        # For the answer: on the scratch folder, and on what still runs.
        self.notes: list[str] = []

    def start(self, writers: Sequence[int]) -> None:
        """Spawns the shell in its directory; if that is gone, in an empty folder. To refuse would
        end the conversation, and any other folder would make relative paths dangerous. Raises
        OSError, SpawnError."""
        plan = self._plan
        self._make_text()
        try:
            self._spawn(plan.cwd, writers)
        except OSError as problem:
            if problem.filename != plan.cwd:
                raise
            import re

            # A path that is too long to show keeps both ends; `]` must not close the note.
            cwd = re.sub("(.{100})..+(.{99})", r"\1…\2", make_printable(plan.cwd))
            why = cwd.replace("]", r"\u005d"), _reason(problem)
            try:
                if plan.cwd_required or self._has_prefix:
                    raise
                self.scratch = make_scratch(plan.folder)
            except OSError:
                raise SpawnError("cwd_missing", NO_CWD % why)
            is_gone = isinstance(problem, (FileNotFoundError, NotADirectoryError))
            note = "the working directory %s is gone (%s)" if is_gone else NO_CWD
            self.notes.append(note % why + "; the command ran in an empty scratch folder")
            self._spawn(self.scratch + b"/scratch", writers)

    def _spawn(self, cwd: bytes, writers: Sequence[int]) -> None:
        """The supervisor has taken on the environment of the command, so none is given here: to
        encode it for each spawn takes a tenth longer. If the directory cannot be entered,
        `filename` of the OSError is the directory."""
        os.environb[b"PWD"] = cwd  # keeps a path with links: bash(1), PWD
        plan, fd = self._plan, self._text_fd
        line = shell_line(fd, self._has_prefix, self._stdin_fd >= 0, self._carries)
        # No preexec_fn: it would forbid vfork. `--norc`: below sshd even `bash -c` would read
        # ~/.bashrc.
        self.popen = subprocess.Popen(
            [*plan.shell, b"--norc", b"-c", line.encode()],
            executable=find_program(plan),
            cwd=cwd,
            stdin=fd if self._has_prefix else self._stdin_fd,
            stdout=writers[0],
            stderr=writers[-1],
            pass_fds=() if self._has_prefix else (fd,),
            start_new_session=True,
        )

    def _make_text(self) -> None:
        """Makes what the shell reads its text from. A text may end in half a character, and `read
        -d ''` would take the NUL for its other half. So a slash ends the directory and a newline
        the text; the line that the shell is told removes the newline."""
        text, behind = self._plan.text + b"\n\0", b"\0" if self._carries else b""
        if self._has_prefix:
            text = self._plan.cwd.rstrip(b"/") + b"/\0" + text
            if self._stdin_fd >= 0:
                with open(self._stdin_fd, "rb", closefd=False) as file:
                    behind = file.read()
        self._text_bytes = len(text)
        self._text_fd = data_file("the text of the command", text + behind)

    def why_unread(self) -> str:
        """How a shell ended that has not read its text; empty if it has: shell and supervisor share
        the position in the file (open(2), open file descriptions)."""
        if os.lseek(self._text_fd, 0, os.SEEK_CUR) >= self._text_bytes:
            return ""
        code, name = read_returncode(self.popen.returncode)
        words = shorten(self._plan.shell[0]), name or "exit code %d" % code
        why = "the shell %s ended (%s) before it read the command" % words
        file = os.environb.get(b"BASH_ENV")
        return why + "; the file of BASH_ENV may have ended it: " + quote(file) if file else why

    def carried(self) -> bytes:
        """What the shell has written behind its text, unless a signal has ended it."""
        if not self._carries or (self.popen.returncode or 0) < 0:
            return b""
        data = os.pread(self._text_fd, CARRIED_BYTES, self._text_bytes + 1)
        if self.scratch:  # which is removed: the next command starts where this one should have
            for own in self.scratch, self.scratch + b"/scratch":
                data = data.replace(b"\0%s\n\0" % own, b"\0%s\n\0" % self._plan.cwd)
        return data

    def signal_group(self, *numbers: int) -> bool:
        """Signals the group in one system call, which no concurrent fork escapes; False if that
        fails. Once the shell is reaped its pid may be given again, but if the tree cannot be
        seen the group is all that is known of the command."""
        may_signal = self.popen.returncode is None or not SEES_TREE
        return may_signal and _signal(self.popen.pid, *numbers, to_group=True)

    def can_kill(self) -> bool:
        """False if a prefix of the shell has put what runs into a PID namespace of its own, in
        which the pids that this process knows mean nothing."""
        return not self._has_prefix or not any(map(has_inner_number, descendants()))

    def clear_scratch(self) -> None:
        """Removes the scratch folder and the one around it, or says which of them is not empty."""
        try:
            if self.scratch:
                with suppress(FileNotFoundError):  # the command may have removed it
                    os.rmdir(self.scratch + b"/scratch")
                os.rmdir(self.scratch)
        except OSError as problem:
            path = make_printable(problem.filename)
            self.notes.append("files that the command left are in " + path)

    def close(self) -> None:
        """Gives back the files of the text and of the command's own input."""
        _close(self._text_fd, self._stdin_fd)


def leftover_notes(command: Command) -> list[str]:
    """The note on the processes that a foreground command has left behind: which they are, how to
    stop them, and where their output goes. If only the pipe is still open, its holder may be
    just ending, and gets a moment."""
    leftovers, output, path = command.leftovers, command.output, ""
    if output.pipes and not leftovers:
        time.sleep(EXITING_S)
        command.supervisor.wait(0.0)
    if output.pipes:
        output.save()
        path = make_printable(output.path or NOWHERE % output.problem)
    more = "; output goes on to %s" % path if path else ""
    if not leftovers:
        held = "something started by the command still holds its output open"
        return [held + more] if path else []
    groups = sorted({process.group for process in leftovers})
    targets = " ".join("-%d" % group for group in groups[:20])
    stop = "; to stop: kill -TERM %s" % targets if command.shell.can_kill() else ""
    return ["still running: %s%s%s" % (describe_processes(leftovers), stop, more)]


# -- How a stop asks a command to end
#
# A program that gets TERM loses what it holds back: Python its buffered lines, pytest the failures
# that it has not reported, `tail` all that it has read. So a stop goes in steps: a few programs get
# INT, as at a terminal, a filter gets the end of its input, and all else gets TERM at once. No step
# may let the command go on: no shell may take the next line, and no program may take half an input
# for the whole, or the end of what it has started for a success.

# In the masks of proc_pid_stat(5).
_INT, _TERM = 1 << signal.SIGINT - 1, 1 << signal.SIGTERM - 1
# Programs are known by their file: /proc/PID/comm of a script that is run by its first line has the
# name of the script. The first list gets INT: these were seen to print at INT what they lose at
# TERM, and to take no further step. gdb, gp, node, psql and sbcl do take one.
INTERRUPTIBLE = "python make ab dd ping wrk".split()
SHELLS = "sh bash rbash dash ash zsh ksh ksh93 mksh fish csh tcsh busybox toybox".split()
# At the end of their input they print what they hold, and act on nothing (see ACTS_AT_END).
FILTERS = frozenset(
    "head tail less more grep rg sort uniq comm join wc tee cat sed awk gawk mawk cut tr jq column "
    "nl tac fold fmt pr rev paste od xxd hexdump base64 cksum md5sum b2sum sha1sum sha256sum "
    "sha512sum".split()
)
# By the arguments, with a NUL behind each. With these a Python that reads lines takes the next one.
READS_LINES = {
    "python": rb"\A[^\0]*(?:\0-[^\0]*)*?\0-[bBdEIOPqsSuvx]*i|\0-m\0(?:code|asyncio)\0"
    rb"|(?:[iI][pP]ython3?|bpython|ptpython|pdb|\0shell|\0shell_plus)\0"
}
# With these a filter acts at the end of its input: it replaces a file, or runs a program.
ACTS_AT_END = {
    "sort": rb"\0-(?:-o|[^-\0]*o)",
    **dict.fromkeys(
        ("awk", "gawk", "mawk"),
        rb'system\s*\(|getline|[|>]\s*"|print[^;}"(#|>\n]{,99}[|>](?!\|)|\0-(?:[fE]|-file|-exec)',
    ),
}
# These end at INT as they do at TERM, and then print what they hold. After TERM uvicorn dies of the
# signal, and Django's reloader kills the server that it has started; make hands a TERM on, which
# ends the Python of a recipe before its INT.
SERVERS = {
    "python": rb"[\0/](?:uvicorn|hypercorn|fastapi|runserver(?:_plus)?)\0"
    rb"|\0--multiprocessing-fork\0",
    "make": b"",
}
# The workers that multiprocessing and joblib start without fork.
SPAWNED = {
    "python": rb"\0--multiprocessing-fork\0|from multiprocessing\.forkserver import main"
    rb"|\.popen_loky_posix\0"
}
INTERACTIVE = {shell: rb"\0-[A-Za-z]*i" for shell in SHELLS}
# A wrapper ends when its command ends, so it gets no signal. `timeout` would pass the signal on to
# the filters of its group. `uv` would send its command a second INT, which cuts off its work on the
# first.
WRAPPERS = frozenset(
    "timeout strace script uv su runuser sudo sudo-rs tini tini-static dumb-init".split()
)


class Process(NamedTuple):
    """What a stop reads of one process. A process whose fields cannot be read gets TERM."""

    parent: int
    # The name of its file; "python" for any Python; for filters and wrappers that of argv[0].
    program: str = ""
    # Its arguments, with a NUL behind each; then their place in its memory (arg_start), by which a
    # fork is told from a program with the same arguments.
    arguments: bytes = b""
    caught: int = 0  # signals that it handles
    ignored: int = 0  # signals that it ignores, or blocks without a handler
    reads: str = ""  # its standard input: "file", "pipe", "live pipe" (of a filter); else empty
    pending: int = 0  # signals that it was sent and has not taken yet
    used: int = 0  # processor time, with that of the children that it has reaped


def inspect_process(pid: int) -> Process:
    """What a stop needs to know of a process."""
    fields = _stat(pid) or [b"0"] * 48
    parent, blocked, ignored, caught = (int(fields[n]) for n in (1, 29, 30, 31))
    name, reads, folder = "", "", "%s/%d/" % (PROC, pid)
    arguments = _read_proc(pid, "cmdline")
    with suppress(OSError):  # another user's, or gone
        name = os.path.basename(os.readlink(folder + "exe")).partition(" ")[0]
        if name.startswith(("python", "pypy")):  # python3.11; python3.13t, without a GIL
            name = "python"
        called = os.path.basename(os.fsdecode(arguments.partition(b"\0")[0]))
        # One file, many programs: busybox, toybox, some builds of coreutils.
        if called in FILTERS | WRAPPERS:
            name = called
        mode = os.stat(folder + "fd/0").st_mode
        reads = "pipe" if stat.S_ISFIFO(mode) else "file" if stat.S_ISREG(mode) else ""
        # Without arguments its execve(2) is underway: what it does at the end is not known.
        is_filter = (
            name in FILTERS
            and arguments
            and not matches(ACTS_AT_END, Process(0, name, arguments))
        )
        if reads == "pipe" and is_filter:
            # Bash 5.1 and later gives a small here-document as a pipe without a writer.
            fd = os.open(folder + "fd/0", os.O_NONBLOCK)
            poller = select.poll()
            poller.register(fd, 0)
            reads = "pipe" if poller.poll(0) else "live pipe"  # POLLHUP is told unasked
            os.close(fd)
    return Process(
        parent,
        name,
        arguments + fields[45],
        caught,
        # While bash -i forks, it blocks TERM in place of ignoring it (make_child in its jobs.c).
        ignored | blocked & ~caught,
        reads,
        int(_status_field(pid, b"ShdPnd") or b"0", 16) if caught & _INT else 0,
        sum(map(int, fields[11:15])),
    )


def inspect_descendants() -> dict[int, Process]:
    """The live processes below this one, in the order of `descendants`."""
    return {pid: inspect_process(pid) for pid in descendants()}


def matches(patterns: Mapping[str, bytes], process: Process) -> bool:
    """True if there is a pattern for the program of a process, and its arguments match that."""
    import re

    pattern = patterns.get(process.program, rb"(?!)")  # which matches nothing
    return re.search(pattern, process.arguments) is not None


def takes_interrupt(process: Process) -> bool:
    """True for a process that may get INT in place of TERM. What handles TERM itself wants TERM."""
    if process.program not in INTERRUPTIBLE or not process.caught & _INT:
        return False
    handled = process.ignored if matches(SERVERS, process) else process.caught | process.ignored
    return not (handled & _TERM or (process.reads and matches(READS_LINES, process)))


def ending_signal(process: Process) -> int:
    """TERM; KILL for an interactive shell, which ignores TERM and would go on with its next command
    when its child has ended. Not HUP: bash hands that on to its children."""
    if process.ignored & _TERM and matches(INTERACTIVE, process):
        return signal.SIGKILL
    return signal.SIGTERM


# Those of Steps in which a process gets no further signal but KILL.
LAST_STATES = {"got TERM", "handles TERM"}


class Steps:
    """Which processes a stop asks to end, and with which signal; none gets a signal twice.

    | state        | what a process is in it                                                     |
    | waits        | its signal comes later: the process above is asked first, and may end it    |
    | spared       | no signal: a filter ends with its input, a wrapper with its command         |
    | got INT      | it may print what it holds; TERM follows, if it has not ended by then       |
    | got TERM     | or KILL: that ends it                                                       |
    | handles TERM | it has got TERM, which it handles or ignores                                |
    | cleans up    | started by what got INT or handles TERM, or by such work: no signal, but    |
    |              | TERM once its parent has ended, for then nobody waits for it                |
    """

    def __init__(self, grace_s: float, now: float) -> None:
        self._grace_s, self.begun_at = grace_s, now
        self._tenth_s = grace_s / 10  # the most for each fixed wait of a step, in a short grace
        self.states: dict[int, str] = {}  # by process
        self.living_states = {"waits"}  # of those that lived at the last pass
        self.cut_short = False  # something that got INT has got TERM too
        self._used, self._busy_until_s = 0, 0.0  # processor time of all processes

    def choose(self, inspected: dict[int, Process], now: float) -> dict[int, int]:
        """The signals of one pass, in the order in which to send them. `inspected`: the live
        processes, parents before children and later siblings before earlier ones. So the reader of
        a pipe is asked to end before its writer is, and never takes half an input for the whole. If
        every process would get TERM at once, nothing is chosen and no state is kept, but
        `living_states` says so: `terminate` then signals the group, which no concurrent fork
        escapes."""
        chosen: dict[int, int] = {}
        is_first, passed_s = not self.states, now - self.begun_at
        used = sum(process.used for process in inspected.values())
        if used != self._used:
            self._used = used
            self._busy_until_s = min(
                passed_s + min(NO_CPU_S, self._tenth_s),
                self._grace_s - min(LAST_TERM_S, self._tenth_s),
            )
        for pid, process in inspected.items():
            before = self.states.get(pid, "waits" if is_first else "")
            if is_first and (process.program in WRAPPERS or process.reads == "live pipe"):
                self.states[pid] = "spared"
            elif before not in ("spared", *LAST_STATES):
                state = self._next_state(process, before, inspected, chosen, passed_s)
                if state == "got TERM":
                    chosen[pid] = ending_signal(process)
                    self.cut_short |= before == "got INT"
                    if (process.caught | process.ignored) & _TERM:
                        state = "handles TERM"
                elif state == "got INT" != before:
                    chosen[pid] = signal.SIGINT
                self.states[pid] = state
        self.living_states = {self.states[pid] for pid in inspected}
        if is_first and self.living_states <= LAST_STATES:
            self.states, chosen = {}, {}
        return chosen

    def _next_state(
        self,
        process: Process,
        before: str,
        inspected: dict[int, Process],
        chosen: dict[int, int],
        passed_s: float,
    ) -> str:
        """The state of a process that waits, got INT, cleans up, or is new (`before` is empty),
        from that of the process above it. Spared ones are passed over on the way up."""
        pid = process.parent
        while (parent := inspected.get(pid)) and self.states.get(pid) == "spared":
            pid = parent.parent
        above, is_patient = self.states.get(pid), passed_s < min(PARENTS_FIRST_S, self._tenth_s)
        # If a child ends before its parent has taken INT, CPython may take that for a success:
        # waitpid(2) reaps the child, KeyboardInterrupt comes before its status is stored, the next
        # waitpid fails with ECHILD, and `subprocess` reads that as 0.
        is_pending = parent and is_patient and parent.pending & _INT
        if above == "waits" or is_pending or chosen.get(pid) == signal.SIGINT:
            return "waits"
        if before == "cleans up":
            return before if parent else "got TERM"
        if not before and above in ("got INT", "handles TERM", "cleans up"):
            return "cleans up"
        # Then patience ends, but for what got INT and is still busy.
        if passed_s >= self._grace_s / 3:
            if before == "got INT" and passed_s < self._busy_until_s:
                return before
            return "got TERM"
        if not before:
            return "got TERM"  # it was started by something that goes on
        if parent and process.program == "python":
            # A multiprocessing.Pool ends its workers by itself, and hangs if a signal has ended
            # one that held a lock. One of ProcessPoolExecutor takes its next task after an INT. The
            # fork server of multiprocessing, and some workers, ignore INT.
            is_spawned = matches(SPAWNED, process) and not process.caught & _TERM
            if is_spawned or process.arguments == parent.arguments:
                if passed_s < min(FILTERS_S, self._tenth_s):
                    return "waits"
                return "got INT" if is_spawned and is_patient else "got TERM"
        if before == "got INT":
            return before
        if not takes_interrupt(process):
            return "got TERM"
        if above in (None, "got INT", "got TERM"):
            return "got INT"  # the parent has ended, or ends at once
        # A trap on EXIT ends a shell, one on TERM does not, and both are a handler of TERM.
        return "waits" if is_patient and "pipe" not in process.reads else "got TERM"


# -- The life of a command: rules without I/O


class Seen(NamedTuple):
    """What has happened to a command by now. Moments are those of any one clock."""

    host_stops: int = 0  # how often the host has asked for a stop
    job_stops: int = 0  # how often Job.kill has
    nobody_reads: bool = False  # the host is gone, or its caller
    returncode: int | None = None  # of the shell, as subprocess has it, once it has ended
    exited_at: float = 0.0  # when
    childless: bool = False  # no descendant lives: waitpid(2) said ECHILD
    has_open_pipe: bool = True  # a pipe is open
    heard_at: float = 0.0  # when the last byte, or the end of a pipe, was read
    heard_bytes: int = 0


class Life:
    """The rules by which a command lives: what has happened goes in, what is to be done comes out.
    A life knows no clock, no process and no socket.

    | phase  | what it is                           | next phase: because                   |
    | watch  | the shell runs                       | drain: the shell has exited           |
    |        |                                      | end: a stop, or the limit             |
    | drain  | late writers get a moment            | report: silence, enough of it, or     |
    |        |                                      | nothing is left                       |
    |        |                                      | end: a stop, or a signal has ended    |
    |        |                                      | the shell of an announced job         |
    | end    | the steps of a stop; when they are   | report: nothing is left, or it cannot |
    |        | done, TERM to the spared ones too;   | be killed                             |
    |        | KILL after the grace or 2nd stop     | stay: the same, after the report      |
    | report | the caller is told how it ended      | over: nothing is left                 |
    |        |                                      | stay: something is left               |
    | stay   | something goes on                    | end: a stop, or the limit             |
    |        |                                      | over: nothing is left                 |
    | over   | nothing of the command is left       |                                       |

    Who may stop it: in `watch` the limit; until the report a cancel, the end of the host if the
    command is attached, and Job.kill if it is a job. In `stay`: the limit of a background command,
    Job.kill, and its host if the command is attached. The steps are left out for Job.kill, and
    if nobody reads the answer."""

    phase: Phase = "watch"
    # Of a command that is ended before its time; the first reason counts.
    status: Status | None = None
    stops = 0  # requests to end it that have not had their effect: limit, cancels, Job.kill
    attached = True  # ends with its host; False too once the end of the host was seen
    is_announced = False  # the caller has been told that it goes on as a job
    has_stayed = False  # something of it went on after its report
    due_at = 0.0  # the moment at which to act if nothing happens
    # Of the phase `end`:
    _kill_at = 0.0  # when KILL begins
    _in_steps = False  # it is asked by steps; False again once all have got TERM
    _asked_bytes = 0  # how much output there was when it began
    _alone_at = inf  # since when filters and wrappers alone are left

    def __init__(self, plan: Plan, sees_tree: bool, now: float) -> None:
        self._plan = plan
        self.started_at = now
        self.seen = Seen()
        self.steps = Steps(plan.grace_s, now)
        self._grace_s = plan.grace_s
        self._has_steps = sees_tree and plan.grace_s > 0  # else an end begins with TERM to all
        self._check_every_s = inf if sees_tree else REAP_EVERY_S
        self._limit_at, self._answer_at = now + plan.limit_s, now + plan.answer_after_s

    @property
    def is_job(self) -> bool:
        """It has a place among the jobs: a background command, or one that was kept."""
        return self._plan.background or self.is_announced

    def next_action(self, now: float, seen: Seen) -> str:
        """What is to be done now: the name of a method of Command, or "" for nothing until
        something happens or `due_at` comes. After the report a cancel counts only for a job or an
        attached command. Job.kill sets no status: the job reports how its shell ended."""
        before, self.seen = self.seen, seen
        if seen.host_stops > before.host_stops and (self.attached or self.is_job):
            self._stop("cancelled", seen.host_stops - before.host_stops)
        if seen.job_stops > before.job_stops and self.is_job:
            self.stops += seen.job_stops - before.job_stops
            self._has_steps = False
        if seen.nobody_reads and self.attached:  # no caller needs the full grace
            self.attached = self._has_steps = False
            self._grace_s = min(self._grace_s, HOST_GONE_GRACE_S)
            self._kill_at = min(self._kill_at, now + self._grace_s)
            if not self.stops:
                self._stop("cancelled")
        action = before_rule = ""
        while not action and before_rule != self.phase != "over":
            before_rule = self.phase
            action = getattr(self, "_" + before_rule)(now)
        return action

    # The rules, a phase each

    def _watch(self, now: float) -> str:
        """Until the shell has exited, a stop or the limit has come. On the way, when the caller has
        waited long enough, the command becomes a job."""
        plan, code = self._plan, self.seen.returncode
        self.due_at = min(self._answer_at, self._limit_at)
        if code is not None and not self.stops:
            self._move("drain")
            # Who kills the shell of a job means the job; one that exits may have started a daemon.
            # Before the answer there is no job yet, and the answer does not wait for the end.
            return self._begin_end(now) if self.is_announced and code < 0 else ""
        if now >= self._limit_at:
            self._stop("timed_out")
        if self.stops:
            return self._begin_end(now)
        if now < self._answer_at:
            return ""
        self._answer_at = inf
        self.is_announced = True
        self.attached = plan.ephemeral or not plan.background
        return "answer_as_job"

    def _drain(self, now: float) -> str:
        """Until nothing is left, or it was quiet for long enough, or `drain_total_s` are over.
        Without an open pipe, what is just ending has EXITING_S to do so."""
        seen, plan = self.seen, self._plan
        quiet_at = max(seen.heard_at, seen.exited_at)
        self.due_at = quiet_at + EXITING_S
        if seen.has_open_pipe:
            last_at = seen.exited_at + plan.drain_total_s
            self.due_at = min(quiet_at + plan.drain_idle_s, last_at)
        if self.stops:
            return self._begin_end(now)
        return self._move("report") if self._is_over() or now >= self.due_at else ""

    def _end(self, now: float) -> str:
        """Steps, TERM, KILL; until nothing is left, or for UNKILLABLE_S after KILL."""
        if self.stops > 1:
            self._kill_at = min(self._kill_at, now)
        if self.seen.childless or now >= self._kill_at + UNKILLABLE_S:
            if not self.has_stayed:
                return self._move("report", "end_output")
            self.stops, self._limit_at = 0, inf  # no limit begins another end
            return self._move("stay", "end_output")
        if now >= self._kill_at:
            self.due_at = now + KILL_EVERY_S
            return "kill"
        if self._in_steps:
            return self._step(now)
        self.due_at = min(self._kill_at, now + self._check_every_s)
        return ""

    def _step(self, now: float) -> str:
        """The next pass of the steps. TERM to all once all were asked, once what is spared is
        alone, and when output floods."""
        states = self.steps.living_states
        self._alone_at = min(self._alone_at, now) if states == {"spared"} else inf
        is_alone = now >= self._alone_at + min(FILTERS_S, self._grace_s / 10)
        is_flood = self.seen.heard_bytes - self._asked_bytes > MIB
        is_asked = states <= LAST_STATES
        if not self._has_steps or is_asked or is_alone or is_flood:
            self._in_steps = False
            return "terminate"
        if now < self.due_at:
            return ""
        # The pauses double, up to ASK_EVERY_S.
        self.due_at = now + min(max(KILL_EVERY_S, now - self.steps.begun_at), ASK_EVERY_S)
        return "ask"

    def _report(self, now: float) -> str:
        # The stops so far have had their effect. The phase moves before Command.report runs, so
        # that it can say what is left.
        self.stops = 0
        if self._is_over():
            return self._move("over", "report")
        self.has_stayed = True
        self.attached = self._plan.ephemeral and not self.seen.nobody_reads
        if not self._plan.background:
            self._limit_at = inf
        return self._move("stay", "report")

    def _stay(self, now: float) -> str:
        self.due_at = self._limit_at
        if self._is_over():
            return self._move("over")
        return self._begin_end(now) if self.stops or now >= self._limit_at else ""

    # What the rules have in common

    def _move(self, phase: Phase, action: str = "") -> str:
        """The only place that changes the phase. Returns the action, for the rule to return."""
        self.phase = phase
        return action

    def _stop(self, status: Status, count: int = 1) -> None:
        self.status = self.status or status
        self.stops += count

    def _begin_end(self, now: float) -> str:
        """Moves to `end`: by steps, or with a TERM to all if those are left out."""
        self.due_at = now
        self._kill_at = now + self._grace_s
        self._asked_bytes = self.seen.heard_bytes
        self.steps = Steps(self._grace_s, now)  # new ones: a leftover may be ended later
        self._in_steps = self._has_steps
        return self._move("end", "" if self._in_steps else "terminate")

    def _is_over(self) -> bool:
        """True once no process of the command is left, nor another one that holds its output."""
        return self.seen.childless and not self.seen.has_open_pipe


class Command:
    """One command: does what its life says, and tells it what has happened."""

    def __init__(self, supervisor: Supervisor, plan: Plan, stdin_fd: int) -> None:
        self.supervisor, self.channel, self.plan = supervisor, supervisor.channel, plan
        self.shell = Shell(plan, stdin_fd)
        self.output = Output(plan, supervisor)
        self.created = time.time()
        self.life = Life(plan, SEES_TREE, monotonic())
        self.leftovers: list[ListedProcess] = []  # what goes on after the report
        self.completion_note = ""  # of a job, if the answer is to show it

    def run(self) -> bool:
        """Returns when nothing of the command is left; True if nothing was at its report."""
        try:
            self.start()
            now = self.life.started_at  # a stop may have come during the start
            while True:
                while action := self.life.next_action(now, self.observe()):
                    getattr(self, action)()
                    if action == "kill":  # output is read before the next pass
                        break
                if self.life.phase == "over":
                    break
                self.supervisor.wait_until(self.life.due_at)
                now = monotonic()
                if now >= self.life.due_at:
                    self.supervisor.wait_until(now)  # what has come by a limit goes before it
        except SpawnError as problem:
            self.output.discard()
            self.channel.send("failed", *problem.args)
        finally:
            self.output.close()
            self.shell.close()
        return not self.life.has_stayed

    def start(self) -> None:
        """Spawns the shell. Raises SpawnError."""
        writers: list[int] = []
        try:
            if self.plan.background:
                self.output.begin_job()
            self.output.open_pipes(writers)
            self.shell.start(writers)
        except OSError as problem:
            words = shorten(self.plan.shell[0]), shorten(_reason(problem, True))
            reason = "the shell %s could not be started: %s" % words
            if problem.errno == errno.E2BIG:
                reason = TOO_LARGE
            raise SpawnError("spawn_failed", reason)
        finally:
            _close(*writers)
        if self.plan.background:
            self.output.write_record(self.describe())

    def observe(self) -> Seen:
        """Reaps what has ended; returns what has happened by now."""
        popen, output, exited_at = self.shell.popen, self.output, self.life.seen.exited_at
        ended, childless = _reap()
        if popen.pid in ended and popen.returncode is None:
            # _reap has taken the status, so Popen cannot ask for it any more.
            popen.returncode = os.waitstatus_to_exitcode(ended[popen.pid])
            exited_at = monotonic()
        if not SEES_TREE and self.life.phase == "end" and self.shell.signal_group(0):
            childless = False  # the group is all that is known then
        return Seen(
            self.channel.host_stops,
            self.supervisor.job_stops,
            self.channel.nobody_reads,
            popen.returncode,
            exited_at,
            childless,
            bool(output.pipes),
            output.last_at,
            output.total_bytes(),
        )

    # What a life asks for

    def answer_as_job(self) -> None:
        """The caller has waited long enough: the answer goes out. A kept command goes on even if
        no record of it can be written."""
        if not self.plan.background:
            with suppress(SpawnError):
                self.output.begin_job()
        self.output.write_record(self.describe())
        self.send_answer()

    def ask(self, now: float = 0.0) -> dict[int, Process]:
        """A pass of the first steps of a stop; 0.0 stands for the present moment. Infinity makes it
        the last pass: all get TERM but filters, wrappers and what a trap has started. Returns the
        live processes."""
        inspected = inspect_descendants()
        for pid, number in self.life.steps.choose(inspected, now or monotonic()).items():
            _signal(pid, number, signal.SIGCONT)
        return inspected

    def terminate(self) -> None:
        """TERM to every process that has not got it and is not cleaning up: to the spared ones, or
        if there were no steps to all. Then CONT: a stopped process must find the TERM waiting when
        it wakes."""
        states = self.life.steps.states  # empty if there were no steps: all get TERM at once
        # After steps, a last pass: it marks what a trap has just started as cleaning up.
        inspected = self.ask(inf) if states else inspect_descendants()
        remaining = {
            pid: ending_signal(process)
            for pid, process in inspected.items()
            if states.get(pid, "spared") == "spared"
        }
        if (
            not states
            and signal.SIGKILL not in remaining.values()
            and self.shell.signal_group(signal.SIGTERM, signal.SIGCONT)
        ):
            # Not reached: what had left the group by then, and perhaps what was forked since the
            # look above: bash blocks TERM while it forks. Where TERM is handled, a trap may have
            # started the latter, to clean up.
            is_handled = any(process.caught & _TERM for process in inspected.values())
            remaining = {
                pid: signal.SIGTERM
                for pid, group in descendants().items()
                if (group != self.shell.popen.pid if pid in inspected else not is_handled)
            }
        for pid, number in remaining.items():
            _signal(pid, number, signal.SIGCONT)

    def kill(self) -> None:
        """A pass of KILL."""
        self.shell.signal_group(signal.SIGKILL)
        _kill_below()

    def end_output(self) -> None:
        """Reads what the ended processes wrote, and closes the pipes; a note names what could not
        be killed."""
        self.output.close_pipes()
        if not self.life.seen.childless or not SEES_TREE:
            names = describe_processes(list_descendants())
            note = (
                "what the command started outside its process group may still run: "
                "it could not be looked for"
            )
            if names:
                note = "could not be killed: " + names
            self.shell.notes.append(note)
        if self.life.has_stayed:
            self.channel.close_if_unread()

    def report(self) -> None:
        """Tells the host how the command ended, and writes it down if the command is a job."""
        life = self.life
        if life.has_stayed:
            self.leftovers = list_descendants()
            if not life.status and not life.is_job:
                self.shell.notes += leftover_notes(self)
        self.shell.clear_scratch()
        if self.plan.saves and self.output.is_long_text():
            self.output.save()
        if self.channel.abandoned or (self.channel.nobody_reads and not life.is_announced):
            self.output.discard()  # nobody reads the answer that names the file
        elif life.is_job:
            self.note_end()
        self.send_answer()
        self.channel.close_if_unread()

    def note_end(self) -> None:
        """Appends the completion note of a job."""
        ended = self.describe()
        how = describe_end(ended, in_file=True)
        still = describe_processes(self.leftovers, "%d %s")
        how += "; still running: " + still if still else ""
        note = "\n\n[background process %s]\n" % how
        self.output.append_note(note)
        self.output.write_record(self.describe())  # with the place of the note
        if not self.life.is_announced and (ended.exit_code == 0 or still):
            # If it failed and left nothing, the first line of the answer says how it ended.
            self.completion_note = note

    def describe(self) -> Report:
        """How the command stands: what the host is told, and what the record of a job says."""
        plan, life, shell, output = self.plan, self.life, self.shell, self.output
        code = life.seen.returncode
        status: Status = life.status or ("running" if code is None else "exited")
        error = "cwd_missing" if shell.scratch else None
        reason = shell.why_unread() if status == "exited" else ""
        if reason:
            status, error = "failed", "spawn_failed"
        exit_code, name = read_returncode(code or 0) if status == "exited" else (None, None)
        report = Report(
            status,
            exit_code,
            name,
            error,
            reason,
            limit_s=plan.limit_s,
            notes=shell.notes,
            # For an announced job they stand in the completion note in its output file.
            leftovers=[]
            if life.is_announced
            else [leftover.pid for leftover in self.leftovers],
            can_kill=shell.can_kill(),
            total_bytes=output.total_bytes(),
            duration_s=(life.seen.exited_at or monotonic()) - life.started_at,
            problem=output.problem,
            capped=output.room < 0,
            cut_short=life.steps.cut_short,
            path=fsencode(output.path),
            completion_note=self.completion_note,
            is_over=life.phase == "over",
        )
        if not life.is_job:
            return report
        return report._replace(
            pid=shell.popen.pid,
            command=decode(plan.text)[:COMMAND_RECORDED],
            created=self.created,
            supervisor=identity(os.getpid()),
            at=output.note_offset,
        )

    def send_answer(self) -> None:
        """Sends the host how the command stands, with the raw bytes of the streams."""
        report, life = self.describe(), self.life
        if not life.status:
            report = report._replace(carried=self.shell.carried())
        elif not life.is_announced:
            # A background command that was stopped before its first answer: no job, no pid.
            report = report._replace(pid=None, supervisor=())
        # marshal takes plain tuples alone.
        streams = [tuple(buffer.captured()) for buffer in self.output.buffers]
        self.channel.send("answer", tuple(report), streams)


# -- The processes: a supervisor, and the fork server that forks it
#
# Both are single-threaded loops over `poll`, to which a signal is one more descriptor.


def _prctl(option: int, value: int | bytes) -> bool:
    """prctl(2) through ctypes: the standard library has no other way. False if it fails."""
    try:
        import ctypes

        return not ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return False


def _become_subreaper() -> None:
    """Sets SEES_TREE in a process that has just begun."""
    global SEES_TREE
    SEES_TREE = HAS_CHILDREN_FILES and _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _do_nothing(*_: object) -> None:
    """A handler of signals: the signal wakes the process, and does nothing else."""


class Loop:
    """What a process waits for: descriptors, each with the function that is called when it is
    ready. One is a pipe into which the interpreter writes the number of each signal that comes
    (signal.set_wakeup_fd)."""

    def __init__(self) -> None:
        self.selector = selectors.PollSelector()  # needs no descriptor of its own
        self.job_stops = 0  # how many END_JOB_SIGNAL have come
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self.selector.register(reader, selectors.EVENT_READ, self._take_signals)

    def _take_signals(self, reader: int) -> None:
        self.job_stops += os.read(reader, READ_BYTES).count(END_JOB_SIGNAL)

    def wait(self, wait_s: float | None) -> None:
        """Calls the functions of what is ready, within this time; None: however long that takes."""
        for key, _ in self.selector.select(wait_s):
            key.data(key.fd)


class Supervisor(Loop):
    """The process that runs commands, one at a time. It ends when its host has left and its command
    is over, when no request has come for IDLE_S, and after a command of which something was left
    at its report."""

    def __init__(self, channel: SupervisorEnd) -> None:
        super().__init__()
        self.channel = channel
        self.selector.register(channel.socket, selectors.EVENT_READ, self._hear)

    def serve(self) -> None:
        """Runs commands until there is a reason to end."""
        channel, until = self.channel, monotonic() + IDLE_S
        env: object = None  # of the last command; to set one anew takes 90 us
        channel.send("hello", os.getpid())
        while not channel.nobody_reads and (channel.plans or monotonic() < until):
            if channel.plans:
                plan, self.job_stops = channel.plans.pop(), 0
                stdin_fd = channel.fds.pop() if channel.fds else subprocess.DEVNULL
                if plan.env != env:
                    env = plan.env
                    os.environb.clear()
                    os.environb.update(plan.env)
                if not Command(self, plan, stdin_fd).run():
                    return
            else:
                self.wait_until(until)
                if not channel.unsent:
                    continue
            until = monotonic() + IDLE_S  # also while the host has not read the last answer

    def wait_until(self, until: float) -> None:
        """Waits until something happens, at the longest until a moment on the monotonic clock;
        sends live output in time."""
        channel, now = self.channel, monotonic()
        until = min(until, channel.send_live(now))
        if not channel.nobody_reads:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.unsent else 0)
            self.selector.modify(channel.socket, events, self._hear)
        self.wait(min(until - now, 3600.0))  # poll(2) takes 24 days at most

    def _hear(self, _: int) -> None:
        self.channel.hear()
        if self.channel.nobody_reads:
            self.selector.unregister(self.channel.socket)


class ForkServer(Loop):
    """The process that forks supervisors, so that the host need not: a process that has never
    had a second thread can fork safely. The fork server is a subreaper too: when a supervisor is
    killed, what it leaves becomes a child of the fork server, which ends it. The fork server ends
    when its host has left and its last supervisor has ended."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__()
        self._control = control  # closed when the host has left
        self._supervisors = set[int]()
        self.selector.register(control, selectors.EVENT_READ, self._hear)

    def serve(self) -> None:
        """Forks supervisors on request."""
        has_strays = False  # children that are no supervisors
        while self._control.fileno() >= 0 or self._supervisors or has_strays:
            # Each end of a child is a signal that ends the wait (wait(2), SIGCHLD).
            self.wait(CHECK_EVERY_S if has_strays else None)
            ended, _ = _reap()
            self._supervisors.difference_update(ended)
            has_strays = _kill_below(self._supervisors)

    def _hear(self, _: int) -> None:
        """A request from the host for a supervisor: one byte and a socket."""
        data, fds, _, _ = socket.recv_fds(self._control, 1, 1)
        if fds:
            self._fork(socket.socket(fileno=fds[0]))
        elif not data:  # the host has left; each supervisor watches its own socket
            self.selector.unregister(self._control)
            self._control.close()

    def _fork(self, end: socket.socket) -> None:
        channel = SupervisorEnd(end)
        try:
            pid = os.fork()
        except OSError as problem:
            why = "no supervisor could be started: " + _reason(problem)
            channel.send("failed", "spawn_failed", why)
        else:
            if pid == 0:
                self._supervise(channel)
            self._supervisors.add(pid)
        end.close()
        import json  # noqa: F401  # after the first fork: later supervisors share its pages

    def _supervise(self, channel: SupervisorEnd) -> NoReturn:
        """Runs in the forked process."""
        try:
            os.setsid()
            _become_subreaper()
            self._control.close()
            Supervisor(channel).serve()
        except BaseException as bug:
            channel.send("failed", "internal", "bug in bash_tool: %r" % bug)
        finally:
            os._exit(0)  # after a bug the fork server ends what the supervisor leaves


def _overwrite_own(field: int, data: bytes) -> None:
    """Overwrites what /proc shows of this process's arguments (field 48) or environment (50), as
    far as the platform allows, by the data and NULs: the fields of /proc/self/stat hold the
    addresses in the memory of this process (proc_pid_stat(5))."""
    with suppress(ImportError, ValueError):
        import ctypes

        begin, end = map(int, _stat(os.getpid())[field - 3 : field - 1])
        ctypes.memmove(begin, data[: end - begin].ljust(end - begin, b"\0"), end - begin)


def take_own_name() -> None:
    """Gives this process a name and arguments that no `pkill` of a language or a path meets."""
    _prctl(_PR_SET_NAME, OWN_NAME)
    _overwrite_own(48, OWN_NAME)


def serve_forks(control: int) -> NoReturn:
    """Runs in a fork server from the beginning of its code. `control`: the descriptor of its
    socket."""
    try:
        os.chdir("/")
        # Every signal that can be caught wakes this process, and does nothing else. Handlers,
        # because what is ignored or blocked would be so in commands too, while execve(2) resets
        # what is handled.
        for number in signal.valid_signals():
            with suppress(OSError):  # KILL and STOP cannot be caught
                signal.signal(number, _do_nothing)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        take_own_name()
        os.environ.clear()
        _overwrite_own(50, b"")  # a fork of the host shows the host's
        _prctl(_PR_SET_DUMPABLE, 0)  # /proc/PID/environ and fd are closed to the same user
        _become_subreaper()
        gc.freeze()  # a collection in a supervisor would copy the pages of all that is here
        ForkServer(socket.socket(fileno=control)).serve()
    finally:
        os._exit(0)


if "fork_server_control" in globals():  # this code runs in a fork server: see LOADER
    serve_forks(globals()["fork_server_control"])

# ════ Above this line the file runs in supervisors and fork servers too, and imports little. ══════


# ---- 3 Types -----------------------------------------------------------------------------------
# The values that one part of the tool hands to another. What comes from outside, arguments and
# records of jobs, is checked and becomes one of these at once, so no dict of unknown content goes
# further. What travels as JSON is a plain string; a choice that a program makes is an enum.

import codecs  # here, because most supervisors need none of these
import fnmatch
import io
import json
import re
import threading
import weakref
from dataclasses import dataclass, field, replace
from enum import Enum
from inspect import iscoroutinefunction  # which dataclasses imports anyway


Mode = Literal["default", "slow", "background"]
Style = Literal[
    "anthropic", "openai", "openai-chat", "mcp", "anthropic-native", "openai-native"
]


def _raise_frozen(*_: Any, **__: Any) -> Any:
    raise TypeError("a row of PROFILES cannot be changed; dataclasses.replace makes another")


class FrozenDict(dict[str, Any]):
    """A dict whose keys cannot be set. Unlike a mappingproxy it can be pickled and copied."""

    __setitem__ = __delitem__ = __ior__ = _raise_frozen
    clear = pop = popitem = setdefault = update = _raise_frozen

    def __reduce__(self) -> Any:
        return FrozenDict, (dict(self),)


class NotCopied:
    """Base of objects that stand for something in this process. A copy is the object itself, so a
    framework may copy what holds one. Pickling raises TypeError."""

    def __deepcopy__(self, memo: object = None) -> NotCopied:
        return self

    __copy__ = __deepcopy__

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a %s cannot be pickled; make one in each process" % type(self).__name__
        )


class OnTimeout(Enum):
    """What happens to a command that has not ended in time: KILL ends it, KEEP makes it a job."""

    KILL = "kill"
    KEEP = "keep"


class Streams(Enum):
    """How a command's standard output and standard error come: as one, in true order, or as two."""

    MERGED = 1
    SEPARATE = 2


class Request(NamedTuple):
    """A command that was asked for, in the words of the caller."""

    command: str
    mode: str
    timeout_s: float | None = None  # in place of the mode's
    cwd: str | None = None  # in place of the tool's
    env: Env | None = None  # beside the tool's
    stdin: bytes | None = None
    whole: bool = False  # a program asks, which reads the streams whole


class Inquiry(NamedTuple):
    """A job that was asked about, or is to be ended."""

    pid: int
    kill: bool


class Restart(NamedTuple):
    """A request to forget the state that is carried over."""

    command: str = ""


class Start(NamedTuple):
    """What a command starts with."""

    cwd: bytes
    env: dict[bytes, bytes]


Asked = Union[Request, Inquiry, Restart]
AnyPath = Union[str, "os.PathLike[str]"]
Wanted = Union[str, "re.Pattern[str]"]  # to be searched for in a line
Fields = dict[str, Any]  # names with values: of a record, of an answer, of a definition
Schema = Mapping[str, Any]  # what JSON Schema says of a value
Env = Mapping[str, str]  # an environment, or variables for one
Withheld = dict[str, bool]  # names of variables that do not pass: whether they look secret
OnText = Callable[[str], object]  # takes live output
Confirm = Callable[[str], bool]  # takes a command, and says whether it may run
OnEnd = Callable[["Job"], object]  # takes a job that has ended
OnCall = Callable[[object, "Result"], object]  # takes what was sent, and the answer


def reject(error: str, reason: str) -> Outcome:
    """The answer to a request that was not admitted: a stable id, and a sentence for the model."""
    return Outcome(Report("rejected", error=error, reason=reason))


class Truncation(NamedTuple):
    """How a stream that is too long is cut."""

    fit: Callable[[Captured, "Profile"], Fitted]
    keeps: str  # what it leaves of a stream: its "ends", "tail" or "head"
    limits: tuple[str, ...]  # the fields of a profile that `fit` looks at


class Format(NamedTuple):
    """How an answer is written."""

    write: Callable[[Outcome, "Profile"], str]
    details: Callable[[Outcome], Fields]  # what a program reads beside the text
    # The truncation (`keeps`) that its notices are about; with "head" the text has its own mark.
    tells_of: str
    tells_jobs: bool = False  # it can say that a command goes on


# For a command without a code: as timeout(1), docker-run(1), bash have them.
EXIT_CODES = {"timed_out": 124, "cancelled": 130, "rejected": 125, "failed": 125}

# What a Report, a Result and a line of the log say in the same words.
SHARED_FIELDS = "status exit_code signal error duration_s total_bytes pid".split()


@dataclass(frozen=True)
class Result:
    """The answer to one call: `text` is what the model reads, the rest says the same to programs.

    text          never empty or blank; `str(result)` is this text
    is_error      whether the model is to take the answer for an error
    status        `exited`, `timed_out`, `cancelled`, `running` (as a job), `rejected` (not run),
                  `failed` (the tool could not run the command, or lost it); of a job also `lost`
    exit_code     of the shell, 128 + n after signal n; None if the shell did not end by itself
    signal        the name of the signal that ended the shell
    stdout        the first stream as it is shown, or both if the profile merges them. Of `run`
                  all of it, cleaned, up to 4 MiB; beyond that, and of a background command, as it
                  is shown
    stderr        the second stream
    truncated     whether `text` does not show a stream whole
    total_bytes   how many bytes of output came; in a check of a job that runs, since the last one
    pid           of a job: its shell and process group
    output_file   the path of the file that holds the whole output, if there is one; if it
                  could not take all of it, `text` says so
    duration_s    seconds from the start of the command to the end of the shell, or until now
    error         a stable id, such as `denied`, if something but the command went wrong
    notes         the notes of the answer, without their brackets
    leftovers     the pids of what a foreground command left running, all of them; the text names
                  the first five
    details       what the profile says to programs: a dict that JSON can hold
    stdout_bytes  all that came on the first stream, or on both if the profile merges them, as it
                  was written; None if not all of it was kept, and `stdout` is not whole
    stderr_bytes  the same of the second stream; empty if the profile merges them
    ok            True if `exit_code` is 0 and `error` None
    """

    text: str
    is_error: bool
    status: Status
    exit_code: int | None = None
    signal: str | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    total_bytes: int = 0
    pid: int | None = None
    output_file: str | None = None
    duration_s: float = 0.0
    error: str | None = None
    notes: tuple[str, ...] = ()
    leftovers: tuple[int, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    stdout_bytes: bytes | None = field(default=None, repr=False)
    stderr_bytes: bytes | None = field(default=None, repr=False)
    # For `check`: the command, and lines on its end that say more than a code.
    _for_check: tuple[str, str] = field(default=("", ""), repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def ok(self) -> bool:
        """True for a command that exited with exit code 0, and no `error`."""
        return self.exit_code == 0 and self.error is None

    def check(self) -> Result:
        """The result itself if `ok` is true or the command goes on as a job. Else raises
        subprocess.CalledProcessError. Its `returncode` is never 0: the command's own code; 124
        after a timeout, 130 after a cancel, 125 for everything else. Its `output` is `stdout`,
        behind a line that says how the command ended if that is more than a code."""
        if self.ok or self.status == "running":
            return self
        command, lines = self._for_check
        code = self.exit_code or EXIT_CODES.get(self.status, 125)
        raise subprocess.CalledProcessError(code, command, lines + self.stdout, self.stderr)

    def to_dict(self) -> Fields:
        """The fields as a dict that `json.dumps` takes: all but the bytes."""
        fields = dict(vars(self), notes=list(self.notes), leftovers=list(self.leftovers))
        del fields["stdout_bytes"], fields["stderr_bytes"], fields["_for_check"]
        return fields


# ---- 4 Text ------------------------------------------------------------------------------------
# From bytes to what a model reads, by functions of values; LiveText alone keeps a state. A stream
# becomes text once, whole: cleaned chunk by chunk, characters and escape sequences would be split.
# Every function takes time in proportion to its input. So the patterns of sequences match no
# newline and stop at the next ESC: no unfinished sequence makes the scanner read characters twice.


# Patterns are strings, which `re` compiles and keeps at the first use: compiled here they would
# take a fifth of the time that the import of this file takes.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_MOVES_NOTHING = r"""(?x)
    \x1b(?!\[[0-?]*[ -/]*[A-GJK])(?:
    \[[0-?]*[ -/]*[@-~]?  # CSI: colours, modes, places
    |[\]PX^_][^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\)  # OSC, DCS ...: titles, links
    |[ -/]*[0-~]?)  # escapes of two bytes, a lone ESC
    """
_SHOWS_NOTHING = r"[\x01-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]+"
# All branches begin with one set of characters, so that `re` passes over plain text five times as
# fast.
_MOVE = r"""(?x)
    ([\x08\n\r\x1b](?:(?<=\r)\r*|(?<=\x08)\x08*
    |(?<=\x1b)\[([0-9]{0,9})[^A-GJK]*[A-GJK]
    |(?<=\n)(?:[^\x08\r\x1b]*\n)?))  # a newline takes the plain lines behind it along
    """


def _only_moves(text: str) -> str:
    """The text without everything that neither shows nor moves the cursor."""
    text = without_nul(text)
    for letter in "PX[\\]^_":  # C1: one character for ESC and a letter
        text = text.replace(chr(ord(letter) + 0x40), "\x1b" + letter)
    text = re.sub(_SHOWS_NOTHING, "", re.sub(_MOVES_NOTHING, "", text))
    # A line that ends in \r\n is a plain line then; a run of CSI D is one move.
    return text.replace("\r\n", "\n").replace("\x1b[D", "\b")


# A line in which \r alone moves the cursor, and not as often as in a progress bar.
_OVERWRITTEN = r"(?m)^(?:[^\x08\n\r\x1b]*\r){1,8}[^\x08\n\r\x1b]*$"


# Characters that take two columns: East Asian Width W and F, and most emoji.
_WIDE = (
    r"[\u1100-\u115f\u231a\u231b\u2329\u232a\u23e9-\u23ec\u23f0\u23f3\u25fd\u25fe\u2614\u2615"
    r"\u2648-\u2653\u267f\u2693\u26a1\u26aa\u26ab\u26bd\u26be\u26c4\u26c5\u26d4\u26ea\u26f2"
    r"\u26f3\u26f5\u26fa\u26fd\u2705\u270a\u270b\u2728\u274c\u274e\u2753-\u2755\u2757"
    r"\u2795-\u2797\u27b0\u27bf\u2b1b\u2b1c\u2b50\u2b55\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3"
    r"\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\U00017000-\U00018d08"
    r"\U0001b000-\U0001b2fb\U0001f300-\U0001f64f\U0001f680-\U0001f6ff\U0001f7e0-\U0001f7eb"
    r"\U0001f90c-\U0001f9ff\U0001fa70-\U0001faff\U00020000-\U0003ffff]"
)


def _without_remains(line: re.Match[str]) -> str:
    """The last text of an overwritten line. An earlier text of which something would stay visible
    behind the next keeps a line of its own above it, the last three of these: `pears,5` over
    `apples,33` is no `pears,533`, which no program wrote."""
    # A NUL stands in the second column of a wide character.
    texts = re.findall("[^\r]+", re.sub(_WIDE, "\\g<0>\0", line[0]))
    above = [old for old, new in zip(texts, texts[1:]) if old.rstrip()[len(new) :]]
    return "\n".join(above[-3:] + texts[-1:]).replace("\0", "")


def _entered(rows: list[str | io.StringIO], row: int) -> io.StringIO:
    """The row, as a buffer with the cursor at its beginning."""
    line = rows[row]
    if isinstance(line, str):
        line = rows[row] = io.StringIO(line)
    line.seek(0)
    return line


def _draw(text: str) -> str:
    """What stands on a terminal of unlimited height, whose lines end at their last character.

    A line in which the cursor has been is a StringIO: that overwrites in place, in a quarter of
    the time that a list of cells takes. A line that was only written is a string.
    """
    rows: list[str | io.StringIO] = [""]
    row = 0
    line = _entered(rows, row)
    parts = iter(re.split(_MOVE, text))
    line.write(next(parts))
    for move, digits, run in zip(parts, parts, parts):
        kind = move[-1]
        if kind == "\r":
            line.seek(0)
        elif kind == "\b":
            at = line.tell() - len(move)
            line.seek(at if at > 0 else 0)  # with max() a spinner takes half as long again
        elif kind == "\n":
            for plain in move[1:].split("\n"):
                row += 1
                if row == len(rows):
                    rows.append(plain)
                else:
                    _entered(rows, row).write(plain)
            line = _entered(rows, row)
        elif kind in "JK":
            what = kind + digits.lstrip("0")
            if what == "K2":
                line.seek(0)
            if what in ("J", "K", "K2"):
                line.truncate()
            if what == "J":
                del rows[row + 1 :]
        else:
            steps = int(digits or 0) or 1
            at = 0 if kind in "EF" else line.tell()
            if kind in "AF":
                row = max(0, row - steps)
            elif kind in "BE":
                row = min(len(rows) - 1, row + steps)
            elif kind == "G":
                at = steps - 1
            else:
                at += steps if kind == "C" else -steps
            line = _entered(rows, row)
            line.seek(max(0, min(at, line.seek(0, io.SEEK_END))))
        line.write(run)
    return "\n".join(row if isinstance(row, str) else row.getvalue() for row in rows)


def render(text: str) -> str:
    """What a terminal would be left showing.

    Escape sequences and control characters are gone; `\\r` and `\\b` move the cursor back, so
    that the last frame of a progress bar remains; CSI K erases to the end of the line or all of
    it; CSI C, D and G move the cursor within the line, A, B, E and F to other lines; CSI J
    erases all below the cursor. A cell is one code point, and a cursor beyond the end of a line
    stands at its end.

    >>> render("10%\\r 50%\\r100%\\n\\x1b[31mred\\x1b[0m")
    '100%\\nred'
    """
    if re.search(_CONTROL, text) is None:
        return text
    return _draw(re.sub(_OVERWRITTEN, _without_remains, _only_moves(text)))


_SEQUENCE = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # CSI, OSC
_CONTROLS = r"|[\x00-\x08\x0b\x0c\x0e-\x1f]"  # C0 but tab, newline and carriage return


def sanitise(text: str) -> str:
    """The text without CSI and OSC sequences and without the characters below U+0020 but tab,
    newline and carriage return; `\\r\\n` becomes a newline.

    >>> sanitise("\\x1b[31mred\\x1b[0m\\r\\n10%\\r20%\\x07")
    'red\\n10%\\r20%'
    """
    return re.sub(_SEQUENCE + _CONTROLS, "", text).replace("\r\n", "\n")


def without_nul(text: str) -> str:
    """The text, with U+FFFD in place of NUL too."""
    return text.replace("\0", "\ufffd")


def first_bytes(text: str, most: int) -> str:
    """The longest beginning of `text`, cut between characters, of at most `most` bytes in UTF-8."""
    return text.encode()[:most].decode("utf-8", "ignore")


def last_bytes(text: str, most: int) -> str:
    """The longest end of `text`, cut between characters, of at most `most` bytes in UTF-8. `most`
    is above 0."""
    return text.encode()[-most:].decode("utf-8", "ignore")


def mark_skipped(skipped: int, text: str) -> str:
    """Live output, behind a line on the bytes that were skipped before it, if there are any."""
    return ("\n[live output skipped: %s]\n" % format_size(skipped) if skipped else "") + text


def with_newline(text: str) -> str:
    """The text with a newline at its end, if there is any text."""
    return text if not text or text.endswith("\n") else text + "\n"


def join_names(names: Iterable[object]) -> str:
    """Names in quotation marks, with commas between them."""
    return ", ".join('"%s"' % shorten(name) for name in names)


def is_complete(stream: Captured) -> bool:
    """True if all of the stream was kept."""
    return stream.total_bytes == len(stream.head) + len(stream.tail)


def two_ends(stream: Captured, profile: Profile) -> tuple[str, str]:
    """The cleaned text of both ends of a stream, without the halves of the characters that the gap
    splits; twice the whole text if all of the stream was kept."""
    if is_complete(stream):
        text = profile.cleaning(decode(stream.head + stream.tail))
        return text, text
    head, _ = codecs.utf_8_decode(stream.head, "replace")  # without an unfinished character
    tail = re.sub(rb"\A[\x80-\xbf]{1,3}", b"", stream.tail)
    return profile.cleaning(head), profile.cleaning(decode(tail))


def keep_ends(stream: Captured, profile: Profile) -> Fitted:
    """The stream's text if it takes at most `max_output_bytes`, raw and cleaned; else its two
    ends around the word [snip]."""
    head, tail = two_ends(stream, profile)
    got = stream.total_bytes
    if is_complete(stream):
        got = max(got, len(head.encode()))  # U+FFFD takes three bytes
        if got <= profile.max_output_bytes:
            return Fitted(head, got, False)
    head, tail = first_bytes(head, profile.snip_size), last_bytes(tail, profile.snip_size)
    return Fitted(head + "\n\n[snip]\n\n" + tail, got, True)


_UNFINISHED = rb"""(?x)
    (?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]*\x1b?)?
    |[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z
    """


def without_unfinished(stream: Captured) -> Captured:
    """The part of a growing stream that can be shown now. If it ends within a character, an escape
    sequence or \\r\\n, that end waits for the next time."""
    data, head_bytes = stream.head + stream.tail, len(stream.head)
    held = len(b"".join(re.findall(_UNFINISHED, data[-KIB:])))  # there is one at most
    data = data[: len(data) - held]
    return stream._replace(
        head=data[:head_bytes], tail=data[head_bytes:], total_bytes=stream.total_bytes - held
    )


def keep_tail(stream: Captured, profile: Profile) -> Fitted:
    """The last whole lines within `max_output_lines` and `max_output_bytes`; if the last line alone
    is longer, its end. The newline at the end is not shown and begins no line. `details` says how
    much there was, and how much of it is shown."""
    whole = is_complete(stream)
    _, text = two_ends(stream, profile)
    lines = text.removesuffix("\n").split("\n") if text else []
    total_lines = len(lines) if whole else stream.newlines + (not text.endswith("\n"))
    partial = not whole and len(lines) == 1
    if not whole and not partial:
        del lines[:1]  # its beginning is gone
    shown = lines[-profile.max_output_lines :]
    limit = "lines" if len(shown) < len(lines) else None if whole else "bytes"
    text, most = "\n".join(shown), profile.max_output_bytes
    if len(text.encode()) > most:
        limit = "bytes"
        _, newline, rest = last_bytes(text, most + 1).partition("\n")
        partial = not newline
        text = last_bytes(text, most) if partial else rest
    details = {
        "total_lines": total_lines,
        "total_bytes": stream.total_bytes,
        "output_lines": text.count("\n") + bool(lines),
        "output_bytes": len(text.encode()),
        "truncated": limit is not None,
        "limit": limit,
        "last_line_partial": partial,
    }
    return Fitted(text, stream.total_bytes, limit is not None, details)


def keep_head(stream: Captured, profile: Profile) -> Fitted:
    """The first characters or bytes of the stream's text, whichever the row limits, with a mark
    behind them if that is not all."""
    text, _ = two_ends(stream, profile)
    kept, mark = first_bytes(text, profile.max_output_bytes), "\n... (output truncated)"
    if "max_output_chars" in profile.truncation.limits:
        kept, mark = text[: profile.max_output_chars], "\n[truncated]"
    cut = kept != text or not is_complete(stream)
    return Fitted(kept + mark if cut else kept, stream.total_bytes, cut)


def size_buffers(profile: Profile) -> tuple[int, int, bool]:
    """How much of a stream a row's truncation needs: the bytes at its beginning and at its end, and
    whether its newlines are counted."""
    truncation, most = profile.truncation, profile.max_output_bytes
    if truncation.keeps == "ends":
        return most // 2, -(-most // 2), False
    if truncation.keeps == "tail":
        return 0, max(profile.rolling_bytes, most), True
    if "max_output_chars" in truncation.limits:
        most = 4 * profile.max_output_chars  # a character takes four bytes at most
    return 4 + most, 0, False


def narrow(stream: Captured, profile: Profile) -> Captured:
    """Cuts a stream down to the bytes that the text needs: `make_plan` has more kept for a
    program."""
    head_bytes, tail_bytes, _ = size_buffers(profile)
    data = stream.head + stream.tail
    tail = data[max(head_bytes, len(data) - tail_bytes) :]
    return stream._replace(head=data[:head_bytes], tail=tail)


def fit_streams(outcome: Outcome, profile: Profile) -> Outcome:
    """The outcome with the streams that are shown, and their texts."""
    streams = outcome.raw
    if outcome.report.status == "running":  # the output of a background command is in its file
        streams = [without_unfinished(stream) for stream in streams if outcome.kept]
    fit = profile.truncation.fit
    texts = [fit(narrow(stream, profile), profile) for stream in streams]
    stdout, stderr, *_ = *texts, NO_STREAM, NO_STREAM
    return outcome._replace(stdout=stdout, stderr=stderr, raw=streams)


def with_whole_streams(result: Result, profile: Profile) -> Result:
    """The result for a program: with all of the text of each stream of which all was kept."""
    texts: Fields = {}
    for name in ("stdout", "stderr"):
        data = getattr(result, name + "_bytes")
        if data is not None:
            texts[name] = profile.cleaning(decode(data))
    return replace(result, **texts)


def describe_code(report: Report) -> str:
    """The exit code, with the name of a signal that ended the shell or that bash passed on as
    128 + n; else why there is none."""
    code = report.exit_code
    if code is None:
        stopped = describe_stop(report)
        return "none (%s)" % stopped if stopped else "unknown"
    name = report.signal or SIGNAL_NAMES.get(code - 128)
    return "%d (%s)" % (code, name) if name else str(code)


SYSTEM_ERROR = "[system error: %s]"


def status_line(outcome: Outcome) -> str:
    """The first line of an answer; empty after success, so that the output stands alone."""
    report = outcome.report
    stopped = describe_stop(report)
    if stopped:
        return "[command %s]" % stopped
    if outcome.kept:
        return "[command still running after %s, as a job]" % format_seconds(report.limit_s)
    if report.status not in ("exited", "running"):
        return SYSTEM_ERROR % report.reason
    if not report.exit_code:
        return ""
    template = "[command failed: exit code %s]"
    if report.exit_code == 137:  # SIGKILL
        template = (
            "[command failed: exit code %s; not sent by this tool; possibly out of memory]"
        )
    return template % describe_code(report)


def end_lines(outcome: Outcome) -> str:
    """How a command ended, if an exit code alone does not say it."""
    report = outcome.report
    if describe_code(report) == str(report.exit_code) and not report.error:
        return ""
    return "".join(map(with_newline, [status_line(outcome), *note_lines(outcome)]))


def saved_text(outcome: Outcome, whole: str, partly: str, lost: str) -> str:
    """The template for what became of the file with the whole output, filled in; empty if no
    file was needed."""
    problem = outcome.report.problem
    template = partly if problem else whole
    if outcome.path is None:
        template = lost if problem else ""
    return template.format(path=make_printable(outcome.path), reason=problem)


def job_lines(outcome: Outcome) -> list[str]:
    """What the model needs to find a job again: its pid, its file, and how to stop it if
    something of it may run that a command can stop."""
    report = outcome.report
    path = make_printable(outcome.path or NOWHERE % report.problem)
    started = "<pid>%s</pid>\n<output_file>%s</output_file>" % (report.pid, path)
    has_leftovers = report.leftovers and not report.exit_code
    may_run = report.status == "running" or report.error == "lost" or has_leftovers
    if may_run and report.can_kill:
        return [started, "<reminder>To stop: kill -9 -%s</reminder>" % report.pid]
    return [started]


def ended_note(path: str, outcome: Outcome) -> str:
    """The note with which the next answer of a tool tells that a job has ended."""
    report = outcome.report
    how = describe_end(report)
    if report.status != "timed_out":
        passed_s = report.duration_s
        how += " after " + format_seconds(round(passed_s, 1 if passed_s < 1 else 0))
    last = ""
    for stream in outcome.raw:  # the later one wins: standard error, if it has a line
        end = render(decode((stream.head + stream.tail)[-SNIP_SIZE:]))
        line = end.strip().rpartition("\n")[2].strip()
        last = "; last line: " + quote(line) if line else last
    file = make_printable(path or NOWHERE % report.problem)
    words = report.pid, how, quote(report.command), last, file
    return "background process %s %s: %s%s; output: %s" % words


def note_lines(outcome: Outcome) -> list[str]:
    """The notes as lines of their own."""
    return ["[%s]" % note for note in outcome.notes]


def format_brackets(outcome: Outcome, profile: Profile) -> str:
    """The answer as bracketed lines around the output: what happened, notes, what was cut, the
    output, where the rest is."""
    report, text = outcome.report, outcome.stdout.text
    if outcome.stderr.text:  # a host has asked for separate streams
        text = with_newline(text) + outcome.stderr.text
    text += report.completion_note
    lines = [status_line(outcome)]
    modes = profile.timeouts_s if "mode" in profile.parameters else ()
    if "slow" in modes and outcome.mode == "default" and report.status == "timed_out":
        longer = '[for longer commands use mode="slow"]'
        if "background" in modes:
            longer = '[for longer commands use mode="slow", for servers mode="background"]'
        lines.append(longer)
    lines += note_lines(outcome)
    if report.pid is not None:
        lines += job_lines(outcome)
    cut = [stream for stream in (outcome.stdout, outcome.stderr) if stream.cut]
    for stream in cut:
        sizes = format_size(stream.got_bytes), format_size(profile.max_output_bytes)
        lines.append("[output truncated in middle: got %s, max is %s]" % sizes)
    text = "".join(map(with_newline, lines)) + text
    saved = saved_text(
        outcome,
        "[full output: {path}]",
        "[full output may be incomplete: {path} ({reason})]",
        "[full output was not saved: {reason}]",
    )
    return with_newline(text) + saved + "\n" if cut and saved else text


def with_notice(name: str, stream: Fitted, where: str) -> str:
    """A stream's text, and the line that follows it if it was cut to its last lines. `where`: what
    that says of the file."""
    details = stream.details
    if not stream.cut:
        return stream.text
    what = "{output_lines} of {total_lines} lines"
    if details["last_line_partial"]:
        what = "{output_bytes} bytes of line {total_lines}"
    shown = what.format_map(details)
    notice = "[%s: Showing last %s.%s]" % (name, shown, where)
    return stream.text + "\n" + notice


def _last_lines(name: str, stream: Fitted, most: int) -> list[str]:
    """A stream under a heading, which gives the number of lines only if some are left out."""
    lines = stream.text.split("\n")
    heading = name + ":"
    if stream.cut or len(lines) > most:
        heading = "%s (last %d lines):" % (name, min(len(lines), most))
    return ["", heading, *lines[-most:]]


def _job_sections(outcome: Outcome, profile: Profile, where: str) -> list[str]:
    """What became of a job. `where`: what is said of its file."""
    report, stdout, stderr = outcome.report, outcome.stdout, outcome.stderr
    file = ["", where.lstrip()]
    if outcome.kept:
        return [
            "[Command backgrounded after %s timeout (pid %s). Partial output:"
            % (format_seconds(report.limit_s), report.pid),
            *_last_lines("stdout", stdout, 500),  # these two numbers of lines: seed 001
            *_last_lines("stderr", stderr, 100),
            *file,
            "Use check_pid or kill_pid to manage.]",
        ]
    if report.status == "running":
        count = stdout.details.get("total_lines", 0)
        lines = [
            "[Process %s still running.\n\nNew output since last check (%d lines):"
            % (report.pid, count),
            with_notice("output", stdout, ""),
        ]
    else:
        ended = "ended, exit code" if report.exit_code is None else "exited with code"
        lines = ["[Process %d %s %s." % (report.pid or 0, ended, describe_code(report))]
        # A job's file holds both streams as they came.
        names = ["output"] if stderr is NO_STREAM else ["stdout", "stderr"]
        for name, stream in zip(names, (stdout, stderr)):
            lines += _last_lines(name, stream, profile.max_output_lines)
    lines += file
    lines[-1] += "]"
    return lines


def format_sections(outcome: Outcome, profile: Profile) -> str:
    """The answer as sections for stdout, stderr and the exit code; for a job, what became of
    it."""
    report, stdout, stderr = outcome.report, outcome.stdout, outcome.stderr
    where = saved_text(
        outcome,
        " Full output: {path}",
        " Full output file may be incomplete: {path} ({reason})",
        " Full output was not saved: {reason}",
    )
    sections = "stdout:\n%s\n\nstderr:\n%s" % (
        with_notice("stdout", stdout, where),
        with_notice("stderr", stderr, where),
    )
    if report.pid is not None:
        lines = _job_sections(outcome, profile, where)
    elif report.status not in ("failed", "rejected"):
        lines = [sections, "", "exit code: " + describe_code(report)]
    else:
        lines = [SYSTEM_ERROR % report.reason]
        if stdout.text or stderr.text:
            lines += ["", sections]
    return "\n".join(lines + note_lines(outcome))


def stream_fields(outcome: Outcome) -> Fields:
    """The answer as the fields stdout, stderr and exitCode, or error if the command did not
    end by itself."""
    report, fields = outcome.report, Fields()
    if outcome.stdout is not NO_STREAM:
        fields.update(stdout=outcome.stdout.text, stderr=outcome.stderr.text)
    if report.status == "exited":
        fields["exitCode"] = report.exit_code
    elif report.status == "rejected":
        fields["error"] = report.reason
    else:
        why = describe_stop(report) or report.reason
        fields["error"] = "bash '%s': %s" % (outcome.command[:ECHO_CHARS], why)
    if outcome.notes:
        fields["notes"] = list(outcome.notes)
    return fields


def format_json(outcome: Outcome, profile: Profile) -> str:
    """The fields as JSON text."""
    return json.dumps(stream_fields(outcome), ensure_ascii=False)


def plain_code(report: Report) -> int:
    """The exit code; -1 if there is none or a signal ended the shell."""
    return -1 if report.exit_code is None or report.signal else report.exit_code


def format_labels(outcome: Outcome, profile: Profile) -> str:
    """The answer as the exit code, or what came instead of it, before the labelled streams."""
    report = outcome.report
    first = {
        "exited": "Exit code: %d" % plain_code(report),
        "timed_out": "Command " + describe_stop(report),
        "cancelled": "Cancelled",
        "failed": "Failed to execute: " + report.reason,
    }.get(report.status, report.reason)
    body = outcome.stdout.text
    if outcome.stderr.text:
        body = "STDOUT:\n%s\nSTDERR:\n%s" % (body, outcome.stderr.text)
    text = first + "\n" + body if body or report.status == "exited" else first
    if outcome.notes:
        text = with_newline(text) + "\n".join(note_lines(outcome))
    return text


def cut_details(outcome: Outcome) -> Fields:
    """What `keep_tail` says of each stream, by its name; other truncations say nothing."""
    streams = {"stdout": outcome.stdout.details, "stderr": outcome.stderr.details}
    return {name: details for name, details in streams.items() if details}


def code_details(outcome: Outcome) -> Fields:
    """The exit code for a program, or -1, and whether the command succeeded."""
    return {"exit_code": plain_code(outcome.report), "success": outcome.report.exit_code == 0}


def present(outcome: Outcome, profile: Profile) -> Result:
    """The outcome in the words of a profile. No text is empty or blank: interfaces of models
    refuse such a text, and with it the whole conversation (nanobot#949, adk-go#1353)."""
    text = profile.format.write(outcome, profile)
    if not text.strip():
        text = with_newline(text) + "[no output]\n"
    report = outcome.report
    has_failed = report.status not in ("exited", "running")
    streams = [
        stream.head + stream.tail if is_complete(stream) else None for stream in outcome.raw
    ]
    stdout_bytes, stderr_bytes, *_ = *streams, *2 * [b"" if streams else None]
    return Result(
        text=text,
        is_error=has_failed or (profile.nonzero_is_error and bool(report.exit_code)),
        stdout=outcome.stdout.text,
        stderr=outcome.stderr.text,
        truncated=outcome.stdout.cut or outcome.stderr.cut,
        output_file=outcome.path,
        notes=tuple(outcome.notes),
        leftovers=tuple(report.leftovers),
        details=profile.format.details(outcome),
        stdout_bytes=stdout_bytes,
        stderr_bytes=stderr_bytes,
        _for_check=(outcome.command, end_lines(outcome)),
        **{name: getattr(report, name) for name in SHARED_FIELDS},
    )


# Takes the number of skipped bytes, and the text after them.
OnLive = Callable[[int, str], object]


class LiveText:
    """Live output as text, behind the number of the bytes that were skipped before it: each
    stream has its own decoder, so that no character is split."""

    def __init__(self, tell: OnLive | None) -> None:
        self._tell = tell
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]

    def take(
        self, skipped: int, chunks: Sequence[tuple[int, bytes]], final: bool = False
    ) -> None:
        """Hands on what has come; with `final` also the half of a character."""
        text = "".join(
            self._decoders[stream].decode(chunk, final)
            for stream, chunk in (*chunks, (0, b""), (1, b""))
        )
        if self._tell is not None and (skipped or text):
            self._tell(skipped, text)


def _with_notes(on_output: OnText | None) -> OnLive | None:
    """A function that hands live output to `on_output`, with a line on what was skipped. Raises
    ValueError for what is no function."""
    check_function("on_output", on_output)
    if on_output is None:
        return None
    return lambda skipped, text: on_output(mark_skipped(skipped, text))


# ---- 5 Profiles --------------------------------------------------------------------------------
# A profile is a row of data: how a stream is cleaned and cut, how an answer is written, what limits
# hold. The sections below never compare the name of a row: a call looks at its row for the request,
# at the timeout, and when the answer is written. Before the rows stand the checks of what a host
# gives.

VERBS = "command check_pid kill_pid restart".split()  # the arguments of which a call has one
WAITS = ("grace_s", "drain_idle_s", "drain_total_s")
LIMITS_ON_OUTPUT = (
    "max_output_bytes max_output_chars max_output_lines rolling_bytes snip_size".split()
)
# fmt: off
COMMAND_TIMEOUT_S = 120.0  # seed 001; seeds 002 and 004 name none
LONGEST_S = 1e9            # what a program may ask for, some 30 years; our own choice
# fmt: on
NOTHING_PERSISTS = (
    "Bash state changes (working dir, variables, aliases) don't persist between calls."
)
CARRIES = (
    "The working directory and exported variables persist; functions, aliases, options and "
    "unexported variables don't. {\"restart\": true} resets them."
)


def is_number_in(value: Any, least: float, most: float) -> bool:
    """True for a number within the bounds; a boolean is none."""
    return (
        isinstance(value, (int, float)) and type(value) is not bool and least <= value <= most
    )


def require(right: object, name: str, wanted: str, value: object) -> None:
    """Raises ValueError, which says what is wanted, if a value of the host is not right."""
    if not right:
        raise ValueError("%s takes %s, got %r" % (name, wanted, value))


def check_seconds(name: str, value: object, above_0: bool = False) -> None:
    """Raises ValueError for what is no number of seconds that a command can be given."""
    require(
        is_number_in(value, 0, LONGEST_S) and (value or not above_0),
        name,
        "seconds %s up to %d" % ("above 0 and" if above_0 else "from 0", LONGEST_S),
        value,
    )


def check_function(name: str, value: object) -> None:
    """Raises ValueError unless the value is None or a function. An `async def` is refused, because
    nobody would await it; as `confirm` it is refused by what it returns."""
    right = callable(value) and (name == "confirm" or not iscoroutinefunction(value))
    require(value is None or right, name, "a function that is not `async`", value)


# Of variables: what check_strings wants, and its pattern. A list in one string, "A,B", or a pair
# "A=B" would else be a name that no variable has.
NAMES = (
    'a list of names such as ["GH_TOKEN", "AWS_*"], on the command line the option once for each; '
    "values go into env",
    r"[^\0=,\s]+",
)


def check_strings(
    value: Any,
    what: str,
    wanted: str = "non-empty strings without NUL",
    pattern: str = r"[^\0]+",
) -> tuple[str, ...]:
    """A sequence of strings from what a host gave; a lone string is one element. Raises ValueError
    for one that does not match, without what stands behind a `=`: it may be secret, and so may
    the values of a mapping."""
    lone = isinstance(value, (str, Mapping)) or not isinstance(value, Iterable)
    strings: Any = [value] if lone else [*value]
    require(
        all(isinstance(one, str) and re.fullmatch(pattern, one) for one in strings),
        what,
        wanted,
        [
            re.sub("(?s)=.*", "=…", one) if isinstance(one, str) else type(one)
            for one in strings
        ],
    )
    return tuple(strings)


# The fields of a row whose type is checked.
_FIELD_TYPES: dict[str, Any] = {
    "parameters": Mapping,
    "timeouts_s": Mapping,
    "cleaning": Callable,
    "truncation": Truncation,
    "format": Format,
    "streams": Streams,
    "saves": bool,
    "nonzero_is_error": bool,
    "file_prefix": str,
}


@dataclass(frozen=True, repr=False)
class Profile:
    """One way of speaking to a model: a row of PROFILES, or `dataclasses.replace(row, ...)`.

    What a host changes first:

    timeouts_s        the limit of each mode in seconds above 0; `default` must be there
    grace_s           the most seconds between the first signal of a stop and KILL
    max_output_bytes  a stream with more bytes is cut: in MODES to its two ends, in JOBS and GUARDED
                      to the last or the first of this many bytes
    snip_size         bytes that are shown of each end of a cut stream (MODES)
    max_output_lines  a stream with more lines is cut to the last of this many (JOBS)
    max_output_chars  a stream with more characters is cut to the first of this many (STREAMS)
    on_timeout        whether a command that exceeds its limit is ended or kept as a job
    saves             whether output over `max_output_bytes` goes to a file

    The rest of the row:

    name              of the row, for `BashTool(profile=...)` and BASH_TOOL_PROFILE
    description       of the tool, for the model; `{cwd}` stands for the tool's directory, {streams}
                      {lines} and {size} for what the row says of these
    parameters        the properties of the JSON Schema of its arguments: some of `command`, `mode`,
                      `timeout`, `check_pid`, `kill_pid` and `restart`
    required          the arguments that must be given
    streams           stdout and stderr merged in true order, or separate
    cleaning          the function that a stream's text goes through
    truncation        what is shown of a stream that is too long, and which limits count for that
    format            how an answer is written
    nonzero_is_error  whether an exit code other than 0 makes the answer an error
    rolling_bytes     bytes of each stream that are kept while a command runs (JOBS)
    drain_idle_s      seconds without output, after the shell's exit, that end the reading
    drain_total_s     the most seconds of reading after the shell's exit
    file_prefix       how the names of output files begin
    own_folder        False: output files stand directly in the folder for temporary files

    A row can be copied, pickled, hashed and made a dict. Raises ValueError for numbers that no
    command could keep to, for a limit on the output that the truncation does not use, for jobs that
    the format cannot tell of, and for parameters that no call reads.
    """

    name: str
    description: str
    parameters: Mapping[str, Schema]
    timeouts_s: Mapping[str, float]
    cleaning: Callable[[str], str]
    truncation: Truncation
    format: Format
    required: Sequence[str] = ("command",)
    streams: Streams = Streams.SEPARATE
    saves: bool = False
    nonzero_is_error: bool = False
    max_output_bytes: int = 128 * KIB
    max_output_lines: int = 2000  # seed 001: or 50 KiB, whichever is reached first
    max_output_chars: int = 30_000  # seed 002
    snip_size: int = SNIP_SIZE
    rolling_bytes: int = 100 * KIB  # seed 001
    grace_s: float = GRACE_S
    drain_idle_s: float = 0.5  # `> >(sort)` wrote 86 ms after the exit at worst
    drain_total_s: float = 2.0
    on_timeout: OnTimeout = OnTimeout.KILL
    file_prefix: str = "output-"
    own_folder: bool = True

    def __repr__(self) -> str:
        names = "name", "timeouts_s", *WAITS, *self.truncation.limits
        return "<Profile %s>" % ", ".join("%s=%r" % (n, getattr(self, n)) for n in names)

    def __hash__(self) -> int:  # equal rows have one name; a dict has no hash
        return hash(self.name)

    def __post_init__(self) -> None:
        for name, kind in _FIELD_TYPES.items():
            value = getattr(self, name)
            require(isinstance(value, kind), name, "a value such as JOBS.%s" % name, value)
        tells_jobs, limits = self.format.tells_jobs, self.timeouts_s
        tells_of, keeps = self.format.tells_of, self.truncation.keeps
        one_row = "what goes with the format: take both from one row"
        require(tells_of == keeps, "truncation", one_row, keeps)
        # With another notice than that of "ends" a format has a place for each stream.
        right = tells_of == "ends" or self.streams is not Streams.MERGED
        require(right, "streams", one_row, self.streams)
        require(
            "default" in limits and (tells_jobs or "background" not in limits),
            "timeouts_s",
            'seconds by mode such as {"default": 30}, '
            'without "background" where the format cannot tell of jobs',
            limits,
        )
        for mode, limit_s in limits.items():
            check_seconds("timeouts_s[%r]" % mode, limit_s, above_0=True)
        for name in WAITS:
            check_seconds(name, getattr(self, name))
        used = self.truncation.limits
        for name in LIMITS_ON_OUTPUT:
            value = getattr(self, name)
            if name in used:
                right = isinstance(value, int) and is_number_in(value, 1, sys.maxsize)
                require(right, name, "a whole number from 1 up", value)
            elif value != getattr(Profile, name):
                raise ValueError(
                    "%s is not used: the truncation uses %s" % (name, ", ".join(used))
                )
        may_be = [*OnTimeout] if tells_jobs and self.saves else [OnTimeout.KILL]
        wanted = "OnTimeout.KILL, or KEEP where the format tells of jobs and `saves` is True"
        require(self.on_timeout in may_be, "on_timeout", wanted, self.on_timeout)
        right = "/" not in (self.file_prefix or "/")
        require(right, "file_prefix", "the beginning of a file's name", self.file_prefix)
        read = (*VERBS, "mode", "timeout")
        unread = self.parameters.keys() - read
        require(not unread, "parameters", join_names(read), sorted(unread))
        right = {*self.required} <= self.parameters.keys()
        require(right, "required", "names of `parameters`", self.required)


def json_object(text: str) -> Schema:
    """A part of a JSON Schema, from its text as a model gets it."""
    return FrozenDict(json.loads(text))


MODES = Profile(
    name="modes",
    description="""\
Executes shell commands via bash -c, returning {streams}.
Bash state changes (working dir, variables, aliases) don't persist between calls.

With mode="background", returns immediately with output redirected to a file.
Use background for servers/demos that need to stay running.

Use mode="slow" for potentially slow commands: builds, downloads,
installs, tests, or any other substantive operation.

IMPORTANT: Keep commands concise. The command input must be less than 60k tokens.
For complex scripts, write them to a file first and then execute the file.

<pwd>{cwd}</pwd>""",
    parameters=json_object("""
{"command": {"type": "string", "description": "Shell command to execute via bash -c"},
 "mode": {"type": "string", "enum": ["default", "slow", "background"],
          "description": "Execution mode: {modes}"}}"""),
    timeouts_s=FrozenDict(default=30.0, slow=15 * 60.0, background=BACKGROUND_TIMEOUT_S),
    streams=Streams.MERGED,
    cleaning=render,
    truncation=Truncation(keep_ends, "ends", limits=("max_output_bytes", "snip_size")),
    saves=True,
    format=Format(format_brackets, cut_details, "ends", tells_jobs=True),
    nonzero_is_error=True,
)

JOBS = Profile(
    name="jobs",
    description="""\
Execute a bash command. Output truncated to last {lines} lines or {size}{saved}. \
Commands exceeding timeout are {on_timeout}ed.""",
    parameters=json_object("""
{"command": {"type": "string", "description": "The bash command to execute"},
 "timeout": {"type": "integer",
             "description": "Timeout in ms before {on_timeout}ing (default: {default_ms})",
             "minimum": 1, "maximum": 86400000},
 "check_pid": {"type": "integer",
               "description": "Check on a backgrounded process, return new output"},
 "kill_pid": {"type": "integer",
              "description": "Kill a backgrounded process, return final output"}}"""),
    required=(),
    timeouts_s=FrozenDict(default=COMMAND_TIMEOUT_S),
    on_timeout=OnTimeout.KEEP,
    cleaning=sanitise,
    truncation=Truncation(
        keep_tail, "tail", limits=("max_output_bytes", "max_output_lines", "rolling_bytes")
    ),
    saves=True,
    format=Format(format_sections, cut_details, "tail", tells_jobs=True),
    nonzero_is_error=True,
    max_output_bytes=50 * KIB,
    file_prefix="pipe-bash-",
    own_folder=False,
)

STREAMS = Profile(
    name="streams",
    description="""\
Execute a bash command. Returns stdout, stderr, and exit code. \
Use for running tests, installing dependencies, build commands, git operations, \
and any task requiring shell execution. \
Prefer structured tools (read, write, edit, glob, grep) for file operations.""",
    parameters=json_object("""
{"command": {"type": "string", "description": "The bash command to execute"}}"""),
    timeouts_s=FrozenDict(default=COMMAND_TIMEOUT_S),
    cleaning=without_nul,
    truncation=Truncation(keep_head, "head", limits=("max_output_chars",)),
    format=Format(format_json, stream_fields, "head"),
)

GUARDED = replace(
    STREAMS,
    name="guarded",
    description="Execute a bash command. Returns its exit code, stdout and stderr.",
    parameters=json_object("""
{"command": {"type": "string", "description": "The shell command to execute"}}"""),
    truncation=Truncation(keep_head, "head", limits=("max_output_bytes",)),
    format=Format(format_labels, code_details, "head"),
    max_output_bytes=256 * KIB,  # seed 004 leaves the number open
)

PROFILES: Mapping[str, Profile] = FrozenDict(
    (row.name, row) for row in (MODES, JOBS, STREAMS, GUARDED)
)
RESTART = json_object("""
{"type": "boolean", "description": "Reset the working directory and the exported variables"}""")
# What clients of MCP are told of a tool that runs any command.
TOOL_HINTS = json_object("""
{"title": "Bash", "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false,
 "openWorldHint": true}""")


def carrying(profile: Profile) -> Profile:
    """The row of a tool that carries the directory and the variables over: the model is told
    so, and may ask for a restart."""
    text = profile.description
    if NOTHING_PERSISTS not in text:
        text += "\n" + NOTHING_PERSISTS
    return replace(
        profile,
        description=text.replace(NOTHING_PERSISTS, CARRIES),
        parameters={**profile.parameters, "restart": RESTART},
        required=(),
    )


def choose_profile(profile: Profile | str, timeout_s: float | None, carry: bool) -> Profile:
    """The profile of a tool: a row, or the name of one, with the limit of the default mode."""
    row = PROFILES.get(profile) if isinstance(profile, str) else profile
    wanted = "a Profile or one of " + join_names(PROFILES)
    require(isinstance(row, Profile), "profile", wanted, profile)
    assert row is not None
    require(isinstance(carry, bool), "carry", "True or False", carry)
    if carry:
        row = carrying(row)
    if timeout_s is None:
        return row
    check_seconds("timeout_s", timeout_s, above_0=True)
    return replace(row, timeouts_s={**row.timeouts_s, "default": timeout_s})


# ---- 6 Decisions -------------------------------------------------------------------------------
# What the model is told of the tool, what is admitted, what environment a command gets, and what a
# record of a job says. These are functions of values, but for three: judge_command asks the host's
# `confirm`, withheld_notes takes out the names that it tells, and Carry remembers what the last
# command left.


def describe_mode(name: str, limit_s: float) -> str:
    """A mode as the schema describes it: `default (30s timeout)`."""
    if name == "background":
        return "background (detached)"
    minutes, rest = divmod(limit_s, 60)
    limit = "%dmin" % minutes if minutes and not rest else format_seconds(limit_s)
    return "%s (%s timeout)" % (name, limit)


def describe_modes(profile: Profile) -> str:
    """The modes of a row with their limits, as its definition and --help list them."""
    return ", ".join(describe_mode(*item) for item in profile.timeouts_s.items())


_MODE = 'mode="([a-z]+)"'  # as a description names one


def describe_tool(profile: Profile, modes: Sequence[str]) -> str:
    """The description, for this row. Of modes that the row lacks, or that a host has taken out,
    nothing is said."""
    parts = profile.description.split("\n\n")
    text = "\n\n".join(part for part in parts if {*re.findall(_MODE, part)} <= {*modes})
    return describe(text, profile)


def describe(text: str, profile: Profile) -> str:
    """A text of a definition, with what this row does in place of the names in braces."""
    merged = profile.streams is Streams.MERGED
    kept = profile.on_timeout is OnTimeout.KEEP
    texts = {
        "streams": "combined stdout/stderr" if merged else "stdout and stderr",
        "lines": str(profile.max_output_lines),
        "size": format_size(profile.max_output_bytes),
        "saved": "; if truncated, full output saved to temp file" if profile.saves else "",
        "on_timeout": "auto-background" if kept else "kill",
        "modes": describe_modes(profile),
        "default_ms": "%d" % (1000 * profile.timeouts_s["default"]),
    }
    for name, value in texts.items():
        text = text.replace("{%s}" % name, value)
    return text


def define(profile: Profile, cwd: str, style: str) -> Fields:
    """What a model, or its client, is told of the tool. Raises ValueError for an unknown style."""
    properties = {}
    for name, schema in profile.parameters.items():
        text = describe(schema["description"], profile)
        properties[name] = dict(schema, description=text)
    modes = list(profile.timeouts_s) if "mode" in properties else []
    if modes:
        properties["mode"]["enum"] = modes
    arguments: Fields = {"type": "object"}
    if profile.required:
        arguments["required"] = list(profile.required)
    arguments.update(properties=properties, additionalProperties=False)
    text = describe_tool(profile, modes).replace("{cwd}", make_printable(cwd))
    told = {"name": "bash", "description": text}
    if style == "openai":  # its strict form knows no key that may be left out
        for name in set(properties) - set(profile.required):
            schema = properties[name]
            schema["type"] = [schema["type"], "null"]
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]
        arguments["required"] = list(properties)
    if style == "anthropic-native" and "restart" not in properties:
        # Its own description says that state persists.
        raise ValueError("the style %r goes with carry=True" % style)
    forms: dict[str, Fields] = {
        "anthropic": {**told, "input_schema": arguments},
        "openai": {"type": "function", **told, "parameters": arguments, "strict": True},
        "openai-chat": {"type": "function", "function": {**told, "parameters": arguments}},
        "mcp": {
            **told,
            "title": "Bash",
            "inputSchema": arguments,
            "annotations": dict(TOOL_HINTS),
        },
        "anthropic-native": {"type": "bash_20250124", "name": "bash"},
        "openai-native": {"type": "shell", "environment": {"type": "local"}},
    }
    if style not in forms:
        raise ValueError("style must be one of %s, got %r" % (join_names(forms), style))
    return forms[style]


def load_json(text: str | bytes) -> Any:
    """The value of a JSON text, which may be bytes in UTF-8. Raises ValueError for anything else,
    and for nesting and numbers that Python refuses."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        return json.loads(text, parse_constant=int)  # int refuses NaN and Infinity
    except RecursionError:
        raise ValueError("too deeply nested") from None


def unwrap(value: Any) -> Any:
    """The object that a string holds as JSON, because it was encoded twice; else the value."""
    with suppress(ValueError):
        if isinstance(value, str) and isinstance(held := load_json(value), dict):
            return held
    return value


_TYPE_NAMES = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def name_type(value: object) -> str:
    """What JSON calls the type of a value."""
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def is_integer(value: object) -> bool:
    """True for an integer of JSON: 1000.0 is an integer, true is none."""
    return value.is_integer() if isinstance(value, float) else name_type(value) == "integer"


def refuse(reason: str) -> Outcome:
    """The outcome of a command with arguments that were not taken, for this reason."""
    return reject("invalid_arguments", "invalid arguments: " + reason)


def parse_command(
    command: object, mode: Any, timeout_s: float | None, profile: Profile
) -> Request | Outcome:
    """A command that was asked for, as a request; or why not."""
    if not isinstance(command, str):  # a program's: a model's is checked before
        return refuse('"command" must be a string, got %s' % type(command).__name__)
    if mode not in list(profile.timeouts_s):
        got = '"%s"' % shorten(mode) if isinstance(mode, str) else name_type(mode)
        return refuse(
            '"mode" must be one of %s, got %s' % (join_names(profile.timeouts_s), got)
        )
    if "\0" in command:
        return refuse(
            '"command" holds a NUL character (at index %d), which no shell can take'
            % command.index("\0")
        )
    return Request(command, mode, timeout_s)


def interpret(arguments: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Fields:
    """The arguments that were given, without nulls, and near misses as what they mean. A command is
    never changed, and a restart is asked for by a true boolean alone."""
    given: Fields = {}
    for key, value in arguments.items():
        is_number = isinstance(value, str) and re.fullmatch("-?[0-9]{1,15}", value)
        if is_number and schemas[key].get("type") == "integer":
            value = int(value)
        elif key == "run_in_background" and value in ("true", "false"):
            value = value == "true"
        no_mode = key == "mode" and value == ""
        no_process = key in ("check_pid", "kill_pid") and value == 0 and value is not False
        if not (value is None or no_mode or no_process):
            given[key] = value
    return given


def find_fault(key: str, value: Any, schema: Schema) -> str:
    """Why the value does not fit the schema; empty if it does."""
    kind = name_type(value)
    wanted = schema.get("type", kind)
    right = is_integer(value) if wanted == "integer" else kind == wanted
    if not right and key != "mode":  # parse_command says more of a mode
        wanted = "an integer" if wanted == "integer" else "a " + wanted
        return '"%s" must be %s, got %s' % (key, wanted, kind)
    if "minimum" not in schema or schema["minimum"] <= value <= schema["maximum"]:
        return ""
    got = "%d" % value if abs(value) < 1e15 else "a number of another size"
    words = key, schema["minimum"], schema["maximum"], got
    return '"%s" must be from %d to %d milliseconds, got %s' % words


def argument_schemas(profile: Profile) -> dict[str, Schema]:
    """The schemas of what a profile takes: its own arguments, and three that models know from
    another tool, whether the definition names them or not."""
    longest_s = max(s for mode, s in profile.timeouts_s.items() if mode != "background")
    return {
        "description": {},
        "timeout": {"type": "integer", "minimum": 1000, "maximum": 1000 * longest_s},
        "run_in_background": {"type": "boolean"},
        **profile.parameters,
    }


UNKNOWN_KEYS_NAMED = 5  # that one refusal names


def parse_arguments(arguments: object, profile: Profile) -> Asked | Outcome:
    """What a model sent, as a request, or why not. Null and a false `restart` are not given."""
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = unwrap(load_json(arguments))
        except ValueError as problem:
            return refuse("not a JSON object (%s)" % shorten(problem))
    if not isinstance(arguments, Mapping):
        kind = name_type(arguments)
        return refuse('expected a JSON object such as {"command": "ls"}, got %s' % kind)
    schemas = argument_schemas(profile)
    unknown = join_names([key for key in arguments if key not in schemas][:UNKNOWN_KEYS_NAMED])
    if unknown:
        return refuse("unknown key %s; allowed: %s" % (unknown, join_names(profile.parameters)))
    given = interpret(arguments, schemas)
    background = given.get("run_in_background") is True
    mode = "background" if background else given.get("mode", "default")
    if mode == "background":
        given.pop("timeout", None)
    for key, value in given.items():
        if wrong := find_fault(key, value, schemas[key]):
            return refuse(wrong)
    verbs = [verb for verb in VERBS if verb in schemas]
    chosen = [verb for verb in verbs if given.get(verb, False) is not False]
    if given.get("command") == "":  # a strict schema makes a model fill each key
        chosen = chosen[1:] or chosen
    if len(verbs) > 1 and len(chosen) != 1:
        got = join_names(chosen) or "none"
        return refuse("exactly one of %s is required, got %s" % (join_names(verbs), got))
    if not chosen:
        return refuse('"command" is required: the shell command to execute, a string')
    verb = chosen[0]
    if verb == "restart":
        return Restart()
    if verb != "command":
        if abs(given[verb]) >= 2**31:
            return refuse('"%s" must be a process ID, got a number of another size' % verb)
        return Inquiry(int(given[verb]), verb == "kill_pid")
    if background and ("mode" not in schemas or mode not in profile.timeouts_s):
        return refuse('"run_in_background" cannot be true here')
    if background and "mode" in given:
        return refuse('give one of "mode" and "run_in_background"')
    # To a program a lone surrogate may stand for a byte that is no UTF-8 (PEP 383).
    if lone := re.search("[\ud800-\udfff]", given["command"]):
        return refuse(
            '"command" holds a lone surrogate (U+%04X at index %d), which is no text'
            % (ord(lone.group()), lone.start())
        )
    timeout_s = given["timeout"] / 1000 if "timeout" in given else None
    return parse_command(given["command"], mode, timeout_s, profile)


def judge_command(request: Request, config: ToolConfig) -> Outcome | None:
    """Why a tool will not run the request; None if it will. Raises TypeError if `confirm` gives
    no plain answer: the coroutine of an `async def` is true."""
    for pattern in config.deny:
        if pattern in request.command:
            found = make_printable(pattern)
            return reject("denied", "Command blocked by safety policy: contains '%s'" % found)
    answer: object = config.confirm is None or config.confirm(request.command)
    if answer is True:
        return None
    if answer is False or answer is None:
        return reject("not_confirmed", "Command was not confirmed by the user.")
    if isinstance(answer, Coroutine):
        answer.close()  # else Python warns that it was never awaited
    raise TypeError("confirm must return True or False, got %s" % type(answer).__name__)


# What stops a prompt, a pager, an editor or a full-screen program, and nothing else: a variable
# that changes what a program prints or computes fails its tests (TQDM_DISABLE=1 failed 57 of
# tqdm's own 95). Set over the process's environment, filled in if the caller gave a mapping.
# Left alone on purpose: GIT_CONFIG_GLOBAL (holds the user's name), GIT_SSH_COMMAND (holds the
# user's key), PATH, CI.
# An editor is one word, the name of a program that does not exist: quoted, unquoted or through
# `eval` it fails at once, and the message of the shell says what to do. sudoedit and visudo start
# vi in place of an editor that is missing, so theirs is a program that fails.
# TERM=dumb: no full-screen program, no moving cursor.
_SETTINGS = """
TERM=dumb
PAGER=cat GIT_PAGER=cat MANPAGER=cat SYSTEMD_PAGER=cat GH_PAGER=cat DELTA_PAGER=cat BAT_PAGER=cat
AWS_PAGER= PSQL_PAGER=cat
GIT_MERGE_AUTOEDIT=no GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=false
SSH_ASKPASS=false SSH_ASKPASS_REQUIRE=never SUDO_ASKPASS=/bin/false
GCM_INTERACTIVE=never GH_PROMPT_DISABLED=1
DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true NEEDRESTART_SUSPEND=1
APT_LISTCHANGES_FRONTEND=none PIP_NO_INPUT=1
EDITOR=no-editor-here:give-the-text-as-an-argument-or-set-GIT_EDITOR=true
VISUAL=no-editor-here:give-the-text-as-an-argument-or-set-GIT_EDITOR=true
GIT_EDITOR=no-editor-here:give-the-text-as-an-argument-or-set-GIT_EDITOR=true
GIT_SEQUENCE_EDITOR=no-editor-here:set-GIT_SEQUENCE_EDITOR=true-or-a-sed-command
SUDO_EDITOR=/bin/false
"""
NON_INTERACTIVE = {
    name: value for name, _, value in (one.partition("=") for one in _SETTINGS.split())
}
# What would switch the shell itself, export the text of each command (if a host was started by
# `bash -a -c`), or make gpg ask on a terminal that the command does not have; and functions of the
# names that keep functions out of the line that the shell is told (see shell_line). BASH_ENV and
# all other functions pass, as to `bash -c`: on clusters `module` is made of them.
DROPPED_NAMES = frozenset(
    "ENV SHELLOPTS BASHOPTS CDPATH GLOBIGNORE BASH_XTRACEFD BASH_EXECUTION_STRING GPG_TTY "
    "BASH_FUNC_builtin%% BASH_FUNC_command%% BASH_FUNC_unset%%".split()
)
# Not carried over to the next command: what is dropped, the text of the command among it, which
# `set -a` exports; a startup file; and what bash counts itself.
NOT_CARRIED = frozenset(map(fsencode, (*DROPPED_NAMES, "BASH_ENV", "SHLVL")))
# What makes a variable secret: the first of these rules that finds its pattern decides, and a
# variable that none finds passes. A pattern is looked for in the value, in the pair NAME=value, or
# in the words of the name, as in _AWS_SECRET_KEY_: each word stands between `_`, so that KEY is a
# word of API_KEY and of AppKey, but not of KEYBOARD_LAYOUT. SPEC.md has an example of each rule.
# Each alternative of a value's pattern takes time in proportion to the value. So an unbounded
# repeat stops at text that could begin the same alternative again, or a lookbehind guards it.
_NAME_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
SECRET_RULES = (
    # What a bundler publishes: it writes the value into pages that anybody can read, and
    # `undefined` if the variable is missing. A private key was not meant.
    (
        "pair",
        r"""(?xs)
        \A(?:(?:(?:BLITZ|BUN|EXPO|EXTENSION|NEXT|NUXT|PLASMO|SNOWPACK|WAKU|ZUDOKU)_)?PUBLIC
        |(?:NG|POI|PREACT|REACT|TARO|UMI|VUE)_APP|(?:RENDERER_)?VITE|GATSBY|GRIDSOME|RAZZLE
        |REDWOOD_ENV|SANITY_STUDIO|STORYBOOK|WXT)_[^=]*=
        (?!.*(?:PRIVATE\ KEY|UFJJVkFUR|BSSVZBVE|QUklWQVRF))
        """,
        False,
    ),
    (
        "value",
        r"""(?xa)
        ://[^\s/?#@:\[]*:  # a URL with a password;
        (?:[^\s/?#@]+|(?![0-9]{1,5}[/?#,])(?:(?!://)[^\s@"<>])+)@  # host:80/a@b has none
        |(?:https?|\+api)://(?=[^\s/?#@:]*[0-9])[\w-]{20,}:?@  # a token as the user
        |-----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY
        |LS0tLS1CRUdJTi[\w+/]{0,40}(?:UFJJVkFUR|BSSVZBVE|QUklWQVRF)  # the same in base64
        |(?i:(?:\b(?:AccountKey|SharedAccessKey|Password|Pwd)|;(?:AccessKey|Secret))=
        (?!(?-i:\$(?:[{(]|[A-Z_]{2})))[^\s;]{4})  # $NAME is none
        |(?i:-[DP][\w.]*(?:password|passwd|passphrase|secret|token)=  # of a JVM
        (?!(?:true|false|[0-9]+)(?:\s|$)|(?-i:\$(?:[{(]|[A-Z_]{2})))\S)
        |(?i:\bAuthorization[^\w\s]?\s?[:=]\s?[^\w\s]?(?:Basic|Bearer|Token)(?:\s|%20)[^\s$]{4})
        |(?i:\b(?:(?:Private|Job|Deploy|X-Auth|X-Vault)-Token|(?:X-)?Api-Key)\s?[:=]\s?[^\s$]{4})
        |(?i:[?&](?:(?:access_?|auth_?)?token|api_?key|client_secret)=[^\s&$]{8})
        |(?i:"[\w.-]*(?:password|secret|token|auth|access_?key)"\s?:\s?"[^"$]{8})  # in JSON
        |(?i:\b_(?:authToken|auth|password)=[^\s$]{8})  # of npm
        |^[^\s:/@]+:[^\s@]+@(?:tcp|unix)\(  # of Go
        |(?:^|[?&])sig=[\w%+/-]{20}|X-(?:Amz|Goog)-Signature=[0-9a-f]{32}  # signed URLs
        |hooks\.slack\.com/(?:services|workflows|triggers)/T
        |discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]
        |office(?:365)?\.com/webhook(?:b2)?/[0-9a-f]
        |/hooks/(?=[a-z]*[0-9])[a-z0-9]{26}(?![\w-])  # Mattermost, WeCom, Feishu
        |/webhook/send\?key=[\w-]{20}|/bot/v2/hook/[\w-]{20}
        |(?<![A-Za-z0-9_-])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22}  # known tokens
        |gl(?:pat|rt|dt|ft|ptt|cbt|agent|soat|oas)-[\w-]{20}|npm_[A-Za-z0-9]{36}
        |hf_[A-Za-z0-9]{30}|AIza[\w-]{35}|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[\w-]{10}
        |xapp-[\w-]{10}|(?:sk|rk)_(?:live|test)_\w{10}|sk-[\w-]{20}|gsk_[A-Za-z0-9]{40}
        |SG\.[\w-]{16,}\.[\w-]{16}|pypi-[\w-]{16}|dop_v1_[0-9a-f]{32}|hv[brs]\.[\w-]{20}
        |dckr_[po]at_[\w-]{20}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|lin_api_\w{32}|GOCSPX-[\w-]{20}
        |ya29\.[\w-]{20}|AGE-SECRET-KEY-[A-Z0-9-]{20}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}
        |(?:tskey-|nvapi-|figd_|sq0[a-z]{3}-)[\w-]{20}
        |(?:lsv2_[ps][tk]_|xkeysib-|dapi)[0-9a-f]{32}
        |(?:pplx-|xai-|sbp_|ntn_|r8_|PMAK-|NRAK-|ATATT3|sntry[su]_)[A-Za-z0-9]{20}
        |(?:bot)?[0-9]{8,10}:AA[\w-]{33})
        """,
        True,
    ),
    # Bundler: a host's user:password.
    ("pair", r"(?a)\ABUNDLE_(?=\w*__)\w+=(?!-)[^\s:/]+:[^\s:/]+\Z", True),
    # What a setting says, whatever its name is: a password such as `none` passes too, and 123456
    # does not. Then names of paths, all three; of git's settings; of functions; and a key that is
    # the name of a column, a topic or a project.
    (
        "pair",
        r"""(?x)
        \A(?!(?=[^=]*=[0-9]{4})(?i:[^=]*(?:PASS|PW)))
        [^=]*=(?i:(?:[+-]?[0-9]{1,15}(?:\.[0-9]+)?)?
        |true|false|yes|no|on|off|enabled|disabled|none|null|auto|always|never|optional|required
        |basic|bearer|digest|negotiate|ntlm|oauth2|oidc|saml|kerberos|gssapi|ldap|pam|jwt
        |trust|peer|ident|reject|cert|md5|scram-sha-256|rsa|ecdsa|ed25519|hs256|rs256|es256
        |authorization|x-api-key|x-auth-token)\Z
        |\A(?:PWD|OLDPWD|GOOGLE_APPLICATION_CREDENTIALS|GIT_CONFIG_KEY_[0-9]+
        |BASH_FUNC_[^=]+(?:%%|\(\)))=
        |\A(?i:[^=]*(?:PRIMARY|HASH|ROUTING|PROJECT|SPACE|UNIQUE)_?KEYS?=
        (?:[a-z_.-]{1,24}(?:,\ ?|\Z))+)\Z
        """,
        False,
    ),
    # A last word that says where a secret is, who made it, how it is used, how long it is valid or
    # how much there is of it, not what it is.
    (
        "words",
        r"""(?x)
        _(?:FILE|PATH|PATHS|DIR|DIRECTORY|SOCK|SOCKET|NAME|URL|URI|ENDPOINT|HOST|HOSTNAME|DOMAIN
        |DOMAINS|SERVER|PORT|ADDR|ADDRESS|REALM|NAMESPACE|REGION|ARN|PREFIX|ISSUER|AUDIENCE
        |PROVIDER|PROVIDERS|OWNER|USER|USERNAME|ALIAS|SCOPE|SCOPES|CLIENT_ID
        |TYPE|METHOD|FORMAT|ALG|ALGORITHM|SAMESITE|VERSION|EXPIRE|EXPIRES
        |EXPIRES_IN|EXPIRES_AT|EXPIRY|EXPIRATION|TTL|LIFETIME|DURATION|MAX_AGE|TIMEOUT
        |COLUMN|COLUMNS|FIELD|FIELDS|ATTRIBUTE|CLAIM|TABLE|LOCATION|FILENAME|KEY_VAULT|ENV_VAR
        |CREDENTIALS_SOURCE|FINGERPRINT|SELECTOR|CONVERTER|SERIALIZER|DESERIALIZER|SERDE|ENCODER
        |DECODER|ENCODING|CODEC|CLASS|NAME_STRATEGY|GENERATOR|RESOLVER|HANDLER|MAPPER|EXTRACTOR
        |PATTERN|REGEX|REGEXP|POLICY|SEPARATOR|DELIMITER|CURVE|LENGTH|SIZE|BYTES|BITS|COUNT|LIMIT
        |THRESHOLD|INTERVAL|PERIOD|WINDOW|DELAY|COOLDOWN|ROUNDS|ITERATIONS|COST|ATTEMPTS|RETRIES
        |HISTORY|MS|SECONDS|MINUTES|HOURS|DAYS)_\Z
        |\A(?!.*(?:SECRET|TOKEN)).*_KEY_ID_\Z
        |\A(?!.*(?:SECRET|TOKEN|PASS|KEY)).*_(?:BACKENDS?|MANAGER|MODE|ROLE|SOURCE|DRIVER|GUARD
        |MODEL|STORE|HELPER|LEVEL|MECHANISM|SCHEME|FLOW|STRATEGY|PLUGIN|AUTH_DB|AUTH_DATABASE)_\Z
        """,
        False,
    ),
    # Not a program that asks for a password, nor eight other things.
    (
        "words",
        r"""(?x)
        _(?!(?:ALL|ASK|BAND|BY|COM|HIGH|LOW|MULTI|OVER)PASS_)[^_]*(?:PASSWORD|PASSWD|PASSPHRASE
        |PASSCODE|PASS|PWD|PW|SECRET|TOKEN|CREDENTIAL|MNEMONIC|(?:API|ACCESS|AUTH|ENCRYPTION|MASTER
        |PRIVATE|PRIV|SECRET|SIGNING|SSH)KEY)S?_
        """,
        True,
    ),
    # A path, or a URL that holds no secret. No part of a path is as a key, and the path is not one
    # in base64 that begins with `/`: without `._~-` its parts are words as people write them. Of
    # keys of 24 characters one in two billion looks like that.
    (
        "value",
        r"""(?xa)
        \A(?=.*[._~-]|(?:/[A-Z]?[a-z]*\d*)+\Z)[.~]?
        (?:/(?!(?=[^/]{21})(?=[^/]*\d)[^/]*[A-Z])[\w.-]*)+\Z
        |(?i:\Ahttps?://[^\s/?#@]+)(?:/(?!(?=[^/]{16})[^/]*\d)[^\s/?#]*)*\Z
        """,
        False,
    ),
    (
        "words",
        r"""(?xs)
        _(?:AUTH|AUTHORIZATION|BEARER|COOKIES?|CREDS?|JWT|PAT)_
        |_OTLP_(?:[A-Z]+_)?HEADERS_|_(?:BW|OP|FASTLANE)_SESSION_|_(?:NONCE|LOGGED_IN)_SALT_
        |\A(?!.*(?:_PUB_|_PUBLIC_|_PUBLISHABLE_|CAPTCHA_SITE_KEY_))(?:.*_(?!(?:CACHE|CLUSTERING
        |COMPOSITE|DEDUPLICATION|FOREIGN|IDEMPOTENCY|ISSUE|ORDERING|PARTITION|RANGE|ROW|SHARD
        |SORT)_)[^_]*)?_KEYS?_
        """,
        True,
    ),
)
# Variables that only work together are withheld together: git refuses every command if
# GIT_CONFIG_COUNT promises a pair that is missing. Their values may be secret, their names not.
ENV_GROUPS = (
    "GIT_CONFIG_(?:COUNT|(?:KEY|VALUE)_[0-9]+)",
    "AWS_(?:ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)",
)
# A client that lacks one of these connects to the public server instead, without an error message.
_REMOTE_NAME = r"(?i)(?:PROXY|INDEX|INDEX_URL|REGISTRY)\Z"
# What a program says that lacks a password or a token, or was refused for one. Bare words such as
# `denied`, `token` or `401` are none: files, parsers and tests say them too.
_UNAUTHENTICATED = r"""(?xai)
    \bAuthentication\ failed|could\ not\ read\ (?:Username|Password)
    |Permission\ denied\ \(publickey|\bAccess\ denied\ for\ user|\bUnauthorized
    |\b40[13]\b[^\n]{0,40}\bForbidden|(?-i:(?<!file\.)\bAccessDenied|\bNOAUTH\b)
    |\b(?:invalid|expired|missing)[ _-]?(?:(?:or|invalid|expired|missing|access|auth[a-z]*|api
    |bearer|client|refresh|security|session)[ _-]){0,6}(?:token|credentials?|API[ _-]?key)s?\b
    |\bUnable\ to\ locate\ credentials|\bnot\ logged\ in|\bno\ (?:API\ key|password\ supplied)
    |\bno\ (?:valid\ |existing\ )?credentials?\b|\bcredentials\ were\ not\ found|\bUnauthenticated
    |\bauthentication\ (?:is\ )?required|\brequires\ authentication
    |\b(?:access|API|auth)[ _]token\ is\ required
    |\bCould\ not\ resolve\ authentication|\bnot_authed\b|\bWRONGPASS\b|\bLogin\ failed\ for\ user
    |\b(?:E401|ENEEDAUTH|authentication_?error)\b|\b(?:error:|HTTP(?:/[0-9.]+)?)\ 40[13]\b
    |\b40[13]\ (?:Client\ )?Error|\bBad\ credentials|\b(?:auth|az|docker|vercel)\ login\b
    |\bresource\ is\ denied
    """
# These never pass unless the host names them in full. Some force colours if there is no
# terminal. In others the hook of a prompt (direnv, mise) packs its changes to undo them later. They
# may hold secrets that a command could unpack. Without them the hook loads everything again.
_NEVER_PASSED = r"""(?xi)
    (?!(?:[^=]*_)?(?:NO|DISABLED?|WITHOUT)_)(?:[^=]*_)?
    (?:(?:FORCE_(?:COLOU?RS?|TTY|TERMINAL)|CLICOLOR_FORCE|TTY_COMPATIBLE)(?:_[^=]*)?=(?s:.*)
    |(?:COLOU?R(?:S|ED|IZE)?|ANSI|LOG_STYLE)=(?:always|force|1|true|yes|on))
    |(?:DIRENV_(?:BACKUP|DIFF|WATCHES)|__(?:MISE|RTX)_[A-Z_]+|_[A-Z_]+_(?:DIFF|SESSION)
    |__SHADOWENV_DATA|HERMIT_ENV_OPS)=(?s:.*)
    """
# A helper that answers git by itself, and opens no dialog.
_OWN_ASKPASS = (
    r"(?s)GIT_ASKPASS=(?!(?:.*/)?(?:[^/]*ssh-askpass[^/]*|ksshaskpass|git-gui--askpass)\Z).+"
)
# What a frozen program's loader sets for itself, and where it keeps what was set before:
# pyinstaller.org, "LD_LIBRARY_PATH / LIBPATH considerations".
_OF_FROZEN = r"""(?x)
    \A(?:(LD_LIBRARY_PATH|DYLD_\w+|LIBPATH)_ORIG
    |LD_LIBRARY_PATH|DYLD_\w+|LIBPATH|_PYI_\w+|_MEIPASS2)\Z
    """


def looks_secret(name: str, value: str) -> bool:
    """True for a variable whose value has a secret's shape, or whose name says that it is secret,
    word by word, if the value is no plain setting.

    >>> looks_secret("MY_API_KEY", "x"), looks_secret("URL", "db://me:pw@host/")
    (True, True)
    >>> looks_secret("KEYBOARD_LAYOUT", "us"), looks_secret("MAX_TOKENS", "4096")
    (False, False)
    """
    own = name.removeprefix("PW_")  # Playwright
    words = "_".join(("", *own.split("_"), *re.findall(_NAME_WORD, own), ""))
    seen = {"value": value, "pair": name + "=" + value, "words": words.upper()}
    for where, pattern, is_secret in SECRET_RULES:
        if re.search(pattern, seen[where]):
            return is_secret
    return False


def own_environment(environ: Env) -> Env:
    """The environment; that of a frozen program as it was before its loader changed it."""
    if not hasattr(sys, "frozen"):
        return environ
    env = {re.sub(_OF_FROZEN, r"\1", name): value for name, value in environ.items()}
    env.pop("", None)
    return env


def scrub_env(
    environ: Env, keep: Sequence[str] = (), drop: Sequence[str] = ()
) -> tuple[Env, Withheld]:
    """The environment without secrets, forced colours and what would switch the shell itself, with
    the non-interactive defaults over what is there; and the withheld names.

    `keep` and `drop` are names, or globs of names: of variables that pass although they look
    secret, and of those that are withheld whatever they look like. A name in `keep`, other than a
    glob, passes even if there is a default for it, or it forces colours. A group of which one
    variable is withheld is withheld whole."""
    kept, dropped = (
        {name for glob in globs for name in fnmatch.filter(environ, glob)}
        for globs in (keep, drop)
    )
    secret = {name for name, value in environ.items() if looks_secret(name, value)}
    withheld = secret - kept - DROPPED_NAMES | dropped
    for pattern in ENV_GROUPS:
        group = {name for name in environ if re.fullmatch(pattern, name)}
        if group & withheld:
            withheld |= group
    env = dict(NON_INTERACTIVE)
    for name, value in environ.items():
        pair = name + "=" + value
        passes = (
            re.fullmatch(_OWN_ASKPASS, pair)
            if name in NON_INTERACTIVE
            else not re.fullmatch(_NEVER_PASSED, pair)
        )
        if name not in DROPPED_NAMES | withheld and (name in keep or passes):
            env[name] = value
    if not any(env.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        env["LANG"] = "C.UTF-8"
    return env, {name: name not in dropped for name in sorted(withheld)}


NAMES_TOLD = 20  # withheld variables that one note names


def withheld_notes(untold: Withheld, passed: Container[bytes], outcome: Outcome) -> list[str]:
    """Returns the notes on withheld variables for this answer, and removes the names from `untold`,
    at most NAMES_TOLD. A name is told if it is a proxy or a package index, or if the command or the
    shown output of a failed command holds it. If that output speaks of authentication, every name
    is told. `passed` holds the names that the command had."""
    code = outcome.report.exit_code
    output = outcome.stdout.text + "\n" + outcome.stderr.text if code else ""
    words = set(re.findall(r"\w+", outcome.command + "\n" + output))
    tells_all = re.search(_UNAUTHENTICATED, output)
    told = [
        name
        for name in tuple(untold)
        # Under such a name the command has the tool's default, not the host's value.
        if (name in NON_INTERACTIVE or fsencode(name) not in passed)
        and (tells_all or name in words or re.search(_REMOTE_NAME, name))
    ]
    notes: dict[str, list[str]] = {}
    for name in told[:NAMES_TOLD]:
        with suppress(KeyError):  # another thread has told the name meanwhile
            note = (
                "not passed to commands, because it looks secret: "
                if untold.pop(name)
                else "not passed to commands: "
            )
            notes.setdefault(note, []).append(shorten(name))
    return [note + ", ".join(names) for note, names in notes.items()]


def check_env(environ: Env, what: str = "env") -> None:
    """Raises ValueError for what no environment can hold. No value is shown: it may be secret."""
    require(isinstance(environ, Mapping), what, "a mapping of names to values", type(environ))
    for name, value in environ.items():
        is_name = isinstance(name, str) and re.fullmatch("[^=\0]+", name)
        require(is_name, what, "names without '=' and NUL", name)
        is_value = isinstance(value, str) and "\0" not in value
        require(is_value, "%s[%r]" % (what, name), "a string without NUL", type(value))


def tool_env(
    environ: Env,
    base: Env | None,
    added: Env,
    keep_env: str | Sequence[str],
    drop_env: str | Sequence[str],
    has_prefix: bool,
) -> tuple[Env, Withheld]:
    """Returns the environment of a tool's commands and the withheld names. It is `environ`
    scrubbed, or `base` with the defaults that it lacks. `added` goes on top and is never withheld.
    Behind a prefix BASH_ENV is dropped, because its file could read the command's text from stdin.
    Raises ValueError."""
    keep = check_strings(keep_env, "keep_env", *NAMES)
    drop = check_strings(drop_env, "drop_env", *NAMES)
    check_env(added)
    if base is None:
        names = (*drop, "BASH_ENV") if has_prefix else drop
        env, withheld = scrub_env(own_environment(environ), keep, names)
    else:
        require(not keep + drop, "base_env", "neither keep_env nor drop_env", keep + drop)
        check_env(base, "base_env")
        env, withheld = {**NON_INTERACTIVE, **base}, {}
    return {**env, **added}, {
        name: is_secret for name, is_secret in withheld.items() if name not in added
    }


# A line of `export -p`, which bash would read again. bash 5.2 writes what cannot be printed as
# $'...', where \E is ESC. bash 5.1 writes it as it is, and older versions write \1 before a \1 and
# a \177. Arrays and variables without a value are in no environment. No line within a value looks
# like this, because bash masks the quotes there.
_EXPORTED = rb"""(?xms)
    ^\w+\ (?:-\w+\ )?([^\s=]+)=
    (?:"([^"\\]*(?:\\.[^"\\]*)*)"|\$'([^'\\]*(?:\\.[^'\\]*)*)')$
    """


def _unquoted(line: re.Match[bytes]) -> bytes:
    """The value in a line of `export -p`."""
    if line[3] is None:
        return re.sub(rb"(?s)\\(.)|\x01([\x01\x7f])", rb"\1\2", line[2])
    return codecs.escape_decode(re.sub(rb"(?<!\\)((?:\\\\)*)\\E", rb"\1\\033", line[3]))[0]


VARIABLE_BYTES = 128 * KIB  # of one variable, its name and a NUL included (execve(2))


def next_start(
    carried: bytes, first: Mapping[bytes, bytes]
) -> tuple[Start, list[bytes]] | None:
    """The start of the next command, from what the shell of the last one wrote: the lines of
    `export -p`, NUL, the directory, a newline, NUL; and the names of the variables that are
    omitted, because execve(2) takes none of that size. None if the shell did not write all of
    it. The first environment decides on NOT_CARRIED, and on names that are no identifiers: bash
    passes these on, and does not list them."""
    lines, *rest = carried.split(b"\0")
    if len(rest) != 2 or rest[1]:
        return None
    exported = re.finditer(_EXPORTED, lines)
    env = {line[1]: _unquoted(line) for line in exported if line[1] not in NOT_CARRIED}
    for name, value in first.items():
        if name in NOT_CARRIED or not re.fullmatch(rb"[A-Za-z_]\w*", name):
            env[name] = value
    # The size of the string, with `=` and NUL.
    omitted = [name for name in env if len(name) + len(env[name]) + 2 > VARIABLE_BYTES]
    for name in omitted:
        del env[name]
    return Start(rest[0][:-1], env), omitted


class ToolConfig(NamedTuple):
    """What a tool was made with; the same for all its calls."""

    profile: Profile
    first: Start  # of the first command, and of each one if nothing is carried over
    shell: Sequence[bytes]
    folder: str  # of output files and records
    lists_folder: bool  # else only the jobs that this tool has started
    carries: bool
    ephemeral: bool
    deny: Sequence[str]
    confirm: Confirm | None
    max_jobs: int
    on_job_end: OnEnd | None


def encode_env(env: Env) -> dict[bytes, bytes]:
    """An environment as execve(2) takes it."""
    return {fsencode(name): fsencode(value) for name, value in env.items()}


WHOLE_BYTES = 4 * MIB  # of each stream: what `run` gives a program, whatever the profile cuts
EARLY_END_S = 0.3  # a background command that ends by then is answered as ended


def make_plan(config: ToolConfig, request: Request, wants_live: bool, start: Start) -> Plan:
    """What a supervisor is asked for."""
    profile, background = config.profile, request.mode == "background"
    own, has_cwd = encode_env(request.env or {}), request.cwd is not None
    # Without it a server in Python writes its first line after 8 KiB. Not for other commands: the
    # lines of four processes that print at once are torn (530 of 1,200), and in a pipe to `head -3`
    # a program ends with BrokenPipeError (23 runs of 60).
    default = {b"PYTHONUNBUFFERED": b"1"} if background else {}
    env = start.env
    if own or default:
        env = {**default, **env, **own}
    # marshal takes no subclass of float, such as numpy's float64.
    timeout_s = float(request.timeout_s or profile.timeouts_s[request.mode])
    idle_s, total_s = float(profile.drain_idle_s), float(profile.drain_total_s)
    answer_after_s, limit_s = inf, timeout_s
    if background:  # the output of late writers is in the file
        answer_after_s = EARLY_END_S
        idle_s, total_s = min(EXITING_S, idle_s), min(2 * EXITING_S, total_s)
    elif profile.on_timeout is OnTimeout.KEEP:
        kept_s = float(profile.timeouts_s.get("background", BACKGROUND_TIMEOUT_S))
        answer_after_s, limit_s = timeout_s, max(timeout_s, kept_s)
    head_bytes, tail_bytes, counts_lines = size_buffers(profile)
    if request.whole and not background:
        head_bytes = max(head_bytes, WHOLE_BYTES - tail_bytes)
    return Plan(
        text=request.command.encode("utf-8", "surrogateescape"),
        shell=config.shell,
        # Not along the PATH that a command has exported: no shell would start to correct it.
        path=own.get(b"PATH", config.first.env.get(b"PATH", b"/bin:/usr/bin")),
        cwd=fsencode(request.cwd or start.cwd),
        cwd_required=has_cwd,
        env=env,
        carries=config.carries and env is start.env and not has_cwd,
        limit_s=limit_s,
        answer_after_s=answer_after_s,
        grace_s=float(profile.grace_s),
        drain_idle_s=idle_s,
        drain_total_s=total_s,
        streams=profile.streams.value,
        background=background,
        ephemeral=config.ephemeral,
        wants_live=wants_live,
        pipe_bytes=0,
        saves=profile.saves,
        limit_bytes=profile.max_output_bytes,
        buffer_sizes=(head_bytes, tail_bytes, counts_lines),
        folder=fsencode(config.folder),
        file_prefix=profile.file_prefix,
    )


class Carry:
    """What is carried over from one command to the next. A restart makes a new one: so a call from
    before the restart has no effect on the calls behind it."""

    def __init__(self, first: Start) -> None:
        self._first = first
        self._last = first  # the start of the last command that ran
        self.next = first  # of the next one; perhaps no shell can start with it
        self._was_taken = True  # what the last command ended with was taken over

    def take_over(self, report: Report, start: Start) -> list[str]:
        """Takes over what a command that began with `start` has ended with; returns the notes of
        its answer on that."""
        was_run = report.duration_s or report.error == "status_unknown"
        if not was_run and report.reason != TOO_LARGE:
            return []
        if report.error == "spawn_failed":
            # A shell has ended without reading its text, or could not begin for its environment.
            if start is self.next is not self._first:
                self.next, self._last = self._last, self._first
                return [
                    "with what the last command had exported no shell starts: the next command "
                    "starts in the directory and with the variables from before it"
                ]
            return []
        taken = next_start(report.carried, self._first.env)
        was_taken, self._was_taken = self._was_taken, taken is not None
        if taken is None:
            note = "this command's working directory and exported variables were not kept"
            return [note] if was_taken else []
        self.next, omitted = taken
        self._last = start
        names = join_names(omitted)
        return ["too large to carry over to the next command: " + names] if names else []


def parse_record(value: object) -> Report | None:
    """What the JSON of a record says; None if a field is missing or not of its type: another
    program may have written it."""
    if not isinstance(value, dict):
        return None
    fields: Fields = {name: value.get(name) for name in RECORD_FIELDS}
    if not all(isinstance(fields[name], kind) for name, kind in RECORD_FIELDS.items()):
        return None
    if [type(number) for number in value["supervisor"]] != [int, int]:
        return None
    return Report(**fields)


# In the words of a prefix: another shell as the last program, bash with an option and no bash
# behind it, or no program at all. A word that begins with `-` is no program.
_NO_BASH = r"""(?xs)
    (?:^|\s)(?:(?:[^-\s]\S*)?/)?
    (?:(?:sh|dash|ash|zsh|fish|ksh|csh|tcsh|busybox|pwsh|cmd)(?:\s+-\S*)*
    |bash\s(?:.*\s)?-.*(?<!\sbash)(?<!/bash))\s*$
    |^(?:\s*-\S*)*\s*$
    """


def check_shell(given: str | Sequence[str]) -> list[bytes]:
    """The argv prefix of the shell. Raises ValueError if no command could run behind it: another
    shell has other options, and bash takes no options behind those of its own. Any other program
    may start bash."""
    words = check_strings(given, "shell")
    wanted = (
        "words that end in bash or a program that starts it, without options behind bash; "
        "`nice bash` is two words"
    )
    first = words[0] if words else ""
    is_program = "/" in first or " " not in first  # none is called `nice bash`
    right = is_program and not re.search(_NO_BASH, " ".join(words))
    require(right, "shell", wanted, given)
    return list(map(fsencode, words))


# fmt: off
LARGE_PIPES = 16               # commands of this process, with a pipe of LARGE_PIPE_BYTES
LARGE_PIPE_BYTES = MIB         # the most that fcntl(2) gives an ordinary user
MEDIUM_PIPES = 48              # the commands after these, with a pipe of MEDIUM_PIPE_BYTES
MEDIUM_PIPE_BYTES = 256 * KIB
# fmt: on


def share_of_pipes(count: int, background: bool) -> int:
    """Returns the pipe size of one command of `count`; 0 keeps the kernel's. A user has 64 MiB of
    pipes (pipe(7)). These sizes stay below that with two pipes a command. Beyond it a new pipe of
    any program has 8 KiB."""
    if count <= LARGE_PIPES and not background:
        return LARGE_PIPE_BYTES
    return MEDIUM_PIPE_BYTES if count <= LARGE_PIPES + MEDIUM_PIPES else 0


def failed(error: str, reason: str) -> Outcome:
    """The answer if the tool could not run a command, or lost it."""
    return Outcome(Report("failed", error=error, reason=reason))


def _lost(report: Report) -> Report:
    """The report of a job whose supervisor was killed."""
    return report._replace(
        status="lost",
        error="lost",
        reason="the supervisor of the job was killed: its exit status is unknown",
    )


def name_jobs(jobs: Iterable[Job]) -> str:
    """The pids and commands of jobs, as a note lists them."""
    return ", ".join("%d %s" % (job.pid, quote(job.command)) for job in jobs)


def find_line(lines: Iterable[bytes], wanted: re.Pattern[str]) -> str | None:
    """The first line that has what is wanted, as a terminal shows it."""
    for line in lines:
        for text in render(decode(line)).split("\n"):
            if wanted.search(text) and text:
                return text
    return None


# ---- 7 Host side -------------------------------------------------------------------------------
# The host holds sockets and nothing else of a command: no pipe, no child, and no thread for a
# foreground call. The caller's own thread sends a request to a supervisor and waits for its
# messages. A caller that leaves closes its socket, or shuts it for writing; a host that dies has
# its sockets closed by the kernel. Either ends what is attached, and nothing in the host has to run
# for that. A forked child would hold copies of the sockets, and keep their other ends from reading
# end of file: so a child closes its copies (os.register_at_fork). A socket is made and listed under
# a lock that a fork takes too. Else a fork in another thread could copy a socket that is in no list
# yet.
#
# The life of a command runs in two processes: the host has an Exchange, which has a state, and the
# supervisor a Life (section 2), which has a phase. A message takes its time, so the two may differ
# by one message. What is sent in which state, and in which phases of the life:
#
# | exchange | what it is                  | phases of the life  | host sends  | supervisor sends |
# | new      | nothing was asked for       | none                | -           | -                |
# | asking   | a supervisor is looked for, | none, watch         | run         | hello            |
# |          | or has part of the request  |                     |             |                  |
# | sent     | the caller waits for the    | watch, drain, end,  | stop, leave | hello, live,     |
# |          | answer                      | report, stay, over  |             | answer, failed   |
# | job      | a monitor thread waits for  | watch, drain, end,  | stop, leave | answer           |
# |          | the end                     | report, stay, over  |             |                  |
# | held     | nobody waits, but `close`   | watch, drain, end,  | stop        | answer           |
# |          | does                        | report, stay, over  |             |                  |
# | over     | the channel is idle, closed | none, end, stay,    | -           | -                |
# |          |                             | over                |             |                  |
#
# | exchange | next state: because                                                              |
# | new      | asking: the call begins. over: it was given up before                            |
# | asking   | sent: the whole request was sent. asking: another supervisor is asked. over: a   |
# |          | stop has come, or no supervisor can be had                                       |
# | sent     | asking: the request was not read. job: the answer was `running`. held: of an     |
# |          | ephemeral tool, leftovers live. over: the command has ended, or it hangs         |
# | job      | held: no thread could be started, or as from `sent`. over: it has ended          |
# | held     | over: the supervisor has closed the channel, or `close` was called               |
#
# | who reads the end of file | in                         | what follows                        |
# | the supervisor            | watch to report, attached  | TERM, 0.5 s, KILL; nobody is told   |
# |                           | watch, detached            | the job goes on; its record tells   |
# |                           | stay, attached             | TERM, 0.5 s, KILL; then it closes   |
# |                           | stay, detached             | leftovers go on                     |
# |                           | no command                 | the supervisor ends                 |
# | the host                  | asking                     | another supervisor is asked         |
# |                           | sent                       | `status_unknown`                    |
# |                           | job                        | the job is `lost`                   |
# |                           | held                       | nothing lives any more              |

# fmt: off
SEARCH_S = 1.0          # how much longer than its time Job.wait may search for a line
HOST_SLACK_S = 2.0      # by which a supervisor may answer late; then the host gives it up
ACCEPT_S = 5.0          # a fork server that does not start by then is replaced, as is a supervisor
                        # that does not take its request
MAX_REQUESTS = 8        # supervisors that are asked: an idle one may end just before
MAX_IDLE = 16           # idle supervisors that the host holds on to; with 4, 16 threads run 0.6
                        # times as many commands a second
RECORD_CAP_BYTES = MIB  # a larger file is no record
# fmt: on

# What the interpreter of a fork server is told. The first process ends at once, so that the host
# has no child; the second one runs the code of this file that is loaded here, which an edited file,
# a zip or `python3 -` does not change. An interpreter of another version could not read that code,
# and ends. The second process replies once it has read all of it: the socket then has room for a
# request, which does not wait.
LOADER = """\
import os, sys
if sys.argv[2] != str(sys.hexversion):
    os._exit(1)
if os.fork():
    os._exit(0)
os.setsid()
del sys.path[0]
import marshal
control = int(sys.argv[1])
left = int.from_bytes(os.read(control, 4), "little")
code = b""
while len(code) < left:
    code += os.read(control, left - len(code)) or os._exit(1)
os.write(control, b"1")
exec(marshal.loads(code), {"__name__": "bash_tool", "fork_server_control": control})
"""
_CODE = sys._getframe().f_code  # of this file, as it was loaded


def _python() -> str | None:
    """The interpreter that a fork server may run in. If a program embeds Python or is frozen,
    `sys.executable` is that program, which would start a second time."""
    python = sys.executable
    is_frozen = hasattr(sys, "frozen") or "__compiled__" in globals()
    is_named = os.path.basename(python or "").startswith("python")
    return python if is_named and not is_frozen else None


def _start_python(python: str, ours: socket.socket, theirs: socket.socket) -> bool:
    """Starts a fork server; False if the interpreter does not run. The name as argv[0] keeps `pkill
    python` off; an interpreter that is named so looks for its library in the wrong place, unless
    PYTHONHOME says where it is."""
    env = {k: v for k, v in os.environ.items() if k.startswith(("LD_LIBRARY_", "DYLD_"))}
    env["PYTHONHOME"] = "%s:%s" % (sys.base_prefix, sys.base_exec_prefix)
    control = theirs.fileno()
    with (
        theirs,
        suppress(OSError),
        subprocess.Popen(
            [OWN_NAME, "-sS", "-X", "utf8", "-c", LOADER, str(control), str(sys.hexversion)],
            executable=python,
            env=env,
            cwd="/",
            pass_fds=(control,),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as first,
    ):
        theirs.close()  # else `ours` would not read end of file when the fork server ends
        try:
            ours.settimeout(ACCEPT_S)
            ours.sendall(pack(_CODE))
            return bool(ours.recv(1))
        finally:
            first.kill()  # it had only to fork the fork server, and has done so or failed
    return False


def _fork_directly(control: int) -> None:
    """Forks the fork server from this process: if no interpreter can be started, and for the
    command line, which has one thread. Raises OSError."""
    null = os.open(os.devnull, os.O_RDWR)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                for fd in range(3):
                    os.dup2(null, fd)
                for fd in map(int, os.listdir("/dev/fd")):
                    if fd > 2 and fd != control:
                        with suppress(OSError):  # os.listdir has closed its own by now
                            os.close(fd)
                serve_forks(control)
        finally:
            os._exit(0)
    os.close(null)
    with suppress(ChildProcessError):  # a host that ignores SIGCHLD
        os.waitpid(pid, 0)


def _above_standard(end: socket.socket) -> socket.socket:
    """The socket with a descriptor above 2: in a host without standard streams a new descriptor may
    be number 2, into which the host writes its messages."""
    with end:
        return socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))


class ChannelLost(Exception):
    """The other end of a channel is closed."""


class NotRun(ChannelLost):
    """No supervisor read the request, or none could be had, so no command ran. `args` may say
    why."""


def _has_ended(end: socket.socket) -> bool:
    """Returns True if the other end is closed. Call it only while no message is on its way. The
    host asks before it sends: a send to a closed end raises SIGPIPE, whose default action would end
    the host."""
    try:
        return not end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _poll_until(until: float) -> Iterator[None]:
    """Yields once for each look at something that nothing announces, such as a file of another
    process; the last look is at `until`. Between two looks the thread sleeps for as long as has
    passed already, at most 0.05 s."""
    begun = monotonic()
    yield
    while (now := monotonic()) < until:
        time.sleep(min(max(now - begun, 0.0005), 0.05, until - now))
        yield


class HostEnd(Channel):
    """The host's end of the socket to one supervisor."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__(end)
        self.supervisor_pid = 0  # once its first message has come
        self.stops_sent = 0  # the count that was sent last
        self._messages = deque[tuple[Any, ...]]()

    def wait(self, until: float) -> bool:
        """True as soon as the socket can be read; False after this moment.
        `select.poll` needs no descriptor, and is looked up now: gevent replaces it, also after this
        module was imported. Raises ChannelLost."""
        fd = self.socket.fileno()
        if fd < 0:  # closed by another thread
            raise ChannelLost
        wait_s = min(max(0.0, until - monotonic()), 1e6)
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(1000 * wait_s))

    def send_plan(self, plan: Plan, fds: Sequence[int]) -> None:
        """Sends the whole request. Raises OSError if it was not read in time."""
        request = pack(("run", *plan))
        self.socket.settimeout(ACCEPT_S)
        sent = socket.send_fds(self.socket, [request], fds) if fds else 0
        self.socket.sendall(request[sent:])
        self.socket.setblocking(False)

    def send_stops(self, count: int, behind: bytes = b"") -> None:
        """Sends how often a stop was asked for, from any thread, and what is to stand behind it: in
        one piece, or not at all."""
        self.stops_sent = count
        with suppress(OSError):
            self.socket.send(pack(("stop", count)) + behind)

    def half_close(self) -> None:
        """Says that the host has left; what comes can still be read."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def next_message(self, until: float) -> tuple[Any, ...] | None:
        """The next message; None if none has come by `until`. Raises NotRun if the supervisor's end
        was closed with something unread (Linux then resets the connection) or before its `hello`,
        and ChannelLost if the channel has ended in another way."""
        while not self._messages:
            if not self.wait(until):
                return None
            try:
                messages = self.receive()
            except ConnectionResetError:
                raise NotRun
            except OSError:
                raise ChannelLost
            if messages is None:
                raise ChannelLost if self.supervisor_pid else NotRun
            self._messages.extend(messages)
        return self._messages.popleft()


class SupervisorPool:
    """The fork server and the idle supervisors of this process, for its present user and groups and
    for one interpreter: another one takes another fork server. A forked child has none of them: it
    begins with a pool of its own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may run a command in its thread
        self._ids: object = None
        self._control: socket.socket | None = None  # the host's end of the fork server's socket
        self._idle: list[HostEnd] = []
        self.sockets = weakref.WeakSet[socket.socket]()
        self.exchanges: set[Exchange] = set()  # that are neither new nor over
        # Jobs whose end a thread of this process receives, or has received.
        self.monitored: weakref.WeakSet[Job] = weakref.WeakSet()

    def _socketpair(self) -> tuple[socket.socket, socket.socket]:
        ours, theirs = map(_above_standard, socket.socketpair())
        os.set_blocking(theirs.fileno(), True)  # those of gevent are not, whatever they say
        self.sockets.add(ours)
        return ours, theirs

    def borrow(self, python: str | None, stops_wanted: Callable[[], int]) -> HostEnd:
        """A channel to an idle supervisor, or to a new one. Waits while the socket of the fork
        server is full (278 requests), but not under the lock, which a fork takes. `python`: runs
        the fork server; None: that is a fork of this process. Raises OSError, NotRun."""
        for _ in _poll_until(monotonic() + ACCEPT_S):
            with self.lock:
                if stops_wanted():
                    break
                user = os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()
                ids = python, user
                while self._idle:  # after a change all of these are closed
                    channel = self._idle.pop()  # the latest first, so that the others end
                    if ids == self._ids and not _has_ended(channel.socket):
                        return channel
                    channel.socket.close()
                if ids != self._ids or self._control is None or _has_ended(self._control):
                    self.forget_fork_server()
                    self._control = self._start_server(python)
                    # gevent's recv waits even with MSG_DONTWAIT.
                    self._control.setblocking(False)
                self._ids = ids
                ours, theirs = self._socketpair()
                # The fork server does not reply: the supervisor will say `hello`.
                with theirs, suppress(BlockingIOError):
                    socket.send_fds(self._control, [b"\0"], [theirs.fileno()])
                    return HostEnd(ours)
                ours.close()
        raise NotRun

    def _start_server(self, interpreter: str | None) -> socket.socket:
        """Starts a fork server: with an interpreter, or after two failures of that as a fork of
        this process. An accident may have ended the first try. After a setuid(2) of the host the
        interpreter may be out of reach. Raises OSError."""
        for python in [interpreter] * 2 if interpreter else []:
            ours, theirs = self._socketpair()
            if _start_python(python, ours, theirs):
                return ours
        ours, theirs = self._socketpair()
        with theirs:
            _fork_directly(theirs.fileno())
        return ours

    def forget_fork_server(self) -> None:
        """Closes the socket of a fork server that has ended or brings no supervisors. The next call
        starts another one; this one ends with its last supervisor."""
        with self.lock:
            if self._control is not None:
                self._control.close()
                self._control = None

    def return_idle(self, channel: HostEnd) -> None:
        """The supervisor is idle again."""
        if len(self._idle) < MAX_IDLE:
            self._idle.append(channel)
        else:
            channel.socket.close()


_pool = SupervisorPool()


def _begin_anew() -> None:
    """In a forked child, which has no thread but this one: closes the copies of the parent's
    sockets. Jobs have no monitor here, so their records say how they stand."""
    global _pool
    old, _pool = _pool, SupervisorPool()
    for end in old.sockets:
        end.close()


os.register_at_fork(
    before=lambda: _pool.lock.acquire(),
    after_in_parent=lambda: _pool.lock.release(),
    after_in_child=_begin_anew,
)


# -- One command, as its caller sees it
#
# Exchange sends the request and waits for the answer; Cancel, of any thread, asks it to stop.


class Cancel(NotCopied):
    """A request to stop. One token may be given to many calls.

    `cancel()` may be called from any thread and from a signal handler: it takes no lock. Once asks
    the command to end, and KILL follows after the grace; once more means KILL now. A token that was
    used stays used.
    `count` is how often a stop was asked for; of two requests at the very same moment one may not
    be counted.
    """

    _withdrawn = False  # no answer is wanted: of a call that a client of MCP has withdrawn

    def __init__(self) -> None:
        self.count = 0

    def _exchanges(self) -> list[Exchange]:
        """The commands that it ends; none of the parent in a forked child."""
        return [exchange for exchange in list(_pool.exchanges) if self in exchange.tokens()]

    def cancel(self) -> None:
        """Asks every call that was given this token to stop."""
        self.count += 1
        for exchange in self._exchanges():
            exchange.send_stops()


class Exchange:
    """One command as its host sees it: a request, and the messages of its supervisor. The caller's
    thread waits for the answer, the monitor thread of a job for the end. A token asks for a stop
    from any thread: that of the call, and that of the tool's `close`. The table at the head of this
    section says what each state allows."""

    state: State = "new"
    _channel: HostEnd | None = None  # to a supervisor that has the request, or a part of it
    _deadline = inf  # the moment after which no message is expected
    _path = ""  # of the output file, which an answer will name

    def __init__(self, plan: Plan, python: str | None, closing: Cancel, cancel: Cancel) -> None:
        self._plan, self._python = plan, python
        self._closing, self._cancel = closing, cancel
        # The longest that the caller waits, but for the ending of the command.
        self._waits_s = min(plan.answer_after_s, plan.limit_s)
        # The longest that the ending of a command takes.
        self._ending_s = HOST_SLACK_S + max(plan.grace_s + UNKILLABLE_S, plan.drain_total_s)
        # The thread of the call, until a monitor thread has begun.
        self._caller: int | None = threading.get_ident()

    def _move(self, state: State, is_idle: bool = False) -> None:
        """The only place that changes the state, closes the channel or returns it to the idle ones,
        and enters or leaves the list of exchanges. A channel on which a stop may have been sent is
        not used again: the supervisor could take the stop for one of the next command."""
        channel, was_stopped = self._channel, self._count_stops()
        self.state = state
        if state in ("asking", "over"):
            self._channel = None
            if channel is not None and is_idle and not was_stopped and not channel.stops_sent:
                _pool.return_idle(channel)
            elif channel is not None:
                channel.socket.close()
        if state == "over":
            _pool.exchanges.discard(self)
        else:
            _pool.exchanges.add(self)

    def tokens(self) -> Sequence[Cancel]:
        """Those that may stop the command. After the answer that is `close` alone, and only for
        what ends with this process."""
        if self.state in ("job", "held"):
            is_attached = self._plan.ephemeral or not self._plan.background
            return [self._closing] if is_attached else []
        return self._closing, self._cancel

    def _count_stops(self) -> int:
        return sum(token.count for token in self.tokens())

    def send_stops(self) -> None:
        """Sends how often a stop was asked for, from any thread. Two threads may send the same
        count: it is a count, so that the supervisor does not take it for two stops."""
        channel = self._channel
        wanted = self._count_stops()
        if channel is not None and self.state != "asking" and channel.stops_sent < wanted:
            self._deadline = min(self._deadline, monotonic() + self._ending_s)
            if self._plan.ephemeral and self.state != "sent":
                channel.half_close()
            else:
                channel.send_stops(wanted)

    def perform(self, on_live: OnLive | None, stdin: bytes | None) -> Outcome:
        """Brings the request to a supervisor, and waits for the answer: how the command ended, or
        that it goes on. As long as nothing was run, another supervisor is asked. If this raises,
        the caller must call `abandon`."""
        outcome = self._try_supervisors(on_live, stdin)
        self._settle(outcome.report)
        return outcome

    def _try_supervisors(self, on_live: OnLive | None, stdin: bytes | None) -> Outcome:
        why = ""
        for _ in range(MAX_REQUESTS):
            self._move("asking")
            if self._count_stops():
                return Outcome(Report("cancelled"))
            try:
                self._request(stdin)
                return self._receive(on_live)
            except SpawnError as problem:
                return failed(*problem.args)
            except ChannelLost as problem:
                channel = self._channel
                why = str(problem) or "none answered"
                # ECONNRESET may also mean that the supervisor had read the request, but not the
                # stop that followed: then the command may have run.
                if not isinstance(problem, NotRun) or (channel and channel.stops_sent):
                    return failed(
                        "status_unknown",
                        "the supervisor of the command was killed: "
                        "how the command ended is unknown",
                    )
            if channel is not None and not channel.supervisor_pid:
                _pool.forget_fork_server()
        return failed("spawn_failed", "no supervisor could be started: " + why)

    def _request(self, stdin: bytes | None) -> None:
        """Sends the request. Raises NotRun if it was not read, and if there is no
        supervisor; SpawnError."""
        fds = [] if stdin is None else [data_file("the input of the command", stdin)]
        try:
            self._channel = _pool.borrow(self._python, self._count_stops)
            pipe_bytes = share_of_pipes(len(_pool.exchanges), self._plan.background)
            self._channel.send_plan(self._plan._replace(pipe_bytes=pipe_bytes), fds)
        except (OSError, RuntimeError) as problem:  # the latter while the interpreter ends
            raise NotRun(_reason(problem, True))
        finally:
            _close(*fds)
        self._move("sent")
        # By then the command has ended. A supervisor that has not answered hangs, for instance in a
        # system call on a network file system whose server is gone.
        self._deadline = monotonic() + self._waits_s + self._ending_s
        self.send_stops()

    def _receive(self, on_live: OnLive | None = None) -> Outcome:
        """Reads messages up to the next answer: that the command goes on, or how it ended. Raises
        ChannelLost."""
        live = LiveText(on_live)
        while (channel := self._channel) is not None:
            until = self._deadline
            if until < inf:  # a stop from another thread may bring this moment forward
                until = min(until, monotonic() + CHECK_EVERY_S)
            message = channel.next_message(until)
            if message is None:
                if monotonic() >= self._deadline:
                    return self._hung_outcome(channel)
                continue
            kind, *parts = message
            if kind == "hello":
                channel.supervisor_pid = parts[0]
            elif kind == "live":
                live.take(*parts)
            elif kind == "failed":
                return failed(*parts)
            else:
                outcome = self._read_answer(*parts)
                live.take(0, (), final=True)
                return outcome
        raise ChannelLost  # the command was given up in another thread

    def _read_answer(self, fields: Sequence[Any], streams: Sequence[Any]) -> Outcome:
        """The outcome of an answer; `limit_s` of one that goes on is the time that was waited."""
        report = Report(*fields)
        self._path = os.fsdecode(report.path)
        kept = False
        if report.status == "running":
            report = report._replace(limit_s=self._waits_s)
            kept = not self._plan.background
        raw = [Captured(*stream) for stream in streams]
        return Outcome(report, report.notes, self._path or None, raw, kept=kept)

    def _hung_outcome(self, channel: HostEnd) -> Outcome:
        """The outcome if a supervisor hangs. If it goes on later, it reads end of file on its
        channel and ends the command. Raises NotRun for a supervisor that has never said a word."""
        if not channel.supervisor_pid:
            raise NotRun
        note = (
            "the supervisor of the command (pid %d) does not answer: "
            "what the command started may still run" % channel.supervisor_pid
        )
        if self._plan.background:
            return failed("spawn_failed", note)
        status: Status = "cancelled" if channel.stops_sent else "timed_out"
        return Outcome(Report(status, limit_s=self._waits_s), (note,))

    def _settle(self, report: Report) -> None:
        """Moves to the state that an answer leads to."""
        was_stopped = self._count_stops()
        if report.status == "running":
            self._move("job")
        elif report.status == "exited" and self._plan.ephemeral and not report.is_over:
            self._move("held")
        else:
            # The memory that a long output took may stay with the process.
            return self._move("over", is_idle=report.is_over and report.total_bytes <= MIB)
        if not was_stopped:  # else a stop has crossed the answer, and its deadline stays
            self._deadline = inf
        self.send_stops()  # such a stop again: of an ephemeral tool by half-closing the channel

    def start_thread(self, monitor: Callable[[], None]) -> bool:
        """Starts the monitor thread of a job: a daemon thread, for which no program waits at its
        exit. False if none can be started."""
        self._caller = None
        try:
            threading.Thread(target=monitor, daemon=True).start()
            return True
        except RuntimeError:  # the job goes on all the same
            self._move("held")
            return False

    @contextmanager
    def await_end(self) -> Iterator[Outcome | None]:
        """Waits for the end of a job, in its monitor thread: None if its supervisor was killed.
        `close` waits until the caller has dealt with it."""
        end = None
        try:
            with suppress(ChannelLost):
                end = self._receive()
            yield end
        finally:
            self._settle(end.report if end else Report("lost"))

    def notice_end(self) -> None:
        """Closes the channel of leftovers that have ended by themselves, once the supervisor has
        closed it."""
        channel = self._channel
        if self.state == "held" and channel is not None and _has_ended(channel.socket):
            self._move("over")

    def wait_until_over(self) -> None:
        """Waits until the command is over, is given up, or goes on by itself. Returns at once in a
        signal handler that has interrupted the thread which waits for the command."""
        if self.state == "held":
            with suppress(ChannelLost):
                self._receive()
            self._move("over")
        for _ in _poll_until(self._deadline + HOST_SLACK_S):
            is_detached = self._closing not in self.tokens()
            if is_detached or self.state == "over" or self._caller == threading.get_ident():
                return

    def abandon(self) -> None:
        """Ends the command after an exception in the caller, or for a withdrawn call. Sends a stop
        and `leave`, and half-closes the channel, which says the same if the request was sent in
        part. Waits until the supervisor closes the channel, when nothing of the command is left.
        Raises a second exception at once. Parses no message, because received bytes may be lost.
        Removes the file that no answer will name."""
        channel = self._channel
        until = monotonic() + self._ending_s
        try:
            if channel is not None:
                if self.state != "asking":
                    # In one piece, so that the supervisor does not report in between.
                    channel.send_stops(1 + channel.stops_sent, pack(("leave",)))
                channel.half_close()
                while channel.wait(until) and channel.socket.recv(READ_BYTES):
                    pass
        except (ChannelLost, OSError):
            pass
        finally:
            self._move("over")
            remove_files(self._path)


# -- Jobs
#
# Job reads the record that the supervisor of a background command writes, in whatever process. In
# the process that started the command a monitor thread receives the end through the Exchange.


def _open_own(path: str) -> io.BufferedReader:
    """A regular file of this user or of root, to be read. Raises OSError for what else stands
    there."""
    info = os.lstat(path)
    if not stat.S_ISREG(info.st_mode) or info.st_uid not in (os.geteuid(), 0):
        raise FileNotFoundError(errno.ENOENT, "not a regular file of this user", path)
    return open(path, "rb")


def read_record(output: str) -> tuple[Report | None, bool | None]:
    """What the record beside an output file says, None if that is no record; and whether the
    lock of the file is free, which the supervisor holds until the job is over. Raises OSError."""
    with _open_own(record_of(output)) as file:
        is_free = _lock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        data = file.read(RECORD_CAP_BYTES)
    try:
        return parse_record(load_json(data)), is_free
    except ValueError:
        return None, is_free


_NOTE = rb"\n\n\[background process .*\n"
# A job that has just ended has its note before its record says where: then this finds the note.
_NOTE_AT_END = _NOTE + rb"?\Z"


class Job(NotCopied):
    """A command that goes on by itself: started in the background, or kept after its timeout.

    `BashTool.job(pid)` and `BashTool.jobs()` give jobs; `Job(output_file)` is the job of that file.
    The state of a job stands in a record beside its output file, so every tool on the same folder,
    in any process, sees the same.

    pid          an int: the process of the shell, and its process group
    command      the text that was asked for, its first 2,000 characters
    output_file  the path of the file that takes the output; once the job has ended, a note in it
                 says how, unless its supervisor was killed
    created      seconds since the epoch

    Raises OSError if no sound record stands beside `output_file`.
    """

    _shown_bytes = 0  # of the output, that answers have shown
    # Of a kept command, once its monitor has received its end.
    _streams: Sequence[Captured] = ()

    def __init__(
        self, output_file: str, grace_s: float = GRACE_S, report: Report | None = None
    ) -> None:
        wanted = "the path of its output file, a str (BashTool.job takes a number)"
        require(isinstance(output_file, str), "Job", wanted, output_file)
        self.output_file = output_file
        self._grace_s = grace_s
        if report is None:
            with suppress(FileNotFoundError):
                report, _ = read_record(output_file)
        if report is None:
            raise FileNotFoundError(errno.ENOENT, "not the output file of a job", output_file)
        self._report = report  # the latest
        self.pid = report.pid or 0
        self.command = report.command
        self.created = report.created

    def _take_end(self, report: Report, streams: Sequence[Captured]) -> None:
        """Takes from the monitor how the job has ended."""
        self._streams = streams
        self._report = report

    def __repr__(self) -> str:
        return "<Job %d %s>" % (self.pid, self.status)

    def _report_now(self) -> Report:
        """How the job stands. Until it has ended its monitor tells, or its record if this process
        has no monitor for it. A job whose record says `running` and is not locked has lost its
        supervisor: the record was read after the lock was tried."""
        if self._report.status == "running" and self not in _pool.monitored:
            report, is_supervised = self._read_record()
            is_lost = report.status == "running" and not is_supervised
            self._report = _lost(report) if is_lost else report
        return self._report

    def _read_record(self) -> tuple[Report, bool]:
        """What the record says; and whether the supervisor still has this job, so that something of
        it may live: while it does, it holds the lock of the record. If there is no record (removed,
        or never made) or no lock, the supervisor's pid and start time decide, but only until the
        job has ended: after that the supervisor may run another command."""
        report = self._report
        is_free = None
        with suppress(OSError):  # gone, or no descriptor left
            found, is_free = read_record(self.output_file)
            report = found or report
        if is_free is None:
            return report, report.status == "running" and self._supervisor_lives()
        return report, not is_free

    def _supervisor_lives(self) -> bool:
        """True while the process lives that the record names, by pid and start time. If /proc
        hides the start time (hidepid, proc(5)) the pid has to do."""
        pid, started = self._report.supervisor
        now = identity(pid)[1]
        return now == started if now else _signal(pid, 0)

    @property
    def status(self) -> Status:
        """`running`, or how it ended: `exited`, `timed_out`, `cancelled`, `failed`; `lost` if
        its supervisor was killed."""
        return self._report_now().status

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + n after signal n; None while it runs, and if it is not known."""
        return self._report_now().exit_code

    @property
    def total_bytes(self) -> int:
        """The bytes of output so far; once the shell has ended, those that had come by then, even
        if the file holds fewer."""
        report = self._report_now()
        return self._size() if report.status in ("running", "lost") else report.total_bytes

    def _size(self) -> int:
        try:
            return os.stat(self.output_file).st_size
        except OSError:
            return 0

    @property
    def duration_s(self) -> float:
        """Seconds that the shell has run."""
        report = self._report_now()
        if report.status == "running":
            return max(0.0, time.time() - self.created)
        return report.duration_s

    @overload
    def wait(self, timeout_s: float | None = None, *, until: None = None) -> bool:
        """Waits for the end of the job, and says whether it has come."""

    @overload
    def wait(self, timeout_s: float | None = None, *, until: Wanted) -> str | None:
        """Waits for a line of the output, and gives it; None if it has not come."""

    def wait(
        self, timeout_s: float | None = None, *, until: Wanted | None = None
    ) -> bool | str | None:
        """True once the job has ended and its note is written; False if it has not ended within
        `timeout_s` seconds.

        `until`: a text or compiled pattern to search for in the lines of the output, even earlier
        ones; a line counts once its newline has come, or the job has ended. Returns the first line
        that has it, or None when the job has ended without one or the time is over. The search of
        output that is there already may take SEARCH_S longer than the time."""
        if until is None:
            return bool(_await_ends([self], False, timeout_s))
        wanted = re.compile(re.escape(until)) if isinstance(until, str) else until
        require(
            isinstance(wanted, re.Pattern), "until", "a string or a compiled pattern", until
        )
        deadline = _deadline(timeout_s)
        offset, part = 0, b""
        for _ in _poll_until(deadline):  # the file alone says when there is more
            has_ended = self.status != "running"
            if self._size() < offset:  # emptied: from its beginning
                offset, part = 0, b""
            with suppress(OSError):  # it is gone
                while data := self._output_from(offset, MIB)[0]:
                    offset += len(data)
                    *lines, part = (part + data).split(b"\n")
                    found = find_line(lines, wanted)
                    if found or monotonic() >= deadline + SEARCH_S:
                        return found
            if has_ended:
                return find_line([part], wanted)
        return None

    def _output_from(self, offset: int, most: int = -1) -> tuple[bytes, bytes]:
        """What the file holds from byte `offset` on, at most `most` bytes: the output before the
        completion note, and the rest. The record says where the note is; before it does so, what
        looks like the note at the end is taken for it. Raises OSError if the file is gone."""
        with _open_own(self.output_file) as file:
            file.seek(offset)
            data = file.read(most)
        at = self._report_now().at - offset
        if not 0 <= at <= len(data):
            at = len(re.sub(_NOTE_AT_END, b"", data))
        return data[:at], data[at:]

    def read(self, offset: int = 0) -> tuple[str, int]:
        """(text, offset): the output from byte `offset` of the file on, without the completion
        note, and the offset to go on from. No character is split, and reading piece by piece
        yields the same text as reading at once. Raises OSError if the file is gone."""
        require(isinstance(offset, int), "read", "a whole number of bytes", offset)
        final = self.status != "running"
        start = max(0, offset)
        data, rest = self._output_from(start)
        end = start + len(data + rest)
        if final:
            data += re.sub(_NOTE, b"", rest, count=1)
        text, decoded = codecs.utf_8_decode(data, "replace", final)
        return text, end if final else start + decoded

    def kill(self) -> bool:
        """Ends the job and all that it started: TERM, the grace, KILL. True once nothing of it
        lives, so also for a job that had ended; False if something could not be ended, and for
        a lost job. The supervisor of the job ends it."""
        return self._end(Cancel())

    def _end(self, cancel: Cancel) -> bool:
        """Does what `kill` does; a cancel on the way is a second request: KILL."""
        begun = monotonic()
        asked = 0
        for _ in _poll_until(begun + self._grace_s + UNKILLABLE_S + HOST_SLACK_S):
            if not self._read_record()[1]:
                self.wait(CHECK_EVERY_S)  # the message of the end may be on its way
                return self.status != "lost"
            # The grace of this tool may be shorter than that of the job.
            if asked < 1 + max(cancel.count, monotonic() >= begun + self._grace_s):
                asked += 1
                if self._supervisor_lives():
                    _signal(self._report.supervisor[0], END_JOB_SIGNAL)
        return False

    def _next_outcome(self, profile: Profile) -> Outcome:
        """What the job has said since the last time; once it has ended, how, and the tails of all
        that it said. A file that became shorter is read from its beginning."""
        report = self._report_now()
        is_running = report.status == "running"
        if self._streams:
            path = self.output_file or None
            return fit_streams(Outcome(report, report.notes, path, self._streams), profile)
        offset = self._shown_bytes if is_running and self._shown_bytes <= self._size() else 0
        buffer = OutputBuffer(0, profile.rolling_bytes, True)
        why = ""
        try:
            while data := self._output_from(offset + buffer.total_bytes, MIB)[0]:
                buffer.add(data)
        except OSError as problem:
            why = _reason(problem)
        stream = buffer.captured()
        if is_running:
            stream = without_unfinished(stream)
            self._shown_bytes = offset + stream.total_bytes
        report = report._replace(total_bytes=stream.total_bytes, problem=why or report.problem)
        return Outcome(
            report,
            report.notes,
            None if why else self.output_file,
            stdout=profile.truncation.fit(stream, profile),
        )


def _deadline(timeout_s: float | None) -> float:
    """When a wait is over, for a host that may have given it no limit."""
    if timeout_s is None:
        return inf
    wanted = "a number of seconds, or None"
    require(is_number_in(timeout_s, -inf, inf), "timeout_s", wanted, timeout_s)
    return monotonic() + timeout_s


def _await_ends(jobs: Sequence[Job], one_will_do: bool, timeout_s: float | None) -> list[Job]:
    """Those of the jobs that have ended, as soon as all have, or one will do, or the time is
    over."""
    ended: list[Job] = []
    for _ in _poll_until(_deadline(timeout_s)):
        ended = [job for job in jobs if job.status != "running"]
        if len(ended) == len(jobs) or (ended and one_will_do):
            break
    return ended


# ---- 8 BashTool --------------------------------------------------------------------------------
# The public class. What a model or a command does is answered; what a host does wrong is raised.

MAX_JOBS = 32  # background jobs of one tool that live at once
JOBS_NAMED = 32  # that one answer lists
ENDED_JOBS_KEPT = 32  # that keep the last of their output in memory


def check_directory(cwd: AnyPath | None) -> str:
    """The directory of a tool, absolute. One that is given must be there: a typing error is to
    be seen at once. Raises ValueError, OSError."""
    try:
        base = os.getcwd()
    except FileNotFoundError:  # the host's own directory is gone: commands will say so
        base = "/nonexistent/nonexistent/nonexistent"  # so deep that `..` is missing too
    if cwd is None:
        return base
    path = absolute_path("cwd", cwd, base)
    try:
        os.stat(path + "/")  # ENOTDIR if it is a file
    except OSError as problem:
        raise OSError(
            problem.errno, "cwd takes an existing directory (%s)" % problem.strerror, path
        ) from None
    return path


def absolute_path(what: str, path: AnyPath, base: str = "") -> str:
    """An absolute path, which is not looked at: its file system may not answer."""
    is_path = isinstance(path, (str, os.PathLike))
    require(is_path and re.fullmatch(r"[^\0]+", str(path)), what, "a path", path)
    return os.path.abspath(os.path.join(base, path))


def check_state_folder(given: AnyPath) -> str:
    """The absolute path of a folder for files and records. Raises ValueError, and OSError if no
    folder can ever stand: one that is missing, full or not writable may change."""
    path = absolute_path("state_dir", given)
    try:
        os.stat(path + "/")
    except OSError as problem:
        if problem.errno in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            raise OSError(
                problem.errno, "state_dir takes a folder (%s)" % problem.strerror, path
            ) from None
    return path


def default_folder(profile: Profile) -> str:
    """Where a tool that was given no folder puts output files and records: in the one folder of
    this user, within the first folder for temporary files that can be written to; a new private
    one if the folder of that name is a link, another user's or open to others. It is made
    with the first file."""
    base = temporary_folder()
    if not profile.own_folder:
        return base
    path = os.path.join(base, "bash-tool-of-%d" % os.geteuid())
    with suppress(FileNotFoundError):
        info = os.lstat(path)
        # A link's mode has all of these bits, so a link is refused.
        if info.st_mode & 0o077 or info.st_uid != os.geteuid() or not is_writable(path):
            return os.path.join(base, "bash-tool-" + os.urandom(6).hex())
    return path


class JobTable:
    """The jobs of one tool: how many live, which a model may ask about, and whose end the model has
    yet to be told. No lock, which a fork of the host or a signal handler could meet held: each
    step is one operation on a dict, a list or a deque."""

    def __init__(self, config: ToolConfig) -> None:
        self._config = config
        self._starting: list[Exchange] = []  # background commands that are not jobs yet
        # By pid: those that this tool has started, or was asked about.
        self._by_pid: dict[int, Job] = {}
        self._started: dict[int, Job] = {}  # those that this tool has started
        self._recent = deque[Job]()  # that have ended, the latest last
        # The jobs whose end no answer has told: when each began, and what the next answer says.
        self._end_notes = deque[tuple[float, str, Job]]()

    def live(self) -> list[Job]:
        """The jobs that this tool has started and that have not ended."""
        return [job for job in list(self._started.values()) if job.status == "running"]

    def take_place(self, exchange: Exchange) -> Outcome | None:
        """Takes a place for a job that is to start; the answer if there is no room. First
        come, first served."""
        self._starting.append(exchange)
        live = self.live()
        count = len(live) + self._starting.index(exchange)
        most = self._config.max_jobs
        if count < most:
            return None
        self.release_place(exchange)
        jobs = name_jobs(live[:JOBS_NAMED]) or "none has a number yet"
        return reject(
            "too_many_jobs",
            "too many background jobs (%d of at most %d); "
            "stop one with kill -9 -PID to make room: %s" % (count, most, jobs),
        )

    def release_place(self, exchange: Exchange) -> None:
        """The job has started, or will not."""
        with suppress(ValueError):  # given back already, or no background command
            self._starting.remove(exchange)

    def add(self, outcome: Outcome) -> Job | None:
        """Enters the job that an answer tells of; None if it tells of none."""
        if not outcome.report.supervisor:
            return None
        job = Job(outcome.path or "", self._config.profile.grace_s, outcome.report)
        shown_bytes = sum(without_unfinished(stream).total_bytes for stream in outcome.raw)
        job._shown_bytes = min(shown_bytes, FILE_CAP_BYTES, job._size())  # the file has no more
        self._by_pid[job.pid] = job
        return job

    def start_monitor(self, job: Job, exchange: Exchange, is_kept: bool) -> None:
        """Starts the monitor thread of a job, whose end is to be told."""
        self.release_place(exchange)  # at once, so that the job is not counted twice
        self._started[job.pid] = job
        _pool.monitored.add(job)
        if not exchange.start_thread(partial(self._monitor, job, exchange, is_kept)):
            _pool.monitored.discard(job)

    def _monitor(self, job: Job, exchange: Exchange, is_kept: bool) -> None:
        """Runs in the monitor thread of a job."""
        with exchange.await_end() as end:
            if end is None:
                end = Outcome(_lost(job._report)._replace(duration_s=job.duration_s))
            # The note comes first: an answer that tells the end takes the note away.
            self._end_notes.append((job.created, ended_note(job.output_file, end), job))
            # A check shows the streams of a kept command alone, and no program gets them whole.
            raw = end.raw if is_kept else ()
            job._take_end(end.report, [narrow(stream, self._config.profile) for stream in raw])
        self._recent.append(job)
        if len(self._recent) > ENDED_JOBS_KEPT:  # REQ-BASH-021.8
            oldest = self._recent.popleft()
            oldest._take_end(oldest._report, ())
        on_end = self._config.on_job_end
        if on_end is not None:
            on_end(job)  # an exception goes to threading.excepthook, with no other effect

    def forget(self, job: Job | None) -> None:
        """Forgets the job, if there is one, of a command whose answer nobody gets."""
        if job is not None:
            self._by_pid.pop(job.pid, None)

    def list_all(self) -> list[Job]:
        """The jobs of the state folder, or of this tool, the oldest first."""
        jobs, profile = list(self._by_pid.values()), self._config.profile
        if self._config.lists_folder:
            listed = {job.output_file for job in jobs}
            with suppress(OSError):
                for path in own_outputs(self._config.folder, profile.file_prefix) - listed:
                    with suppress(OSError):  # no job, removed, damaged, or another user's
                        jobs.append(Job(path, profile.grace_s))
        return sorted(jobs, key=lambda job: job.created)

    def get(self, pid: int) -> Job:
        """The job with this pid in its latest use; of a job that is known the files may be
        gone. Raises LookupError, with the jobs that run."""
        latest = self._by_pid.get(pid)
        if latest is not None and latest.status == "running":
            return latest
        jobs = self.list_all()  # the pid may have been given again
        for job in jobs:
            if job.pid == pid:
                latest = self._by_pid[pid] = job
        if latest is None:
            running = [job for job in jobs if job.status == "running"]
            named = name_jobs(running[-JOBS_NAMED:]) or "none"
            raise LookupError(
                "no background process has the pid %s; running: %s" % (pid, named)
            )
        return latest

    def take_end_notes(self, told: Job | None) -> list[str]:
        """Takes the notes on jobs that have ended, so that each is told once. `told`: a job whose
        end the answer tells itself."""
        ended = []
        with suppress(IndexError):  # there are no more
            while True:
                ended.append(self._end_notes.popleft())
        ended.sort()
        # Nothing is told of a job that was dropped, whose pid is not known any more.
        return [note for _, note, job in ended if job is not told and job.pid in self._by_pid]


class Session:
    """How a tool answers its calls, and what is remembered from one to the next."""

    def __init__(self, config: ToolConfig, withheld: Withheld) -> None:
        self.config = config
        self.python = _python()
        self.jobs = JobTable(config)
        self._carry = Carry(config.first)
        # What no answer has told yet: withheld names, and a note.
        self._withheld = withheld
        self._hints = [
            "nothing was printed; a program may hold its output back: stdbuf -oL, python3 -u"
        ]
        self.closing = Cancel()  # that all calls obey, and all jobs that end with this process

    def answer(
        self, request: Asked | Outcome, cancel: Cancel, on_live: OnLive | None
    ) -> Result:
        """Does what was asked for."""
        if isinstance(request, Inquiry):
            return self._inquire(request, cancel)
        if isinstance(request, Outcome):
            outcome = request
        elif self.closing.count:
            outcome = reject("closed", "this tool is closed")
        elif isinstance(request, Restart):  # REQ-BASH-028.8
            self._carry = Carry(self.config.first)
            told = NO_STREAM._replace(
                text="the working directory and the exported variables "
                "are those of the beginning again"
            )
            outcome = Outcome(Report("exited", exit_code=0), stdout=told)
        elif refusal := judge_command(request, self.config):
            outcome = refusal
        else:
            return self._run(request, cancel, on_live)
        return self._finish(outcome._replace(command=request.command), cancel)

    def _finish(
        self,
        outcome: Outcome,
        cancel: Cancel,
        job: Job | None = None,
        passed: Container[bytes] = (),
    ) -> Result:
        """The result, with the notes that are told once; a call that was withdrawn takes none.
        `passed`: names of the variables that the command had."""
        if cancel._withdrawn:
            return present(outcome, self.config.profile)
        report = outcome.report
        notes = self.jobs.take_end_notes(job if report.status != "running" else None)
        notes += outcome.notes
        if report.status != "rejected":
            notes += withheld_notes(self._withheld, passed, outcome)
        is_silent = outcome.raw and not report.total_bytes and not report.cut_short
        if is_silent and report.status in ("timed_out", "running"):
            notes += self._hints
            self._hints = []
        if report.capped:
            notes.append(
                "the file with the full output ends at %s: the rest was read but not saved"
                % format_size(FILE_CAP_BYTES)
            )
        return present(outcome._replace(notes=notes), self.config.profile)

    def _inquire(self, inquiry: Inquiry, cancel: Cancel) -> Result:
        """What a job has said since the last time, or how it ended. An error only for a pid that
        no job has, and if something of a job that was to be ended still lives."""
        try:
            job = self.jobs.get(inquiry.pid)
        except LookupError as problem:
            return self._finish(reject("no_such_job", str(problem)), cancel)
        is_ended = not inquiry.kill or job._end(cancel)
        outcome = job._next_outcome(self.config.profile)
        survives = not is_ended and outcome.report.status != "lost"
        if survives:
            notes = *outcome.notes, "could not be killed: pid %d" % inquiry.pid
            outcome = outcome._replace(notes=notes)
        return replace(self._finish(outcome, cancel, job), is_error=survives)

    def _run(self, request: Request, cancel: Cancel, on_live: OnLive | None) -> Result:
        """The answer to a command. If an exception prevents the answer, the command is ended,
        its file removed and its job forgotten."""
        for exchange in self.closing._exchanges():
            exchange.notice_end()
        carry = self._carry  # as it is now: a restart meanwhile makes another
        start = carry.next
        plan = make_plan(self.config, request, on_live is not None, start)
        exchange = Exchange(plan, self.python, self.closing, cancel)
        job = None
        is_answered = False
        try:
            outcome = self.jobs.take_place(exchange) if plan.background else None
            outcome = outcome or exchange.perform(on_live, request.stdin)
            job = self.jobs.add(outcome)
            report, notes = outcome.report, list(outcome.notes)
            if plan.carries or (report.error == "spawn_failed" and not request.env):
                notes += carry.take_over(report, start)
            outcome = outcome._replace(notes=notes, mode=request.mode, command=request.command)
            outcome = fit_streams(outcome, self.config.profile)
            if cancel._withdrawn:
                report = report._replace(status="cancelled", exit_code=None)
                return self._finish(outcome._replace(report=report, path=None), cancel)
            result = self._finish(outcome, cancel, job, plan.env)
            if request.whole and result.truncated:
                result = with_whole_streams(result, self.config.profile)
            if job is not None and report.status == "running":
                self.jobs.start_monitor(job, exchange, outcome.kept)
            is_answered = True
            return result
        finally:
            if not is_answered:
                exchange.abandon()
                self.jobs.forget(job)
            self.jobs.release_place(exchange)


class BashTool(NotCopied):
    """A shell for a model. Thread-safe; a context manager that closes.

    cwd         the directory of every command (default: the current one, now)
    profile     how it speaks to the model: a row of PROFILES, the name of one, or a variant
    timeout_s   the limit of the default mode in seconds, in place of the profile's
    env         variables for every command, added to this process's environment and overriding it,
                as in `run`. None of them is withheld; the rest is scrubbed of secrets
    keep_env    names, or globs of names, that pass although they look secret
    drop_env    names, or globs of names, that do not pass, whatever `keep_env` says
    base_env    a mapping in place of this process's environment: it passes as it is, with the
                non-interactive defaults that it lacks. Goes without keep_env and drop_env
    deny        substrings that refuse a command. Advice to a model, not a security boundary:
                `eval` bypasses it
    confirm     a function that gets the text of each command. True runs it, False and None refuse
                it. All else is a TypeError, the coroutine of an `async def` too. An exception of
                its own goes to the caller, and the command is not run
    shell       the argv prefix of the shell: it ends in bash, or in a program that hands its stdin
                and its arguments on to bash. No other shell, and no options behind bash
    state_dir   where files go, and whose jobs are listed (default: one folder of this user, of
                which only the tool's own jobs are listed)
    max_jobs    how many background jobs may live at once
    on_job_end  called with each Job that outlived its answer, once, in the job's monitor thread
    on_call     called after each `call` and `run`, in the caller's thread, with what was sent and
                the Result; for `run` that is a dict of `command`, `mode`, `timeout_s` and `stdin`.
                An exception goes to the caller
    carry       the directory and the exported variables at the end of a command are the start of
                the next one
    ephemeral   all that commands leave running, jobs too, ends when the tool is closed or this
                process ends: TERM, 0.5 s, KILL

    `withheld` holds the names that were kept out of the environment. Commands start with the
    umask and the resource limits that this process had when its first command began. A program
    that confines itself (chroot, capabilities, landlock) does so before its first command: later
    commands would not be confined. Raises ValueError for a mistake in these, and OSError
    (FileNotFoundError, NotADirectoryError, PermissionError, ...) for a `cwd` that is no directory
    and a `state_dir` that can never be one: these two looks may hang."""

    _whole = True  # `run` gives its streams whole; the command line answers as `call` does

    def __init__(
        self,
        cwd: AnyPath | None = None,
        *,
        profile: Profile | str = MODES,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        keep_env: str | Sequence[str] = (),
        drop_env: str | Sequence[str] = (),
        deny: str | Sequence[str] = (),
        confirm: Confirm | None = None,
        shell: str | Sequence[str] = ("bash",),
        state_dir: AnyPath | None = None,
        max_jobs: int = MAX_JOBS,
        on_job_end: OnEnd | None = None,
        on_call: OnCall | None = None,
        carry: bool = False,
        ephemeral: bool = False,
        base_env: Mapping[str, str] | None = None,
    ) -> None:
        row = choose_profile(profile, timeout_s, carry)
        words = check_shell(shell)
        passed, withheld = tool_env(
            os.environ, base_env, env or {}, keep_env, drop_env, len(words) > 1
        )
        self.withheld = tuple(withheld)
        check_function("confirm", confirm)
        check_function("on_job_end", on_job_end)
        check_function("on_call", on_call)
        require(isinstance(ephemeral, bool), "ephemeral", "True or False", ephemeral)
        right = isinstance(max_jobs, int) and is_number_in(max_jobs, 0, sys.maxsize)
        require(right, "max_jobs", "a whole number from 0 up", max_jobs)
        self._on_call = on_call
        config = ToolConfig(
            profile=row,
            first=Start(fsencode(check_directory(cwd)), encode_env(passed)),
            shell=words,
            folder=default_folder(row) if state_dir is None else check_state_folder(state_dir),
            lists_folder=state_dir is not None,
            carries=carry,
            ephemeral=ephemeral,
            deny=check_strings(deny, "deny"),
            confirm=confirm,
            max_jobs=max_jobs,
            on_job_end=on_job_end,
        )
        self._session = Session(config, withheld)

    @property
    def cwd(self) -> str:
        """The directory of every command; with `carry`, of the first one."""
        return os.fsdecode(self._session.config.first.cwd)

    @property
    def profile(self) -> Profile:
        """How the tool speaks to the model."""
        return self._session.config.profile

    @property
    def closed(self) -> bool:
        """Whether `close` was called: no new command runs then."""
        return bool(self._session.closing.count)

    def __repr__(self) -> str:
        words = self.cwd, self.profile.name, " closed" * self.closed
        return "<BashTool cwd=%r profile=%r%s>" % words

    def __enter__(self) -> "BashTool":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def definition(self, style: Style = "anthropic") -> Any:
        """The tool definition for a model, a dict, the same bytes for the same configuration.

        anthropic         for the Messages of Anthropic
        openai            for the Responses of OpenAI, in strict form
        openai-chat       for Chat Completions, which most local model servers take
        mcp               for clients of that protocol
        anthropic-native  the vendor's own tool; goes with `carry`
        openai-native     the vendor's own tool

        Its type is Any, so that it goes into the parameters of each SDK without a cast. Raises
        ValueError for another style."""
        return define(self.profile, self.cwd, style)

    def call(
        self,
        arguments: object,
        *,
        cwd: AnyPath | None = None,
        env: Mapping[str, str] | None = None,
        cancel: Cancel | None = None,
        on_output: OnText | None = None,
    ) -> Result:
        """The answer to what a model sent: a mapping, or the JSON text of one.

        `cwd` and `env` hold for this call, as in `run`. `on_output` gets live output as text, in
        the caller's thread; what is not fetched in time is skipped, and a line says so.

        Raises nothing for what the model or the command did; ValueError for what the program gave,
        and TypeError if `confirm` gives no plain answer. An exception in the caller, Ctrl-C or
        one out of `on_output`, stops the command, and is raised again once it is gone; a second one
        does not wait.
        """
        request = parse_arguments(arguments, self.profile)
        return self._answer(arguments, request, cwd, env, cancel, _with_notes(on_output))

    def run(
        self,
        command: str,
        *,
        mode: Mode = "default",
        timeout_s: float | None = None,
        cwd: AnyPath | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        cancel: Cancel | None = None,
        on_output: OnText | None = None,
    ) -> Result:
        """The same for Python callers, with whole streams and with what a model cannot say.

        timeout_s  seconds, in place of the mode's limit
        cwd        the directory of this command, relative to the tool's. If that cannot be entered
                   the command is not run: `cwd_missing`
        env        variables for this command, added to the tool's and overriding them; none is
                   withheld
        stdin      what the command reads on its standard input, instead of an empty one
        on_output  gets live output as text, in this thread; what is not fetched in time is
                   skipped, and a line says so

        Raises ValueError for invalid arguments: a wrong type, mode or number.
        """
        if timeout_s is not None:
            check_seconds("timeout_s", timeout_s, above_0=True)
        request = parse_command(command, mode, timeout_s, self.profile)
        if isinstance(request, Outcome):
            raise ValueError(request.report.reason)
        sent = {"command": command, "mode": mode, "timeout_s": timeout_s, "stdin": stdin}
        data = stdin.encode() if isinstance(stdin, str) else stdin
        require(data is None or isinstance(data, bytes), "stdin", "str or bytes", type(stdin))
        request = request._replace(stdin=data, whole=self._whole)
        return self._answer(sent, request, cwd, env, cancel, _with_notes(on_output))

    def jobs(self) -> list[Job]:
        """The jobs of this tool, ended ones included, the oldest first; with `state_dir` those
        of that folder: also of other tools and of earlier processes."""
        return self._session.jobs.list_all()

    def job(self, pid: int | None) -> Job:
        """The job with this pid, the latest if the pid was reused. Raises LookupError, naming
        the live jobs, if there is none; and for None, the `pid` of a result without a job."""
        if pid is None:
            raise LookupError("this result has no job; its text says why")
        require(isinstance(pid, int), "pid", "the number of a job", pid)
        return self._session.jobs.get(pid)

    def wait(
        self,
        jobs: Job | Iterable[Job] | None = None,
        *,
        any: bool = False,
        timeout_s: float | None = None,
    ) -> list[Job]:
        """The jobs that have ended, once all of them have, or with `any` one of them, or after
        `timeout_s` seconds. Without `jobs`: the live background commands and kept jobs of this
        tool. The next answer to the model reports the ends all the same. Raises ValueError for
        what is no job and no number."""
        if jobs is None:
            jobs = self._session.jobs.live()
        waited = list(jobs) if isinstance(jobs, Iterable) else [jobs]
        require(all(isinstance(job, Job) for job in waited), "jobs", "a Job or several", jobs)
        return _await_ends(waited, any, timeout_s)

    def close(self) -> None:
        """Ends every call that is still under way, and every job that is attached to this
        process; leaves the detached ones. Everything of an `ephemeral` tool is attached, leftovers
        too, and gone when this returns. An interrupt meanwhile is one more stop for all, and is
        raised at the end."""
        try:
            self._session.closing.cancel()
            for exchange in self._session.closing._exchanges():
                exchange.wait_until_over()
        except BaseException:
            self.close()
            raise

    def _answer(
        self,
        arguments: object,
        request: Asked | Outcome,
        cwd: AnyPath | None,
        env: Env | None,
        cancel: Cancel | None,
        on_live: OnLive | None,
    ) -> Result:
        """The answer to a request, or to what was found wrong with it. `arguments`: what was sent,
        for `on_call`; `cwd` and `env` hold for this call. Raises ValueError."""
        cancel = Cancel() if cancel is None else cancel
        require(isinstance(cancel, Cancel), "cancel", "a Cancel", cancel)
        check_env(env or {})
        path = None if cwd is None else absolute_path("cwd", cwd, self.cwd)
        if isinstance(request, Request):
            request = request._replace(cwd=path, env=env)
        result = self._session.answer(request, cancel, on_live)
        if self._on_call is not None:
            self._on_call(arguments, result)
        return result


# ---- 9 MCP -------------------------------------------------------------------------------------
# The Model Context Protocol over two descriptors; a message is a line of JSON. `handle` says what a
# message asks for, and does nothing else. A request is answered in the form of its era: with its
# version in `_meta` (2026-07-28), or without one (up to 2025-11-25, where a handshake comes first).
# The server remembers nothing between two messages but the calls under way. Each call has a thread,
# which waits for its command. One loop reads and writes. It waits for all
# descriptors at once, so that neither a command nor a client that does not read keeps another
# message waiting. It sleeps until something happens: a thread that has something for it, and the
# interpreter when a signal comes, write a byte to its wake pipe; poll(2) has the next deadline.

# fmt: off
MAX_MESSAGE_BYTES = 16 * MIB  # of a client; a command is at most some 300 KB by its description
MAX_CALLS = 64                # of one client at a time; a call takes a thread and a descriptor
OUTBOX_MESSAGES = 32          # that wait to be written; while it is full nothing is read
PROGRESS_BYTES = 8128         # of live output in a progress message: 8 KiB, with the line on what
                              # was skipped; without a limit one message held 207,581 characters
HEARTBEAT_S = 10.0            # of silence, then a client is told that a call goes on; many give up
                              # after 60 s
LAST_CALLS_S = 1.0            # after the end of a server's input, for calls to end by themselves
GOODBYE_S = 2.5               # ... in which TERM is no second stop: SDKs send it after 2 s
FLUSH_S = 2.0                 # without a read: a client that has closed its end is given up
# fmt: on

HANDSHAKE_VERSIONS = "2025-11-25 2025-06-18 2025-03-26 2024-11-05".split()
STATELESS_VERSIONS = ("2026-07-28",)
# One list for each answer: a client that knows none of the one era takes the other.
VERSIONS = [*STATELESS_VERSIONS, *HANDSHAKE_VERSIONS]
SERVER_INFO = {"name": "bash_tool", "version": __version__}
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNKNOWN_VERSION = -32022
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # end a program, or stop its calls
_STDIN_FD = 0  # the descriptor of the messages of the client
_STDOUT_FD = 1  # ... and of the answers
Id = Union[str, int, float]  # 1.0 is an integer in JSON

# Structured results, for hosts that ask for them. Six of sixteen hosts show the model the
# structured content in place of the text, or both: so it is off by default, and holds the text.
OUTPUT_SCHEMA = json_object("""
{"type": "object",
 "required": ["text", "status", "exit_code", "signal", "truncated", "total_bytes", "pid",
              "output_file", "duration_s", "error", "leftovers"],
 "properties": {
  "text": {"type": "string",
           "description": "What the model reads: the output, and how the command ended"},
  "status": {"type": "string", "enum": ["exited", "timed_out", "cancelled", "running", "rejected",
                                        "failed", "lost"]},
  "exit_code": {"type": ["integer", "null"],
                "description": "null where the command did not end by itself"},
  "signal": {"type": ["string", "null"]},
  "truncated": {"type": "boolean"},
  "total_bytes": {"type": "integer"},
  "pid": {"type": ["integer", "null"], "description": "of a job"},
  "output_file": {"type": ["string", "null"]},
  "duration_s": {"type": "number"},
  "error": {"type": ["string", "null"],
            "description": "a stable id where something other than the command went wrong"},
  "leftovers": {"type": "array", "items": {"type": "integer"},
                "description": "processes that the text names as still running"}},
 "additionalProperties": false}""")


Message = Fields  # of the protocol, or an object within one


class Call(NamedTuple):
    """A request to run a command."""

    id: Id
    arguments: Message
    token: Id | None  # names the progress of the call; None: progress is not asked for
    stateless: bool


class Withdrawal(NamedTuple):
    """The client does not want the answer to a call any more."""

    id: Id | None  # None names no call


def error_message(id_: object, code: int, reason: str, **more: object) -> Message:
    """The answer to a message that cannot be handled. Some codes have `data` too."""
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": reason, **more}}


def result_message(id_: object, result: Message, stateless: bool) -> Message:
    """The answer to a request, in the form of its era."""
    if stateless:
        result = {
            "resultType": "complete",
            **result,
            "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO},
        }
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def call_message(call: Call, result: Result, structured: bool) -> Message:
    """The answer to a call: its text, and if asked for the fields of OUTPUT_SCHEMA. The streams
    by themselves stay out of these: each byte of the output comes once."""
    answer: Message = {
        "content": [{"type": "text", "text": result.text}],
        "isError": result.is_error,
    }
    if structured:
        answer["structuredContent"] = {
            name: getattr(result, name) for name in OUTPUT_SCHEMA["required"]
        }
    return result_message(call.id, answer, call.stateless)


def _id(value: Any) -> Id | None:
    """The value, if it can name a request or its progress; else None."""
    return value if isinstance(value, str) or is_integer(value) else None


def _object(owner: Message, name: str) -> Message:
    """The member of this name, which must be an object. What is null or missing counts as empty.
    Raises ValueError."""
    value = unwrap(owner.get(name))
    require(value is None or isinstance(value, dict), name, "an object", name_type(value))
    return value or {}


def _handle_request(id_: Id, method: str, message: Message, tool: Message) -> Message | Call:
    """What a request asks for. Raises ValueError for parameters of the wrong shape."""
    params = _object(message, "params")
    meta = _object(params, "_meta")
    # `initialize` belongs to the older era, whatever its `_meta` says.
    version = (
        None if method == "initialize" else meta.get("io.modelcontextprotocol/protocolVersion")
    )
    require(
        version is None or isinstance(version, str),
        "the protocol version",
        "a string",
        name_type(version),
    )
    if version not in (None, *STATELESS_VERSIONS):
        data = {"requested": version, "supported": VERSIONS}
        return error_message(id_, UNKNOWN_VERSION, "unsupported protocol version", data=data)
    stateless = version is not None or method == "server/discover"
    if method == "tools/call":
        name = params.get("name")
        token = meta.get("progressToken")
        require(name == tool["name"], "tools/call", "the tool %(name)r" % tool, shorten(name))
        require(
            _id(token) is token, "progressToken", "a string or an integer", name_type(token)
        )
        return Call(id_, _object(params, "arguments"), token, stateless)
    asked = params.get("protocolVersion")
    lifetime = {"ttlMs": 0, "cacheScope": "private"} if stateless else {}
    results: Message = {
        "initialize": {
            "protocolVersion": asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": SERVER_INFO,
        },
        "server/discover": {
            "supportedVersions": VERSIONS,
            "capabilities": {"tools": {}},
            **lifetime,
        },
        "tools/list": {"tools": [tool], **lifetime},
        "ping": {},
    }
    if method not in results:
        return error_message(id_, UNKNOWN_METHOD, "unknown method: %s" % shorten(method))
    return result_message(id_, results[method], stateless)


def handle(message: Any, tool: Message) -> Message | Call | Withdrawal | None:
    """What a message asks for: an answer to send, a call to make, a call to withdraw, or
    nothing. `tool` is the definition for MCP. Does nothing else, and raises nothing."""
    if not isinstance(message, dict):
        message = {}
    id_ = _id(message.get("id"))
    method = message.get("method")
    params = message.get("params")
    if "method" not in message and ("result" in message or "error" in message):
        return None  # an answer: nothing was asked
    if (
        message.get("jsonrpc") != "2.0"
        or not isinstance(method, str)
        or ("id" in message and id_ is None)
    ):
        return error_message(
            id_,
            INVALID_REQUEST,
            'a request is an object with "jsonrpc": "2.0", a string "method", and an "id" '
            "that is a string or an integer",
        )
    if id_ is not None:
        try:
            return _handle_request(id_, method, message, tool)
        except ValueError as problem:
            return error_message(id_, INVALID_PARAMS, str(problem))
    if method == "notifications/cancelled" and isinstance(params, dict):
        return Withdrawal(_id(params.get("requestId")))
    return None


class CallUnderway:
    """A call whose answer was not written yet. The thread of the call adds live output, of which
    the end is kept; the loop of the server takes it."""

    _progress = 0
    _output = ""  # live output that no message has told, or its end
    _output_bytes = 0  # ... and how much there was of it

    def __init__(self, call: Call, wake: Callable[[], None]) -> None:
        self.call = call
        self.answer: Message = {}  # the thread sets it when the call is over
        self.cancel = Cancel()
        self._wake = wake
        self._began_at = self.told_at = monotonic()
        self._lock = threading.Lock()

    def fail(self, problem: BaseException) -> None:
        """Answers with what has gone wrong in the server itself."""
        self.answer = error_message(
            self.call.id, INTERNAL_ERROR, "internal error: %r" % problem
        )

    def add(self, skipped: int, text: str) -> None:
        """Adds live output, before which so many bytes were skipped."""
        with self._lock:
            self._output_bytes += skipped + len(text.encode())
            self._output = last_bytes(self._output + text, PROGRESS_BYTES)
        self._wake()

    def heartbeat_at(self) -> float:
        """When a progress message is due without live output; inf if the client wants none."""
        if self.call.token is None or self.cancel._withdrawn:
            return inf
        return self.told_at + HEARTBEAT_S

    def progress(self) -> Message | None:
        """The next progress message, if one is due: there is live output, or the silence was
        long enough."""
        now = monotonic()
        due_at = self.heartbeat_at()
        with self._lock:
            text = self._output
            skipped = self._output_bytes - len(text.encode())
            self._output = ""
            self._output_bytes = 0
        text = mark_skipped(skipped, text)
        if not text and now >= due_at:
            text = "[still running after %ds]" % (now - self._began_at)
        if not text or due_at == inf:
            return None
        self._progress += 1
        self.told_at = now
        return {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {
                "progressToken": self.call.token,
                "progress": self._progress,
                "message": text,
            },
        }


class Server:
    """Serves one client, until the input ends, the answers are not read any more, or a signal comes
    that ends the server: TERM, HUP, and INT if standard input is a terminal."""

    _unsent = memoryview(b"")  # of the message that is being written
    _at_end = False  # nothing more is read
    _has_reader = True  # of the answers
    _is_closed = False  # the tool; every foreground command is gone
    # Of the phase that `serve` is in:
    _ends_at = inf  # the moment at which it ends
    _was_signalled = False  # a signal that ends the server has come

    def __init__(self, tool: BashTool, structured: bool) -> None:
        self._tool = tool
        self._structured = structured
        self._definition = tool.definition("mcp")
        if structured:
            self._definition["outputSchema"] = dict(OUTPUT_SCHEMA)
        self._calls: dict[object, CallUnderway] = {}
        self._line = bytearray()  # the last of the input, as far as it has come
        self._inbox = deque[object]()  # lines, as bytes, and messages of a batch
        self._outbox = deque[Message]()  # other answers than those to calls
        self._wake_reader, self.wake_writer = os.pipe()  # for numbers of signals, and zeros
        os.set_blocking(self.wake_writer, False)

    def serve(self) -> None:
        """Returns when the client has left or a signal has ended the server. By then every
        foreground command is gone. One more signal skips the grace, but not within GOODBYE_S of the
        end of the input. Jobs go on. If the input ends without a signal, calls have LAST_CALLS_S to
        end by themselves; the others are not answered: that crashed a client (Python SDK 1.30)."""
        is_told = self._run_while(lambda: not self._at_end)
        ended_at = monotonic()
        if not is_told:
            self._run_while(
                lambda: self._has_reader and (self._inbox or self._calls),
                ended_at + LAST_CALLS_S,
            )
            for underway in self._calls.values():
                if not underway.answer:
                    underway.cancel._withdrawn = True
        threading.Thread(target=self._close, daemon=True).start()
        while not self._is_closed:
            self._run_while(lambda: not self._is_closed)
            if is_told or monotonic() > ended_at + GOODBYE_S:
                self._tool._session.closing.cancel()
        self._run_while(
            lambda: self._has_reader and (self._unsent or self._calls or self._outbox),
            monotonic() + FLUSH_S,
        )

    def _run_while(self, goes_on: Callable[[], object], until: float = inf) -> bool:
        """A phase of `serve`: while this holds, until a moment, or until a signal comes that ends
        the server. Returns whether one has."""
        self._ends_at, self._was_signalled = until, False
        while goes_on() and monotonic() < self._ends_at and not self._was_signalled:
            self._run_once()
        return self._was_signalled

    def _close(self) -> None:
        """Runs in the thread that closes the tool."""
        try:
            self._tool.close()
        finally:
            self._is_closed = True
            self._wake()

    def _wake(self) -> None:
        """Wakes the loop, from any thread."""
        with suppress(BlockingIOError):  # a full pipe wakes the loop too
            os.write(self.wake_writer, b"\0")

    def _run_once(self) -> None:
        """Waits until something happens, reads and writes once, handles what has come, as far as
        there is room for answers, and chooses what is written next."""
        has_room = len(self._outbox) < OUTBOX_MESSAGES
        poller = select.poll()
        poller.register(self._wake_reader, select.POLLIN)
        if not self._at_end:
            # Without room for answers nothing is read until the client has closed its end: then
            # at most the kernel's buffer is left to read. poll(2) reports that end unasked for a
            # pipe, as POLLHUP; for a socket POLLRDHUP has to be asked for.
            closed = getattr(select, "POLLRDHUP", 0)
            poller.register(_STDIN_FD, select.POLLIN if has_room else closed)
        if self._has_reader:  # poll(2) reports unasked, as POLLERR, that the reader has gone
            poller.register(_STDOUT_FD, select.POLLOUT if self._unsent else 0)
        due_at = [self._ends_at]
        if not self._unsent:  # else no heartbeat can be written yet
            due_at += [underway.heartbeat_at() for underway in self._calls.values()]
        wait_s = max(0.0, min(due_at) - monotonic())
        events = dict(poller.poll(None if wait_s == inf else 1000 * wait_s))
        if _STDIN_FD in events:
            self._read()
        if _STDOUT_FD in events:
            self._write(events[_STDOUT_FD] == select.POLLOUT)
        if self._wake_reader in events:
            # One byte: each signal may end its own phase.
            [number] = os.read(self._wake_reader, 1)
            if number == signal.SIGINT and not os.isatty(_STDIN_FD):
                # Ctrl-C in the terminal of a client: each call is answered. REQ-BASH-025.22
                for underway in self._calls.values():
                    underway.cancel.cancel()
            elif number in _STOPS:
                self._was_signalled = True
        while self._inbox and len(self._outbox) < OUTBOX_MESSAGES:
            if answer := self._handle_line(self._inbox.popleft()):
                self._outbox.append(answer)
        if not self._unsent and (message := self._next_message()):
            # In plain ASCII: some clients split lines where Unicode does.
            self._unsent = memoryview(json.dumps(message).encode() + b"\n")

    def _read(self) -> None:
        """Splits what has come into lines. Of a line that is too long the beginning is kept, one
        byte more than is allowed."""
        chunk = b""
        with suppress(OSError):  # ECONNRESET: the client has left, and did not read all
            chunk = os.read(_STDIN_FD, READ_BYTES)
        self._at_end = not chunk
        first, *others = (chunk or b"\n").split(b"\n")  # the last line may have no newline
        self._line += first
        del self._line[MAX_MESSAGE_BYTES + 1 :]
        for other in others:
            self._inbox.append(bytes(self._line))
            self._line = bytearray(other)

    def _write(self, is_ready: bool) -> None:
        """Writes as much as a pipe takes without blocking after POLLOUT (poll(2)). Not O_NONBLOCK:
        other processes may share the open file, and with it this flag."""
        try:
            if not is_ready:
                raise BrokenPipeError
            self._unsent = self._unsent[os.write(_STDOUT_FD, self._unsent[: select.PIPE_BUF]) :]
            if self._is_closed:
                self._ends_at = monotonic() + FLUSH_S
        except BlockingIOError:  # another process has set the flag
            pass
        except OSError:
            self._has_reader = False
            self._at_end = True

    def _next_message(self) -> Message | None:
        """What is written next: calls that are over come first, each with all its progress before
        its answer, then other answers, then the progress of the call that was silent for longest.
        Of a call that was withdrawn nothing is said any more."""
        for underway in sorted(
            self._calls.values(), key=lambda one: (not one.answer, one.told_at)
        ):
            answer = underway.answer  # no output comes after it
            if self._outbox and not answer:
                break
            if progress := underway.progress():
                return progress
            if answer:
                del self._calls[underway.call.id]
                if not underway.cancel._withdrawn:
                    return answer
        return self._outbox.popleft() if self._outbox else None

    def _handle_line(self, message: object) -> Message | None:
        """Does what a line, or a message of a batch, asks for. Returns the answer, if it is due at
        once."""
        if isinstance(message, bytes):
            message = message.removeprefix(codecs.BOM_UTF8)  # of Windows. REQ-BASH-025.24
            if not message.strip():
                return None
            if len(message) > MAX_MESSAGE_BYTES:
                why = "a message may have %s at most" % format_size(MAX_MESSAGE_BYTES)
                return error_message(None, INVALID_REQUEST, why)
            try:
                message = load_json(message)
            except ValueError as problem:
                return error_message(None, PARSE_ERROR, "not JSON (%s)" % shorten(problem))
            if isinstance(message, list) and message:  # a batch: each message is answered alone
                self._inbox.extendleft(reversed(message))
                return None
        asked = handle(message, self._definition)
        if isinstance(asked, Call):
            return self._start_call(asked)
        if isinstance(asked, Withdrawal):
            if underway := self._calls.get(asked.id):
                underway.cancel._withdrawn = True
                underway.cancel.cancel()
            return None
        return asked

    def _start_call(self, call: Call) -> Message | None:
        """Starts the thread of a call, or returns why not."""
        if call.id in self._calls:
            return error_message(call.id, INVALID_REQUEST, "a call with this id is under way")
        if len(self._calls) >= MAX_CALLS:
            refusal = reject(
                "too_many_calls",
                "too many calls are under way (%d); wait for the answer of one, or cancel one"
                % MAX_CALLS,
            )
            return call_message(call, present(refusal, self._tool.profile), self._structured)
        underway = self._calls[call.id] = CallUnderway(call, self._wake)
        try:
            threading.Thread(target=self._run_call, args=(underway,), daemon=True).start()
        except RuntimeError as problem:
            underway.fail(problem)
        return None

    def _run_call(self, underway: CallUnderway) -> None:
        """Runs in the thread of a call. A call that is withdrawn before its text is made takes no
        note with it, and leaves no job."""
        call = underway.call
        try:
            result = self._tool._answer(
                call.arguments,
                parse_arguments(call.arguments, self._tool.profile),
                None,
                None,
                underway.cancel,
                None if call.token is None else underway.add,
            )
            underway.answer = call_message(call, result, self._structured)
        except BaseException as bug:  # also out of `confirm` and `on_call`
            underway.fail(bug)
        self._wake()


@contextmanager
def _signals_handled(handler: Callable[[int, Any], object]) -> Iterator[None]:
    """Signals that stop this program go to this handler meanwhile: not those that it was started
    to ignore, by nohup or as a job of a shell without job control."""
    before = {
        number: signal.signal(number, handler)
        for number in _STOPS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def serve(tool: BashTool, *, structured: bool = False) -> None:
    """Serves the program's own tool over the Model Context Protocol, on descriptors 0 and 1:
    `python3 bash_tool.py --mcp` is this function. It closes the tool and returns once the client
    has left, or TERM, HUP or, in a terminal, INT has come.

    structured  whether results have structured content too

    To be called in the main thread, because signals are handled. Nothing else may read standard
    input, or write to standard output."""
    # The interpreter writes the number of a signal to a descriptor of the loop, and the handler
    # does nothing: an exception out of a handler could leave the loop at any place; and the kernel
    # may deliver a signal to another thread, while Python runs handlers in the main thread alone.
    require(isinstance(tool, BashTool), "serve", "a BashTool", tool)
    server = Server(tool, structured)
    before = signal.set_wakeup_fd(server.wake_writer, warn_on_full_buffer=False)
    try:
        with _signals_handled(_do_nothing):
            server.serve()
    finally:
        signal.set_wakeup_fd(before)


# ---- 10 Command line ---------------------------------------------------------------------------
# The tool as a program, for a person, a script, and a client that starts a server of MCP. For a
# command the program prints what a model would read, and ends with the exit code of the command.

TOLD_AFTER_S = 1  # after Ctrl-C on the command line, before it says what it waits for


def _write(fd: int, text: str) -> None:
    """Writes UTF-8, whatever the locale is. That the reader has gone is no error, nor that standard
    error takes nothing: the answer goes to standard output."""
    with suppress(OSError if fd == 2 else BrokenPipeError):
        _write_all(fd, text.encode("utf-8", "surrogateescape"))


# One of these is asked for; the other options go with all of them, or with those that stand here.
_VERBS = "command schema mcp jobs kill version".split()
_GOES_WITH = {
    "mode": "a command",
    "timeout": "a command, --mcp and --schema",
    "follow": "a command",
    "json": "a command, --jobs and --kill",
    "log": "a command and --mcp",
    "ephemeral": "a command and --mcp",
    "structured": "--mcp",
    "carry": "--mcp and --schema",
}


def _make_parser() -> Any:
    """Makes the parser of the command line."""
    import argparse  # only the command line pays for it

    parser = argparse.ArgumentParser(
        usage="%(prog)s [options] [COMMAND]",
        # Without a width argparse imports shutil, which takes 2 ms.
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=80),
        description="Run a command as an LLM agent would, and print what the model would read.",
    )
    _add_settings(parser)
    _add_verbs(parser, parser.add_mutually_exclusive_group(required=True))
    parser.set_defaults(
        profile=os.environ.get("BASH_TOOL_PROFILE", "modes"),
        mode="default",
        structured=os.environ.get("BASH_TOOL_STRUCTURED") == "1",
    )
    parser.add_argument_group("set for every command", ", ".join(NON_INTERACTIVE))
    parser.add_argument_group(
        "taken out, with secrets and forced colours (see --keep-env, --drop-env)",
        ", ".join(sorted(DROPPED_NAMES)),
    )
    parser.add_argument_group(
        "exit code", "the command's own; 124 timed out, 125 the tool failed, 130 interrupted"
    )
    return parser


def _add_settings(parser: Any) -> None:
    """Adds the options that say how commands run."""
    add = parser.add_argument
    repeated = partial(add, action="append", default=[])
    add("--profile", type=str.lower, help="modes, jobs, streams or guarded (BASH_TOOL_PROFILE)")
    add("--mode", help=describe_modes(MODES))
    add(
        "--timeout",
        metavar="SECONDS",
        type=float,
        help="in place of the mode's limit; --mcp: of the mode default",
    )
    add("--cwd", metavar="DIR", help="where the command runs")
    add(
        "--state-dir",
        metavar="DIR",
        help="where output files go (default: one folder per user)",
    )
    repeated("--deny", metavar="TEXT", help="refuse commands that hold TEXT; may be repeated")
    repeated(
        "--keep-env",
        metavar="NAME",
        help="pass a variable though it looks secret; may be repeated",
    )
    repeated(
        "--drop-env",
        metavar="NAME",
        help="withhold a variable whatever it looks like; may be repeated",
    )
    repeated(
        "--set",
        metavar="NAME=VALUE",
        help="limits, flags: slow=3600, saves=false; may be repeated",
    )


def _add_verbs(parser: Any, verbs: Any) -> None:
    """Adds what can be asked for, of which the group `verbs` takes one, and what goes with it."""
    flag = partial(parser.add_argument, action="store_true")
    verb = verbs.add_argument
    plain_verb = partial(verb, action="store_true")
    verb("command", nargs="?", metavar="COMMAND", help="in quotes; - reads stdin")
    verb(
        "--schema",
        metavar="STYLE",
        nargs="?",
        const="anthropic",
        help="print the definition: anthropic (default), openai, mcp, openai-chat, "
        "openai-native, anthropic-native (--carry)",
    )
    parser.add_argument(
        "--log", metavar="FILE", help="append a line of JSON for each call to FILE"
    )
    verb("--kill", metavar="PID", type=int, help="end a background job, and say how it ended")
    flag("--follow", help="show live output on stderr, before the answer on stdout")
    flag("--json", help="print the whole result as one line of JSON")
    plain_verb("--mcp", help="serve the Model Context Protocol on stdin and stdout")
    flag("--structured", help="with --mcp: structured results too (BASH_TOOL_STRUCTURED=1)")
    flag("--carry", help="with --mcp: keep the directory and exported variables")
    flag("--ephemeral", help="end at exit what commands leave running, jobs too")
    plain_verb("--jobs", help="list the background jobs, with size and elapsed time")
    plain_verb("--version", help="print the version and this file's sha256")


def _parse_options(argv: Sequence[str] | None) -> Any:
    """The options of the command line. For --help, and for what makes no sense, this prints how to
    use the program, and raises SystemExit."""
    parser = _make_parser()
    options, others = parser.parse_known_args(argv)
    if others:
        parser.error(
            "not known: %s; the whole command is one argument, in quotes" % " ".join(others)
        )
    given = {name for name, value in vars(options).items() if value != parser.get_default(name)}
    [verb] = given.intersection(_VERBS)
    for option, verbs in _GOES_WITH.items():
        if option in given and verb not in verbs:
            parser.error("--%s goes with %s" % (option, verbs))
    if options.profile not in PROFILES:
        parser.error("--profile and BASH_TOOL_PROFILE take one of %s" % join_names(PROFILES))
    if os.environ.get("BASH_TOOL_STRUCTURED", "0") not in ("", "0", "1"):
        parser.error("BASH_TOOL_STRUCTURED must be 0 or 1")
    return options


_FLAGS = "nonzero_is_error", "saves"


def _apply_settings(name: str, settings: Sequence[str]) -> Profile:
    """The row with this name, changed by settings NAME=VALUE, of which the last one wins. Raises
    ValueError for what makes no sense."""
    row = PROFILES[name]
    numbers = (*row.timeouts_s, *WAITS, *LIMITS_ON_OUTPUT)
    for setting in settings:
        name, _, value = setting.partition("=")
        is_number = name in numbers and re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]+)?", value)
        require(
            is_number or (name in _FLAGS and value in ("true", "false")),
            "--set or BASH_TOOL_SET",
            "NAME=NUMBER for %s, NAME=true or NAME=false for %s"
            % (join_names(numbers), join_names(_FLAGS)),
            setting,
        )
        changes: Fields = {name: load_json(value)}
        if name in row.timeouts_s:
            changes = {"timeouts_s": {**row.timeouts_s, **changes}}
        row = replace(row, **changes)
    return row


def _as_typed(word: str | bytes) -> str:
    """A word of the command line, or standard input, as the bytes that were typed, whatever the
    locale makes of them: UTF-8, where U+DC80 to U+DCFF stand for bytes that are none."""
    return fsencode(word).decode("utf-8", "surrogateescape")


def _run_and_print(tool: BashTool, options: Any) -> int:
    """Runs the command of the options, and prints the answer. Returns the exit code."""
    command = _as_typed(options.command)
    if command == "-":
        with open(0, "rb", closefd=False) as stdin:
            command = _as_typed(stdin.read())
    # A fork of this process takes 2 ms, the start of a fork server 30. The supervisor of a job
    # comes from a fork server all the same: a fork would hold the memory of this process for hours.
    if options.mode != "background":
        tool._session.python = None
    cancel = Cancel()
    told = (
        "bash_tool.py: the command has %gs to end; Ctrl-C again ends it now\n"
        % tool.profile.grace_s
    )

    def interrupted(number: int, _: object) -> None:
        """Cancels. From the third signal on the next one has its default action, which ends this
        process even if it hangs in a write; the supervisor then ends the command."""
        cancel.cancel()
        if cancel.count > 2:
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(TOLD_AFTER_S if cancel.count == 1 else 0)

    signal.signal(signal.SIGALRM, lambda *_: _write(2, told))
    tool._whole = False
    with _signals_handled(interrupted):
        result = tool.run(
            command,
            mode=options.mode,
            timeout_s=options.timeout,
            cancel=cancel,
            on_output=partial(_write, 2) if options.follow else None,
        )
    signal.alarm(0)
    _write(1, with_newline(json.dumps(result.to_dict()) if options.json else result.text))
    return EXIT_CODES.get(result.status, result.exit_code or 0)


def _print_jobs(jobs: Sequence[Job], as_json: bool) -> None:
    """The jobs, the oldest first: a line of JSON each, or a table."""
    names = "pid status exit_code created duration_s total_bytes output_file command".split()
    if jobs and not as_json:
        _write(1, "PID\tSTATUS\tELAPSED\tSIZE\tOUTPUT\tCOMMAND\n")
    for job in jobs:
        line = "%d\t%s\t%ds\t%s\t%s\t%s" % (
            job.pid,
            "running" if job.status == "running" else describe_end(job._report_now()),
            job.duration_s,
            format_size(job.total_bytes),
            make_printable(job.output_file),
            shorten(job.command),
        )
        if as_json:
            line = json.dumps({name: getattr(job, name) for name in names})
        _write(1, line + "\n")


def _make_logger(path: str) -> OnCall:
    """Returns a function that appends a line of JSON for each call to a file of mode 0600, in one
    write, so that several servers may share the file. The output of commands is not in it. Raises
    OSError if the file cannot be opened; one that cannot be written later is told once."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    problems: list[OSError] = []

    def log(arguments: object, result: Result) -> None:
        """Appends the line of a call."""
        told = {name: getattr(result, name) for name in SHARED_FIELDS}
        line = {"time": time.time(), "arguments": arguments, **told}
        try:
            os.write(fd, json.dumps(line).encode() + b"\n")
        except OSError as problem:
            if not problems:
                words = make_printable(path), _reason(problem)
                _write(2, "bash_tool.py: the log %s cannot be written: %s\n" % words)
            problems.append(problem)

    return log


def _open_standard() -> None:
    """Opens what is closed of descriptors 0 to 2, which would else become those of the first files
    that are opened. Nothing can be written there: that is told as for a full disk."""
    fd = 0
    while fd < 3:
        fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)


def _perform(tool: BashTool, options: Any) -> int:
    """Does what the options ask for. Returns the exit code of the process."""
    # `ps` must not show the command, nor `pkill -f` of a word in it end the tool. REQ-BASH-012.4
    take_own_name()
    _prctl(_PR_SET_DUMPABLE, 0)  # commands of this user cannot read the secrets of this process
    if options.mcp:
        serve(tool, structured=options.structured)
    elif options.schema:
        _write(
            1, json.dumps(tool.definition(options.schema), indent=2, ensure_ascii=False) + "\n"
        )
    elif options.jobs:
        _print_jobs(tool.jobs(), options.json)
    elif options.kill is not None:
        job = tool.job(options.kill)
        is_gone = job.kill()
        _print_jobs([job], options.json)
        return 0 if is_gone else EXIT_CODES["failed"]
    else:
        return _run_and_print(tool, options)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Does what the command line asks for. Returns the exit code of the process."""
    _open_standard()
    try:
        options = _parse_options(argv)
        if options.version:
            import hashlib  # 2 ms, for --version alone

            own = hashlib.sha256(_read_file(__file__))  # OSError if the file is gone
            _write(1, "bash_tool %s sha256:%s\n" % (__version__, own.hexdigest()))
            return 0
        profile = _apply_settings(
            options.profile, os.environ.get("BASH_TOOL_SET", "").split() + options.set
        )
        if options.command:  # a job that is kept would end with this process
            profile = replace(profile, on_timeout=OnTimeout.KILL)
        with BashTool(
            options.cwd,
            profile=profile,
            timeout_s=None if options.command else options.timeout,
            deny=list(map(_as_typed, options.deny)),
            keep_env=options.keep_env,
            drop_env=options.drop_env,
            state_dir=default_folder(profile)
            if options.state_dir is None
            else options.state_dir,
            on_call=None if options.log is None else _make_logger(options.log),
            carry=options.carry,
            ephemeral=options.ephemeral,
        ) as tool:
            return _perform(tool, options)
    except SystemExit as ending:  # of argparse, whose code 2 could be the command's own
        with suppress(OSError, AttributeError):  # there may be no standard output
            sys.stdout.flush()
        return EXIT_CODES["failed"] if ending.code else 0
    except KeyboardInterrupt:  # while the command was read
        return EXIT_CODES["cancelled"]
    except (ValueError, OSError, LookupError) as problem:
        _write(2, "bash_tool.py: %s\n" % make_printable(problem, " "))
        return EXIT_CODES["failed"]


if __name__ == "__main__":
    os._exit(main())  # all is written, and the interpreter's own clean-up takes 20 ms
