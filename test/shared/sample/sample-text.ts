import { parse, stringify } from 'yaml';

const plain = `
format: assay/1
dataset: examples
id: tiny
version: 1.0.0
language: python
title: A tiny sample
provenance:
  origin: written for a test
instruction: Mend it.
codebase:
  - from: files
    path: code
verification:
  tests: tests
  command: python3 -I run.py
  reports:
    - format: tap
      path: report.tap
  fail_to_pass:
    assurance: ISOLATED
    tests: [mends]
  sentinel_fail:
    assurance: ISOLATED
    command: python3 -I sentinel.py
    tests: [trap]
`;

/** A sample.yaml that is right, with some of it changed: `{'verification.timeout': 5}`. Undefined removes a key. */
export function sampleText(changes: Readonly<Record<string, unknown>> = {}): string {
  const sample = parse(plain) as Record<string, unknown>;
  for (const [path, value] of Object.entries(changes)) {
    const keys = path.split('.');
    const last = keys.pop() as string;
    let inner = sample;
    for (const key of keys) {
      inner[key] ??= {};
      inner = inner[key] as Record<string, unknown>;
    }
    if (value === undefined) delete inner[last];
    else inner[last] = value;
  }
  return stringify(sample);
}
