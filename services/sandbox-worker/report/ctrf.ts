import { fieldsOf, numberOf, parseJson, textOf } from './json-value.ts';
import { reportText } from './report-text.ts';
import { createRowCollector, ReportError, type ReportLimits, type TestRow, type TestStatus } from './test-row.ts';

const statuses: Readonly<Record<string, TestStatus>> = {
  passed: 'passed',
  failed: 'failed',
  skipped: 'skipped',
  pending: 'skipped',
  other: 'error',
};

/** The Common Test Report Format. A test with a suite is named `suite > name`. */
export function parseCtrf(bytes: Uint8Array, limits: ReportLimits): TestRow[] {
  const { results } = fieldsOf(parseJson(reportText(bytes, limits), limits.depth));
  const { tests } = fieldsOf(results);
  if (!Array.isArray(tests)) throw new ReportError('not a CTRF report: expected results.tests, a list');
  const rows = createRowCollector(limits);
  for (const value of tests) {
    const test = fieldsOf(value);
    const suite = Array.isArray(test.suite)
      ? test.suite.filter((part) => typeof part === 'string').join(' > ')
      : textOf(test.suite);
    const said = textOf(test.status);
    const status = Object.hasOwn(statuses, said) ? statuses[said] : undefined;
    if (status === undefined) throw new ReportError(`a test with the status ${JSON.stringify(said.slice(0, 40))}`);
    const name = textOf(test.name);
    rows.add({
      name: suite === '' || name === '' ? name : `${suite} > ${name}`,
      status,
      durationMs: numberOf(test.duration),
      message: [textOf(test.message), textOf(test.trace)].filter((part) => part !== '').join('\n'),
    });
  }
  return rows.rows();
}
