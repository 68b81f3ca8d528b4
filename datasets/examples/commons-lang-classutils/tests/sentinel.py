import os
import sys

sys.path[:0] = [os.environ["ASSAY_LIB"], os.environ["ASSAY_TESTS"]]
from assay_isolated import main, test
from probe import agree, build


@test("a class that nobody finds")
def _():
    build()
    agree([("java.lang.String", "neither.here.nor.There")])


main()
