import { type Baseline, someBelow } from './baseline.ts';
import { type BytePath, join } from './byte-path.ts';
import { type CompiledRules, InvalidSubmission } from './rules.ts';
import { largestOwner } from './tar-header.ts';
import { setIdBits, type TreeEntry } from './tree-entry.ts';

/** Refuses what no submission may hold. The same when it is made and when it is applied. */
export interface ChangeCheck {
  /** The path must be one that may occur; cheap, and asked first. */
  path(path: BytePath): void;
  entry(path: BytePath, entry: Omit<TreeEntry, 'content'>): void;
  deletion(path: BytePath): void;
  readonly bytes: number;
  readonly files: number;
}

export function createChangeCheck(rules: CompiledRules, baseline: Baseline): ChangeCheck {
  const { limits } = rules;
  let [bytes, files] = [0, 0];

  const count = (path: BytePath): void => {
    files += 1;
    if (files <= limits.files) return;
    throw new InvalidSubmission('TOO_MANY_FILES', path, `more than ${limits.files} files were changed`);
  };
  const allowed = (path: BytePath, replacesWhatIsBelow: boolean): void => {
    const node = replacesWhatIsBelow ? baseline.at(join(rules.workingDirectory, path)) : undefined;
    // A directory that becomes a link takes away all that was in it.
    if (!rules.forbidden(path) && (node === undefined || !someBelow(node, path, rules.forbidden))) return;
    throw new InvalidSubmission('FORBIDDEN_PATH', path, 'the sample forbids to change this');
  };
  const plainPath = (path: BytePath): void => {
    if (path.length > limits.pathBytes) {
      throw new InvalidSubmission('PATH_TOO_LONG', path, `a path of more than ${limits.pathBytes} bytes`);
    }
    if (path.split('/').length > limits.depth) {
      throw new InvalidSubmission('TOO_DEEP', path, `more than ${limits.depth} directories deep`);
    }
  };
  return {
    path: plainPath,
    entry(path, entry) {
      plainPath(path);
      count(path);
      allowed(path, entry.kind !== 'directory');
      refuseKind(path, entry);
      bytes += entry.size;
      if (bytes <= limits.bytes) return;
      throw new InvalidSubmission('TOO_MANY_BYTES', path, `what was changed has more than ${limits.bytes} bytes`);
    },
    deletion(path) {
      plainPath(path);
      count(path);
      allowed(path, true);
    },
    get bytes() {
      return bytes;
    },
    get files() {
      return files;
    },
  };
}

function refuseKind(path: BytePath, { kind, mode, uid, gid }: Omit<TreeEntry, 'content'>): void {
  if (kind === 'other') {
    throw new InvalidSubmission(
      'SPECIAL_FILE',
      path,
      'a FIFO, socket or device; expected files, directories and links',
    );
  }
  if (kind === 'file' && (mode & setIdBits) !== 0) {
    throw new InvalidSubmission('SET_ID', path, 'a setuid or setgid file; type: chmod ug-s on it');
  }
  if (uid > largestOwner || gid > largestOwner) {
    throw new InvalidSubmission('OWNER', path, `owned by ${uid}:${gid}; expected at most ${largestOwner}`);
  }
}
