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
  if (result === undefined) return `${info.id} ${info.state}`;
  const tests = result.tests.length === 0 ? [] : [renderTests(result)];
  return [...tests, describeResult(info, result)].join('\n\n');
}

function renderTests({ tests, omittedTestCount }: VerificationResult): string {
  const table = renderTable(
    ['OUTCOME', 'ROLE', 'TIME', 'TEST'],
    tests.map((test) => [test.outcome, test.role?.toLowerCase() ?? '-', renderTime(test.durationMs), nameOf(test)]),
  );
  return omittedTestCount === 0 ? table : `${table}\n… and ${omittedTestCount} more`;
}

function nameOf({ name, role, outcome, message }: TestResultInfo): string {
  const said = message.trim().split('\n', 1)[0] ?? '';
  // One that fails as it must is no news, and what it says would look like some.
  if (role === 'SENTINEL_FAIL' && outcome === 'FAILED') return `${plain(name)} (as it must)`;
  if (outcome === 'PASSED' || said === '') return plain(name);
  return `${plain(name)}: ${plain(said.slice(0, messageCharacters))}`;
}

function describeResult(info: VerificationInfo, result: VerificationResult): string {
  const { testCount, passedCount, failedCount, skippedCount } = result;
  const { fileCount, sizeBytes } = info.submission;
  const steps = result.steps.map(({ step, durationMs }) => `${step.toLowerCase()} ${renderTime(durationMs)}`);
  return renderFields([
    ['verdict', result.reused ? `${result.verdict} (as ${info.reusedFrom} found)` : result.verdict],
    ['reason', plain(result.reason)],
    ['assurance', result.assurance],
    ['tests', `${passedCount} of ${testCount} passed, ${failedCount} failed, ${skippedCount} skipped`],
    ['reward', result.trainable ? String(result.reward) : `${result.reward}, not to be learnt from`],
    [
      'submission',
      `${fileCount} ${fileCount === 1 ? 'change' : 'changes'}, ${renderSize(sizeBytes)}, ${info.digests.submission}`,
    ],
    ['steps', steps.join(', ')],
    // Not told to an agent's key.
    ['cpu', result.cpuTimeMs === 0 ? undefined : renderTime(result.cpuTimeMs)],
    ['peak memory', result.peakMemoryBytes === 0 ? undefined : renderSize(result.peakMemoryBytes)],
    ['attempts', info.attemptCount > 1 ? String(info.attemptCount) : undefined],
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
