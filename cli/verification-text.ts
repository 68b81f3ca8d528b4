import type { TestResultInfo, VerificationInfo, VerificationResult } from '../clients/typescript/index.ts';
import { textOrBase64 } from './event-sink.ts';
import { renderFields, renderSize, renderTable } from './table.ts';

/** The same for programs: output as text, or in Base64 where it is none. */
export function verificationJson(info: VerificationInfo): object {
  const { result } = info;
  if (result === undefined) return info;
  return { ...info, result: { ...result, stdout: textOrBase64(result.stdout), stderr: textOrBase64(result.stderr) } };
}

const messageCharacters = 100;

/** A verification that has ended, for people: the tests, then the verdict. */
export function describeVerification(info: VerificationInfo): string {
  const { result } = info;
  if (result === undefined) return `${info.id} ${info.status}`;
  const tests = result.tests.length === 0 ? [] : [renderTests(result)];
  return [...tests, describeResult(info, result)].join('\n\n');
}

function renderTests({ tests, omittedTests }: VerificationResult): string {
  const table = renderTable(
    ['OUTCOME', 'ROLE', 'TIME', 'TEST'],
    tests.map((test) => [test.outcome, test.role || '-', renderTime(test.durationMs), nameOf(test)]),
  );
  return omittedTests === 0 ? table : `${table}\n… and ${omittedTests} more`;
}

function nameOf({ name, role, outcome, message }: TestResultInfo): string {
  const said = message.trim().split('\n', 1)[0] ?? '';
  // One that fails as it must is no news, and what it says would look like some.
  if (role === 'sentinel_fail' && outcome === 'FAILED') return `${plain(name)} (as it must)`;
  if (outcome === 'PASSED' || said === '') return plain(name);
  return `${plain(name)}: ${plain(said.slice(0, messageCharacters))}`;
}

function describeResult(info: VerificationInfo, result: VerificationResult): string {
  const { total, passed, failed, skipped } = result;
  const phases = result.phases.map(({ phase, durationMs }) => `${phase} ${renderTime(durationMs)}`);
  return renderFields([
    ['verdict', result.reused ? `${result.verdict} (as ${info.reusedFrom} found)` : result.verdict],
    ['reason', plain(result.reason)],
    ['assurance', result.assurance],
    ['tests', `${passed} of ${total} passed, ${failed} failed, ${skipped} skipped`],
    ['reward', result.trainable ? String(result.reward) : `${result.reward}, not to be learnt from`],
    [
      'submission',
      `${info.submission.files} ${info.submission.files === 1 ? 'change' : 'changes'}, ${renderSize(info.submission.bytes)}, ${info.digests.submission}`,
    ],
    ['phases', phases.join(', ')],
    // Not told to an agent's key.
    ['cpu', result.cpuTimeMs === 0 ? undefined : renderTime(result.cpuTimeMs)],
    ['peak memory', result.peakMemoryBytes === 0 ? undefined : renderSize(result.peakMemoryBytes)],
    ['attempts', info.attempts > 1 ? String(info.attempts) : undefined],
    ...result.notes.map((note) => ['note', plain(note)] as const),
    ['verification', info.id],
  ]);
}

function renderTime(ms: number | undefined): string {
  if (ms === undefined) return '-';
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

/** A name or a message may come from the submission: it must not steer the terminal. */
function plain(text: string): string {
  return text.replace(/\p{Cc}/gu, '\ufffd');
}
