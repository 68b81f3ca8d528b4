import os
import random
import sys

sys.path[:0] = [os.environ["ASSAY_LIB"], os.environ["ASSAY_TESTS"]]
from assay_isolated import main, test
from levenshtein import ask, distance

chance = random.Random(20210101)
LAST = "\uffff"


def words(alphabet, low, high, count):
    def word():
        return "".join(chance.choice(alphabet) for _ in range(chance.randint(low, high)))

    return [(word(), word()) for _ in range(count)]


def agree(pairs):
    answers = [distance(a, b) for a, b in pairs]
    found = ask(pairs=pairs)["distances"]
    wrong = [(pair, is_, should) for pair, is_, should in zip(pairs, found, answers) if is_ != should]
    assert len(found) == len(answers) and not wrong, wrong[:3]


@test("the last code unit in short strings")
def _():
    agree([(LAST, LAST), ("a" + LAST, LAST), (LAST * 3, LAST * 3)] + words("ab" + LAST, 1, 30, 40))


@test("the last code unit in strings over 32")
def _():
    agree([(LAST * 40, LAST * 40)] + words("ab" + LAST, 33, 90, 25))


@test("the closest of a list")
def _():
    lists = [(f"{LAST}{LAST}b", ["abb", f"{LAST}{LAST}b", "b"]), (LAST * 4, ["aaaa", "bbbb", LAST * 3])]
    found = ask(lists=lists)["nearest"]
    assert found == [1, 2], found


@test("short strings")
def _():
    agree(words("abcdé\ufffe\u0000", 1, 32, 60))


@test("strings over 32")
def _():
    agree(words("abcdé\ufffe", 33, 130, 25))


@test("empty strings")
def _():
    agree([("", ""), ("", "abc"), ("abc", ""), ("", "x" * 100)])


main()
