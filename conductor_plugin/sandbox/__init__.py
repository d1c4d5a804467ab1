"""Running Python that nobody vouches for: a model wrote it.

    result = await run_code("print(6 * 7)", limits=Limits(timeout_s=5))
    result.stdout       '42\\n'
    result.backend      'bubblewrap'

Code gets a clean work directory, the standard library, the installed packages and nothing else: no network, no
environment, none of this machine's files, no other process. What it may take of time, memory and disk is
bounded by `Limits`, over all the processes that it starts.

Two backends are safe: bubblewrap (namespaces, seccomp, rlimits) and, where namespaces are refused, landlock with
seccomp. Which one is there is tried out once per process, see `probe`. Where neither is, `run_code` raises
`SandboxUnavailable`, unless the caller says `allow_unsafe=True`.
"""

from conductor_plugin.sandbox.model import BackendName, Limits, SandboxFailed, SandboxResult, SandboxUnavailable
from conductor_plugin.sandbox.probe import Backend, probe
from conductor_plugin.sandbox.run import run_code

__all__ = [
    "Backend",
    "BackendName",
    "Limits",
    "SandboxFailed",
    "SandboxResult",
    "SandboxUnavailable",
    "probe",
    "run_code",
]
