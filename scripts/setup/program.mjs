import { spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { SetupFailure } from './failure.mjs';
import { programPath } from './paths.mjs';

/** Where a program is, or undefined. */
export function findProgram(name) {
  for (const directory of programPath().split(delimiter)) {
    const path = join(directory, name);
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // Not in this directory.
    }
  }
  return undefined;
}

/**
 * Runs a program to its end without a terminal. Resolves to its standard output (at most 4 MiB); a failure carries
 * the last `keep` lines of both streams.
 */
export function run(program, args, { cwd, env, onLine, keep = 40 } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd,
      env: { ...process.env, PATH: programPath(), LC_ALL: 'C.UTF-8', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // What set-up began must not go on without it.
    const endWithUs = () => child.kill();
    process.once('exit', endWithUs);
    const last = [];
    let output = '';
    const onText = (line) => {
      last.push(line);
      if (last.length > keep) last.shift();
      onLine?.(line);
    };
    child.stdout.setEncoding('utf8').on('data', (text) => {
      if (output.length < 4 << 20) output += text;
    });
    splitLines(child.stdout, onText);
    splitLines(child.stderr.setEncoding('utf8'), onText);
    child.on('error', (error) => reject(new SetupFailure(`${program} did not start: ${error.message}`)));
    child.on('close', (code, signal) => {
      process.off('exit', endWithUs);
      if (code === 0) return resolve(output);
      const ending = `ended with ${signal ?? `status ${code}`}`;
      reject(new SetupFailure([`${[program, ...args].join(' ')} ${ending}`, ...last].join('\n  ')));
    });
  });
}

function splitLines(stream, onText) {
  let rest = '';
  stream.on('data', (text) => {
    const lines = (rest + text).split(/[\r\n]+/);
    rest = (lines.pop() ?? '').slice(-4096);
    for (const line of lines) if (line) onText(line.slice(0, 400));
  });
  stream.on('end', () => rest && onText(rest));
}
