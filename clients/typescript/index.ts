export { AssayError, type FieldViolation, type LocalReason } from './assay-error.ts';
export { type Client, type ClientOptions, createClient } from './client.ts';
export type { Execution, TerminalSize } from './execution.ts';
export type { AwaitingKind, EndReasonName, ExecutionEvent, ExecutionResult, StreamName } from './execution-event.ts';
export type { AttachOptions, ExecuteOptions, ExecutionInfo } from './executions.ts';
export { type InputWriter, isEndOfProgram } from './input-writer.ts';
export type { CreateKeyOptions, KeyInfo, Keys, ScopeName } from './keys.ts';
export type { Program } from './program.ts';
export type { OutputGap, RunOptions, RunResult } from './run.ts';
export type {
  AssuranceName,
  BuildEvent,
  BuildStepName,
  CandidateGradingInfo,
  CandidateKindName,
  DatasetInfo,
  ListSamplesOptions,
  SampleArchive,
  SampleInfo,
  SampleName,
  Samples,
  TestGroupInfo,
  ValidationEvent,
  ValidationInfo,
} from './samples.ts';
export type { Server, ServerInfo, ServerLimits } from './server.ts';
export type { ForkOptions, Session, UpdateOptions } from './session.ts';
export type { LoggedEvent, SessionEvent, ShellChangeName, TranscriptEvent } from './session-event.ts';
export type {
  Network,
  NetworkModeName,
  PauseReasonName,
  ResourceLimits,
  SessionEndReasonName,
  SessionInfo,
  SessionSampleInfo,
  SessionStateName,
  TranscriptStateName,
} from './session-info.ts';
export type { FollowOptions, TranscriptOptions } from './session-log.ts';
export type { CreateSessionOptions, ListSessionsOptions, Sessions } from './sessions.ts';
export type { Shell, ShellExecuteOptions, ShellRunOptions, ShellText } from './shell.ts';
export type { ShellInfo, ShellStateName } from './shell-info.ts';
export type { OpenShellOptions } from './shells.ts';
export type { Turn } from './turn.ts';
export {
  type GradingPhaseName,
  type GradingStepName,
  hasEnded,
  type ReportFormatName,
  type TestOutcomeName,
  type TestResultInfo,
  type TestRoleName,
  type VerdictName,
  type VerificationInfo,
  type VerificationResult,
  type VerificationStateName,
} from './verification-info.ts';
export type { ListVerificationsOptions, StartVerificationOptions, Verifications } from './verifications.ts';
export type { WorkerInfo, WorkerStateName, Workers } from './workers.ts';
