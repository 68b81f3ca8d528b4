import os
import sys

sys.path[:0] = [os.environ["ASSAY_LIB"], os.environ["ASSAY_TESTS"]]
from assay_isolated import main, test
from xmltodict_probe import unparse


@test("a document that no program writes")
def _():
    found = unparse({"a": "1"})
    assert found == [{"value": "<neither>1</nor>"}], found


main()
