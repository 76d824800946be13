#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The shell that an LLM agent works through: a command goes in, one honest answer comes out.

    from bash_tool import BashTool

    bash = BashTool("/repo")
    bash.definition()                             # what the model is told
    result = bash.call({"command": "make test"})  # what the model sent -> what it reads
    result.text, result.is_error

Every command is a run. One monitor thread owns its process; whoever wants the answer waits for the run:

    Run(plan).start() ------> <---- one monitor thread: spawn, drain, signal, reap
    caller: run.wait()   |
                         +-- the shell ended: drain what is left in the pipe -> answer
                         +-- timeout, cancel, Ctrl-C: TERM+CONT -> grace -> KILL -> sweep -> answer
                         +-- timeout of what is to be kept: answer "running"; the run goes on as a job

A background command is kept after a look of 0.3 s, and its monitor lives in a detached copy of this file, so that it
outlives the program. A job is a record in a file, beside its output: whoever opens the folder finds, reads and ends it.

The file reads from top to bottom; but for annotations, no class and no function at its top level uses one that stands below it.

    1 Limits and words   the numbers, and the phrases that answers are made of
    2 Types              the closed vocabulary of a call
    3 Profiles           what differs between the ways of speaking to a model: rows of data
    4 Text               bytes -> what a terminal would show -> cut to size -> an answer    (pure)
    5 Decisions          arguments, environment, and what to do next with a process         (pure)
    ==== below this line the file touches the operating system ====
    6 Processes          output buffers, files, the process, the one loop
    7 Jobs               a run that somebody waits for; a job that goes on by itself
    8 BashTool           the face
    9 MCP                the same for the clients of a protocol: a message -> what it asks for; serve
    10 Command line

SPEC.md holds the clauses (REQ-BASH-nnn.m) that the docstrings name; the tests hold them word for word.
Standard library only, CPython 3.9 and later, Linux first, macOS too. Vendor it by copying this file.
"""

from __future__ import annotations

import _thread
import atexit
import codecs
import errno
import fcntl
import fnmatch
import io
import itertools
import json
import math
import os
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections import deque
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, NoReturn, Sequence, Union

__version__ = "0.1.0"

__all__ = ["BashTool", "Result", "Job", "Cancel",      # to use it
           "Profile", "OnTimeout", "MODES", "JOBS", "STREAMS", "GUARDED", "PROFILES",      # to choose how it speaks
           "__version__"]


# ---- 1 Limits and words ---------------------------------------------------------------------------------
# The numbers are the seeds' (REQ-BASH-001 to 007); those that are ours say where they come from. The
# phrases are contract too: models, hosts and tests match on them. Sentences that explain one refusal stand where it is made.

KIB = 1024
MIB = 1024 * KIB

DEFAULT_TIMEOUT_S = 30.0
SLOW_TIMEOUT_S = 15 * 60.0
BACKGROUND_TIMEOUT_S = 24 * 60 * 60.0
LOOK_S = 0.3                # a background command that fails at once is answered as failed (REQ-BASH-003)
COPY_ANSWERS_S = 2.0        # a detached copy that has not said who it is by then is none
GRACE_S = 15.0              # the most that passes between TERM and KILL (REQ-BASH-004)
DRAIN_IDLE_S = 0.5          # after the shell's exit: `> >(sort)` wrote 86 ms late at worst, so 0.1 s is too short
DRAIN_TOTAL_S = 2.0         # ... and a leftover that never falls silent is not waited for longer than this
LEAVING_S = 0.1             # a process that has closed its output is gone by then, or it stays
UNKILLABLE_S = 5.0          # after KILL: a process in an uninterruptible wait, or another user's, is reported
CHASES = 3                  # after who was born while the list of processes was gone through, and during the chase before
QUIET_PASSES = 10           # scans that must see nobody while the machine forks; one that is not disturbed is enough
MAX_OUTPUT_BYTES = 128 * KIB
SNIP_SIZE = 4 * KIB         # what is shown of each end of an output over the maximum
COMMAND_TIMEOUT_S = 120.0   # the other seeds' (001 and 002; ours where 004 leaves it open)
MAX_TIMEOUT_MS = 86_400_000     # what a model may ask for: a day, as in the background
TAIL_LINES, TAIL_BYTES = 2000, 50 * KIB     # 001: whichever is reached first
ROLLING_BYTES = 2 * TAIL_BYTES      # 001: of each stream, what is kept while it runs
PARTIAL_LINES = (500, 100)  # 001: of stdout and stderr, when a command goes to the background
HEAD_CHARS = 30_000         # 002
HEAD_BYTES = 256 * KIB      # 004 leaves it open
FILE_CAP_BYTES = 64 * MIB   # spool files of 1 to 2 TB are on record elsewhere
FOLDER_CAP_BYTES = 1024 * MIB
READ_BYTES = 64 * KIB       # a pipe's default capacity: one read empties it
FLOOD_PIPE_BYTES = MIB      # the most that an ordinary user gets for one pipe
FLOOD_PAUSE_S = 0.00001     # takes 60 microseconds, in which a fast writer writes 200 KB
LIVE_BYTES = 256 * KIB      # live output that nobody has fetched yet; the oldest is skipped
LEFTOVERS_NAMED = 5         # processes that a note lists by name
MAX_JOBS = 32               # background jobs of one tool that live at once
RECORD_ROOM = 8 * KIB       # reserved for the end of a job, so that a full disk does not lose it
COMMAND_RECORDED = 2000     # characters of a job's command that its record holds
ECHO_CHARS = 80             # of a command line, a wrong key, a wrong value, when a text quotes it
MAX_DIGITS = 1000           # of a number in JSON; before 3.11 Python spends minutes on a few million
MAX_MESSAGE_BYTES = 4 * MIB     # of a client; a command is at most some 300 KB by its description
MAX_CALLS = 64              # of one client at a time: each takes up to ten descriptors, of 1,024 as a rule
OUTBOX_MESSAGES = 32        # that wait to be written; who has more to say waits
HEARTBEAT_S = 10.0          # of silence before a client is told that a call goes on; many give up after 60 s
FLUSH_S = 1.0               # for a client that has closed its end and may still read

SIGNAL_NAMES = MappingProxyType({int(s): s.name for s in signal.Signals})

COMMAND_FAILED = "[command failed: exit code {code}]"
COMMAND_KILLED = "[command failed: exit code {code} ({signal})]"
COMMAND_KILLED_HARD = "[command failed: exit code {code} ({signal}); not sent by this tool; possibly out of memory]"
COMMAND_TIMED_OUT = "[command timed out after {limit}]"
COMMAND_CANCELLED = "[command cancelled]"
COMMAND_KEPT = "[command still running after {limit}, as a job]"
SYSTEM_ERROR = "[system error: {reason}]"
TRUNCATED_MIDDLE = "[output truncated in middle: got {got}, max is {most}]"
SNIP = "\n\n[snip]\n\n"
FULL_OUTPUT = "[full output: {path}]"
FULL_OUTPUT_PARTLY = "[full output may be incomplete: {path} ({reason})]"
FULL_OUTPUT_LOST = "[full output was not saved: {reason}]"

NOTE_CAPPED = "the file with the full output ends at {cap}: the rest was read but not saved"
NOTE_CAPPED_IN_FILE = "\n[output file capped at {cap}: the rest was not saved]\n"
NOTE_LEFTOVER = "still running: {who}; to stop: kill -9 {targets}; output goes on to {path}"
NOTE_HELD = "something started by the command still holds its output open; output goes on to {path}"
NOTE_NO_COPY = " for as long as this program lives ({reason})"
NOTE_NOT_KEPT = "ended at its timeout, because it could not be recorded as a job ({reason})"
NOTE_ATTACHED = "this job ends with the program that started it: no detached copy of bash_tool took it over ({reason})"
NOTE_SURVIVED = "could not be killed: {who}"
NOTE_BLIND = "what the command started outside its process group may still run: it could not be looked for"
NOTE_CWD = "the working directory {cwd} is gone ({reason}); the command ran in an empty scratch folder"
NOTE_WITHHELD = "not passed to commands, because it looks secret: {names}"
NOTE_LIVE_SKIPPED = "\n[live output skipped: {size}]\n"
NOWHERE = "nowhere (no file could be written: {reason})"

JOB_STARTED = "<pid>{pid}</pid>\n<output_file>{path}</output_file>"
JOB_REMINDER = "<reminder>To stop: kill -9 -{pid}</reminder>"
JOB_NOTE = "\n\n[background process {how}]\n"
TOO_MANY_JOBS = "too many background jobs ({count} of at most {most}); stop one with kill -9 -PID to make room: {who}"

TAIL_NOTICE = "[{stream}: Showing last {shown}.{where}]"
TAIL_FILE = " Full output: {path}"
TAIL_FILE_PARTLY = " Full output file may be incomplete: {path} ({reason})"
TAIL_FILE_LOST = " Full output was not saved: {reason}"
BACKGROUNDED = "[Command backgrounded after {limit} timeout (pid {pid}). Partial output:"
MANAGE = "Use check_pid or kill_pid to manage.]"
STILL_RUNNING = "[Process {pid} still running.\n\nNew output since last check ({count} lines):"
NO_SUCH_JOB = "no background process has the pid {pid}; running: {who}"
HEAD_CHARS_CUT = "\n[truncated]"
HEAD_BYTES_CUT = "\n... (output truncated)"

HEARTBEAT = "[still running after {seconds}]"
TOO_MANY_CALLS = "too many calls are under way ({most}); wait for the answer of one, or cancel one"

DENIED = "Command blocked by safety policy: contains '{pattern}'"
NOT_CONFIRMED = "Command was not confirmed by the user."

DESCRIPTION_MODES = """\
Executes shell commands via bash -c, returning combined stdout/stderr.
Bash state changes (working dir, variables, aliases) don't persist between calls.

With mode="background", returns immediately with output redirected to a file.
Use background for servers/demos that need to stay running.

Use mode="slow" for potentially slow commands: builds, downloads,
installs, tests, or any other substantive operation.

IMPORTANT: Keep commands concise. The command input must be less than 60k tokens.
For complex scripts, write them to a file first and then execute the file.

<pwd>{cwd}</pwd>"""

DESCRIPTION_JOBS = ("Execute a bash command. Output truncated to last 2000 lines or 50KB; if truncated, full output saved to temp file. "
                    "Commands exceeding timeout are auto-backgrounded.")
DESCRIPTION_STREAMS = ("Execute a bash command in the sandbox. Returns stdout, stderr, and exit code. Use for running tests, installing "
                       "dependencies, build commands, git operations, and any task requiring shell execution. Prefer structured tools "
                       "(read, write, edit, glob, grep) for file operations.")
DESCRIPTION_GUARDED = "Execute a bash command. Returns its exit code, stdout and stderr."

# What makes programs ask, page, paint or draw when nobody is there to see it. Forced on a scrubbed
# environment, and only filled in where the host gave a mapping of its own. Left alone on purpose:
# GIT_CONFIG_GLOBAL (it holds the user's name), GIT_SSH_COMMAND (it holds the user's key), PATH, CI.
REFUSING_EDITOR = ("sh -c 'echo \"there is no editor here: give the text as an argument (git commit -m), "
                   "or keep the proposed text with GIT_EDITOR=true\" >&2; exit 1' --")
NON_INTERACTIVE = MappingProxyType({
    "TERM": "dumb", "NO_COLOR": "1", "CLICOLOR": "0", "GCC_COLORS": "", "CARGO_TERM_COLOR": "never", "PY_COLORS": "0",
    "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "cat", "GH_PAGER": "cat", "DELTA_PAGER": "cat",
    "BAT_PAGER": "cat", "AWS_PAGER": "", "PSQL_PAGER": "cat",
    "EDITOR": REFUSING_EDITOR, "VISUAL": REFUSING_EDITOR, "GIT_EDITOR": REFUSING_EDITOR,
    "GIT_SEQUENCE_EDITOR": REFUSING_EDITOR, "GIT_MERGE_AUTOEDIT": "no",
    "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false", "SSH_ASKPASS": "false", "SSH_ASKPASS_REQUIRE": "never",
    "SUDO_ASKPASS": "/bin/false", "GCM_INTERACTIVE": "never", "GH_PROMPT_DISABLED": "1",
    "DEBIAN_FRONTEND": "noninteractive", "DEBCONF_NONINTERACTIVE_SEEN": "true", "NEEDRESTART_SUSPEND": "1",
    "APT_LISTCHANGES_FRONTEND": "none", "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off", "TQDM_DISABLE": "1",
    "npm_config_progress": "false", "CARGO_TERM_PROGRESS_WHEN": "never", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "BUILDKIT_PROGRESS": "plain", "NO_UPDATE_NOTIFIER": "1",
})
# What would make bash run or believe something that is not in the command, or a program paint or ask
# in spite of the table above.
DROPPED_NAMES = frozenset({"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE", "BASH_XTRACEFD",
                           "FORCE_COLOR", "CLICOLOR_FORCE", "GPG_TTY", "LS_COLORS"})
DROPPED_PREFIX = "BASH_FUNC_"
RUN_PREFIX = "BASH_TOOL_RUN_"   # the random is in the name: an inner tool's run never hides the outer one's

# A word of a name counts, not a piece of a word: KEY is one in API_KEY and AppKey, none in KEYBOARD_LAYOUT.
SECRET_WORDS = frozenset(
    "AUTH AUTHORIZATION BEARER COOKIE COOKIES CRED CREDS JWT KEY KEYS PAT PWD".split())
SECRET_ENDINGS = tuple(word + plural for plural in ("", "S") for word in (
    "PASSWORD PASSWD PASSPHRASE PASS PW SECRET TOKEN CREDENTIAL APIKEY ACCESSKEY AUTHKEY "
    "ENCRYPTIONKEY MASTERKEY PRIVATEKEY SECRETKEY SIGNINGKEY").split())
# Words that end in PASS and name no password: a program that asks for one, and three other things.
PLAIN_WORDS = frozenset("ASKPASS BYPASS COMPASS MULTIPASS".split())
LOCATION_WORDS = frozenset("FILE PATH DIR SOCK".split())     # SSH_AUTH_SOCK, PASSWORD_FILE: where, not what
PLAIN_NAMES = frozenset({"PWD", "OLDPWD", "GOOGLE_APPLICATION_CREDENTIALS"})      # paths, all three
# What a setting says, whatever its name is. A password that reads like this passes too.
PLAIN_VALUES = frozenset(
    "true false yes no on off enabled disabled none null auto always never optional required "
    "basic bearer digest negotiate ntlm oauth2 oidc saml kerberos gssapi ldap pam jwt "
    "trust peer ident reject cert md5 scram-sha-256 rsa ecdsa ed25519 hs256 rs256 es256".split())
# Variables that only work together are withheld together: git refuses every command if
# GIT_CONFIG_COUNT promises a pair that is missing. A secret stands in their values, not in their names.
ENV_GROUPS = (r"GIT_CONFIG_(?:COUNT|(?:KEY|VALUE)_[0-9]+)",)
REMOTE_ENDINGS = ("PROXY", "INDEX", "INDEX_URL", "REGISTRY")          # without one of these a client falls back silently


# ---- 2 Types --------------------------------------------------------------------------------------------
# Whatever comes from outside is parsed into these at the door; past it there is no dict of Any. Strings
# that travel as JSON are plain strings, choices that stay inside are enums.

class Stop(Enum):
    """Why a run was ended before its time; the values are statuses."""
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class OnTimeout(Enum):
    """What happens to a command that has not ended in time."""
    KILL = "kill"
    KEEP = "keep"               # it goes on as a job


class Streams(Enum):
    """How a command's standard output and standard error come: as one, in true order, or as two."""
    MERGED = 1
    SEPARATE = 2


class Cleaning(Enum):
    """What is done to a stream's text."""
    RENDERED = "rendered"       # as a terminal would be left showing it
    SANITISED = "sanitised"     # without escape sequences and control characters, carriage returns kept
    PLAIN = "plain"             # decoded, NUL replaced like what is no UTF-8


class Truncation(Enum):
    """What of a stream that is too long is shown."""
    ENDS = "ends"
    TAIL = "tail"
    HEAD_CHARS = "head, counted in characters"
    HEAD_BYTES = "head, counted in bytes"


class Saving(Enum):
    """When the whole output goes to a file."""
    WHEN_CUT = "when cut"
    OVER_LIMIT = "over the limit in bytes"
    NEVER = "never"


class Format(Enum):
    """How an answer is written."""
    BRACKETS = "brackets"
    SECTIONS = "sections"
    JSON = "json"
    LABELS = "labels"


class Action(Enum):
    """What the loop does next with a process."""
    WAIT = "wait"
    KEEP = "keep"
    TERM = "term"
    KILL = "kill"
    FINISH = "finish"


class Request(NamedTuple):
    """A command that was asked for, in the words of the caller."""
    command: str
    mode: str
    timeout_s: float | None = None      # in the place of the mode's


class Inquiry(NamedTuple):
    """A job that was asked about, or is to be ended."""
    pid: int
    kill: bool


class Rejected(NamedTuple):
    """Why a request was not admitted: a stable id, and a sentence that tells the model what to send instead."""
    error: str
    reason: str


class Limits(NamedTuple):
    """The waits of a run, in seconds."""
    timeout_s: float
    grace_s: float
    drain_idle_s: float
    drain_total_s: float
    kept_s: float | None = None     # None: the timeout ends the run. Else it then goes on as a job until this long after its start


class Captured(NamedTuple):
    """What was kept of one stream, and how much there was of it."""
    head: bytes
    tail: bytes
    total_bytes: int
    newlines: int = 0           # counted only where lines are limited


class Cut(NamedTuple):
    """The record of a truncation to the last lines."""
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    truncated: bool
    limit: str | None           # "lines" or "bytes"
    last_line_partial: bool


class Fitted(NamedTuple):
    """A stream's text at the size a model gets to read."""
    text: str
    got_bytes: int              # what the limit was compared with
    cut: bool
    record: Cut | None = None


class Plan(NamedTuple):
    """All that a run needs. The engine sees this and never a profile."""
    text: bytes
    mark: str                   # the run's variable
    shell: tuple[str, ...]
    program: str | None         # the file of the shell's first word; None: the spawn looks for it
    cwd: str
    env: Mapping[str, str]
    limits: Limits
    streams: Streams
    saving: Saving
    limit_bytes: int            # over which the output goes to a file
    head_bytes: int             # of each stream, how much is kept of its beginning and of its end
    tail_bytes: int
    count_lines: bool
    fit: Callable[[Captured], Fitted]


class Facts:
    """What is known of a run; times on the monotonic clock, None for what has not happened."""
    exited_s: float | None = None
    output_s: float = 0.0       # the last byte, or the exit if that came later
    at_eof: bool = False
    kept: bool = False          # the timeout is over, and the run goes on
    stops: int = 0              # how often a stop was due: the timeout, and each cancel
    term_s: float | None = None
    kill_s: float | None = None
    survivors: bool = True      # somebody of the run besides the shell may live; looked at only after TERM

    def __init__(self, started_s: float) -> None:
        self.started_s = started_s


class Saved(NamedTuple):
    """The file that holds the output as it arrived, as far as it could be written."""
    path: str | None
    reason: str                 # why it is incomplete or missing; empty where it is neither
    capped: bool


class Outcome(NamedTuple):
    """How a run ended, or that it goes on, in no profile's words."""
    status: str
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    reason: str = ""            # for `failed` and `rejected`: the sentence
    limit_s: float = 0.0        # for `timed_out`, and for `running` after a timeout; 0.0 there: it was meant to run on
    streams: tuple[Fitted, ...] = ()
    total_bytes: int = 0
    saved: Saved | None = None
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0
    pid: int | None = None      # of a job
    command: str = ""


class JobRecord(NamedTuple):
    """What the file beside a job's output says of it. What comes later fills in what the beginning left open."""
    command: str = ""
    mark: str = ""              # the run's variable
    created: float = 0.0        # on the wall clock, in seconds
    pid: int = 0
    start: int = 0              # the process's, in the kernel's ticks: with `boot` it tells a process from a later owner of its number
    boot: str = ""
    status: str = "running"
    limit_s: float = 0.0        # for `timed_out`
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    reason: str = ""
    notes: Sequence[str] = ()
    members: Sequence[Sequence[int]] = ()   # number and start of what ran on after the shell's end
    keeper: Sequence[int] = ()  # the same of the detached copy, which takes in the orphans
    note: str = ""              # the completion note
    at: int = -1                # its place in the output file; -1 before anybody has looked
    noted: bool = False         # it stands there, or can stand nowhere


