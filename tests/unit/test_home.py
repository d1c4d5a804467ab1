"""$CONDUCTOR_HOME, and directories that are published there whole or not at all."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conductor_plugin.errors import InputError
from conductor_plugin.home import conductor_home, published, rewrite

READ_ONLY = Path("/proc")  # takes no files, not even root's


def test_the_home_is_made_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDUCTOR_HOME", str(tmp_path / "state"))
    assert conductor_home() == tmp_path / "state"
    assert conductor_home().stat().st_mode & 0o777 == 0o700
    assert list(conductor_home().iterdir()) == []


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_word_it_is_in_the_users_home(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("CONDUCTOR_HOME")
    else:
        monkeypatch.setenv("CONDUCTOR_HOME", value)
    assert conductor_home() == tmp_path / ".conductor"


def test_tilde_and_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for value in ("~/state", "state"):
        monkeypatch.setenv("CONDUCTOR_HOME", value)
        assert conductor_home() == tmp_path / "state"


def _bad_homes(tmp_path: Path) -> list[tuple[Path, str]]:
    (tmp_path / "file").write_text("")
    bad = [
        (tmp_path / "file", "a file of that name stands there"),
        (tmp_path / "file" / "home", "a parent of it is a file"),
        (tmp_path / "absent" / "home", "its parent directory does not exist"),
    ]
    if READ_ONLY.is_dir():
        bad.append((READ_ONLY, ""))
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "read-only").mkdir(mode=0o500)
        bad.append((tmp_path / "read-only", "you may not write there"))
        bad.append((tmp_path / "read-only" / "home", "you may not write there"))
    return bad


def test_an_unusable_home_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, reason in _bad_homes(tmp_path):
        monkeypatch.setenv("CONDUCTOR_HOME", str(path))
        with pytest.raises(InputError) as caught:
            conductor_home()
        assert caught.value.code == "home_unusable"
        assert caught.value.exit_code == 2
        sentence = str(caught.value)
        assert sentence.startswith(f"cannot keep files in {path}: {reason}")
        assert sentence.endswith("; set CONDUCTOR_HOME to a directory that you may write to")
        assert "\n" not in sentence


def test_a_directory_is_published_once(tmp_path: Path) -> None:
    calls: list[Path] = []

    def fill(directory: Path) -> None:
        calls.append(directory)
        (directory / "content").write_text("whole")

    target = tmp_path / "models" / "one"
    assert published(target, fill) == published(target, fill) == target
    assert (target / "content").read_text() == "whole"
    assert len(calls) == 1
    assert not calls[0].exists()


def test_a_failed_attempt_leaves_nothing_and_can_be_made_again(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").write_text("half")
        raise ValueError("no more")

    target = tmp_path / "one"
    with pytest.raises(ValueError, match="no more"):
        published(target, fail)
    assert [path.name for path in tmp_path.iterdir()] == [".one.lock"]
    published(target, lambda directory: (directory / "content").touch())
    assert [path.name for path in target.iterdir()] == ["content"]


def test_a_place_that_takes_no_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("")
    with pytest.raises(InputError, match="models: a file of that name stands there; set CONDUCTOR_HOME"):
        published(tmp_path / "models" / "one", lambda directory: None)


SLOW_FILL = """
import sys, time
from pathlib import Path
from conductor_plugin.home import published

def fill(directory):
    Path(sys.argv[2]).open("a").write("filled ")
    (directory / "half").touch()
    time.sleep(float(sys.argv[3]))
    (directory / "half").rename(directory / "whole")

target = published(Path(sys.argv[1]), fill)
assert [path.name for path in target.iterdir()] == ["whole"]
"""


def _fill_in_another_process(target: Path, log: Path, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SLOW_FILL, str(target), str(log), str(seconds)])


def test_processes_at_once_fill_it_once(tmp_path: Path) -> None:
    target, log = tmp_path / "one", tmp_path / "log"
    processes = [_fill_in_another_process(target, log, 0.3) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert log.read_text() == "filled "


def test_a_killed_process_neither_blocks_nor_publishes(tmp_path: Path) -> None:
    target, log = tmp_path / "one", tmp_path / "log"
    victim = _fill_in_another_process(target, log, 60)
    while not log.exists():
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait(timeout=60)
    assert not target.exists()
    assert _fill_in_another_process(target, log, 0).wait(timeout=60) == 0


def test_a_file_is_rewritten_whole_or_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    rewrite(path, "one")
    monkeypatch.setattr(Path, "replace", lambda self, target: pytest.fail("killed before the stroke"))
    with pytest.raises(pytest.fail.Exception):
        rewrite(path, "two")
    monkeypatch.undo()
    assert path.read_text() == "one"
    rewrite(path, "three")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["three"]
