"""Builds a release into dist/, checks it, and uses it in a fresh environment of each Python: make release

python -m tests.tools.release 3.9 3.13      these Pythons, on the PATH or in pyenv

It needs a network to build, and to install mypy and pyright. The release itself runs without one, where unshare(1) works.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from tests.integration.test_wheel import RIGHT, WRONG
from tests.spec import HERE
from tests.support import Client, bash_tool, recipes

DIST = HERE / "dist"
FILE = (HERE / "bash_tool.py").read_bytes()
README = HERE / "README.md"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
STRICT = "# pyright: strict\n"
# In a new network namespace the loopback device is down; README starts a server there.
LOOPBACK = "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sH14x', b'lo', 1))"


def done(*words, **options):
    """What a program prints; an exception with it if the program fails."""
    options = {"stdin": subprocess.DEVNULL, **options}
    ran = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if ran.returncode:
        raise SystemExit("%s: exit code %d\n%s" % (" ".join(map(str, words)), ran.returncode, ran.stdout.decode()))
    return ran.stdout.decode()


def expect(claim, *shown):
    if not claim:
        raise SystemExit("not as it should be: " + " ".join(map(str, shown)))


def without_network():
    """The words before a command that take the network away; none where that is not possible."""
    for options in (["-n"], ["-rn"]):
        if shutil.which("unshare") and subprocess.run(["unshare", *options, "true"], stderr=-3).returncode == 0:
            return ["unshare", *options, "sh", "-c", '"$0" -c "$1" && shift && exec "$@"', sys.executable, LOOPBACK]
    return []


def interpreter(version):
    """A Python of this version, on the PATH or in pyenv."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    there = sorted(Path(root, "versions").glob(version + ".*/bin/python"))
    for python in filter(None, [shutil.which("python" + version), *reversed(there)]):  # the first may be a dead shim
        ran = subprocess.run([python, "-c", "import sys; print(sys.executable)"], stdout=-1, stderr=-3)
        if ran.returncode == 0:
            return ran.stdout.decode().strip()
    raise SystemExit("python%s: not found" % version)


def built(scratch):
    """The source distribution, and the wheel that is built from it. Prints their sizes and sums."""
    shutil.rmtree(DIST, ignore_errors=True)
    done(sys.executable, "-m", "venv", scratch / "build")
    python = scratch / "build" / "bin" / "python"
    done(python, *PIP, "install", "build", "twine")
    done(python, "-m", "build", "--outdir", DIST, HERE)
    files = sorted(DIST.iterdir())
    print(
        "twine check --strict: "
        + ", ".join(re.findall("PASSED|FAILED", done(python, "-m", "twine", "check", "--strict", *files)))
    )
    for file in files:
        print("%s  %s, %d bytes" % (hashlib.sha256(file.read_bytes()).hexdigest(), file.name, file.stat().st_size))
    expect(len(files) == 2, files)
    return files[1], files[0]


def check_contents(sdist, wheel):
    """Both hold the file and the license byte for byte; the wheel has nothing else but its marks of a typed package."""
    version, license_text = bash_tool.__version__, (HERE / "LICENSE").read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    info = "bash_tool-%s.dist-info/" % version
    names = {"__init__.py", "__main__.py", "py.typed"}
    others = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    expect({*found} == {"bash_tool/" + name for name in names} | {info + name for name in others}, *found)
    expect(found["bash_tool/__init__.py"] == FILE and found[info + "licenses/LICENSE"] == license_text, "wheel")
    expect(found[info + "entry_points.txt"].split() == b"[console_scripts] bash-tool = bash_tool:main".split())
    told = HeaderParser().parsestr(found[info + "METADATA"].decode())
    expect((told["Name"], told["Version"], told["Requires-Python"]) == ("bash-tool", version, ">=3.9"), told)
    needs = [line for line in told.get_all("Requires-Dist", []) if "extra ==" not in line]
    expect(
        not needs and told["License-File"] == "LICENSE" and README.read_text(encoding="utf-8") in told.get_payload(),
        needs,
    )
    with tarfile.open(sdist) as archive:
        root = "bash_tool-%s/" % version
        for name in ("bash_tool.py", "LICENSE", "README.md", "SPEC.md", "test_bash_tool.py", ".wheel/hook.py"):
            expect(archive.extractfile(root + name).read() == (HERE / name).read_bytes(), "sdist", name)
    print("wheel and sdist: bash_tool.py byte for byte, LICENSE, py.typed; Python >=3.9, no dependency")


