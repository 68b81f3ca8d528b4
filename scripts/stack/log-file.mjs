import {
  appendFileSync,
  closeSync,
  copyFileSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';

const largest = 16 << 20;
const checkEveryMs = 10_000;

/** A log file of bounded size: what is over the bound moves to `<file>.1`, which replaces an older one. */
export function createLogFile(file) {
  if (sizeOf(file) > 0) renameSync(file, `${file}.1`);
  closeSync(openSync(file, 'a', 0o600));
  const timer = setInterval(() => {
    if (sizeOf(file) <= largest) return;
    try {
      copyFileSync(file, `${file}.1`);
    } catch {
      // A full disk: the log that is being written matters more than the one before it.
      rmSync(`${file}.1`, { force: true });
    }
    // The child keeps its descriptor, opened for appending: it goes on at the new end.
    truncateSync(file);
  }, checkEveryMs);
  timer.unref();
  return {
    file,
    /** A descriptor for a child; the caller closes it after the spawn. */
    open: () => openSync(file, 'a', 0o600),
    lastLines: (count) => lastLines(file, count),
    /** Adds a line of the supervisor's. */
    note(text) {
      try {
        appendFileSync(file, `${new Date().toISOString()} supervisor: ${text}\n`);
      } catch {
        // A full disk.
      }
    },
    close: () => clearInterval(timer),
  };
}

function sizeOf(file) {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function lastLines(file, count) {
  const descriptor = openSync(file, 'r');
  try {
    const size = sizeOf(file);
    const buffer = Buffer.alloc(Math.min(size, 16 << 10));
    const length = readSync(descriptor, buffer, 0, buffer.length, size - buffer.length);
    return buffer.toString('utf8', 0, length).trimEnd().split('\n').slice(-count);
  } finally {
    closeSync(descriptor);
  }
}
