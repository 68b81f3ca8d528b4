import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import type { ContainerLayer } from '../docker/container-layer.ts';
import { type Baseline, loadBaseline } from './baseline.ts';
import { createChangeCheck } from './change-check.ts';
import { findDifference } from './difference.ts';
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
  readonly layer: ContainerLayer;
  readonly manifest: string;
  /** What is to be sealed, each by rules of its own. */
  readonly parts: readonly SealPart[];
  /** For all of them. */
  readonly timeoutMs: number;
}

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
export function copyChanges({ order, parts }: PreparedSealing): SealNews {
  const checkTime = createDeadline(order.timeoutMs);
  try {
    return { kind: 'copied', parts: parts.map((part) => copyPart(order.layer, part, checkTime)) };
  } catch (error) {
    if (error instanceof InvalidSubmission) return { kind: 'invalid', finding: error.finding };
    throw error;
  }
}

function copyPart(layer: ContainerLayer, { staged, rules, baseline }: PreparedPart, checkTime: () => void): Copied {
  const check = createChangeCheck(rules, baseline);
  const file = openSync(staged, 'wx', 0o600);
  const held: HeldDirectory[] = [];
  try {
    const sink = createSubmissionWriter(file, checkTime);
    const merged = descend(holdDirectory(layer.merged), rules.workingDirectory, held);
    if (merged === undefined) {
      const message = 'the working directory is no directory any more; expected it, without links on the way to it';
      throw new InvalidSubmission('WORKING_DIRECTORY', rules.workingDirectory, message);
    }
    const upper = descend(holdDirectory(layer.upper), rules.workingDirectory, held);
    const untouched = upper === undefined && layer.upperIsComplete;
    const known = layer.upperIsComplete ? upper : undefined;
    const input = { rules, baseline, merged, upper: known, check, sink, checkTime };
    const deletions = untouched ? [] : findDifference(input);
    sink.end(deletions);
    return { bytes: check.bytes, files: check.files, deletions: deletions.length };
  } finally {
    closeSync(file);
    for (const directory of held) directory.close();
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

function createDeadline(timeoutMs: number): () => void {
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