@dataclass(frozen=True)
class Result:
    """The answer to one call. `text` is what the model reads; the rest says the same to programs.

    `status` is one of `exited`, `timed_out`, `cancelled`, `running`, `rejected`, `failed`, and of a job also `lost`. `exit_code` is None where the
    command did not end by itself. `signal` names the signal that ended the shell (`exit_code` is then 128 + its number).
    `error` is a stable id where something other than the command went wrong. Merged streams stand in `stdout`.
    """
    text: str
    is_error: bool
    status: str
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
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict that `json.dumps` takes."""
        return dict(vars(self), notes=list(self.notes), details=dict(self.details))


# ---- 3 Profiles -----------------------------------------------------------------------------------------
# A profile is a row. It is looked at before the spawn, for what to run within, and when the answer is written.
# Nothing compares its name. A variant is dataclasses.replace(row, ...), and so are tiny timeouts.

@dataclass(frozen=True)
class Profile:
    """One way of speaking to a model.

    `parameters` are the properties of the JSON Schema of its arguments. `timeouts_s` maps each mode to its limit in
    seconds; `grace_s`, `drain_idle_s` and `drain_total_s` are seconds too. Which of the limits on the output hold
    follows from `truncation`. Raises ValueError for numbers that no run could keep to.
    """
    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: Sequence[str]
    timeouts_s: Mapping[str, float]
    streams: Streams
    cleaning: Cleaning
    truncation: Truncation
    saving: Saving
    format: Format
    nonzero_is_error: bool
    max_output_bytes: int = MAX_OUTPUT_BYTES
    max_output_lines: int = TAIL_LINES
    max_output_chars: int = HEAD_CHARS
    snip_size: int = SNIP_SIZE
    rolling_bytes: int = ROLLING_BYTES
    grace_s: float = GRACE_S
    drain_idle_s: float = DRAIN_IDLE_S
    drain_total_s: float = DRAIN_TOTAL_S
    on_timeout: OnTimeout = OnTimeout.KILL
    file_prefix: str = "output-"
    own_folder: bool = True     # False: files go straight to the folder for temporary files

    def __post_init__(self) -> None:
        if "default" not in self.timeouts_s:
            raise ValueError("timeouts_s must name the mode default")
        for what in (*self.timeouts_s.values(), self.grace_s, self.drain_idle_s, self.drain_total_s):
            if not 0 <= what < math.inf:
                raise ValueError("seconds must be finite and not negative, got %r" % (what,))
        if min(self.max_output_bytes, self.max_output_lines, self.max_output_chars, self.rolling_bytes) < 1 or self.snip_size < 0:
            raise ValueError("limits must be positive")
        if self.on_timeout is OnTimeout.KEEP and self.format in (Format.JSON, Format.LABELS):
            raise ValueError("an answer in this format cannot say that a command goes on")
        if "background" in self.timeouts_s and self.format is not Format.BRACKETS:
            raise ValueError("an answer in this format cannot say that a command was started in the background")
        if self.truncation is Truncation.ENDS and 2 * self.snip_size > self.max_output_bytes:
            raise ValueError("two ends of snip_size must fit into max_output_bytes")
        if self.truncation is Truncation.TAIL and self.rolling_bytes < self.max_output_bytes:
            raise ValueError("rolling_bytes must hold max_output_bytes")


MODES = Profile(
    name="modes", description=DESCRIPTION_MODES,
    parameters=MappingProxyType({
        "command": {"type": "string", "description": "Shell command to execute via bash -c"},
        "mode": {"type": "string", "enum": ["default", "slow", "background"],
                 "description": "Execution mode: {modes}"}}),
    required=("command",),
    timeouts_s=MappingProxyType({"default": DEFAULT_TIMEOUT_S, "slow": SLOW_TIMEOUT_S, "background": BACKGROUND_TIMEOUT_S}),
    streams=Streams.MERGED, cleaning=Cleaning.RENDERED, truncation=Truncation.ENDS, saving=Saving.WHEN_CUT, format=Format.BRACKETS,
    nonzero_is_error=True)

JOBS = Profile(
    name="jobs", description=DESCRIPTION_JOBS,
    parameters=MappingProxyType({
        "command": {"type": "string", "description": "The bash command to execute"},
        "timeout": {"type": "integer", "description": "Timeout in ms before auto-backgrounding (default: {default_ms})",
                    "minimum": 1, "maximum": MAX_TIMEOUT_MS},
        "check_pid": {"type": "integer", "description": "Check on a backgrounded process, return new output"},
        "kill_pid": {"type": "integer", "description": "Kill a backgrounded process, return final output"}}),
    required=(), timeouts_s=MappingProxyType({"default": COMMAND_TIMEOUT_S}), on_timeout=OnTimeout.KEEP,
    streams=Streams.SEPARATE, cleaning=Cleaning.SANITISED, truncation=Truncation.TAIL, saving=Saving.OVER_LIMIT, format=Format.SECTIONS,
    nonzero_is_error=True, max_output_bytes=TAIL_BYTES, file_prefix="pipe-bash-", own_folder=False)

STREAMS = Profile(
    name="streams", description=DESCRIPTION_STREAMS,
    parameters=MappingProxyType({"command": {"type": "string", "description": "The bash command to execute"}}),
    required=("command",), timeouts_s=MappingProxyType({"default": COMMAND_TIMEOUT_S}),
    streams=Streams.SEPARATE, cleaning=Cleaning.PLAIN, truncation=Truncation.HEAD_CHARS, saving=Saving.NEVER, format=Format.JSON,
    nonzero_is_error=False)

GUARDED = Profile(
    name="guarded", description=DESCRIPTION_GUARDED,
    parameters=MappingProxyType({"command": {"type": "string", "description": "The shell command to execute"}}),
    required=("command",), timeouts_s=MappingProxyType({"default": COMMAND_TIMEOUT_S}),
    streams=Streams.SEPARATE, cleaning=Cleaning.PLAIN, truncation=Truncation.HEAD_BYTES, saving=Saving.NEVER, format=Format.LABELS,
    nonzero_is_error=False, max_output_bytes=HEAD_BYTES)

PROFILES: Mapping[str, Profile] = MappingProxyType({row.name: row for row in (MODES, JOBS, STREAMS, GUARDED)})


# ---- 4 Text ---------------------------------------------------------------------------------------------
# Bytes become text once, whole: cleaning each chunk by itself splits characters and escape sequences.
# Every function here is linear in its input. The patterns of sequences match no newline and end at the next ESC, so no
# unfinished sequence makes the scanner read the same characters again and again.

def decode(data: bytes) -> str:
    """The bytes as text; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")


# Patterns are strings, compiled and kept by `re` when one is first used: together they would be a fifth of what this file's own import takes.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
_MOVES_NOTHING = (
    r"\x1b(?!\[[0-?]*[ -/]*[CDGK])(?:"
    r"\[[0-?]*[ -/]*[@-~]?"                                                 # CSI: colours, modes, other lines
    r"|[\]PX^_][^\x07\x1b\x80-\x9f\n]*(?:\x07|\x1b\\)"                      # OSC, DCS ...: titles, links
    r"|[ -/]*[0-~]?)")                                                      # two-byte escapes, a lone ESC
_SHOWS_NOTHING = r"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]+"
_MOVE = (                   # begins with one set for all branches: the scanner passes over text five times as fast
    r"([\x08\n\r\x1b](?:(?<=\r)\r*|(?<=\x08)\x08*"
    r"|(?<=\x1b)\[([0-9]{0,9})[^CDGK]*[CDGK]"
    r"|(?<=\n)(?:[^\x08\r\x1b]*\n)?))")                                     # with the plain lines that follow


def _only_moves(text: str) -> str:
    """The text with nothing left in it but what shows and what moves."""
    for letter in "PX[\\]^_":       # C1: one character for ESC and a letter
        text = text.replace(chr(ord(letter) + 0x40), "\x1b" + letter)
    text = re.sub(_SHOWS_NOTHING, "", re.sub(_MOVES_NOTHING, "", text))
    return text.replace("\r\n", "\n").replace("\x1b[D", "\b")        # a line that ends so is plain then; a run of CSI D, one move


def _draw(text: str) -> str:
    screen, start = io.StringIO(), 0        # it overwrites in place, in a quarter of the time that a list of cells takes
    seek, tell, write = screen.seek, screen.tell, screen.write
    parts = iter(re.split(_MOVE, text))
    write(next(parts))
    for move, digits, run in zip(parts, parts, parts):
        kind = move[-1]
        if kind == "\r":
            seek(start)
        elif kind == "\b":
            at = tell() - len(move)
            seek(at if at > start else start)       # max() would take a spinner half as long again
        elif kind == "\n":
            start = seek(0, io.SEEK_END) + write(move)
        else:
            count = int(digits) if digits else 0
            if kind == "K":
                if count == 2:
                    seek(start)
                if count in (0, 2):
                    screen.truncate()
            elif kind == "D":
                seek(max(start, tell() - (count or 1)))
            else:
                at = (tell() if kind == "C" else start - 1) + (count or 1)
                if at < seek(0, io.SEEK_END):
                    seek(at)
        write(run)
    return screen.getvalue()


def render(text: str) -> str:
    """What a terminal would be left showing, line by line.

    Escape sequences and control characters are gone; `\\r` and `\\b` move the cursor back, so that the last frame of a
    progress bar remains; CSI K erases to the end of the line or all of it; CSI C, D and G move the cursor within the
    line. A cell is one code point, and a cursor beyond the end of a line stands at its end.
    Upholds REQ-BASH-008.1, REQ-BASH-008.2 and REQ-BASH-008.3.

    >>> render("10%\\r 50%\\r100%\\n\\x1b[31mred\\x1b[0m")
    '100%\\nred'
    """
    return text if re.search(_CONTROL, text) is None else _draw(_only_moves(text))


def first_bytes(text: str, most: int) -> str:
    """The longest beginning of `text` that takes at most `most` bytes as UTF-8, cut between characters."""
    return text.encode("utf-8")[:most].decode("utf-8", "ignore")


def last_bytes(text: str, most: int) -> str:
    """The longest end of `text` that takes at most `most` bytes as UTF-8, cut between characters."""
    data = text.encode("utf-8")
    return data[max(0, len(data) - most):].decode("utf-8", "ignore") if most else ""


