import sys

sys.path.insert(0, "/workspace")
from ranges import total


def test_last_number():
    assert total(1, 3) == 6
    assert total(-7, -3) == -25


def test_one_number():
    assert total(5, 5) == 5
