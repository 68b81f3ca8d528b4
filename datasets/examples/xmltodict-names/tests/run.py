import os
import sys

sys.path[:0] = [os.environ["ASSAY_LIB"], os.environ["ASSAY_TESTS"]]
from assay_isolated import main, test
from xmltodict_probe import ask, unparse

BAD = ["a<b", "a>b", "m><t>x</t", "a/b", 'a"b', "a'b", "a=b", "a b", "a\tb", "a\nb", "?pi", "!decl", " a", "a "]
GOOD = ["a", "a-b", "a.b", "a:b", "a_b", "é", "a?b", "a!b", "A1"]
REFUSED = {"error": "ValueError"}


def sorted_out(make, written, prefix=""):
    """Bad names are refused and good ones are written, asked for in one go."""
    names = [name for pair in zip(BAD, GOOD + GOOD) for name in pair]
    found = unparse(*[make(name) for name in names])
    for name, answer in zip(names, found):
        expected = REFUSED if name in BAD else {"value": written(name)}
        assert answer == expected, (name, answer)


@test("element names")
def _():
    sorted_out(lambda name: {name: "x"}, lambda name: f"<{name}>x</{name}>")


@test("attribute names")
def _():
    sorted_out(lambda name: {"e": {"@" + name: "x", "#text": "t"}}, lambda name: f'<e {name}="x">t</e>')


@test("xmlns prefixes")
def _():
    sorted_out(lambda name: {"e": {"@xmlns": {name: "u:x"}, "#text": "t"}}, lambda name: f'<e xmlns:{name}="u:x">t</e>')


@test("names below the root")
def _():
    deep = [{"r": {"l": [{"i": "1"}, {name: "2"}]}} for name in BAD + ["ok"]]
    assert unparse(*deep) == [REFUSED] * len(BAD) + [{"value": "<r><l><i>1</i></l><l><ok>2</ok></l></r>"}]


@test("names from a preprocessor")
def _():
    assert unparse({"a_b": "x"}, {"ab": "x"}, shout=True) == [REFUSED, {"value": "<ab>x</ab>"}]


@test("ordinary documents")
def _():
    assert unparse({"a": None}, {"a": True}, {"a": {"b": ["1", "2"], "c": {"#text": "t", "@d": "e"}}}) == [
        {"value": "<a></a>"},
        {"value": "<a>true</a>"},
        {"value": '<a><b>1</b><b>2</b><c d="e">t</c></a>'},
    ]
    head = '<?xml version="1.0" encoding="utf-8"?>\n'
    found = ask(("unparse", {"a": "1"}, {}), ("unparse", {"a": "1", "b": "2"}, {}), ("unparse", {"a": {"b": "1"}}, {"pretty": True}))
    assert found == [{"value": head + "<a>1</a>"}, REFUSED, {"value": head + "<a>\n\t<b>1</b>\n</a>"}], found


@test("values are escaped")
def _():
    assert unparse({"a": {"@b": '1<2>"3&', "#text": "<x> & 'y'"}}) == [
        {"value": "<a b='1&lt;2&gt;\"3&amp;'>&lt;x&gt; &amp; 'y'</a>"}
    ]


@test("namespaces")
def _():
    document = {"r": {"@xmlns": {"": "u:d", "p": "u:p"}, "p:x": {"@p:y": "1", "#text": "2"}}}
    assert unparse(document) == [{"value": '<r xmlns="u:d" xmlns:p="u:p"><p:x p:y="1">2</p:x></r>'}]


@test("parsing")
def _():
    found = ask(("parse", "<a b='1'><c>2</c><c>3</c></a>", {}), ("parse", "<a", {}))
    assert found == [{"value": {"a": {"@b": "1", "c": ["2", "3"]}}}, {"error": "ExpatError"}], found


main()
