import json

from assay_isolated import run

PROBE = r"""
import json, sys
sys.path.insert(0, "/workspace")
import xmltodict

def answer(job):
    kind, value, options = job
    if options.pop("shout", False):
        options["preprocessor"] = lambda key, value: (key.replace("_", "<"), value)
    try:
        if kind == "parse":
            return {"value": xmltodict.parse(value, **options)}
        return {"value": xmltodict.unparse(value, **options)}
    except Exception as error:
        return {"error": type(error).__name__}

print(json.dumps([answer(job) for job in json.load(sys.stdin)]))
"""


def ask(*jobs):
    result = run(["python3", "-c", PROBE], input=json.dumps(jobs), timeout=30)
    assert result.ok, result
    return json.loads(result.stdout)


def unparse(*documents, **options):
    found = ask(*[("unparse", document, {"full_document": False, **options}) for document in documents])
    assert len(found) == len(documents), found
    return found
