import type { Execution, TerminalSize } from '../clients/typescript/index.ts';
import type { Context } from './context.ts';
import { usageFailure } from './failure.ts';

const usualSize: TerminalSize = { rows: 24, columns: 80 };
const largest = 1_000;
/** Kinds of terminals that images know, as a rule; another one would leave full-screen programs without a description. */
const commonTypes = /^(xterm|screen|tmux|rxvt|vt\d+|linux|ansi|dumb)/;
/** Leaves the alternate screen, shows the cursor, ends mouse reports and bracketed paste, and sets plain text. */
const plainScreen = '\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m\r';

/** The terminal that this process runs on, lent to a command: every key goes there, Ctrl-C too. */
export interface OwnTerminal {
  readonly size: TerminalSize;
  /** Variables by which programs know what it can do. */
  readonly env: Readonly<Record<string, string>>;
  /** Tells the command of every new size. */
  follow(execution: Execution): void;
  /** Takes it back as it was; after a command that could not tidy up, the screen too. */
  release(tidied: boolean): void;
}

/** Refuses a call that cannot work, before a session is made for it. */
export function requireTerminal({ stdin, stdout, format }: Context): void {
  if (format === 'json') throw usageFailure('found -o json with a terminal', 'the same without -o json');
  if (stdin.isTTY === true && stdout.isTTY === true) return;
  throw usageFailure('stdin and stdout are no terminal', "assay exec <session> -c '…', which needs none");
}

/** Whatever becomes of this process, the terminal is given back. */
export function lendTerminal(context: Context): OwnTerminal {
  const { stdin, stdout, env } = context;
  requireTerminal(context);
  const setRawMode = (raw: boolean) => stdin.setRawMode?.(raw);
  let resized = () => {};
  const onResize = () => resized();
  const restore = () => setRawMode(false);
  setRawMode(true);
  process.once('exit', restore);
  stdout.on('resize', onResize);
  return {
    get size() {
      return sizeOf(stdout);
    },
    env: {
      TERM: env.TERM !== undefined && commonTypes.test(env.TERM) ? env.TERM : 'xterm-256color',
      ...(env.COLORTERM === undefined ? {} : { COLORTERM: env.COLORTERM }),
    },
    follow(execution) {
      // The size is known again at the next change; a command that has ended needs none.
      resized = () => {
        execution.started.then(() => execution.resize(sizeOf(stdout))).catch(() => undefined);
      };
    },
    release(tidied) {
      process.off('exit', restore);
      stdout.off('resize', onResize);
      restore();
      stdin.pause();
      if (!tidied) stdout.write(plainScreen);
    },
  };
}

function sizeOf({ rows, columns }: Context['stdout']): TerminalSize {
  const within = (count: number | undefined, usual: number) => Math.min(count || usual, largest);
  return { rows: within(rows, usualSize.rows), columns: within(columns, usualSize.columns) };
}
