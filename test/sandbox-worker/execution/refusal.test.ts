import { expect, test } from 'vitest';
import { shellRefusalOf } from '../../../services/sandbox-worker/execution/refusal.ts';
import { failedStep, GuestViolation } from '../../../services/sandbox-worker/guest/frame.ts';

test('a program that took no commands until the guest killed it is told as such', () => {
  const { reason, message, metadata } = shellRefusalOf(failedStep.shellSilent, 9);
  expect(reason).toBe('PROGRAM_NOT_STARTED');
  expect(message).toContain('its program took no commands and was killed');
  expect(metadata).toEqual({ step: '11', signal: 'SIGKILL' });
});

test('an errno is told for a program that could not be executed', () => {
  expect(shellRefusalOf(5, 2).message).toContain('the program could not be executed: ENOENT');
});

test('a wait status that no kernel gives is a violation', () => {
  expect(() => shellRefusalOf(failedStep.shellEnded, 0x7f)).toThrow(GuestViolation);
});
