import { fieldsOf, numberOf, parseJson } from './json-value.ts';
import { reportText } from './report-text.ts';
import { ReportError, type ReportLimits, type TestRow } from './test-row.ts';

/** The name of the one test that a reward file stands for. */
export const rewardTestName = 'reward';

/** A number from 0 to 1, alone in its file or as the field `reward` of a JSON object. Only a full reward passes. */
export function parseReward(bytes: Uint8Array, limits: ReportLimits): { rows: TestRow[]; reward: number } {
  const text = reportText(bytes, limits).trim();
  const reward = text.startsWith('{') ? numberOf(fieldsOf(parseJson(text, limits.depth)).reward) : plainNumber(text);
  if (reward === undefined || reward < 0 || reward > 1)
    throw new ReportError('not a reward: expected a number from 0 to 1');
  const message = reward === 1 ? '' : `reward ${reward}`;
  return {
    rows: [{ name: rewardTestName, status: reward === 1 ? 'passed' : 'failed', durationMs: undefined, message }],
    reward,
  };
}

function plainNumber(text: string): number | undefined {
  return /^[0-9]{1,10}(\.[0-9]{1,20})?$/.test(text) ? Number(text) : undefined;
}
