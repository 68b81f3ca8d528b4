import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readSync, rmSync } from 'node:fs';
import { type ArchivedContainer, openArchivedFiles } from '../docker/archived-files.ts';
import type { ContainerLayer } from '../docker/container-layer.ts';
import { noDirectory, readArchivedTree } from './archived-tree.ts';
import { type Baseline, type BaselineNode, loadBaseline } from './baseline.ts';
import { createChangeCheck } from './change-check.ts';
import { findDifference, looksPerFile } from './difference.ts';
import { type HeldDirectory, holdDirectory } from './held-directory.ts';
import {
  type CompiledRules,
  compileRules,
  type InvalidFinding,
  InvalidSubmission,
  type SubmissionRules,
} from './rules.ts';
import { createSubmissionWriter } from './submission-format.ts';

/** What a thread needs to seal. */
export interface SealOrder {
  readonly layer: ContainerLayer | ArchivedLayer;
  readonly manifest: string;
  /** What is to be sealed, each by rules of its own. */
  readonly parts: readonly SealPart[];
  /** For all of them. */
  readonly timeoutMs: number;
}

/** A container whose files are to be had through its engine alone. */
export type ArchivedLayer = ArchivedContainer & Pick<ContainerLayer, 'imageId'>;

export interface SealPart {
  readonly rules: SubmissionRules;
  /** The file to write, which does not exist yet. */
  readonly staged: string;
}

export interface Copied {
  readonly bytes: number;
  readonly files: number;
  readonly deletions: number;
}

export interface Digested {
  readonly digest: string;
  readonly archiveBytes: number;
}

/** What it says, in this order. `copied` or `invalid` ends the need for the container to stand still. */
export type SealNews =
  | { readonly kind: 'ready' }
  | { readonly kind: 'copied'; readonly parts: readonly Copied[] }
  | { readonly kind: 'invalid'; readonly finding: InvalidFinding }
  | { readonly kind: 'sealed'; readonly parts: readonly Digested[] };

export interface PreparedSealing {
  readonly order: SealOrder;
  readonly parts: readonly PreparedPart[];
}

interface PreparedPart {
  readonly staged: string;
  readonly rules: CompiledRules;
  readonly baseline: Baseline;
}

/** All that can be done before the container stands still. */
export function prepareSealing(order: SealOrder): PreparedSealing {
  const parts = order.parts.map(({ rules: given, staged }) => {
    const rules = compileRules(given);
    return { staged, rules, baseline: loadBaseline(order.manifest, order.layer.imageId, rules.workingDirectory) };
  });
  return { order, parts };
}

/** Writes what differs to the staged files. */
export async function copyChanges({ order, parts }: PreparedSealing): Promise<SealNews> {
  const { layer } = order;
  const checkTime = createDeadline(order.timeoutMs);
  const copied: Copied[] = [];
  try {
    for (const part of parts) {
      if ('merged' in layer) copied.push(copyPart(layer, part, checkTime));
      else copied.push(await copyArchivedPart(layer, part, checkTime));
    }
    return { kind: 'copied', parts: copied };
  } catch (error) {
    if (error instanceof InvalidSubmission) return { kind: 'invalid', finding: error.finding };
    throw error;
  }
}

function copyPart(layer: ContainerLayer, part: PreparedPart, checkTime: () => void): Copied {
  return lookAtDirectory(layer, part.rules.workingDirectory, (places) => writeDifference(part, places, checkTime));
}

/** Where to look. */
interface Places {
  readonly merged: HeldDirectory;
  readonly upper: HeldDirectory | undefined;
  readonly ids?: ContainerLayer['ids'];
}

/** Holds a directory of a container open meanwhile. Without places nothing in it was touched. */
export function lookAtDirectory<T>(
  layer: ContainerLayer,
  workingDirectory: string,
  look: (places: Places | undefined) => T,
): T {
  const held: HeldDirectory[] = [];
  try {
    const merged = descend(holdDirectory(layer.merged), workingDirectory, held);
    if (merged === undefined) throw noDirectory(workingDirectory);
    const upper = descend(holdDirectory(layer.upper), workingDirectory, held);
    const untouched = upper === undefined && layer.upperIsComplete;
    const known = layer.upperIsComplete ? upper : undefined;
    return look(untouched ? undefined : { merged, upper: known, ids: layer.ids });
  } finally {
    for (const directory of held) directory.close();
  }
}

