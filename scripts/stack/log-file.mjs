import { closeSync, copyFileSync, openSync, readSync, renameSync, statSync, truncateSync } from 'node:fs';

const largest = 16 << 20;
const checkEveryMs = 10_000;

/** A log file of bounded size: what is over the bound moves to `<file>.1`, which replaces an older one. */
export function createLogFile(file) {
  if (sizeOf(file) > 0) renameSync(file, `${file}.1`);
  closeSync(openSync(file, 'a', 0o600));
  const timer = setInterval(() => {
    if (sizeOf(file) <= largest) return;
    // The child keeps its descriptor, opened for appending: it goes on at the new end.
    copyFileSync(file, `${file}.1`);
    truncateSync(file);
  }, checkEveryMs);
  timer.unref();
  return {
    file,
    /** A descriptor for a child; the caller closes it after the spawn. */
    open: () => openSync(file, 'a', 0o600),
    lastLines: (count) => lastLines(file, count),
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
