import { fieldsOf, numberOf, parseJson, textOf } from './json-value.ts';
import { reportText } from './report-text.ts';
import { createRowCollector, ReportError, type ReportLimits, type TestRow, type TestStatus } from './test-row.ts';

const ends: Readonly<Record<string, TestStatus>> = { pass: 'passed', fail: 'failed', skip: 'skipped' };

/**
 * The output of `go test -json`: one event a line. A test is named `package::TestName/sub`; a package that failed by
 * itself, at build for example, is a row of its own. Lines that are not JSON are output of the tool, as long as there is
 * an event at all.
 */
export function parseGoTest(bytes: Uint8Array, limits: ReportLimits): TestRow[] {
  const rows = createRowCollector(limits);
  const started = new Set<string>();
  const output = new Map<string, string>();
  let events = 0;
  for (const line of reportText(bytes, limits).split('\n')) {
    if (!line.trimStart().startsWith('{')) continue;
    const event = fieldsOf(parseJson(line, limits.depth));
    const action = textOf(event.Action);
    const test = textOf(event.Test);
    const packageName = textOf(event.Package);
    if (action === '' || packageName === '') continue;
    events += 1;
    const name = test === '' ? packageName : `${packageName}::${test}`;
    if (action === 'output') keepOutput(output, name, textOf(event.Output), limits);
    if (action === 'run') started.add(name);
    const status = Object.hasOwn(ends, action) ? ends[action] : undefined;
    if (status === undefined || (test === '' && status !== 'failed')) continue;
    started.delete(name);
    const seconds = numberOf(event.Elapsed);
    rows.add({
      name,
      status,
      durationMs: seconds === undefined ? undefined : seconds * 1_000,
      message: status === 'passed' ? '' : (output.get(name) ?? ''),
    });
    output.delete(name);
  }
  if (events === 0) throw new ReportError('no event of go test');
  // A panic or an exit leaves tests without an end.
  for (const name of started) rows.add({ name, status: 'error', message: `no end; ${output.get(name) ?? ''}` });
  return rows.rows();
}

function keepOutput(output: Map<string, string>, name: string, text: string, limits: ReportLimits): void {
  const before = output.get(name) ?? '';
  if (before.length < limits.messageBytes) output.set(name, before + text);
}
