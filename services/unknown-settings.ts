import { fileURLToPath } from 'node:url';
import { workerConfig } from './sandbox-worker/config.ts';
import { sessionsSettings } from './sessions/config.ts';

/** Variables that clients, the command `assay` and tests read. They have no schema, and may stand in the same shell. */
const readElsewhere = ['ASSAY_API_KEY', 'ASSAY_ENDPOINT'];
const readByTests = /^ASSAY_(TEST|STORM|CHAOS)_|^ASSAY_(ATTACKS|WRITE_TABLE)$/;

const prefix = 'ASSAY_';
const known = new Set([...Object.keys(sessionsSettings.shape), ...Object.keys(workerConfig.shape), ...readElsewhere]);

/**
 * A sentence for each variable of Assay's that nothing reads, with the name that was probably meant. A setting of either
 * service counts as known to both: `npm start` gives both the same environment.
 */
export function unknownSettings(env: Readonly<Record<string, string | undefined>>): string[] {
  const unknown = Object.keys(env).filter(
    (name) => name.startsWith(prefix) && !known.has(name) && !readByTests.test(name),
  );
  return unknown.sort().map((name) => {
    const nearest = nearestTo(name);
    return `${name} is not a setting; ${nearest === undefined ? 'see docs/settings.md' : `did you mean ${nearest}?`}`;
  });
}

function nearestTo(name: string): string | undefined {
  // More edits than this make another name, not a misspelt one.
  let fewest = Math.max(2, Math.floor((name.length - prefix.length) / 3)) + 1;
  let nearest: string | undefined;
  for (const candidate of known) {
    const edits = editsBetween(name, candidate);
    if (edits < fewest) [fewest, nearest] = [edits, candidate];
  }
  return nearest;
}

/** Levenshtein's distance: letters to add, remove or replace. */
function editsBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [line, letter] of [...from].entries()) {
    const next = [line + 1];
    for (const [column, other] of [...to].entries()) {
      const replaced = (row[column] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(replaced, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}

// For `npm start`, whose own Node.js may be too old to read the schemas.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const sentence of unknownSettings(process.env)) process.stdout.write(`${sentence}\n`);
}
