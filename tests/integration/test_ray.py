"""The recipe of docs/recipes.md for Ray, on a real cluster of two nodes on this machine, of which one is killed:
`make integration OF=ray`, 300 MB, one minute."""

import os
import re
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.integration.support import say
from tests.processes import alive, eventually, running
from tests.support import IMPORTABLE, RECIPES, bash_tool, unique

pytestmark = pytest.mark.ray

AGENTS, COMMANDS = 40, 5


@pytest.fixture
def cluster(monkeypatch):
    """A head without room for a shell, two nodes with room for half of the agents each; `recipe` holds its names."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # short: paths of sockets begin with it
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", IMPORTABLE)
    begun = time.monotonic()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.halves = [cluster.add_node(num_cpus=1, resources={"shell": AGENTS // 2}) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False)
        (program,) = re.findall(r"(?ms)^```python\n((?:(?!^```).)*?^import ray\n.*?)^```", RECIPES.read_text("utf-8"))
        assert program.count("\n") <= 40
        cluster.recipe = {"__name__": "__main__"}  # so that its class travels by value
        exec(program, cluster.recipe)
        say("Ray %s: a cluster of two nodes after %.1f s" % (ray.__version__, time.monotonic() - begun))
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def a_second(act, count=400):
    """How many of these are done in a second, from as many threads as there are agents."""
    with ThreadPoolExecutor(AGENTS) as pool:
        begun = time.monotonic()
        assert all(pool.map(act, range(count)))
        return count / (time.monotonic() - begun)


def test_forty_agents_on_two_nodes_of_which_one_is_killed(cluster, tmp_path):
    """Of 200 commands of 40 agents, those that a killed node has and those that come to it later end with an error that
    says so, and leave no process; all others are answered."""
    import ray

    call, make = cluster.recipe["call"], cluster.recipe["Shell"].remote
    begun = time.monotonic()
    shells = [make(str(tmp_path)) for _ in range(AGENTS)]
    on_node = defaultdict(list)
    for number, node in enumerate(ray.get([shell.node.remote() for shell in shells])):
        on_node[node].append(number)
    assert [len(numbers) for numbers in on_node.values()] == [AGENTS // 2] * 2
    say("%d shells, each in a process of its own, after %.1f s" % (AGENTS, time.monotonic() - begun))
    one_more = make(str(tmp_path)).node.remote()
    assert not ray.wait([one_more], timeout=1)[0]  # the limit of each node

    doomed = cluster.halves[0]
    (name,) = [n["NodeID"] for n in ray.nodes() if doomed.unique_id.endswith(":" + n["ObjectStoreSocketName"])]
    seconds = "6" + unique()

    def agent(number):
        """What this agent reads as answers to its commands."""
        texts = []
        for n in range(COMMANDS):
            command = "echo %d of %d" % (n, number)
            if n == COMMANDS // 2:  # under way when the node is killed
                wait = "sleep %s" % seconds if number in on_node[name] else "until [ -e killed ]; do sleep 0.1; done"
                command = "echo $$ >shell-%d; %s; %s" % (number, wait, command)
            texts.append(call(shells[number], {"command": command, "mode": "slow"}))
        return texts

    with ThreadPoolExecutor(AGENTS) as pool:
        answers = pool.map(agent, range(AGENTS))
        assert eventually(lambda: len(list(tmp_path.glob("shell-*"))) == AGENTS, 60)
        assert eventually(lambda: len(running(seconds)) == AGENTS // 2)
        bashes = [int((tmp_path / ("shell-%d" % number)).read_text()) for number in on_node[name]]
        assert all(map(alive, bashes))
        killed = time.monotonic()
        cluster.remove_node(doomed, allow_graceful=False)
        assert eventually(lambda: not running(seconds) and not any(map(alive, bashes)), 60)
        gone = time.monotonic() - killed
        (tmp_path / "killed").write_text("")
        counts, kinds = Counter(), Counter()
        for number, texts in enumerate(answers):
            for n, (text, is_error) in enumerate(texts):
                counts[is_error] += 1
                if number in on_node[name] and n >= COMMANDS // 2:
                    assert is_error and text.startswith("[system error: the node of this shell cannot be reached: ")
                    kinds[re.sub(r"[0-9a-f]{16,}", "…", text)[:150].replace("\n", " ")] += 1
                else:
                    assert (text, is_error) == ("%d of %d\n" % (n, number), False)
        after = time.monotonic() - killed
    lost = AGENTS // 2 * (COMMANDS - COMMANDS // 2)
    assert counts == {False: AGENTS * COMMANDS - lost, True: lost}
    say("%d commands: %d answered, %d errors;" % (AGENTS * COMMANDS, counts[False], counts[True]))
    say("  %.1f s after the kill none of the node's %d commands lived" % (gone, AGENTS // 2))
    say("  %.1f s after the kill all calls had ended" % after)
    for kind, count in kinds.items():
        say("  %3d  %s …" % (count, kind))


def test_throughput_beside_one_process(cluster, tmp_path):
    import ray

    call, make = cluster.recipe["call"], cluster.recipe["Shell"].remote
    shells = [make(str(tmp_path)) for _ in range(AGENTS)]
    ray.get([shell.call.remote({"command": ":"}) for shell in shells])  # starts the fork servers
    spread = a_second(lambda n: call(shells[n % AGENTS], {"command": ":"}) == ("[no output]\n", False))
    with bash_tool.BashTool(tmp_path) as bash:
        bash.call({"command": ":"})
        alone = a_second(lambda n: bash.call({"command": ":"}).text == "[no output]\n")
    cores = os.cpu_count()
    say("`:` from %d agents: %.0f a second through Ray, %.0f in one process: ratio %.2f (two nodes on one machine with %d cores)"
        % (AGENTS, spread, alone, spread / alone, cores))  # fmt: skip
    assert spread / alone > 0.02


def test_cancel_and_jobs_of_a_node(cluster, tmp_path):
    import ray

    call, make = cluster.recipe["call"], cluster.recipe["Shell"].remote
    shell, seconds = make(str(tmp_path), state_dir=str(tmp_path / "state")), unique()
    answer = shell.call.remote({"command": "echo begun; sleep " + seconds})
    assert eventually(lambda: running(seconds))
    ray.get(shell.cancel.remote())
    result = ray.get(answer)
    assert (result.status, result.stdout) == ("cancelled", "begun\n") and not running(seconds)
    assert call(shell, {"command": "echo on"}) == ("on\n", False)
    text, _ = call(shell, {"command": "echo up; sleep " + seconds, "mode": "background"})
    pid = int(re.search(r"<pid>(\d+)</pid>", text)[1])
    assert eventually(lambda: ray.get(shell.read.remote(pid)) == ("up\n", 3))
    ray.kill(shell)
    time.sleep(3)  # for Ray, to end what it takes for its own
    other = make(str(tmp_path), state_dir=str(tmp_path / "state"))
    assert ray.get(other.read.remote(pid)) == ("up\n", 3) and alive(pid)
    with bash_tool.BashTool(tmp_path, state_dir=tmp_path / "state") as bash:
        assert bash.job(pid).kill() and not running(seconds)
