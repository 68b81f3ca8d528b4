import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sampleText } from '../../shared/sample/sample-text.ts';

/** Writes a sample with a hidden test, an oracle, a patch that is the fix reversed, and a note that nobody names. */
export function writeSample(root: string, path: string, changes: Readonly<Record<string, unknown>> = {}): void {
  const folder = join(root, path);
  const [dataset = '', id = ''] = path.split('/');
  const put = (name: string, content: string): void => {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), content);
  };
  const codebase = [
    { from: 'files', path: 'code' },
    { from: 'patch', path: 'break.patch', reverse: true },
  ];
  const provenance = { origin: 'SECRET origin', references: ['SECRET-CVE'] };
  const parts = { codebase, provenance, hints: ['SECRET hint'], oracle: { patch: 'oracle/fix.patch' } };
  put('code/main.py', 'print("the code")\n');
  put('code/deep/data.bin', 'x'.repeat(200_000));
  put('tests/run.py', 'SECRET hidden test\n');
  put('oracle/fix.patch', 'SECRET oracle\n');
  put('break.patch', 'SECRET reversed fix\n');
  put('NOTES', 'SECRET notes\n');
  const names = { 'verification.fail_to_pass.tests': ['SECRET test name'], 'verification.command': 'SECRET command' };
  put('sample.yaml', sampleText({ dataset, id, ...parts, ...names, ...changes }));
}
