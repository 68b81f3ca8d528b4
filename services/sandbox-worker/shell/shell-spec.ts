import { createHash } from 'node:crypto';
import type { OpenShellRequest } from '../../../gen/assay/v1/shell_pb.js';
import type { StartSpec } from '../guest/frame.ts';

/** What is fixed when a shell is accepted. */
export interface ShellSpec {
  /** Its place in the order of acceptance. */
  readonly number: bigint;
  readonly id: string;
  /** Tells a repeated request from another one. */
  readonly fingerprint: string;
  readonly program: readonly string[];
  readonly workingDirectory: string;
  readonly createdMs: number;
  /** What the guest is told. */
  readonly start: Omit<StartSpec, 'gated'>;
}

/** What a sandbox adds to a request. */
export interface ShellSurroundings {
  readonly env: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
}

export function shellSpecOf(
  number: bigint,
  request: OpenShellRequest,
  fingerprint: string,
  createdMs: number,
  around: ShellSurroundings,
): ShellSpec {
  const env = { ...around.env, ...request.env };
  const workingDirectory = request.workingDirectory || around.workingDirectory;
  return {
    number,
    id: request.shellId,
    fingerprint,
    program: request.program,
    workingDirectory,
    createdMs,
    start: {
      nest: 0,
      inputOpen: false,
      terminal: undefined,
      workingDirectory,
      args: request.program,
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    },
  };
}

export function shellFingerprintOf(request: OpenShellRequest): string {
  const hash = createHash('sha256');
  const env = Object.entries(request.env).sort(([a], [b]) => (a < b ? -1 : 1));
  return hash
    .update(JSON.stringify([request.shellId, request.program, env, request.workingDirectory]))
    .digest('base64');
}