def size_text(count: int) -> str:
    """A number of bytes in the largest unit that leaves one or more, one decimal unless whole.

    >>> size_text(131072), size_text(200000), size_text(7)
    ('128KB', '195.3KB', '7B')
    """
    for unit, scale in (("GB", MIB * KIB), ("MB", MIB), ("KB", KIB), ("B", 1)):
        if count >= scale:
            break
    return "%d%s" % (count // scale, unit) if count % scale == 0 else "%.1f%s" % (count / scale, unit)


def seconds_text(seconds: float) -> str:
    """Seconds as the texts write them: `30s`, `900s`, `0.7s`."""
    return "%gs" % round(seconds, 3) if seconds < 1e6 else "%ds" % seconds


def printable(value: object, instead: str = "\ufffd") -> str:
    """A value from outside as one line that any wire can carry: what cannot be printed, lone surrogates too, is replaced."""
    return "".join(c if c.isprintable() else instead for c in str(value))


def shown(value: object) -> str:
    """The same, short, fit to stand within a sentence."""
    text = printable(value, " ")
    return text if len(text) <= ECHO_CHARS else text[:ECHO_CHARS - 1] + "…"


def quoted(value: object) -> str:
    r"""A name or text from outside within one of the tool's own bracketed lines: a JSON string of what
    `shown` gives, in which no quotation mark ends the string and no `]` ends the line.

    >>> print(quoted("x); to stop: kill -9 -1"), quoted('a]\n"b"'))
    "x); to stop: kill -9 -1" "a\u005d \"b\""
    """
    return json.dumps(shown(value), ensure_ascii=False).replace("]", "\\u005d")


_SEQUENCE = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"      # CSI, OSC
_DROPPED_CONTROLS = dict.fromkeys(code for code in range(0x20) if chr(code) not in "\t\n\r")


def sanitise(text: str) -> str:
    """The text without CSI and OSC sequences and without control characters but tab, newline and carriage return;
    `\\r\\n` becomes a newline. Upholds REQ-BASH-021.2.

    >>> sanitise("\\x1b[31mred\\x1b[0m\\r\\n10%\\r20%\\x07")
    'red\\n10%\\r20%'
    """
    return re.sub(_SEQUENCE, "", text).translate(_DROPPED_CONTROLS).replace("\r\n", "\n")


_CLEAN: Mapping[Cleaning, Callable[[str], str]] = MappingProxyType({
    Cleaning.RENDERED: render, Cleaning.SANITISED: sanitise, Cleaning.PLAIN: lambda text: text.replace("\0", "\ufffd")})


def is_whole(stream: Captured) -> bool:
    """True if all of the stream was kept."""
    return stream.total_bytes == len(stream.head) + len(stream.tail)


def two_ends(stream: Captured) -> tuple[str, str]:
    """The text of both ends of a stream that was not kept whole, without the halves of the characters that the gap splits."""
    held = codecs.getincrementaldecoder("utf-8")("replace")
    return held.decode(stream.head), decode(re.sub(rb"\A[\x80-\xbf]{1,3}", b"", stream.tail))


def keep_ends(stream: Captured, profile: Profile) -> Fitted:
    """The stream's text if it takes at most `max_output_bytes`, raw and cleaned; else its two ends around the word [snip].
    Upholds REQ-BASH-001.3 and REQ-BASH-001.4."""
    got, clean = stream.total_bytes, _CLEAN[profile.cleaning]
    if is_whole(stream):
        head = tail = clean(decode(stream.head + stream.tail))
        got = max(got, len(head.encode("utf-8")))   # three bytes replace each invalid one
        if got <= profile.max_output_bytes:
            return Fitted(head, got, False)
    else:
        head, tail = map(clean, two_ends(stream))
    return Fitted(first_bytes(head, profile.snip_size) + SNIP + last_bytes(tail, profile.snip_size), got, True)


_UNFINISHED = (rb"(?:\r|\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\n]*\x1b?)?"
               rb"|[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")


def without_unfinished(stream: Captured) -> Captured:
    """What of a stream that goes on can be shown: a character, a sequence or a line end that may be half there is left for
    the next time. Upholds REQ-BASH-021.7."""
    half = re.search(_UNFINISHED, (stream.head[-KIB:] + stream.tail)[-KIB:])
    held = len(half.group()) if half else 0
    from_head = max(0, held - len(stream.tail))
    return Captured(stream.head[:len(stream.head) - from_head], stream.tail[:max(0, len(stream.tail) - held)],
                    stream.total_bytes - held, stream.newlines)


def keep_tail(stream: Captured, profile: Profile) -> Fitted:
    """The last whole lines within `max_output_lines` and `max_output_bytes`, and the record of what that leaves out; of a
    last line that is longer than that its end. The newline at the end is not shown and begins no line. Upholds REQ-BASH-021.3."""
    whole = is_whole(stream)
    text = _CLEAN[profile.cleaning](decode(stream.head + stream.tail) if whole else two_ends(stream)[1])
    lines = (text[:-1] if text.endswith("\n") else text).split("\n") if text else []
    total_lines = len(lines) if whole else stream.newlines + (not text.endswith("\n"))
    broken = not whole and len(lines) == 1
    if not whole and len(lines) > 1:
        del lines[0]            # its beginning is gone
    kept: list[str] = []
    size, limit = -1, None if whole else "bytes"
    for line in reversed(lines):
        size += len(line.encode("utf-8")) + 1
        if len(kept) == profile.max_output_lines or size > profile.max_output_bytes:
            limit = "lines" if len(kept) == profile.max_output_lines else "bytes"
            break
        kept.append(line)
    partial = bool(lines) and (not kept or broken)
    text = "\n".join(reversed(kept)) if kept else last_bytes(lines[-1], profile.max_output_bytes) if lines else ""
    record = Cut(total_lines, stream.total_bytes, max(len(kept), int(partial)), len(text.encode("utf-8")), limit is not None, limit, partial)
    return Fitted(text, stream.total_bytes, record.truncated, record)


def keep_head(stream: Captured, profile: Profile) -> Fitted:
    """The stream's text up to `max_output_chars` or `max_output_bytes`, cut between characters, with a line that says so.
    Upholds REQ-BASH-022.2 and REQ-BASH-023.2."""
    text = _CLEAN[profile.cleaning](decode(stream.head + stream.tail) if is_whole(stream) else two_ends(stream)[0])
    if profile.truncation is Truncation.HEAD_CHARS:
        head, mark = text[:profile.max_output_chars], HEAD_CHARS_CUT
    else:
        head, mark = first_bytes(text, profile.max_output_bytes), HEAD_BYTES_CUT
    cut = head != text or not is_whole(stream)
    return Fitted(head + mark if cut else head, stream.total_bytes, cut)


def kept_bytes(profile: Profile) -> tuple[int, int]:
    """How many bytes of a stream's beginning and of its end are needed, whatever they turn out to be, to fill what is shown."""
    most = profile.max_output_bytes
    return {Truncation.ENDS: (most // 2, most - most // 2), Truncation.TAIL: (0, profile.rolling_bytes),
            Truncation.HEAD_CHARS: (4 * profile.max_output_chars + 4, 0), Truncation.HEAD_BYTES: (most + 4, 0)}[profile.truncation]


def fit(stream: Captured, profile: Profile) -> Fitted:
    """A stream's text as the profile cleans it and cuts it to size."""
    return {Truncation.ENDS: keep_ends, Truncation.TAIL: keep_tail}.get(profile.truncation, keep_head)(stream, profile)


def exit_line(code: int, signal_name: str | None) -> str:
    """The line that says how a command failed. 128 + n is how bash reports that a signal ended its child.
    Upholds REQ-BASH-007.1 and REQ-BASH-007.2."""
    name = signal_name or SIGNAL_NAMES.get(code - 128)
    if name is None:
        return COMMAND_FAILED.format(code=code)
    return (COMMAND_KILLED_HARD if name == "SIGKILL" else COMMAND_KILLED).format(code=code, signal=name)


def status_line(outcome: Outcome) -> str:
    """The first line of an answer; empty after success, so that the output stands alone."""
    if outcome.status == "running":         # a background command was meant to
        return COMMAND_KEPT.format(limit=seconds_text(outcome.limit_s)) if outcome.limit_s else ""
    if outcome.status == "timed_out":
        return COMMAND_TIMED_OUT.format(limit=seconds_text(outcome.limit_s))
    if outcome.status == "cancelled":
        return COMMAND_CANCELLED
    if outcome.status != "exited":
        return SYSTEM_ERROR.format(reason=outcome.reason)
    return exit_line(outcome.exit_code, outcome.signal) if outcome.exit_code else ""


def saved_line(saved: Saved) -> str:
    """The line that says where the whole output is, or why it is nowhere. Upholds REQ-BASH-009.1 and REQ-BASH-009.4."""
    if saved.path is None:
        return FULL_OUTPUT_LOST.format(reason=saved.reason)
    template = FULL_OUTPUT_PARTLY if saved.reason else FULL_OUTPUT
    return template.format(path=printable(saved.path), reason=saved.reason)


def job_lines(outcome: Outcome) -> list[str]:
    """What the model needs to find a job again: its number, its file, and how to stop it if anything of it runs."""
    assert outcome.pid is not None and outcome.saved is not None
    started = JOB_STARTED.format(pid=outcome.pid, path=printable(outcome.saved.path))
    failed = outcome.error != "lost" and (outcome.status not in ("running", "exited") or outcome.exit_code)
    return [started] if failed else [started, JOB_REMINDER.format(pid=outcome.pid)]


def completion_note(outcome: Outcome, still: str) -> str:
    """The last words in a job's output file: how it ended, and who of it runs on. Upholds REQ-BASH-003.5 to REQ-BASH-003.7."""
    if outcome.status == "timed_out":
        how = "failed: timed out after " + seconds_text(outcome.limit_s)
    elif outcome.status == "cancelled":
        how = "failed: cancelled"
    elif outcome.status != "exited":
        how = "error: " + outcome.reason
    elif outcome.exit_code is None:         # of a leftover, which is nobody's child
        how = "error: exit status unknown"
    elif outcome.signal:
        how = "failed: signal: %d (%s)" % (outcome.exit_code - 128, outcome.signal)
    else:
        how = "failed: exit status: %d" % outcome.exit_code if outcome.exit_code else "completed"
    return JOB_NOTE.format(how=how + ("; still running: " + still if still else ""))


_NOTHING = Fitted("", 0, False)


def both(outcome: Outcome) -> tuple[Fitted, Fitted]:
    """The outcome's streams; one that there is not is empty."""
    stdout, stderr = (*outcome.streams, _NOTHING, _NOTHING)[:2]
    return stdout, stderr


def note_lines(outcome: Outcome) -> list[str]:
    """The notes as lines of their own."""
    return ["[%s]" % note for note in outcome.notes]


def format_brackets(outcome: Outcome, profile: Profile) -> str:
    """The answer as bracketed lines around the output: what happened, notes, what was cut, the output, where the rest is."""
    fitted = both(outcome)[0]
    lines = [line for line in (status_line(outcome), *note_lines(outcome)) if line]
    lines += job_lines(outcome) if outcome.pid is not None else []
    if fitted.cut:
        lines.append(TRUNCATED_MIDDLE.format(got=size_text(fitted.got_bytes), most=size_text(profile.max_output_bytes)))
    bare = not fitted.text and (outcome.status in ("failed", "rejected") or outcome.pid is not None)
    text = "\n".join(lines) + ("\n" if lines and not bare else "") + fitted.text
    if fitted.cut and outcome.saved is not None:
        text += ("" if text.endswith("\n") else "\n") + saved_line(outcome.saved)
    return text


def code_text(outcome: Outcome) -> str:
    """The exit code, with the signal's name where one ended the command; else why there is none."""
    code = outcome.exit_code
    if code is None:
        return {"timed_out": "none (timed out after %s)" % seconds_text(outcome.limit_s), "cancelled": "none (cancelled)"}.get(
            outcome.status, "unknown")
    name = outcome.signal or SIGNAL_NAMES.get(code - 128)
    return "%d (%s)" % (code, name) if name else str(code)


def saved_text(saved: Saved) -> str:
    """Where the full output is, as the end of a sentence."""
    template = TAIL_FILE_LOST if saved.path is None else TAIL_FILE_PARTLY if saved.reason else TAIL_FILE
    return template.format(path=printable(saved.path), reason=saved.reason)


def tail_notice(name: str, fitted: Fitted, saved: Saved | None) -> list[str]:
    """The line that follows a stream that was cut to its last lines. Upholds REQ-BASH-021.4."""
    cut = fitted.record
    if cut is None or not cut.truncated:
        return []
    shown_lines = "%d of %d lines" % (cut.output_lines, cut.total_lines)
    if cut.last_line_partial:
        shown_lines = "%d bytes of line %d" % (cut.output_bytes, cut.total_lines)
    return [TAIL_NOTICE.format(stream=name, shown=shown_lines, where=saved_text(saved) if saved is not None else "")]


def _last_lines(name: str, fitted: Fitted, most: int) -> list[str]:
    """A stream under a heading that says how many lines it shows exactly where that is not all."""
    lines = fitted.text.split("\n")
    if not fitted.cut and len(lines) <= most:
        return ["", name + ":", fitted.text]
    return ["", "%s (last %d lines):" % (name, min(len(lines), most)), "\n".join(lines[-most:])]


def format_sections(outcome: Outcome, profile: Profile) -> str:
    """The answer as sections for stdout, stderr and the exit code; for a job, what became of it. Upholds REQ-BASH-021.5
    to REQ-BASH-021.8."""
    stdout, stderr = both(outcome)
    sections = ["stdout:", stdout.text, *tail_notice("stdout", stdout, outcome.saved), "",
                "stderr:", stderr.text, *tail_notice("stderr", stderr, outcome.saved), ""]
    file = ["", saved_text(outcome.saved).lstrip()] if outcome.saved is not None else [""]
    if outcome.status == "running" and outcome.limit_s:
        lines = [BACKGROUNDED.format(limit=seconds_text(outcome.limit_s), pid=outcome.pid), *_last_lines("stdout", stdout, PARTIAL_LINES[0]),
                 *_last_lines("stderr", stderr, PARTIAL_LINES[1]), *file, MANAGE]
    elif outcome.status == "running":
        count = stdout.record.total_lines if stdout.record else 0
        lines = [STILL_RUNNING.format(pid=outcome.pid, count=count), stdout.text, *tail_notice("output", stdout, None), *file]
        lines[-1] += "]"
    elif outcome.pid is not None:
        ended = "exited with code " + code_text(outcome) if outcome.exit_code is not None else "ended, exit code " + code_text(outcome)
        lines = ["[Process %d %s." % (outcome.pid, ended)]
        names = ("output",) if len(outcome.streams) == 1 else ("stdout", "stderr")      # one: from its file, which holds both as they came
        for name, stream in zip(names, (stdout, stderr)):
            lines += _last_lines(name, stream, profile.max_output_lines)
        lines += file
        lines[-1] += "]"
    elif outcome.status in ("failed", "rejected"):
        lines = [SYSTEM_ERROR.format(reason=outcome.reason), *(["", *sections[:-1]] if stdout.text or stderr.text else [])]
    else:
        lines = [*sections, "exit code: " + code_text(outcome)]
    return "\n".join([*lines, *note_lines(outcome)])


def stream_fields(outcome: Outcome) -> dict[str, Any]:
    """The answer as the fields stdout, stderr and exitCode, or error where the command did not end by itself.
    Upholds REQ-BASH-022.1 and REQ-BASH-022.3."""
    stdout, stderr = both(outcome)
    fields: dict[str, Any] = {"stdout": stdout.text, "stderr": stderr.text} if outcome.streams else {}
    if outcome.status == "exited":
        fields["exitCode"] = outcome.exit_code
    elif outcome.status == "rejected":
        fields["error"] = outcome.reason
    else:
        why = {"timed_out": "timed out after " + seconds_text(outcome.limit_s), "cancelled": "cancelled"}.get(outcome.status, outcome.reason)
        fields["error"] = "bash '%s': %s" % (outcome.command[:ECHO_CHARS], why)
    return {**fields, "notes": list(outcome.notes)} if outcome.notes else fields


def format_json(outcome: Outcome, profile: Profile) -> str:
    """The fields as JSON text."""
    return json.dumps(stream_fields(outcome), ensure_ascii=False)


def plain_code(outcome: Outcome) -> int:
    """The exit code; -1 where there is none, a signal's included."""
    return -1 if outcome.exit_code is None or outcome.signal else outcome.exit_code


def format_labels(outcome: Outcome, profile: Profile) -> str:
    """The answer as the exit code, or what came instead of one, before the labelled streams. Upholds REQ-BASH-023.1 and
    REQ-BASH-023.3."""
    stdout, stderr = both(outcome)
    first = {"exited": "Exit code: %d" % plain_code(outcome), "timed_out": "Command timed out after " + seconds_text(outcome.limit_s),
             "cancelled": "Cancelled", "failed": "Failed to execute: " + outcome.reason}.get(outcome.status, outcome.reason)
    body = "STDOUT:\n%s\nSTDERR:\n%s" % (stdout.text, stderr.text) if stderr.text else stdout.text
    text = first + "\n" + body if body or outcome.status == "exited" else first
    notes = note_lines(outcome)
    return text + ("" if not notes or text.endswith("\n") else "\n") + "\n".join(notes)


def details_of(outcome: Outcome, profile: Profile) -> dict[str, Any]:
    """What a profile says to programs beside the text."""
    if profile.format is Format.LABELS:
        return {"exit_code": plain_code(outcome), "success": outcome.exit_code == 0}
    if profile.format is Format.JSON:
        return stream_fields(outcome)
    records = [fitted.record for fitted in both(outcome)]
    return {name: record._asdict() for name, record in zip(("stdout", "stderr"), records) if record is not None}


_FORMATS: Mapping[Format, Callable[[Outcome, Profile], str]] = MappingProxyType({
    Format.BRACKETS: format_brackets, Format.SECTIONS: format_sections, Format.JSON: format_json, Format.LABELS: format_labels})


def present(outcome: Outcome, profile: Profile) -> Result:
    """The outcome in the words of a profile."""
    stdout, stderr = both(outcome)
    saved = outcome.saved
    if saved is not None and saved.capped:
        outcome = outcome._replace(notes=(*outcome.notes, NOTE_CAPPED.format(cap=size_text(FILE_CAP_BYTES))))
    failed = outcome.status not in ("exited", "running") or (profile.nonzero_is_error and bool(outcome.exit_code))
    return Result(text=_FORMATS[profile.format](outcome, profile), is_error=failed, status=outcome.status,
                  exit_code=outcome.exit_code, signal=outcome.signal, stdout=stdout.text, stderr=stderr.text,
                  truncated=stdout.cut or stderr.cut, total_bytes=outcome.total_bytes, pid=outcome.pid,
                  output_file=saved.path if saved else None, duration_s=outcome.duration_s, error=outcome.error,
                  notes=outcome.notes, details=details_of(outcome, profile))


# ---- 5 Decisions ----------------------------------------------------------------------------------------
# What to admit, what to hand on, what to do next: functions of values, with the time passed in.

OUTPUT_SCHEMA: Mapping[str, Any] = MappingProxyType({
    "text": {"type": "string", "description": "What the model reads: the output, and how the command ended"},
    "status": {"type": "string", "enum": ["exited", "timed_out", "cancelled", "running", "rejected", "failed", "lost"]},
    "exit_code": {"type": ["integer", "null"], "description": "null where the command did not end by itself"},
    "signal": {"type": ["string", "null"]},
    "truncated": {"type": "boolean"},
    "total_bytes": {"type": "integer"},
    "pid": {"type": ["integer", "null"], "description": "of a job"},
    "output_file": {"type": ["string", "null"]},
    "duration_s": {"type": "number"},
    "error": {"type": ["string", "null"], "description": "a stable id where something other than the command went wrong"}})


def structured(result: Result) -> dict[str, Any]:
    """A result as MCP's structured content. Some clients show a model this in the place of the text, so the text is in it,
    and each byte of the output once: the streams stay out. Upholds REQ-BASH-025.6."""
    return {name: getattr(result, name) for name in OUTPUT_SCHEMA}


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    nullable = dict(schema, type=[schema["type"], "null"])
    return dict(nullable, enum=[*schema["enum"], None]) if "enum" in schema else nullable


def _mode(name: str, limit_s: float) -> str:
    limit = "%gmin" % (limit_s / 60) if limit_s >= 60 and limit_s % 60 == 0 else seconds_text(limit_s)
    return "%s (%s)" % (name, "detached" if name == "background" else limit + " timeout")


def define(profile: Profile, cwd: str, style: str) -> dict[str, Any]:
    """What a model, or its client, is told of the tool. Upholds REQ-BASH-006.1 to REQ-BASH-006.3 and REQ-BASH-006.7 to 006.9."""
    limits = {"{modes}": ", ".join(_mode(*item) for item in profile.timeouts_s.items()), "{default_ms}": "%d" % (1000 * profile.timeouts_s["default"])}
    properties = {name: dict(schema) for name, schema in profile.parameters.items()}
    for schema, (word, text) in itertools.product(properties.values(), limits.items()):
        schema["description"] = schema["description"].replace(word, text)
    if "mode" in properties:
        properties["mode"]["enum"] = list(profile.timeouts_s)
    arguments: dict[str, Any] = {"type": "object", **({"required": list(profile.required)} if profile.required else {}),
                                 "properties": properties, "additionalProperties": False}
    told = {"name": "bash", "description": profile.description.replace("{cwd}", printable(cwd))}
    if style == "anthropic":
        return {**told, "input_schema": arguments}
    if style == "openai":       # its strict form knows no key that may be left out
        arguments.update(required=list(properties), properties={
            name: value if name in profile.required else _or_null(value) for name, value in properties.items()})
        return {"type": "function", **told, "parameters": arguments, "strict": True}
    if style == "mcp":
        return {**told, "title": "Bash", "inputSchema": arguments,
                "outputSchema": {"type": "object", "required": list(OUTPUT_SCHEMA), "properties": deepcopy(dict(OUTPUT_SCHEMA)),
                                 "additionalProperties": False},
                "annotations": {"title": "Bash", "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False,
                                "openWorldHint": True}}
    raise ValueError('style must be "anthropic", "openai" or "mcp", got %r' % (style,))


def load_json(text: str | bytes) -> Any:
    """The value of a JSON text, UTF-8. Raises ValueError for what is none, nesting and numbers beyond reason included."""
    def _no_number(name: str) -> NoReturn:
        raise ValueError("%s is no JSON" % name)

    def _integer(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise ValueError("a number of %d digits" % len(digits))
        return int(digits)

    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8"), parse_constant=_no_number, parse_int=_integer)
    except RecursionError:
        raise ValueError("too deeply nested") from None


def _type_name(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _quoted(names: Iterable[object]) -> str:
    return ", ".join('"%s"' % shown(name) for name in names)


_JSON_TYPES: Mapping[str, Callable[[object], bool]] = MappingProxyType({
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))})
_VERBS = ("command", "check_pid", "kill_pid")


def _wrong(reason: str) -> Rejected:
    return Rejected("invalid_arguments", "invalid arguments: " + reason)


def _parse_command(command: str, mode: object, timeout_ms: float | None, profile: Profile) -> Request | Rejected:
    if not isinstance(mode, str) or mode not in profile.timeouts_s:
        got = '"%s"' % shown(mode) if isinstance(mode, str) else _type_name(mode)
        return _wrong('"mode" must be one of %s, got %s' % (_quoted(profile.timeouts_s), got))
    if "\0" in command:
        return _wrong('"command" holds a NUL character (at index %d), which no shell can take' % command.index("\0"))
    lone = re.search("[\ud800-\udfff]", command)
    if lone is not None:
        return _wrong('"command" holds a lone surrogate (U+%04X at index %d), which is no text' % (ord(lone.group()), lone.start()))
    return Request(command, mode, None if timeout_ms is None else timeout_ms / 1000)


def parse_arguments(arguments: object, profile: Profile) -> Request | Inquiry | Rejected:
    """What a model sent, as a request; or why not, naming the key and what is allowed. Null means "not given".
    Upholds REQ-BASH-006.4, REQ-BASH-006.5, REQ-BASH-012.3 and REQ-BASH-021.1."""
    if isinstance(arguments, (str, bytes)):
        try:
            arguments = load_json(arguments)
        except ValueError as problem:
            return _wrong("not a JSON object (%s)" % shown(problem))
    if not isinstance(arguments, Mapping):
        return _wrong('expected a JSON object such as {"command": "ls"}, got %s' % _type_name(arguments))
    unknown = [key for key in arguments if key not in profile.parameters]
    if unknown:
        return _wrong('unknown key %s; allowed: %s' % (_quoted(unknown[:LEFTOVERS_NAMED]), _quoted(profile.parameters)))
    given = {key: value for key, value in arguments.items() if value is not None}
    for key, value in given.items():
        schema = profile.parameters[key]
        kind = schema["type"]
        if not _JSON_TYPES[kind](value) and key != "mode":
            return _wrong('"%s" must be %s %s, got %s' % (key, "an" if kind == "integer" else "a", kind, _type_name(value)))
        if kind == "integer" and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            got = "%d" % value if abs(value) < 1e15 else "a number of another size"     # a thousand digits say no more
            return _wrong('"%s" must be from %s to %s milliseconds, got %s' % (key, schema.get("minimum"), schema.get("maximum"), got))
    verbs = [verb for verb in _VERBS if verb in profile.parameters]
    chosen = [verb for verb in verbs if verb in given]
    if len(verbs) > 1 and len(chosen) != 1:
        return _wrong("exactly one of %s is required, got %s" % (_quoted(verbs), _quoted(chosen) or "none"))
    if not chosen:
        return _wrong('"command" is required: the shell command to execute, a string')
    if chosen != ["command"]:
        if not -2 ** 31 < given[chosen[0]] < 2 ** 31:
            return _wrong('"%s" must be a process ID, got a number of another size' % chosen[0])
        return Inquiry(int(given[chosen[0]]), chosen == ["kill_pid"])
    return _parse_command(given["command"], given.get("mode", "default"), given.get("timeout"), profile)


_NAME_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
_NUMBER = r"(?:[+-]?[0-9]+(?:\.[0-9]+)?)?"
# Each alternative takes a time that grows in proportion to the value: what repeats without a bound
# stops at the text that could begin the same alternative again, or stands behind a lookbehind.
_SECRET_VALUE = (
    r"(?a)://[^\s/?#@:\[]*:"                                        # a URL with a password;
    r'(?:[^\s/?#@]+|(?![0-9]{1,5}[/?#,])(?:(?!://)[^\s@"<>])+)@'    # host:80/a@b has none
    r"|https?://(?=[^\s/?#@:]*[0-9])[\w-]{20,}:?@"                  # a token as the user
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY"
    r"|(?i:\b(?:AccountKey|SharedAccessKey|Password|Pwd)="                        # $NAME is none
    r"(?!(?-i:\$(?:[{(]|[A-Z_]{2})))[^\s;]{4})"
    r"|(?i:-[DP][\w.]*(?:password|passwd|passphrase|secret|token)="               # of a JVM
    r"(?!(?:true|false|[0-9]+)(?:\s|$)|(?-i:\$(?:[{(]|[A-Z_]{2})))\S)"
    r"|(?i:\bAuthorization[^\w\s]?\s?[:=]\s?[^\w\s]?(?:Basic|Bearer|Token)(?:\s|%20)[^\s$]{4})"
    r"|(?i:\b(?:(?:Private|Job|Deploy|X-Auth|X-Vault)-Token|X-Api-Key)\s?[:=]\s?[^\s$]{4})"
    r"|(?i:[?&](?:access_?token|api_?key|client_secret|token)=[^\s&$]{8})"
    r"|(?:^|[?&])sig=[\w%+/-]{20}|X-(?:Amz|Goog)-Signature=[0-9a-f]{32}"          # signed URLs
    r"|hooks\.slack\.com/(?:services|workflows|triggers)/T"
    r"|discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/[0-9]"
    r"|office(?:365)?\.com/webhook(?:b2)?/[0-9a-f]"
    r"|(?<![A-Za-z0-9_-])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22}"          # known tokens
    r"|gl(?:pat|rt|dt|ft|ptt|cbt|agent|soat|oas)-[\w-]{20}|npm_[A-Za-z0-9]{36}"
    r"|hf_[A-Za-z0-9]{30}|AIza[\w-]{35}|(?:AKIA|ASIA)[A-Z0-9]{16}|xox[abeoprs]-[\w-]{10}"
    r"|xapp-[\w-]{10}|(?:sk|rk)_(?:live|test)_\w{10}|sk-[\w-]{20}|gsk_[A-Za-z0-9]{40}"
    r"|SG\.[\w-]{16,}\.[\w-]{16}|pypi-[\w-]{16}|dop_v1_[0-9a-f]{32}|hv[brs]\.[\w-]{20}"
    r"|dckr_[po]at_[\w-]{20}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|lin_api_\w{32}|GOCSPX-[\w-]{20}"
    r"|ya29\.[\w-]{20}|AGE-SECRET-KEY-[A-Z0-9-]{20}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})")
_SECRET_PAIR = r"(?a)BUNDLE_(?=\w*__)\w+=(?!-)[^\s:/]+:[^\s:/]+"   # Bundler: a host's user:password


def looks_secret(name: str, value: str) -> bool:
    """True for a variable whose value has a secret's shape, or whose name says that it is secret,
    word by word, where the value is no plain setting.

    >>> looks_secret("MY_API_KEY", "x"), looks_secret("KEYBOARD_LAYOUT", "us"), looks_secret("URL", "db://me:pw@host/")
    (True, False, True)
    >>> looks_secret("MAX_TOKENS", "4096"), looks_secret("DB_AUTH_METHOD", "trust")
    (False, False)
    """
    if re.search(_SECRET_VALUE, value):
        return True
    if re.fullmatch(_SECRET_PAIR, name + "=" + value):
        return True
    if value.lower() in PLAIN_VALUES or re.fullmatch(_NUMBER, value):
        return False
    if name in PLAIN_NAMES or any(re.fullmatch(group, name) for group in ENV_GROUPS):
        return False
    words = [word.upper() for word in (*name.split("_"), *re.findall(_NAME_WORD, name))]
    if words[-1] in LOCATION_WORDS:
        return False
    telling = set(words) - PLAIN_WORDS
    if "PUBLIC" in words or "PUB" in words:
        telling -= {"KEY", "KEYS"}
    if name.startswith("PW_"):      # Playwright
        telling -= {"PW"}
    return any(word in SECRET_WORDS or word.endswith(SECRET_ENDINGS) for word in telling)


def scrub_env(environ: Mapping[str, str], keep: Sequence[str] = ()) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment without secrets and without what bends bash, with the non-interactive defaults forced; and the
    names of what it withholds.

    `keep` are names, or globs of names, that pass although they look secret. A group of which one
    variable is withheld is withheld whole.
    Upholds REQ-BASH-004.2, REQ-BASH-004.3 and REQ-BASH-014.1 to REQ-BASH-014.4.
    """
    kept = {name for name in environ if any(fnmatch.fnmatchcase(name, pattern) for pattern in keep)}
    dropped = {name for name in environ if name in DROPPED_NAMES or name.startswith(DROPPED_PREFIX)}
    secret = {name for name, value in environ.items() if looks_secret(name, value) and not name.startswith(RUN_PREFIX)}
    withheld = secret - kept - dropped
    for pattern in ENV_GROUPS:
        group = {name for name in environ if re.fullmatch(pattern, name)}
        if group & withheld:
            withheld |= group
    env = {name: value for name, value in environ.items() if name not in dropped | withheld}
    env.update(NON_INTERACTIVE)
    if not any(env.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        env["LANG"] = "C.UTF-8"
    return env, tuple(sorted(withheld))


def complete_env(environ: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """An environment that the host chose, as it is, plus the non-interactive defaults that it lacks.
    Upholds REQ-BASH-014.5."""
    if not all(isinstance(part, str) for pair in environ.items() for part in pair):
        raise ValueError("env maps strings to strings")
    runs = {name: value for name, value in host.items() if name.startswith(RUN_PREFIX)}
    return {**NON_INTERACTIVE, **runs, **environ}


_MARK = RUN_PREFIX + "[0-9a-f]{32}"
_RECORD_TYPES: dict[str, Any] = {name: list if value == () else type(value) for name, value in JobRecord._field_defaults.items()}
_RECORD_TYPES.update(created=(int, float), limit_s=(int, float), exit_code=int, signal=str, error=str)


def job_record(lines: bytes) -> JobRecord:
    """What a record says, line upon line. Whoever reads it may end processes by it: of what was cut off or damaged,
    nothing is believed. Upholds REQ-BASH-003.14."""
    facts: dict[str, Any] = {}
    for line in lines.split(b"\n"):
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for name, value in said.items() if isinstance(said, dict) else ():
            fits = name in _RECORD_TYPES and isinstance(value, _RECORD_TYPES[name])
            if fits and not (isinstance(value, bool) and _RECORD_TYPES[name] is int):
                facts[name] = value
    known = JobRecord(**facts)
    numbers = [one for one in known.members if isinstance(one, list) and [type(n) for n in one] == [int, int]]
    sound = re.fullmatch(_MARK, known.mark) and known.pid > 1 and [type(n) for n in known.keeper] in ([], [int, int])
    return known._replace(notes=[str(note) for note in known.notes], members=numbers if sound else (),
                          keeper=known.keeper if sound else (), pid=known.pid if sound else 0,
                          limit_s=known.limit_s if 0 <= known.limit_s < 1e9 else 0.0)


def next_action(facts: Facts, limits: Limits, now: float) -> tuple[Action, float]:
    """What to do with a run, and the moment to ask again if nothing happens before.

    It looks at what is true, not at how it came about, so that no order of events is a special case:

        a stop is due?   shell ended?   last signal   then
        no               no             -             WAIT for the exit or the timeout; at the timeout KEEP what is to be kept
        no               yes            -             FINISH at EOF, after the idle bound, or after the total bound
        yes              any            none          TERM (with CONT, so that the stopped hear it)
        yes              any            TERM          FINISH when all are gone; KILL after the grace or at a second stop
        yes              any            KILL          FINISH when all are gone, or after UNKILLABLE_S
    Upholds REQ-BASH-002.3, REQ-BASH-004.5, REQ-BASH-004.6, REQ-BASH-011.1 and REQ-BASH-015.3."""
    keep_s, timeout_s = limits.kept_s, limits.timeout_s
    if facts.term_s is None and not facts.stops:
        if facts.exited_s is not None:
            until = min(facts.output_s + limits.drain_idle_s, facts.exited_s + limits.drain_total_s)
            return (Action.FINISH if facts.at_eof or now >= until else Action.WAIT), until
        until = facts.started_s + (keep_s if facts.kept and keep_s is not None else timeout_s)
        late = Action.TERM if facts.kept or keep_s is None else Action.KEEP
        return (late if now >= until else Action.WAIT), until
    if facts.term_s is None:
        return Action.TERM, now
    if facts.exited_s is not None and not facts.survivors:
        return Action.FINISH, now
    if facts.kill_s is None:
        until = facts.term_s + limits.grace_s
        return (Action.KILL if facts.stops > 1 or now >= until else Action.WAIT), until
    until = facts.kill_s + UNKILLABLE_S
    return (Action.FINISH if now >= until else Action.WAIT), until


def status_of(returncode: int) -> tuple[int, str | None]:
    """The exit code and the name of the signal, from subprocess's return code: signal n reads as 128 + n, as in any shell.

    Upholds REQ-BASH-007.2.

    >>> status_of(3), status_of(-9)
    ((3, None), (137, 'SIGKILL'))
    """
    if returncode >= 0:
        return returncode, None
    return 128 - returncode, SIGNAL_NAMES.get(-returncode, "signal %d" % -returncode)


# ==== Below this line the file touches the operating system; a test holds the line. =========================
#
# ---- 6 Processes ----------------------------------------------------------------------------------------
# Only the monitor thread of a run signals or reaps. A shell that has ended stays a zombie until everything
# else is settled: a zombie pins its number, so the group and the session that carry it cannot be anybody
# else's. Output goes through a pipe, not straight into a file: `echo x > /dev/stderr` would truncate the file.
# EOF is not exit and exit is not EOF: a leftover holds the pipe after the exit, `exec >&-` closes it before.

def _own_proc() -> str | None:
    """Where the processes of this process's own namespace are listed; another namespace's numbers would hit strangers."""
    try:
        return "/proc" if os.readlink("/proc/self") == str(os.getpid()) else None
    except OSError:
        return None


PROC = _own_proc()      # what a platform may lack; see SPEC.md, "Fallbacks"
HAS_PIDFD = hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")
HAS_WAITID = hasattr(os, "waitid")
_SETPIPE_SZ = 1031      # of Linux; fcntl names it since 3.10, and elsewhere it is EINVAL

# What the shell is told in its argv: to read its text, to give up that stdin, and to evaluate the text. The variable is the
# one in which `bash -c` itself keeps its text; a TMOUT of the host's would end the reading.
BOOTSTRAP = "IFS= TMOUT=0 read -r -d '' BASH_EXECUTION_STRING || exit; exec </dev/null; eval -- \"$BASH_EXECUTION_STRING\""


class SpawnError(Exception):
    """A run that could not begin: `args` are the stable id and the sentence."""


def _reason(problem: BaseException) -> str:
    return problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)


def _quietly(act: Callable[..., object], *args: object) -> None:
    try:
        act(*args)
    except OSError:
        pass


def _read_file(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _write_all(fd: int, data: bytes | memoryview) -> None:
    """Writes all of it. Somebody who shares the descriptor may have made it one that does not block."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view):]
        except BlockingIOError:
            poller = select.poll()
            poller.register(fd, select.POLLOUT)
            poller.poll()


# This file, for copies of it that outlive this process. It may have been edited since it was loaded, or be no file at all.
_FILE = os.path.abspath(globals().get("__file__", ""))


def _file_identity() -> tuple[int, int, int] | None:
    try:
        info = os.stat(_FILE)
        return (info.st_ino, info.st_size, info.st_mtime_ns) if stat.S_ISREG(info.st_mode) else None
    except OSError:
        return None


_LOADED = _file_identity()


def _own_sha256() -> str:
    import hashlib      # 2 ms, for jobs and --version alone
    return hashlib.sha256(_read_file(_FILE)).hexdigest()


# A fork of the host while a pipe of ours is being handed on would give the child its write end too: the child would look like
# a leftover, or keep the guard waiting; with a record's descriptor it would hold the lock that says that a job lives. It closes
# what stands here. (A lock over every fork would do the same, and deadlock with a handler, or a __del__, that runs a command
# while the lock is held.)
_not_for_forks: set[int] = set()


def _forget_pipes() -> None:
    for fd in _not_for_forks:
        _quietly(os.close, fd)
    _not_for_forks.clear()


os.register_at_fork(after_in_child=_forget_pipes)


def _close(*fds: int | None) -> None:
    for fd in fds:
        if fd is not None and fd >= 0:
            _not_for_forks.discard(fd)
            os.close(fd)


def _ready(fd: int, within_s: float) -> bool:
    """True once there is something to read, an end, or an error."""
    poller = select.poll()      # not select.select, which ends at descriptor 1023
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(1000 * max(0.0, min(within_s, 3600.0))))


def _create(path: str, flags: int) -> int:
    """A descriptor of a new file that is this user's alone. Raises OSError."""
    fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)    # the umask may have taken more away
    return fd


