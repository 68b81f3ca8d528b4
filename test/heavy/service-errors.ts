import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const warningLevel = 40;

/** Prints what the services of a stack have logged last as warnings and errors: the files go with the stack. */
export function tellErrors(dataDir: string): void {
  const directory = join(dataDir, 'logs');
  for (const name of readdirSync(directory).filter((file) => file.endsWith('.log'))) {
    const lines = readFileSync(join(directory, name), 'utf8').split('\n');
    const errors = lines.filter((line) => Number(/"level":(\d+)/.exec(line)?.[1] ?? 0) >= warningLevel);
    console.log([`warnings and errors in ${name}:`, ...errors.slice(-20)].join('\n'));
  }
}
