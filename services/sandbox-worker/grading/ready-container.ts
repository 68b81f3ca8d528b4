import { DomainError } from '../../shared/domain-error.ts';
import type { Assurance } from '../../shared/sample/verification-schema.ts';
import type { ContainerLimits } from '../docker/engine.ts';
import type { ReportReader } from '../report/report-reader.ts';
import type { Applied } from '../submission/apply.ts';
import type { ApplyPlace } from '../submission/apply-work.ts';
import type { ProtectionNews } from '../submission/protection-work.ts';
import type { InvalidFinding } from '../submission/rules.ts';
import type { GradingOrder } from './grader.ts';
import type { GradingCommands } from './grading-commands.ts';
import type { GradingContainer, GradingContainers } from './grading-container.ts';
import { placeGraderFiles } from './grading-files.ts';
import type { StepClock } from './step-clock.ts';

/** What all runs of one verification share. */
export interface RunContext {
  readonly order: GradingOrder;
  readonly imageId: string;
  readonly limits: ContainerLimits;
  readonly commands: GradingCommands;
  readonly containers: GradingContainers;
  readonly reader: ReportReader;
  readonly clock: StepClock;
  /** Whether the disks of containers have limits: one that is full is then the agent's doing. */
  readonly limitedDisk: boolean;
  /** Writes the submission into a container in which nothing ran yet. */
  apply(place: ApplyPlace, assurance: Assurance): Promise<Applied>;
  /** Whether `prepare` left restored and forbidden paths alone; nothing where it cannot be seen. */
  lookAtProtected(container: GradingContainer, assurance: Assurance): Promise<ProtectionNews | undefined>;
  /** Has a container removed, while the grading goes on. */
  discard(container: GradingContainer): void;
}

/** A container with the tests and the submission in it, in which nothing ran yet. */
export type ReadyContainer =
  | { readonly kind: 'ready'; readonly container: GradingContainer; readonly notes: readonly string[] }
  | { readonly kind: 'invalid'; readonly finding: InvalidFinding };

/** `empty` leaves the submission out. Whatever goes wrong, the container goes. */
export async function readyContainer(
  context: RunContext,
  assurance: Assurance,
  empty = false,
): Promise<ReadyContainer> {
  const { order, clock, containers, imageId, limits } = context;
  const { signal, verificationId, project } = order;
  signal.throwIfAborted();
  const wanted = { imageId, limits, verificationId, project, background: false };
  const container = await clock.time('create', () => containers.create(wanted));
  try {
    signal.throwIfAborted();
    // The tests come first: what does not fit on the disk then is the submission's.
    await clock.time('apply', () => placeGraderFiles(container.place, order.sample));
    const applied = empty ? undefined : await clock.time('apply', () => context.apply(container.place, assurance));
    signal.throwIfAborted();
    if (applied?.kind === 'invalid') {
      if (applied.finding.reason === 'MALFORMED') throw unfitting(imageId, applied.finding);
      context.discard(container);
      return applied;
    }
    if (!container.started) await clock.time('start', () => container.start());
    await clock.time('connect', () => container.connect(signal));
    return { kind: 'ready', container, notes: applied === undefined ? [] : notesOf(applied) };
  } catch (error) {
    context.discard(container);
    throw error;
  }
}

/** What a session sealed is in good order and fits the image that it was sealed in: the agent has no hand in this. */
function unfitting(imageId: string, { message }: InvalidFinding): DomainError {
  const hint = 'was the image built anew since it was sealed, with other files?';
  return new DomainError('INTERNAL', `the submission does not fit the image ${imageId}: ${message}; ${hint}`);
}

function notesOf(applied: Extract<Applied, { kind: 'applied' }>): string[] {
  const { files, bytes, restored } = applied;
  const notes = [`the submission changes ${files} paths, with ${bytes} bytes in files`];
  if (restored.length > 0) notes.push(`protected and left as the image has them: ${restored.join(', ')}`);
  return notes;
}
