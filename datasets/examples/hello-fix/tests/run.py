import os
import sys

sys.path.insert(0, os.environ["ASSAY_LIB"])
from assay_isolated import main, run, test


def ranges(*arguments):
    return run(["python3", "ranges.py", *arguments])


def expect(command, low, high, answer):
    result = ranges(command, low, high)
    assert result.ok and result.stdout == b"%d\n" % answer, result


@test("the last number is part of the sum")
def _():
    for low, high in [(1, 3), (-2, 2), (0, 10), (-7, -3), (1, 1000)]:
        expect("sum", low, high, sum(range(low, high + 1)))


@test("a range of one number is that number")
def _():
    for number in [5, -5, 0, 123456789]:
        expect("sum", number, number, number)


@test("an empty range sums to nothing")
def _():
    for low, high in [(3, 1), (0, -1), (1000, -1000)]:
        expect("sum", low, high, 0)


@test("counts include both ends")
def _():
    for low, high in [(1, 3), (5, 5), (3, 1), (-2, 2)]:
        expect("count", low, high, max(0, high - low + 1))


@test("wrong arguments are refused")
def _():
    for arguments in [[], ["sum"], ["sum", "1"], ["mean", "1", "2"], ["sum", "1", "2", "3"]]:
        result = ranges(*arguments)
        assert result.code == 2 and result.stdout == b"" and b"usage" in result.stderr, result


main()
