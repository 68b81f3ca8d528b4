import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { needsWhole } from '../../shared/sample/run-plan.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import { runToEnd } from '../grading/command-outcome.ts';
import type { StoredSubmission } from '../grading/grader.ts';
import { createGradingCommands } from '../grading/grading-commands.ts';
import type { GradingContainer, GradingContainers } from '../grading/grading-container.ts';
import { rulesOf } from '../submission/rules.ts';
import type { SealedSubmission, Sealer } from '../submission/seal.ts';
import type { SubmissionStore } from '../submission/submission-store.ts';
import type { Candidate, CandidateName } from './candidate.ts';

export interface CandidateSubmissionDeps {
  readonly engine: Pick<Engine, 'image' | 'pause' | 'resume'>;
  readonly containers: Pick<GradingContainers, 'create'>;
  readonly sealer: Sealer;
  /** Where what was sealed is put. */
  readonly store: SubmissionStore;
  readonly limits: ContainerLimits;
  /** Who waits for it: projects take turns. */
  readonly project: string;
}

const commandSeconds = 300;
const outputBytes = 16_384;

/** Makes a candidate's submission as an agent's is made: in a container of the sample's image, sealed from outside. */
export async function makeSubmission(
  deps: CandidateSubmissionDeps,
  folder: SampleFolder,
  imageId: string,
  candidate: Candidate,
  signal: AbortSignal,
): Promise<StoredSubmission> {
  const { engine, containers, store, project } = deps;
  const image = await engine.image(imageId);
  const order = { imageId: image.id, limits: deps.limits, verificationId: labelOf(candidate.name), project };
  const container = await containers.create({ ...order, background: false });
  try {
    signal.throwIfAborted();
    await candidate.place(container.upper);
    await container.start();
    await container.connect(signal);
    const { prepare } = createGradingCommands(folder.sample, image, outputBytes);
    const { end, stderr } = await runToEnd(container, prepare(candidate.command), commandSeconds, signal);
    if (end.kind !== 'exited' || end.code !== 0) throw unmade(candidate, end, stderr.bytes);
    const { digest, whole } = await sealContainer(deps, container, folder);
    const submission = await storedIn(store, digest);
    return whole === undefined ? submission : { ...submission, whole: await storedIn(store, whole) };
  } finally {
    await container.remove();
  }
}

async function storedIn(store: SubmissionStore, digest: string): Promise<StoredSubmission> {
  const stored = await store.fetch(digest);
  if (stored === undefined) throw new DomainError('INTERNAL', `the submission ${digest} was not stored`);
  return { digest, path: stored.file };
}

async function sealContainer(
  { engine, sealer, store, project }: CandidateSubmissionDeps,
  container: GradingContainer,
  { sample }: SampleFolder,
): Promise<SealedSubmission> {
  const whileStill = async <T>(work: () => Promise<T>): Promise<T> => {
    await engine.pause(container.id);
    try {
      return await work();
    } finally {
      await engine.resume(container.id);
    }
  };
  const rules = rulesOf(sample.environment.workdir, sample.verification);
  const source = { containerId: container.id, project, whileStill };
  const sealed = await sealer.seal(source, rules, store, { whole: needsWhole(sample.verification) });
  if (sealed.kind === 'sealed') return sealed;
  throw new UnsubmittableCandidate(`cannot be submitted: ${sealed.finding.message}`);
}

/** What its containers are labelled with, where others have the id of a verification. */
export function labelOf(candidate: CandidateName): string {
  return `validation-${candidate.replaceAll(/[^a-z]+/g, '-')}`;
}

/** A candidate that is no submission: the sample's fault. */
export class CandidateError extends Error {
  override readonly name: string = 'CandidateError';
}

/** It was made as it should be, and the sample does not take it. */
export class UnsubmittableCandidate extends CandidateError {
  override readonly name = 'UnsubmittableCandidate';
}

function unmade({ name }: Candidate, end: { kind: string; code?: number }, stderr: Uint8Array): CandidateError {
  const how = end.kind === 'exited' ? `exit code ${end.code}` : end.kind;
  const said = Buffer.from(stderr).toString().trim().slice(-1_000);
  return new CandidateError(`${name} cannot be applied (${how}): ${said}`);
}
