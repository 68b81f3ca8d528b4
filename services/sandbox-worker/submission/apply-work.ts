import { type ArchivedContainer, openArchivedFiles } from '../docker/archived-files.ts';
import type { HostIds } from '../docker/host-ids.ts';
import { createArchiveWriter } from './archive-writer.ts';
import { type Baseline, type BaselineNode, loadBaseline, someBelow } from './baseline.ts';
import { type BytePath, join, printable } from './byte-path.ts';
import { createChangeCheck } from './change-check.ts';
import { createMountedGround } from './mounted-ground.ts';
import {
  type CompiledRules,
  compileRules,
  type InvalidFinding,
  InvalidSubmission,
  type SubmissionRules,
} from './rules.ts';
import { readSubmission } from './submission-reader.ts';
import { createTreeWriter, type TreeWriter } from './tree-writer.ts';
import { createUpperGround } from './upper-ground.ts';

/** What a thread needs to apply a submission. */
export interface ApplyOrder {
  readonly file: string;
  readonly digest: string;
  readonly place: ApplyPlace;
  readonly imageId: string;
  readonly manifest: string;
  readonly rules: SubmissionRules;
  readonly opened: boolean;
  readonly limited: boolean;
}

/** The files of a container in which nothing ran yet. */
export type ApplyPlace =
  /** Its overlay upper directory; it was never started. */
  | { readonly upper: string }
  /** Its root as it sees it; it runs, and its first process has started no other. */
  | { readonly merged: string; readonly ids?: HostIds | undefined }
  /** To be reached through its engine, in either state; `staged` is a file of this host that does not exist yet. */
  | { readonly archived: ArchivedContainer; readonly staged: string };

export type ApplyNews =
  | { readonly kind: 'applied'; readonly files: number; readonly bytes: number; readonly restored: readonly string[] }
  | { readonly kind: 'invalid'; readonly finding: InvalidFinding };

/** Of the paths that were left as the image has them, so many are named. */
const restoredShown = 100;

/** Reads a submission and writes it into a container. */
export async function applySubmission(order: ApplyOrder): Promise<ApplyNews> {
  const rules = compileRules(order.rules);
  const baseline = loadBaseline(order.manifest, order.imageId, rules.workingDirectory);
  const writer = writerOf(order.place, baseline);
  try {
    const applied = await applyWith(order, rules, baseline, writer);
    await writer.finish?.();
    return applied;
  } catch (error) {
    if (error instanceof InvalidSubmission) return { kind: 'invalid', finding: error.finding };
    if (order.limited && isFull(error)) return { kind: 'invalid', finding: tooLarge };
    throw error;
  } finally {
    writer.close();
  }
}

function writerOf(place: ApplyPlace, baseline: Baseline): TreeWriter {
  if ('archived' in place) return createArchiveWriter(place.staged, baseline, openArchivedFiles(place.archived));
  if ('merged' in place) return createTreeWriter(place.merged, baseline, createMountedGround(), place.ids);
  return createTreeWriter(place.upper, baseline, createUpperGround(place.upper));
}

/** Tools that replace a file often leave one that its owner alone may read. */
function openedMode(mode: number): number {
  return mode | ((mode & 0o500) >> 6);
}

const tooLarge: InvalidFinding = {
  reason: 'TOO_MANY_BYTES',
  path: '',
  message: 'it does not fit on the disk that the sample gives it',
};

/** Of a container's disk that is limited and was empty before: what fills it is the submission. */
export function isFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

async function applyWith(
  { file, digest, opened }: ApplyOrder,
  rules: CompiledRules,
  baseline: Baseline,
  writer: TreeWriter,
): Promise<ApplyNews> {
  const check = createChangeCheck(rules, baseline);
  const restored: string[] = [];
  const inRoot = (path: BytePath): BytePath => join(rules.workingDirectory, path);
  const leave = (path: BytePath): void => {
    if (restored.length < restoredShown) restored.push(printable(path));
  };
  /** What is above something restored stays as it is too: as a link it would lead elsewhere. */
  const isRestored = (path: BytePath): boolean => {
    if (rules.restored(path)) return true;
    const node = baseline.at(inRoot(path));
    return node !== undefined && someBelow(node, path, rules.restored);
  };
  const hide = (path: BytePath, node: BaselineNode): void => {
    if (rules.restored(path)) leave(path);
    else if (!someBelow(node, path, rules.restored)) writer.hide(inRoot(path));
    else for (const [name, child] of node.children) hide(join(path, name), child);
  };
  await readSubmission(file, digest, rules.limits.files * (rules.limits.pathBytes + 1), {
    entry(path, given, target) {
      check.entry(path, given);
      const entry = opened && rules.opened(path) ? { ...given, mode: openedMode(given.mode) } : given;
      if (isRestored(path)) leave(path);
      else if (entry.kind === 'directory') writer.directory(inRoot(path), entry);
      else if (entry.kind === 'symlink') writer.symlink(inRoot(path), entry, target);
      else return writer.file(inRoot(path), entry);
      return undefined;
    },
    deletion(path) {
      check.deletion(path);
      const node = baseline.at(inRoot(path));
      if (node === undefined) throw new InvalidSubmission('MALFORMED', path, 'deleted, and not in the image');
      hide(path, node);
    },
  });
  return { kind: 'applied', files: check.files, bytes: check.bytes, restored };
}