def _open_regular(path: str, flags: int) -> int:
    """A descriptor of a file that a job may have replaced by a FIFO, a device, a link. Raises OSError for those."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "no regular file", path)
    return fd


def _temporary_folders() -> Iterator[str]:
    for base in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp"):
        if base:
            yield os.path.abspath(base)


_OUTPUT_NAME = r"(?:output|pipe-bash)-[0-9a-f]{12}\.log"     # a folder that the host gave may hold files of its own


def _record_path(output: str) -> str:
    return output[:-len(".log")] + ".job"


def _make_private(path: str) -> None:
    """Makes a folder that its owner can use, whatever the umask. Raises FileExistsError, and OSError."""
    os.mkdir(path, 0o700)
    os.chmod(path, 0o700)


class Folder:
    """Where a tool's files are: private (0700), made when the first file is, emptied of what no answer named. OSError where it
    cannot be made, or written to."""

    def __init__(self, given: str | None, prefix: str = "output-", shared: bool = False) -> None:
        """`given`: the folder to use. `shared`: that for temporary files, where the jobs of others are none of this tool's."""
        self._given, self._prefix = given, prefix
        self._mine: list[str] | None = [] if shared else None
        self._made: str | None = None
        self._name = "bash-tool-" + os.urandom(6).hex()     # one for all threads that make it at once: a lock could be met held
        self._unnamed: set[str] = set()

    def path(self) -> str:
        """The folder, made if need be. Raises OSError."""
        if self._mine is not None:
            return next((base for base in _temporary_folders() if os.access(base, os.W_OK)), "/tmp")
        if self._given is not None:
            os.makedirs(self._given, 0o700, exist_ok=True)
            return self._given
        if self._made is not None and os.path.isdir(self._made):    # a cleaner of /tmp may have been here
            return self._made
        problem: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        for base in _temporary_folders():
            path = os.path.join(base, self._name)
            try:
                _make_private(path)
            except FileExistsError:         # another thread was faster
                pass
            except OSError as failed:
                problem = failed
                continue
            self._made = path
            return path
        raise problem

    def create(self) -> tuple[int, str]:
        """A new output file, open for appending and locked for as long as somebody writes."""
        folder = self.path()
        self._make_room(folder)
        path = os.path.join(folder, "%s%s.log" % (self._prefix, os.urandom(6).hex()))
        fd = _create(path, os.O_WRONLY | os.O_APPEND)
        self._unnamed.add(path)
        if self._mine is not None:
            self._mine = [mine for mine in self._mine if os.path.exists(_record_path(mine))] + [path]
        _quietly(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd, path

    @staticmethod
    def _make_room(folder: str) -> None:
        """Removes the oldest finished output files while the folder holds too much. The lock tells who is finished:
        the kernel drops it with its writer, however that ended. Upholds REQ-BASH-009.6."""
        files: list[tuple[float, int, str]] = []
        for entry in os.scandir(folder):
            if re.fullmatch(_OUTPUT_NAME, entry.name):
                try:
                    info = entry.stat(follow_symlinks=False)
                    files.append((info.st_mtime, info.st_size, entry.path))
                except OSError:         # somebody else's folder too: it may be gone by now
                    pass
        used = FILE_CAP_BYTES + sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if used <= FOLDER_CAP_BYTES:
                break
            try:
                with open(_open_regular(path, os.O_RDONLY), "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
                    used -= size
                    os.unlink(_record_path(path))
            except OSError:
                pass

    def jobs(self) -> Iterator[str]:
        """The output files that a record stands beside. Makes no folder."""
        folder = self._given or self._made
        try:
            entries = [os.path.join(folder, name) for name in os.listdir(folder)] if folder else map(_record_path, self._mine or ())
        except OSError:
            return
        for record in entries:
            output = record[:-len("job")] + "log"
            if record.endswith(".job") and re.fullmatch(_OUTPUT_NAME, os.path.basename(output)):
                yield output

    def discard(self, path: str) -> None:
        """Removes a file that no answer will name, and the record beside it."""
        self._unnamed.discard(path)
        _quietly(os.unlink, path)
        _quietly(os.unlink, _record_path(path))

    def named(self, path: str | None) -> None:
        """From now on the file stays: an answer names it."""
        self._unnamed.discard(path or "")

    def scratch(self) -> str:
        """A new empty folder to run a command in whose own is gone."""
        name = "scratch-" + os.urandom(6).hex()
        try:
            path = os.path.join(self.path(), name)
            _make_private(path)
        except OSError:
            path = os.path.join("/dev/shm", "bash-tool-" + name)
            _make_private(path)
        return path

    def close(self) -> None:
        """Removes the files that no answer named, and the folder if it is ours and empty."""
        for path in list(self._unnamed):
            self.discard(path)
        _quietly(os.rmdir, self._made or "")


def _append(blocks: deque[bytes], chunk: bytes) -> None:
    """Adds to a row of blocks; small chunks are joined, so that a byte at a time does not cost an object per byte."""
    if blocks and len(blocks[-1]) + len(chunk) <= 4 * KIB:
        blocks[-1] += chunk
    else:
        blocks.append(chunk)


class OutputBuffer:
    """The first and the last bytes of one stream, however long it is. The total counts all. Upholds REQ-BASH-010.1."""

    def __init__(self, head_bytes: int, tail_bytes: int, count_lines: bool = False) -> None:
        self.total_bytes = self._in_tail = self._newlines = 0
        self._count_lines = count_lines         # it costs a third of the throughput
        self._head_bytes, self._tail_bytes = head_bytes, tail_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()

    def add(self, chunk: bytes) -> None:
        """Takes in what arrived, and forgets from the middle what there is no room for."""
        self.total_bytes += len(chunk)
        if self._count_lines:
            self._newlines += chunk.count(b"\n")
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            _append(self._tail, chunk)
            self._in_tail += len(chunk)
            while self._tail and self._in_tail - len(self._tail[0]) >= self._tail_bytes:
                self._in_tail -= len(self._tail.popleft())

    def captured(self) -> Captured:
        """What is kept by now, and the counts of all that came."""
        tail = b"".join(self._tail)
        return Captured(bytes(self._head), tail[max(0, len(tail) - self._tail_bytes):], self.total_bytes, self._newlines)


class Spool:
    """A run's raw bytes in the order of their arrival: in memory while they fit there, then in a file. One that cannot be made
    or written ends the saving, never the run. Upholds REQ-BASH-009.2 to REQ-BASH-009.5."""

    def __init__(self, folder: Folder, file: tuple[int, str] | None = None) -> None:
        """`file`: a descriptor and the path of a file that was made already, for a job."""
        self._folder = folder
        self._pending: deque[bytes] | None = deque()
        self.fd: int | None = file[0] if file else None
        self.saved: Saved | None = Saved(file[1], "", False) if file else None
        self._room = max(0, FILE_CAP_BYTES - os.fstat(file[0]).st_size) if file else FILE_CAP_BYTES

    def add(self, chunk: bytes) -> None:
        """Takes in what arrived. Raises nothing: a file that fails is told in `saved`."""
        if self.saved is not None:
            self._write(chunk)
        elif self._pending is not None:
            _append(self._pending, chunk)

    def forget(self) -> None:
        """Nobody will ask for the whole output: from now on it is kept only if it goes to a file after all."""
        self._pending = None

    def spill(self) -> Saved:
        """From now on the bytes go to a file, those from before included."""
        if self.saved is None:
            try:
                self.fd, path = self._folder.create()
                self.saved = Saved(path, "", False)
            except OSError as problem:
                self.saved = Saved(None, _reason(problem), False)
            pending, self._pending = self._pending, None
            for block in pending or ():
                self._write(block)
        return self.saved

    def _write(self, chunk: bytes) -> None:
        if self.fd is None or self.saved is None or self.saved.capped or self.saved.reason:
            return
        try:
            view = memoryview(chunk)[:self._room]
            self._room -= len(view)
            _write_all(self.fd, view)
            if len(view) < len(chunk):
                self.saved = self.saved._replace(capped=True)
                os.write(self.fd, NOTE_CAPPED_IN_FILE.format(cap=size_text(FILE_CAP_BYTES)).encode())
        except OSError as problem:
            self.saved = self.saved._replace(reason=_reason(problem))

    def close(self) -> None:
        """Gives back the descriptor. Closing twice is closing once."""
        _close(self.fd)         # and with it the lock that says that somebody writes
        self.fd = None


class LiveText:
    """Output on its way to somebody who watches, bounded: added by the monitor, taken by the caller. Without a lock, since a
    handler may strike inside `take`: each count is written by one side alone. Upholds REQ-BASH-016.1 and REQ-BASH-016.2."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[int, bytes]] = deque()
        self._added = self._dropped = self._taken = self._told = 0
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in Streams]    # one per pipe: each splits its own characters

    def add(self, chunk: bytes, pipe: int = 0) -> None:
        """Drops the oldest where too much waits to be taken."""
        self._chunks.append((pipe, chunk))
        self._added += len(chunk)
        while self._added - self._taken - self._dropped > LIVE_BYTES or len(self._chunks) > LIVE_BYTES // 64:
            try:
                self._dropped += len(self._chunks.popleft()[1])
            except IndexError:
                break

    def take(self, final: bool = False) -> str:
        """What has come since the last time, no character split; with `final` also the half of one."""
        text = ""
        for _ in range(len(self._chunks)):
            try:
                pipe, chunk = self._chunks.popleft()
            except IndexError:
                break
            self._taken += len(chunk)
            text += self._decoders[pipe].decode(chunk)
        skipped, self._told = self._dropped - self._told, self._dropped
        note = NOTE_LIVE_SKIPPED.format(size=size_text(skipped)) if skipped else ""
        return note + text + "".join(decoder.decode(b"", final) for decoder in self._decoders)


def _anonymous_file(data: bytes) -> int | None:
    """A descriptor of a file without a name that holds the data, in memory if possible; None where there is no room."""
    for base in itertools.chain((None,), _temporary_folders()):
        fd = None
        try:
            if base is None:
                fd = os.memfd_create("bash-tool", os.MFD_CLOEXEC)
            else:
                path = os.path.join(base, "bash-tool-" + os.urandom(6).hex())
                fd = _create(path, os.O_RDWR)
                os.unlink(path)
            _write_all(fd, data)
            os.lseek(fd, 0, os.SEEK_SET)
            return fd
        except (OSError, AttributeError):   # no memfd on this platform, no such folder, or no room in it
            _close(fd)
    return None


class CommandText:
    """The command on its way to the shell's stdin, ended by NUL: in no argv, of any length, on no disk if possible.

    A memfd, else an unlinked file: the shell's place in it is ours too, so it tells how far the shell has read. Else a
    pipe, which bash reads byte by byte. Upholds REQ-BASH-012.1 and REQ-BASH-012.2."""

    def __init__(self, text: bytes) -> None:
        self._size = len(text) + 1
        self._unsent = memoryview(b"")
        self.writer: int | None = None       # of the pipe, until all is sent
        fd = _anonymous_file(text + b"\0")
        if fd is None:
            fd, self.writer = os.pipe()
            os.set_blocking(self.writer, False)
            self._unsent = memoryview(text + b"\0")
            self.feed()
        self.fd = fd

    def feed(self) -> bool:
        """Writes into the pipe what goes without waiting, and closes it once it has taken all. True if it has."""
        assert self.writer is not None
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self.writer, self._unsent):]
        except BlockingIOError:
            return False
        os.close(self.writer)
        self.writer = None
        return True

    def unread(self) -> bool:
        """True if the shell, now ended, has not read the text to its end."""
        if self._unsent:
            return True
        try:
            return os.lseek(self.fd, 0, os.SEEK_CUR) < self._size
        except OSError:         # a pipe: all was sent, so what is left in it was not read
            os.set_blocking(self.fd, False)
            try:
                return bool(os.read(self.fd, 1))
            except BlockingIOError:
                return False

    def close(self) -> None:
        """Gives back the descriptors. Closing twice is closing once."""
        _close(self.fd, self.writer)
        self.fd, self.writer = -1, None


class Member(NamedTuple):
    """A process as the kernel lists it. The start time tells it from a later owner of its number."""
    pid: int
    dead: bool                  # a zombie: it can be neither ended nor waited for, only reaped by its parent
    parent: int
    group: int
    session: int
    start: int


def _member(pid: int) -> Member | None:
    """The kernel's line about a process; None for one that is gone, or without /proc."""
    try:
        line = _read_file("%s/%d/stat" % (PROC, pid))
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2:].split()      # the name before it may hold anything, brackets included
    return Member(pid, fields[0] in (b"Z", b"X"), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _open_pidfd(pid: int) -> int | None:
    """A descriptor of the process; None with an old kernel, under a seccomp filter, or with no descriptor left."""
    try:
        return os.pidfd_open(pid) if HAS_PIDFD else None
    except OSError:
        return None


def _signal_one(member: Member, number: int) -> None:
    """Signals exactly this process: a pidfd holds its number still while its start time is compared once more."""
    now = _member(member.pid)
    if now is None or now.start != member.start:
        return
    fd = _open_pidfd(member.pid)
    if fd is None:
        _quietly(os.kill, member.pid, number)
    elif (_member(member.pid) or now).start == member.start:    # none: gone, or no descriptor left to look with
        _quietly(signal.pidfd_send_signal, fd, number)
    _close(fd)


def _last_pid() -> int:
    """The number of the youngest process of all, which changes with each fork on the machine; 0 where it is not told."""
    try:
        return int(_read_file("%s/loadavg" % PROC).split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def _is_process(pid: int) -> bool:
    """False for the number of a thread, which /proc answers to as well, though it lists none."""
    try:
        return b"\nTgid:\t%d\n" % pid in _read_file("%s/%d/status" % (PROC, pid))
    except OSError:
        return False


def _command_line(pid: int) -> str:
    try:
        line = _read_file("%s/%d/cmdline" % (PROC, pid)).rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
    return "a subshell of the command" if BOOTSTRAP in line else shown(line)


def _spawn_error(problem: BaseException, plan: Plan, cwd: str) -> SpawnError:
    """Tells apart what the spawn lacked: subprocess names the working directory as the file if that was it.
    Upholds REQ-BASH-007.4 and REQ-BASH-013.1."""
    shell = plan.shell[0]
    if isinstance(problem, OSError):
        if problem.filename == cwd:
            return SpawnError("cwd_missing", _reason(problem))
        if problem.errno == errno.ENOENT:
            return SpawnError("shell_not_found", "the shell %s was not found" % shown(shell))
        if problem.errno == errno.E2BIG:
            return SpawnError("spawn_failed", "the shell could not be started: the environment is too large for execve "
                                              "(the command itself is not limited)")
    return SpawnError("spawn_failed", "the shell %s could not be started: %s" % (shown(shell), shown(_reason(problem))))


class Tree:
    """All that one run has started. Its processes are found by the group and the session of its first one, by the run's
    variable, by their parents, by the pipe that they can write to, and by having been found before; a start time tells
    each from a later owner of its number."""

    def __init__(self, pid: int, start: int | None, mark: str, known: Iterable[Sequence[int]] = ()) -> None:
        """`pid`, `start`: of the first process; None for a child of ours, whose number is nobody else's until it is reaped."""
        self.pid, self._start = pid, start
        self._mark = mark.encode() + b"=1"
        if not re.fullmatch(_MARK, mark):       # an empty one would be everybody's
            raise ValueError("no run's variable: %r" % mark)
        self._known = {(one[0], one[1]) for one in known}
        self.pinned = False                     # the number of the first process is nobody else's
        self.blind = False                      # the last scan could not be made
        self.pipes: set[str] = set()            # the run's output, as the kernel calls it
        self.foster = 0                         # who gets the orphans, where that is not the machine's first process
        self._killed = False
        self._quiet_passes = 0                  # scans in a row that saw nobody

    @property
    def start(self) -> int:
        """When the first process began, in the kernel's ticks; 0 where that is not known. Of a child it is read when somebody
        asks: few commands come to that, and it is a fiftieth of what a short one takes."""
        if self._start is None:
            first = _member(self.pid)
            if self.exited() and not self.pinned:       # looked at after the read: what is pinned now was ours then
                self._start = 0
            elif first is not None:         # else no descriptor was left to read with; the next look may have one
                self._start = first.start
        return self._start or 0

    @classmethod
    def of_job(cls, known: JobRecord) -> "Tree":
        """The tree of a job whose monitor is elsewhere, or gone."""
        tree = cls(known.pid, known.start, known.mark, known.members)
        tree.exited()
        keeper = _member(known.keeper[0]) if known.keeper else None
        if keeper is not None and not keeper.dead and keeper.start == known.keeper[1]:
            tree.foster = keeper.pid
        return tree

    def exited(self) -> bool:
        """True once the first process has ended, or its number is another's."""
        if PROC is None:
            self.pinned = self.pid > 1 and bool(self.members())
            return not self.pinned
        first = _member(self.pid)
        self.pinned = first is not None and first.start == self.start
        return first is None or first.dead or not self.pinned

    def members(self) -> list[Member]:
        """All that live but the first. Without /proc: its number for a group that is not empty. Upholds REQ-BASH-004.4."""
        if PROC is None:
            try:
                os.killpg(self.pid, 0)  # a zombie counts as somebody on Linux; on macOS a group of zombies is EPERM
                return [] if self._killed else [Member(self.pid, False, 0, self.pid, self.pid, 0)]
            except OSError:
                return []
        table = {one.pid: one for one in self._newcomers()}
        found = {one.pid for one in table.values() if self._is_member(one)}
        fresh = found
        while fresh:
            fresh = {one.pid for one in table.values() if one.parent in fresh} - found
            found = found | fresh
        self._known = {(pid, table[pid].start) for pid in found}
        return [table[pid] for pid in sorted(found)]

    def left(self, patience_s: float = LEAVING_S) -> list[Member]:
        """Who stays: all that live, the first included, after who was just ending has had a moment to end."""
        deadline = time.monotonic() + patience_s
        while True:
            first = None if self.exited() else _member(self.pid)
            members = [one for one in (first, *self.members()) if one]
            if not members or time.monotonic() >= deadline:
                return members
            time.sleep(0.01)

    def _numbers(self) -> Iterator[int]:
        """The number of every process, the highest first, most likely the youngest; then of who was born meanwhile: who forks
        and exits all the time is in no list for long."""
        youngest = _last_pid()
        try:
            entries, self.blind = os.listdir(PROC) if PROC else [], False
        except OSError:         # the host has no descriptor left
            entries, self.blind = [], True
        yield from sorted(map(int, filter(str.isdigit, entries)), reverse=True)
        for _ in range(CHASES):
            last = _last_pid()
            yield from filter(_is_process, range(last, youngest, -1))       # empty where the numbers began anew
            youngest = last

    def _newcomers(self) -> Iterator[Member]:
        """Every live process that is not older than the first. An older one cannot be of the run, so most of the machine costs
        one small read each."""
        for pid in self._numbers():
            one = _member(pid)
            if one and not one.dead and one.start >= self.start and pid not in (self.pid, os.getpid()):
                yield one

    def _is_member(self, one: Member) -> bool:
        if (self.pinned and self.pid in (one.group, one.session, one.parent)) or (one.pid, one.start) in self._known:
            return True
        if one.parent == self.foster != 0:
            return True
        try:
            environ = _read_file("%s/%d/environ" % (PROC, one.pid))
            if not environ and 2 not in (one.pid, one.parent) and not _read_file("%s/%d/cmdline" % (PROC, one.pid)):
                self.blind = True   # in the middle of an exec, when nothing can be seen of it (kernel threads are children of 2)
            return self._mark in environ or (bool(self.pipes) and not self._is_unborn(one) and self._writes(one.pid))
        except OSError:         # gone, or another user's
            return False

    def _is_unborn(self, one: Member) -> bool:
        """True for a child of this process that has not executed anything yet. Until then it still holds, or is just closing,
        all that this process held at the fork: the shell of another run, say, this run's pipe."""
        return one.parent == os.getpid() and _read_file("%s/%d/cmdline" % (PROC, one.pid)) == _read_file("%s/self/cmdline" % PROC)

    def _writes(self, pid: int) -> bool:
        """True if the process can write into the run's pipe: a forked copy of the host may hold the other end."""
        for fd in os.listdir("%s/%d/fd" % (PROC, pid)):
            if os.readlink("%s/%d/fd/%s" % (PROC, pid, fd)) in self.pipes:
                flags = _read_file("%s/%d/fdinfo/%s" % (PROC, pid, fd)).split(b"flags:")[1].split()[0]
                if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                    return True
        return False

    def term(self) -> None:
        """Asks everything of the run to end. TERM before CONT: a stopped process must find the TERM waiting when it wakes.
        Members are looked for first: their parents die first, and the links with them. Upholds REQ-BASH-004.5."""
        members = self.members()
        for number in (signal.SIGTERM, signal.SIGCONT):
            reached = self.signal_group(number)
            for member in members:
                if member.group != self.pid or not reached:
                    _signal_one(member, number)

    def kill(self) -> bool:
        """Kills each as soon as it is seen: who forks and exits all the time lives a millisecond. True if it saw anybody."""
        reached = self.signal_group(signal.SIGKILL)
        self._killed = True
        found = False
        for one in filter(self._is_member, self._newcomers()):
            found = True
            if one.group != self.pid or not reached:
                _signal_one(one, signal.SIGKILL)
        return found

    def gone(self, killing: bool) -> bool:
        """True once it is proved that nobody of the run lives, its first process aside. A scan that sees nobody is a proof
        if nobody forked in the meantime; else many of them are taken for one. `killing`: a scan kills whom it sees."""
        youngest = _last_pid()
        if (self.kill() if killing else self.members()) or self.blind:
            self._quiet_passes = 0
        else:
            self._quiet_passes += QUIET_PASSES if _last_pid() == youngest != 0 else 1
        return self._quiet_passes >= QUIET_PASSES

    def group_is_ours(self) -> bool:
        """True while the group's number cannot be a stranger's. A subclass may know more."""
        return self.pinned

    def signal_group(self, number: int) -> bool:
        """Signals the first process's group, as one and atomically against forks; False if that could not be done."""
        self.exited()           # a last look: after somebody else's reap the number may be a stranger's
        if not self.group_is_ours():
            return False
        try:
            os.killpg(self.pid, number)
            return True
        except OSError:         # EPERM: a group of zombies on macOS, or nobody in it is ours: one by one, then
            if self.pinned and PROC is None:
                _quietly(os.kill, self.pid, number)
            elif self.pinned:
                _signal_one(Member(self.pid, False, 0, 0, 0, self.start), number)
            return False


class Process(Tree):
    """A shell in a session of its own, our child, and everything that it started. Owned by one monitor thread."""

    def __init__(self, plan: Plan, cwd: str, text: CommandText, writers: Sequence[int]) -> None:
        """Spawns; the last of `writers` is for standard error. Raises SpawnError, the missing thing named: the shell or the directory."""
        try:
            self._popen = subprocess.Popen(
                [*plan.shell, "--norc", "-c", BOOTSTRAP],   # --norc: sshd's children would read ~/.bashrc otherwise
                executable=plan.program, stdin=text.fd, stdout=writers[0], stderr=writers[-1], cwd=cwd, env={**plan.env, plan.mark: "1"},
                start_new_session=True)     # no preexec_fn: it deadlocks in a threaded host, and forbids vfork
        except (OSError, ValueError, RuntimeError, subprocess.SubprocessError) as problem:
            raise _spawn_error(problem, plan, cwd) from None
        super().__init__(self._popen.pid, None, plan.mark)
        self.pinned = True
        self._status: int | None = None      # what waitpid said, where the exit could only be seen by reaping
        self.lost = False                       # somebody else reaped it, or the host ignores SIGCHLD
        self.pidfd = _open_pidfd(self.pid)

    def exited(self) -> bool:
        """True once the shell has ended; it stays a zombie (except without waitid)."""
        if not self.pinned:
            return True
        try:
            if HAS_WAITID:
                return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
            pid, self._status = os.waitpid(self.pid, os.WNOHANG)
            self.pinned = pid == 0
        except ChildProcessError:
            self.pinned, self.lost = False, True
        return not self.pinned

    def group_is_ours(self) -> bool:
        """Without waitid the shell is reaped by looking at it; after that a known member pins the number."""
        return self.pinned or (self._status is not None and (PROC is None or bool(self._known)))

    def reap(self) -> int | None:
        """The return code, as subprocess writes it; None if it is lost. Its group is not signalled after this."""
        status = self._status
        if self.pinned:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid == 0:    # unkillable: subprocess reaps it at some later spawn
                    return None
            except ChildProcessError:
                self.lost = True
            self.pinned = False
        self._status = None
        self._popen.returncode = -1 if self.lost or status is None else os.waitstatus_to_exitcode(status)
        return None if self.lost else self._popen.returncode

    def close(self) -> None:
        """Gives back the descriptor; after a bug of ours, leaves nothing behind all the same."""
        try:
            if self.pinned:
                self.kill()
                self.reap()
        finally:
            _close(self.pidfd)
            self.pidfd = None


def _pause_s(since_s: float, least_s: float = 0.0005, most_s: float = 0.05) -> float:
    """How long to sleep before the next look, where nothing announces an event: as long as has passed since the last one.
    20 ms from the start would add 20 ms to every command, since EOF comes a hair before the exit is visible."""
    return min(max(time.monotonic() - since_s, least_s), most_s)


def _end(tree: Tree, grace_s: float, wait: Callable[[float], object] = time.sleep, stops: Callable[[], int] = lambda: 1,
         facts: Facts | None = None) -> bool:
    """Ends a tree: TERM+CONT, the grace, KILL. `wait` lets seconds pass; `facts` are its monitor's, if it has one here. True
    if nothing of it lives."""
    facts = facts or Facts(time.monotonic())
    while True:
        now, facts.stops = time.monotonic(), max(1, stops())
        action, until = next_action(facts, Limits(0.0, grace_s, 0.0, 0.0), now)
        if action is Action.FINISH:
            return facts.exited_s is not None and not facts.survivors
        if action is Action.TERM:
            facts.term_s = now
            tree.term()
        elif action is Action.KILL:
            facts.kill_s = now
            tree.kill()
        else:
            wait(min(_pause_s(max(facts.term_s or 0.0, facts.kill_s or 0.0, facts.exited_s or 0.0)), until - now))
            if facts.exited_s is None and tree.exited():
                facts.exited_s = time.monotonic()
            if facts.exited_s is not None:
                facts.survivors = not tree.gone(facts.kill_s is not None)


class Guard:
    """What ends this process's commands when it dies without a word: SIGKILL, os._exit, a segfault.

    A shell script in a session of its own waits for the end of a pipe whose other end only this process holds, and then
    kills what stands in the ledger, a file with a line for each run under way. So a call costs three small writes and
    wakes nobody. The guard is no child of this process, whose os.wait() must not meet it, and holds none of its
    descriptors. KILL is all it sends: nobody is left to wait for a grace. PR_SET_PDEATHSIG would be the kernel's own
    way, but it follows the thread that spawned. Upholds REQ-BASH-020.1 to REQ-BASH-020.4."""

    # The patterns are strict because an empty one would match, and a group 0 or 1 would be, everybody.
    SCRIPT = r"""exec 3<&1 4<&0 </dev/null >/dev/null; cd /; (
        trap '' HUP INT QUIT TERM
        read -r _ <&4
        runs=$(sed -n 's/^\(%s[0-9a-f]\{32\} [0-9]*\) *$/\1/p' <&3)
        [ -n "$runs" ] || exit
        for group in $(echo "$runs" | sed -n -e 's/.* \([2-9]\)$/\1/p' -e 's/.* \([1-9][0-9][0-9]*\)$/\1/p'); do
            kill -9 "-$group"
        done
        runs=$(echo "$runs" | sed 's/ .*//')
        carriers() { echo "$runs" | grep -lsFf - /proc/[0-9]*/environ; }
        printf 'a\000b' | grep -qF b || carriers() {        # busybox: its grep ends a line at a NUL
            for file in /proc/[0-9]*/environ; do for run in $runs; do
                tr '\000' '\n' <"$file" | grep -q "^$run=1$" && echo "$file"
            done; done
        }
        quiet=0 passes=0        # in the middle of an exec a process has no environment to be seen, so one look proves little
        while [ $quiet -lt 5 ] && [ $passes -lt 100 ]; do
            [ $quiet = 0 ] || sleep 0.1
            quiet=$((quiet + 1)) passes=$((passes + 1))
            for found in $(carriers); do
                quiet=0 found=${found%%/environ} found=${found#/proc/}
                [ "$found" -gt 1 ] && kill -9 "-$found" "$found"    # and its group, if its number was not noted in time
            done
        done
    ) &""" % RUN_PREFIX
    LINE = 64

    def __init__(self) -> None:
        self._ledger: int | None = None
        self._lifeline: int | None = None
        self._lock = _thread.allocate_lock()
        self._free: list[int] = []
        self._fresh = itertools.count()

    def enter(self, mark: str) -> int | None:
        """A line for a run whose group is still unknown; None where there can be no guard."""
        if not self._lock.acquire(timeout=5.0):     # bounded: a __del__ may run a command in the thread that holds it
            return None
        try:
            if not self._alive():
                self._start()
            line = self._free.pop() if self._free else next(self._fresh)
        except (OSError, RuntimeError):             # no shell, no descriptor, an environment that changes in our hands
            return None
        finally:
            self._lock.release()
        self.note(line, mark + " 0")
        return line

    def note(self, line: int | None, text: str) -> None:
        """Writes a line of the ledger."""
        if line is not None and self._ledger is not None:
            _quietly(os.pwrite, self._ledger, text.ljust(self.LINE - 1).encode() + b"\n", line * self.LINE)

    def leave(self, line: int | None) -> None:
        """What the run left behind may outlive this process."""
        self.note(line, "")
        if line is not None:
            self._free.append(line)

    def close(self) -> None:
        """Gives back this process's ends; the guard acts once nobody holds one."""
        _close(self._ledger, self._lifeline)

    def _alive(self) -> bool:
        return self._lifeline is not None and not _ready(self._lifeline, 0.0)      # an error there: the only reader is gone

    def _start(self) -> None:
        if self._ledger is None:
            self._ledger = _anonymous_file(b"")
        _close(self._lifeline)
        self._lifeline = None
        if self._ledger is None:
            raise FileNotFoundError(errno.ENOENT, "no place for a ledger")
        reader, self._lifeline = os.pipe()
        try:
            env = {name: value for name, value in os.environ.items() if name.startswith(RUN_PREFIX)}
            env["PATH"] = os.environ.get("PATH", "") + ":/usr/bin:/bin"
            subprocess.Popen(["/bin/sh", "-c", self.SCRIPT], stdin=reader, stdout=self._ledger, stderr=subprocess.DEVNULL,
                             env=env, start_new_session=True).wait()
        finally:
            os.close(reader)    # where there is no guard nobody reads, and the next call tries again


_guard = Guard()
# Who starts a copy waits for a turn: a hundred starts at once would all be late.
_turns = itertools.cycle([_thread.allocate_lock() for _ in range(os.cpu_count() or 1)])


class Copy:
    """A detached copy of this file: a python that goes on when this process ends, with nothing of it but a few descriptors.

    It is no child of this process, whose os.wait() must not meet it. It gets leave to begin only once it has answered
    with this file's own sha256: `sys.executable` may be the program that embeds us, and this file may have been edited
    since. The interpreter is given a line that imports the file, because a script is compiled anew each time, for 20 ms and 9 MB.
    """

    LOADER = ("import sys, types; from importlib.machinery import SourceFileLoader as L; "
              "m = sys.modules['bash_tool'] = types.ModuleType('bash_tool'); m.__file__ = sys.argv[1]; "
              "L('bash_tool', sys.argv[1]).exec_module(m); m._work_detached(*map(int, sys.argv[2:]))")

    def __init__(self, env: Mapping[str, str], work: Mapping[str, object], fds: Mapping[str, int | None]) -> None:
        """`fds`: what its work calls by these names. Raises OSError where there is no copy to be had."""
        if not sys.executable or getattr(sys, "frozen", False) or _LOADED is None:
            raise OSError(errno.ENOEXEC, "there is no python, or no file, to run it from")
        if _file_identity() != _LOADED:
            raise OSError(errno.ESTALE, "the file bash_tool was loaded from has changed")
        self._leave = self.reports = -1
        self._self: Member | None = None
        shell = None
        try:
            shell = self._spawn(env, work, fds)
            self._recognise()
            os.write(self._leave, b"x")
        except BaseException as problem:
            if shell is not None:
                _quietly(self._end_stranger, shell.pid)
            self.close()
            if isinstance(problem, (OSError, RuntimeError, ValueError, subprocess.SubprocessError)):
                raise OSError(errno.ECHILD, _reason(problem)) from None
            raise
        finally:
            if shell is not None:
                shell.wait()

    def _spawn(self, env: Mapping[str, str], work: Mapping[str, object], fds: Mapping[str, int | None]) -> subprocess.Popen[bytes]:
        ours: list[int] = []                # what only the copy goes on to need

        def _lifted(fd: int) -> int:        # a twin above 2: the copy's own streams go to the numbers below
            ours.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3))
            _not_for_forks.add(ours[-1])
            return ours[-1]

        try:
            leave, self._leave = os.pipe()
            ours.append(leave)
            self.reports, reports = os.pipe()
            ours.append(reports)
            _not_for_forks.update((self._leave, reports))
            given = {name: _lifted(fd) for name, fd in fds.items() if fd is not None}
            request = _anonymous_file(json.dumps({**dict.fromkeys(fds), **work, **given}).encode())
            if request is None:
                raise OSError(errno.ENOSPC, "no place for its instructions")
            ours.append(request)
            passed = [_lifted(fd) for fd in (request, leave, reports)]
            return subprocess.Popen(
                ["/bin/sh", "-c", '"$@" &', "sh", sys.executable, *(["-B"] if sys.dont_write_bytecode else []), "-I", "-S",
                 "-X", "utf8", "-c", self.LOADER, _FILE, *map(str, passed)], env=dict(env), cwd="/", start_new_session=True,
                pass_fds=(*passed, *given.values()),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        finally:
            _close(*ours)

    @staticmethod
    def _end_stranger(shell: int) -> None:
        """By the group of the shell that started it. The shell, not yet reaped, pins that number; where the host ignores
        SIGCHLD it does not, and nothing is signalled."""
        if HAS_WAITID:
            os.waitid(os.P_PID, shell, os.WEXITED | os.WNOWAIT)
        os.killpg(shell, signal.SIGKILL)

    def _recognise(self) -> None:
        answer, deadline = b"", time.monotonic() + COPY_ANSWERS_S
        while not answer.endswith(b"\n"):
            piece = self.hear(deadline - time.monotonic())
            if piece is None:
                raise OSError(errno.ETIMEDOUT, "it did not answer within " + seconds_text(COPY_ANSWERS_S))
            if not piece:
                raise OSError(errno.ECHILD, "%s ended without an answer" % shown(sys.executable))
            answer += piece
            if len(answer) > KIB or time.monotonic() > deadline:
                raise OSError(errno.EPROTO, "something else answered")
        sha256, pid = answer.split()
        if sha256.decode() != _own_sha256():
            raise OSError(errno.ESTALE, "it is another version of this file")
        self._self = _member(int(pid)) or Member(int(pid), False, 0, 0, 0, 0)

    def hear(self, within_s: float) -> bytes | None:
        """The next byte of what the copy says: empty after its end, None if it says nothing within that time."""
        return os.read(self.reports, 1) if _ready(self.reports, within_s) else None

    def kill(self) -> None:
        """Ends the copy, whatever it is at, and returns once it has ended."""
        if self._self is not None and PROC is not None:
            _signal_one(self._self, signal.SIGKILL)
        deadline = time.monotonic() + UNKILLABLE_S
        while self.hear(deadline - time.monotonic()):
            pass

    def close(self) -> None:
        """A copy that has no leave to begin ends."""
        _close(self._leave, self.reports)


class Cancel:
    """A request to stop. One token may be given to many calls.

    `cancel()` may be called from any thread and from a signal handler: it takes no lock. Once means TERM, the grace,
    KILL; once more means KILL now. Upholds REQ-BASH-015.1 and REQ-BASH-015.3.
    """

    def __init__(self) -> None:
        self._requests: list[None] = []         # its length is the count: list.append is one step, += is three
        self._pipe: tuple[int, int] | None = None
        self._owner = os.getpid()
        self._making = _thread.allocate_lock()  # taken by monitor threads only, never by cancel()

    @property
    def count(self) -> int:
        """How often a stop was asked for."""
        return len(self._requests)

    def cancel(self) -> None:
        """Asks every call that was given this token to stop."""
        self._requests.append(None)
        if self._pipe is not None and self._owner == os.getpid():   # a forked child's copy is the child's own affair
            _quietly(os.write, self._pipe[1], b"x")     # a full pipe is as readable as one byte

    def listen(self) -> int:
        """A descriptor that is readable once `cancel` was called; nobody reads from it. Look at `count` after this. Made here,
        in a monitor thread: a Ctrl-C between the making and the keeping would leak it in the main thread."""
        with self._making:
            if self._pipe is None or self._owner != os.getpid():
                pipe = os.pipe()
                os.set_blocking(pipe[1], False)
                self._owner, self._pipe = os.getpid(), pipe
            return self._pipe[0]

    def close(self) -> None:
        """Gives back the descriptors. Only for who knows that nobody else can be in `cancel` or listening."""
        pipe, self._pipe = self._pipe, None
        for fd in pipe or ():
            _quietly(os.close, fd)

    def __del__(self) -> None:      # the last holder is gone
        self.close()


def _stops(cancels: Iterable[Cancel]) -> int:
    return sum(token.count for token in cancels)


def _who(members: Sequence[Member], form: str = "pid %d (%s)") -> str:
    named = [form % (member.pid, _command_line(member.pid)) for member in members[:LEFTOVERS_NAMED]]
    more = len(members) - len(named)
    return ", ".join(named) + (" and %d more" % more if more else "")


def _boot() -> str:
    """What a stored number of a process holds within: one boot of one machine, and one namespace of processes."""
    try:
        boot = _read_file("%s/sys/kernel/random/boot_id" % PROC).decode().strip()
        return "%s %s" % (boot, os.readlink("%s/self/ns/pid" % PROC))
    except OSError:
        return ""


_LOST = Outcome("lost", error="lost", reason="lost")        # who ran the job died without a word


class Record:
    """A job's record in the file beside its output: lines of JSON, each filling in what those before it left open.

    The file has room for the end from the beginning, so that a full disk does not lose it. A line that was cut off is
    skipped, and said again by who goes on. Whoever runs the job holds the file's lock: the kernel drops it with the
    holder, however that one died, and no number of a process has to be believed."""

    def __init__(self, fd: int, output: str) -> None:
        self.fd, self.output = fd, output

    @classmethod
    def create(cls, saved: Saved, plan: Plan, left: Sequence[Member] = (), **more: object) -> "Record":
        """A new record, locked before it has a name that anybody looks for. Raises OSError."""
        if saved.path is None:
            raise OSError(errno.EIO, saved.reason)
        path = _record_path(saved.path)
        record = cls(_create(path + ".new", os.O_RDWR), saved.path)
        first = dict(more, command=plan.text.decode()[:COMMAND_RECORDED], mark=plan.mark, created=time.time(), boot=_boot(),
                     members=cls._identities(left))
        try:
            _not_for_forks.add(record.fd)
            fcntl.flock(record.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write_all(record.fd, cls._line(first) + b" " * RECORD_ROOM)
            os.rename(path + ".new", path)
        except BaseException:
            record.close()
            _quietly(os.unlink, path + ".new")
            raise
        return record

    @classmethod
    def open(cls, output: str) -> "Record":
        """The record beside an output file; of another user there is none. Raises OSError."""
        try:
            fd = _open_regular(_record_path(output), os.O_RDWR)
        except PermissionError:
            fd = _open_regular(_record_path(output), os.O_RDONLY)
        if os.fstat(fd).st_uid not in (os.geteuid(), 0):
            os.close(fd)
            raise PermissionError(errno.EPERM, "the record is another user's")
        return cls(fd, output)

    @staticmethod
    def _identities(members: Sequence[Member]) -> list[tuple[int, int]]:
        return [(one.pid, one.start) for one in members[:20]]

    @staticmethod
    def _line(facts: Mapping[str, object]) -> bytes:
        return json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace")

    def _data(self) -> bytes:
        return os.pread(self.fd, MIB, 0)

    def read(self) -> JobRecord:
        """What is known by now."""
        return job_record(self._data())

    def add(self, **facts: object) -> None:
        """Writes down what became known. Raises OSError."""
        os.pwrite(self.fd, b"\n" + self._line(facts), len(self._data().rstrip()))

    def settle(self, outcome: Outcome, left: Sequence[Member] = ()) -> None:
        """Writes down how the job ended and who of it runs on, and appends the note to its output, once: wherever an attempt was
        cut off, the next goes on from there. After an OSError somebody may try again. Upholds REQ-BASH-003.9 and REQ-BASH-003.20."""
        known = self.read()
        if not known.note:
            known = known._replace(note=completion_note(outcome, _who(left, "%d %s")))
            end = dict(outcome._asdict(), members=self._identities(left), note=known.note)      # what it does not say stays said
            self.add(**{name: value for name, value in end.items() if name in JobRecord._fields and value not in (None, "", (), [])})
        text = known.note.encode("utf-8", "replace")
        try:
            fd = _open_regular(self.output, os.O_RDWR | os.O_APPEND)
        except OSError as problem:
            if problem.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            self.add(noted=True)        # deleted, or replaced by what is no file: the record is all that is left
            return
        try:
            if known.at < 0:
                known = known._replace(at=os.fstat(fd).st_size)
                self.add(at=known.at)
            there = os.pread(fd, len(text), known.at)
            _write_all(fd, text[len(there):] if text.startswith(there) else text)
            self.add(noted=True)
        finally:
            os.close(fd)

    def held(self) -> bool:
        """True while somebody runs the job. The shared lock is a question that many may ask at once."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except OSError:
            return True

    def recover(self) -> None:
        """Writes down that the job was lost, or the rest of how it ended, for who died before. One at a time: whoever
        holds the folder's lock does it, and the others find it done. Raises OSError if it stays locked."""
        folder = os.open(os.path.dirname(self.output), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            deadline = time.monotonic() + 1.0
            while True:
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.005)
            if not self.read().noted:
                self.settle(_LOST)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Gives back the descriptor, and the lock with it. Closing twice is closing once."""
        _close(self.fd)
        self.fd = -1


def _drain(outputs: Mapping[int, int], keep: Callable[[bytes], object], until: float, ended: Callable[[int], object]) -> None:
    """Reads on from pipes that somebody still holds, so that they neither block nor die of SIGPIPE; up to the moment
    `until`, or to the end of each, which `ended` takes off the list."""
    poller = select.poll()
    for fd in outputs:
        poller.register(fd, select.POLLIN)
    while outputs and time.monotonic() < until:
        for fd, _ in poller.poll(1000 * max(0.0, min(until - time.monotonic(), 3600.0))):
            try:
                chunk = os.read(fd, READ_BYTES)
            except BlockingIOError:
                continue
            if chunk:
                keep(chunk)
            else:
                poller.unregister(fd)
                ended(fd)


def _let_fill(fd: int) -> None:
    """Makes a flood a sixth cheaper: its writers have room, and a moment, to write more before they wake us. Raises OSError where
    there is no room to be had, before the pause: with a small pipe that would double the time instead."""
    fcntl.fcntl(fd, _SETPIPE_SZ, FLOOD_PIPE_BYTES)
    time.sleep(FLOOD_PAUSE_S)


class Supervisor:
    """One run from spawn to reap. Lives in a monitor thread, or in a detached copy; `run` is called once."""

    def __init__(self, plan: Plan, folder: Folder, cancels: list[Cancel], live: LiveText | None, publish: Callable[[Outcome], object],
                 spool: Spool | None = None, record: Record | None = None, keeper: Sequence[int] | None = None) -> None:
        """`publish` hears of a run that goes on after its timeout. `spool`, `record`: of one that is a job from the start.
        `keeper`: None in the host; in a detached copy its number and start if it takes in orphans, else nothing."""
        self._plan, self._folder, self._cancels, self._live, self._publish = plan, folder, cancels, live, publish
        self._spool, self._record = spool or Spool(folder), record
        self._keeper, self._detached = keeper, keeper is not None
        self._buffers = [OutputBuffer(plan.head_bytes, plan.tail_bytes, plan.count_lines) for _ in range(plan.streams.value)]
        self._process: Process | None = None
        self._outputs: dict[int, int] = {}      # the read ends that are open, and which stream each is of
        self._poller = select.poll()
        self._facts = Facts(time.monotonic())       # of a launch; a spawn begins anew
        self._stop: Stop | None = None
        self._line: int | None = None           # of the guard's ledger
        self._limit_s = plan.limits.timeout_s
        self._notes: list[str] = []
        self._scratch: str | None = None
        self._left: list[Member] = []           # who runs on after the shell's end

    def run(self) -> Outcome:
        """The outcome; everything is released but the pipe that a leftover still holds (see `linger`)."""
        self._line = None if self._detached else _guard.enter(self._plan.mark)      # before the spawn: a host may die in between
        try:
            outcome = self._run()
        except SpawnError as problem:
            outcome = Outcome("failed", error=problem.args[0], reason=problem.args[1])
        except OSError as problem:
            if self._process is not None:
                raise
            outcome = Outcome("failed", error="spawn_failed", reason="the shell could not be started: " + _reason(problem))
        finally:
            self._leave_guard()
        if self._record is not None:
            _quietly(self._record.settle, outcome, self._left)
        return outcome

    def _leave_guard(self) -> None:
        line, self._line = self._line, None
        _guard.leave(line)

    def _run(self) -> Outcome:
        for token in self._cancels:
            self._poller.register(token.listen(), select.POLLIN)
        if _stops(self._cancels):
            return Outcome("cancelled")
        with closing(CommandText(self._plan.text)) as text:
            process = self._process = self._spawn(text)
            _guard.note(self._line, "%s %d" % (self._plan.mark, process.pid))
            with closing(process):
                if self._record is not None:
                    self._record.add(pid=process.pid, start=process.start, notes=self._notes, keeper=self._keeper or [])
                process.foster = self._keeper[0] if self._keeper else 0
                self.reap_orphans()
                self._supervise(process, text)
                return self._outcome(process, text)

    def _spawn(self, text: CommandText) -> Process:
        self._facts.started_s = time.monotonic()    # before: when a busy machine returns from the spawn the shell may have ended
        writers: list[int] = []
        try:
            for n in range(len(self._buffers)):
                reader, writer = os.pipe()
                self._outputs[reader] = n
                writers.append(writer)
                _not_for_forks.add(writer)
                os.set_blocking(reader, False)
            try:
                process = Process(self._plan, self._plan.cwd, text, writers)
            except SpawnError as problem:
                if problem.args[0] != "cwd_missing":
                    raise
                process = self._spawn_elsewhere(text, writers, problem.args[1])
        except BaseException:
            _close(*self._outputs)
            self._outputs.clear()
            raise
        finally:
            _close(*writers)
        process.pipes = {"pipe:[%d]" % os.fstat(reader).st_ino for reader in self._outputs}
        for reader in self._outputs:
            self._poller.register(reader, select.POLLIN)
        for fd, event in ((text.writer, select.POLLOUT), (process.pidfd, select.POLLIN)):
            if fd is not None:
                self._poller.register(fd, event)
        return process

    def _spawn_elsewhere(self, text: CommandText, writers: Sequence[int], reason: str) -> Process:
        """In an empty folder: refusing would brick the conversation, any other folder would make relative paths dangerous.
        Upholds REQ-BASH-013.1 and REQ-BASH-013.2."""
        cwd = printable(self._plan.cwd)
        try:
            self._scratch = self._folder.scratch()
        except OSError as problem:
            raise SpawnError("cwd_missing", "the working directory %s is gone (%s), and no scratch folder could be made (%s)"
                             % (cwd, reason, _reason(problem))) from None
        self._notes.append(NOTE_CWD.format(cwd=cwd, reason=reason))
        try:
            return Process(self._plan, self._scratch, text, writers)
        except SpawnError:
            _quietly(os.rmdir, self._scratch)
            raise

    def reap_orphans(self, *_: object) -> None:
        """A copy's handler of SIGCHLD: takes leave of the orphans that it took in. The shell is for `reap`."""
        while self._keeper and self._process is not None:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
                if dead is None or dead.si_pid == self._process.pid:
                    break
                os.waitpid(dead.si_pid, 0)
            except ChildProcessError:
                break

    def _supervise(self, process: Process, text: CommandText) -> None:
        """The one loop: look, ask `next_action`, act. `_end` is the rest of it."""
        while True:
            now, self._facts.stops = time.monotonic(), self._due()
            action, until = next_action(self._facts, self._plan.limits, now)
            if action is Action.FINISH:
                return
            if action is Action.WAIT:
                self._look(process, text, until - now)
            elif action is Action.KEEP:
                self._keep(process)
            else:
                break
        self._stop = Stop.CANCELLED if _stops(self._cancels) else Stop.TIMED_OUT
        text.close()        # the sweep needs a descriptor, and the host may have none left
        _end(process, self._plan.limits.grace_s, lambda wait_s: self._look(process, text, wait_s), self._due, self._facts)

    def _due(self) -> int:
        return _stops(self._cancels) + (self._stop is Stop.TIMED_OUT)

    def _keep(self, process: Process) -> None:
        """The caller has waited long enough: it gets its answer, and the run goes on as a job. Nothing is handed over,
        since nothing here depends on who waits. What could not be found again is not kept: it is ended."""
        self._facts.kept = True
        saved, limit_s = self._spool.spill(), 0.0
        try:
            if self._record is None:
                limit_s = self._limit_s
                self._record = Record.create(saved, self._plan, pid=process.pid, start=process.start, notes=self._notes)
                self._folder.named(saved.path)      # before anybody may close the tool
        except OSError as problem:
            self._notes.append(NOTE_NOT_KEPT.format(reason=_reason(problem)))
            self._stop = Stop.TIMED_OUT
            return
        if self._plan.limits.kept_s is not None:
            self._limit_s = self._plan.limits.kept_s
        # The caller's token was for the call alone. Its descriptor stays in the poller, and may be another's by then: its first
        # event takes it out (see `_look`).
        del self._cancels[1:]
        self._publish(self._kept(process.pid, limit_s))

    def _kept(self, pid: int, limit_s: float) -> Outcome:
        return self._so_far("running", self._buffers)._replace(pid=pid, limit_s=limit_s)

    def _so_far(self, status: str, buffers: Sequence[OutputBuffer]) -> Outcome:
        kept = [buffer.captured() for buffer in buffers]
        streams = tuple(self._plan.fit(without_unfinished(stream) if status == "running" else stream) for stream in kept)
        if self._plan.saving is Saving.WHEN_CUT and any(fitted.cut for fitted in streams):
            self._spool.spill()
        return Outcome(status, error="cwd_missing" if self._scratch else None, streams=streams,
                       total_bytes=sum(buffer.total_bytes for buffer in buffers), saved=self._spool.saved,
                       notes=tuple(self._notes), duration_s=time.monotonic() - self._facts.started_s)

    def _look(self, process: Process, text: CommandText, wait_s: float) -> None:
        """Waits for something to happen, at most `wait_s`, and takes notice of it."""
        look_for_exit = process.pidfd is None and self._facts.exited_s is None      # where nothing announces it, the clock does
        if look_for_exit:
            wait_s = min(wait_s, _pause_s(self._facts.started_s))
        for fd, _ in self._poller.poll(1000 * max(0.0, min(wait_s, 3600.0))):
            if fd in self._outputs:
                self._read(fd, 16 * READ_BYTES)
            elif fd == process.pidfd:
                look_for_exit = True
            elif fd != text.writer or text.feed():
                self._poller.unregister(fd)     # all is sent; or a token, which stays readable: the clock from here on
        if look_for_exit and process.exited():
            if process.pidfd is not None:
                self._poller.unregister(process.pidfd)
            for fd in list(self._outputs):
                self._read(fd, MIB)     # all that the shell itself wrote is in the pipe by now; 1 MiB is the largest pipe
            self._facts.exited_s = self._facts.output_s = time.monotonic()

    def _read(self, fd: int, most: int) -> None:
        """Reads what is in a pipe, up to about `most` bytes: a flood must not keep the loop from looking elsewhere."""
        n = self._outputs[fd]
        while most > 0:
            try:
                chunk = os.read(fd, READ_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                self._close_output(fd)
                break
            most -= len(chunk)
            self._facts.output_s = time.monotonic()
            self._spool.add(chunk)
            if self._live is not None:
                self._live.add(chunk, n)
            self._buffers[n].add(chunk)
            if self._buffers[n].total_bytes > self._plan.limit_bytes:
                self._spool.forget() if self._plan.saving is Saving.NEVER else self._spool.spill()
            if len(chunk) < READ_BYTES and self._facts.exited_s is None:
                if self._buffers[n].total_bytes > MIB:
                    _quietly(_let_fill, fd)
                break           # the pipe is most likely empty: the next poll knows

    def _close_output(self, fd: int) -> None:
        del self._outputs[fd]
        self._poller.unregister(fd)
        _close(fd)
        self._facts.at_eof = not self._outputs

    def _outcome(self, process: Process, text: CommandText) -> Outcome:
        """Settles what is left, reaps, and says how it ended. Upholds REQ-BASH-007.3, REQ-BASH-007.5 and REQ-BASH-011.2."""
        duration_s = time.monotonic() - self._facts.started_s
        unread = self._stop is None and text.unread()
        if self._stop is not None:
            process.signal_group(signal.SIGKILL)        # the group's last: it cannot be repeated after the reap
            if self._facts.exited_s is None or (PROC and self._facts.survivors):
                members = process.left(0.0)
                self._notes += [NOTE_SURVIVED.format(who=_who(members))] if members else []
                self._notes += [NOTE_BLIND] if process.blind else []
            for fd in list(self._outputs):
                self._read(fd, MIB)     # the last words of whoever died last
            for fd in list(self._outputs):
                self._close_output(fd)
        elif PROC and (self._outputs or self._record is not None):
            self._left = process.members() if self._outputs else process.left()
        if self._stop is None:
            self._leave_guard()         # from the reap on the number may be a stranger's, and what is left may outlive the host
        returncode = process.reap()
        if self._outputs and not self._detached:
            self._hand_over()
        if self._scratch is not None:
            try:
                os.rmdir(self._scratch)
            except OSError:
                self._notes.append("files that the command left are in " + printable(self._scratch))
        common = self._so_far("exited", self._buffers)._replace(duration_s=duration_s)
        if not self._outputs and self._record is None:
            self._spool.close()
        if self._stop is not None:
            return common._replace(status=self._stop.value, limit_s=self._limit_s)
        if returncode is None:
            return common._replace(status="failed", error="status_unknown", reason=(
                "the command has ended, but its exit status is unknown: the host program reaped it or ignores SIGCHLD"))
        code, name = status_of(returncode)
        if unread:
            return common._replace(status="failed", error="spawn_failed", reason=(
                "the shell %s ended (%s) before it read the command" % (shown(self._plan.shell[0]), name or "exit code %d" % code)))
        return common._replace(exit_code=code, signal=name)

    def _hand_over(self) -> None:
        """Gives the pipes that somebody still holds to a detached copy, which reads on into the file after this process
        too has ended; and says so. Who holds it becomes a job. Upholds REQ-BASH-011.3 and REQ-BASH-003.15."""
        members, saved = self._left, self._spool.spill()
        path = printable(saved.path) if saved.path else NOWHERE.format(reason=saved.reason)
        record = None
        try:
            if self._record is None and members:
                first = min(members, key=lambda one: (one.start, one.pid))
                record = Record.create(saved, self._plan, members, pid=first.pid, start=first.start, notes=self._notes)
        except OSError:         # the disk is full: read on all the same
            pass
        try:
            with next(_turns):
                fds = dict(zip(("pipe", "other"), [*self._outputs, None]))
                Copy(self._plan.env, {"path": saved.path or ""},
                     {**fds, "file": self._spool.fd, "record": record.fd if record else None}).close()
            for fd in list(self._outputs):
                self._close_output(fd)
        except OSError as problem:
            path += NOTE_NO_COPY.format(reason="no detached copy took it over: " + _reason(problem))
            if record is not None:
                _quietly(os.unlink, _record_path(record.output))
        if record is not None:
            record.close()
        targets = " ".join("-%d" % group for group in sorted({member.group for member in members})[:20])
        self._notes.append(NOTE_LEFTOVER.format(who=_who(members), targets=targets, path=path) if members
                           else NOTE_HELD.format(path=path))

    def saved(self) -> Saved | None:
        """How far the output is in a file by now."""
        return self._spool.saved

    def linger(self) -> None:
        """Stays for what the command left behind. In the host: reads on, where no copy took that over. In a copy: reads on,
        watches, and at the run's limit ends it as it would have ended the run. Upholds REQ-BASH-003.10."""
        left = self._process if self._detached and self._stop is None else None
        until = self._facts.started_s + (self._plan.limits.kept_s or 0.0) if left is not None else math.inf
        begun = time.monotonic()
        while self._outputs or (left is not None and left.members()):
            if left is not None and time.monotonic() >= until:
                _end(left, self._plan.limits.grace_s, self._sleep)
                left, until = None, math.inf        # what survived a KILL is nobody's to end
            else:               # a scan costs milliseconds, and nobody waits for this one
                self._sleep(min(until - time.monotonic(), math.inf if self._outputs else _pause_s(begun, 0.5, 30.0)))
        self._spool.close()
        if self._record is not None:
            self._record.close()

    def _sleep(self, seconds: float) -> None:
        if self._outputs:
            _drain(self._outputs, self._spool.add, time.monotonic() + seconds, self._close_output)
        else:
            time.sleep(max(0.0, seconds))


# ---- 7 Jobs ---------------------------------------------------------------------------------------------
# A run is a supervisor and its monitor thread. Who waits, waits on a raw lock: Thread.join lies after a Ctrl-C on
# 3.9 to 3.12, threading.Event can be left locked by one, and a pipe would have to be made in the main thread,
# where one between the making and the keeping leaks it. What must not be interrupted is done by the monitor:
# no signal handler ever runs in its thread. A job is what is left of a run in files when nobody waits for it.

class Job:
    """A command that goes on by itself: started in the background, kept after its timeout, or left behind by one that ended.

    All that is known of it stands beside its output file, so every tool on the same folder, in any process, sees the same.
    `pid` is its process and, but for what was left behind, its process group; `command` the text that was asked for (its
    first 2,000 characters). Raises OSError where no record stands beside `output_file`.
    """

    def __init__(self, output_file: str, grace_s: float = GRACE_S) -> None:
        self.output_file = output_file
        self._grace_s = grace_s
        with closing(Record.open(output_file)) as record:
            self._known = record.read()
        self.pid, self.command, self.created = self._known.pid, self._known.command, self._known.created

    def __repr__(self) -> str:
        return "<Job %d %s: %s>" % (self.pid, self.status, shown(self.command))

    def look(self) -> JobRecord:
        """What is known by now. Where who ran the job died before it had said all, this says the rest: the next who
        reads finds it. Upholds REQ-BASH-003.8 and REQ-BASH-003.9."""
        if self._known.noted:
            return self._known
        try:
            with closing(Record.open(self.output_file)) as record:
                known = record.read()
                if not known.noted and not record.held():
                    _quietly(record.recover)
                    known = record.read()
                    if known.status == "running":       # the folder is read-only, or full, or locked
                        known = known._replace(status="lost", error="lost")
            if self.pid:        # who it is does not change, whatever becomes of the record
                known = known._replace(**{name: getattr(self._known, name) for name in ("pid", "start", "boot", "mark", "command")})
            self._known, self.pid = known, known.pid
        except FileNotFoundError:       # removed, with its folder or by the job: only the processes are left to ask
            if self._known.status == "running" and not (self.pid and Tree.of_job(self._known).left(0.0)):
                self._known = self._known._replace(status="lost", error="lost", noted=True)
        except OSError:                 # no descriptor left
            pass
        return self._known

    @property
    def status(self) -> str:
        """`running`, or how it ended: `exited`, `timed_out`, `cancelled`, `failed`; `lost` where nobody can know."""
        return self.look().status

    @property
    def exit_code(self) -> int | None:
        """The exit code, 128 + n after signal n; None while it runs, and where it is not known."""
        return self.look().exit_code

    def wait(self, timeout_s: float | None = None) -> bool:
        """True once the job has ended and its note is written, or a second after its end if that cannot be; False if it has
        not ended within `timeout_s` seconds."""
        begun = time.monotonic()
        deadline = begun + (math.inf if timeout_s is None else timeout_s)
        while True:
            known = self.look()
            if known.status != "running" and known.noted:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return known.status != "running"
            time.sleep(min(_pause_s(begun), left))
            if known.status != "running":       # the note follows at once, unless the disk is full
                deadline = min(deadline, time.monotonic() + 1.0)

    def read(self, offset: int = 0) -> tuple[str, int]:
        """The output from byte `offset` on, and the offset to go on from: no character is split, and reading piece by piece
        yields the same text as reading at once. Raises OSError if the file is gone. Upholds REQ-BASH-003.12."""
        final = self.status != "running"
        with open(_open_regular(self.output_file, os.O_RDONLY), "rb") as file:
            file.seek(max(0, offset))
            data = file.read()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, final)
        return text, max(0, offset) + len(data) - len(decoder.getstate()[0])

    def told(self, offset: int) -> int:
        """The place up to which an answer that ended at byte `offset` has told the output: what was half there then is to come."""
        with open(_open_regular(self.output_file, os.O_RDONLY), "rb") as file:
            file.seek(max(0, offset - KIB))
            end = file.read(min(KIB, offset))
        return offset - len(end) + without_unfinished(Captured(b"", end, len(end))).total_bytes

    def captured(self, offset: int, most: int) -> Captured:
        """The last `most` bytes of what came after byte `offset`, without the completion note, and the counts of all of it."""
        known, buffer = self.look(), OutputBuffer(0, most, True)
        with open(_open_regular(self.output_file, os.O_RDONLY), "rb") as file:
            file.seek(offset)
            left = known.at - offset if known.at >= 0 else sys.maxsize
            for chunk in iter(lambda: file.read(max(0, min(READ_BYTES, left - buffer.total_bytes))), b""):
                buffer.add(chunk)
        return buffer.captured() if known.status != "running" else without_unfinished(buffer.captured())

    def kill(self) -> bool:
        """Ends the job and all that it started: TERM, the grace, KILL. True once nothing of it lives, so also for one that
        had ended; False if something could not be ended. The processes are known by number, start and boot, so a later
        owner of a number is never hit. Upholds REQ-BASH-003.13 and REQ-BASH-003.14."""
        return self.end(lambda: 1)

    def end(self, stops: Callable[[], int]) -> bool:
        """The same; `stops` says how often that was asked for by now. The second time is a KILL at once."""
        known = self.look()
        if known.boot != _boot() or not known.pid or (PROC is None and known.status != "running"):
            return known.status != "running"
        gone = _end(Tree.of_job(known), self._grace_s, time.sleep, stops)
        self.wait(UNKILLABLE_S)
        return gone


class Registry:
    """The runs under way, and whether more are let in."""

    def __init__(self) -> None:
        self.runs: set[Run] = set()
        self.closed = False

    def stop(self) -> None:
        """Asks all runs to stop, once or once more."""
        for run in list(self.runs):
            run.stop()

    def close(self) -> None:
        """Lets nobody in any more and ends who is in. An interrupt on the way is one more stop for all, raised at the end."""
        self.closed = True
        interrupt: BaseException | None = None
        while self.runs:
            try:
                self.stop()
                while not all(run.ended.wait(1.0) for run in list(self.runs)):
                    pass
            except BaseException as problem:
                interrupt = problem
        if interrupt is not None:
            raise interrupt


_everyone = Registry()      # of this process: nobody attached to it may outlive the interpreter
atexit.register(_everyone.close)


def _after_fork() -> None:
    """The parent's commands are none of a forked child's business, and the parent's locks may be held by nobody."""
    global _guard, _turns
    _everyone.runs.clear()
    _guard.close()          # the parent's must not wait for the child's end
    _guard, _turns = Guard(), itertools.cycle([_thread.allocate_lock()])


os.register_at_fork(after_in_child=_after_fork)


class Turnstile:
    """Opens once, for everybody."""

    def __init__(self) -> None:
        self.is_open = False
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def open(self) -> None:
        """Only the first time counts, and only one thread may come here."""
        if not self.is_open:
            self.is_open = True
            self._lock.release()

    def wait(self, timeout_s: float) -> bool:
        """True if it is open by then. Any number of threads may wait; an interrupt between the two lines below delays the
        others by their own timeout, so nobody waits for long at a time."""
        if not self.is_open and self._lock.acquire(timeout=timeout_s):
            self._lock.release()           # each who comes through lets the next one through
        return self.is_open


class Launch(Supervisor):
    """The start of a background job: it is run by a detached copy of this file, else in this process, which it then ends with."""

    def run(self) -> Outcome:
        """How the job ended if it did within its first moment; else that it runs."""
        plan, saved = self._plan, self._spool.spill()
        try:
            record = self._record = Record.create(saved, plan)
        except OSError as problem:
            if saved.path is not None:
                self._folder.discard(saved.path)
            return Outcome("failed", error="spawn_failed", reason="no file for the job could be made: " + _reason(problem))
        work = dict(plan._asdict(), fit=None, streams=None, saving=None, text=plan.text.decode(), env=dict(plan.env), path=record.output)
        try:
            with next(_turns):
                if _stops(self._cancels):
                    self._folder.discard(record.output)
                    return Outcome("cancelled")
                copy = Copy(plan.env, work, {"file": self._spool.fd, "record": record.fd, "pipe": None, "other": None})
        except OSError as problem:
            self._notes.append(NOTE_ATTACHED.format(reason=_reason(problem)))
            self._live = None
            super().run()
            return self._answer(record)
        self._spool.close()
        with closing(copy), closing(record):
            return self._watch(copy, record)

    def _kept(self, pid: int, limit_s: float) -> Outcome:
        assert self._record is not None
        return self._answer(self._record)

    def _watch(self, copy: Copy, record: Record) -> Outcome:
        """Waits until the copy says that the first moment is over. One that is slow, stopped or killed is ended before its
        record is believed: it may be about to start what nobody would find."""
        word, deadline = None, time.monotonic() + LOOK_S + COPY_ANSWERS_S
        while word is None and not _stops(self._cancels) and time.monotonic() < deadline:
            word = copy.hear(0.05)
        known = record.read()
        if not known.pid and known.status == "running":
            copy.kill()
            word, known = b"", record.read()
        cancelled = word != b"e" and _stops(self._cancels) > 0
        if cancelled and known.pid:
            _end(Tree.of_job(known), self._plan.limits.grace_s, stops=self._due)
            while copy.hear(UNKILLABLE_S) == b"k":      # ... and then what else it said
                pass
        if word == b"" and record.read().status == "running":
            _quietly(record.settle, _LOST)
        answer = self._answer(record, cancelled)
        return answer._replace(status="cancelled", error=None, reason="", exit_code=None, signal=None, pid=None) if cancelled else answer

    def _answer(self, record: Record, cancelled: bool = False) -> Outcome:
        """What the record says; with an end, also what the output file holds."""
        known, path = record.read(), record.output
        if not known.pid:
            if PROC is not None:            # who began it may have been killed in the middle of that
                _end(Tree(0, 0, self._plan.mark), 0.0)
            self._folder.discard(path)
            if known.status in ("failed", "cancelled"):
                return Outcome(known.status, error=known.error, reason=known.reason)
            return Outcome("failed", error="spawn_failed", reason="the detached copy was killed before it had recorded the command, which was ended")
        self._folder.named(path)
        buffer, most = OutputBuffer(self._plan.head_bytes, self._plan.tail_bytes, self._plan.count_lines), sys.maxsize
        if cancelled and known.at >= 0:     # the note would call our own doing the command's failure
            most = known.at
        if known.status != "running" or cancelled:
            try:
                with open(_open_regular(path, os.O_RDONLY), "rb") as file:
                    for chunk in iter(lambda: file.read(min(READ_BYTES, most - buffer.total_bytes)), b""):
                        buffer.add(chunk)
            except OSError:                 # the job has removed it
                pass
        outcome = self._so_far(known.status, [buffer])._replace(
            exit_code=known.exit_code, signal=known.signal, error=known.error, reason=known.reason, pid=known.pid,
            notes=tuple(known.notes), limit_s=0.0 if known.status == "running" else self._plan.limits.kept_s or 0.0)
        if known.status != "lost":
            return outcome
        left = Tree.of_job(known).left() if PROC is not None else []
        return outcome._replace(status="failed", reason="what ran the job was killed: its exit status is unknown"
                                + ("; still running: " + _who(left, "%d %s") if left else ""))


class Run:
    """One command on its way to an answer."""

    def __init__(self, kind: type[Supervisor], plan: Plan, folder: Folder, registry: Registry, cancel: Cancel | None,
                 watched: bool) -> None:
        self._registries = (registry, _everyone)
        self._own = Cancel()
        self._stopping = _thread.RLock()          # a signal handler may stop what is being stopped
        self._live = LiveText() if watched else None
        self._work = kind(plan, folder, [self._own] if cancel is None else [self._own, cancel], self._live, self._publish)
        self._claim = _thread.allocate_lock()   # taken, for good, by the one that runs it
        self._outcome: Outcome | None = None
        self.final = Outcome("cancelled")       # how it ended, once it has
        self._answered = Turnstile()
        self.ended = Turnstile()

    def start(self) -> None:
        """Starts the command in a monitor thread. Starting twice is starting once."""
        instead = Outcome("cancelled")
        if not _everyone.closed:                # else the interpreter is ending: a new thread might never run
            try:
                _thread.start_new_thread(self._monitor, ())
                return
            except RuntimeError as problem:     # no thread to be had, or the interpreter is at its end
                instead = Outcome("failed", error="spawn_failed", reason="no thread could be started: %s" % problem)
        if self._claim.acquire(False):
            self._publish(instead)
            self.ended.open()

    def _monitor(self) -> None:
        if not self._claim.acquire(False):
            return
        for registry in self._registries:
            registry.runs.add(self)
        if any(registry.closed for registry in self._registries):   # looked at after the entry: close() sees one or the other
            self._own.cancel()
        try:
            outcome = self._work.run()
        except BaseException as bug:            # never the caller's hang, whatever is wrong here
            outcome = Outcome("failed", error="internal", reason="bug in bash_tool: %r" % bug)
        self.final = outcome
        if self._stopping.acquire(timeout=0.1):
            self._own.close()
            self._stopping.release()    # else a handler within `stop` waits for this run's end; the descriptors go with the token
        for registry in self._registries:
            registry.runs.discard(self)
        self._publish(outcome)
        self.ended.open()
        self._work.linger()
        self.final = self.final._replace(saved=self._work.saved())
        del self._work          # it knows `_publish`: a circle that would hold the caller's token

    def _publish(self, outcome: Outcome) -> None:
        """The answer is the first that is published: that the run goes on, or how it ended."""
        if self._outcome is None:
            self._outcome = outcome
            self._answered.open()

    def saved(self) -> Saved | None:
        """How far the output is in a file by now."""
        work = getattr(self, "_work", None)
        return work.saved() if work is not None else self.final.saved

    def wait(self, timeout_s: float) -> Outcome | None:
        """The answer, or None if there is none within `timeout_s` seconds."""
        self._answered.wait(timeout_s)
        return self._outcome

    def follow(self, on_output: Callable[[str], object] | None) -> Outcome:
        """The answer, however long it takes; what arrives until then goes to `on_output`, about ten times a second."""
        outcome = None
        while outcome is None:
            outcome = self.wait(0.1 if on_output else 1.0)
            text = self._live.take(final=outcome is not None) if self._live else ""
            if text and on_output:
                on_output(text)
        return outcome

    def stop(self) -> None:
        """Asks the run to stop: TERM, the grace, KILL. Asking again means KILL now."""
        with self._stopping:
            self._own.cancel()

    def end(self) -> None:
        """Stops the run and waits for its end. An interrupt on the way is one more stop. Upholds REQ-BASH-015.2."""
        while not self.ended.is_open:
            try:
                self.stop()
                self.start()                    # the interrupt may have come before the start
                while not self.ended.wait(1.0):
                    pass
            except BaseException:
                continue


class Lease:
    """Held by who waits for a run, and by nobody else. However that one leaves, the run is stopped if it has no answer yet: a
    second Ctrl-C a few microseconds after the first strikes before any handler of ours has begun."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __del__(self) -> None:
        if self._run.wait(0.0) is None:
            self._run.stop()


def _take_in_orphans() -> Sequence[int]:
    """Makes this process the parent of every orphan among its descendants, so that none is out of its sight; a host must
    not. Returns the number and the start of this process, or nothing where that cannot be."""
    try:
        import ctypes
        this = _member(os.getpid())
        if this is not None and HAS_WAITID and ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0:     # PR_SET_CHILD_SUBREAPER
            return [this.pid, this.start]
    except (ImportError, OSError, AttributeError):
        pass
    return []


def _work_detached(request: int, leave: int, reports: int) -> None:
    """What a detached copy does: it says who it is, and if that is to its starter's liking, runs a job or drains a leftover.

    It is in nobody's way: a session and a working directory of its own, a name that `pkill python` misses, deaf to the
    signals that are meant for others (by handlers, since a job would inherit what is ignored). Upholds REQ-BASH-003.4."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
        signal.signal(number, lambda *_: None)
    try:
        with open("/proc/self/comm", "w") as name:
            name.write("bash-tool-job")
    except OSError:
        pass
    _quietly(_write_all, reports, b"%s %d\n" % (_own_sha256().encode(), os.getpid()))
    if not os.read(leave, 1):
        return
    os.setsid()             # not before: its starter ends a copy that it does not want by the group it was started in
    with open(request, "rb") as file:
        work = json.loads(file.read())
    folder = Folder(os.path.dirname(work["path"]))
    spool = Spool(folder, None if work["file"] is None else (work["file"], work["path"]))      # without: nothing is kept
    record = None if work["record"] is None else Record(work["record"], work["path"])
    if work["pipe"] is not None:
        pipes = {fd: fd for fd in (work["pipe"], work["other"]) if fd is not None}
        _drain(pipes, spool.add if spool.fd is not None else len, math.inf, pipes.pop)
        if record is not None:
            known = record.read()
            _quietly(record.settle, Outcome("exited"), Tree.of_job(known).left() if known.pid else [])
        return
    assert record is not None
    plan = Plan(work["text"].encode(), work["mark"], tuple(work["shell"]), work["program"], work["cwd"], work["env"], Limits(*work["limits"]),
                Streams.MERGED, Saving.NEVER, 0, 0, 0, False, lambda captured: Fitted("", captured.total_bytes, False))
    supervisor = Supervisor(plan, folder, [], None, lambda _: _quietly(os.write, reports, b"k"), spool, record, _take_in_orphans())
    signal.signal(signal.SIGCHLD, supervisor.reap_orphans)
    supervisor.run()
    _quietly(os.write, reports, b"e")
    supervisor.linger()


# ---- 8 BashTool -----------------------------------------------------------------------------------------
# The face. What a model or a command does is answered; what a host does wrong is raised.

def _strings(value: str | Iterable[str], what: str) -> tuple[str, ...]:
    """A sequence of strings from what a host gave; a lone string is one element, an empty one a ValueError."""
    strings = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(string, str) and string for string in strings):
        raise ValueError("%s takes non-empty strings, got %r" % (what, value))
    return strings


def _directory(cwd: str | os.PathLike[str] | None) -> str:
    try:
        base = os.getcwd()
    except FileNotFoundError:           # the host's own directory is gone: commands will say so
        base = os.environ.get("PWD", "")
        if not base.startswith("/") or os.path.isdir(base):
            base = "/nonexistent"
    path = os.path.join(base, os.fspath(cwd or ""))     # `link/..` is not what the text says
    return os.path.realpath(path) if ".." in path.split("/") else os.path.normpath(path)


class Kept:
    """A job that a model may ask about: with its run where it is of this tool, and up to where its output was told."""

    def __init__(self, job: Job, run: Run | None, offset: int) -> None:
        self.job, self._run, self._offset = job, run, offset
        self._telling = _thread.allocate_lock()     # two who ask at once get each line once

    def ended(self) -> bool:
        """True once nothing more will come."""
        return self.job.status != "running" and (self._run is None or self._run.ended.is_open)

    def kill(self, stops: Callable[[], int]) -> bool:
        """Ends the job; what is told of it from then on does not say that anything still runs. True if nothing does."""
        gone = self.job.end(stops)
        if gone and self._run is not None and self._run.ended.wait(UNKILLABLE_S):
            stale = NOTE_LEFTOVER.partition("{")[0]
            self._run.final = self._run.final._replace(notes=tuple(note for note in self._run.final.notes if not note.startswith(stale)))
        return gone

    def tell(self, profile: Profile) -> Outcome:
        """What the job has said since the last time; once it has ended, how, and the tails of all that it said."""
        known = self.job.look()
        if known.status != "running" and self._run is not None and self._run.ended.wait(UNKILLABLE_S):
            return self._run.final._replace(pid=self.job.pid)
        saved = self._run.saved() if self._run is not None else None
        with self._telling:
            try:
                stream = self.job.captured(self._offset if known.status == "running" else 0, profile.rolling_bytes)
                self._offset += stream.total_bytes if known.status == "running" else 0
            except OSError:             # the file is gone
                stream = Captured(b"", b"", 0)
        return Outcome(known.status, known.exit_code, known.signal, known.error, known.reason, known.limit_s, streams=(fit(stream, profile),),
                       total_bytes=stream.total_bytes, saved=saved or Saved(self.job.output_file, "", False), pid=self.job.pid,
                       notes=tuple(known.notes))


def _program(name: str, env: Mapping[str, str]) -> str | None:
    """The file that PATH leads to. A spawn that has to look goes through the folders itself, which is a thirtieth of a short
    command. None where it depends on the directory, and where nothing is found: the spawn will say so."""
    for folder in os.get_exec_path(env) if "/" not in name else ():
        path = os.path.join(folder, name)
        if not os.path.isabs(folder):
            break
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


class BashTool:
    """A shell for a model. Thread-safe; a context manager that closes.

    cwd       the directory of every command (default: the current one, now)
    profile   how it speaks to the model: a row of PROFILES, or a variant of one
    env       None: this process's environment, scrubbed of secrets. A mapping is passed as it is, with the
              non-interactive defaults that it lacks
    keep_env  names, or globs of names, of this process's environment that pass although they look secret
    deny      substrings that refuse a command. Advice to a well-meaning model, no wall: `eval` walks around it
    confirm   asked with each command; anything but a true answer refuses it, an exception included
    shell     the argv prefix of the shell; it must hand on stdin and end in bash
    state_dir where files go (default: a private temporary folder)
    max_jobs  how many background jobs may live at once

    `withheld` holds the names that were kept out of the environment. Raises ValueError for a mistake in these.
    """

    def __init__(self, cwd: str | os.PathLike[str] | None = None, *, profile: Profile = MODES,
                 env: Mapping[str, str] | None = None, keep_env: str | Sequence[str] = (),
                 deny: str | Sequence[str] = (), confirm: Callable[[str], object] | None = None,
                 shell: str | Sequence[str] = ("bash",), state_dir: str | os.PathLike[str] | None = None,
                 max_jobs: int = MAX_JOBS) -> None:
        host = dict(os.environ)
        keep = _strings(keep_env, "keep_env")
        self.cwd = _directory(cwd)
        self.profile = profile
        self._env, self.withheld = scrub_env(host, keep) if env is None else (complete_env(env, host), ())
        self._deny, self._confirm, self._shell = _strings(deny, "deny"), confirm, _strings(shell, "shell")
        self.max_jobs = max_jobs
        if not self._shell or not isinstance(max_jobs, int) or max_jobs < 0:
            raise ValueError("shell takes at least the name of a shell, max_jobs a number from 0 up")
        self._program = _program(self._shell[0], self._env)
        given = None if state_dir is None else os.path.abspath(os.fspath(state_dir))
        self._folder = Folder(given, profile.file_prefix, shared=given is None and not profile.own_folder)
        self._registry = Registry()
        self._kept: dict[int, Kept] = {}            # what may be asked about, by number
        self._jobs: dict[str, Job | None] = {}      # this tool's live ones, by their run's variable; None: about to start
        self._owner = os.getpid()
        remote = [name for name in self.withheld if name.upper().endswith(REMOTE_ENDINGS)]
        self._first_notes = [NOTE_WITHHELD.format(names=", ".join(map(shown, remote[:20])))] if remote else []

    def __enter__(self) -> "BashTool":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def definition(self, style: str = "anthropic") -> dict[str, Any]:
        """The tool definition for a model, the same bytes for the same configuration: `"anthropic"` for its Messages,
        `"openai"` for its Responses, in strict form, `"mcp"` for clients of that protocol.

        Raises ValueError for another style. Upholds REQ-BASH-006.1 to REQ-BASH-006.3 and REQ-BASH-006.6 to REQ-BASH-006.9.
        """
        return define(self.profile, self.cwd, style)

    def call(self, arguments: object, *, cancel: Cancel | None = None,
             on_output: Callable[[str], object] | None = None) -> Result:
        """The answer to what a model sent: a mapping, or the JSON text of one.

        Raises nothing for what the model or the command did. An exception in the caller, Ctrl-C or one out of
        `on_output`, stops the command, waits until it is gone, and goes on. `on_output` gets live output as text.
        """
        return self._answer(parse_arguments(arguments, self.profile), cancel, on_output)

    def run(self, command: str, mode: str = "default", *, timeout_s: float | None = None, cancel: Cancel | None = None,
            on_output: Callable[[str], object] | None = None) -> Result:
        """The same for Python callers; `timeout_s` (seconds) stands in for the mode's. Raises ValueError for a bad one."""
        if timeout_s is not None and (timeout_s is True or not isinstance(timeout_s, (int, float)) or not 0 < timeout_s < 1e9):
            raise ValueError("timeout_s takes a number of seconds above 0, got %r" % (timeout_s,))
        request = _parse_command(command, mode, None, self.profile) if isinstance(command, str) else _wrong(
            '"command" must be a string, got %s' % _type_name(command))
        if timeout_s is not None and isinstance(request, Request):
            request = request._replace(timeout_s=timeout_s)
        return self._answer(request, cancel, on_output)

    def jobs(self) -> list[Job]:
        """The jobs of the state folder, ended ones included, the oldest first: also those of other tools and of earlier
        processes. Upholds REQ-BASH-003.11."""
        jobs = []
        for path in self._folder.jobs():
            try:
                job = Job(path, self.profile.grace_s)
            except OSError:             # removed to make room, or another user's
                continue
            if job.pid:
                jobs.append(job)
            elif job.status != "running":   # its host died while it started it: nobody was told of it
                self._folder.discard(path)
        return sorted(jobs, key=lambda job: job.created)

    def job(self, pid: int) -> Job:
        """The job with this number, the latest if it was given twice. Raises LookupError, with the live ones, if there is none."""
        jobs = self.jobs()
        for job in reversed(jobs):
            if job.pid == pid:
                return job
        raise LookupError("no job has the number %r; running: %s" % (pid, ", ".join(
            str(job.pid) for job in jobs if job.status == "running") or "none"))

    def close(self) -> None:
        """Ends every call that is still under way, and every job that is attached to this process; leaves the detached ones.
        Removes the files that no answer named. Upholds REQ-BASH-015.5."""
        if os.getpid() == self._owner:      # a forked copy has neither the calls nor the files
            self._registry.close()
            self._folder.close()

    def _admit(self, request: Request) -> Rejected | None:
        """Why this tool will not run the request; None if it will. Upholds REQ-BASH-018.1 and REQ-BASH-018.2."""
        if self._registry.closed:
            return Rejected("closed", "this tool is closed")
        for pattern in self._deny:
            if pattern in request.command:
                return Rejected("denied", DENIED.format(pattern=printable(pattern)))
        if self._confirm is not None:
            try:
                confirmed = bool(self._confirm(request.command))
            except Exception:
                confirmed = False
            if not confirmed:
                return Rejected("not_confirmed", NOT_CONFIRMED)
        return None

    def _answer(self, request: Request | Inquiry | Rejected, cancel: Cancel | None, on_output: Callable[[str], object] | None) -> Result:
        if isinstance(request, Inquiry):
            return self._inquire(request, cancel)
        refusal = request if isinstance(request, Rejected) else self._admit(request)
        if refusal is None and isinstance(request, Request):
            outcome = self._run(request, cancel, on_output)._replace(command=request.command)
        else:
            assert refusal is not None
            outcome = Outcome("rejected", error=refusal.error, reason=refusal.reason)
        result = present(outcome, self.profile)
        self._folder.named(result.output_file)
        return result

    def _run(self, request: Request, cancel: Cancel | None, on_output: Callable[[str], object] | None) -> Outcome:
        background, mark = request.mode == "background", RUN_PREFIX + os.urandom(16).hex()
        try:
            refusal = self._no_room(mark) if background else None
            if refusal is not None:
                return refusal
            plan = self._plan(request, mark)
            run = Run(Launch if background else Supervisor, plan, self._folder, self._registry, cancel, watched=on_output is not None)
            lease = Lease(run)
            try:
                run.start()
                outcome = run.follow(on_output)
            except BaseException:
                run.end()
                raise
            del lease
            if outcome.saved is not None and outcome.saved.path is not None and outcome.status in ("running", "exited"):
                try:                    # an exited one has a job if something of it runs on
                    job = Job(outcome.saved.path, self.profile.grace_s)
                    self._remember(Kept(job, run if outcome.status == "running" and not background else None, job.told(outcome.total_bytes)))
                    if outcome.status == "running":
                        for other in [other for other, old in list(self._jobs.items()) if old is not None and old.status != "running"]:
                            self._jobs.pop(other, None)
                        self._jobs[mark] = job
                except OSError:
                    pass
        finally:
            if self._jobs.get(mark) is None:
                self._jobs.pop(mark, None)
        try:
            return outcome._replace(notes=(*outcome.notes, self._first_notes.pop()))
        except IndexError:
            return outcome

    def _plan(self, request: Request, mark: str) -> Plan:
        profile, timeout_s = self.profile, request.timeout_s or self.profile.timeouts_s[request.mode]
        limits = Limits(timeout_s, profile.grace_s, profile.drain_idle_s, profile.drain_total_s)
        if request.mode == "background":    # the answer does not wait for late writers; the supervisor reads them after its note
            limits = Limits(LOOK_S, profile.grace_s, min(LEAVING_S, profile.drain_idle_s), min(2 * LEAVING_S, profile.drain_total_s), timeout_s)
        elif profile.on_timeout is OnTimeout.KEEP:
            limits = limits._replace(kept_s=profile.timeouts_s.get("background", BACKGROUND_TIMEOUT_S))
        program = self._program if self._program and os.access(self._program, os.X_OK) else None
        return Plan(request.command.encode("utf-8"), mark, self._shell, program, self.cwd, self._env, limits, profile.streams, profile.saving,
                    profile.max_output_bytes, *kept_bytes(profile), profile.truncation is Truncation.TAIL, lambda stream: fit(stream, profile))

    def _remember(self, kept: Kept) -> None:
        """Holds on to a job for who may ask about it; of those that ended, to the last few."""
        self._kept[kept.job.pid] = kept
        for pid in [pid for pid, other in list(self._kept.items()) if other.ended()][:-MAX_JOBS]:
            self._kept.pop(pid, None)

    def _inquire(self, inquiry: Inquiry, cancel: Cancel | None) -> Result:
        """What a job has said since the last time, or how it ended. Upholds REQ-BASH-021.7 to REQ-BASH-021.9."""
        kept = self._kept.get(inquiry.pid)
        try:
            job = self.job(inquiry.pid)
            if kept is None or kept.job.output_file != job.output_file:     # a number that was given again
                kept = Kept(job, None, 0)
        except LookupError:             # of one that is remembered the files may be gone
            if kept is None:
                live = [job for job in self.jobs() if job.status == "running"]
                who = ", ".join("%d (%s)" % (job.pid, shown(job.command)) for job in live[-MAX_JOBS:]) or "none"
                return present(Outcome("rejected", error="no_such_job", reason=NO_SUCH_JOB.format(pid=inquiry.pid, who=who)), self.profile)
        self._kept[inquiry.pid] = kept
        gone = not inquiry.kill or kept.kill(lambda: 1 + (cancel.count if cancel is not None else 0))
        outcome = kept.tell(self.profile)
        if not gone:
            outcome = outcome._replace(notes=(*outcome.notes, NOTE_SURVIVED.format(who="pid %d" % inquiry.pid)))
        return replace(present(outcome, self.profile), is_error=not gone)       # the question was answered, whatever the answer

    def _no_room(self, mark: str) -> Outcome | None:
        """Takes a place among the live jobs of this tool; the answer where there is none. First come, first served, and
        no lock, which a fork of the host or a handler could meet held. Upholds REQ-BASH-003.16."""
        self._jobs[mark] = None
        live = []
        for other, job in list(self._jobs.items()):
            if other == mark:
                break
            if job is None or job.status == "running":
                live.append(job)
            else:
                self._jobs.pop(other, None)
        if len(live) < self.max_jobs:
            return None
        who = ", ".join("%d (%s)" % (job.pid, shown(job.command)) for job in live[:MAX_JOBS] if job is not None)
        return Outcome("rejected", error="too_many_jobs", reason=TOO_MANY_JOBS.format(
            count=len(live), most=self.max_jobs, who=who or "none has a number yet"))


# ---- 9 MCP ----------------------------------------------------------------------------------------------
# The Model Context Protocol over two descriptors: a message is a line of JSON. What a message asks for is a function of the message
# alone, in both eras of the protocol, because each request is answered in the form that it came in: with its version in
# `_meta` (2026-07-28), or without, after a handshake that binds nobody to anything (until 2025-11-25).

HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS_VERSIONS = ("2026-07-28",)
META = "io.modelcontextprotocol/"
SERVER_INFO = MappingProxyType({"name": "bash_tool", "version": __version__})
PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR, UNKNOWN_VERSION = -32700, -32600, -32601, -32602, -32603, -32022
Id = Union[str, int, float]     # 1.0 is an integer to JSON


class Call(NamedTuple):
    """A request to run a command. `token` is the name under which its progress may be told; None: nobody wants to know."""
    id: Id
    arguments: Mapping[str, Any]
    token: Id | None
    stateless: bool


class Withdrawal(NamedTuple):
    """A call that nobody wants an answer to any more."""
    id: Id


def _id(value: object) -> Id | None:
    """What a request or its progress may be called; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return None if isinstance(value, float) and not value.is_integer() else value


def error_message(id_: object, code: int, reason: str, **data: object) -> dict[str, Any]:
    """The answer to a request that is none, or none that is known here."""
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": reason, **({"data": data} if data else {})}}


def result_message(id_: object, result: Mapping[str, Any], stateless: bool) -> dict[str, Any]:
    """The answer to a request, in the form of its era."""
    if stateless:
        result = {"resultType": "complete", **result, "_meta": {META + "serverInfo": dict(SERVER_INFO)}}
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def call_message(call: Call, result: Result) -> dict[str, Any]:
    """The answer to a call."""
    return result_message(call.id, {"content": [{"type": "text", "text": result.text}], "structuredContent": structured(result),
                                    "isError": result.is_error}, call.stateless)


def _handle_request(id_: Id, method: str, params: Mapping[str, Any], tool: Mapping[str, Any]) -> dict[str, Any] | Call:
    meta = params.get("_meta")
    if meta is None:
        meta = {}
    if not isinstance(meta, dict):
        return error_message(id_, INVALID_PARAMS, "_meta must be an object, got %s" % _type_name(meta))
    if method == "initialize":          # is of the older era, whatever its `_meta` says
        version = params.get("protocolVersion")
        return result_message(id_, {"protocolVersion": version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0],
                                    "capabilities": {"tools": {}}, "serverInfo": dict(SERVER_INFO)}, False)
    version = meta.get(META + "protocolVersion")
    stateless = version is not None
    if stateless and not isinstance(version, str):
        return error_message(id_, INVALID_PARAMS, "the protocol version must be a string, got %s" % _type_name(version))
    if stateless and version not in STATELESS_VERSIONS:
        return error_message(id_, UNKNOWN_VERSION, "unsupported protocol version", requested=version,
                             supported=[*STATELESS_VERSIONS, *HANDSHAKE_VERSIONS])
    caching = {"ttlMs": 0, "cacheScope": "private"} if stateless or method == "server/discover" else {}
    if method == "server/discover":
        return result_message(id_, {"supportedVersions": list(STATELESS_VERSIONS), "capabilities": {"tools": {}}, **caching}, True)
    if method == "ping":
        return result_message(id_, {}, stateless)
    if method == "tools/list":
        return result_message(id_, {"tools": [dict(tool)], **caching}, stateless)
    if method == "tools/call":
        name, arguments, token = params.get("name"), params.get("arguments"), meta.get("progressToken")
        if name != tool["name"]:
            return error_message(id_, INVALID_PARAMS, 'unknown tool: "%s"; there is "%s"' % (shown(name), tool["name"]))
        if not isinstance(arguments, dict) and arguments is not None:
            return error_message(id_, INVALID_PARAMS, "arguments must be an object, got %s" % _type_name(arguments))
        if token is not None and _id(token) is None:
            return error_message(id_, INVALID_PARAMS, "progressToken must be a string or an integer, got %s" % _type_name(token))
        return Call(id_, arguments or {}, _id(token), stateless)
    return error_message(id_, UNKNOWN_METHOD, "unknown method: %s" % shown(method))


def handle(message: object, tool: Mapping[str, Any]) -> dict[str, Any] | Call | Withdrawal | None:
    """What a message asks for: an answer to send, a call to make, a call to withdraw, or nothing. `tool` is the definition for
    MCP. Does nothing else, and raises nothing. Upholds REQ-BASH-025.1 to REQ-BASH-025.5 and REQ-BASH-025.12."""
    if not isinstance(message, dict):
        return error_message(None, INVALID_REQUEST, "a message must be an object, got %s" % _type_name(message))
    id_, method, params = _id(message.get("id")), message.get("method"), message.get("params")
    if "method" not in message and ("result" in message or "error" in message):
        return None             # an answer; nothing was asked
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str) or ("id" in message and id_ is None):
        return error_message(id_, INVALID_REQUEST, 'a request has "jsonrpc": "2.0", a string "method", and an "id" that is a '
                             'string or an integer')
    if id_ is not None:
        if not isinstance(params, dict) and params is not None:
            return error_message(id_, INVALID_PARAMS, "params must be an object, got %s" % _type_name(params))
        return _handle_request(id_, method, params or {}, tool)
    withdrawn = _id(params.get("requestId")) if method == "notifications/cancelled" and isinstance(params, dict) else None
    return None if withdrawn is None else Withdrawal(withdrawn)


class Underway:
    """A call without an answer yet. What is told of its progress is counted by the writer alone, so it is told in order."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.cancel = Cancel()
        self.began = self.spoke = time.monotonic()
        self.told = 0

    def progress(self, text: str) -> dict[str, Any]:
        """The next message about it."""
        self.told += 1
        self.spoke = time.monotonic()
        return {"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": self.call.token, "progress": self.told, "message": text}}


class Server:
    """Serves one client. One thread reads, one writes, and one a call waits for its command, so that nobody waits for another:
    neither a cancel for a command, nor a command for a client that has stopped reading. Upholds REQ-BASH-025.7 to REQ-BASH-025.18."""

    def __init__(self, tool: BashTool, source: int = 0, sink: int = 1) -> None:
        import queue        # only a server pays for it
        self._tool, self._source, self._sink = tool, source, sink
        self._definition = tool.definition("mcp")
        self._calls: dict[object, Underway] = {}        # entered by the reader, removed by the writer
        self._outbox: queue.Queue[tuple[Underway | None, dict[str, Any] | str | None]] = queue.Queue(OUTBOX_MESSAGES)
        self._empty, self._full = queue.Empty, queue.Full
        self._ending = False        # there will be no more calls
        self._written = Turnstile()
        self._wake, self.interrupts = os.pipe()     # takes the numbers of signals, and a 0 when nobody reads any more
        for fd in (self._wake, self.interrupts):
            os.set_blocking(fd, False)

    def serve(self) -> None:
        """Returns when the input has ended, nobody reads the answers, or a signal came. By then every foreground command is
        gone; a signal while they are ended skips the grace. Jobs go on. Upholds REQ-BASH-025.9."""
        _thread.start_new_thread(self._write_out, ())
        with suppress(EOFError):
            for line in self._lines():
                self._take(line)
        closed = Turnstile()
        signals = self._signals()[1:]       # the first, if there is one, has ended the reading
        _thread.start_new_thread(self._close_tool, (closed,))
        while not closed.wait(0.1):
            for _ in filter(None, signals):
                self._tool._registry.stop()
            signals = self._signals()
        with suppress(self._full):
            self._outbox.put((None, None), timeout=FLUSH_S)
            self._written.wait(FLUSH_S)

    def close(self) -> None:
        """Gives back the descriptors, after `serve`; those of a writer that nobody reads end with the process."""
        if self._written.is_open:
            _close(self._wake, self.interrupts)

    def _close_tool(self, closed: Turnstile) -> None:
        try:
            self._tool.close()
        finally:
            closed.open()

    def _signals(self) -> bytes:
        try:
            return os.read(self._wake, READ_BYTES)
        except BlockingIOError:
            return b""

    def _poller(self, event: int) -> select.poll:
        """Waits for an event of the input, for the end of who reads the answers, which a pipe reports unasked, and for a signal."""
        poller = select.poll()
        for fd, events in ((self._source, event), (self._sink, 0), (self._wake, select.POLLIN)):
            poller.register(fd, events)
        return poller

    def _lines(self) -> Iterator[bytes]:
        """The lines of the input. Of one that is too long only the beginning comes, too long by a byte."""
        line = bytearray()
        poller = self._poller(select.POLLIN)
        while not dict(poller.poll()).keys() & {self._sink, self._wake}:
            chunk = os.read(self._source, READ_BYTES)
            if not chunk:
                yield bytes(line)
                return
            first, *others = chunk.split(b"\n")
            line += first[:MAX_MESSAGE_BYTES + 1 - len(line)]
            for other in others:
                yield bytes(line)
                line = bytearray(other)

    def _take(self, line: bytes) -> None:
        if len(line) > MAX_MESSAGE_BYTES:
            self._send(error_message(None, INVALID_REQUEST, "a message may have %s at most" % size_text(MAX_MESSAGE_BYTES)))    # its id may be anywhere
        elif line.strip():
            try:
                message = load_json(line)
            except ValueError as problem:
                return self._send(error_message(None, PARSE_ERROR, "not JSON (%s)" % shown(problem)))
            for part in message if isinstance(message, list) and message else [message]:    # a batch is answered one by one
                asked = handle(part, self._definition)
                if isinstance(asked, Call):
                    self._begin(asked)
                elif isinstance(asked, Withdrawal):
                    self._withdraw(asked)
                elif asked is not None:
                    self._send(asked)

    def _begin(self, call: Call) -> None:
        if call.id in self._calls:
            return self._send(error_message(call.id, INVALID_REQUEST, "a call with this id is under way"))
        if len(self._calls) >= MAX_CALLS:
            refusal = Outcome("rejected", error="too_many_calls", reason=TOO_MANY_CALLS.format(most=MAX_CALLS))
            return self._send(call_message(call, present(refusal, self._tool.profile)))
        underway = self._calls[call.id] = Underway(call)
        try:
            _thread.start_new_thread(self._work, (underway,))
        except RuntimeError as problem:
            self._send(error_message(call.id, INTERNAL_ERROR, "no thread could be started: %s" % problem), underway)

    def _withdraw(self, withdrawal: Withdrawal) -> None:
        underway = self._calls.get(withdrawal.id)
        if underway is not None:
            underway.cancel.cancel()

    def _work(self, underway: Underway) -> None:
        """What the thread of a call does."""
        call = underway.call
        try:
            tell = None if call.token is None else lambda text: self._outbox.put((underway, text))
            answer = call_message(call, self._tool.call(call.arguments, cancel=underway.cancel, on_output=tell))
        except BaseException as bug:
            answer = error_message(call.id, INTERNAL_ERROR, "bug in bash_tool: %r" % bug)
        self._outbox.put((underway, answer))

    def _send(self, answer: dict[str, Any], underway: Underway | None = None) -> None:
        """Puts an answer of the reader's into the outbox. While that is full nothing is read, which stops a client that sends
        and does not read; but that it has gone, or has closed its end, is still noticed: raises EOFError."""
        while True:
            try:
                return self._outbox.put((underway, answer), timeout=0.2)
            except self._full:
                if self._poller(getattr(select, "POLLRDHUP", 0)).poll(0):
                    raise EOFError from None

    def _write_out(self) -> None:
        """What the writer does, until the last answer is out or nobody is there to read it."""
        try:
            while self._write_next():
                self._beat()
        except OSError:         # nobody reads any more
            pass
        finally:                # the reader must not go on without a writer
            _quietly(os.write, self.interrupts, b"\0")
            self._written.open()

    def _write_next(self) -> bool:
        """Writes what comes next, if something does; False once nothing more will. Of a call that was withdrawn nothing is
        said any more: that is looked at here, where nothing comes between the look and the writing."""
        try:
            underway, message = self._outbox.get(timeout=HEARTBEAT_S / 10)
        except self._empty:
            return True
        self._ending = self._ending or message is None
        if underway is not None and isinstance(message, dict):
            del self._calls[underway.call.id]
        if message is not None and (underway is None or not underway.cancel.count):
            self._write(message if underway is None or isinstance(message, dict) else underway.progress(message))
        return bool(self._calls) or not self._ending

    def _beat(self) -> None:
        now = time.monotonic()
        for underway in list(self._calls.values()):
            if underway.call.token is not None and now - underway.spoke >= HEARTBEAT_S and not underway.cancel.count:
                self._write(underway.progress(HEARTBEAT.format(seconds="%ds" % (now - underway.began))))

    def _write(self, message: object) -> None:
        """In plain ASCII, for clients that split lines where Unicode does."""
        _write_all(self._sink, json.dumps(message).encode() + b"\n")


# ---- 10 Command line ------------------------------------------------------------------------------------

EXIT_CODES = MappingProxyType({"timed_out": 124, "cancelled": 130, "rejected": 125, "failed": 125})


def _user_folder() -> str:
    """One private folder per user, so that a later call finds the files of an earlier one. Raises OSError if it is not ours."""
    path = os.path.join(next(_temporary_folders()), "bash-tool-of-%d" % os.getuid())
    try:
        _make_private(path)
    except FileExistsError:
        info = os.lstat(path)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
            raise PermissionError(errno.EPERM, "%s is not a private folder of this user" % path) from None
    return path


def _write(fd: int, text: str) -> None:
    """Writes UTF-8 whatever the locale says. A reader that has gone is no error."""
    try:
        _write_all(fd, text.encode("utf-8", "surrogateescape"))
    except BrokenPipeError:
        pass


def _hide(command: str) -> None:
    """Blanks a command in this process's own arguments, as far as the platform lets it: `pkill -f` of a word in the
    command must not end the tool, and `ps` must not show it. The kernel shows the memory itself, so that is what to write."""
    try:
        fields = _read_file("/proc/self/stat").rpartition(b") ")[2].split()
        begin, end = int(fields[45]), int(fields[46])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(begin)
            hidden = memory.read(end - begin)
            for _ in range(2):          # equal neighbours share a NUL
                hidden = hidden.replace(b"\0%b\0" % os.fsencode(command), b"\0%b\0" % (b" " * len(os.fsencode(command))))
            memory.seek(begin)
            memory.write(hidden)
    except (OSError, ValueError, IndexError):
        pass


def _options(argv: Sequence[str] | None) -> Any:
    """The command line as it was meant; says how to use it, and exits, where it means nothing."""
    import argparse     # only the command line pays for it

    class _Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            """Not argparse's exit code 2, which could be the command's own."""
            self.print_usage(sys.stderr)
            self.exit(EXIT_CODES["failed"], "%s: %s\n" % (self.prog, message))

    parser = _Parser(prog="bash_tool.py", description="Run a command as an LLM agent would, and print what the model would read.",
                    epilog="Exits with the command's own code; 124 timed out, 125 the tool failed, 130 interrupted.",
                    formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100))   # else shutil is asked for one: 2 ms a command
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="the command; - reads it from stdin")
    parser.add_argument("--profile", choices=sorted(PROFILES), default=os.environ.get("BASH_TOOL_PROFILE", "modes").lower(),
                        help="how to speak (default: BASH_TOOL_PROFILE, else modes)")
    parser.add_argument("--mode", default="default", help="default (30s), slow (15min) or background")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="in place of the mode's")
    parser.add_argument("--cwd", metavar="DIR", help="where the command runs")
    parser.add_argument("--state-dir", metavar="DIR", help="where output files go (default: one folder per user)")
    parser.add_argument("--deny", action="append", default=[], metavar="TEXT", help="refuse commands that hold TEXT; may be repeated")
    parser.add_argument("--keep-env", action="append", default=[], metavar="NAME", help="pass a variable though it looks secret; may be repeated")
    parser.add_argument("--follow", action="store_true", help="show live output on stderr")
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    parser.add_argument("--schema", nargs="?", const="anthropic", metavar="STYLE", help="print the tool definition")
    parser.add_argument("--mcp", action="store_true", help="serve a client of the Model Context Protocol on stdin and stdout")
    parser.add_argument("--jobs", action="store_true", help="list the background jobs: number, age, status, file, command")
    parser.add_argument("--version", action="store_true", help="print the version and this file's sha256")
    options = parser.parse_args(argv)
    if options.profile not in PROFILES:
        parser.error("BASH_TOOL_PROFILE must be one of %s" % _quoted(sorted(PROFILES)))
    if sum((options.command is not None, options.schema is not None, options.mcp, options.jobs, options.version)) != 1:
        parser.error("give one of COMMAND, --schema, --mcp, --jobs, --version")
    if options.mcp and (options.timeout is not None or options.mode != "default" or options.follow or options.json):
        parser.error("--mode, --timeout, --follow and --json go with a command; BASH_TOOL_TIMEOUTS sets the limits of --mcp")
    return options


