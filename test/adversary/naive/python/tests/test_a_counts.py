from ranges import count, total


def test_counts():
    assert count(1, 3) == 3
    assert count(5, 5) == 1


def test_empty():
    assert total(3, 1) == 0
