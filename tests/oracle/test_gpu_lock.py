# Uses of a GPU by PyTorch's processes: gpu_lock.py. Locks are files, so this needs no GPU.
# SPDX-License-Identifier: Apache-2.0
import fcntl
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src/oracle/py"))

import gpu_lock


def is_free(path, operation):
    """True if another process could lock the file."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, operation | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(file)


class SharedUse(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name + "/GPU-1.lock"

    def states(self):
        """Whether others could measure, share the GPU, and take a turn; the same for builders."""
        return [is_free(self.path + door + turn, operation)
                for door in ("", gpu_lock.BUILDING)
                for turn, operation in (("", fcntl.LOCK_EX), ("", fcntl.LOCK_SH), (gpu_lock.TURN, fcntl.LOCK_EX))]

    def test_a_use_keeps_others_from_measuring(self):
        use = gpu_lock.SharedUse(self.path)
        with use, use:
            self.assertEqual(self.states(), [False, True, True, True, True, True])
        self.assertEqual(self.states(), [True] * 6)

    def test_a_build_can_be_waited_for_apart_from_other_uses(self):
        use = gpu_lock.SharedUse(self.path)
        with use.building():
            self.assertEqual(self.states(), [False, True, True, False, True, True])
        self.assertEqual(self.states(), [True] * 6)

    def test_a_build_that_fails_ends_both(self):
        use = gpu_lock.SharedUse(self.path)
        with self.assertRaises(RuntimeError), use.building():
            raise RuntimeError
        self.assertEqual(self.states(), [True] * 6)

    def test_a_build_waits_for_one_that_measures(self):
        file = os.open(self.path + gpu_lock.BUILDING, os.O_RDWR | os.O_CREAT, 0o600)
        self.addCleanup(os.close, file)
        fcntl.flock(file, fcntl.LOCK_EX)
        use = gpu_lock.SharedUse(self.path, patience=0.05)
        with self.assertRaises(BlockingIOError), use.building():
            self.fail("built while another process measures")
        with use:  # other uses have only the GPU's own lock to wait for
            pass
        self.assertTrue(is_free(self.path, fcntl.LOCK_EX))

    def test_without_a_path_nothing_is_locked(self):
        use = gpu_lock.SharedUse("")
        with use.building(), use:
            self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    unittest.main()
