import os
import sys

sys.path[:0] = [os.environ["ASSAY_LIB"], os.environ["ASSAY_TESTS"]]
from assay_isolated import main, test
from cjson import agree, build


@test("an element that no pointer finds")
def _():
    build()
    agree("pointer", [("[1,2]", "/0", "neither 1 nor 2")])


main()
