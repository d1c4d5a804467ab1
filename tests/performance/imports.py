"""Import times, as minima over new interpreters that take turns.

Bars: conductor_plugin and the flow's module at most 1.25x `import prefect`; `conductor --help` and
`conductor check` under 0.5 s on a quiet machine.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 12
BIN = Path(sys.executable).parent


def main() -> None:
    """Print the figures."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as plan:
        plan.write("model_id = [0]\nsubtasks = ['']\naccess_list = [[]]")
        plan.flush()
        commands = {
            "nothing": [sys.executable, "-c", "pass"],
            "import prefect": [sys.executable, "-c", "import prefect; prefect.flow, prefect.task"],
            "import the flow": [sys.executable, "-c", "import conductor_plugin, conductor_plugin.on_prefect.flow"],
            "import conductor_plugin": [sys.executable, "-c", "import conductor_plugin"],
            "conductor --help": [str(BIN / "conductor"), "--help"],
            "conductor check": [str(BIN / "conductor"), "check", plan.name],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                started = time.perf_counter()
                subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
                times[name].append(time.perf_counter() - started)
    best = {name: min(values) for name, values in times.items()}
    for name, seconds in best.items():
        print(f"{name:<24} {seconds:.3f} s")
    ratio = (best["import the flow"] - best["nothing"]) / (best["import prefect"] - best["nothing"])
    print(f"the flow's module / prefect {ratio:.2f} (interpreter start taken off both)")


if __name__ == "__main__":
    main()