def _profile(name: str) -> Profile:
    """The row with this name. BASH_TOOL_TIMEOUTS, a JSON object of seconds such as {"default": 5, "grace_s": 1}, changes its
    limits. Raises ValueError for what makes no sense."""
    row, given = PROFILES[name], load_json(os.environ.get("BASH_TOOL_TIMEOUTS") or "{}")
    waits = ("grace_s", "drain_idle_s", "drain_total_s")
    if not isinstance(given, dict) or not all(
            key in (*row.timeouts_s, *waits) and type(value) in (int, float) and 0 <= value < 1e9 for key, value in given.items()):
        raise ValueError("BASH_TOOL_TIMEOUTS takes a JSON object of seconds for %s" % _quoted((*row.timeouts_s, *waits)))
    return replace(row, timeouts_s={mode: given.get(mode, limit_s) for mode, limit_s in row.timeouts_s.items()},
                   **{wait: given[wait] for wait in waits if wait in given})


def _serve(tool: BashTool) -> int:
    """Serves until the client leaves or a signal comes. A handler that raised would strike in the middle of a queue, and leave that
    locked; and the kernel may give a signal to a thread in which no handler of Python's runs. So the interpreter writes it to
    a descriptor, and the handler does nothing."""
    server = Server(tool)
    signal.set_wakeup_fd(server.interrupts, warn_on_full_buffer=False)
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, lambda *_: None)
    server.serve()
    for number in numbers:      # one that is not ignored gets its default back while the interpreter ends
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    server.close()
    return 0


