import { AssayError } from './assay-error.ts';

/** What to run: shell text, shell text as bytes, or a program and its arguments without a shell. */
export type Program = string | Uint8Array | readonly string[];

export type ProgramField =
  | { case: 'command'; value: string }
  | { case: 'script'; value: Uint8Array }
  | { case: 'argv'; value: { args: string[] } };

export function toProgramField(program: Program): ProgramField {
  if (typeof program === 'string') return { case: 'command', value: program };
  if (program instanceof Uint8Array) return { case: 'script', value: program };
  if (Array.isArray(program)) return { case: 'argv', value: { args: [...program] } };
  throw new AssayError('INVALID_OPTION', 'a program is shell text, its bytes, or an array of program and arguments');
}
