import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';
import { type Client, createClient } from '../clients/typescript/index.ts';
import { findAccess } from './access.ts';
import type { Failure } from './failure.ts';

/** The parts of a process that a command uses. */
export interface Terminal {
  readonly stdin: Readable & { readonly isTTY?: boolean; setRawMode?(raw: boolean): unknown };
  readonly stdout: Writable & { readonly isTTY?: boolean; readonly rows?: number; readonly columns?: number };
  readonly stderr: Writable & { readonly isTTY?: boolean };
  readonly env: Readonly<Record<string, string | undefined>>;
}

export type OutputFormat = 'text' | 'json';

/** What every command gets: the terminal, the client, and where to leave the exit code. */
export interface Context extends Terminal {
  format: OutputFormat;
  endpoint: string | undefined;
  exitCode: number;
  readonly paint: ReturnType<typeof pc.createColors>;
  /** The client for the endpoint of this call, made when it is first needed. */
  client(): Client;
  /** One document on stdout: JSON, or the text that people read. */
  print(document: unknown, text: () => string): void;
  /** A line for people, on stderr; JSON output goes without. */
  note(line: string): void;
  reportFailure(failure: Failure): void;
  close(): void;
}

export function createContext(terminal: Terminal): Context {
  let client: Client | undefined;
  const { stdin, stdout, stderr, env } = terminal;
  const context: Context = {
    ...{ stdin, stdout, stderr, env },
    format: 'text',
    endpoint: undefined,
    exitCode: 0,
    paint: pc.createColors(stderr.isTTY === true && env.NO_COLOR === undefined),
    client() {
      client ??= createClient({ ...findAccess(env, context.endpoint), connectTimeoutMs: 2_000 });
      return client;
    },
    print(document, text) {
      stdout.write(`${context.format === 'json' ? JSON.stringify(document, null, 2) : text()}\n`);
    },
    note(line) {
      if (context.format === 'text') stderr.write(`${context.paint.dim(line)}\n`);
    },
    reportFailure(failure) {
      stderr.write(context.format === 'json' ? failureAsJson(failure) : failureAsText(context, failure));
    },
    close: () => client?.close(),
  };
  return context;
}

function failureAsJson({ found, type, reason, metadata }: Failure): string {
  return `${JSON.stringify({ error: { reason, message: found, type, metadata } })}\n`;
}

function failureAsText({ paint }: Context, { found, type }: Failure): string {
  const advice = type === undefined ? '' : `  type: ${type}\n`;
  return `${paint.red('assay:')} ${found}\n${advice}`;
}
