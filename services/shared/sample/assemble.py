"""Makes a sample's codebase inside the build container: unpacks, patches, and commits once.

assemble.py <context> <target>; the context holds recipe.json, fetched/ and sample/. All that was fetched has been checked
against its hash before the build began.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile

CONTEXT, TARGET = sys.argv[1:3]
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "assay",
    "GIT_AUTHOR_EMAIL": "assay@localhost",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "assay",
    "GIT_COMMITTER_EMAIL": "assay@localhost",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}


def inside(root, path):
    full = os.path.realpath(os.path.join(root, path))
    if full != root and not full.startswith(root + os.sep):
        raise SystemExit(f"{path} leads out of {root}")
    return full


def parts_of(name, strip):
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise SystemExit(f"{name} leads out of its archive")
    return parts[strip:]


def unpack(archive, strip, target):
    """Files, folders and links that stay inside. Owners and times do not count, of the mode only whether it is executable."""
    os.makedirs(target, exist_ok=True)
    target = os.path.realpath(target)
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = parts_of(member.name, strip)
            if not parts or member.type in (tarfile.XGLTYPE, tarfile.XHDTYPE):
                continue
            # Through the real path of its folder: an earlier link cannot lead a later file out.
            folder = inside(target, "/".join(parts[:-1]) or ".")
            os.makedirs(folder, exist_ok=True)
            place(tar, member, os.path.join(folder, parts[-1]), target, strip)


def place(tar, member, path, target, strip):
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return
    if os.path.lexists(path):
        os.remove(path)
    if member.isreg():
        with tar.extractfile(member) as source, open(path, "xb") as file:
            shutil.copyfileobj(source, file)
        os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)
    elif member.islnk():
        shutil.copy2(inside(target, "/".join(parts_of(member.linkname, strip))), path, follow_symlinks=False)
    elif member.issym():
        inside(target, os.path.relpath(os.path.join(os.path.dirname(path), member.linkname), target))
        os.symlink(member.linkname, path)
    else:
        raise SystemExit(f"{member.name} is neither a file nor a folder nor a link")


def apply_patch(file, target, strip, reverse):
    command = ["git", "apply", "--whitespace=nowarn", f"-p{strip}"] + (["--reverse"] if reverse else [])
    subprocess.run(command + [file], cwd=target, env=ENVIRONMENT, check=True)


def debian(step, target):
    fetched = [os.path.join(CONTEXT, "fetched", name) for name in step["fetched"]]
    unpack(fetched[0], 1, target)
    if len(fetched) == 1:
        return
    packaging = "/tmp/debian"
    shutil.rmtree(packaging, ignore_errors=True)
    unpack(fetched[1], 0, packaging)
    patches = os.path.join(packaging, "debian", "patches")
    for name in step["apply"]:
        apply_patch(inside(patches, name), target, 1, False)
    for name in step["reverse"]:
        apply_patch(inside(patches, name), target, 1, True)


def take(step):
    target = inside(TARGET, step.get("to", "."))
    os.makedirs(target, exist_ok=True)
    kind = step["from"]
    if kind == "files":
        shutil.copytree(os.path.join(CONTEXT, "sample", step["path"]), target, symlinks=True, dirs_exist_ok=True)
    elif kind in ("tar", "npm"):
        unpack(os.path.join(CONTEXT, "fetched", step["fetched"][0]), step.get("strip", 1), target)
    elif kind == "debian":
        debian(step, target)
    elif kind == "patch":
        apply_patch(os.path.join(CONTEXT, "sample", step["path"]), target, step["strip"], step["reverse"])
    elif kind == "remove":
        for path in step["paths"]:
            full = os.path.join(inside(TARGET, os.path.dirname(path)), os.path.basename(path))
            shutil.rmtree(full) if os.path.isdir(full) and not os.path.islink(full) else os.remove(full)
    else:
        raise SystemExit(f"no step is called {kind}")


def commit():
    """One commit made from files: there is no history in which the fix could be found."""
    git = ["git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all", "--force"],
        ["commit", "--quiet", "--no-verify", "--allow-empty", "-m", "The code as it is"],
    ):
        subprocess.run(git + arguments, cwd=TARGET, env=ENVIRONMENT, check=True)


TARGET = os.path.realpath(TARGET)
os.makedirs(TARGET, exist_ok=True)
with open(os.path.join(CONTEXT, "recipe.json"), encoding="utf-8") as file:
    recipe = json.load(file)
for each in recipe["steps"]:
    take(each)
shutil.rmtree(os.path.join(TARGET, ".git"), ignore_errors=True)
commit()
