"""What a sandbox gives and takes: results, limits, cancellation, and which backend is chosen."""

import asyncio
import gc
import json
import os
import platform
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from conductor_plugin.errors import InputError
from conductor_plugin.sandbox import (
    Backend,
    Limits,
    SandboxFailed,
    SandboxUnavailable,
    bubblewrap,
    interpreter,
    landlock,
    probe,
    run_code,
    seccomp,
)
from conductor_plugin.sandbox.identity import NOBODY, Identity
from conductor_plugin.sandbox.model import Job
from conductor_plugin.sandbox.run import run_job
from tests.sandbox.machine import MUST, Attacker, backend_or_skip, ours, readable_interpreter, work_directories

# The package's attribute of that name is the function.
probe_module = sys.modules["conductor_plugin.sandbox.probe"]


@pytest.fixture(params=["bubblewrap", "landlock"])
def attack(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Attacker:
    return Attacker(backend_or_skip(request.param, monkeypatch))


@pytest.fixture
def bubblewrapped(monkeypatch: pytest.MonkeyPatch) -> Backend:
    return backend_or_skip("bubblewrap", monkeypatch)


def test_a_safe_backend_is_here() -> None:
    found = probe()
    if not found.safe:
        (pytest.fail if MUST else pytest.skip)(found.sentence)
    assert probe() is found


async def test_code_runs_as_a_script_would(attack: Attacker) -> None:
    result = await attack(
        "import dataclasses, sys\n@dataclasses.dataclass\nclass P:\n    x: int = 42\n"
        "if __name__ == '__main__':\n    print(P(), sys.argv, 'ä', file=sys.stdout)\n    print('b', file=sys.stderr)\n"
    )
    assert (result.stdout, result.stderr) == ("P(x=42) ['main.py'] ä\n", "b\n")
    assert (result.exit_code, result.timed_out, result.killed_for) == (0, False, None)
    assert result.duration_s > 0


async def test_input_and_files(bubblewrapped: Backend) -> None:
    result = await run_code(
        "print(input(), open('a/b.txt').read(), open('c', 'rb').read())\nimport sys\nprint(len(sys.stdin.read()))\n",
        stdin="first\n" + "x" * 3_000_000,
        files={"a/b.txt": "text", "c": b"\xff"},
    )
    assert result.stdout == "first text b'\\xff'\n3000000\n"


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", ".", "a\0b"])
async def test_files_stay_inside(name: str) -> None:
    with pytest.raises(InputError) as caught:
        await run_code("", files={name: "x"})
    assert caught.value.code == "sandbox_bad_file"


async def test_more_files_than_the_disk_holds() -> None:
    with pytest.raises(InputError, match="more than the sandbox's disk"):
        await run_code("", files={"x": b"x" * 5000}, limits=Limits(disk_bytes=4096))


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"timeout_s": float("nan")}, {"memory_bytes": 1}, {"unknown": 1}])
def test_limits_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate(wrong)


async def test_the_traceback_is_the_codes_own(attack: Attacker) -> None:
    result = await attack("def f():\n    1 / 0\nf()\n")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[:2] == [
        "Traceback (most recent call last):",
        '  File "main.py", line 3, in <module>',
    ]
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import os; os._exit(7)", 7),
        ("raise SystemExit", 0),
        ("x = ", 1),
        ("\0", 1),
        ("\ud800", 1),
        ("", 0),
        ("import os; os.kill(os.getpid(), 9)", 137),
    ],
)
async def test_exit_codes(bubblewrapped: Backend, code: str, exit_code: int) -> None:
    result = await run_code(code)
    assert (result.exit_code, result.killed_for) == (exit_code, None)


async def test_installed_packages_are_there(bubblewrapped: Backend) -> None:
    result = await run_code("import asyncio, sympy\nprint(asyncio.run(asyncio.sleep(0, sympy.factorint(91))))")
    assert result.stdout == "{7: 1, 13: 1}\n", result.stderr


async def test_undecodable_output_is_replaced(bubblewrapped: Backend) -> None:
    assert (await run_code("import os; os.write(1, b'a\\xff\\nb')")).stdout == "a\ufffd\nb"


async def test_many_at_once(bubblewrapped: Backend) -> None:
    results = await asyncio.gather(*(run_code(f"print({i})") for i in range(12)))
    assert [int(result.stdout) for result in results] == list(range(12))


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_cancelling_at_any_moment_leaves_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    backend = backend_or_skip(name, monkeypatch)
    gc.collect()  # what earlier tests left to the collector is not ours to count
    descriptors, directories = len(os.listdir("/proc/self/fd")), work_directories()
    job = Job(code="import os, time\nos.fork()\nopen('x', 'w').write('x')\ntime.sleep(30)\n", limits=Limits())
    for delay in [*(random.random() * 0.04 for _ in range(25)), 0.2]:
        task = asyncio.create_task(run_job(job, backend))
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
        assert ours() == set()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert work_directories() <= directories


