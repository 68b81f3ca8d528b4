import { DomainError } from '../../shared/domain-error.ts';
import { grader } from './container-users.ts';
import { type CopyProblem, copyLayer } from './layer-copy.ts';
import { removeFilesOf } from './user-files.ts';

/** The source of a fork stands still while its files are copied. */
const longestForkMs = 120_000;

/** Copies the upper directory of a fork's source, without the files of tests that run there. One deadline holds for both steps. */
export async function copyForFork(
  from: string,
  to: string,
  signal: AbortSignal,
  now = (): number => performance.now(),
): Promise<void> {
  const deadline = now() + longestForkMs;
  await copyLayer(from, to, { longestMs: longestForkMs, signal, refused: unforkable });
  // Tests that run in the source at this moment are none of the fork's business.
  await removeFilesOf(grader.uid, to, {
    longestMs: deadline - now(),
    signal,
    late: () => unforkable('TOO_SLOW'),
  });
}

function unforkable(problem: CopyProblem): DomainError {
  switch (problem) {
    case 'NO_SPACE': {
      const message = "limits.disk_bytes: the source's files do not fit into the fork's disk; ask for a larger one";
      return new DomainError('LIMIT_EXCEEDED', message, { field: 'limits.disk_bytes' });
    }
    case 'PATH_TOO_LONG': {
      const message = 'the source has directories so deep that a path is longer than the 4096 bytes that can be copied';
      return new DomainError('LIMIT_EXCEEDED', `${message}; remove or flatten them, then fork again`);
    }
    case 'TOO_SLOW': {
      const message = `the source's files could not be copied within ${longestForkMs / 1_000} s`;
      return new DomainError(
        'LIMIT_EXCEEDED',
        `${message}; remove what the fork does not need, such as caches, then fork again`,
      );
    }
  }
}
