"""This Python, as the sandbox gets to see it: the real binary, the standard library, the packages; read-only."""

import os
import site
import sys
import sysconfig
from functools import cache
from pathlib import Path

# `-I -S`: neither environment nor site-packages' start-up files run before the confinement is complete.
OPTIONS = ("-I", "-S", "-B", "-X", "utf8", "-X", "int_max_str_digits=0", "-c")
SYSTEM = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64")
SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/usr/share/zoneinfo")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
INSIDE = Path(__file__).with_name("inside.py").read_text()
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    # One thread each: a pool of threads would count against the processes, and add nothing on a shared machine.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "PATH": "/usr/bin:/bin",
}


def binary() -> str:
    """The interpreter itself: a virtual environment's is a link, which may lead to where nothing is visible."""
    return os.path.realpath(sys.executable)


@cache
def packages() -> tuple[str, ...]:
    """The directories of installed packages, of the virtual environment first."""
    own = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return tuple(path for path in dict.fromkeys(own + site.getsitepackages() + user) if os.path.isdir(path))


@cache
def read_only() -> tuple[str, ...]:
    """Directories and files to show, none inside another."""
    libraries = [os.path.dirname(os.path.realpath(sysconfig.get_path(name))) for name in ("stdlib", "platstdlib")]
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        libraries.append(os.path.realpath(str(sysconfig.get_config_var("LIBDIR"))))
    system = [path for path in SYSTEM + SETTINGS if not os.path.islink(path)]
    shown: list[str] = []
    for path in sorted({binary(), *libraries, *packages(), *system}, key=len):
        if os.path.exists(path) and not any(path.startswith(f"{parent}/") for parent in shown):
            shown.append(path)
    return tuple(shown)


@cache
def links() -> tuple[tuple[str, str], ...]:
    """(link, target) of the system's directories that are links, such as /lib -> usr/lib."""
    return tuple((path, os.readlink(path)) for path in (*SYSTEM, *SETTINGS) if os.path.islink(path))
