"""What goes into a sandbox and what comes out of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from conductor_plugin.errors import ConductorError, InputError
from conductor_plugin.models import Frozen

MIB = 2**20

BackendName = Literal["bubblewrap", "landlock", "unsafe"]
Reason = Literal["time", "memory", "output", "disk", "files"]


class Limits(Frozen):
    """What one run may take, all its processes together unless said otherwise.

    timeout_s: seconds on the clock, and of processor time for each process.
    memory_bytes: resident memory and the files in memory; also the address space of each process.
    disk_bytes: all files together; also the size of each. files: how many files and directories.
    output_bytes: of stdout and of stderr, each. open_files: descriptors of each process.
    processes: processes and threads at a time.
    """

    timeout_s: float = Field(default=10.0, gt=0, le=86_400)
    memory_bytes: int = Field(default=512 * MIB, ge=32 * MIB)
    disk_bytes: int = Field(default=64 * MIB, ge=4096)
    output_bytes: int = Field(default=MIB, ge=1)
    files: int = Field(default=10_000, ge=1)
    processes: int = Field(default=64, ge=1)
    open_files: int = Field(default=128, ge=16)


class SandboxResult(Frozen):
    """What code did. Its output is data that nobody vouches for.

    stdout, stderr: decoded as UTF-8, undecodable bytes replaced; never longer than `output_bytes` each.
    exit_code: as a shell gives it, 128 + n for signal n. timed_out: it took more than `timeout_s`.
    killed_for: the limit that ended it, None if it ended by itself. duration_s: seconds, the start included.
    backend: what confined it; "unsafe" if nothing did.
    """

    stdout: str
    stderr: str
    exit_code: int
    timed_out: bool
    killed_for: Reason | None
    duration_s: float
    backend: BackendName


class SandboxUnavailable(ConductorError):
    """Neither backend works on this machine. The sentence says what to install, and why each was refused."""

    def __init__(self, message: str, *, code: str = "no_sandbox") -> None:
        super().__init__(message, code=code)


class SandboxFailed(ConductorError):
    """This one sandbox did not come up, so that the code never ran: no memory, no processes, a machine too busy."""

    def __init__(self, message: str, *, code: str = "sandbox_failed") -> None:
        super().__init__(message, code=code)


@dataclass(frozen=True)
class Job:
    """One run as a backend gets it: checked, files as bytes."""

    code: str
    limits: Limits
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)


def make_job(code: str, stdin: str, files: Mapping[str, str | bytes], limits: Limits) -> Job:
    """InputError `sandbox_bad_file` for a file name that leads out of the work directory, or too much of them."""
    content = {_inside(name): _bytes(text) for name, text in files.items()}
    size = sum(map(len, content.values()))
    if size > limits.disk_bytes or len(content) > limits.files:
        raise InputError(
            f"{len(content)} files of {size:,} bytes are more than the sandbox's disk holds "
            f"({limits.files:,} files, {limits.disk_bytes:,} bytes)",
            code="sandbox_bad_file",
        )
    # Lone surrogates come from models, too. Their code must fail where it runs, not here.
    return Job(code=code, limits=limits, stdin=_bytes(stdin), files=content)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise InputError(f"{name!r} is no file name inside the work directory", code="sandbox_bad_file")
    return str(path)