/** Without the overlay's directories the whole working directory is read, and compared. */
async function copyArchivedPart(layer: ArchivedLayer, part: PreparedPart, checkTime: () => void): Promise<Copied> {
  const { rules, baseline } = part;
  const { workingDirectory, limits } = rules;
  if (workingDirectory === '') throw new Error('a whole file system can be sealed only with root on the host');
  const files = openArchivedFiles(layer);
  const segments = workingDirectory.split('/');
  for (const depth of segments.keys()) {
    const above = segments.slice(0, depth + 1).join('/');
    if ((await files.kind(above)) !== 'directory') throw noDirectory(workingDirectory);
  }
  const known = sizeBelow(baseline.at(workingDirectory));
  const contents = contentsOf(part.staged);
  mkdirSync(contents, { mode: 0o700 });
  try {
    const merged = await files.read(workingDirectory, (tar) =>
      readArchivedTree(tar, {
        contents,
        leaves: rules.excluded,
        keeps: rules.included,
        bytes: limits.bytes + known.bytes,
        entries: limits.files * looksPerFile + 2 * known.entries,
        checkTime,
      }),
    );
    if (merged === undefined) throw noDirectory(workingDirectory);
    return writeDifference(part, { merged, upper: undefined }, checkTime);
  } finally {
    rmSync(contents, { recursive: true, force: true });
  }
}

/** Where the files of a container without an overlay directory are meanwhile. */
export function contentsOf(staged: string): string {
  return `${staged}.contents`;
}

function sizeBelow(node: BaselineNode | undefined): { readonly bytes: number; readonly entries: number } {
  const below = [...(node?.children.values() ?? [])].map(sizeBelow);
  return {
    bytes: below.reduce((sum, { bytes }) => sum + bytes, node?.entry.size ?? 0),
    entries: below.reduce((sum, { entries }) => sum + entries, 1),
  };
}

function writeDifference(
  { staged, rules, baseline }: PreparedPart,
  places: Places | undefined,
  checkTime: () => void,
): Copied {
  const check = createChangeCheck(rules, baseline);
  const file = openSync(staged, 'wx', 0o600);
  try {
    const sink = createSubmissionWriter(file, checkTime);
    const deletions =
      places === undefined ? [] : findDifference({ rules, baseline, ...places, check, sink, checkTime });
    sink.end(deletions);
    return { bytes: check.bytes, files: check.files, deletions: deletions.length };
  } finally {
    closeSync(file);
  }
}

/** Goes down step by step, through directories alone. */
function descend(root: HeldDirectory, path: string, held: HeldDirectory[]): HeldDirectory | undefined {
  held.push(root);
  let at = root;
  for (const part of path.split('/').filter((name) => name !== '')) {
    const next = at.directory(part);
    if (next === undefined) return undefined;
    held.push(next);
    at = next;
  }
  return at;
}

export function createDeadline(timeoutMs: number): () => void {
  const until = performance.now() + timeoutMs;
  return () => {
    if (performance.now() > until) throw new Error(`it took more than ${timeoutMs} ms`);
  };
}

export function digestsOf({ parts }: SealOrder): SealNews {
  return { kind: 'sealed', parts: parts.map(({ staged }) => digestOf(staged)) };
}

function digestOf(path: string): Digested {
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafeSlow(1024 * 1024);
  const file = openSync(path, 'r');
  let archiveBytes = 0;
  try {
    for (let read = -1; read !== 0; archiveBytes += read) {
      read = readSync(file, buffer, 0, buffer.length, null);
      hash.update(buffer.subarray(0, read));
    }
  } finally {
    closeSync(file);
  }
  return { digest: `sha256:${hash.digest('hex')}`, archiveBytes };
}