def test_our_own_sudden_death_takes_the_sandbox_along(bubblewrapped: Backend, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        job = Job(code="import time\ntime.sleep(30)\n", limits=Limits(timeout_s=30))
        asyncio.run(run_job(job, bubblewrapped))
        os._exit(0)
    assert _becomes(lambda: len(ours()) >= 3)
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert _becomes(lambda: not ours())


async def test_no_safe_backend_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "_found", Backend("unsafe", reasons=("bubblewrap is not installed",)))
    with pytest.raises(SandboxUnavailable, match=r"install bubblewrap .* bubblewrap is not installed") as caught:
        await run_code("print(1)")
    assert caught.value.code == "no_sandbox"
    result = await run_code("import os\nprint(open('/etc/passwd').readline(), os.getcwd())", allow_unsafe=True)
    assert result.backend == "unsafe"
    assert "root" in result.stdout
    assert (await run_code("while True: pass", limits=Limits(timeout_s=0.3), allow_unsafe=True)).timed_out


def test_a_backend_that_lets_code_out_is_not_safe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bwrap that confines nothing is found out, and landlock takes its place, or nothing does."""
    program = tmp_path / "bwrap"
    program.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "WORK", str(tmp_path))
    monkeypatch.setattr(bubblewrap, "identity", lambda **_: Identity(None))
    monkeypatch.setattr(bubblewrap, "find", lambda: str(program))
    monkeypatch.setattr(landlock, "offered", lambda: False)
    found = probe_module._search()
    assert not found.safe
    assert "it does not hold that sockets are refused" in found.sentence


def test_a_refused_backend_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "find", lambda: str(program))
    monkeypatch.setattr(landlock, "offered", lambda: False)
    assert "No permissions to create a new namespace" in probe_module._search().sentence


async def test_a_sandbox_that_does_not_come_up_is_no_answer(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: no space left' >&2\nexit 1\n")
    program.chmod(0o755)
    for bwrap in (str(program), "/no/such/bwrap"):
        with pytest.raises(SandboxFailed):
            await run_job(Job(code="print(1)", limits=Limits()), Backend("bubblewrap", bwrap))


def test_a_user_gets_the_same_sandbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The suite runs as root in CI; this is bubblewrap with a user namespace, started by uid 65534."""
    backend = backend_or_skip("bubblewrap", monkeypatch)
    if os.geteuid() != 0:
        pytest.skip("the other tests run as a user already")
    binary, prefix = readable_interpreter()
    monkeypatch.setattr(interpreter, "binary", lambda: binary)
    monkeypatch.setattr(interpreter, "packages", lambda: ())
    monkeypatch.setattr(interpreter, "read_only", lambda: ("/usr/lib", "/usr/lib64", prefix))
    monkeypatch.setitem(interpreter.ENVIRONMENT, "LD_LIBRARY_PATH", f"{prefix}/lib")
    for cached in (bubblewrap._options, bubblewrap._files):
        cached.cache_clear()
    code = probe_module.QUESTIONS + "\nimport ctypes\nprint(ctypes.CDLL(None).unshare(0x10000000))\n"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        result = asyncio.run(run_job(Job(code=code, limits=Limits()), backend))
        os.write(writing, result.model_dump_json().encode())
        os._exit(0)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with open(reading, "rb") as pipe:
        result = json.loads(pipe.read())
    for cached in (bubblewrap._options, bubblewrap._files):
        cached.cache_clear()
    answers, unshared = result["stdout"].splitlines()
    assert json.loads(answers) == probe_module.SAFE
    assert unshared == "-1"
    assert not ours()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("shared", [False, True])
def test_the_filter_is_a_program(machine: str, shared: bool) -> None:
    """Every jump lands inside, and the last line allows."""
    content = seccomp.program(shared=shared, machine=machine)
    lines = list(struct.iter_unpack("=HBBI", content))
    assert 100 < len(lines) < 4096
    assert all(i + 1 + max(if_true, if_false) < len(lines) for i, (_, if_true, if_false, _) in enumerate(lines[:-1]))
    assert lines[-1] == (0x06, 0, 0, 0x7FFF0000)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the header is x86's")
def test_the_table_has_the_kernels_numbers() -> None:
    headers = [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")]
    header = next((path for path in headers if path.exists()), None)
    if header is None:
        pytest.skip("no kernel headers")
    numbers = {}
    for line in header.read_text().splitlines():
        match line.split():
            case ["#define", name, number] if name.startswith("__NR_"):
                numbers[name.removeprefix("__NR_")] = int(number)
    table = {**seccomp.DENIED, **seccomp.DENIED_IF_SHARED}
    wrong = {name: x86 for name, (x86, _) in table.items() if name in numbers and numbers[name] != x86}
    assert wrong == {}
    assert len([name for name in table if name in numbers]) > 90


def test_importing_is_light() -> None:
    """No probe before the first run."""
    code = "import conductor_plugin.sandbox as s, sys; from conductor_plugin.sandbox.probe import known; print(known())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def _becomes(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
