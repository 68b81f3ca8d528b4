import { createClient, type Transport } from '@connectrpc/connect';
import {
  type BuildSampleResponse,
  BuildStep,
  CandidateKind,
  SampleService,
  type ValidateSampleResponse,
  type Dataset as WireDataset,
  type Sample as WireSample,
  type SampleValidation as WireValidation,
} from '../../gen/assay/v1/sample_pb.js';
import { Assurance, type SampleName as WireName } from '../../gen/assay/v1/types_pb.js';
import { toAssayError } from './assay-error.ts';
import { type Caller, present } from './caller.ts';
import { fromWireLimits, fromWireNetwork, type Network, type ResourceLimits } from './session-info.ts';
import { toDate, toMilliseconds } from './time.ts';
import { type TestRoleName, toRole, toVerdict, type VerdictName } from './verification-info.ts';

/** How far a verdict can be trusted, as the server names it. */
export type AssuranceName = Exclude<keyof typeof Assurance, 'UNSPECIFIED'>;

export interface DatasetInfo {
  readonly dataset: string;
  readonly sampleCount: number;
  /** Folders that are not samples, and why. Empty without the grader scope. */
  readonly problems: readonly string[];
}

export interface TestGroupInfo {
  readonly role: TestRoleName | undefined;
  readonly assurance: AssuranceName | undefined;
  readonly testCount: number;
  /** Empty without the grader scope, and in lists. */
  readonly tests: readonly string[];
}

export interface SampleInfo {
  readonly dataset: string;
  readonly id: string;
  readonly version: string;
  readonly language: string;
  readonly tags: readonly string[];
  readonly title: string;
  /** Empty in lists. */
  readonly instruction: string;
  readonly hints: readonly string[];
  readonly hintCount: number;
  readonly contentDigest: string;
  readonly imageDigest: string;
  readonly verificationDigest: string;
  readonly workingDirectory: string;
  readonly limits: ResourceLimits;
  readonly network: Network;
  readonly assurance: AssuranceName | undefined;
  readonly testGroups: readonly TestGroupInfo[];
  readonly timeoutMs: number;
  /** Whether the sessions of the project stand still while a submission is graded. */
  readonly pauseSessions: boolean;
  /** The newest first. Empty in lists. */
  readonly versions: readonly string[];
  /** Undefined without the grader scope. */
  readonly origin: string | undefined;
  /** What became of it when it was last put to the test as it is now. Undefined: it never was, or the key may not know. */
  readonly validation: ValidationInfo | undefined;
}

export interface ListSamplesOptions {
  readonly dataset?: string;
  /** Words that all must occur. */
  readonly query?: string;
  readonly language?: string;
  readonly tags?: readonly string[];
}

export interface SampleName {
  readonly dataset: string;
  readonly id: string;
  /** Absent: the newest. */
  readonly version?: string;
}

/** A sample on its way as a tar archive. */
export interface SampleArchive {
  readonly version: string;
  readonly contentDigest: string;
  /** Whether it is the whole folder, which needs the grader scope. */
  readonly complete: boolean;
  readonly data: AsyncIterable<Uint8Array>;
}

/** What a build is at, as the server names it. */
export type BuildStepName = Exclude<keyof typeof BuildStep, 'UNSPECIFIED'>;

/** News of a build. A line is empty without the grader scope: then each step is told once. */
export type BuildEvent =
  | {
      readonly type: 'progress';
      readonly workerId: string;
      readonly step: BuildStepName;
      readonly line: string;
      /** Of this step, before this one, because this reader was too slow for them. */
      readonly omittedLineCount: number;
    }
  | { readonly type: 'built'; readonly workerId: string; readonly image: string; readonly imageId: string };

/** A submission of which is known how it must be graded, as the server names it. */
export type CandidateKindName = Exclude<keyof typeof CandidateKind, 'UNSPECIFIED'>;

