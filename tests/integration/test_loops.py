"""Programs whose modules gevent has replaced: calls side by side, a timeout, a job, a cancel."""

import pytest

from tests.processes import eventually, running
from tests.support import Host, unique


# What replaces the modules, and what runs a function in a green thread and returns how to wait for its value.
LOOPS = {
    "gevent": ("import gevent, gevent.monkey; gevent.monkey.patch_all()\n", "begin = lambda *a: gevent.spawn(*a).get")
}
PROGRAM = """
tool, number, begun = BashTool(profile=row(20, 0.3)), sys.argv[1][1:], time.monotonic()
waits = [begin(tool.run, "sleep 0.5; echo %d; exit %d" % (n, n)) for n in range(8)]
say([[result.stdout, result.exit_code] for result in (wait() for wait in waits)], time.monotonic() - begun)
begun, other = time.monotonic(), begin(tool.run, "sleep 0.2; echo other")
result = tool.run("echo partial; sleep " + number, timeout_s=0.6)
say(result.status, result.stdout, time.monotonic() - begun, other().text)
job = tool.job(tool.run("echo up; exec sleep " + number, mode="background").pid)
say(job.wait(10, until="up"), job.status, job.kill(), job.wait(10), job.exit_code)
cancel = Cancel()
wait = begin(lambda: tool.run("sleep " + number, cancel=cancel))
begin(lambda: (time.sleep(0.2), cancel.cancel()))
say(wait().status, tool.run("echo next").stdout)
"""


@pytest.mark.interop
@pytest.mark.parametrize("loop", LOOPS)
def test_interop_loops(loop):
    """Green threads wait for their own commands alone; what ends leaves nothing."""
    replaces, begin = LOOPS[loop]
    number = unique()
    with Host(begin + PROGRAM, "=" + number, prelude=replaces) as host:
        said, took = host.hear()
        assert said == [["%d\n" % n, n] for n in range(8)] and took < 3.0  # one after the other they take 4
        status, output, took, text = host.hear()
        assert (status, output, text) == ("timed_out", "partial\n", "other\n") and took < 3.0
        assert host.hear() == ["up", "running", True, True, 143]
        assert host.hear() == ["cancelled", "next\n"]
        assert eventually(lambda: not running(number))
