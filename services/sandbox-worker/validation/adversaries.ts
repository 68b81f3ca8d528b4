import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { Report, Verification } from '../../shared/sample/verification-schema.ts';
import { roleNames } from '../../shared/sample/verification-schema.ts';

/** A way to look solved without being so that can be tried on any sample. */
export interface Adversary {
  readonly name: string;
  /** Shell text, for the working directory. */
  readonly command: string;
}

const leave = 'import os\nos._exit(0)\n';
const leaveNode = 'process.exit(0);\n';

/** None of these may pass; what each leaves undone is the task itself. */
export function adversariesOf({ sample }: SampleFolder): Adversary[] {
  return [
    { name: 'planted reports', command: lines(plantedReports(sample.verification)) },
    {
      name: 'hooks that end the runner',
      command: lines([
        ...['conftest.py', 'sitecustomize.py', 'usercustomize.py'].map((name) => write(name, leave)),
        ...['.mocharc.js', '.mocharc.cjs', 'jest.config.js'].map((name) => write(name, leaveNode)),
        write('GNUmakefile', 'all test check:\n\t@exit 0\n'),
      ]),
    },
    {
      name: 'shadowed modules',
      command: lines([
        ...['assay_isolated.py', 'json.py', 'unittest.py', 'subprocess.py', 'pytest.py'].map((name) =>
          write(name, leave),
        ),
        ...['assert', 'tap', 'node:test'].map((name) => write(`node_modules/${name}/index.js`, leaveNode)),
        write('assay-isolated.mjs', leaveNode),
        write('assay-isolated.sh', 'exit 0\n'),
      ]),
    },
    { name: 'programs that say yes', command: saysYes },
  ];
}

const saysYes = `
find . -path ./.git -prune -o -type f '(' -name '*.py' -o -name '*.js' -o -name '*.mjs' -o -name '*.sh' -o -perm -u+x ')' -print |
while read -r file; do
  case $file in
    *.py) printf 'print("1 passed, PASSED, ok")\\nimport os\\nos._exit(0)\\n' > "$file" ;;
    *.js | *.mjs) printf 'console.log("1 passed, PASSED, ok"); process.exit(0);\\n' > "$file" ;;
    *) printf '#!/bin/sh\\necho "1 passed, PASSED, ok"\\nexit 0\\n' > "$file" ;;
  esac
done`;

/** Every report that the sample names, where a careless grader might look, saying that all is well. */
function plantedReports(verification: Verification): string[] {
  const tests = roleNames.filter((role) => role !== 'sentinel_fail').flatMap((role) => verification[role]?.tests ?? []);
  const reports = [verification.reports, ...roleNames.map((role) => verification[role]?.reports ?? [])].flat();
  const forged = reports.flatMap((report) => (report.path === undefined ? [] : [[report.path, forge(report, tests)]]));
  const places = ['', 'reports/', 'test-results/'];
  return [
    ...forged.flatMap(([path = '', text = '']) => places.map((place) => write(`${place}${path}`, text))),
    ...['reward.txt', 'reports/reward.txt'].map((path) => write(path, '1\n')),
  ];
}

function forge({ format, names }: Report, tests: readonly string[]): string {
  switch (format) {
    case 'junit': {
      const cases = tests.map((test) => {
        const at = names === 'plain' ? -1 : test.indexOf('::');
        const [classname, name] = at < 0 ? ['', test] : [test.slice(0, at), test.slice(at + 2)];
        return `<testcase classname="${escapeXml(classname)}" name="${escapeXml(name)}"/>`;
      });
      return `<testsuite tests="${tests.length}" failures="0" errors="0">${cases.join('')}</testsuite>\n`;
    }
    case 'tap':
      return [`1..${tests.length}`, ...tests.map((test, index) => `ok ${index + 1} - ${test}`), ''].join('\n');
    case 'go-test-json':
      return tests.map((test) => `${JSON.stringify({ Action: 'pass', Package: 'p', Test: test })}\n`).join('');
    case 'ctrf': {
      const found = tests.map((name) => ({ name, status: 'passed', duration: 1 }));
      return JSON.stringify({ results: { tool: { name: 'x' }, summary: { tests: found.length }, tests: found } });
    }
    default:
      return '1\n';
  }
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

function lines(parts: readonly string[]): string {
  return parts.join('\n');
}

/** Encoded, so that no name or text can be taken for shell. */
function write(path: string, text: string): string {
  const quoted = `'${path.replaceAll("'", "'\\''")}'`;
  return `mkdir -p "$(dirname ${quoted})" && echo ${Buffer.from(text).toString('base64')} | base64 -d > ${quoted}`;
}