/** One grading of a submission of which is known how it must be graded. */
export interface CandidateGradingInfo {
  /** HONEST: the oracle with tests of its own beside it. */
  readonly kind: CandidateKindName;
  /** What the adversary does, in a few words. Empty unless the kind is ADVERSARY. */
  readonly adversary: string;
  /** From 1. */
  readonly attempt: number;
  readonly verdict: VerdictName | undefined;
  readonly reason: string;
  /** What is not as it must be. */
  readonly deviations: readonly string[];
  readonly failedTests: readonly string[];
  readonly durationMs: number;
}

/** What became of a sample that was put to the test. */
export interface ValidationInfo {
  readonly valid: boolean;
  readonly flakeRate: number;
  readonly gradingCount: number;
  readonly problems: readonly string[];
  readonly time: Date | undefined;
}

export type ValidationEvent =
  | Extract<BuildEvent, { type: 'progress' }>
  | ({ readonly type: 'grading' } & CandidateGradingInfo)
  | ({ readonly type: 'outcome' } & ValidationInfo);

/** Datasets and their samples. */
export interface Samples {
  datasets(): Promise<readonly DatasetInfo[]>;
  list(options?: ListSamplesOptions): AsyncIterable<SampleInfo>;
  get(name: SampleName, options?: { hints?: boolean }): Promise<SampleInfo>;
  download(name: SampleName): Promise<SampleArchive>;
  /**
   * Makes the sample's image on every worker that has none, and tells what happens. Whoever asks while it is being built
   * joins; who leaves last stops it.
   */
  build(name: SampleName): AsyncGenerator<BuildEvent, void, undefined>;
  /** Puts a sample to the test, which needs the grader scope; the outcome is kept. Leaving the loop stops it. */
  validate(name: SampleName, options?: { repetitions?: number }): AsyncGenerator<ValidationEvent, void, undefined>;
}

