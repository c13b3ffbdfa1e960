"""What scripts/setup-libtorch does when things go wrong, each with one line; run by `make test`.

Every case works on a copy of the script in a temporary folder, most of them with a stand-in for pip that writes wheels of
a few bytes, so nothing is downloaded and the real `.libtorch` is not touched.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
MEMBERS = {
    "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl": [
        "torch/lib/libtorch_cpu.so",
        "torch/lib/libc10.so",
        "torch/lib/libgomp.so.1",
        "torch/lib/libtorch_cuda.so",
        "torch/include/torch/torch.h",
    ],
    "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.whl": ["nvidia/cu13/lib/libcudart.so.13"],
    "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl": ["nvidia/cu13/lib/libcupti.so.13"],
}
STAND_IN = """
import os, pathlib, shutil, sys, time
said = os.environ.get("FAKE_PIP_SAYS")
if said:
    sys.exit(said)
with open(os.environ["FAKE_PIP_CALLS"], "a") as calls:
    calls.write("called\\n")
time.sleep(float(os.environ.get("FAKE_PIP_SECONDS", "0")))
to = sys.argv[sys.argv.index("--dest") + 1]
for wheel in pathlib.Path(os.environ["FAKE_PIP_WHEELS"]).glob("*.whl"):
    shutil.copy(wheel, to)
"""


class SetupLibtorch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.repository = self.folder / "repository"
        (self.repository / "scripts").mkdir(parents=True)
        shutil.copy(REPOSITORY / "Cargo.toml", self.repository)
        for name in ("setup-libtorch", "libtorch-wheels.txt"):
            shutil.copy(REPOSITORY / "scripts" / name, self.repository / "scripts")
        self.wheels = self.folder / "wheels"
        self.wheels.mkdir()
        for wheel, members in MEMBERS.items():
            with zipfile.ZipFile(self.wheels / wheel, "w") as archive:
                for member in members:
                    archive.writestr(member, member)
        fake = self.folder / "python/pip"
        fake.mkdir(parents=True)
        (fake / "__main__.py").write_text(STAND_IN)
        (fake / "__init__.py").touch()
        self.cache = self.folder / "cache"
        self.dest = self.cache / "board/libtorch-2.13.0-cpu"
        self.calls = self.folder / "calls"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("LIBTORCH", "PIP_", "XDG_"))} | {
            "XDG_CACHE_HOME": str(self.cache),
            "FAKE_PIP_WHEELS": str(self.wheels),
            "FAKE_PIP_CALLS": str(self.calls),
            "SETUP_LIBTORCH_NEEDS": "0",
        }

    def start(self, *, fake_pip=True, **environment):
        environment = self.environment | environment
        if fake_pip:
            environment["PYTHONPATH"] = str(self.folder / "python")
        return subprocess.Popen(
            [sys.executable, self.repository / "scripts/setup-libtorch"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def succeeds(self, **environment):
        process = self.start(**environment)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, err), (0, ""))
        return out

    def fails_with_one_line(self, *words, **environment):
        process = self.start(**environment)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(len(err.splitlines()), 1, err)
        for word in ("setup-libtorch: ", *words):
            self.assertIn(word, err)
        self.assertEqual(list(self.cache.glob("board/.libtorch-*")), [], "nothing half made is left behind")

    def test_makes_the_folder_once(self):
        self.assertIn("PyTorch 2.13.0", self.succeeds())
        self.assertEqual((self.dest / "build-version").read_text(), "2.13.0\n")
        names = sorted(p.name for p in (self.dest / "lib").iterdir())
        self.assertNotIn("libtorch_cuda.so", names)
        self.assertIn("libtorch.so", names)
        self.assertTrue((self.repository / ".libtorch/include/torch/torch.h").is_file())
        self.assertEqual(self.succeeds(), "")
        self.assertEqual(self.calls.read_text(), "called\n")

    def test_two_at_once_share_the_work(self):
        first, second = (self.start(FAKE_PIP_SECONDS="1") for _ in range(2))
        outputs = [p.communicate(timeout=120) for p in (first, second)]
        self.assertEqual([first.returncode, second.returncode], [0, 0], outputs)
        self.assertEqual(self.calls.read_text(), "called\n")

    def test_a_damaged_folder_is_made_again(self):
        self.succeeds()
        (self.dest / "lib/libc10.so").write_text("cut short")
        self.succeeds()
        self.assertEqual((self.dest / "lib/libc10.so").read_text(), "torch/lib/libc10.so")

    def test_a_killed_set_up_leaves_nothing_in_the_way(self):
        process = self.start(FAKE_PIP_SECONDS="60")
        limit = time.monotonic() + 30
        while not self.calls.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.succeeds()
        self.assertEqual(list(self.cache.glob("board/.libtorch-*")), [])

    def test_no_network(self):
        closed = "http://127.0.0.1:9/simple"
        self.fails_with_one_line(
            "cannot download PyTorch 2.13.0 (Connection refused)", "LIBTORCH", fake_pip=False, PIP_INDEX_URL=closed, PIP_RETRIES="1"
        )

    def test_a_wheel_with_another_checksum(self):
        self.fails_with_one_line("checksum", fake_pip=False, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.wheels))

    def test_no_pip(self):
        self.fails_with_one_line("python3-pip", FAKE_PIP_SAYS="python3: No module named pip")

    def test_too_little_room(self):
        self.fails_with_one_line("MiB free", "make room", SETUP_LIBTORCH_NEEDS=str(1 << 60))

    def test_a_disk_that_fills_up(self):
        self.fails_with_one_line("disk is full", FAKE_PIP_SAYS="ERROR: [Errno 28] No space left on device")

    def test_a_really_full_disk(self):
        (self.cache / "board").mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(self.cache / "board")]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("no right to mount a small disk")
        self.addCleanup(subprocess.run, ["umount", str(self.cache / "board")], check=True)
        self.fails_with_one_line("disk is full")

    def test_a_cache_that_cannot_be_written(self):
        self.cache.write_text("a file where the folder should be")
        self.fails_with_one_line(str(self.cache))

    def own(self, version):
        folder = self.folder / "own"
        (folder / "include/torch").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "version.py").write_text(f"__version__ = '{version}'\n")
        return str(folder)

    def test_a_libtorch_of_the_users_own(self):
        own = self.own("2.13.0+cu130")
        self.assertEqual(self.succeeds(LIBTORCH=own), "")
        self.assertEqual(os.readlink(self.repository / ".libtorch"), own)
        self.assertFalse(self.cache.exists())

    def test_a_libtorch_of_another_version(self):
        self.fails_with_one_line("2.9.0+cpu", "2.13.0 is needed", LIBTORCH=self.own("2.9.0+cpu"))

    def test_a_libtorch_that_is_none(self):
        self.fails_with_one_line("include/torch", LIBTORCH=str(self.folder))


if __name__ == "__main__":
    unittest.main()
