import os
import sys

sys.path[:0] = [os.environ["ASSAY_LIB"], os.environ["ASSAY_TESTS"]]
from assay_isolated import main, test
from probe import NOT_FOUND, agree, build


@test("a name of four thousand parts")
def _():
    build()
    agree([(".".join("a" * 4_000), NOT_FOUND), ("java.lang.String", "java.lang.String")])


@test("a name of many parts with arrays and dollars")
def _():
    build()
    agree([("x." * 3_000 + "Y[]", NOT_FOUND), ("p$q." * 3_000 + "Z", NOT_FOUND), ("int[]", "[I")])


@test("names of classes")
def _():
    build()
    agree([(name, name) for name in ["java.lang.String", "java.util.Map$Entry", "org.apache.commons.lang3.ClassUtils"]])


@test("inner classes by a dot")
def _():
    build()
    agree(
        [
            ("java.util.Map.Entry", "java.util.Map$Entry"),
            ("java.lang.ProcessBuilder.Redirect.Type", "java.lang.ProcessBuilder$Redirect$Type"),
            ("org.apache.commons.lang3.ClassUtils.Interfaces", "org.apache.commons.lang3.ClassUtils$Interfaces"),
        ]
    )


@test("arrays and primitives")
def _():
    build()
    agree(
        [
            ("int", "int"),
            ("boolean", "boolean"),
            ("int[]", "[I"),
            ("long[][]", "[[J"),
            ("java.lang.String[]", "[Ljava.lang.String;"),
            ("java.util.Map.Entry[][]", "[[Ljava.util.Map$Entry;"),
        ]
    )


@test("names that are not found")
def _():
    build()
    agree([(name, NOT_FOUND) for name in ["NoSuchClass", "java.lang.NoSuchClass", "a.b.c.d", "java.util.Map.Nothing"]])


main()
