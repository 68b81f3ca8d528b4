import { DomainError } from '../../shared/domain-error.ts';
import { projectShape } from '../auth/project.ts';
import { sessionIdShape } from '../session/session-id.ts';
import { invalid, show } from './field.ts';

const executionIdShape = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$/;
const requestIdShape = /^[\x21-\x7e]{1,128}$/;
const workerIdShape = /^[A-Za-z0-9_-]{1,64}$/;
const keyIdShape = /^[A-Za-z0-9]{4,32}$/;

export function checkSessionId(value: string): void {
  if (sessionIdShape.test(value)) return;
  throw invalid('session_id', `found ${show(value)}`, 'the id that CreateSession returned, ses_ and 26 characters');
}

export function checkExecutionId(value: string): void {
  if (executionIdShape.test(value)) return;
  const expected = 'up to 128 letters, digits and _ . : - that begin with a letter or digit';
  throw invalid('execution_id', `found ${show(value)}`, expected);
}

export function checkShellId(value: string): void {
  if (executionIdShape.test(value)) return;
  const expected = 'up to 128 letters, digits and _ . : - that begin with a letter or digit';
  throw invalid('shell_id', `found ${show(value)}`, expected);
}

export function checkRequestId(value: string): void {
  if (value === '' || requestIdShape.test(value)) return;
  throw invalid('request_id', `found ${show(value)}`, 'up to 128 printable ASCII characters without spaces');
}

export function checkProject(value: string): void {
  if (projectShape.test(value)) return;
  throw invalid('project', `found ${show(value)}`, 'up to 40 lower-case letters, digits and -');
}

export function checkKeyId(value: string): void {
  if (keyIdShape.test(value)) return;
  throw invalid('key_id', `found ${show(value)}`, 'the middle part of assay_<id>_<secret>');
}

export function checkWorkerId(value: string): void {
  if (workerIdShape.test(value)) return;
  throw invalid('worker_id', `found ${show(value)}`, 'the id of a worker, as GetServerInfo tells it');
}

/** A well-formed id that names nothing of the caller's project. */
export function noSession(sessionId: string): DomainError {
  const message = `no session ${sessionId} in this project; ListSessions shows what there is`;
  return new DomainError('SESSION_NOT_FOUND', message, { session_id: sessionId });
}
