import type { DescService } from '@bufbuild/protobuf';
import { ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { KeyService } from '../../../gen/assay/v1/key_pb.js';
import { SampleService } from '../../../gen/assay/v1/sample_pb.js';
import { ServerService } from '../../../gen/assay/v1/server_pb.js';
import { SessionService } from '../../../gen/assay/v1/session_pb.js';
import { ShellService } from '../../../gen/assay/v1/shell_pb.js';
import { VerificationService } from '../../../gen/assay/v1/verification_pb.js';
import { WorkerService } from '../../../gen/assay/v1/worker_pb.js';
import { ServerReflection } from '../../../gen/grpc/reflection/v1/reflection_pb.js';
import { ServerReflection as ServerReflectionAlpha } from '../../../gen/grpc/reflection/v1alpha/reflection_pb.js';
import { Health } from '../../../gen/health/v1/health_pb.js';

/** What a caller must have: nothing at all, any valid key, or a key with a scope (admin has them all). */
export type Requirement = 'nothing' | 'key' | 'agent' | 'grader' | 'admin';

/** One row for every RPC of a service; the compiler demands them. */
type Rows<Service extends DescService> = { readonly [Method in keyof Service['method']]: Requirement };

const sessionRows: Rows<typeof SessionService> = {
  createSession: 'agent',
  getSession: 'agent',
  listSessions: 'agent',
  updateSession: 'agent',
  pauseSession: 'agent',
  resumeSession: 'agent',
  forkSession: 'agent',
  closeSession: 'agent',
  followSession: 'agent',
};
const executionRows: Rows<typeof ExecutionService> = {
  execute: 'agent',
  executeMany: 'agent',
  attach: 'agent',
  getExecution: 'agent',
  listExecutions: 'agent',
  writeInput: 'agent',
  closeInput: 'agent',
  signalExecution: 'agent',
  cancelExecution: 'agent',
  resizeTerminal: 'agent',
  getTranscript: 'agent',
};
const shellRows: Rows<typeof ShellService> = {
  openShell: 'agent',
  getShell: 'agent',
  listShells: 'agent',
  closeShell: 'agent',
};
const keyRows: Rows<typeof KeyService> = { createKey: 'admin', listKeys: 'admin', revokeKey: 'admin' };
const sampleRows: Rows<typeof SampleService> = {
  listDatasets: 'key',
  listSamples: 'key',
  getSample: 'key',
  downloadSample: 'key',
  buildSample: 'key',
  validateSample: 'grader',
};
/** Reading and regrading need no more than a key: what it is told of hidden tests depends on its scope. */
const verificationRows: Rows<typeof VerificationService> = {
  startVerification: 'agent',
  getVerification: 'key',
  listVerifications: 'key',
  watchVerification: 'key',
  cancelVerification: 'agent',
  regradeSubmission: 'key',
};
const serverRows: Rows<typeof ServerService> = { getServerInfo: 'key' };
const workerRows: Rows<typeof WorkerService> = {
  listWorkers: 'key',
  getWorker: 'key',
  drainWorker: 'admin',
  forgetWorker: 'admin',
};
const healthRows: Rows<typeof Health> = { check: 'nothing', watch: 'nothing', list: 'nothing' };
const reflectionRows: Rows<typeof ServerReflection> = { serverReflectionInfo: 'key' };

/** Every service of the public port with its rows. */
export const scopeTable: readonly (readonly [DescService, Readonly<Record<string, Requirement>>])[] = [
  [SessionService, sessionRows],
  [ExecutionService, executionRows],
  [SampleService, sampleRows],
  [ShellService, shellRows],
  [VerificationService, verificationRows],
  [KeyService, keyRows],
  [ServerService, serverRows],
  [WorkerService, workerRows],
  [Health, healthRows],
  [ServerReflection, reflectionRows],
  [ServerReflectionAlpha, reflectionRows],
];

/** `assay.v1.SessionService/GetSession` → what it needs. A method without a row stops the start. */
export function requirementsByMethod(): ReadonlyMap<string, Requirement> {
  const requirements = new Map<string, Requirement>();
  for (const [service, rows] of scopeTable) {
    for (const method of service.methods) {
      const row = rows[method.localName];
      if (row === undefined) throw new TypeError(`no scope is set for ${service.typeName}/${method.name}`);
      requirements.set(`${service.typeName}/${method.name}`, row);
    }
  }
  return requirements;
}
