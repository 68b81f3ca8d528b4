import os
import sys

sys.path.insert(0, os.environ["ASSAY_LIB"])
from assay_isolated import main, run, test


@test("a sum that no program prints")
def _():
    result = run(["python3", "ranges.py", "sum", "1", "2"])
    assert result.stdout == b"neither 2 nor 3\n", result


main()