def check_readme(python, folder, env):
    """The commands of README, with a copy of the file, and its programs, with what is installed."""
    (folder / "copy").mkdir()
    (folder / "copy" / "bash_tool.py").write_bytes(FILE)
    (command,) = recipes("Begin", README)
    said = done(*ALONE, "bash", "-c", command, cwd=folder / "copy", env=env)
    expect(said == "[command failed: exit code 3]\nhello\nexit code: 3\n", said)
    programs = re.findall(r"(?ms)^```python\n(.*?)^```", README.read_text(encoding="utf-8"))
    for program in programs:
        done(*ALONE, python, "-c", program, cwd=folder, env=env)
    same = [python.with_name("bash-tool")], [python, "-m", "bash_tool"], [python, folder / "copy" / "bash_tool.py"]
    versions = {done(*ALONE, *words, "--version", cwd=folder, env=env) for words in same}
    told = "bash_tool %s sha256:%s\n" % (bash_tool.__version__, hashlib.sha256(FILE).hexdigest())
    expect(versions == {told}, versions)
    return len(programs)


def check_types(python, mypy, folder, env):
    """mypy --strict and pyright find nothing in a small host, and each of its mistakes."""
    (folder / "host.py").write_text(STRICT + RIGHT)
    done(*ALONE, python, "host.py", cwd=folder, env=env)
    for number, (line, (mistake, _)) in enumerate(WRONG.items()):
        (folder / ("wrong%d.py" % number)).write_text(STRICT + RIGHT.replace(line, mistake))
    wrong = ["wrong%d.py" % number for number in range(len(WRONG))]
    strict = [mypy, "-m", "mypy", "--strict", "--config-file", os.devnull, "--python-executable", python]
    strict = [*ALONE, *strict, "--cache-dir", folder / "cache"]
    pyright = [*ALONE, sys.executable, "-m", "pyright", "--pythonpath", python]
    for words in (strict, pyright):
        done(*words, "host.py", cwd=folder)
        ran = subprocess.run([*map(str, words), *wrong], cwd=folder, stdout=-1, stderr=-3)
        found = set(re.findall(r"wrong\d\.py(?=:\d)", ran.stdout.decode()))
        expect(found == set(wrong), words[len(ALONE) :][:3], found)


def check_mcp(python, env):
    """The server, as README configures it, answers a call."""
    words = [*ALONE, str(python.with_name("bash-tool")), "--mcp", "--ephemeral", "--cwd", "/"]
    with Client(command=words, env=env) as client:
        expect(client.said("pwd; exit 3") == "[command failed: exit code 3]\n/\n", "MCP")


def check_python(version, wheel, scratch):
    begun, folder = time.monotonic(), scratch / version
    base, python, mypy = interpreter(version), folder / "env" / "bin" / "python", folder / "mypy" / "bin" / "python"
    done(base, "-m", "venv", folder / "env")
    done(base, "-m", "venv", folder / "mypy")  # of the same Python: a new mypy does not know an old one
    done(mypy, *PIP, "install", "mypy")
    done(*ALONE, python, *PIP, "install", "--no-index", wheel)
    env = {"PATH": "%s:%s" % (python.parent, os.environ["PATH"]), "HOME": str(folder), "TMPDIR": str(folder)}
    programs = check_readme(python, folder, env)
    check_types(python, mypy, folder, env)
    check_mcp(python, env)
    told = done(python, "--version").strip(), programs, done(mypy, "-m", "mypy", "--version").split()[1]
    print("%s: installed; README's command and %d programs; mypy %s --strict, pyright; MCP;" % told, end=" ")
    print("%.0f s" % (time.monotonic() - begun))


def main(versions):
    head = done("git", "-C", HERE, "describe", "--always", "--dirty", "--abbrev=12").strip()
    print("bash_tool %s, commit %s, sha256:%s" % (bash_tool.__version__, head, hashlib.sha256(FILE).hexdigest()))
    print("what is released runs " + ("without network" if ALONE else "WITH network: unshare(1) cannot take it away"))
    done(sys.executable, "-m", "pyright", "--version")  # fetches what it needs
    with tempfile.TemporaryDirectory(prefix="bash-tool-release-") as folder:
        sdist, wheel = built(Path(folder))
        check_contents(sdist, wheel)
        for version in versions:
            check_python(version, wheel, Path(folder))
    print("dist/ is ready")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # a log shows what is done
    ALONE = without_network()
    main(sys.argv[1:] or ["%d.%d" % sys.version_info[:2]])
