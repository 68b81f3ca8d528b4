import { DomainError } from '../../shared/domain-error.ts';

/** The HTTP status of an answer of the engine, undefined where there was no answer. */
export function statusOf(error: unknown): number | undefined {
  const status = (error as { statusCode?: unknown } | undefined)?.statusCode;
  return typeof status === 'number' ? status : undefined;
}

export function isAbsent(error: unknown): boolean {
  return statusOf(error) === 404;
}

/** What the engine said, without the wrapping of the client library. */
export function saidBy(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.replace(/^\(HTTP code \d+\) [^-]*- /, '').trim();
}

/** ENGINE_FAILED unless it already is an error of ours. */
export function engineFailed(doing: string, error: unknown): DomainError {
  if (error instanceof DomainError) return error;
  return new DomainError(
    'ENGINE_FAILED',
    `the Docker engine failed while ${doing}: ${saidBy(error)}`,
    {},
    { cause: error },
  );
}

/** The engine does not answer at all. */
export function engineSilent(socketPath: string, error: unknown): DomainError {
  const code = (error as { code?: unknown } | undefined)?.code;
  const advice =
    code === 'EACCES'
      ? 'this user may not use the socket; type: sudo usermod -aG docker "$USER", then log in again'
      : 'start the engine (type: sudo dockerd &) or set DOCKER_HOST to its unix socket';
  return new DomainError(
    'ENGINE_FAILED',
    `no Docker engine answers at ${socketPath} (${saidBy(error)}); ${advice}`,
    {},
    { cause: error },
  );
}
