"""What runs inside the sandbox, before the code does: `python -I -S -c <this file> DESCRIPTOR`.

Standard library only, and as little of it as possible: each import costs a millisecond of every run. The file
is passed as text, since the package need not be visible inside. The job comes as a marshalled dict through a
descriptor, so that no command line shows or limits it.
"""

from __future__ import annotations

import os
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than starting Python
    from typing import Any


def main(job: dict[str, Any]) -> None:
    """Take on the limits, give up the user, lay out the files, run the code as `__main__`."""
    os.chdir(job["directory"])
    if job["uid"] is not None:
        os.setgroups([])
        os.setresgid(job["uid"], job["uid"], job["uid"])
        os.setresuid(job["uid"], job["uid"], job["uid"])  # takes every capability along
    for name, content in job["files"].items():
        if os.path.dirname(name):
            os.makedirs(os.path.dirname(name), exist_ok=True)
        with open(name, "wb") as file:
            file.write(content)
    for name, value in job["rlimits"].items():
        number = getattr(resource, name)
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    if job["confine"] is not None:
        job["confine"]()
    os.write(job["started"], b"started")
    os.close(job["started"])
    run(job["code"], [*job["packages"]])


def run(code: str, packages: list[str]) -> None:
    sys.path[:] = [path for path in sys.path if path] + packages
    sys.path.insert(0, os.getcwd())
    sys.argv = ["main.py"]
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    try:
        exec(compile(code, "main.py", "exec", dont_inherit=True), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        error.__traceback__ = trace.tb_next if trace else None  # without this frame
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


if __name__ == "__main__" and len(sys.argv) > 1:
    import marshal

    with open(int(sys.argv[1]), "rb") as pipe:
        main({**marshal.load(pipe), "confine": None})
