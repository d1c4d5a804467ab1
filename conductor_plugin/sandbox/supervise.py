"""The process between us and code without namespaces of its own: `python -I -S -c <this file> DESCRIPTOR`.

It is the only parent that orphans of the code can get, so that it can end them all, also when we are killed.
Its child confines itself with landlock and seccomp and then does what `inside.py` says. Standard library only.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than starting Python
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
LIBC = ctypes.CDLL(None, use_errno=True)


def main(job: dict[str, Any]) -> None:
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != job["parent"]:
        os._exit(1)
    signal.signal(signal.SIGTERM, lambda *_: end(143))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        inside: dict[str, Any] = {"__name__": "inside"}
        exec(job["inside"], inside)
        inside["main"]({**job, "confine": (lambda: confine(job)) if job["safe"] else None})
        return
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    end(code if code >= 0 else 128 - code)


def end(code: int) -> None:
    """Kill and reap all that is left below, then exit."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            for pid in file.read().split():
                os.kill(int(pid), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)
        except ChildProcessError:
            os._exit(code)


def confine(job: dict[str, Any]) -> None:
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    abi = check(LIBC.syscall(CREATE_RULESET, None, 0, 1))
    # All that this kernel can handle: file access by ABI 1, 2, 3, 5; TCP from 4; abstract sockets, signals from 6.
    access = (1 << (13 + (abi >= 2) + (abi >= 3) + (abi >= 5))) - 1
    ruleset = struct.pack("=QQQ", access, 3, 3)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    rules = check(LIBC.syscall(CREATE_RULESET, ruleset, len(ruleset), 0))
    for path in job["read_only"]:
        allow(rules, path, EXECUTE | READ_FILE | READ_DIR)
    for path in job["devices"]:
        allow(rules, path, READ_FILE | WRITE_FILE)
    allow(rules, job["directory"], access & ~EXECUTE)
    check(LIBC.syscall(RESTRICT_SELF, rules, 0))
    os.close(rules)
    program = ctypes.create_string_buffer(job["seccomp"], len(job["seccomp"]))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(program))
    check(LIBC.prctl(PR_SET_SECCOMP, 2, header, 0, 0))


def allow(rules: int, path: str, access: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not os.path.isdir(path):
        access &= EXECUTE | READ_FILE | WRITE_FILE
    check(LIBC.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", access, descriptor), 0))
    os.close(descriptor)


def check(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


if __name__ == "__main__" and len(sys.argv) > 1:
    with open(int(sys.argv[1]), "rb") as pipe:
        content = marshal.load(pipe)
    main(content)
