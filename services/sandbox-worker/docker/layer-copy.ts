import { describeEnd, startProgram } from '../program/program.ts';

const saidCharacters = 2_000;

/** What `cp` says at the end of a line, behind a name that it quotes. */
const problems = {
  NO_SPACE: /: No space left on device$/,
  PATH_TOO_LONG: /: File name too long$/,
} as const;

/** Why the files cannot be copied, whatever is tried. */
export type CopyProblem = keyof typeof problems | 'TOO_SLOW';

export interface CopyOptions {
  /** A copy that takes longer than this is given up. */
  readonly longestMs: number;
  /** Nobody needs the copy any more: its reason is thrown. */
  readonly signal?: AbortSignal;
  readonly refused: (problem: CopyProblem) => Error;
}

/**
 * Copies a directory of an overlay into another: owners, modes, times, links, holes, whiteouts and the attributes that mark
 * opaque directories. `cp` follows no link and takes any name; the tree must stand still meanwhile. When this has thrown
 * nothing is written any more.
 */
export async function copyLayer(from: string, to: string, options: CopyOptions): Promise<void> {
  const { longestMs, signal, refused } = options;
  signal?.throwIfAborted();
  let problem: CopyProblem | undefined;
  const giveUp = (found: CopyProblem): void => {
    problem ??= found;
    copy.kill();
  };
  // A copy ends with what started it: one that went on writing would keep the disk from being freed. Commands come first.
  const priority = ['nice', '--adjustment=10', 'ionice', '--class=2', '--classdata=7'];
  const args = ['--pdeathsig', 'KILL', ...priority, 'cp', '--archive', '--', `${from}/.`, `${to}/`];
  const copy = startProgram('setpriv', args, {
    input: '',
    // At the first: `cp` would try every file that is left, with a line for each.
    onStderr: eachLine((line) => {
      const found = problemIn(line);
      if (found !== undefined) giveUp(found);
    }),
  });
  const timer = setTimeout(() => giveUp('TOO_SLOW'), longestMs);
  signal?.addEventListener('abort', copy.kill, { once: true });
  const end = await copy.ended.finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', copy.kill);
  });
  signal?.throwIfAborted();
  if (problem !== undefined) throw refused(problem);
  if (end.code === 0) return;
  // A line for every file, with paths of the host: for the log, not for the record of a session.
  const said = new Error(end.stderr.slice(0, saidCharacters));
  throw new Error(`copying the files of a layer ${describeEnd(end)}`, { cause: said });
}

function problemIn(line: string): CopyProblem | undefined {
  const names = Object.keys(problems) as (keyof typeof problems)[];
  return names.find((name) => problems[name].test(line));
}

/** Hears whole lines. A name has no line break in them: `cp` escapes it. */
function eachLine(hear: (line: string) => void): (chunk: Buffer) => void {
  let rest = '';
  return (chunk) => {
    const lines = (rest + chunk.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) hear(line);
  };
}
