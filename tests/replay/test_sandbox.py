# SPDX-License-Identifier: Apache-2.0
"""Each test is a script of its own: there is no way out of a sandbox."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PRELUDE = """
import os, sys
from pathlib import Path
from firstfault.replay.sandbox import enter, SandboxRefusal
box = enter(Path(sys.argv[1]))
"""


@pytest.fixture
def user(tmp_path):
    """The user's folder, with something to lose in it."""
    folder = tmp_path / "user"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "train.txt").write_text("precious")
    (folder / "log.txt").write_text("old\n")
    return folder


def snapshot(folder: Path) -> dict:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def run(user: Path, script: str, *, succeeds: bool = True) -> str:
    """Runs a script in the sandbox; whatever it does, the user's folder must be as it was."""
    before = snapshot(user)
    sandbox = user.parent / "sandbox"
    sandbox.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script), str(sandbox)],
        cwd=user,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert snapshot(user) == before
    assert (done.returncode == 0) is succeeds, done.stderr
    return done.stdout.strip()


def test_what_is_written_is_read_back_and_the_original_is_untouched(user):
    run(
        user,
        """
        with open("data/train.txt", "w") as file:
            file.write("spoilt")
        assert open("data/train.txt").read() == "spoilt"
        Path("log.txt").open("a").write("new\\n")
        assert Path("log.txt").read_text() == "old\\nnew\\n"
        Path("data/more.bin").write_bytes(b"12")
        assert os.path.getsize("data/more.bin") == 2
        assert sorted(os.listdir("data")) == ["more.bin", "train.txt"]
        assert {e.name for e in os.scandir("data")} == {"more.bin", "train.txt"}
        assert sorted(p.name for p in Path("data").glob("*")) == ["more.bin", "train.txt"]
        descriptor = os.open("raw", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"x")
        os.close(descriptor)
        assert os.path.exists("raw")
        assert box.refusal is None
        """,
    )


def test_folders_are_made_and_rotated_in_the_second_layer(user):
    run(
        user,
        """
        import shutil
        out = Path("out/checkpoints")
        out.mkdir(parents=True)
        os.makedirs("out/logs", exist_ok=True)
        os.makedirs("out/logs", exist_ok=True)
        assert out.is_dir() and os.path.isdir("out/logs")
        try:
            os.mkdir("data")
        except FileExistsError:
            pass
        else:
            raise AssertionError
        (out / "1.tmp").write_text("one")
        os.replace(out / "1.tmp", out / "1")
        assert [p.name for p in out.iterdir()] == ["1"]
        os.symlink("1", out / "latest")
        assert (out / "latest").read_text() == "one"
        (out / "latest").unlink()
        os.remove(out / "1")
        assert list(out.iterdir()) == []
        shutil.rmtree("out")
        assert not os.path.exists("out")
        assert [root for root, _, _ in os.walk(".")] == [".", "./data"]
        """,
    )


def test_removing_and_renaming_the_users_files_only_looks_so(user):
    run(
        user,
        """
        import shutil
        os.rename(src="log.txt", dst="log.old")
        assert not os.path.exists("log.txt") and open("log.old").read() == "old\\n"
        assert sorted(os.listdir()) == ["data", "log.old"]
        shutil.copy("log.old", "log.txt")
        assert Path("log.txt").read_text() == "old\\n"
        os.remove("log.txt")
        try:
            open("log.txt")
        except FileNotFoundError:
            pass
        else:
            raise AssertionError
        shutil.rmtree("data")
        assert not os.path.exists("data/train.txt")
        os.makedirs("data")
        assert os.listdir("data") == []
        os.chmod("log.old", 0o600)
        os.truncate("log.old", 1)
        assert open("log.old").read() == "o"
        """,
    )


def test_errors_are_those_of_an_ordinary_run(user):
    run(
        user,
        """
        for action, error in [
            (lambda: open("nowhere/file", "w"), FileNotFoundError),
            (lambda: open("log.txt", "x"), FileExistsError),
            (lambda: open("missing", "r+"), FileNotFoundError),
            (lambda: os.remove("missing"), FileNotFoundError),
            (lambda: os.rmdir("data"), OSError),
        ]:
            try:
                action()
            except error:
                pass
            else:
                raise AssertionError(error)
        """,
    )


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("import io; io.FileIO('log.txt', 'w')", "writes to"),
        ("import posix; posix.remove('log.txt')", "changes"),
        ("import posix; posix.rename('log.txt', 'b')", "changes"),
        ("import posix; posix.mkdir('c')", "changes"),
        ("import sqlite3; sqlite3.connect('results.db')", "writes to"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "connects to"),
        ("import subprocess; subprocess.run(['touch', 'x'])", "starts another program: touch x"),
        ("import subprocess; subprocess.run('git rev-parse HEAD > x', shell=True)", "starts another program"),
        ("os.system('rm -rf data')", "starts another program: rm -rf data"),
        ("os.execv('/bin/touch', ['touch', 'x'])", "starts another program: touch x"),
        ("os.kill(os.getppid(), 15)", "sends signal 15"),
    ],
)
def test_what_cannot_be_undone_is_refused_and_said(user, action, said):
    output = run(
        user,
        f"""
        try:
            try:
                {action}
            except Exception:
                pass  # as careless scripts do
        except SandboxRefusal as refusal:
            print("refused", box.refusal)
        """,
    )
    assert output.startswith("refused")
    assert said in output


def test_harmless_programs_may_be_asked(user):
    run(
        user,
        """
        import platform, subprocess, tempfile
        subprocess.run(["uname", "-a"], check=True)
        subprocess.run("uname -m 2>/dev/null", shell=True, check=True)
        platform.processor()
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x")
        open(os.devnull, "w").write("x")
        assert box.refusal is None
        """,
    )


def test_native_code_cannot_write_either(user):
    output = run(
        user,
        """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        opened = libc.fopen(b"log.txt", b"w") if box.kernel_guarded else None
        print("kernel", box.kernel_guarded, opened)
        """,
    )
    if output == "kernel False None":
        pytest.skip("this kernel has no landlock: native code is not held")
    assert output == "kernel True None"


def test_helper_processes_still_work(user):
    run(
        user,
        """
        import multiprocessing
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                assert pool.map(abs, [-1, 2]) == [1, 2]
        assert box.refusal is None
        """,
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_checkpoints_of_torch_are_turned_too(user):
    run(
        user,
        """
        import torch
        box.guard("torch")
        torch.save({"w": torch.ones(3)}, "model.pt")
        assert os.path.exists("model.pt")
        assert torch.load("model.pt")["w"].sum() == 3
        data = torch.utils.data.DataLoader(torch.arange(8), batch_size=4, num_workers=2)
        assert [batch.sum().item() for batch in data] == [6, 22]
        torch.save(torch.ones(1), Path("model.pt"))
        with open("other.pt", "wb") as file:
            torch.save(torch.ones(1), file)
        assert box.refusal is None
        """,
    )


def test_a_limit_ends_the_process_without_its_parent(user):
    run(user, "import time; enter(Path(sys.argv[1]), time_limit_seconds=0.2); time.sleep(60)", succeeds=False)
