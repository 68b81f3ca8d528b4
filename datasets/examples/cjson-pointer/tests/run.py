import os
import sys

sys.path[:0] = [os.environ["ASSAY_LIB"], os.environ["ASSAY_TESTS"]]
from assay_isolated import main, test
from cjson import agree, build

# Long enough for every index that a letter can be mistaken for.
LONG = "[" + ",".join(str(10 * number) for number in range(400)) + "]"
NOTHING = "nothing"


@test("letters after digits are no index")
def _():
    build()
    words = ["1A", "2a", "3zz", "10x", "1AA", "9Z", "1\u00e9"]
    agree("pointer", [(LONG, "/" + word, NOTHING) for word in words] + [(LONG, "/12", "120")])


@test("signs of punctuation above the digits are no index")
def _():
    build()
    agree("pointer", [(LONG, "/" + word, NOTHING) for word in ["1:", "1;", "2=", "3?", "4@", "5_", "6|"]] + [(LONG, "/7", "70")])


@test("indices")
def _():
    build()
    agree("pointer", [(LONG, "/0", "0"), (LONG, "/399", "3990"), (LONG, "/400", NOTHING), ("[[1,[2,3]],4]", "/0/1/1", "3")])


@test("words that never were indices")
def _():
    build()
    agree("pointer", [(LONG, "/" + word, NOTHING) for word in ["01", "-1", "+1", "1.0", "1 ", "-", "x", "1-", "00"]])


@test("keys of objects")
def _():
    build()
    document = '{"a":{"1A":7,"b/c":8,"d~e":9},"":[5]}'
    cases = [("/a/1A", "7"), ("/a/b~1c", "8"), ("/a/d~0e", "9"), ("//0", "5"), ("/z", NOTHING), ("/A/1A", "7")]
    agree("pointer", [(document, pointer, answer) for pointer, answer in cases])


@test("patches")
def _():
    build()
    agree(
        "patch",
        [
            ("[1,2,3]", '[{"op":"remove","path":"/1"}]', "0 [1,3]"),
            ("[1,2,3]", '[{"op":"add","path":"/-","value":4}]', "0 [1,2,3,4]"),
            ("[1,2,3]", '[{"op":"add","path":"/9","value":4}]', "1 [1,2,3]"),
            ('{"a":[1]}', '[{"op":"replace","path":"/a/0","value":5}]', '0 {"a":[5]}'),
        ],
    )


main()
