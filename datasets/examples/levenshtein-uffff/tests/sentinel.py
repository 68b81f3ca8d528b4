import os
import sys

sys.path[:0] = [os.environ["ASSAY_LIB"], os.environ["ASSAY_TESTS"]]
from assay_isolated import main, test
from levenshtein import ask


@test("a distance that no program prints")
def _():
    found = ask(pairs=[("a", "b")])
    assert found["distances"] == ["neither 0 nor 1"], found


main()
