import { expect } from 'vitest';
import type { EndReasonName, Execution, Session, Shell, ShellRunOptions } from '../../../clients/typescript/index.ts';

export type Dialect = 'bash' | 'dash' | 'zsh' | 'ash';

export const programs: Readonly<Record<Dialect, readonly string[]>> = {
  bash: ['bash'],
  dash: ['dash'],
  zsh: ['zsh'],
  ash: ['busybox', 'ash'],
};

/** How one command ended and what it wrote. */
export interface Outcome {
  readonly code: number | undefined;
  readonly signal: number | undefined;
  readonly reason: EndReasonName;
  readonly out: string;
  readonly err: string;
  readonly reopened: boolean;
  readonly ended: boolean;
  readonly message: string;
  readonly id: string;
}

let made = 0;

/** A fresh shell of one dialect. */
export class Subject {
  readonly dialect: Dialect;
  readonly session: Session;
  readonly shell: Shell;
  /** A directory of its own. */
  readonly dir: string;

  constructor(dialect: Dialect, session: Session, shell: Shell) {
    this.dialect = dialect;
    this.session = session;
    this.shell = shell;
    this.dir = `/tmp/subject-${made++}`;
  }

  /** What is true of this shell, or of all others. */
  own<T>(truths: Partial<Record<Dialect, T>> & { others: T }): T {
    return truths[this.dialect] ?? truths.others;
  }

  async run(text: string | Uint8Array, options: ShellRunOptions = {}): Promise<Outcome> {
    const id = `b-${made++}`;
    const { exitCode, signal, reason, stdout, stderr, result } = await this.shell.run(text, { id, ...options });
    return {
      code: exitCode,
      signal,
      reason,
      out: stdout.toString('latin1'),
      err: stderr.toString('latin1'),
      reopened: result.shellReopened,
      ended: result.shellEnded,
      message: result.message,
      id,
    };
  }

  /** Runs a command that must end well, and returns what it printed. */
  async ok(text: string | Uint8Array, options?: ShellRunOptions): Promise<string> {
    const outcome = await this.run(text, options);
    expect(outcome, String(text).slice(0, 200)).toMatchObject({ reason: 'EXITED', code: 0, ended: false });
    return outcome.out;
  }

  /** The shell works, and still has what was put into it. */
  async mark(): Promise<void> {
    await this.ok('marked=yes; marked() { echo "marked $marked"; }');
  }

  async expectMarked(): Promise<void> {
    expect(await this.run('marked')).toMatchObject({ out: 'marked yes\n', code: 0, reopened: false });
  }

  /** The shell works, with its initial state, and its next result says so. */
  async expectReopened(): Promise<void> {
    expect(await this.run(`echo "m=$\{marked-none}"`)).toMatchObject({ out: 'm=none\n', code: 0, reopened: true });
    expect(await this.run('echo again')).toMatchObject({ out: 'again\n', code: 0, reopened: false });
  }

  /** Resolves when the execution has printed this text. */
  async printed(execution: Execution, text: string): Promise<void> {
    await execution.started;
    let seen = '';
    for await (const event of this.session.attach(execution.id, { followBackground: true })) {
      if (event.type === 'stdout') seen += Buffer.from(event.data).toString();
      if (seen.includes(text)) return;
    }
    throw new Error(`it ended without printing ${text}: ${seen}`);
  }

  /** What an execution and its background processes printed, up to the last of them. */
  async all(id: string): Promise<string> {
    let seen = '';
    for await (const event of this.session.attach(id, { followBackground: true })) {
      if (event.type === 'stdout') seen += Buffer.from(event.data).toString();
    }
    return seen;
  }
}

/** One sentence, and how it is shown to be true. */
export type Behaviour = readonly [sentence: string, show: (shell: Subject) => Promise<void>];
