import sys

sys.path.insert(0, "/workspace")
from ranges import total


def test_nobody_passes():
    assert total(1, 2) == "neither 2 nor 3"
