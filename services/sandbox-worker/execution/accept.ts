import { hash } from 'node:crypto';
import { durationMs } from '@bufbuild/protobuf/wkt';
import type { ExecuteRequest } from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { ExecutionSpec, Order } from './execution-spec.ts';

/** The longest text that goes to the shell as an argument; the kernel takes 128 KiB. */
const argumentLimit = 65_536;
const summaryLimit = 4_096;
const fingerprintLimit = 96;

/** What a sandbox adds to a request. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  readonly defaultKeptBytes: number;
  /** Puts a text that is too long for an argument where the sandbox can read it; returns the path in there. */
  placeScript(number: bigint, text: Uint8Array): string;
  /** Takes it away again, if there was one. */
  removeScript(number: bigint): void;
}

/** Turns a request into what is remembered of it and, when it comes to that, what the guest is told. */
export function acceptRequest(
  number: bigint,
  request: ExecuteRequest,
  accepted: { readonly ms: number; readonly nest: number },
  around: Surroundings,
): { spec: ExecutionSpec; order: Order } {
  const env = { ...around.env, ...request.env };
  return {
    spec: {
      number,
      acceptedMs: accepted.ms,
      nest: accepted.nest,
      id: request.executionId,
      shellId: request.shellId,
      fingerprint: fingerprintOf(request),
      summary: summaryOf(request),
      timeoutMs: request.timeout === undefined ? undefined : durationMs(request.timeout),
      inputOpen: isInputOpen(request),
      terminal: request.terminal !== undefined,
      textBytes: textBytesOf(request),
      scripted: isScripted(request),
      keptBytes: request.outputKeptBytes === 0n ? around.defaultKeptBytes : Number(request.outputKeptBytes),
    },
    order: {
      text: () => textOf(request),
      startSpec: () => ({
        gated: false,
        nest: 0,
        inputOpen: isInputOpen(request),
        terminal: request.terminal,
        workingDirectory: request.workingDirectory || around.workingDirectory,
        args: argumentsOf(number, request, around),
        env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      }),
    },
  };
}

/** A terminal can always be typed at. */
function isInputOpen({ inputOpen, terminal }: ExecuteRequest): boolean {
  return inputOpen || terminal !== undefined;
}

/** How long the text is that may have to wait for its shell, about. */
export function textBytesOf({ program }: ExecuteRequest): number {
  return program.case === 'command' || program.case === 'script' ? program.value.length : 0;
}

/** What a shell is to run. */
function textOf({ program }: ExecuteRequest): Buffer {
  if (program.case === 'command' || program.case === 'script') return Buffer.from(program.value as string);
  throw new DomainError('INVALID_FIELD', 'argv: a shell runs text; set command or script', { field: 'argv' });
}

function argumentsOf(number: bigint, request: ExecuteRequest, around: Surroundings): (string | Uint8Array)[] {
  const { program } = request;
  if (program.case === 'argv') return program.value.args;
  if (program.case === undefined) {
    throw new DomainError('INVALID_FIELD', 'program: nothing to run; set command, script or argv', {
      field: 'program',
    });
  }
  const text = Buffer.from(program.value as string);
  return isScripted(request) ? ['/bin/sh', around.placeScript(number, text)] : ['/bin/sh', '-c', text];
}

/** Whether the text cannot go as an argument. */
function isScripted({ program, shellId }: ExecuteRequest): boolean {
  if (shellId !== '') return false;
  if (program.case === 'command') {
    return Buffer.byteLength(program.value) > argumentLimit || program.value.includes('\0');
  }
  return program.case === 'script' && (program.value.length > argumentLimit || program.value.includes(0));
}

function summaryOf({ program }: ExecuteRequest): string {
  const text = program.case === 'argv' ? program.value.args.join(' ') : (program.value ?? '');
  // Nothing to cut in most: no character takes more than three bytes.
  if (typeof text === 'string' && text.length <= summaryLimit / 3 && text.isWellFormed())
    return text.replace(/\0/g, ' ');
  const bytes = Buffer.from(text as string).subarray(0, summaryLimit);
  // Streaming leaves out a character that was cut in half; a bad byte becomes three, so the end is cut again.
  const summary = new TextDecoder().decode(bytes, { stream: true }).replace(/\0/g, ' ');
  return new TextDecoder().decode(Buffer.from(summary).subarray(0, summaryLimit), { stream: true });
}

/** Tells a repeated request from another one that took the same id. */
export function fingerprintOf(request: ExecuteRequest): string {
  const { program } = request;
  const parts: Buffer[] = [];
  const part = (data: string | Uint8Array) => parts.push(Buffer.from(`${data.length}:`), Buffer.from(data as string));
  part(program.case ?? '');
  if (program.case === 'argv') for (const arg of program.value.args) part(arg);
  else if (program.case !== undefined) part(program.value);
  part(request.shellId);
  part(request.workingDirectory);
  part(request.inputOpen ? 'input' : '');
  // Not its size, which changes while it runs.
  if (request.terminal !== undefined) part('terminal');
  for (const name of Object.keys(request.env).sort()) {
    part(name);
    part(request.env[name] as string);
  }
  const whole = Buffer.concat(parts);
  // What is shorter than twice its hash is its own fingerprint. In one go: a hash that is fed in pieces costs several times as much.
  return whole.length <= fingerprintLimit ? whole.toString('latin1') : hash('sha256', whole, 'base64');
}
