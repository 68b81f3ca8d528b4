import type { ContainerLayer } from '../docker/container-layer.ts';
import { loadBaseline, someBelow } from './baseline.ts';
import { type BytePath, join, printable } from './byte-path.ts';
import { createChangeCheck } from './change-check.ts';
import { findDifference } from './difference.ts';
import { compileRules, type InvalidFinding, InvalidSubmission, type SubmissionRules } from './rules.ts';
import { createDeadline, lookAtDirectory } from './seal-work.ts';

/** What a thread needs to see whether protected paths are as the image has them. */
export interface ProtectionOrder {
  /** Of a container that stands still. */
  readonly layer: ContainerLayer;
  readonly manifest: string;
  readonly rules: SubmissionRules;
  readonly timeoutMs: number;
}

export type ProtectionNews =
  | { readonly kind: 'untouched' }
  /** A restored or forbidden path that is not as the image has it, or a directory above one that is none any more. */
  | { readonly kind: 'touched'; readonly path: string }
  | { readonly kind: 'invalid'; readonly finding: InvalidFinding };

class Touched extends Error {
  readonly path: BytePath;

  constructor(path: BytePath) {
    super('a protected path was changed');
    this.path = path;
  }
}

export function lookAtProtected({ layer, manifest, rules: given, timeoutMs }: ProtectionOrder): ProtectionNews {
  const rules = compileRules(given);
  const { workingDirectory } = rules;
  const baseline = loadBaseline(manifest, layer.imageId, workingDirectory);
  const isProtected = (path: BytePath): boolean => rules.restored(path) || rules.forbidden(path);
  const isAbove = (path: BytePath): boolean => {
    const node = baseline.at(join(workingDirectory, path));
    return node !== undefined && someBelow(node, path, isProtected);
  };
  const included = (path: BytePath): boolean => isProtected(path) || isAbove(path);
  const { path } = createChangeCheck(rules, baseline);
  const check = {
    ...{ path, bytes: 0, files: 0 },
    entry(at: BytePath, { kind }: { readonly kind: string }) {
      if (isProtected(at) || (kind !== 'directory' && isAbove(at))) throw new Touched(at);
    },
    deletion(at: BytePath) {
      throw new Touched(at);
    },
  };
  // However many files there are besides: a build may make any number.
  const all = { ...rules, included, leavesSpecial: false, limits: { ...rules.limits, files: Number.MAX_SAFE_INTEGER } };
  const checkTime = createDeadline(timeoutMs);
  const sink = { entry() {}, content() {} };
  try {
    lookAtDirectory(layer, workingDirectory, (places) => {
      if (places !== undefined) findDifference({ rules: all, baseline, ...places, check, sink, checkTime });
    });
    return { kind: 'untouched' };
  } catch (error) {
    if (error instanceof Touched) return { kind: 'touched', path: printable(error.path) };
    if (error instanceof InvalidSubmission) return { kind: 'invalid', finding: error.finding };
    throw error;
  }
}
