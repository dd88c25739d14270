"""Each test needs a process of its own: what is frozen stays frozen."""

import subprocess
import sys


def printed(code: str) -> list[str]:
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.split()


CYCLE = """
import gc, weakref
from rlrepro.lab.garbage_collector import freeze_imports

class Cycle:
    def __init__(self):
        self.itself = self

"""


def test_collections_skip_what_was_imported():
    code = "freeze_imports(); print(len(gc.get_objects()), gc.get_freeze_count())"
    still_searched, skipped = map(int, printed(CYCLE + code))
    assert still_searched < 100 < 5_000 < skipped


def test_garbage_from_before_is_freed_and_not_frozen():
    code = "watched = weakref.ref(Cycle()); freeze_imports(); print(watched())"
    assert printed(CYCLE + code) == ["None"]


def test_a_second_call_keeps_nothing_from_being_freed():
    code = "freeze_imports(); later = Cycle(); watched = weakref.ref(later); freeze_imports(); del later; gc.collect()"
    assert printed(f"{CYCLE}{code}; print(watched())") == ["None"]


def test_imports_are_left_out_and_collections_run_again_after_them():
    code = """
from rlrepro.lab.garbage_collector import importing
with importing():
    assert not gc.isenabled()
    import xml.dom.minidom
print(gc.isenabled(), any(item is vars(xml.dom.minidom) for item in gc.get_objects()))
"""
    assert printed(CYCLE + code) == ["True", "False"]
