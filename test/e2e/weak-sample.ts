import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Writes a sample of the dataset `weak`, graded by a shell script that is its only hidden test beside a secret. */
export function writeWeakSample(
  datasets: string,
  id: string,
  assurance: string,
  script: string,
  more: Readonly<Record<string, unknown>> = {},
): void {
  const folder = join(datasets, 'weak', id);
  const yaml = {
    ...{ format: 'assay/1', dataset: 'weak', id, version: '1.0.0', language: 'shell', title: 'Weak' },
    provenance: { origin: 'made by a test', license: 'MIT' },
    instruction: 'Do it.',
    codebase: [{ from: 'files', path: 'code' }],
    verification: {
      tests: 'tests',
      command: 'sh run.sh',
      timeout: 60,
      reports: [{ format: 'tap', path: 'report.tap' }],
      fail_to_pass: { assurance, tests: ['it works'] },
      ...more,
    },
  };
  const files = {
    'sample.yaml': JSON.stringify(yaml),
    'code/readme': 'nothing\n',
    'tests/run.sh': script,
    'tests/secret': 'the hidden answer\n',
  };
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
}

/** Shell text that reports whether the check holds. */
export function reporting(check: string, name = 'it works'): string {
  return `if ${check}; then printf '1..1\\nok 1 - ${name}\\n' > "$ASSAY_REPORTS/report.tap"
else printf '1..1\\nnot ok 1 - ${name}\\n' > "$ASSAY_REPORTS/report.tap"; exit 1; fi
`;
}
