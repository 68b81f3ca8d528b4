import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { eventually } from '../e2e/eventually.ts';
import { runDirectory } from '../run.ts';

const log = JSON.stringify(import.meta.resolve('../../services/shared/log.ts'));

let child: ChildProcess | undefined;
afterEach(() => child?.kill('SIGKILL'));

/** Runs a script with its standard output on a file; it hears of its standard input line by line. */
function run(script: string, output: string) {
  const stdout = openSync(output, 'a');
  const flags = ['--disable-warning=ExperimentalWarning', '--input-type=module-typescript', '-e'];
  const started = spawn(process.execPath, [...flags, script], { stdio: ['pipe', stdout, 'pipe'] });
  closeSync(stdout);
  let errors = '';
  started.stderr?.setEncoding('utf8').on('data', (text) => {
    errors += text;
  });
  child = started;
  return { child: started, errors: () => errors };
}

test('a log that cannot be written does not end the process', async () => {
  const { child, errors } = run(
    `import { createLog } from ${log};
     const log = createLog('test', 'info');
     for (let line = 0; line < 3; line++) log.info('line');
     setImmediate(() => console.error('still here'));`,
    '/dev/full',
  );
  const [code] = await once(child, 'close');
  expect({ code, errors: errors() }).toEqual({ code: 0, errors: 'still here\n' });
});

test.runIf(process.getuid?.() === 0)('lines wait while the disk is full, and those dropped are counted', async () => {
  const place = mkdtempSync(join(runDirectory(), 'log-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', place]);
  try {
    const file = join(place, 'log');
    const { child, errors } = run(
      `import { createLog } from ${log};
       const log = createLog('test', 'info');
       const text = 'x'.repeat(1000);
       for (let line = 0; line < 1500; line++) log.info({ line, text });
       process.stderr.write('written');
       process.stdin.resume().on('end', () => process.exit(0));`,
      file,
    );
    await eventually(() => expect(errors()).toBe('written'));
    expect(statSync(file).size).toBe(65_536);
    execFileSync('mount', ['-o', 'remount,size=16m', place]);
    await eventually(() => expect(readFileSync(file, 'utf8')).toContain('log lines were dropped'));
    child.stdin?.end();
    await once(child, 'close');
    const lines = readFileSync(file, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const kept = lines.filter(({ line }) => line !== undefined).map(({ line }) => line);
    expect(kept).toEqual(kept.map((_, index) => index));
    expect(lines.at(-1).lines + kept.length).toBe(1500);
  } finally {
    execFileSync('umount', [place]);
    rmSync(place, { recursive: true });
  }
});