export function createSamples(transport: Transport, caller: Caller): Samples {
  const rpc = createClient(SampleService, transport);
  return {
    async datasets() {
      const answer = await caller.repeatable(() => rpc.listDatasets({}));
      return answer.datasets.map(({ datasetId, sampleCount, problems }: WireDataset) => ({
        dataset: datasetId,
        sampleCount,
        problems,
      }));
    },
    async *list({ dataset = '', query = '', language = '', tags = [] } = {}) {
      let pageToken = '';
      do {
        const request = { datasetId: dataset, query, language, tags: [...tags], pageToken };
        const page = await caller.repeatable(() => rpc.listSamples(request));
        yield* page.samples.map(toSampleInfo);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
    },
    async get(name, { hints = false } = {}) {
      const answer = await caller.repeatable(() => rpc.getSample({ sample: toWireName(name), hints }));
      return toSampleInfo(present(answer.sample, 'the sample'));
    },
    async download(name) {
      const open = async () => {
        const parts = rpc.downloadSample({ sample: toWireName(name) })[Symbol.asyncIterator]();
        const first = await parts.next();
        const head = first.done ? undefined : first.value.part;
        return { parts, head: present(head?.case === 'head' ? head.value : undefined, 'the head of the archive') };
      };
      const { parts, head } = await caller.repeatable(open);
      const { sample, contentDigest, complete } = head;
      return { version: sample?.version ?? '', contentDigest, complete, data: dataOf(parts, caller.endpoint) };
    },
    async *build(name) {
      const patience = caller.patience();
      for (;;) {
        const leaving = new AbortController();
        try {
          const request = { sample: toWireName(name) };
          for await (const { news } of rpc.buildSample(request, { signal: leaving.signal })) {
            patience.answered();
            patience.progressed();
            const event = toBuildEvent(news);
            if (event !== undefined) yield event;
          }
          return;
        } catch (error) {
          // A build that was begun is joined again.
          await patience.wait(toAssayError(error, caller.endpoint));
        } finally {
          // Whoever leaves the loop leaves the call open otherwise.
          leaving.abort();
        }
      }
    },
    async *validate(name, { repetitions = 0 } = {}) {
      const leaving = new AbortController();
      try {
        const request = { sample: toWireName(name), repetitionCount: repetitions };
        for await (const { news } of rpc.validateSample(request, { signal: leaving.signal })) {
          const event = toValidationEvent(news);
          if (event !== undefined) yield event;
        }
      } catch (error) {
        throw toAssayError(error, caller.endpoint);
      } finally {
        leaving.abort();
      }
    },
  };
}

export function toWireName({ dataset, id, version = '' }: SampleName) {
  return { datasetId: dataset, sampleId: id, version };
}

export function fromWireName(wire: WireName | undefined): Required<SampleName> {
  return { dataset: wire?.datasetId ?? '', id: wire?.sampleId ?? '', version: wire?.version ?? '' };
}

function toValidationEvent(news: ValidateSampleResponse['news']): ValidationEvent | undefined {
  if (news.case === 'outcome') return { type: 'outcome', ...toValidation(news.value) };
  if (news.case === 'progress') {
    const event = toBuildEvent(news);
    return event?.type === 'progress' ? event : undefined;
  }
  if (news.case !== 'grading') return undefined;
  const { adversary, attempt, reason, deviations, failedTests, duration } = news.value;
  const kind = CandidateKind[news.value.kind] as CandidateKindName;
  const verdict = toVerdict(news.value.verdict);
  const durationMs = toMilliseconds(duration);
  return { type: 'grading', kind, adversary, attempt, verdict, reason, deviations, failedTests, durationMs };
}

function toValidation({ valid, flakeRate, gradingCount, problems, time }: WireValidation): ValidationInfo {
  return { valid, flakeRate, gradingCount, problems, time: toDate(time) };
}

type BuildNews = BuildSampleResponse['news'];

function toBuildEvent(news: BuildNews): BuildEvent | undefined {
  if (news.case === 'built') {
    const { workerId, image, imageId } = news.value;
    return { type: 'built', workerId, image, imageId };
  }
  if (news.case !== 'progress' || BuildStep[news.value.step] === undefined) return undefined;
  const { workerId, step, line, omittedLineCount } = news.value;
  return { type: 'progress', workerId, step: BuildStep[step] as BuildStepName, line, omittedLineCount };
}

type Parts = AsyncIterator<{ part: { case: string | undefined; value?: unknown } }>;

async function* dataOf(parts: Parts, endpoint: string): AsyncGenerator<Uint8Array> {
  try {
    for (let next = await parts.next(); !next.done; next = await parts.next()) {
      if (next.value.part.case === 'data') yield next.value.part.value as Uint8Array;
    }
  } catch (error) {
    throw toAssayError(error, endpoint);
  } finally {
    await parts.return?.();
  }
}

function toSampleInfo(wire: WireSample): SampleInfo {
  const { environment, verification } = wire;
  return {
    ...fromWireName(wire.name),
    language: wire.language,
    tags: wire.tags,
    title: wire.title,
    instruction: wire.instruction,
    hints: wire.hints,
    hintCount: wire.hintCount,
    contentDigest: wire.contentDigest,
    imageDigest: wire.imageDigest,
    verificationDigest: wire.verificationDigest,
    workingDirectory: environment?.workingDirectory ?? '',
    limits: environment?.limits === undefined ? {} : fromWireLimits(environment.limits),
    network: fromWireNetwork(environment?.network),
    assurance: toAssurance(verification?.assurance),
    testGroups: (verification?.testGroups ?? []).map(({ role, assurance, testCount, tests }) => {
      return { role: toRole(role), assurance: toAssurance(assurance), testCount, tests };
    }),
    timeoutMs: toMilliseconds(verification?.timeout),
    pauseSessions: verification?.pauseSessions === true,
    versions: wire.versions,
    origin: wire.provenance?.origin,
    validation: wire.validation && toValidation(wire.validation),
  };
}

function toAssurance(value: Assurance | undefined): AssuranceName | undefined {
  return value === undefined || value === Assurance.UNSPECIFIED ? undefined : (Assurance[value] as AssuranceName);
}
