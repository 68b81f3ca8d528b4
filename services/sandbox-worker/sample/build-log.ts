import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const keptLines = 5_000;
const keptCharacters = 1024 * 1024;
const keptFiles = 100;

/** What a build said: the end of it, as much as is worth keeping. */
export interface BuildLog {
  add(line: string): void;
  /** The last lines, oldest first. */
  last(count: number): string[];
}

export function createBuildLog(): BuildLog {
  const lines: string[] = [];
  let characters = 0;
  return {
    add(line) {
      lines.push(line);
      characters += line.length + 1;
      while (lines.length > keptLines || characters > keptCharacters) characters -= (lines.shift() ?? '').length + 1;
    },
    last: (count) => lines.slice(-count),
  };
}

/** Keeps the log of a failed build for whoever mends the sample; the latest of each image, and of the latest images. */
export function keepBuildLog(directory: string, imageDigest: string, log: BuildLog): string {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const file = join(directory, `${imageDigest.replace(/^sha256:/, '').slice(0, 32)}.log`);
  writeFileSync(
    file,
    log
      .last(keptLines)
      .map((line) => `${line}\n`)
      .join(''),
    { mode: 0o600 },
  );
  const files = readdirSync(directory).map((name) => join(directory, name));
  const newestFirst = files.map((path) => ({ path, at: statSync(path).mtimeMs })).sort((a, b) => b.at - a.at);
  for (const { path } of newestFirst.slice(keptFiles)) rmSync(path, { force: true });
  return file;
}
