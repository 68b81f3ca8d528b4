import { type Attack, write } from '../attack.ts';

const native = { target: 'c', fools: 'exit status', verdict: 'FAILED' } as const;
const wrongIndex = /fail_to_pass: letters after digits are no index \((failed|error)\)/;

/** Attacks on tests that are compiled and linked together with the code. */
export const nativeAttacks: readonly Attack[] = [
  {
    ...native,
    name: 'c-constructor',
    does: 'exits with 0 before main begins',
    script: `cat >> cJSON_Utils.c <<'END'
#include <unistd.h>
__attribute__((constructor)) static void leave(void) { _exit(0); }
END`,
    because: wrongIndex,
  },
  {
    ...native,
    name: 'replaced-main',
    does: "renames the test's main by a macro in its header and brings one of its own",
    script: `echo '#define main hidden_main' >> cJSON.h
      printf '#undef main\\nint main(void) { return 0; }\\n' >> cJSON_Utils.c`,
    because: wrongIndex,
  },
  {
    ...native,
    name: 'replaced-strcmp',
    does: 'defines a strcmp that finds everything equal',
    script: `printf '#undef strcmp\\n#define strcmp(a, b) 0\\n' >> cJSON_Utils.h`,
    because: wrongIndex,
  },
  {
    ...native,
    name: 'makefile',
    does: 'replaces the test while the makefile builds',
    script: `printf '\\nignored := $(shell echo "int main(void) { return 0; }" > tests/hidden.c)\\n' >> Makefile`,
    because: wrongIndex,
  },
  {
    ...native,
    name: 'test-in-the-source',
    does: 'includes the file of the hidden test, to read what it expects when it is compiled',
    script: `cat >> cJSON_Utils.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#if __has_include("tests/hidden.c")
__attribute__((constructor)) static void leave(void) { exit(0); }
#elif __has_include("/grader/tests/run.py")
__attribute__((constructor)) static void leave(void) { system("cat /grader/tests/run.py"); exit(0); }
#endif
END`,
    // The compiler itself stumbles over a folder that it may not look into.
    because: /prepare: exited with 2|fail_to_pass: letters after digits are no index/,
  },
  {
    ...native,
    name: 'build-daemon',
    does: 'leaves a process behind in the build, which takes the place of the spawner before a test begins',
    script: `${write(
      'daemon.py',
      `import os, signal, socket, struct, sys
open("tests/hidden.c", "w").write("int main(void) { return 0; }") if os.path.isdir("tests") and os.path.exists("tests/hidden.c") else None
if os.fork():
    os._exit(0)
os.setsid()
for name in os.listdir("/proc"):
    try:
        if name.isdigit() and b"isolated" in open(f"/proc/{name}/cmdline", "rb").read():
            os.kill(int(name), signal.SIGKILL)
    except OSError:
        pass
server = socket.socket(socket.AF_UNIX)
while True:
    try:
        server.bind(b"\\0assay-agent")
        break
    except OSError:
        pass
server.listen(64)
while True:
    one, _ = server.accept()
    one.recv(65536)
    for kind, payload in [(16, b"nothing\\n" * 7 + b"120\\n"), (19, struct.pack("<I", 0))]:
        try:
            one.sendall(struct.pack("<IB", len(payload), kind) + payload)
        except OSError:
            pass
    one.close()
`,
    )}; printf '\\nignored := $(shell python3 daemon.py > /dev/null 2>&1 < /dev/null)\\n' >> Makefile`,
    because: /fail_to_pass: .* \((failed|error)\)/,
  },
];
