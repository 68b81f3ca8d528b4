import { afterEach, expect, test } from 'vitest';
import { Assurance, TestRole } from '../../gen/assay/v1/types_pb.js';
import { GradingPhase, TestOutcome, Verdict, VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { type DoubleServices, type ServerDouble, startServerDouble } from '../clients/typescript/server-double.ts';
import { runCaptured } from './captured-terminal.ts';

const servers: ServerDouble[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

async function serve(verification: DoubleServices['verification'] & object): Promise<string> {
  const server = await startServerDouble({ verification });
  servers.push(server);
  return server.endpoint;
}

const pending = { verificationId: 'ver_1', sessionId: 'ses_1', state: VerificationState.PENDING };
const tests = [
  {
    name: 'the sum\u001b[31m',
    role: TestRole.FAIL_TO_PASS,
    outcome: TestOutcome.FAILED,
    message: 'expected 6\nfound 3',
  },
  {
    name: 'the count',
    role: TestRole.PASS_TO_PASS,
    outcome: TestOutcome.PASSED,
    duration: { seconds: 0n, nanos: 12_000_000 },
  },
  { name: 'the impossible', role: TestRole.SENTINEL_FAIL, outcome: TestOutcome.FAILED, message: 'expected 7' },
];
const result = (verdict: Verdict) => ({
  verdict,
  trainable: verdict !== Verdict.INFRA_ERROR,
  reason: 'it was found out',
  assurance: Assurance.ISOLATED,
  testCount: 2,
  passedCount: 1,
  stdout: Buffer.from('hello'),
  failedCount: 1,
  tests,
});

function answering(verdict: Verdict) {
  const state = verdict === Verdict.INFRA_ERROR ? VerificationState.ERROR : VerificationState.COMPLETED;
  return serve({
    startVerification: () => ({ verification: pending }),
    async *watchVerification() {
      yield { verification: { ...pending, state: VerificationState.RUNNING, phase: GradingPhase.PREPARING } };
      yield { verification: { ...pending, state, result: result(verdict) } };
    },
  });
}

test('verify prints the tests and the verdict, and exits with 1 where it failed', async () => {
  const endpoint = await answering(Verdict.FAILED);
  const { stdout, code, stderr } = await runCaptured(['verify', 'ses_1', '--watch'], endpoint);
  expect(stdout.toString()).toMatch(
    /^OUTCOME +ROLE +TIME +TEST\nFAILED +fail_to_pass +- +the sum\ufffd\[31m: expected 6\n/,
  );
  expect(stdout.toString()).toMatch(/PASSED +pass_to_pass +12 ms +the count\n/);
  expect(stdout.toString()).toMatch(/FAILED +sentinel_fail +- +the impossible \(as it must\)\n/);
  expect(stdout.toString()).toMatch(/verdict +FAILED\nreason +it was found out\n/);
  expect(stderr.toString()).toMatch(/ver_1 RUNNING \(PREPARING\)\n/);
  expect(code).toBe(1);
});

test.each([
  [Verdict.PASSED, 0],
  [Verdict.TAMPERED, 1],
  [Verdict.INFRA_ERROR, 125],
])('the exit code of verdict %s is %s', async (verdict, expected) => {
  const { code } = await runCaptured(['verify', 'ses_1', '-o', 'json'], await answering(verdict));
  expect(code).toBe(expected);
});

test('verify passes its options on, and prints JSON where it is asked to', async () => {
  const asked: unknown[] = [];
  const endpoint = await serve({
    startVerification({ sessionId, force, requiredAssurance }) {
      asked.push({ sessionId, force, requiredAssurance });
      return { verification: { ...pending, state: VerificationState.COMPLETED, result: result(Verdict.PASSED) } };
    },
  });
  const args = ['verify', 'ses_1', '--force', '--assurance', 'ISOLATED', '-o', 'json'];
  const { stdout } = await runCaptured(args, endpoint);
  expect(asked).toEqual([{ sessionId: 'ses_1', force: true, requiredAssurance: Assurance.ISOLATED }]);
  expect(JSON.parse(stdout.toString())).toMatchObject({
    id: 'ver_1',
    state: 'COMPLETED',
    result: { verdict: 'PASSED', stdout: { text: 'hello' } },
  });
});
