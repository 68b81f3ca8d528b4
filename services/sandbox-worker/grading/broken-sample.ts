import { runToEnd } from './command-outcome.ts';
import type { GuestCommand } from './guest-commands.ts';
import { type RunContext, readyContainer } from './ready-container.ts';
import type { Unstarted } from './unstarted-command.ts';

const checkSeconds = 60;

/**
 * Whether the sample is to blame: the program is nowhere in the image, in a place that no submission could fill. That the
 * command fails without a submission would prove nothing, since that is what it is there for.
 */
export async function proveBroken(context: RunContext, unstarted: Unstarted | undefined): Promise<string | undefined> {
  if (unstarted?.program === undefined) return undefined;
  const { program, by, said } = unstarted;
  const { workdir } = context.order.sample.sample.environment;
  if (isWorkspace(program, by, workdir)) return undefined;
  const ready = await readyContainer(context, 'ISOLATED', true);
  if (ready.kind === 'invalid') return undefined;
  try {
    const look = { ...by, args: ['/bin/sh', '-c', 'command -v "$1"', 'sh', program] };
    const { end } = await runToEnd(ready.container, look, checkSeconds, context.order.signal);
    const missing = end.kind === 'exited' && end.code !== 0;
    return missing ? `${said}; the image has no program ${program}` : undefined;
  } finally {
    context.discard(ready.container);
  }
}

/** Whether a submission could have brought the program, or taken it away. */
function isWorkspace(program: string, { env, workingDirectory }: GuestCommand, workdir: string): boolean {
  const inside = (path: string): boolean => path === workdir || path.startsWith(`${workdir}/`) || !path.startsWith('/');
  if (!program.includes('/')) return (env.PATH ?? '').split(':').some(inside);
  return inside(program.startsWith('/') ? program : `${workingDirectory}/${program}`);
}
