"""Each property under its saboteur, where the property must fail.

python -m tests.tools.saboteurs               all of them
python -m tests.tools.saboteurs 003.9 t01     these
python -m tests.tools.saboteurs eighth        an eighth, another one each day
"""

import gc
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.processes import carriers
from tests.spec import HERE
from tests.support import HANGS, TESTS, sabotaged, saboteurs_at_tests

AT_ONCE = 5 * (os.cpu_count() or 1)  # most runs wait more than they compute


class Sabotaged:
    """A run of one test under its saboteur, in a process forked from this one, which has imported pytest and
    Hypothesis; the modules of the tests are imported anew there, with the changed bash_tool.py as the one under test."""

    def __init__(self, number):
        self.number, self.begun = number, time.monotonic()
        self.output = tempfile.TemporaryFile()
        self.folder = Path(tempfile.mkdtemp(prefix="sabotage-"))
        path = self.folder / "bash_tool.py"
        path.write_text(sabotaged(number), encoding="utf-8")
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            return
        status = 98
        try:
            os.setsid()  # a saboteur may signal its process group
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(self.output.fileno(), 1)
            os.dup2(1, 2)
            random.seed()
            status = self._run(path)
        except BaseException as problem:
            os.write(2, ("%r\n" % problem).encode())
        finally:
            sys.stdout.flush()  # os._exit(2) drops what waits there, and the verdict is read from it
            os._exit(status)

    def _run(self, path):
        os.environ.update(BASH_TOOL_MUTANT=str(path))
        for name in list(sys.modules):
            if name.partition(".")[0] in ("tests", "test_bash_tool", "bash_tool"):
                del sys.modules[name]
        module, test = TESTS[self.number]
        file = HERE / (module.replace(".", "/") + ".py")
        options = ["-x", "--no-header", "--assert=plain", "--tb=native", "-o", "addopts=-p no:cacheprovider"]
        return pytest.main([*options, "--rootdir", str(HERE), "%s::%s" % (file, test)])

    def ended(self):
        """Whether the run is over; too long a run is ended. What should fail may wait, on a busy machine."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        hangs, gone_s = self.number in HANGS, time.monotonic() - self.begun
        if not done and gone_s < (20 if hangs else 150):
            return False
        if not done:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.seconds = gone_s
        self.output.seek(0)
        self.said = self.output.read().decode("utf-8", "replace") if done else "no end"
        self.red = hangs if not done else status == 1 << 8 and " failed" in self.said
        self.output.close()
        for pid in carriers("TEST_OF_BASH_TOOL_%d_" % self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for folder in (self.folder, *Path("/tmp").glob("importable-%d-*" % self.pid)):  # it ends by os._exit
            shutil.rmtree(folder, ignore_errors=True)
        return True


def main(chosen):
    """Runs the chosen tests under their saboteurs; returns how many stayed green."""
    importlib.import_module("test_bash_tool")
    for file in sorted((HERE / "tests").glob("test_*.py")):
        importlib.import_module("tests." + file.stem)
    if chosen == ["eighth"]:
        chosen = sorted(saboteurs_at_tests())[int(time.time() // 86400) % 8 :: 8]
    waiting = sorted(chosen or saboteurs_at_tests(), key=lambda number: number not in HANGS)
    begun, said, underway, ended = time.monotonic(), time.monotonic(), [], []
    gc.collect()
    gc.freeze()
    while waiting or underway:
        while waiting and len(underway) < AT_ONCE:
            underway.append(Sabotaged(waiting.pop(0)))
        time.sleep(0.02)
        for run in [run for run in underway if run.ended()]:
            underway.remove(run)
            ended.append(run)
            if not run.red:
                print("%s is not red under its saboteur:\n%s" % (run.number, run.said[-1500:]), flush=True)
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print("%3d s: %d of %d" % (said - begun, len(ended), len(ended) + len(waiting) + len(underway)), flush=True)
    green = sum(not run.red for run in ended)
    slowest = sorted(ended, key=lambda run: -run.seconds)[:10]
    print("the slowest: " + ", ".join("%s %.0f s" % (run.number, run.seconds) for run in slowest))
    print(
        "saboteurs that were caught, in %d s:\n%d passed, %d failed"
        % (time.monotonic() - begun, len(ended) - green, green)
    )
    return green


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 99))