def _run_and_print(tool: BashTool, options: Any) -> int:
    command = options.command
    if command == "-":
        with open(0, "rb", closefd=False) as stdin:
            command = stdin.read().decode("utf-8", "surrogateescape")
    else:
        _hide(command)
    cancel = Cancel()

    def _interrupted(number: int, _: object) -> None:
        cancel.cancel()
        if cancel.count > 2:        # even the writing stalls: the next one ends this process, and its guard the command
            signal.signal(number, signal.SIG_DFL)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:   # nohup, and jobs of a shell without job control
            signal.signal(number, _interrupted)
    result = tool.run(command, options.mode, timeout_s=options.timeout, cancel=cancel,
                      on_output=(lambda text: _write(2, text)) if options.follow else None)
    for number, handler in before.items():
        signal.signal(number, handler)
    _write(1, json.dumps(result.to_dict()) + "\n" if options.json else result.text)
    return EXIT_CODES.get(result.status, result.exit_code or 0)


def _print_jobs(jobs: Sequence[Job], as_json: bool) -> None:
    for job in jobs:
        age_s = max(0.0, time.time() - job.created)
        fields = {"pid": job.pid, "age_s": round(age_s, 3), "status": job.status, "exit_code": job.exit_code,
                  "output_file": job.output_file, "command": job.command}
        _write(1, json.dumps(fields) + "\n" if as_json else "%d\t%ds\t%s\t%s\t%s\n" % (
            job.pid, age_s, job.status, printable(job.output_file), shown(job.command)))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and prints what a model would read. Returns the exit code for the process."""
    for fd in range(3):         # a closed one would become the first file that is opened
        try:
            os.fstat(fd)
        except OSError:
            if fd == 1:
                return EXIT_CODES["failed"]
            os.open(os.devnull, os.O_RDWR)
    options = _options(argv)
    try:
        if options.version:
            _write(1, "bash_tool %s sha256:%s\n" % (__version__, _own_sha256()))
            return 0
        try:
            state_dir = options.state_dir or _user_folder()
        except OSError:
            state_dir = None    # a private temporary folder, if a file is needed at all
        profile = _profile(options.profile)
        if not options.mcp:
            profile = replace(profile, on_timeout=OnTimeout.KILL)   # nobody would be there to ask about a job that is kept
        with BashTool(options.cwd, profile=profile, deny=options.deny, keep_env=options.keep_env, state_dir=state_dir) as tool:
            if options.mcp:
                return _serve(tool)
            if options.schema:
                _write(1, json.dumps(tool.definition(options.schema), indent=2, ensure_ascii=False) + "\n")
                return 0
            if options.jobs:
                _print_jobs(tool.jobs(), options.json)
                return 0
            return _run_and_print(tool, options)
    except KeyboardInterrupt:   # while reading the command
        return EXIT_CODES["cancelled"]
    except (ValueError, OSError) as problem:
        _write(2, "bash_tool.py: %s\n" % printable(problem, " "))
        return EXIT_CODES["failed"]


if __name__ == "__main__":
    sys.exit(main())
