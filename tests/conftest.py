"""The fixture of every test in this folder; the order of the tests where BASH_TOOL_SHUFFLE is a seed; what a worker leaves
out at its end; how many tests `make exhaustive` has beside those that ran; and how loaded the machine was when one failed."""

import gc
import importlib
import os
import random
import signal

import pytest

pytest.register_assert_rewrite("tests.support", "tests.spec", "tests.processes", "tests.known_commands")

from tests.support import nothing_is_left  # noqa: E402, F401


def pytest_collection_modifyitems(items):
    seed = os.environ.get("BASH_TOOL_SHUFFLE")
    if seed:
        random.Random(seed).shuffle(items)  # each worker of pytest-xdist must collect the same order


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what is imported stays to the end: no collection need look at it, nor the five at the end of pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    if "PYTEST_XDIST_WORKER" in os.environ:  # to one that takes 5 s for its end execnet sends an interrupt
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def pytest_configure(config):
    # The hooks of this file itself are not asked about the tests above its folder.
    config.pluginmanager.register(Load())
    config.pluginmanager.register(Beside(config))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    if session.config.getoption("numprocesses", None):  # else each worker would compile a changed module for itself
        importlib.import_module("test_bash_tool")


class Beside:
    """Says at the end how many tests `make exhaustive` has beside those of this run; with pytest-xdist a worker counts them."""

    def __init__(self, config):
        self.config, self.count = config, 0

    def pytest_deselected(self, items):
        self.count += sum("exhaustive" in item.keywords for item in items)

    def pytest_sessionfinish(self):
        if "PYTEST_XDIST_WORKER" in os.environ:
            self.config.workeroutput["beside"] = self.count

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.count = max(self.count, getattr(node, "workeroutput", {}).get("beside", 0))

    def pytest_terminal_summary(self, terminalreporter):
        if self.count and not self.config.option.keyword:
            terminalreporter.write_line("not among them: %d tests of `make exhaustive`" % self.count)


class Load:
    """Says beside each failure how much the machine had to do."""

    TICKS = pytest.StashKey()

    def ticks(self):
        """The clock ticks since the boot in which processors worked, were idle, and were taken away from this machine."""
        if not os.path.exists("/proc/stat"):
            return 0, 0, 0
        with open("/proc/stat") as file:
            user, nice, system, idle, waits, irq, softirq, steal = map(int, file.readline().split()[1:9])
        return user + nice + system + irq + softirq, idle + waits, steal

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        item.stash[self.TICKS] = self.ticks()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        report = yield
        if report.failed:
            work, idle, steal = (now - then for now, then in zip(self.ticks(), item.stash[self.TICKS]))
            shares = tuple(100 * ticks // max(1, work + idle + steal) for ticks in (work, steal))
            said = "load %.1f, %.1f, %.1f" % os.getloadavg() + " of %d processors" % os.cpu_count()
            said += "; during the test they worked %d %% of the time, and %d %% were stolen" % shares
            report.sections.append(("the machine", said))
        return report
