import type { Command } from '../../shared/sample/verification-schema.ts';
import type { Finished } from './command-outcome.ts';
import type { GuestCommand } from './guest-commands.ts';

/** What a shell says of a program that cannot be executed, or is not there. */
const shellCodes = [126, 127];

/** A command that could not be executed, as far as its end tells. */
export interface Unstarted {
  readonly said: string;
  /** The program that it begins with; undefined where that cannot be told. */
  readonly program: string | undefined;
  readonly by: GuestCommand;
}

export function unstartedCommand(
  name: string,
  { end, refusal }: Finished,
  command: Command,
  by: GuestCommand,
): Unstarted | undefined {
  const code = end.kind === 'exited' ? end.code : 0;
  if (refusal === undefined && !shellCodes.includes(code)) return undefined;
  return { said: `${name}: ${refusal ?? `exited with ${code}`}`, program: programOf(command), by };
}

/** Of a list the first word, of shell text as well where it is a plain one. */
function programOf(command: Command): string | undefined {
  const word = typeof command === 'string' ? /^\s*([\w./+-]+)(?=\s|$)/.exec(command)?.[1] : command[0];
  return word?.startsWith('-') ? undefined : word;
}
